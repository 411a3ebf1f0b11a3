/* Weights alone: loading them for use, and averaging the weights of several files.
 *
 * A file has weights under their names and, if the run kept an average, also "average/<name>"
 * (et_state_is_weight distinguishes them). A model needs one of both and none of the optimizer's
 * slots. So tensors that are not requested are skipped here, while a restore refuses them.
 *
 * Averaging the last checkpoints of a run (Junczys-Dowmunt, Dwojak and Sennrich 2016; "Attention is
 * all you need", section 6.1, averages the last 5 or 20) usually scores better than each of them:
 *
 *   w = (w[1] + ... + w[n]) / n
 *
 * If all files have averages, w[i] are the averages, because the run is validated and used with
 * them. The result has no slots and no averages: it can be loaded, but training cannot resume from
 * it. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/text/pattern.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "engine/kernel/row_product.h"
#include "engine/tensor/params.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"
#include "train/checkpoint/state.h"

/* ---- stored weights ---- */

bool et_stored_weight_by_rows(const char *name)
{
    const char *last = strrchr(name, '/');
    return !strcmp(last ? last + 1 : name, "table");
}

bool et_stored_weight_is_narrowed(et_shape shape)
{
    return shape.rank == 2 && shape.size[0] <= ET_ROW_BYTES_MAX &&
           shape.size[1] <= ET_ROW_BYTES_MAX;
}

/* Allocates nothing, because a lack of memory would look like a missing tensor. */
const et_safetensors_tensor *et_stored_find(const et_safetensors *file, const char *prefix,
                                            const char *name)
{
    const size_t length = strlen(prefix);
    for (size_t i = 0; i < et_safetensors_count(file); i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(file, i);
        if (!strncmp(tensor->name, prefix, length) && !strcmp(tensor->name + length, name))
            return tensor;
    }
    return NULL;
}

/* NULL: none that fits. */
static const et_safetensors_tensor *find_scale(const et_safetensors *file,
                                               const et_safetensors_tensor *there)
{
    const et_safetensors_tensor *scale = et_stored_find(file, ET_STORED_SCALE, there->name);
    if (!scale || scale->dtype != ET_F32 || there->shape.rank != 2 || scale->shape.rank != 2)
        return NULL;
    const int64_t *size = there->shape.size, *of = scale->shape.size;
    const bool rows = of[0] == size[0] && of[1] == 1, columns = of[0] == 1 && of[1] == size[1];
    return rows || columns ? scale : NULL;
}

static bool stored_fits(const et_safetensors *file, const et_safetensors_tensor *there,
                        et_shape shape)
{
    if (!et_shape_equal(there->shape, shape))
        return false;
    return there->dtype == ET_F32 || there->dtype == ET_BF16 ||
           (there->dtype == ET_I8 && find_scale(file, there));
}

static void read_stored(float *to, const et_safetensors *file, const et_safetensors_tensor *there)
{
    const int64_t count = et_shape_count(there->shape);
    if (there->dtype == ET_BF16) {
        /* The upper half of a float32; the file may lie at any address. */
        for (int64_t i = 0; i < count; i++) {
            et_bf16 half;
            memcpy(&half, (const char *)there->data + 2 * i, sizeof half);
            to[i] = et_bf16_to_float(half);
        }
    } else if (there->dtype == ET_I8) {
        const et_safetensors_tensor *scale = find_scale(file, there);
        et_assert(scale);
        /* Scales by row are read as a column of a matrix of one row, so they are copied one at a
         * time. */
        const int64_t rows = there->shape.size[0], columns = there->shape.size[1];
        const bool by_rows = scale->shape.size[0] == rows && scale->shape.size[1] == 1;
        const int8_t *q = there->data;
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < columns; j++) {
                float one;
                memcpy(&one, (const char *)scale->data + (size_t)(by_rows ? i : j) * sizeof one,
                       sizeof one);
                to[i * columns + j] = one * q[i * columns + j];
            }
    } else if (there->bytes) {
        memcpy(to, there->data, there->bytes);
    }
}

