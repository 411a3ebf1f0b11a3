/* A model of Marian in its binary format, version 1: named items, little-endian.
 *
 *   u64 1 | u64 n | n headers: u64 length of the name with its 0, type, dimensions, bytes of data
 *   n names, each with a 0 | n shapes, int32 a dimension | u64 p | p bytes | n times the data
 *
 * Data may be longer than their elements: writers fill them up to a multiple of 256 bytes. An item
 * of intgemm8 has a byte for each element, then one float32 m: a value is byte / m. The bytes of a
 * matrix [rows, columns] are stored as [columns, rows], except for a table of embeddings, whose
 * name contains "Wemb".
 *
 *     et_marian_model *model;
 *     if (et_marian_model_open(&model, bytes, length, "model.bin", &error)) ...
 *     const et_marian_item *item = et_marian_model_find(model, "encoder_l1_ffn_W1");
 *     if (et_marian_model_read(model, item, values, &error)) ...
 *     et_marian_model_close(model);
 *
 * Format: Marian's common/binary.cpp and tensors/cpu/integer_common.h. One thread at a time. */
#ifndef ETUDE_FORMATS_MARIAN_MARIAN_MODEL_H
#define ETUDE_FORMATS_MARIAN_MARIAN_MODEL_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/tensor.h>

/* ET_MARIAN_TYPE_BYTE: texts. ET_MARIAN_TYPE_OTHER: any other, which is not read. */
typedef enum et_marian_type {
    ET_MARIAN_TYPE_OTHER,
    ET_MARIAN_TYPE_FLOAT32,
    ET_MARIAN_TYPE_FLOAT16,
    ET_MARIAN_TYPE_BYTE,
    ET_MARIAN_TYPE_INTGEMM8,
} et_marian_type;

/* The ending of its name, and of a lexicon's. */
#define ET_MARIAN_BINARY ".bin"

/* Types as numbers in a file. */
#define ET_MARIAN_NUMBER_BYTE     0x101u
#define ET_MARIAN_NUMBER_FLOAT16  0x402u
#define ET_MARIAN_NUMBER_FLOAT32  0x404u
#define ET_MARIAN_NUMBER_INTGEMM8 0x4101u

/* After the name of a weight: the item with the multiplier of the rows that it is multiplied with.
 */
#define ET_MARIAN_MULTIPLIER "_QuantMultA"

typedef struct et_marian_item {
    const char *name;
    const char *type_name; /* "float32", or "0x4102" */
    et_marian_type type;
    et_shape shape;
    const char *data; /* [bytes] borrowed from the model */
    uint64_t bytes;
} et_marian_item;

typedef struct et_marian_model et_marian_model;

/* bytes become the model's (et_free), also after a failure. name: for messages, copied. ET_EFORMAT
 * names the place: damaged, two items of one name, bytes after the end, or no such file. */
int et_marian_model_open(et_marian_model **out, char *bytes, size_t length, const char *name,
                         et_error *error);
void et_marian_model_close(et_marian_model *model); /* NULL allowed */

size_t et_marian_model_count(const et_marian_model *model);
const et_marian_item *et_marian_model_at(const et_marian_model *model, size_t index);
const et_marian_item *et_marian_model_find(const et_marian_model *model, const char *name);

/* All elements as float32, in the order of the shape. The type must be one of the three of numbers.
 * ET_EFORMAT: m is no positive number. */
int et_marian_model_read(const et_marian_model *model, const et_marian_item *item, float *values,
                         et_error *error);

/* An item to write. A byte item has its bytes [size[0]], others are read as float32 in the order of
 * the shape; intgemm8 is written with m = 127 / the largest absolute value. */
typedef struct et_marian_written {
    const char *name;
    et_marian_type type; /* any but ET_MARIAN_TYPE_OTHER and _FLOAT16 */
    et_shape shape;
} et_marian_written;

/* *data: of the item, borrowed until the next call. */
typedef int et_marian_source(void *self, size_t item, const void **data, et_error *error);

int et_marian_model_write(const char *path, const et_marian_written *items, size_t count,
                          et_marian_source *source, void *self, et_error *error);

#endif
