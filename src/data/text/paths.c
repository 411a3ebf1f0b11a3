/* A path is first looked up literally. Otherwise it is cut at commas, and each part is a path or a
 * pattern. glob is told not to sort, because its order depends on the locale. */
#include "data/text/paths.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/vector.h"

/* The files so far; the array is the arena's only when all are found. */
typedef struct list {
    const char **items; /* owned */
    size_t count, capacity;
    const char *setting;
    et_arena *arena;
    et_error *error;
} list;

static bool is_pattern(const char *path)
{
    return strpbrk(path, "*?") != NULL;
}

static int no_memory(const list *self)
{
    return et_alloc_failed(self->error, self->arena->used, "paths");
}

/* Puts the setting's name before the message. */
static int blame(const list *self, int status)
{
    return self->setting ? et_fail_while(self->error, status, "%s", self->setting) : status;
}

static int add(list *self, const char *path)
{
    const char **items =
        et_vector_grow(self->items, &self->capacity, self->count + 1, sizeof *items, 16);
    if (!items)
        return no_memory(self);
    self->items = items;
    self->items[self->count] = et_arena_strdup(self->arena, path);
    return self->items[self->count++] ? ET_OK : no_memory(self);
}

static int by_bytes(const void *left, const void *right)
{
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static int add_matches(list *self, const char *pattern)
{
    glob_t found;
    int result = glob(pattern, GLOB_NOSORT, NULL, &found), status = ET_OK;
    if (result == GLOB_NOSPACE)
        return no_memory(self);
    if (result == GLOB_NOMATCH)
        return blame(self, et_fail(self->error, ET_EDATA, "no file matches %s; name existing files",
                                   pattern));
    if (result)
        return et_fail_errno(self->error, "cannot search for %s", pattern);
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    for (size_t i = 0; !status && i < found.gl_pathc; i++)
        status = add(self, found.gl_pathv[i]);
    globfree(&found);
    return status;
}

static int add_file(list *self, const char *path)
{
    struct stat info;
    if (stat(path, &info))
        return et_fail_errno(self->error, "cannot open %s", path);
    return add(self, path);
}

/* Calls part for each part between commas, without the spaces around it. */
static int add_parts(list *self, const char *path)
{
    int status = ET_OK;
    do {
        path += strspn(path, " \t");
        size_t length = strcspn(path, ","), kept = length;
        while (kept && strchr(" \t", path[kept - 1]))
            kept--;
        const char *part = et_arena_printf(self->arena, "%.*s", (int)kept, path);
        if (!part)
            return no_memory(self);
        if (!kept)
            return blame(self, et_fail(self->error, ET_EDATA,
                                       "a path is empty; name a file, or remove the comma"));
        status = is_pattern(part) ? add_matches(self, part) : add_file(self, part);
        path += length;
    } while (!status && *path++);
    return status;
}

int et_paths_match(et_strings *out, const et_strings *given, const char *setting, et_arena *arena,
                   et_error *error)
{
    list self = { .setting = setting, .arena = arena, .error = error };
    int status = ET_OK;
    *out = (et_strings){ NULL, 0 };
    for (size_t i = 0; !status && i < given->count; i++) {
        const char *path = given->items[i] ? given->items[i] : "";
        status = *path && et_file_exists(path) ? add(&self, path) : add_parts(&self, path);
    }
    const char **items =
        status || !self.count ? NULL : et_arena_array(arena, self.count, sizeof *items);
    if (items) {
        memcpy(items, self.items, self.count * sizeof *items);
        *out = (et_strings){ items, self.count };
    } else if (!status && self.count)
        status = no_memory(&self);
    et_free(self.items);
    return status;
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
