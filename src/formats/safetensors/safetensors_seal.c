/* The seal begins every header that Etude writes, at byte 8 of the file:
 *
 *   {"__metadata__":{"format":"etude-1","header_checksum":"................"
 *                                                          ^ et_safetensors_seal_position
 *
 * So its digits are found without parsing JSON, and a header with any flipped bit fails before a
 * parser sees it. The seal is valid JSON, and readers of the public format ignore it. */
#include "formats/safetensors/safetensors_seal.h"

#include <string.h>

#include "base/assert.h"
#include "base/files/checksum.h"

static const char seal[] = ET_SAFETENSORS_SEAL;

/* Byte for byte: a program that read and wrote the file again will have other spaces or another
 * order, and has unsealed it. */
bool et_safetensors_seal_found(const char *head, size_t size)
{
    return size >= et_safetensors_seal_position() + ET_CHECKSUM_DIGITS &&
           memcmp(head + ET_SAFETENSORS_PREFIX, seal, sizeof seal - 1) == 0;
}

size_t et_safetensors_seal_position(void)
{
    return ET_SAFETENSORS_PREFIX + sizeof seal - 1;
}

/* In three pieces, so that the header need not be copied to put zeros into it. */
int et_safetensors_seal_compute(uint64_t *out, const char *head, size_t size, et_error *error)
{
    static const char zeros[] = "0000000000000000";
    const size_t digits = et_safetensors_seal_position();
    const size_t rest = digits + ET_CHECKSUM_DIGITS;
    et_assert(size >= rest && sizeof zeros - 1 == ET_CHECKSUM_DIGITS);
    et_checksum_stream *stream;
    const int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    et_checksum_stream_add(stream, head, digits);
    et_checksum_stream_add(stream, zeros, ET_CHECKSUM_DIGITS);
    et_checksum_stream_add(stream, head + rest, size - rest);
    *out = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return ET_OK;
}

/* In the spelling of the public format. ORDER et_dtype. */
const char *et_safetensors_dtype_name(et_dtype dtype)
{
    static const char *const names[ET_SAFETENSORS_F16 + 1] = {
        [ET_F32] = "F32", [ET_BF16] = "BF16", [ET_I32] = "I32",
        [ET_U8] = "U8",   [ET_I8] = "I8",     [ET_SAFETENSORS_F16] = "F16",
    };
    et_assert(dtype <= ET_SAFETENSORS_F16);
    return names[dtype];
}

size_t et_safetensors_element(et_dtype dtype)
{
    return dtype == ET_SAFETENSORS_F16 ? 2 : et_dtype_size(dtype);
}

/* At most INT64_MAX, so that sums of two never overflow uint64_t. */
bool et_safetensors_bytes(uint64_t *out, et_dtype dtype, et_shape shape)
{
    et_assert(shape.rank >= 0 && shape.rank <= ET_RANK_MAX);
    uint64_t bytes = et_safetensors_element(dtype);
    for (int i = 0; i < shape.rank; i++) {
        et_assert(shape.size[i] >= 0);
        if (__builtin_mul_overflow(bytes, (uint64_t)shape.size[i], &bytes))
            return false;
    }
    *out = bytes;
    return bytes <= INT64_MAX;
}
