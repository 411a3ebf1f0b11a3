/* Named arrays of numpy in one file: "NAME.npz", a zip archive whose files are "ARRAY.npy", each
 *
 *   "\x93NUMPY" | u8 major, u8 minor | length of the header, u16 (major 1) or u32 | header | data
 *
 * The header is a dict in Python's words: {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3),
 * }. Data are read from little-endian arrays in C's order.
 *
 *     et_npz *npz;
 *     if (et_npz_open(&npz, "model.npz", &error)) ...
 *     const et_npz_array *array = et_npz_find(npz, "decoder_ff_logit_out_b");
 *     if (et_npz_read(npz, array, bytes, &error)) ...
 *     et_npz_close(npz);
 *
 * Format: numpy/lib/format.py. One thread at a time. */
#ifndef ETUDE_FORMATS_NUMPY_NPZ_H
#define ETUDE_FORMATS_NUMPY_NPZ_H

#include <stdint.h>

#include <etude/error.h>
#include <etude/tensor.h>

/* Types of elements; ET_NPZ_OTHER: any other, which is not read. */
typedef enum et_npz_type { ET_NPZ_OTHER, ET_NPZ_FLOAT32, ET_NPZ_FLOAT16, ET_NPZ_BYTE } et_npz_type;

typedef struct et_npz_array {
    const char *name;
    const char *type_name; /* "<f4" */
    et_npz_type type;
    et_shape shape;
    int64_t file;   /* its number in the archive */
    uint64_t begin; /* where its data begin there */
    uint64_t bytes; /* of the data */
} et_npz_array;

typedef struct et_npz et_npz;

/* Reads the headers of all arrays. ET_EFORMAT: damaged, or no such archive. */
int et_npz_open(et_npz **out, const char *path, et_error *error);

/* The same of bytes, which become the archive's (et_free), also after a failure. name: for
 * messages. */
int et_npz_open_memory(et_npz **out, char *bytes, size_t length, const char *name, et_error *error);
void et_npz_close(et_npz *npz); /* NULL allowed */

size_t et_npz_count(const et_npz *npz);
const et_npz_array *et_npz_at(const et_npz *npz, size_t index);
const et_npz_array *et_npz_find(const et_npz *npz, const char *name); /* NULL: there is none */

/* All array->bytes of the data. ET_EFORMAT: there are fewer, or they are damaged. */
int et_npz_read(const et_npz *npz, const et_npz_array *array, void *bytes, et_error *error);

/* ---- writing ---- */

/* An array to write: elements of float32 or bytes. */
typedef struct et_npz_item {
    const char *name;
    et_npz_type type;
    et_shape shape;
    const void *data; /* NULL: read gives them */
} et_npz_item;

/* Gives the data of items[item], borrowed until the next call; called once for each. */
typedef int et_npz_read_fn(void *self, size_t item, const void **data, et_error *error);

/* Writes an archive without compression, atomically, as numpy reads it. read NULL: no data is
 * missing. Equal input gives equal bytes. ET_EFAIL: more than 4 GiB. */
int et_npz_write(const char *path, const et_npz_item *items, size_t count, et_npz_read_fn *read,
                 void *self, et_error *error);

#endif
