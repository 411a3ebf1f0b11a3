#include "io/checksum.h"

#include <xxhash.h>

#include "base/alloc.h"
#include "base/assert.h"

struct et_checksum_stream {
    XXH3_state_t *state; /* owned; wants 64-byte alignment, so the library makes it */
};

uint64_t et_checksum(const void *bytes, size_t length)
{
    et_assert(bytes != NULL || length == 0);
    return XXH3_64bits(bytes, length);
}

et_checksum_text et_checksum_print(uint64_t checksum)
{
    static const char digits[] = "0123456789abcdef";
    et_checksum_text text;
    for (int i = 0; i < ET_CHECKSUM_DIGITS; i++)
        text.digits[i] = digits[(checksum >> (60 - 4 * i)) & 15];
    text.digits[ET_CHECKSUM_DIGITS] = '\0';
    return text;
}

bool et_checksum_parse(uint64_t *out, const char *digits)
{
    uint64_t value = 0;
    for (int i = 0; i < ET_CHECKSUM_DIGITS; i++) {
        const char c = digits[i];
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

int et_checksum_stream_open(et_checksum_stream **out, et_error *error)
{
    *out = NULL;
    et_checksum_stream *stream = et_alloc_zero(1, sizeof *stream);
    if (stream == NULL)
        return et_alloc_failed(error, sizeof *stream, "a checksum");
    stream->state = XXH3_createState();
    if (stream->state == NULL) {
        et_free(stream);
        return et_alloc_failed(error, sizeof *stream, "a checksum");
    }
    XXH3_64bits_reset(stream->state);
    *out = stream;
    return ET_OK;
}

void et_checksum_stream_add(et_checksum_stream *stream, const void *bytes, size_t length)
{
    et_assert(bytes != NULL || length == 0);
    XXH3_64bits_update(stream->state, bytes, length);
}

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
