/* Lines of text: any number of files, plain or gzip, read as one stream. Text is UTF-8 and is
 * checked. A line ends in LF or CR LF or with its file. A byte order mark at the start of a file is
 * skipped. Errors, ET_EDATA or ET_EFORMAT with file and line: invalid UTF-8, NUL bytes, a line of
 * more than ET_TEXT_LINE_MAX bytes, truncated or damaged gzip. Memory: two buffers, for files of
 * any size.
 *
 *     et_text *text;
 *     et_text_line line;
 *     if (et_text_open(&text, &paths, &error)) ...
 *     while (!(status = et_text_next(text, &line, &error)) && line.text)
 *         use(line.text, line.length);
 *     et_text_close(text);
 *
 * Use a reader from one thread at a time. */
#ifndef ETUDE_DATA_TEXT_TEXT_H
#define ETUDE_DATA_TEXT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/fields/fields.h"
#include "base/files/checksum.h"

/* Longest line accepted, in bytes without its end. */
#define ET_TEXT_LINE_MAX ((size_t)1 << 20)

typedef struct et_text et_text;

typedef struct et_text_line {
    const char *text; /* not terminated; NULL at the end; valid until the next call of next or
                         close */
    size_t length;    /* bytes, without the line end */
    const char *path; /* of its file; borrowed from the list that open was given */
    size_t file;      /* index in that list */
    int64_t number;   /* in its file, from 1 */
} et_text_line;

/* Opens the first file; paths (at least one) must outlive the reader. Checks here that every file
 * is a readable regular file, so that a misspelt last path is found early. */
int et_text_open(et_text **out, const et_strings *paths, et_error *error);
void et_text_close(et_text *text); /* NULL allowed */

/* The next line. After a failure only close is allowed. */
int et_text_next(et_text *text, et_text_line *line, et_error *error);

/* Lines read so far, in all files together. */
int64_t et_text_count(const et_text *text);

/* Checks the beginning of a text without LF: the whole text, or more bytes than a line may have.
 * ET_EDATA: the text has CRs, which are line ends of old Macs and some exports. */
int et_text_check_first(const char *line, size_t size, const char *name, et_error *error);

/* Checks that a line, number of its file, from 1, is UTF-8 without NUL. ET_EDATA names the bad
 * byte, or what a file with such first bytes is. */
int et_text_check_line(const char *line, size_t length, const char *name, int64_t number,
                       et_error *error);

/* The first bytes of files that are not UTF-8 text: UTF-16 and packed files. */
typedef struct et_text_mark {
    char bytes[4];
    size_t length;
    const char *fault; /* what the file is, and the cure; NULL: the bytes are skipped */
} et_text_mark;

#define ET_TEXT_MARKS 7
extern const et_text_mark et_text_marks[ET_TEXT_MARKS];

/* Checksum of a file's bytes on disk; *length is their number. */
int et_text_checksum(uint64_t *checksum, uint64_t *length, const char *path, et_error *error);
/* Adds the checksums and lengths of files, and their number: one file "ab" and two files "a", "b"
 * have other line ends and other positions. */
int et_text_checksum_files(et_checksum_stream *stream, const et_strings *paths, et_error *error);

#endif
