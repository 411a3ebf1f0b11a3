/* One checkpoint file: a sealed safetensors file (formats/safetensors/safetensors.h). It has two
 * more keys of metadata than the seal:
 *
 *   "step"   decimal digits, so the file identifies itself without its name
 *   "state"  the state tree as one line of JSON: {"optimizer":{...},"progress":{...},...}
 *
 * and every tensor of the state under its name: weights as they are, "average/<weight>",
 * "optimizer/<slot>/<weight>".
 *
 * A file of another model restores nothing: names and shapes of all tensors and the parts of the
 * tree are compared before the first byte is copied. Then arrays are copied, then parts are
 * restored in order of adding. If a part refuses its values (ET_EFORMAT), the state is half
 * restored and the run does not begin. */
#include "train/checkpoint/checkpoint_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

/* metadata of safetensors maps strings to strings, so the step is written in digits. */
et_value *et_checkpoint_file_metadata(int64_t step, const char *state, et_arena *arena)
{
    et_assert(step >= 0 && state);
    char digits[32];
    snprintf(digits, sizeof digits, "%" PRId64, step);
    et_value *metadata = et_value_dict(arena);
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STEP, digits);
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STATE, state);
    return metadata && !et_value_failed(metadata) ? metadata : NULL;
}

int et_checkpoint_file_draft(et_file_writer *writer, et_safetensors_written *written,
                             const char *path, const et_safetensors_item *items, size_t count,
                             const et_safetensors_reader *reader, int64_t step, const char *state,
                             et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_value *metadata = et_checkpoint_file_metadata(step, state, &arena);
    int status = metadata ? et_safetensors_draft(writer, written, path, items, count, reader,
                                                 metadata, error)
                          : et_alloc_failed(error, "a checkpoint");
    et_arena_release(&arena);
    return status;
}

/* Every byte is read once and its checksum compared: a restore is rare, and a flipped bit in a
 * weight would go unnoticed for the rest of the run. */
int et_checkpoint_file_check(const et_safetensors *file, const char *path, int64_t *step,
                             et_error *error)
{
    int status = et_safetensors_verify(file, error);
    if (status)
        return status;
    /* strtoll takes spaces and signs before digits; those are harmless here, and a negative step is
     * refused. */
    const char *digits = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STEP);
    char *end;
    if (!digits || !et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE))
        return et_fail(error, ET_EFORMAT, "%s: not a checkpoint: it has no step or state", path);
    errno = 0;
    *step = strtoll(digits, &end, 10);
    if (errno || end == digits || *end || *step < 0)
        return et_fail(error, ET_EFORMAT, "%s: its step is '%s', not a number", path, digits);
    return ET_OK;
}

int et_checkpoint_file_open(et_safetensors **out, const char *path, int64_t *step, et_error *error)
{
    int status = et_safetensors_open(out, path, error);
    if (status)
        return status;
    status = et_checkpoint_file_check(*out, path, step, error);
    if (status) {
        et_safetensors_close(*out);
        *out = NULL;
    }
    return status;
}

/* Whether only one side may have a tensor. */
static bool accepts(et_restore_fit fit, const char *name)
{
    return fit == ET_RESTORE_PARTIAL ||
           (fit == ET_RESTORE_OTHER_OPTIMIZER && !et_state_is_weight(name));
}

/* The same names with the same shapes on both sides. Unknown tensors are refused too: a model
 * that lost a layer is another model. */
