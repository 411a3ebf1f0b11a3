/* Files in a zip archive, read only: by libzip, which is loaded when the first archive is opened.
 * Nothing is unpacked: a file of an archive is read by its name, so a name has no meaning for the
 * disk.
 *
 *     et_zip *zip;
 *     if (et_zip_open(&zip, "pytorch_model.bin", &error)) ...
 *     if (et_zip_read(zip, index, 0, bytes, length, &error)) ...
 *     et_zip_close(zip);
 *
 * An open archive is read by one thread at a time. */
#ifndef ETUDE_FORMATS_TORCH_ZIP_ARCHIVE_H
#define ETUDE_FORMATS_TORCH_ZIP_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_zip et_zip;

/* ET_EFORMAT: no archive, or a damaged one. ET_ECONFIG: this build has no libzip; ET_ENOTFOUND: it
 * is not installed. bytes NULL: the file of the name. Else they must stay until close, and the name
 * is for messages. */
int et_zip_open(et_zip **out, const char *name, const void *bytes, size_t length, et_error *error);
void et_zip_close(et_zip *zip); /* NULL allowed */

int64_t et_zip_count(const et_zip *zip);

/* The name of a file, borrowed until close; NULL: it has none. */
const char *et_zip_name(const et_zip *zip, int64_t index);

/* The number of the file with this name; -1: no such file. */
int64_t et_zip_find(const et_zip *zip, const char *name);

/* The length of a file in bytes, according to the archive. ET_EFORMAT: no length, or a length above
 * 16 MiB and 100 times the packed length (a zip bomb). */
int et_zip_length(const et_zip *zip, int64_t index, uint64_t *length, et_error *error);

/* Reads `length` bytes of a file, beginning at byte `from`. Never unpacks more, whatever length the
 * archive declares. ET_EFORMAT: the file is shorter or damaged. */
int et_zip_read(const et_zip *zip, int64_t index, uint64_t from, void *bytes, uint64_t length,
                et_error *error);

#endif
