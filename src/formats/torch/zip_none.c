/* Replaces zip_archive.c in a build without libzip: no archive can be opened. */
#include "formats/torch/zip_archive.h"

#include <stddef.h>

#include "base/assert.h"

int et_zip_open(et_zip **out, const char *name, const void *bytes, size_t length, et_error *error)
{
    (void)bytes, (void)length;
    *out = NULL;
    return et_fail(error, ET_ECONFIG,
                   "%s: zip archives need libzip, but this etude was built without: install "
                   "libzip-dev and build again with -DETUDE_ZIP=ON, or take model.safetensors",
                   name);
}

void et_zip_close(et_zip *zip)
{
    et_assert(!zip);
}

int64_t et_zip_count(const et_zip *zip)
{
    (void)zip;
    return 0;
}

const char *et_zip_name(const et_zip *zip, int64_t index)
{
    (void)zip, (void)index;
    return NULL;
}

int64_t et_zip_find(const et_zip *zip, const char *name)
{
    (void)zip, (void)name;
    return -1;
}

int et_zip_length(const et_zip *zip, int64_t index, uint64_t *length, et_error *error)
{
    (void)index, (void)length;
    et_assert(!zip);
    return et_fail(error, ET_ECONFIG, "this etude was built without libzip");
}

int et_zip_read(const et_zip *zip, int64_t index, uint64_t from, void *bytes, uint64_t length,
                et_error *error)
{
    (void)index, (void)from, (void)bytes, (void)length;
    et_assert(!zip);
    return et_fail(error, ET_ECONFIG, "this etude was built without libzip");
}