int et_stored_weight_round(float *w, const char *name, et_shape shape, et_error *error)
{
    if (!et_stored_weight_is_narrowed(shape))
        return ET_OK;
    const int64_t rows = shape.size[0], columns = shape.size[1];
    const bool by_rows = et_stored_weight_by_rows(name);
    int8_t *q = et_alloc(rows, columns);
    float *scale = et_alloc((size_t)(by_rows ? rows : columns), sizeof *scale);
    int status = q && scale ? ET_OK : et_alloc_failed(error, "weights as bytes");
    if (!status) {
        et_row_weight_to_bytes(q, scale, w, rows, columns, by_rows);
        et_row_weight_from_bytes(w, q, scale, rows, columns, by_rows);
    }
    et_free(q);
    et_free(scale);
    return status;
}

/* ---- loading ---- */

/* Into a store that a model has declared its parameters in: it says which names and shapes are
 * wanted. */

/* The average of a weight if it is wanted and there, else the weight itself. NULL: neither. */
static const et_safetensors_tensor *find_named(const et_safetensors *file, const char *name,
                                               bool prefer_average, et_arena *arena)
{
    const char *key = prefer_average ? et_arena_printf(arena, ET_STATE_AVERAGE "%s", name) : NULL;
    const et_safetensors_tensor *average = key ? et_safetensors_find(file, key) : NULL;
    return average ? average : et_safetensors_find(file, name);
}

/* The whole path, both types and both shapes: the reader has two models and needs to know which
 * setting differs. file: set if the weight may be stored narrower, else NULL. */
static int check_weight(const et_safetensors *file, const et_safetensors_tensor *there,
                        const char *name, et_shape shape, const char *path, et_error *error)
{
    char was[ET_SHAPE_TEXT_MAX], is[ET_SHAPE_TEXT_MAX];
    if (!there)
        return et_fail(error, ET_ECONFIG, "%s: belongs to another model: it has no %s", path, name);
    if (file ? stored_fits(file, there, shape)
             : there->dtype == ET_F32 && et_shape_equal(there->shape, shape))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%s: belongs to another model: %s is %s %s in the file, but float32 %s here",
                   path, name, et_dtype_name(there->dtype), et_shape_print(there->shape, was),
                   et_shape_print(shape, is));
}

/* found: [count of parameters], by their index in the store; NULL: not wanted. */
static int find_all(const et_safetensors_tensor **found, const et_params *params,
                    const et_safetensors *file, const char *path, et_weights_choice choice,
                    const et_patterns *wanted, et_arena *arena, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; !status && i < et_params_count(params); i++) {
        const char *name = et_params_name(params, i);
        if (wanted && !et_patterns_match(wanted, name))
            continue;
        /* Names outside a model's prefix are shared. */
        const char *own =
            choice.prefix ? et_arena_printf(arena, "%s%s", choice.prefix, name) : NULL;
        found[i] = own ? find_named(file, own, choice.averages, arena) : NULL;
        if (!found[i])
            found[i] = find_named(file, name, choice.averages, arena);
        status = arena->failed
                     ? et_alloc_failed(error, "a name")
                     : check_weight(file, found[i], name, et_params_shape(params, i), path, error);
    }
    return status;
}

/* A file in memory is only lent. Tensors of a sealed file are aligned. */
static bool can_map(const et_safetensors *file, const et_safetensors_tensor *const *found,
                    size_t count)
{
    bool ok = count && et_safetensors_sealed(file) && !et_safetensors_in_memory(file);
    for (size_t i = 0; i < count && ok; i++)
        ok = found[i]->dtype == ET_F32 && found[i]->bytes;
    return ok;
}

/* Values of the store only: gradients are left as they are, the shadow follows by
 * et_params_changed. */
static void copy_all(et_params *params, const et_safetensors *file,
                     const et_safetensors_tensor *const *found)
{
    et_params_begin_change(params);
    for (int i = 0; i < et_params_count(params); i++)
        if (found[i]) {
            read_stored(et_params_values_of(params, i), file, found[i]);
            et_safetensors_forget(file, found[i]);
        }
    et_params_changed(params, true);
}

