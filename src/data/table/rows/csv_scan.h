/* Scans a row of CSV in memory: the scanner of csv and analyze. It finds one row, its cells and its
 * end, and reports faults as codes; the caller knows file and line and makes the message
 * (et_csv_fault_fail). Use from one thread at a time; only cells are allocated. */
#ifndef ETUDE_DATA_TABLE_ROWS_CSV_SCAN_H
#define ETUDE_DATA_TABLE_ROWS_CSV_SCAN_H

#include "data/table/rows/csv.h"

/* Columns of a row at most: an analysis needs about 7 KB for each. */
#define ET_CSV_COLUMNS_MAX 100000

/* Properties of some bytes: a scan skips the checks for absent ones. */
enum {
    ET_CSV_HAS_QUOTE = 1,
    ET_CSV_HAS_CR = 2,
    ET_CSV_HAS_NUL = 4,
    ET_CSV_HAS_HIGH = 8, /* beyond ASCII */
};
unsigned et_csv_contents(const char *bytes, size_t length);

typedef enum et_csv_found {
    ET_CSV_ROW,
    ET_CSV_SKIP, /* an empty line or a comment */
    ET_CSV_MORE, /* the row does not end in these bytes */
    ET_CSV_BAD,  /* see fault; next is the position where the following row may begin */
} et_csv_found;

typedef enum et_csv_fault {
    ET_CSV_FAULT_TEXT,    /* after a closing quote */
    ET_CSV_FAULT_CR,      /* alone, outside quotes */
    ET_CSV_FAULT_NUL,     /* a byte that is 0 */
    ET_CSV_FAULT_UTF8,    /* a byte that is not UTF-8 */
    ET_CSV_FAULT_COLUMNS, /* another number than expected */
    ET_CSV_FAULT_MANY,    /* more than ET_CSV_COLUMNS_MAX */
    ET_CSV_FAULT_QUOTE,   /* never closed; reported by a caller at the end of the bytes */
    ET_CSV_FAULT_LONG,    /* a row longer than ET_CSV_ROW_MAX; also reported by a caller */
    ET_CSV_FAULT_MEMORY,
} et_csv_fault;

/* How a cell was written. */
enum { ET_CELL_QUOTED = 1, ET_CELL_DOUBLED = 2 /* quotes in it */ };

typedef struct et_csv_scanner {
    /* the form of rows */
    char delimiter, comment;
    int columns;                /* expected; 0: any */
    int64_t columns_line;       /* line that decided the number; 0: given by the caller */
    const et_csv_known *known;  /* borrowed, for et_csv_guess; NULL: no facts */
    const char *const *missing; /* borrowed, ended by NULL */
    bool names;                 /* of rows only empty cells are missing; the caller clears it after
                                   the first row */
    bool missing_empty;         /* "" is among them */
    bool missing_added;         /* so are words that are missing in quotes, too */
    bool missing_first[256];    /* first bytes of these words */
    bool missing_last[256];     /* their last bytes */
    uint64_t missing_found;     /* a bit for each word that a cell had; the last bit is for all
                                   further words */
    /* the row found last */
    et_cell *cell;      /* [count]; owned */
    unsigned char *how; /* [count]: of each cell ET_CELL_*; owned */
    size_t capacity;    /* of both */
    int count;          /* number of columns; cells beyond columns + 1 are only counted */
    char *begin, *next; /* begin of the row, and the place after its end */
    int64_t lines;      /* line ends from begin to next */
    et_csv_fault fault; /* of BAD */
    const char *at;     /* BAD: the position of the fault. MORE: the position of the quote that is
                           still open, or NULL */
} et_csv_scanner;

/* Around a cell, outside of quotes. */
static inline bool et_csv_is_blank(const et_csv_scanner *scanner, char c)
{
    return c == ' ' || (c == '\t' && scanner->delimiter != '\t');
}

/* options NULL: defaults; delimiter 0 means a comma. release frees the cells. */
void et_csv_scanner_init(et_csv_scanner *scanner, const et_csv_options *options);
void et_csv_scanner_release(et_csv_scanner *scanner);

/* The row that begins at begin, of bytes up to limit. contents: ET_CSV_HAS_* of the bytes; more
 * flags are allowed. Cells point into the bytes; doubled quotes are made single in place once the
 * row is complete. */
et_csv_found et_csv_scan(et_csv_scanner *scanner, char *begin, char *limit, unsigned contents);

/* Call if the last row, read as names, has values: marks its missing cells. */
void et_csv_scanner_take_missing(et_csv_scanner *scanner);

/* LFs. */
int64_t et_csv_count_lines(const char *begin, const char *end);

/* The end of the last complete row in [begin, limit). begin is the start of a row, and the result
 * if no row is complete. Bad rows end as in et_csv_scan. */
char *et_csv_split(const et_csv_scanner *scanner, char *begin, char *limit, unsigned contents);

/* Guesses the delimiter (, ; tab) from up to `rows` complete rows: it divides all rows into the
 * same number of columns, and into the most columns. 0: no row is complete. If `known` is set, two
 * candidates come first: a delimiter with which half of the first row's cells are known names, then
 * the known delimiter. */
char et_csv_guess(const et_csv_scanner *scanner, const char *begin, const char *limit, int rows);

/* ET_EDATA or ET_ENOMEM with the scanner's fault in words; line: of the row's begin. */
int et_csv_fault_fail(const et_csv_scanner *scanner, const char *name, int64_t line,
                      et_error *error);

/* ---- csv.c: rows in bulk, for callers that scan them ---- */

typedef struct et_csv_block {
    char *begin, *end; /* whole rows; the same at the end of the file */
    unsigned contents; /* of them, or more */
    int64_t line;      /* of begin */
} et_csv_block;

/* The next rows, at most `wanted` bytes of them or one row; valid until the next call. After
 * ET_EDATA the block has the line of the row. */
int et_csv_next_block(et_csv *csv, size_t wanted, et_csv_block *block, et_error *error);

/* The form of the rows, after the first row, for other scanners: cells are not shared. */
void et_csv_form(const et_csv *csv, et_csv_scanner *scanner);

/* Bytes taken from a file before unpacking, from a pipe after unpacking; 0 for a stream. */
uint64_t et_csv_taken(const et_csv *csv);

#endif
