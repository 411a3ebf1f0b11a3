#include "command/runs/inspection.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "command/print.h"
#include "formats/grid.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/state.h"

/* ---- blocks ---- */

static et_inspection_part part_of(const char *name)
{
    if (!strncmp(name, ET_STATE_AVERAGE, strlen(ET_STATE_AVERAGE)))
        return ET_INSPECTION_AVERAGE;
    if (!strncmp(name, ET_ARTIFACT_TEXT, strlen(ET_ARTIFACT_TEXT)) ||
        !strncmp(name, ET_STORED_SCALE, strlen(ET_STORED_SCALE)))
        return ET_INSPECTION_EXPORT;
    return et_state_is_weight(name) ? ET_INSPECTION_WEIGHTS : ET_INSPECTION_OPTIMIZER;
}

/* The block is the first two parts of a name with three or more, the first part of a name with two.
 */
static size_t block_length(const char *name)
{
    const char *first = strchr(name, '/');
    const char *second = first ? strchr(first + 1, '/') : NULL;
    return second ? (size_t)(second - name) : first ? (size_t)(first - name) : strlen(name);
}

static et_inspection_block *last_block(const et_inspection *it)
{
    return it->block_count ? &it->blocks[it->block_count - 1] : NULL;
}

static int add_weight(et_inspection *it, const et_safetensors_tensor *tensor, et_error *error)
{
    size_t length = block_length(tensor->name);
    et_inspection_block *last = last_block(it);
    if (!last || strlen(last->name) != length || strncmp(last->name, tensor->name, length) != 0) {
        et_inspection_block *grown =
            et_vector_grow(it->blocks, &it->block_capacity, it->block_count + 1, sizeof *grown, 32);
        it->blocks = grown ? grown : it->blocks;
        char *name = grown ? et_strndup(tensor->name, length) : NULL;
        if (!name)
            return et_alloc_failed(error, length, "parameters by block");
        last = &it->blocks[it->block_count++];
        *last = (et_inspection_block){ .name = name, .last = -1, .blocks = 1 };
    }
    last->tensors++;
    last->elements += et_shape_count(tensor->shape);
    return ET_OK;
}

/* Data are sorted by width, then by name. Blocks should have the model's order: that of the names,
 * with numbers in them compared as numbers. */
static int compare_names(const void *left, const void *right)
{
    const et_safetensors_tensor *const *a = left, *const *b = right;
    return strverscmp((*a)->name, (*b)->name);
}

/* The number at a name's end, and its position; -1: none. */
static int64_t number_of(const char *name, size_t *before)
{
    *before = strlen(name);
    while (*before && isdigit((unsigned char)name[*before - 1]))
        --*before;
    size_t digits = strlen(name) - *before;
    return digits && digits < 9 ? strtoll(name + *before, NULL, 10) : -1;
}

static bool follows(const et_inspection_block *one, const et_inspection_block *next)
{
    size_t before, other;
    int64_t first = number_of(one->name, &before), number = number_of(next->name, &other);
    int64_t last = one->last < 0 ? first : one->last;
    return first >= 0 && number == last + 1 && before == other &&
           !strncmp(one->name, next->name, before) && one->tensors == next->tensors &&
           one->elements == next->elements;
}

static void join_blocks(et_inspection *it)
{
    size_t count = 0;
    for (size_t i = 0; i < it->block_count; i++) {
        et_inspection_block *one = count ? &it->blocks[count - 1] : NULL;
        size_t before;
        if (one && follows(one, &it->blocks[i])) {
            one->last = number_of(it->blocks[i].name, &before);
            one->blocks++;
            et_free(it->blocks[i].name);
        } else {
            it->blocks[count++] = it->blocks[i];
        }
    }
    it->block_count = count;
}

static int make_blocks(et_inspection *it, et_error *error)
{
    size_t count = et_safetensors_count(it->file), weights = 0;
    const et_safetensors_tensor **sorted = et_alloc(count + 1, sizeof *sorted);
    if (!sorted)
        return et_alloc_failed(error, count * sizeof *sorted, "parameters by block");
    for (size_t i = 0; i < count; i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        if (part_of(tensor->name) == ET_INSPECTION_WEIGHTS)
            sorted[weights++] = tensor;
    }
    qsort(sorted, weights, sizeof *sorted, compare_names);
    int status = ET_OK;
    for (size_t i = 0; i < weights && !status; i++)
        status = add_weight(it, sorted[i], error);
    et_free(sorted);
    join_blocks(it);
    return status;
}

