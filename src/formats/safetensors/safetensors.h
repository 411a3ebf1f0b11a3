/* Named arrays in a file: the safetensors format, with checksums in its metadata. Any reader of the
 * public format can open the files.
 *
 *    u64 N, little-endian | JSON header, N bytes, padded with spaces | data
 *
 * The header maps a name to dtype, shape and data_offsets; `__metadata__` maps strings to strings.
 * Etude's files are *sealed*: `__metadata__` has "format", for each tensor "checksum/<name>"
 * (XXH3-64, 16 hexadecimal digits), and "header_checksum" over length and header with its own
 * digits read as zeros, so every flipped bit is found. Data begins at a multiple of 64; wide
 * elements come before narrow ones, so each tensor is aligned.
 *
 * Reading maps the file and checks all of the structure before it uses anything. Contents are
 * compared with their checksums only on request. Truncating a mapped file breaks the reader (files
 * published by rename are never changed).
 *
 *     et_safetensors *file;
 *     if (et_safetensors_open(&file, path, &error) || et_safetensors_verify(file, &error)) ...
 *     const et_safetensors_tensor *w = et_safetensors_find(file, "logits/weight");
 *     et_safetensors_close(file);
 *
 * Threads: an open file may be read by many. */
#ifndef ETUDE_FORMATS_SAFETENSORS_SAFETENSORS_H
#define ETUDE_FORMATS_SAFETENSORS_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>
#include <etude/tensor.h>

#include "base/files/file.h"
#include <etude/value.h>

#define ET_SAFETENSORS_FORMAT     "etude-1"
#define ET_SAFETENSORS_SUFFIX     ".safetensors" /* of a file's name */
#define ET_SAFETENSORS_HEADER_MAX 100000000      /* bytes of JSON; the public reader's limit */

/* Whether a path ends like a safetensors file. */
bool et_safetensors_is_name(const char *path);

/* dtype of a float16 tensor in another program's file. It is not a dtype of Etude, so code that
 * does not know it refuses such a tensor. Elements have 2 bytes (base/dtype.h). */
#define ET_SAFETENSORS_F16 ET_DTYPE_COUNT

/* ---- writing ---- */

typedef struct et_safetensors_item {
    const char *name; /* unique, not "__metadata__" */
    et_tensor tensor; /* must not change during the write */
} et_safetensors_item;

/* A reader of values that are not in memory, for items whose data is NULL: passes all bytes of
 * items[item] to take, from first to last, in pieces. The reader is called twice for each item and
 * must give the same values. */
typedef int et_safetensors_take_fn(void *payload, const void *bytes, size_t size, et_error *error);
typedef struct et_safetensors_reader {
    int (*read)(void *self, size_t item, et_safetensors_take_fn *take, void *payload,
                et_error *error);
    void *self;
} et_safetensors_reader;

/* Facts about the written file: for the manifest. */
typedef struct et_safetensors_written {
    uint64_t bytes;    /* length of the file */
    uint64_t checksum; /* XXH3-64 of the whole file */
} et_safetensors_written;

/* Writes a sealed file, atomically and durably. metadata: a dict of strings, or NULL; keys
 * "format", "header_checksum" and "checksum/..." are taken. Equal input gives equal bytes.
 * Needs memory for the header only. A disk that is too full is found before writing. */
int et_safetensors_write(et_safetensors_written *written, const char *path,
                         const et_safetensors_item *items, size_t count, const et_value *metadata,
                         et_error *error);

/* The first half of et_safetensors_write: all bytes are in the file, under its temporary name, and
 * items are no longer needed. On success exactly one of et_file_writer_commit and
 * et_file_writer_abandon must follow. reader NULL: all items are in memory. */
int et_safetensors_draft(et_file_writer *writer, et_safetensors_written *written, const char *path,
                         const et_safetensors_item *items, size_t count,
                         const et_safetensors_reader *reader, const et_value *metadata,
                         et_error *error);

/* A file for another program: without seal and checksums. format: the format in its metadata, such
 * as "pt" for PyTorch. An item may have ET_SAFETENSORS_F16. */
int et_safetensors_write_foreign(const char *path, const char *format,
                                 const et_safetensors_item *items, size_t count,
                                 const et_safetensors_reader *reader, et_error *error);

/* ---- reading ---- */

typedef struct et_safetensors et_safetensors;

typedef struct et_safetensors_tensor {
    const char *name;
    et_dtype dtype;
    et_shape shape;
    const void *data; /* in the mapping; aligned to its element if the file is sealed */
    uint64_t bytes;
    uint64_t position; /* of the first byte in the file */
    uint64_t checksum; /* as the file says; sealed files only */
} et_safetensors_tensor;

/* Opens a sealed file: structure and header checksum are sound on success. */
int et_safetensors_open(et_safetensors **out, const char *path, et_error *error);

/* The same, and files without seal from other programs as well. */
int et_safetensors_open_foreign(et_safetensors **out, const char *path, et_error *error);

/* The same as et_safetensors_open for a file in memory, which must not change until close; name is
 * for messages (copied). bytes may have any alignment, and its tensors are aligned relative to it.
 */
int et_safetensors_open_memory(et_safetensors **out, const void *bytes, size_t length,
                               const char *name, et_error *error);

void et_safetensors_close(et_safetensors *file); /* NULL allowed */

/* Compares one tensor's bytes with its checksum. ET_EFORMAT: "<path>: damaged: <name>:
 * checksum ..., file says ... (byte N)". A file without seal passes. */
int et_safetensors_verify_tensor(const et_safetensors *file, const et_safetensors_tensor *tensor,
                                 et_error *error);

/* The same for all; stops at the first that is damaged. */
int et_safetensors_verify(const et_safetensors *file, et_error *error);

/* A tensor's bytes no longer count as memory of the process until they are read again. */
void et_safetensors_forget(const et_safetensors *file, const et_safetensors_tensor *tensor);

/* A tensor's bytes may be changed in memory, of a file that is not the caller's memory. Do not
 * forget the tensor afterwards. */
int et_safetensors_unlock(const et_safetensors *file, const et_safetensors_tensor *tensor,
                          et_error *error);

/* Getters; results are valid until close. */
bool et_safetensors_sealed(const et_safetensors *file);
bool et_safetensors_in_memory(const et_safetensors *file); /* the caller's */
size_t et_safetensors_count(const et_safetensors *file);
/* In the order of the data. */
const et_safetensors_tensor *et_safetensors_at(const et_safetensors *file, size_t index);
/* NULL: no tensor has that name. */
const et_safetensors_tensor *et_safetensors_find(const et_safetensors *file, const char *name);
/* The value of a key of `__metadata__`; NULL: no such key. */
const char *et_safetensors_metadata(const et_safetensors *file, const char *key);

/* Names of tensors: keys of the files that hold them (formats/safetensors/safetensors.h), printed
 * to terminals. A name that no file can have is refused when a tensor is named, long before the
 * first file is written. */

#define ET_TENSOR_METADATA "__metadata__" /* the key of such a file that is no tensor's */

/* Whether a name is UTF-8 without control characters, U+0080 to U+009F among them. */
bool et_tensor_name_sound(const char *name);

/* The reason why no file can have a name, such as "has control characters"; NULL: the name is
 * valid. Static. */
const char *et_tensor_name_fault(const char *name);

/* A name for messages, by value: control characters and invalid UTF-8 bytes as "\x1b"; cut if it is
 * too long. */
typedef struct et_tensor_name {
    char text[256]; /* terminated */
} et_tensor_name;

et_tensor_name et_tensor_name_escaped(const char *name);

#endif
