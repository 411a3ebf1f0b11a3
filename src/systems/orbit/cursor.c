#include "systems/orbit/cursor.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "data/batches/source.h"

/* Other readers may read the source between two batches: this one continues after its own. */
typedef struct leaf {
    char *path; /* owned; "" of a data set that is one source */
    et_source *source;
    et_batch *batch;   /* owned: the one read last */
    et_position after; /* it, in the source */
    et_position mark;
} leaf;

struct et_cursor {
    const et_source_tree *dataset;
    leaf *leaves; /* [count] */
    int count;
    bool lives, marked_alive;
};

/* ---- making ---- */

static const leaf *find_source(const et_cursor *cursor, const et_source *source)
{
    for (int i = 0; i < cursor->count; i++)
        if (cursor->leaves[i].source == source)
            return &cursor->leaves[i];
    return NULL;
}

static leaf *find_path(const et_cursor *cursor, const char *path)
{
    for (int i = 0; i < cursor->count; i++)
        if (cursor->leaves[i].path && !strcmp(cursor->leaves[i].path, path))
            return &cursor->leaves[i];
    return NULL;
}

/* Reading two places of one source by turns would be neither. */
static int add_leaf(et_cursor *cursor, const et_source_tree *dataset, const char *path,
                    et_error *error)
{
    et_source *source = dataset->source;
    if (find_path(cursor, path))
        return et_fail(error, ET_EUSAGE, "a data set has two sources called %s", path);
    if (find_source(cursor, source))
        return et_fail(error, ET_EUSAGE, "a data set has the same source twice: %s and %s",
                       find_source(cursor, source)->path, path);
    leaf *to = &cursor->leaves[cursor->count++];
    to->path = et_strdup(path);
    to->source = source;
    et_source_position(source, &to->after);
    return to->path ? et_batch_new(&to->batch, &source->layout, error)
                    : et_alloc_failed(error, 0, "a data set");
}

/* The path is put together on the way down and cut on the way up. */
static int add_leaves(et_cursor *cursor, const et_source_tree *dataset, et_strbuf *path,
                      et_error *error)
{
    if (dataset->source)
        return add_leaf(cursor, dataset, et_strbuf_text(path), error);
    int status = ET_OK;
    for (int i = 0; !status && i < dataset->count; i++) {
        const et_source_tree *part = &dataset->parts[i];
        size_t length = path->length;
        if (!part->name || !*part->name || strchr(part->name, '/'))
            return et_fail(error, ET_EUSAGE, "a part of a data set needs a name without '/'");
        et_strbuf_printf(path, "%s%s", length ? "/" : "", part->name);
        status = path->failed ? et_alloc_failed(error, 0, "a data set")
                              : add_leaves(cursor, part, path, error);
        et_strbuf_truncate(path, length);
    }
    return status;
}

static int64_t count_leaves(const et_source_tree *dataset)
{
    int64_t count = dataset->source != NULL;
    for (int i = 0; !dataset->source && i < dataset->count; i++)
        count += count_leaves(&dataset->parts[i]);
    return count;
}

int et_cursor_new(et_cursor **out, const et_source_tree *dataset, et_error *error)
{
    *out = NULL;
    int64_t count = dataset ? count_leaves(dataset) : 0;
    if (!count)
        return et_fail(error, ET_EUSAGE, "a data set has no source");
    et_cursor *cursor = et_alloc_zero(1, sizeof *cursor);
    if (cursor)
        cursor->leaves = et_alloc_zero((size_t)count, sizeof *cursor->leaves);
    if (!cursor || !cursor->leaves) {
        et_cursor_free(cursor);
        return et_alloc_failed(error, sizeof *cursor, "a data set");
    }
    et_strbuf path = ET_STRBUF_INIT;
    cursor->dataset = dataset;
    int status = add_leaves(cursor, dataset, &path, error);
    et_strbuf_release(&path);
    if (status)
        et_cursor_free(cursor);
    else
        *out = cursor;
    return status;
}

void et_cursor_free(et_cursor *cursor)
{
    if (!cursor)
        return;
    for (int i = 0; cursor->leaves && i < cursor->count; i++) {
        et_free(cursor->leaves[i].path);
        et_batch_free(cursor->leaves[i].batch);
    }
    et_free(cursor->leaves);
    et_free(cursor);
}

/* ---- reading ---- */

int et_cursor_rewind(et_cursor *cursor, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < cursor->count; i++) {
        status = et_source_rewind(cursor->leaves[i].source, error);
        et_source_position(cursor->leaves[i].source, &cursor->leaves[i].after);
    }
    return status;
}

int et_cursor_begin(et_cursor *cursor, et_error *error)
{
    int status = cursor->lives ? ET_OK : et_cursor_rewind(cursor, error);
    cursor->lives = !status;
    return status;
}

void et_cursor_drop(et_cursor *cursor)
{
    cursor->lives = false;
}

int et_cursor_next(et_cursor *cursor, const char *path, const et_batch **batch, et_error *error)
{
    et_assert(cursor->lives);
    leaf *from = find_path(cursor, path ? path : "");
    et_position now;
    *batch = NULL;
    if (!from)
        return et_fail(error, ET_EUSAGE, "the data set has no source %s; one is called %s",
                       path && *path ? path : "without a name", cursor->leaves[0].path);
    et_source_position(from->source, &now);
    int status = et_position_equal(&now, &from->after)
                     ? ET_OK
                     : et_source_seek(from->source, &from->after, error);
    if (!status)
        status = et_source_next(from->source, from->batch, error);
    et_source_position(from->source, &from->after);
    if (status)
        return status;
    *batch = from->batch;
    return from->batch->filled[0] ? ET_OK : ET_CURSOR_ENDED;
}

void et_cursor_mark(et_cursor *cursor)
{
    cursor->marked_alive = cursor->lives;
    for (int i = 0; i < cursor->count; i++)
        cursor->leaves[i].mark = cursor->leaves[i].after;
}

int et_cursor_return(et_cursor *cursor, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < cursor->count; i++) {
        leaf *to = &cursor->leaves[i];
        status = et_source_seek(to->source, &to->mark, error);
        to->after = to->mark;
    }
    cursor->lives = cursor->marked_alive;
    return status;
}

/* ---- what resumes ---- */

int et_cursor_save(const et_cursor *cursor, et_value *dict, et_error *error)
{
    int status = ET_OK;
    et_value_set_bool(dict, "live", cursor->lives);
    et_value *sources = cursor->lives ? et_value_set_dict(dict, "sources") : NULL;
    for (int i = 0; sources && !status && i < cursor->count; i++) {
        const leaf *from = &cursor->leaves[i];
        status = et_position_save(&from->after, et_value_set_dict(sources, from->path), error);
    }
    return status || !et_value_failed(dict) ? status : et_alloc_failed(error, 0, "the state");
}

int et_cursor_restore(et_cursor *cursor, const et_value *dict, et_error *error)
{
    bool lives = false;
    int status = et_value_read_bool(dict, "live", &lives, error);
    const et_value *sources = et_value_get(dict, "sources");
    for (int i = 0; lives && !status && i < cursor->count; i++) {
        leaf *to = &cursor->leaves[i];
        const et_value *position = et_value_get(sources, to->path);
        status =
            position
                ? et_source_part.restore(to->source, position, error)
                : et_fail(
                      error, ET_EDATA,
                      "no position of source %s is saved: the checkpoint is from another data set",
                      *to->path ? to->path : "without a name");
        et_source_position(to->source, &to->after);
    }
    cursor->lives = !status && lives;
    return status;
}
