/* A file of weights that torch.save wrote: "pytorch_model.bin". Either a zip archive
 *
 *     NAME/data.pkl    the pickle (pickle.h)
 *     NAME/data/0      the bytes of storage "0", ...
 *     NAME/byteorder   "little"; older files lack it
 *
 * or, before PyTorch 1.6, four pickles (a magic number, the format's version, facts about the
 * machine, the dict), a pickle with the names of storages, and for each storage its number of
 * elements (8 bytes) and its bytes.
 *
 *     et_torch_file *file;
 *     if (et_torch_file_open(&file, "pytorch_model.bin", &error)) ...
 *     const et_pickle_tensor *tensor = et_torch_file_at(file, 0);
 *     if (et_torch_file_read(file, tensor, bytes, &error)) ...
 *     et_torch_file_close(file);
 *
 * One thread at a time. Code of a file is never run. */
#ifndef ETUDE_FORMATS_TORCH_TORCH_FILE_H
#define ETUDE_FORMATS_TORCH_TORCH_FILE_H

#include "formats/torch/pickle.h"

/* The largest pickle that is read, in bytes. */
#define ET_TORCH_PICKLE_MAX ((size_t)64 << 20)

typedef struct et_torch_file et_torch_file;

/* ET_EFORMAT: no such file, damaged, or with objects that a dict of tensors does not need. */
int et_torch_file_open(et_torch_file **out, const char *path, et_error *error);
void et_torch_file_close(et_torch_file *file); /* NULL allowed */

/* The tensors, in the order of the dict; of two with one name Python would take the last. */
size_t et_torch_file_count(const et_torch_file *file);
const et_pickle_tensor *et_torch_file_at(const et_torch_file *file, size_t index);

/* Its elements, as they are stored: count of its shape times storage->width bytes. ET_EFORMAT: the
 * storage is missing, or has another length. */
int et_torch_file_read(const et_torch_file *file, const et_pickle_tensor *tensor, void *bytes,
                       et_error *error);

#endif
