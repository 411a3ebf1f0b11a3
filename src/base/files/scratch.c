#include "base/files/scratch.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"

int et_scratch_open(char **directory, const char *name, et_error *error)
{
    const char *position = getenv("TMPDIR");
    et_strbuf path = ET_STRBUF_INIT;
    et_strbuf_printf(&path, "%s/%s.XXXXXX", position && *position ? position : "/tmp", name);
    *directory = path.failed ? NULL : et_strdup(et_strbuf_text(&path));
    et_strbuf_release(&path);
    if (!*directory)
        return et_alloc_failed(error, 0, "a path");
    if (mkdtemp(*directory))
        return ET_OK;
    int status = et_fail_errno(error, "%s", *directory);
    et_free(*directory);
    *directory = NULL;
    return et_fail_while(error, status, "a temporary directory in TMPDIR (default: /tmp)");
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info, (void)kind, (void)at;
    remove(path);
    return 0;
}

/* Made by mkdtemp, so all that is in it is of this process. */
void et_scratch_close(char *directory)
{
    if (directory)
        nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    et_free(directory);
}