/* All is found and checked before the first value changes. */
static int load(et_params *params, et_safetensors **file, const char *path,
                et_weights_choice choice, const et_patterns *wanted, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    size_t count = (size_t)et_params_count(params);
    const et_safetensors_tensor **found = et_arena_array(&arena, count, sizeof *found);
    int status = found ? find_all(found, params, *file, path, choice, wanted, &arena, error)
                       : et_alloc_failed(error, "a list of weights");
    et_assert(choice.mapped || et_params_ready(params));
    if (!status && choice.mapped && can_map(*file, found, count)) {
        status = et_params_map(params, *file, found, error);
        *file = status ? *file : NULL;
    } else {
        if (!status && (!et_params_ready(params) || et_params_mapped(params)))
            status = et_params_materialize(params, false, error);
        if (!status)
            copy_all(params, *file, found);
    }
    et_arena_release(&arena);
    return status;
}

int et_checkpoint_file_load(et_params *params, et_safetensors **file, const char *path,
                            et_weights_choice choice, et_checkpoint_facts *facts, et_error *error)
{
    int status = ET_OK;
    if (facts && facts->arena)
        status = et_identity_parse(&facts->identity,
                                   et_safetensors_metadata(*file, ET_CHECKPOINT_KEY_STATE), path,
                                   facts->arena, error);
    return status ? status : load(params, file, path, choice, NULL, error);
}

/* Writes the step only after the weights. */
int et_checkpoint_take_file(et_params *params, const char *path, et_weights_choice choice,
                            et_checkpoint_facts *facts, et_error *error)
{
    et_safetensors *file;
    int64_t found;
    int status = et_checkpoint_file_open(&file, path, &found, error);
    if (status)
        return status;
    status = et_checkpoint_file_load(params, &file, path, choice, facts, error);
    et_safetensors_close(file);
    if (!status && facts)
        facts->step = found;
    return status;
}

int et_checkpoint_load_weights(et_params *params, const char *path, bool prefer_average,
                               et_checkpoint_facts *facts, et_error *error)
{
    const et_weights_choice choice = { .averages = prefer_average };
    int status = et_path_check(path, error);
    return status ? status : et_checkpoint_take_file(params, path, choice, facts, error);
}

int et_checkpoint_take_newest(char **path, et_params *params, const char *model_dir,
                              et_weights_choice choice, et_checkpoint_facts *facts, et_error *error)
{
    et_safetensors *file;
    int64_t step;
    int status = et_checkpoint_newest_file(&file, &step, path, model_dir, error);
    if (!status)
        status = et_checkpoint_file_load(params, &file, *path, choice, facts, error);
    if (!status && facts)
        facts->step = step;
    et_safetensors_close(file);
    return status;
}

/* info.json is replaced before the file that it named is removed, so a file that is gone is
 * looked for under another name. */
int et_checkpoint_take_best(char **path, et_params *params, const char *model_dir,
                            et_weights_choice choice, et_checkpoint_facts *facts, et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    int status = et_checkpoint_best(path, model_dir, &reason);
    while (!status) {
        status = et_checkpoint_take_file(params, *path, choice, facts, &reason);
        if (status != ET_ENOTFOUND)
            break;
        char *now;
        if (et_checkpoint_best(&now, model_dir, NULL))
            break;
        bool same = !strcmp(now, *path);
        et_free(*path);
        *path = now;
        if (same)
            break;
        status = ET_OK;
    }
    return status ? et_fail(error, status, "%s", reason.text) : ET_OK;
}

int et_checkpoint_take_named(char **path, et_params *params, const char *model_dir,
                             const char *name, et_weights_choice choice, et_checkpoint_facts *facts,
                             et_error *error)
{
    if (!strcmp(name, ET_CHECKPOINT_NEWEST))
        return et_checkpoint_take_newest(path, params, model_dir, choice, facts, error);
    int status;
    if (!strcmp(name, ET_CHECKPOINT_BEST)) {
        status = et_checkpoint_take_best(path, params, model_dir, choice, facts, error);
        return status != ET_ENOTFOUND || *path
                   ? status
                   : et_fail(error, status,
                             "%s: the run has no best checkpoint: leave checkpoint best out",
                             model_dir);
    }
    status = et_checkpoint_named(path, model_dir, name, error);
    return status ? status : et_checkpoint_take_file(params, *path, choice, facts, error);
}

int et_checkpoint_load(char **path, et_params *params, const char *model_dir, const char *name,
                       bool prefer_average, et_checkpoint_facts *facts, et_error *error)
{
    *path = NULL;
    int status = et_path_check(model_dir, error);
    if (status)
        return status;
    return et_checkpoint_take_named(path, params, model_dir, name ? name : ET_CHECKPOINT_NEWEST,
                                    (et_weights_choice){ .averages = prefer_average }, facts,
                                    error);
}

