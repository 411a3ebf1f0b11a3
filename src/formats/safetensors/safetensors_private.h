/* Shared by writer and reader of safetensors files: names of dtypes, numbers of bytes, and the seal
 * (see safetensors.h), which is at a fixed position so that it can be checked before the header is
 * parsed. Private to safetensors*.c. */
#ifndef ETUDE_FORMATS_SAFETENSORS_SAFETENSORS_PRIVATE_H
#define ETUDE_FORMATS_SAFETENSORS_SAFETENSORS_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/tensor.h>

#include "formats/safetensors/safetensors.h"

#define ET_SAFETENSORS_KEY_FORMAT "format"
#define ET_SAFETENSORS_KEY_HEADER "header_checksum"
#define ET_SAFETENSORS_KEY_TENSOR "checksum/"

/* How every sealed header begins; the digits of the header's checksum follow. */
#define ET_SAFETENSORS_SEAL                                                                        \
    "{\"" ET_TENSOR_METADATA "\":{\"" ET_SAFETENSORS_KEY_FORMAT "\":\"" ET_SAFETENSORS_FORMAT      \
    "\",\"" ET_SAFETENSORS_KEY_HEADER "\":\""

#define ET_SAFETENSORS_PREFIX    8  /* bytes of the header's length */
#define ET_SAFETENSORS_ALIGNMENT 64 /* of the data in the file */

/* Position of the 16 digits in length + header. */
size_t et_safetensors_seal_position(void);

/* XXH3-64 of length + header, the digits taken as zeros. */
int et_safetensors_seal_compute(uint64_t *out, const char *head, size_t size, et_error *error);

/* "F32" and so on, also of ET_SAFETENSORS_F16. Static. */
const char *et_safetensors_dtype_name(et_dtype dtype);

/* Bytes of an element. */
size_t et_safetensors_element(et_dtype dtype);

/* Bytes of a tensor; false if the product does not fit. Sizes are not negative. */
bool et_safetensors_bytes(uint64_t *out, et_dtype dtype, et_shape shape);

#endif
