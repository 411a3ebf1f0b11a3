/* Broadcasts of values. They are sent as JSON, as in checkpoints. */
#include "train/ranks/broadcast.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"

/* ---- values as bytes ---- */

/* The bytes of a value: its kind, then
 *
 *   bool, int, float   8 bytes
 *   string             its size, its bytes
 *   list               how many, values
 *   dict               how many, for each its key as a string, its value
 *
 * Kinds and sizes have 8 bytes too. */

#define DEPTH_MOST 100

static void write_size(et_strbuf *to, size_t size)
{
    uint64_t word = size;
    et_strbuf_append_bytes(to, &word, sizeof word);
}

static void write_text(et_strbuf *to, const char *text)
{
    write_size(to, strlen(text));
    et_strbuf_append(to, text);
}

void et_value_write_bytes(et_strbuf *to, const et_value *value)
{
    et_assert(value);
    int64_t boolean = value->kind == ET_VALUE_BOOL && value->boolean;
    write_size(to, (size_t)value->kind);
    switch (value->kind) {
    case ET_VALUE_NULL:
        break;
    case ET_VALUE_BOOL:
        et_strbuf_append_bytes(to, &boolean, sizeof boolean);
        break;
    case ET_VALUE_INT:
        et_strbuf_append_bytes(to, &value->integer, sizeof value->integer);
        break;
    case ET_VALUE_FLOAT:
        et_strbuf_append_bytes(to, &value->real, sizeof value->real);
        break;
    case ET_VALUE_STRING:
        write_text(to, value->string);
        break;
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        write_size(to, value->count);
        for (const et_value *v = value->first; v; v = v->next) {
            if (value->kind == ET_VALUE_DICT)
                write_text(to, v->key);
            et_value_write_bytes(to, v);
        }
        break;
    }
}

typedef struct reader {
    const char *at;
    size_t left;
    et_arena *arena;
    bool wrong;
} reader;

static void take(reader *r, void *to, size_t size)
{
    r->wrong |= size > r->left;
    if (r->wrong)
        return;
    memcpy(to, r->at, size);
    r->at += size;
    r->left -= size;
}

static uint64_t take_size(reader *r)
{
    uint64_t size = 0;
    take(r, &size, sizeof size);
    return size;
}

/* NULL: no memory, or wrong. */
static char *take_text(reader *r)
{
    uint64_t size = take_size(r);
    r->wrong |= size > r->left;
    char *text = r->wrong ? NULL : et_arena_alloc(r->arena, (size_t)size + 1);
    if (text)
        take(r, text, (size_t)size);
    return text;
}

static et_value *read_value(reader *r, int depth);

static void read_children(reader *r, et_value *parent, int depth)
{
    uint64_t count = take_size(r);
    for (uint64_t i = 0; i < count && !r->wrong && !r->arena->failed; i++) {
        const char *key = parent->kind == ET_VALUE_DICT ? take_text(r) : NULL;
        et_value *child = read_value(r, depth + 1);
        if (child && !r->wrong && !r->arena->failed)
            et_value_append(parent, key, child);
    }
}

static et_value *read_value(reader *r, int depth)
{
    uint64_t kind = take_size(r);
    int64_t boolean = 0;
    r->wrong |= kind > ET_VALUE_DICT || depth > DEPTH_MOST;
    et_value *value = r->wrong ? NULL : et_value_new(r->arena, (et_value_kind)kind);
    if (!value)
        return NULL;
    switch (value->kind) {
    case ET_VALUE_NULL:
        break;
    case ET_VALUE_BOOL:
        take(r, &boolean, sizeof boolean);
        value->boolean = boolean != 0;
        break;
    case ET_VALUE_INT:
        take(r, &value->integer, sizeof value->integer);
        break;
    case ET_VALUE_FLOAT:
        take(r, &value->real, sizeof value->real);
        break;
    case ET_VALUE_STRING:
        value->string = take_text(r);
        break;
    case ET_VALUE_LIST:
    case ET_VALUE_DICT:
        read_children(r, value, depth);
        break;
    }
    return value;
}

int et_value_read_bytes(et_value **out, et_arena *arena, const void *bytes, size_t size,
                        et_error *error)
{
    reader r = { bytes, size, arena, false };
    *out = read_value(&r, 0);
    if (!r.wrong && !r.left && *out && !arena->failed)
        return ET_OK;
    *out = NULL;
    return r.wrong || r.left
               ? et_fail(error, ET_EFORMAT, "values of another process are incomplete")
               : et_alloc_failed(error, "values of another process");
}

/* ---- broadcasts ---- */

