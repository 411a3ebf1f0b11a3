/* XXH3 (Yann Collet, xxHash 0.8): 64 bits, many gigabytes per second, so verifying a checkpoint
 * costs little more than reading it. One call for bytes in memory, a stream for bytes in pieces;
 * both give the same value. It is not cryptographic: anyone can make another file with the same
 * checksum. */
#include "base/files/checksum.h"

#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"

struct et_checksum_stream {
    XXH3_state_t *state; /* owned; wants 64-byte alignment, so the library makes it */
};

/* With the library's default seed, 0: what xxhsum -H3 prints. */
uint64_t et_checksum(const void *bytes, size_t length)
{
    et_assert(bytes != NULL || length == 0);
    return XXH3_64bits(bytes, length);
}

/* 255 -> "00000000000000ff": always 16 digits, the highest first, so that texts of checksums
 * have one length and a file's layout does not depend on its contents. */
et_checksum_text et_checksum_print(uint64_t checksum)
{
    static const char digits[] = "0123456789abcdef";
    et_checksum_text text;
    for (int i = 0; i < ET_CHECKSUM_DIGITS; i++)
        text.digits[i] = digits[(checksum >> (60 - 4 * i)) & 15];
    text.digits[ET_CHECKSUM_DIGITS] = '\0';
    return text;
}

/* Stricter than strtoull: no sign, no spaces, no capitals, so there is one text for each number. */
bool et_checksum_parse(uint64_t *out, const char *digits)
{
    et_assert(digits);
    uint64_t value = 0;
    for (int i = 0; i < ET_CHECKSUM_DIGITS; i++) {
        const char c = digits[i];
        /* A 0 within the digits ends the loop, since it is no digit: bytes after it are not
         * read. */
        if (c >= '0' && c <= '9')
            value = value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        else
            return false;
    }
    *out = value;
    return digits[ET_CHECKSUM_DIGITS] == '\0';
}

/* The library's state is made by the library: it wants 64-byte alignment. */
int et_checksum_stream_open(et_checksum_stream **out, et_error *error)
{
    *out = NULL;
    et_checksum_stream *stream = et_alloc_zero(1, sizeof *stream);
    if (stream == NULL)
        return et_alloc_failed(error, "a checksum");
    stream->state = XXH3_createState();
    if (stream->state == NULL) {
        et_free(stream);
        return et_alloc_failed(error, "a checksum");
    }
    XXH3_64bits_reset(stream->state);
    *out = stream;
    return ET_OK;
}

/* No bytes change nothing. */
void et_checksum_stream_add(et_checksum_stream *stream, const void *bytes, size_t length)
{
    et_assert(bytes != NULL || length == 0);
    XXH3_64bits_update(stream->state, bytes, length);
}

/* The checksum of all bytes added so far; more may be added afterwards. */
uint64_t et_checksum_stream_value(const et_checksum_stream *stream)
{
    return XXH3_64bits_digest(stream->state);
}

void et_checksum_stream_close(et_checksum_stream *stream)
{
    if (stream == NULL)
        return;
    XXH3_freeState(stream->state);
    et_free(stream);
}
