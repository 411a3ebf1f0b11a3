/* XXH3 with 64 bits: guards checkpoints and caches against flipped bits. Only this module uses
 * xxHash. Not a defence against an attacker. Thread-safe.
 *
 *     et_checksum_text text = et_checksum_print(et_checksum(bytes, length));
 *     printf("%s\n", text.digits);
 */
#ifndef ETUDE_BASE_FILES_CHECKSUM_H
#define ETUDE_BASE_FILES_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#define ET_CHECKSUM_DIGITS 16

typedef struct et_checksum_text {
    char digits[ET_CHECKSUM_DIGITS + 1]; /* lower-case hexadecimal, terminated */
} et_checksum_text;

/* XXH3-64 of length bytes with seed 0. */
uint64_t et_checksum(const void *bytes, size_t length);

et_checksum_text et_checksum_print(uint64_t checksum);

/* Reads exactly 16 lower-case hexadecimal digits and the end of the text; false for anything
 * else. */
bool et_checksum_parse(uint64_t *out, const char *digits);

/* The checksum of bytes that come in pieces; the same value as in one. */
typedef struct et_checksum_stream et_checksum_stream;

int et_checksum_stream_open(et_checksum_stream **out, et_error *error);
void et_checksum_stream_add(et_checksum_stream *stream, const void *bytes, size_t length);
uint64_t et_checksum_stream_value(const et_checksum_stream *stream);
void et_checksum_stream_close(et_checksum_stream *stream); /* NULL allowed */

#endif
