/* Rows of CSV: RFC 4180 and common additions: any delimiter, quotes around fields with delimiters,
 * line ends or doubled quotes, comments, blanks around values, empty lines; LF and CR LF, a byte
 * order mark, gzip. Bad input is an error with file, line, column and cure: a row with another
 * number of fields, a quote that never ends (the line where it opened), text after a closing quote,
 * NUL, invalid UTF-8, a row longer than ET_CSV_ROW_MAX.
 *
 *     et_csv *csv;
 *     et_csv_row row;
 *     if (et_csv_open(&csv, "train.csv", NULL, &error)) ...
 *     while (!(status = et_csv_next(csv, &row, &error)) && row.count)
 *         use(row.cell[0].text, row.cell[0].length);
 *     et_csv_close(csv);
 *
 * Memory: a buffer and the longest row. Use from one thread at a time. */
#ifndef ETUDE_DATA_TABLE_ROWS_CSV_H
#define ETUDE_DATA_TABLE_ROWS_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#define ET_CSV_ROW_MAX    ((size_t)16 << 20) /* bytes */
#define ET_CSV_DELIMITERS ",;\t|"            /* delimiters that are detected */

/* A value of a row. */
typedef struct et_cell {
    const char *text; /* not terminated, quotes taken off; NULL: missing */
    size_t length;
} et_cell;

typedef struct et_csv_row {
    int64_t line;        /* line of its beginning, in its file, from 1 */
    int count;           /* 0: the end */
    const et_cell *cell; /* [count], valid until the next next */
} et_csv_row;

/* Facts from other files of the same kind, for a file whose delimiter is unknown. */
typedef struct et_csv_known {
    char delimiter;  /* of the other files: used if it divides all rows into least to most
                        columns */
    int least, most; /* columns, and no other one makes a header of the first row */
    /* Whether a cell of a header is text [length]; NULL: names are not known. */
    bool (*is_name)(const void *payload, const char *text, size_t length);
    const void *payload;
} et_csv_known;

typedef struct et_csv_options {
    char delimiter;             /* 0: guessed from the first rows (, ; tab |) */
    char comment;               /* lines that begin with this character are comments; 0: none */
    int columns;                /* columns that every row must have; 0: as many as the first row */
    const char *const *missing; /* texts that mean "no value" unless they are quoted; "" always
                                   does; ended by NULL, borrowed. A text that is a number matches
                                   that number in any spelling. NULL: et_csv_usual_missing */
    bool names;                 /* the first row may be a header, so only its empty cells are
                                   missing. If the row is not a header, et_csv_take_missing marks
                                   its other missing cells */
    const et_csv_known *known;  /* facts for finding the delimiter; NULL: none; borrowed until the
                                   first row is read */
} et_csv_options;

/* The texts that missing NULL means. */
#define ET_CSV_USUAL_MISSING                                                                       \
    "", "?", "NA", "N/A", "NaN", "nan", "null", "na", "n/a", "NULL", "None", "<NA>", "#N/A",       \
        "#N/A N/A", "#NA", "-NaN", "-nan", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN"
extern const char *const et_csv_usual_missing[]; /* ended by NULL */
/* The same list as text, for a hint to people whose target has classes with these names. */
#define ET_CSV_MISSING_HINT                                                                        \
    "outside quotes ?, NA, N/A, NaN, None and null mean a missing value; if one of them is a "     \
    "class, quote or rename it"
/* The index in missing (NULL: the usual texts) of a text [length]; -1: not missing. "-999" is also
 * -999.0 and -9.99e2, but no code with zeros before it. quoted: only texts that
 * et_csv_missing_with added are missing. */
int et_csv_missing_index(const char *const *missing, const char *text, size_t length, bool quoted);
/* These and more, borrowed, in a new array; NULL: no memory. Free it with et_free. Quotes do not
 * make values of the texts that were added. */
const char **et_csv_missing_with(const char *const *more, size_t count);

/* Parses a delimiter or a comment character from the user: a character, "tab", or "\t". NULL and ""
 * give 0, none. False: another text. */
bool et_csv_character(char *out, const char *text);

bool et_csv_may_delimit(char c); /* tabs and printable ASCII but quotes */

typedef struct et_csv et_csv;

int et_csv_open(et_csv **out, const char *path, const et_csv_options *options, et_error *error);
/* Also opens files that can be read only once: a pipe, /dev/stdin. */
int et_csv_open_once(et_csv **out, const char *path, const et_csv_options *options,
                     et_error *error);
/* Reads from a descriptor, which the caller owns. A row is returned as soon as its line has
 * arrived. name: for messages. */
int et_csv_open_stream(et_csv **out, int descriptor, const char *name,
                       const et_csv_options *options, et_error *error);
/* Reads text [length] in memory, which is borrowed, is changed (cells point into it), and must have
 * room for one more byte. */
int et_csv_open_text(et_csv **out, char *text, size_t length, const char *name,
                     const et_csv_options *options, et_error *error);
void et_csv_close(et_csv *csv); /* NULL allowed */

/* keep: call before the first row; keeps all bytes that are read from then on. again: goes back to
 * the beginning, once, with other options. kept: number of bytes so far. */
void et_csv_keep(et_csv *csv);
size_t et_csv_kept(const et_csv *csv);
int et_csv_again(et_csv *csv, const et_csv_options *options, et_error *error);

/* The next row. After ET_EDATA, reading may continue after the row (*row has its line); after other
 * failures, only close is allowed. */
int et_csv_next(et_csv *csv, et_csv_row *row, et_error *error);

/* With names: the caller reports that the first row, which was the last read, is not a header. */
void et_csv_take_missing(et_csv *csv);

char et_csv_delimiter(const et_csv *csv); /* in use; 0: nothing was read yet */
/* For a stream: whether the next row has to wait for input. A row whose first line has arrived does
 * not wait, unless this line ends inside quotes. */
bool et_csv_waits(const et_csv *csv);

#endif