int et_values_broadcast(const et_value *values, const et_value **out, et_arena *arena,
                        et_comm *comm, int status, et_error *error)
{
    et_strbuf written = ET_STRBUF_INIT;
    et_value *parsed = NULL;
    *out = values;
    if (et_comm_size(comm) == 1)
        return status;
    bool root = et_comm_rank(comm) == 0;
    if (root && !status)
        et_value_write_bytes(&written, values);
    if (written.failed)
        status = et_alloc_failed(error, "values");
    void *bytes = written.data;
    size_t size = written.length;
    status = et_together_hand_out(comm, status, &bytes, &size, error);
    if (!status && !root)
        status = et_value_read_bytes(&parsed, arena, bytes, size, error);
    if (!root) {
        *out = parsed;
        et_free(bytes);
    }
    et_strbuf_release(&written);
    return status;
}

/* Rank 0's state of a tensor in parts. */
enum { PARTS_AS_THEY_ARE, PARTS_READ, MISSING };

/* Sends each rank its part from rank 0, which has read the whole tensor. */
static int broadcast_shards(const et_state_tensor *t, et_comm *comm, et_error *error)
{
    int rank = et_comm_rank(comm), status = ET_OK;
    const et_comm_chunk none = { -1, NULL, 0 };
    for (int r = 1; !status && r < et_comm_size(comm); r++) {
        size_t bytes = (size_t)(t->cut[r + 1] - t->cut[r]) * sizeof *t->data;
        et_comm_chunk send = { r, rank ? NULL : (float *)t->whole + t->cut[r], bytes };
        et_comm_chunk receive = { 0, t->data, bytes };
        if (!rank)
            status = et_comm_exchange(comm, send, none, error);
        else if (rank == r)
            status = et_comm_exchange(comm, none, receive, error);
    }
    return status;
}

/* No save reads the arrays by now: only rank 0 saves. */
static int broadcast_arrays(et_state *state, et_comm *comm, int status, et_error *error)
{
    et_params *params = et_state_params(state);
    size_t count = et_state_tensor_count(state);
    unsigned char *read = et_alloc(count, 1);
    if (!status && !read)
        status = et_alloc_failed(error, "tensors of the state");
    for (size_t i = 0; read && i < count; i++) {
        const et_state_tensor *t = et_state_tensor_at(state, i);
        read[i] = t->missing ? MISSING : t->whole ? PARTS_READ : PARTS_AS_THEY_ARE;
    }
    status = et_together_give(comm, status, read, count, error);
    et_assert(status || read);
    if (!status && params && et_comm_rank(comm) != 0)
        et_params_begin_change(params);
    for (size_t i = 0; !status && i < count; i++) {
        et_state_tensor_mark(state, i, read[i] == MISSING);
        const et_state_tensor *t = et_state_tensor_at(state, i);
        if (!t->cut)
            status = et_comm_broadcast(comm, 0, t->data, et_shape_count(t->shape) * sizeof *t->data,
                                       error);
        else if (read[i] == PARTS_READ)
            status = broadcast_shards(t, comm, error);
    }
    et_free(read);
    return status;
}

typedef struct restoring {
    et_state *state;
    et_comm *comm;
} restoring;

/* Each rank takes rank 0's state for its own. */
static int take_state(void *self, et_error *error)
{
    const restoring *r = self;
    et_arena arena = ET_ARENA_INIT;
    et_value *saved = NULL;
    const et_value *parts = NULL;
    bool other = et_comm_rank(r->comm) != 0;
    int status = other ? ET_OK : et_state_save(r->state, &saved, &arena, error);
    status = et_values_broadcast(saved, &parts, &arena, r->comm, status, error);
    if (!status && other)
        status = et_state_match(r->state, parts, error);
    status = broadcast_arrays(r->state, r->comm, status, error);
    if (!status && other)
        status = et_state_restore(r->state, parts, error);
    et_arena_release(&arena);
    return status;
}

int et_state_broadcast(et_state *state, et_comm *comm, et_error *error)
{
    restoring r = { state, comm };
    return et_comm_size(comm) == 1 ? ET_OK : et_together_run(comm, take_state, &r, error);
}

/* With its final 0; without a text, nothing is sent. */
int et_text_broadcast(char **text, et_comm *comm, int status, et_error *error)
{
    void *bytes = et_comm_rank(comm) ? NULL : *text;
    size_t size = bytes ? strlen(bytes) + 1 : 0;
    status = et_together_hand_out(comm, status, &bytes, &size, error);
    *text = bytes;
    return status;
}

int et_checkpoint_wait_next(et_comm *comm, char **path, int64_t *step, const char *model_dir,
                            int64_t after, bool transient, et_error *error)
{
    *path = NULL;
    int status = et_comm_rank(comm)
                     ? ET_OK
                     : et_checkpoint_next(path, step, model_dir, after, transient, error);
    status = et_text_broadcast(path, comm, status, error);
    return status ? status : et_comm_broadcast(comm, 0, step, sizeof *step, error);
}

int et_checkpoint_wait_loaded(et_comm *comm, int status, bool *found)
{
    *found = !status;
    if (status != ET_ENOTFOUND)
        return status;
    et_comm_resume(comm);
    return ET_OK;
}
