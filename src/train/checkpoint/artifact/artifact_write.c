/* Exports in one file. Items of the file: weights (narrowed if requested), their scales, texts. */
#include "train/checkpoint/artifact/artifact.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/kernel/row_product.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/identity.h"

static const char *const precisions[] = { "float32", "bfloat16", "int8" };
enum { FLOAT32, BFLOAT16, INT8, PRECISIONS };

typedef struct draft {
    const et_artifact_content *content;
    int precision;
    et_arena arena;
    et_safetensors_item *items;
    size_t count;
} draft;

static int find_precision(const char *name)
{
    int i = 0;
    while (name && i < PRECISIONS && strcmp(precisions[i], name))
        i++;
    return i;
}

int et_artifact_check_precision(const char *precision, et_error *error)
{
    return find_precision(precision) < PRECISIONS
               ? ET_OK
               : et_fail(error, ET_ECONFIG, "precision %s: choose float32, bfloat16 or int8",
                         precision);
}

static int no_memory(et_error *error)
{
    return et_alloc_failed(error, "an export");
}

static void add(draft *d, const char *name, void *data, et_dtype dtype, et_shape shape)
{
    d->items[d->count++] = (et_safetensors_item){ name, { data, dtype, shape } };
}

/* ---- weights ---- */

/* The arena keeps a lack of memory. */
static void add_weight(draft *d, int i)
{
    et_params *params = d->content->params;
    const char *name = et_params_name(params, i);
    const et_shape shape = et_params_shape(params, i);
    float *values = et_params_values(params) + et_params_offset(params, i);
    const int precision = et_stored_weight_is_narrowed(shape) ? d->precision : FLOAT32;
    if (precision == BFLOAT16) {
        const size_t count = (size_t)et_shape_count(shape);
        et_bf16 *half = et_arena_array(&d->arena, count, sizeof *half);
        for (size_t k = 0; half && k < count; k++)
            half[k] = et_bf16_from_float(values[k]);
        add(d, name, half, ET_BF16, shape);
    } else if (precision == INT8) {
        const bool by_rows = et_stored_weight_by_rows(name);
        const int64_t rows = shape.size[0], columns = shape.size[1];
        int8_t *q = et_arena_alloc(&d->arena, et_shape_count(shape));
        float *scale = et_arena_array(&d->arena, (size_t)(by_rows ? rows : columns), sizeof *scale);
        const char *key = et_arena_printf(&d->arena, ET_STORED_SCALE "%s", name);
        if (q && scale)
            et_row_weight_to_bytes(q, scale, values, rows, columns, by_rows);
        add(d, name, q, ET_I8, shape);
        add(d, key, scale, ET_F32, by_rows ? et_shape_2(rows, 1) : et_shape_2(1, columns));
    } else {
        add(d, name, values, ET_F32, shape);
    }
}

/* ---- the file ---- */

/* whole: with the texts and the mark of a model alone. */
static int write_file(draft *d, const char *path, bool whole, et_error *error)
{
    et_strbuf state = ET_STRBUF_INIT;
    et_safetensors_written written;
    et_value *metadata = NULL;
    /* {"export":{},"identity":{...}}: no tree of a run, so a restore from it is refused. */
    et_value *tree = et_value_dict(&d->arena), *from = NULL;
    et_value_set_dict(tree, "export");
    if (d->content->identity)
        from = et_value_set_dict(tree, ET_IDENTITY);
    int status = from ? et_value_merge(from, d->content->identity, error) : ET_OK;
    const int weights = et_params_count(d->content->params);
    const size_t most = 2 * (size_t)weights + (size_t)d->content->count;
    d->items = et_arena_array(&d->arena, most, sizeof *d->items);
    for (int i = 0; i < weights && !d->arena.failed; i++)
        add_weight(d, i);
    for (int i = 0; i < d->content->count && whole && !d->arena.failed; i++) {
        const et_artifact_file *text = &d->content->texts[i];
        const char *key = et_arena_printf(&d->arena, ET_STORED_TEXT "%s", text->name);
        add(d, key, (void *)text->bytes, ET_U8, et_shape_1((int64_t)text->length));
    }
    if (tree && !d->arena.failed)
        et_json_print(&state, tree, 0);
    if (!status)
        metadata = et_checkpoint_file_metadata(d->content->step, et_strbuf_text(&state), &d->arena);
    if (metadata && whole) {
        et_value_set_string(metadata, ET_ARTIFACT_KEY_EXPORT, ET_ARTIFACT_VERSION);
        et_value_set_string(metadata, ET_ARTIFACT_KEY_PRECISION, precisions[d->precision]);
    }
    if (!status && (!metadata || d->arena.failed || state.failed))
        status = no_memory(error);
    if (!status)
        status = et_safetensors_write(&written, path, d->items, d->count, metadata, error);
    et_strbuf_release(&state);
    return status;
}

/* ---- the directory ---- */

static int write_member(void *self, int which, const char *path, et_error *error)
{
    draft *d = self;
    if (which == d->content->count)
        return write_file(d, path, false, error);
    return et_file_write(path, d->content->texts[which].bytes, d->content->texts[which].length,
                         error);
}

static int write_output(draft *d, const char *output, et_error *error)
{
    if (et_safetensors_is_name(output))
        return write_file(d, output, true, error);
    /* Texts first, in their order, then the weights. */
    const int count = d->content->count;
    const char **names = et_arena_array(&d->arena, (size_t)count + 1, sizeof *names);
    if (d->precision != FLOAT32)
        return et_fail(
            error, ET_ECONFIG,
            "precision %s needs a single file: give a name that ends in " ET_SAFETENSORS_SUFFIX,
            precisions[d->precision]);
    for (int i = 0; i <= count && names; i++)
        names[i] = i < count ? d->content->texts[i].name : ET_ARTIFACT_WEIGHTS;
    return names ? et_directory_write(output, names, count + 1, write_member, d, error)
                 : no_memory(error);
}

int et_artifact_write(const et_artifact_content *content, const char *output, et_error *error)
{
    const char *precision = content->precision ? content->precision : precisions[FLOAT32];
    draft d = { content, .precision = find_precision(precision), .arena = ET_ARENA_INIT };
    if (!output || !*output)
        return et_fail(error, ET_ECONFIG, "the output of an export has no name");
    int status = et_artifact_check_precision(precision, error);
    if (!status)
        status = write_output(&d, output, error);
    et_arena_release(&d.arena);
    return status ? et_fail_while(error, status, "exporting to %s", output) : ET_OK;
}

int et_artifact_write_weights(const et_artifact_content *content, const char *path, et_error *error)
{
    draft d = { content, .precision = FLOAT32, .arena = ET_ARENA_INIT };
    int status = write_file(&d, path, false, error);
    et_arena_release(&d.arena);
    return status;
}
