/* Weights alone: loading them for use, and averaging those of several files.
 *
 * A file has weights under their plain names and, where the run kept an average of them, also
 * "average/<name>" (et_state_is_weight tells them apart). Using a model needs one of both and
 * none of the optimizer's slots; so tensors that are not asked for are passed over here, while a
 * restore refuses them.
 *
 * Averaging the last checkpoints of a run (Junczys-Dowmunt, Dwojak and Sennrich 2016; "Attention
 * is all you need", section 6.1, averages the last 5 or 20) usually scores better than any one
 * of them:
 *   w = (w[1] + ... + w[n]) / n
 * The result has no slots and no averages: it can be loaded, not trained on. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "train/checkpoint.h"
#include "train/checkpoint_file.h"

/* Loading -----------------------------------------------------------------------------
 *
 * Into a store that a model has declared its parameters in: it says which names and shapes are
 * wanted. */

/* The average of a weight where it is wanted and there, else the weight itself. NULL: neither. */
static const et_safetensors_tensor *find_weight(const et_safetensors *file, const char *name,
                                                bool prefer_average, et_arena *arena)
{
    const et_safetensors_tensor *average = NULL;
    if (prefer_average) {
        const char *key = et_arena_printf(arena, ET_STATE_AVERAGE "%s", name);
        average = key ? et_safetensors_find(file, key) : NULL;
    }
    return average ? average : et_safetensors_find(file, name);
}

/* The whole path, both types and both shapes: whoever reads this has two models and wants to
 * know which setting differs. */
static int check_weight(const et_safetensors_tensor *there, const char *name, et_shape shape,
                        const char *path, et_error *error)
{
    char was[ET_SHAPE_TEXT_MAX], is[ET_SHAPE_TEXT_MAX];
    if (!there)
        return et_fail(error, ET_ECONFIG, "%s: belongs to another model: it has no %s", path, name);
    if (there->dtype == ET_F32 && et_shape_equal(there->shape, shape))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%s: belongs to another model: %s is %s %s there and float32 %s here", path,
                   name, et_dtype_name(there->dtype), et_shape_print(there->shape, was),
                   et_shape_print(shape, is));
}

/* found: [count of parameters], by their index in the store. */
static int find_all(const et_safetensors_tensor **found, const et_params *params,
                    const et_safetensors *file, const char *path, bool prefer_average,
                    et_arena *arena, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < et_params_count(params); i++) {
        const char *name = et_params_name(params, i);
        found[i] = find_weight(file, name, prefer_average, arena);
        status = check_weight(found[i], name, et_params_shape(params, i), path, error);
    }
    return status;
}

/* All is found and checked before the first value changes. Values of the store only: gradients
 * are left as they are, the shadow follows by et_params_changed. */
static int load(et_params *params, const et_safetensors *file, const char *path,
                bool prefer_average, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    size_t count = (size_t)et_params_count(params);
    const et_safetensors_tensor **found = et_arena_array(&arena, count, sizeof *found);
    int status = found ? find_all(found, params, file, path, prefer_average, &arena, error)
                       : et_alloc_failed(error, count * sizeof *found, "a list of weights");
    if (!status)
        et_params_begin_change(params);
    for (size_t i = 0; !status && i < count; i++)
        memcpy(et_params_values(params) + et_params_offset(params, (int)i), found[i]->data,
               found[i]->bytes);
    et_arena_release(&arena);
    if (!status)
        et_params_changed(params, true);
    return status;
}

/* *step is written only when the weights are there. */
int et_checkpoint_load_weights(et_params *params, const char *path, bool prefer_average,
                               int64_t *step, et_error *error)
{
    et_safetensors *file;
    int64_t found;
    et_assert(et_params_ready(params));
    int status = et_checkpoint_file_open(&file, path, &found, error);
    if (status)
        return status;
    status = load(params, file, path, prefer_average, error);
    et_safetensors_close(file);
    if (!status && step)
        *step = found;
    return status;
}

/* Averaging ---------------------------------------------------------------------------
 *
 * Files against files: no model is built, so weights of any are averaged, as long as they agree
 * with each other. */

/* Elements that are summed at a time: 8 KiB of doubles, in the first-level cache for all files
 * in turn. */
#define AVERAGE_BLOCK 1024

typedef struct average {
    const char *const *paths; /* [count], borrowed */
    et_safetensors **files;   /* [count] open; NULL: not yet */
    size_t count;
    et_safetensors_item *items; /* the result; names of the first file's */
    size_t item_count;          /* weights of the first file */
    int64_t step;               /* the latest of all */
} average;

/* Every file is verified as it is opened; a damaged one stops all. */
static int open_all(average *all, et_error *error)
{
    for (size_t i = 0; i < all->count; i++) {
        int64_t step;
        int status = et_checkpoint_file_open(&all->files[i], all->paths[i], &step, error);
        if (status)
            return status;
        if (step > all->step)
            all->step = step;
    }
    return ET_OK;
}