/* ---- another run's weights ---- */

/* If a directory is named, its newest or best checkpoint. */

/* "runs/a/best/", which a shell completes, is runs/a/best. */
int et_checkpoint_find_weights(char **path, const char *given, et_error *error)
{
    const et_path trimmed = et_path_print("%.*s", (int)et_path_length(given), given);
    const char *from = trimmed.text;
    bool best =
        (!strcmp(et_path_base(from), ET_CHECKPOINT_BEST) || et_checkpoint_is_best_link(from)) &&
        et_file_exists_in(from, ET_CHECKPOINT_INFO);
    if (et_file_exists_in(from, ET_CHECKPOINT_FOLDER))
        return et_checkpoint_newest(path, from, error);
    if (best)
        return et_checkpoint_best(path, et_path_parent(from).text, error);
    if (et_directory_exists(from))
        return et_fail(
            error, ET_ENOTFOUND,
            "no checkpoint here; name a run's directory, its best/, or a file of weights");
    *path = et_strdup(from);
    return *path ? ET_OK : et_alloc_failed(error, "a path");
}

/* No text and no scale of an export, either. */
static bool is_weight(const char *name)
{
    return et_state_is_weight(name) && strncmp(name, ET_STORED_TEXT, strlen(ET_STORED_TEXT)) != 0 &&
           strncmp(name, ET_STORED_SCALE, strlen(ET_STORED_SCALE)) != 0;
}

static bool any_name(const et_params *params, const et_patterns *wanted)
{
    for (int i = 0; i < et_params_count(params); i++)
        if (et_patterns_match(wanted, et_params_name(params, i)))
            return true;
    return false;
}

/* Warns if the file has weights that this model does not use. */
static int load_file(et_params *params, const char *path, const et_patterns *wanted,
                     et_error *error)
{
    et_safetensors *file;
    int64_t step;
    const char *first = NULL;
    long long unused = 0;
    int status = et_checkpoint_file_open(&file, path, &step, error);
    if (status)
        return status;
    status = load(params, &file, path, (et_weights_choice){ .averages = true }, wanted, error);
    for (size_t i = 0; !status && !wanted && i < et_safetensors_count(file); i++) {
        const char *name = et_safetensors_at(file, i)->name;
        if (!is_weight(name) || et_params_find(params, name) >= 0)
            continue;
        first = first ? first : name;
        unused++;
    }
    if (unused)
        et_log(ET_LOG_WARNING,
               "%s: this model has no %s, so %lld of the file's weights are not used", path, first,
               unused);
    et_safetensors_close(file);
    return status;
}

/* A working run may remove a checkpoint before it is opened: then there is another. */
static int load_found(et_params *params, const char *from, const et_patterns *wanted,
                      et_error *error)
{
    char *path = NULL, *before = NULL;
    et_error reason = ET_ERROR_INIT;
    int status;
    for (;;) {
        status = et_checkpoint_find_weights(&path, from, error);
        if (status)
            break;
        status = load_file(params, path, wanted, &reason);
        if (status != ET_ENOTFOUND || (before && !strcmp(before, path))) {
            status = status ? et_fail(error, status, "%s", reason.text) : ET_OK;
            break;
        }
        et_free(before);
        before = path;
        path = NULL;
    }
    et_free(before);
    et_free(path);
    return status;
}

int et_checkpoint_initialize(et_params *params, const char *from, const char *pattern,
                             et_error *error)
{
    et_patterns *wanted = NULL;
    if (!et_params_ready(params))
        return et_fail(error, ET_EUSAGE, "call et_params_materialize before you load weights");
    int status = et_path_check(from, error);
    if (!status && pattern)
        status = et_patterns_new(&wanted, (et_strings){ &pattern, 1 }, "init_pattern", error);
    if (!status && wanted && !any_name(params, wanted))
        status = et_fail(error, ET_ECONFIG,
                         "init_pattern %s matches no parameter; the first parameter is %s", pattern,
                         et_params_name(params, 0));
    if (!status)
        status = load_found(params, from, wanted, error);
    et_patterns_free(wanted);
    return status ? et_fail_while(error, status, "initializing with the weights of %s", from)
                  : ET_OK;
}

