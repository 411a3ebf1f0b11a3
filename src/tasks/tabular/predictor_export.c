/* A model for use alone: what rows are encoded by, settings, weights. The weights come last, so a
 * directory that has them is whole. */
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "tasks/tabular/builder_files.h"
#include "tasks/tabular/predictor_private.h"
#include "train/checkpoint.h"

#define FILE_BYTES_MAX ((size_t)1 << 30)

/* What must not be there before, and what is written, in this order. */
static const char *const names[] = { ET_TABLE_SCHEMA,    ET_TABLE_METADATA, ET_TABLE_FEATURES,
                                     ET_EXPERIMENT_FILE, ET_TABLE_BUILDER,  ET_TABLE_WEIGHTS };
enum { SCHEMA, METADATA, FEATURES, SETTINGS, BUILDER, WEIGHTS, NAMES };

/* Byte for byte: a run knows its own files by their checksums. */
static int copy_file(const et_table_model *model, int which, const char *path, et_error *error)
{
    char *from = et_path_join(model->directory, names[which]), *bytes = NULL;
    size_t length;
    int status = from ? et_file_read(&bytes, &length, from, FILE_BYTES_MAX, error)
                      : et_alloc_failed(error, strlen(model->directory), "a path");
    if (!status)
        status = et_file_write(path, bytes, length, error);
    et_free(bytes);
    et_free(from);
    return status;
}

/* The three may have been changed since they were read. */
static int check_copies(const et_table_model *model, const char *const *paths, et_error *error)
{
    et_schema *schema = NULL;
    et_metadata *metadata = NULL;
    et_feature_set *features = NULL;
    et_encoder *encoder = NULL;
    int status = et_schema_load(&schema, paths[SCHEMA], error);
    if (!status)
        status = et_metadata_load(&metadata, paths[METADATA], error);
    if (!status)
        status = et_feature_set_load(&features, paths[FEATURES], error);
    if (!status)
        status = et_encoder_new(&encoder, schema, metadata, features, error);
    if (!status && et_encoder_fingerprint(encoder) != et_encoder_fingerprint(model->encoder))
        status = et_fail(error, ET_EDATA,
                         "schema, metadata or features in %s are not those that were opened: open "
                         "it again",
                         model->directory);
    et_encoder_free(encoder);
    et_feature_set_free(features);
    et_metadata_free(metadata);
    et_schema_free(schema);
    return status;
}

static int write_file(const et_table_model *model, int which, const char *const *paths,
                      et_error *error)
{
    const char *checkpoint = model->checkpoint;
    bool averages;
    switch (which) {
    case SCHEMA:
    case METADATA:
    case FEATURES:
        return copy_file(model, which, paths[which], error);
    case SETTINGS:
        return model->kind ? ET_OK : et_experiment_write(&model->experiment, paths[which], error);
    case BUILDER:
        return model->kind ? et_builder_write_class(model->builder, paths[which], error) : ET_OK;
    default: {
        int status = check_copies(model, paths, error);
        return status ? status
                      : et_checkpoint_average(&checkpoint, 1, model->live_weights, paths[which],
                                              &averages, error);
    }
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
        status = write_file(p->model, i, paths, error);
    et_arena_release(&arena);
    return status ? et_fail_while(error, status, "exporting to %s", directory) : ET_OK;
}