/* Without slots and averages: files with and without them may be averaged together. */
static size_t count_weights(const et_safetensors *file)
{
    size_t count = 0;
    for (size_t i = 0; i < et_safetensors_count(file); i++)
        count += et_state_is_weight(et_safetensors_at(file, i)->name);
    return count;
}

/* The same weights in every file. The same number and every name found makes the same set, since
 * names are unique in a file. */
static int compare(const average *all, et_error *error)
{
    for (size_t f = 1; f < all->count; f++) {
        if (count_weights(all->files[f]) != all->item_count)
            return et_fail(error, ET_ECONFIG, "%s has %zu weights, %s has %zu: not of one model",
                           all->paths[0], all->item_count, all->paths[f],
                           count_weights(all->files[f]));
        for (size_t i = 0; i < all->item_count; i++) {
            const char *name = all->items[i].name;
            int status = check_weight(et_safetensors_find(all->files[f], name), name,
                                      all->items[i].tensor.shape, all->paths[f], error);
            if (status)
                return status;
        }
    }
    return ET_OK;
}

/* Elements begin .. begin + count - 1 of one weight. Sums in double, in the order of the files;
 * a block at a time, so that it needs no memory beside the result. */
static void average_block(const average *all, const et_safetensors_item *item, int64_t begin,
                          int64_t count)
{
    et_assert(count > 0 && count <= AVERAGE_BLOCK);
    double sum[AVERAGE_BLOCK] = { 0 };
    float *to = item->tensor.data;
    for (size_t f = 0; f < all->count; f++) {
        const float *from = et_safetensors_find(all->files[f], item->name)->data;
        for (int64_t i = 0; i < count; i++)
            sum[i] += from[begin + i];
    }
    for (int64_t i = 0; i < count; i++)
        to[begin + i] = (float)(sum[i] / (double)all->count);
}

/* Each file is mapped, so the whole is read once, block by block, from all files in turn. */
static void average_all(const average *all)
{
    for (size_t i = 0; i < all->item_count; i++) {
        int64_t size = et_shape_count(all->items[i].tensor.shape);
        for (int64_t begin = 0; begin < size; begin += AVERAGE_BLOCK) {
            int64_t left = size - begin;
            average_block(all, &all->items[i], begin, left < AVERAGE_BLOCK ? left : AVERAGE_BLOCK);
        }
    }
}

/* The first file says which weights there are, in the order of its data. Their names are
 * borrowed from it, so it stays open until all is written. */
static int make_items(average *all, et_arena *arena, et_error *error)
{
    const et_safetensors *first = all->files[0];
    all->items = et_arena_array(arena, et_safetensors_count(first), sizeof *all->items);
    for (size_t i = 0; all->items && i < et_safetensors_count(first); i++) {
        const et_safetensors_tensor *weight = et_safetensors_at(first, i);
        if (!et_state_is_weight(weight->name))
            continue;
        if (weight->dtype != ET_F32)
            return et_fail(error, ET_ECONFIG, "%s: %s is %s; only float32 is averaged",
                           all->paths[0], weight->name, et_dtype_name(weight->dtype));
        void *data = et_arena_alloc(arena, (size_t)weight->bytes);
        if (!data)
            return et_alloc_failed(error, (size_t)weight->bytes, "an average");
        all->items[all->item_count++] =
            (et_safetensors_item){ weight->name, { data, ET_F32, weight->shape } };
    }
    return all->items ? ET_OK : et_alloc_failed(error, 0, "an average");
}

/* Written as every file is: under a temporary name, then renamed. The state is no tree of a run,
 * so a restore from it is refused with a message. */
static int write_average(const average *all, const char *path, et_error *error)
{
    et_file_writer writer;
    et_safetensors_written written;
    char state[64];
    snprintf(state, sizeof state, "{\"average\":{\"files\":%zu}}", all->count);
    int status = et_checkpoint_file_draft(&writer, &written, path, all->items, all->item_count,
                                          all->step, state, error);
    return status ? status : et_file_writer_commit(&writer, error);
}

/* All files are mapped at once: address space, not memory. */
int et_checkpoint_average(const char *const *paths, size_t count, const char *out_path,
                          et_error *error)
{
    et_assert(count > 0);
    et_arena arena = ET_ARENA_INIT;
    average all = { .paths = paths, .count = count };
    all.files = et_arena_array(&arena, count, sizeof *all.files);
    int status = all.files ? open_all(&all, error) : et_alloc_failed(error, count, "an average");
    if (!status)
        status = make_items(&all, &arena, error);
    if (!status)
        status = compare(&all, error);
    if (!status) {
        average_all(&all);
        status = write_average(&all, out_path, error);
    }
    for (size_t i = 0; all.files && i < count; i++)
        et_safetensors_close(all.files[i]);
    et_arena_release(&arena);
    return status;
}
