/* Values in files. The value in memory is parsed from the written text, so this process has the
 * same value as a later one, and every written value can be read. */
#include <etude/ready_actions.h>

#include <math.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/value.h"

#define FILE_MAX ((size_t)64 << 20)

struct et_persisted_value {
    char *filename; /* owned; NULL: none */
    bool read_only;
    et_arena *arena; /* of value */
    et_value *value;
};

/* Whether a value has a number that JSON lacks. */
static bool has_other_number(const et_value *value)
{
    if (value->kind == ET_VALUE_FLOAT)
        return !isfinite(value->real);
    for (const et_value *v = value->kind >= ET_VALUE_LIST ? value->first : NULL; v; v = v->next)
        if (has_other_number(v))
            return true;
    return false;
}

/* Parses a text as the value. */
static int take(et_persisted_value *self, const char *text, size_t length, et_error *error)
{
    const char *name = self->filename ? self->filename : "a persisted value";
    et_arena *arena = et_arena_new();
    et_value *value;
    int status = arena ? et_json_parse(&value, arena, text, length, name, error)
                       : et_alloc_failed(error, 0, "a persisted value");
    if (status) {
        et_arena_free(arena);
        return status;
    }
    self->arena = arena;
    self->value = value;
    return ET_OK;
}

int et_persisted_value_write(et_persisted_value *self, const et_value *value, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (!value || et_value_failed(value))
        return et_fail(error, ET_EUSAGE, "a persisted value is NULL or incomplete");
    if (has_other_number(value))
        return et_fail(error, ET_EDATA,
                       "%s: NaN and infinity cannot be written as JSON; write a text, or null",
                       self->filename ? self->filename : "a persisted value");
    et_persisted_value next = { .filename = self->filename };
    et_json_print(&text, value, 0);
    int status = text.failed ? et_alloc_failed(error, 0, "a persisted value")
                             : take(&next, text.data, text.length, error);
    if (!status && self->filename && !self->read_only &&
        !(status = et_parent_make(self->filename, error)))
        status = et_file_write(self->filename, text.data, text.length, error);
    et_strbuf_release(&text);
    /* On failure the old value stays. */
    et_arena_free(status ? next.arena : self->arena);
    if (status)
        return status;
    self->arena = next.arena;
    self->value = next.value;
    return ET_OK;
}

/* The value stays NULL if there is no file or the file is empty. */
static int read_file(et_persisted_value *self, et_error *error)
{
    char *text;
    size_t length;
    if (!self->filename || !et_file_exists(self->filename))
        return ET_OK;
    int status = et_file_read(&text, &length, self->filename, FILE_MAX, error);
    if (status)
        return status;
    if (length)
        status = take(self, text, length, error);
    et_free(text);
    if (!status && self->value && self->value->kind == ET_VALUE_NULL)
        self->value = NULL;
    return status;
}

int et_persisted_value_open(et_persisted_value **out, const et_value *initial_value,
                            const char *filename, bool read_only, et_error *error)
{
    *out = NULL;
    et_persisted_value *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a persisted value");
    self->read_only = read_only;
    self->filename = filename ? et_strdup(filename) : NULL;
    int status = !filename || self->filename ? read_file(self, error)
                                             : et_alloc_failed(error, 0, "a persisted value");
    if (!status && !self->value)
        status = et_persisted_value_write(self, initial_value, error);
    if (status)
        et_persisted_value_close(self);
    else
        *out = self;
    return status;
}

void et_persisted_value_close(et_persisted_value *self)
{
    if (!self)
        return;
    et_arena_free(self->arena);
    et_free(self->filename);
    et_free(self);
}

const et_value *et_persisted_value_read(const et_persisted_value *self)
{
    return self->value;
}