static int match_tensors(const et_state *state, const et_safetensors *file, const char *path,
                         et_restore_fit fit, et_error *error)
{
    for (size_t i = 0; i < et_state_tensor_count(state); i++) {
        const et_state_tensor *here = et_state_tensor_at(state, i);
        const et_safetensors_tensor *there = et_safetensors_find(file, here->name);
        if (!there && accepts(fit, here->name))
            continue;
        if (!there)
            return et_fail(
                error, ET_ECONFIG,
                "%s: belongs to another model: it has no %s; use the settings of the checkpoint",
                path, here->name);
        if (there->dtype != ET_F32 || !et_shape_equal(there->shape, here->shape)) {
            /* Both sides in full, since the difference often tells which setting changed:
             * "embedding is float32 [8000, 512] there and float32 [8000, 256] here". */
            char was[ET_SHAPE_TEXT_MAX], is[ET_SHAPE_TEXT_MAX];
            return et_fail(
                error, ET_ECONFIG,
                "%s: belongs to another model: %s is %s %s in the file, but float32 %s here; "
                "use the settings of the checkpoint",
                path, there->name, et_dtype_name(there->dtype), et_shape_print(there->shape, was),
                et_shape_print(here->shape, is));
        }
    }
    for (size_t i = 0; i < et_safetensors_count(file); i++) {
        const char *name = et_safetensors_at(file, i)->name;
        if (!et_state_tensor_find(state, name) && !accepts(fit, name))
            return et_fail(error, ET_ECONFIG,
                           "%s: belongs to another model: it has %s, but this model does not; use "
                           "the settings of the checkpoint",
                           path, name);
    }
    return ET_OK;
}

/* match_tensors has found every required name and shape; the rest can't fail. A partial restore
 * names each difference. */
static void copy_tensors(et_state *state, const et_safetensors *file, const char *path,
                         et_restore_fit fit)
{
    const char *dropped = NULL;
    const bool partial = fit == ET_RESTORE_PARTIAL;
    for (size_t i = 0; i < et_state_tensor_count(state); i++) {
        const et_safetensors_tensor *there =
            et_safetensors_find(file, et_state_tensor_at(state, i)->name);
        et_assert(!there || there->dtype == ET_F32);
        et_state_tensor_fill(state, i, there ? there->data : NULL);
        if (!there && partial)
            et_log(ET_LOG_WARNING, "%s: has no %s: its values are unchanged", path,
                   et_state_tensor_at(state, i)->name);
    }
    for (size_t i = 0; i < et_safetensors_count(file) && (partial || !dropped); i++) {
        const char *name = et_safetensors_at(file, i)->name;
        if (et_state_tensor_find(state, name))
            continue;
        dropped = name;
        if (partial)
            et_log(ET_LOG_WARNING, "%s: %s is ignored: this model does not have it", path, name);
    }
    if (dropped && !partial)
        et_log(ET_LOG_WARNING,
               "%s: the next save drops values that this optimizer does not have: %s and others",
               path, dropped);
}

/* et_json_parse names path itself; other errors of the tree get it here. */
int et_checkpoint_file_restore(et_state *state, const et_safetensors *file, const char *path,
                               et_restore_fit fit, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    et_value *tree;
    int status = match_tensors(state, file, path, fit, error);
    if (!status)
        status = et_json_parse(&tree, &arena, text, strlen(text), path, error);
    if (!status) {
        status = fit == ET_RESTORE_PARTIAL ? et_state_match_partly(state, tree, path, error)
                                           : et_state_match(state, tree, error);
        if (!status) {
            if (et_state_params(state))
                et_params_begin_change(et_state_params(state));
            copy_tensors(state, file, path, fit);
            status = et_state_restore(state, tree, error);
        }
        if (status)
            et_fail_while(error, status, "%s", path);
    }
    et_arena_release(&arena);
    return status;
}

int et_checkpoint_restore_file(et_state *state, const char *path, et_restore_fit fit, int64_t *step,
                               et_error *error)
{
    et_safetensors *file;
    int status;
    if ((status = et_path_check(path, error)) ||
        (status = et_checkpoint_file_open(&file, path, step, error)))
        return status;
    status = et_checkpoint_file_restore(state, file, path, fit, error);
    et_state_end_restore(state);
    et_safetensors_close(file);
    return status;
}

et_path et_checkpoint_file_path(const char *directory, const char *prefix, int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "%s%" PRId64 ET_SAFETENSORS_SUFFIX, prefix, step);
    return et_path_of(directory, name);
}

et_path et_checkpoint_path(const char *model_dir, int64_t step)
{
    return et_checkpoint_file_path(et_path_of(model_dir, ET_CHECKPOINT_FOLDER).text,
                                   ET_CHECKPOINT_PREFIX, step);
}