/* ---- gathering ---- */

/* Compares each tensor separately, so that the message can tell whether one or all are damaged. */
static void verify(et_inspection *it)
{
    for (size_t i = 0; i < et_safetensors_count(it->file); i++) {
        et_error reason = ET_ERROR_INIT;
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        it->wrong[i] = et_safetensors_verify_tensor(it->file, tensor, &reason) != ET_OK;
        if (it->wrong[i] && !it->damaged++)
            it->fault = reason;
    }
}

static void measure(et_inspection *it)
{
    struct stat info;
    for (size_t i = 0; i < et_safetensors_count(it->file); i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        et_inspection_part part = part_of(tensor->name);
        int64_t elements = et_shape_count(tensor->shape);
        it->elements += elements;
        it->bytes[part] += tensor->bytes;
        if (part == ET_INSPECTION_WEIGHTS)
            it->weights += elements;
    }
    if (!stat(it->path, &info))
        it->file_bytes = (uint64_t)info.st_size;
}

int et_inspection_open(et_inspection *it, const char *path, et_error *error)
{
    *it = (et_inspection){ .path = et_strdup(path) };
    if (!it->path)
        return et_alloc_failed(error, strlen(path), "a path");
    int status = et_safetensors_open_foreign(&it->file, path, error);
    if (!status) {
        it->wrong = et_alloc_zero(et_safetensors_count(it->file) + 1, sizeof *it->wrong);
        status = it->wrong ? make_blocks(it, error) : et_alloc_failed(error, 0, "a checkpoint");
    }
    if (status) {
        et_inspection_close(it);
        return status;
    }
    measure(it);
    /* The text is the checkpoint's own; it is parsed to be shown, not to be checked. */
    const char *text = et_safetensors_metadata(it->file, ET_CHECKPOINT_KEY_STATE);
    it->arena = text ? et_arena_new() : NULL;
    if (!it->arena || et_json_parse(&it->state, it->arena, text, strlen(text), it->path, NULL))
        it->state = NULL;
    verify(it);
    return ET_OK;
}

void et_inspection_close(et_inspection *it)
{
    for (size_t i = 0; i < it->block_count; i++)
        et_free(it->blocks[i].name);
    et_free(it->blocks);
    et_free(it->wrong);
    et_free(it->path);
    et_safetensors_close(it->file);
    et_arena_free(it->arena);
    *it = (et_inspection){ .path = NULL };
}

static const char *part_name(et_inspection_part part)
{
    static const char *const names[] = { "weights", "average", "optimizer", "export" };
    return names[part];
}

/* ---- for people ---- */

static int print_blocks(const et_inspection *it, et_error *error)
{
    et_grid grid = { .columns = 4, .most = ET_GRID_CELL_MAX };
    const char *const heads[] = { "block", "tensors", "parameters", "share" };
    et_grid_add_row(&grid, heads);
    int64_t tensors = 0;
    for (size_t i = 0; i < it->block_count; i++) {
        const et_inspection_block *b = &it->blocks[i];
        tensors += b->tensors * b->blocks;
        if (b->last >= 0)
            et_grid_addf(&grid, "%s to %" PRId64, b->name, b->last);
        else
            et_grid_add(&grid, b->name);
        et_grid_add(&grid, et_format_count(b->tensors * b->blocks).text);
        et_grid_add(&grid, et_format_count(b->elements * b->blocks).text);
        double share =
            it->weights ? 100.0 * (double)(b->elements * b->blocks) / (double)it->weights : 0;
        et_grid_addf(&grid, "%.1f %%", share);
    }
    et_grid_add(&grid, "all");
    et_grid_add(&grid, et_format_count(tensors).text);
    et_grid_add(&grid, et_format_count(it->weights).text);
    et_grid_add(&grid, NULL);
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return status;
}

