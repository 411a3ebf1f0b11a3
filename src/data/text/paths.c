/* A path is first looked up literally. Otherwise it is cut at commas, and each part is a path or a
 * pattern. glob is told not to sort, because its order depends on the locale. */
#include "data/text/paths.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/sort.h"
#include "base/vector.h"

/* The files so far; the array is the arena's only when all are found. */
typedef struct list {
    const char **items; /* owned */
    size_t count, capacity;
    const char *setting;
    et_arena *arena;
    et_error *error;
    int status; /* the first failure, after which no path is added */
} list;

static bool is_pattern(const char *path)
{
    return strpbrk(path, "*?") != NULL;
}

static void no_memory(list *self)
{
    self->status = et_alloc_failed(self->error, "paths");
}

/* Puts the setting's name before the message. */
static void blame(list *self, int status)
{
    self->status = self->setting ? et_fail_while(self->error, status, "%s", self->setting) : status;
}

static void add(list *self, const char *path)
{
    const char *copy = et_arena_strdup(self->arena, path);
    if (!copy || !ET_VECTOR_APPEND(self->items, self->count, self->capacity, copy))
        no_memory(self);
}

ET_SORT_BY(by_bytes, char *const, strcmp(*a, *b), 0)

static void add_matches(list *self, const char *pattern)
{
    glob_t found;
    const int result = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (result == GLOB_NOSPACE)
        no_memory(self);
    else if (result == GLOB_NOMATCH)
        blame(self,
              et_fail(self->error, ET_EDATA, "no file matches %s; name existing files", pattern));
    else if (result)
        self->status = et_fail_errno(self->error, "cannot search for %s", pattern);
    if (result)
        return;
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    for (size_t i = 0; !self->status && i < found.gl_pathc; i++)
        add(self, found.gl_pathv[i]);
    globfree(&found);
}

/* Adds each part between commas, without the spaces around it. */
static void add_parts(list *self, const char *path)
{
    do {
        struct stat info;
        path += strspn(path, " \t");
        size_t length = strcspn(path, ","), kept = length;
        while (kept && strchr(" \t", path[kept - 1]))
            kept--;
        const char *part = et_arena_strndup(self->arena, path, kept);
        if (!part)
            no_memory(self);
        else if (!kept)
            blame(self, et_fail(self->error, ET_EDATA,
                                "a path is empty; name a file, or remove the comma"));
        else if (is_pattern(part))
            add_matches(self, part);
        else if (stat(part, &info))
            self->status = et_fail_errno(self->error, "cannot open %s", part);
        else
            add(self, part);
        path += length;
    } while (!self->status && *path++);
}

int et_paths_match(et_strings *out, const et_strings *given, const char *setting, et_arena *arena,
                   et_error *error)
{
    list self = { .setting = setting, .arena = arena, .error = error };
    *out = (et_strings){ NULL, 0 };
    for (size_t i = 0; !self.status && i < given->count; i++) {
        const char *path = given->items[i] ? given->items[i] : "";
        if (*path && et_file_exists(path))
            add(&self, path);
        else
            add_parts(&self, path);
    }
    const char **items =
        self.status || !self.count ? NULL : et_arena_array(arena, self.count, sizeof *items);
    if (items) {
        memcpy(items, self.items, self.count * sizeof *items);
        *out = (et_strings){ items, self.count };
    } else if (!self.status && self.count)
        no_memory(&self);
    et_free(self.items);
    return self.status;
}

int64_t et_paths_count(const et_strings *given)
{
    int64_t count = 0;
    for (size_t i = 0; i < given->count; i++) {
        const char *path = given->items[i];
        count++;
        if (et_file_exists(path))
            continue;
        if (is_pattern(path))
            return -1;
        while ((path = strchr(path, ',')) != NULL) {
            path++;
            count++;
        }
    }
    return count;
}