/* ---- averaging ---- */

/* Files against files: no model is built, so weights of any are averaged, as long as they agree
 * with each other. */

/* Elements that are summed at a time: 8 KiB of doubles, in the first-level cache for all files
 * in turn. */
#define AVERAGE_BLOCK 1024

typedef struct average {
    const char *const *paths; /* [count], borrowed */
    et_safetensors **files;   /* [count] open; NULL: not yet */
    size_t count;
    bool averages;                      /* of the files' averages, not of their weights */
    et_safetensors_item *items;         /* the result; names of the first file's */
    size_t item_count;                  /* weights of the first file */
    const et_safetensors_tensor **from; /* [item_count][count]: tensors averaged into each item */
    const et_value *identity;           /* of the first file that has one; NULL: none has */
    int64_t step;                       /* the latest of all */
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

/* Identities in the files must belong to one model; the first identity is kept. */
static int compare_identities(average *all, et_arena *arena, et_error *error)
{
    et_identity first = { 0 };
    int status = ET_OK;
    for (size_t i = 0; i < all->count && !status; i++) {
        et_identity one = { all->paths[i], NULL };
        const char *text = et_safetensors_metadata(all->files[i], ET_CHECKPOINT_KEY_STATE);
        status = et_identity_parse(&one.values, text, one.checkpoint, arena, error);
        if (!status && first.values && one.values)
            status = et_identity_compare(&first, &one, error);
        if (!first.values)
            first = one;
    }
    all->identity = first.values;
    return status;
}

/* Whether a file has an average of anything. */
static bool has_averages(const et_safetensors *file)
{
    for (size_t i = 0; i < et_safetensors_count(file); i++)
        if (!strncmp(et_safetensors_at(file, i)->name, ET_STATE_AVERAGE, strlen(ET_STATE_AVERAGE)))
            return true;
    return false;
}

/* All files or none: a mean of both kinds would be neither. */
static int choose(average *all, bool live_weights, et_error *error)
{
    all->averages = !live_weights && has_averages(all->files[0]);
    for (size_t i = 1; i < all->count && !live_weights; i++)
        if (has_averages(all->files[i]) != all->averages)
            return et_fail(error, ET_ECONFIG,
                           "%s has a moving average, but %s has none; name files of one kind, or "
                           "use the trained weights with --live-weights",
                           all->paths[all->averages ? 0 : i], all->paths[all->averages ? i : 0]);
    return ET_OK;
}

/* Without slots and averages: files with and without them may be averaged together. */
static size_t count_weights(const et_safetensors *file)
{
    size_t count = 0;
    for (size_t i = 0; i < et_safetensors_count(file); i++)
        count += is_weight(et_safetensors_at(file, i)->name);
    return count;
}

/* The same weights in every file. The same number and every name found makes the same set, since
 * names are unique in a file. Also finds the tensors to average for each item. */
static int compare(average *all, et_arena *arena, et_error *error)
{
    all->from =
        et_arena_array(arena, all->item_count * all->count, sizeof(et_safetensors_tensor *));
    if (!all->from)
        return et_alloc_failed(error, "an average");
    for (size_t f = 0; f < all->count; f++) {
        if (count_weights(all->files[f]) != all->item_count)
            return et_fail(error, ET_ECONFIG,
                           "%s has %zu weights, but %s has %zu: they belong to different models",
                           all->paths[0], all->item_count, all->paths[f],
                           count_weights(all->files[f]));
        for (size_t i = 0; i < all->item_count; i++) {
            const char *name = all->items[i].name;
            const et_safetensors_tensor *there =
                find_named(all->files[f], name, all->averages, arena);
            int status =
                check_weight(NULL, there, name, all->items[i].tensor.shape, all->paths[f], error);
            all->from[i * all->count + f] = there;
            if (status)
                return status;
        }
    }
    return ET_OK;
}

/* Elements begin .. begin + count - 1 of item i. Sums in double, in the order of the files; a block
 * at a time, so that only the result needs memory. */
static void average_block(const average *all, size_t item, int64_t begin, int64_t count)
{
    et_assert(count > 0 && count <= AVERAGE_BLOCK);
    double sum[AVERAGE_BLOCK] = { 0 };
    float *to = all->items[item].tensor.data;
    for (size_t f = 0; f < all->count; f++) {
        const float *from = all->from[item * all->count + f]->data;
        for (int64_t i = 0; i < count; i++)
            sum[i] += from[begin + i];
    }
    for (int64_t i = 0; i < count; i++)
        to[begin + i] = (float)(sum[i] / (double)all->count);
}

/* The first file says which weights there are, in the order of its data. Their names are
 * borrowed from it, so it stays open until all is written. */
static int make_items(average *all, et_arena *arena, et_error *error)
{
    const et_safetensors *first = all->files[0];
    all->items = et_arena_array(arena, et_safetensors_count(first), sizeof *all->items);
    for (size_t i = 0; all->items && i < et_safetensors_count(first); i++) {
        const et_safetensors_tensor *weight = et_safetensors_at(first, i);
        if (!is_weight(weight->name))
            continue;
        if (weight->dtype != ET_F32)
            return et_fail(error, ET_ECONFIG, "%s: %s is %s; only float32 can be averaged",
                           all->paths[0], weight->name, et_dtype_name(weight->dtype));
        void *data = et_arena_alloc(arena, weight->bytes);
        if (!data)
            return et_alloc_failed(error, "an average");
        all->items[all->item_count++] =
            (et_safetensors_item){ weight->name, { data, ET_F32, weight->shape } };
    }
    return all->items ? ET_OK : et_alloc_failed(error, "an average");
}

/* {"average":{"files":3,"of":"averages"},"identity":{...}}: no tree of a run, so a restore from it
 * is refused with a message. Written as every file is: under a temporary name, then renamed. */
static int write_average(const average *all, const char *path, et_arena *arena, et_error *error)
{
    et_file_writer writer;
    et_safetensors_written written;
    et_strbuf state = ET_STRBUF_INIT;
    et_value *tree = et_value_dict(arena), *dict = et_value_set_dict(tree, "average");
    et_value_set_int(dict, "files", (int64_t)all->count);
    et_value_set_string(dict, "of", all->averages ? "averages" : "weights");
    et_value *identity = all->identity ? et_value_set_dict(tree, ET_IDENTITY) : NULL;
    int status = identity ? et_value_merge(identity, all->identity, error) : ET_OK;
    if (!status && et_value_failed(tree))
        status = et_alloc_failed(error, "an average");
    if (!status)
        et_json_print(&state, tree, 0);
    if (!status && state.failed)
        status = et_alloc_failed(error, "an average");
    if (!status)
        status = et_checkpoint_file_draft(&writer, &written, path, all->items, all->item_count,
                                          NULL, all->step, et_strbuf_text(&state), error);
    et_strbuf_release(&state);
    return status ? status : et_file_writer_commit(&writer, error);
}

/* All files are mapped at once: address space, not memory. */
int et_checkpoint_average(const char *const *paths, size_t count, bool live_weights,
                          const char *out_path, bool *averages, et_error *error)
{
    et_assert(count > 0);
    et_arena arena = ET_ARENA_INIT;
    average all = { .paths = paths, .count = count };
    all.files = et_arena_array(&arena, count, sizeof *all.files);
    int status = all.files ? open_all(&all, error) : et_alloc_failed(error, "an average");
    if (!status && !(status = compare_identities(&all, &arena, error)) &&
        !(status = choose(&all, live_weights, error)) &&
        !(status = make_items(&all, &arena, error)))
        status = compare(&all, &arena, error);
    if (averages)
        *averages = all.averages;
    if (!status) {
        /* Block by block from all files in turn, which are mapped: so each is read once. */
        for (size_t i = 0; i < all.item_count; i++) {
            int64_t size = et_shape_count(all.items[i].tensor.shape);
            for (int64_t begin = 0; begin < size; begin += AVERAGE_BLOCK) {
                int64_t left = size - begin;
                average_block(&all, i, begin, left < AVERAGE_BLOCK ? left : AVERAGE_BLOCK);
            }
        }
        status = write_average(&all, out_path, &arena, error);
    }
    for (size_t i = 0; all.files && i < count; i++)
        et_safetensors_close(all.files[i]);
    et_arena_release(&arena);
    return status;
}
