/* A model for use alone: what rows are encoded by, settings, weights. The weights come last, so a
 * directory that has them is whole. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tasks/tabular/builder_files.h"
#include "tasks/tabular/predictor_private.h"
#include "train/checkpoint.h"

/* What must not be there before, and what is written, in this order. */
static const char *const names[] = { ET_TABLE_SCHEMA,    ET_TABLE_METADATA, ET_TABLE_FEATURES,
                                     ET_EXPERIMENT_FILE, ET_TABLE_BUILDER,  ET_TABLE_WEIGHTS };
enum { SCHEMA, METADATA, FEATURES, SETTINGS, BUILDER, WEIGHTS, NAMES };

static int write_file(const et_table_model *model, int which, const char *path, et_error *error)
{
    const char *checkpoint = model->checkpoint;
    bool averages;
    switch (which) {
    case SCHEMA:
        return et_schema_save(model->schema, path, error);
    case METADATA:
        return et_metadata_save(model->metadata, path, error);
    case FEATURES:
        return et_feature_set_save(model->features, path, error);
    case SETTINGS:
        return model->kind ? ET_OK : et_experiment_write(&model->experiment, path, error);
    case BUILDER:
        return model->kind ? et_builder_write_class(model->builder, path, error) : ET_OK;
    default:
        return et_checkpoint_average(&checkpoint, 1, model->live_weights, path, &averages, error);
    }
}

static int check_empty(et_arena *arena, const char *directory, const char *paths[NAMES],
                       et_error *error)
{
    for (int i = 0; i < NAMES; i++) {
        paths[i] = et_arena_printf(arena, "%s/%s", directory, names[i]);
        if (!paths[i])
            return et_alloc_failed(error, strlen(directory), "a path");
        if (et_file_exists(paths[i]))
            return et_fail(error, ET_ECONFIG,
                           "%s is there already: choose another directory, or remove it", paths[i]);
    }
    return ET_OK;
}

int et_predictor_export(const et_predictor *p, const char *directory, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const char *paths[NAMES];
    if (!directory || !*directory)
        return et_fail(error, ET_ECONFIG, "the directory of an export has no name");
    int status = check_empty(&arena, directory, paths, error);
    if (!status)
        status = et_directory_make(directory, error);
    for (int i = 0; i < NAMES && !status; i++)
        status = write_file(p->model, i, paths[i], error);
    et_arena_release(&arena);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