static const char *type_name(const et_safetensors_tensor *tensor)
{
    return tensor->dtype == ET_SAFETENSORS_F16 ? "float16" : et_dtype_name(tensor->dtype);
}

static int print_tensors(const et_inspection *it, bool all, et_error *error)
{
    et_grid grid = { .columns = 4, .headless = true, .left = 4 };
    for (size_t i = 0; i < et_safetensors_count(it->file); i++) {
        char shape[ET_SHAPE_TEXT_MAX];
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        if (!all && !it->wrong[i])
            continue;
        et_grid_add(&grid, tensor->name);
        et_grid_add(&grid, type_name(tensor));
        et_grid_add(&grid, et_shape_print(tensor->shape, shape));
        et_grid_add(&grid, it->wrong[i] ? "damaged" : "ok");
    }
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return status;
}

static int print_state(const et_inspection *it, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_json_print(&out, it->state, 2);
    et_strbuf_append_char(&out, '\n');
    et_print(stdout, "state ");
    et_print_text(stdout, et_strbuf_text(&out));
    int status = out.failed ? et_alloc_failed(error, out.length, "a state") : ET_OK;
    et_strbuf_release(&out);
    return status;
}

int et_inspection_print(const et_inspection *it, bool all, et_error *error)
{
    char parts[200] = "";
    for (int part = 0; part < ET_INSPECTION_PARTS; part++)
        if (it->bytes[part])
            snprintf(parts + strlen(parts), sizeof parts - strlen(parts), " %s %s,",
                     part_name((et_inspection_part)part), et_format_bytes(it->bytes[part]).text);
    et_print_lines(stdout, "file         %s:%s %s tensors, %s elements%s\n",
                   et_format_bytes(it->file_bytes).text, parts,
                   et_format_count((int64_t)et_safetensors_count(it->file)).text,
                   et_format_count(it->elements).text,
                   et_safetensors_sealed(it->file) ? ""
                                                   : "; no checksums: written by another program");
    et_print(stdout, "\n");
    int status = print_blocks(it, error);
    et_print(stdout, "\n");
    if (!status)
        status = print_tensors(it, all, error);
    return status || !all || !it->state ? status : print_state(it, error);
}

/* ---- for programs ---- */

static void describe_tensors(const et_inspection *it, et_value *list)
{
    for (size_t i = 0; i < et_safetensors_count(it->file); i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        et_value *dict = et_value_add_dict(list);
        et_value_set_string(dict, "name", tensor->name);
        et_value_set_string(dict, "dtype", type_name(tensor));
        et_value *shape = et_value_set_list(dict, "shape");
        for (int k = 0; k < tensor->shape.rank; k++)
            et_value_add_int(shape, tensor->shape.size[k]);
        et_value_set_bool(dict, "ok", !it->wrong[i]);
    }
}

void et_inspection_describe(const et_inspection *it, et_value *dict, bool tensors)
{
    et_value_set_string(dict, "file", it->path);
    et_value_set_int(dict, "file_bytes", (int64_t)it->file_bytes);
    et_value *bytes = et_value_set_dict(dict, "bytes");
    for (int part = 0; part < ET_INSPECTION_PARTS; part++)
        et_value_set_int(bytes, part_name((et_inspection_part)part), (int64_t)it->bytes[part]);
    et_value_set_int(dict, "tensor_count", (int64_t)et_safetensors_count(it->file));
    et_value_set_int(dict, "elements", it->elements);
    et_value_set_int(dict, "parameters", it->weights);
    et_value_set_bool(dict, "checksums", et_safetensors_sealed(it->file));
    et_value_set_int(dict, "damaged", (int64_t)it->damaged);
    et_value *blocks = et_value_set_list(dict, "blocks");
    for (size_t i = 0; i < it->block_count; i++) {
        const et_inspection_block *b = &it->blocks[i];
        et_value *block = et_value_add_dict(blocks);
        et_value_set_string(block, "name", b->name);
        et_value_set_int(block, "blocks", b->blocks);
        et_value_set_int(block, "tensors", b->tensors);
        et_value_set_int(block, "parameters", b->elements);
    }
    if (tensors)
        describe_tensors(it, et_value_set_list(dict, "tensors"));
}
