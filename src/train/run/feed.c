#include "train/run/feed.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "data/batches/cursor.h"
#include "data/batches/source.h"

typedef struct leaf {
    char *path; /* owned; "" of a data set that is one source */
    et_batch_cursor cursor;
    et_position mark;
} leaf;

struct et_feed {
    leaf *leaves; /* [count] */
    int count;
    bool lives, marked_alive;
};

/* ---- making ---- */

static const leaf *find_source(const et_feed *feed, const et_source *source)
{
    for (int i = 0; i < feed->count; i++)
        if (feed->leaves[i].cursor.source == source)
            return &feed->leaves[i];
    return NULL;
}

static const leaf *find_path(const et_feed *feed, const char *path)
{
    for (int i = 0; i < feed->count; i++)
        if (feed->leaves[i].path && !strcmp(feed->leaves[i].path, path))
            return &feed->leaves[i];
    return NULL;
}

/* Reading two places of one source by turns would be neither. */
static int add_leaf(et_feed *feed, const et_dataset *dataset, const char *path, et_error *error)
{
    et_source *source = dataset->source;
    if (find_path(feed, path))
        return et_fail(error, ET_EUSAGE, "a data set has two sources named %s", path);
    if (find_source(feed, source))
        return et_fail(error, ET_EUSAGE, "a data set has the same source twice: %s and %s",
                       find_source(feed, source)->path, path);
    leaf *to = &feed->leaves[feed->count++];
    to->path = et_strdup(path);
    return to->path ? et_batch_cursor_open(&to->cursor, source, error)
                    : et_alloc_failed(error, 0, "a data set");
}

/* The path is put together on the way down and cut on the way up. */
static int add_leaves(et_feed *feed, const et_dataset *dataset, et_strbuf *path, et_error *error)
{
    if (dataset->source)
        return add_leaf(feed, dataset, et_strbuf_text(path), error);
    int status = ET_OK;
    for (int i = 0; !status && i < dataset->count; i++) {
        const et_dataset *part = &dataset->parts[i];
        size_t length = path->length;
        if (!part->name || !*part->name || strchr(part->name, '/'))
            return et_fail(error, ET_EUSAGE, "a part of a data set has a name, without '/'");
        et_strbuf_printf(path, "%s%s", length ? "/" : "", part->name);
        status = path->failed ? et_alloc_failed(error, 0, "a data set")
                              : add_leaves(feed, part, path, error);
        et_strbuf_cut(path, length);
    }
    return status;
}

static int64_t count_leaves(const et_dataset *dataset)
{
    int64_t count = dataset->source != NULL;
    for (int i = 0; !dataset->source && i < dataset->count; i++)
        count += count_leaves(&dataset->parts[i]);
    return count;
}

int et_feed_new(et_feed **out, const et_dataset *dataset, et_error *error)
{
    *out = NULL;
    int64_t count = dataset ? count_leaves(dataset) : 0;
    if (!count)
        return et_fail(error, ET_EUSAGE, "a data set without a source");
    et_feed *feed = et_alloc_zero(1, sizeof *feed);
    if (feed)
        feed->leaves = et_alloc_zero((size_t)count, sizeof *feed->leaves);
    if (!feed || !feed->leaves) {
        et_feed_free(feed);
        return et_alloc_failed(error, sizeof *feed, "a data set");
    }
    et_strbuf path = ET_STRBUF_INIT;
    int status = add_leaves(feed, dataset, &path, error);
    et_strbuf_release(&path);
    if (status)
        et_feed_free(feed);
    else
        *out = feed;
    return status;
}

void et_feed_free(et_feed *feed)
{
    if (!feed)
        return;
    for (int i = 0; feed->leaves && i < feed->count; i++) {
        et_free(feed->leaves[i].path);
        et_batch_cursor_release(&feed->leaves[i].cursor);
    }
    et_free(feed->leaves);
    et_free(feed);
}

/* ---- reading ---- */

int et_feed_rewind(et_feed *feed, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < feed->count; i++)
        status = et_batch_cursor_rewind(&feed->leaves[i].cursor, error);
    return status;
}

int et_feed_begin(et_feed *feed, et_error *error)
{
    int status = feed->lives ? ET_OK : et_feed_rewind(feed, error);
    feed->lives = !status;
    return status;
}

void et_feed_drop(et_feed *feed)
{
    feed->lives = false;
}

int et_feed_next(et_feed *feed, const char *path, const et_batch **batch, et_error *error)
{
    et_assert(feed->lives);
    const leaf *from = find_path(feed, path ? path : "");
    *batch = NULL;
    if (!from)
        return et_fail(error, ET_EUSAGE, "the data set has no source %s; one is named %s",
                       path && *path ? path : "without a name", feed->leaves[0].path);
    int status = et_source_next(from->cursor.source, from->cursor.batch, error);
    if (status)
        return status;
    *batch = from->cursor.batch;
    return from->cursor.batch->filled[0] ? ET_OK : ET_FEED_ENDED;
}

void et_feed_mark(et_feed *feed)
{
    feed->marked_alive = feed->lives;
    for (int i = 0; i < feed->count; i++)
        et_source_position(feed->leaves[i].cursor.source, &feed->leaves[i].mark);
}

int et_feed_return(et_feed *feed, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < feed->count; i++)
        status = et_source_seek(feed->leaves[i].cursor.source, &feed->leaves[i].mark, error);
    feed->lives = feed->marked_alive;
    return status;
}

/* ---- what resumes ---- */

int et_feed_save(const et_feed *feed, et_value *dict, et_error *error)
{
    int status = ET_OK;
    et_value_set_bool(dict, "live", feed->lives);
    et_value *sources = feed->lives ? et_value_set_dict(dict, "sources") : NULL;
    for (int i = 0; sources && !status && i < feed->count; i++) {
        const leaf *from = &feed->leaves[i];
        status = et_batch_cursor_save(&from->cursor, et_value_set_dict(sources, from->path), error);
    }
    return status || !et_value_failed(dict) ? status : et_alloc_failed(error, 0, "the state");
}

int et_feed_restore(et_feed *feed, const et_value *dict, et_error *error)
{
    bool lives = false;
    int status = et_value_read_bool(dict, "live", &lives, error);
    const et_value *sources = et_value_get(dict, "sources");
    for (int i = 0; lives && !status && i < feed->count; i++) {
        leaf *to = &feed->leaves[i];
        const et_value *position = et_value_get(sources, to->path);
        status = position ? et_batch_cursor_restore(&to->cursor, position, error)
                          : et_fail(error, ET_EDATA,
                                    "no position of source %s is saved: the data "
                                    "set was another one",
                                    *to->path ? to->path : "without a name");
    }
    feed->lives = !status && lives;
    return status;
}
