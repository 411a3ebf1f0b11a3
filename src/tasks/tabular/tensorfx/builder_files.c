/* builder.yaml:
 *
 *     builder: feed_forward
 *     arguments:
 *       learning_rate: 0.01
 *       hidden_layers: [20, 10]
 *
 * Arguments are those of the builder's own class: what all programs have says how a job is run, and
 * a trained model does not depend on it. */
#include "tasks/tabular/tensorfx/builder_files.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "data/table/dataset.h"
#include "tasks/tabular/table_names.h"
#include "tasks/tabular/tensorfx/argument_parser.h"
#include "tasks/tabular/tensorfx/model_builder.h"
#include "tasks/tabular/tensorfx/predictor_private.h"
#include "train/checkpoint/identity.h"
#include "train/run/run_names.h"

#define BUILDER_BYTES_MAX ((size_t)1 << 20)

/* Those that a directory can name without a program. */
static const et_model_builder_class *const ready[] = { &et_feed_forward_builder };

int et_builder_rows(et_data_set *dataset, const char *source, int64_t *rows, et_error *error)
{
    const et_data_source *from = et_data_set_source(dataset, source);
    et_samples *samples;
    if (!from)
        return et_fail(error, ET_ECONFIG, "the dataset has no source \"%s\"", source);
    int status = et_data_source_samples(&samples, from, NULL, error);
    if (status)
        return status;
    *rows = samples->count;
    et_samples_close(samples);
    return ET_OK;
}

/* ---- what checkpoints belong to
 * ------------------------------------------------------------------ */

int et_builder_identify(et_model_builder *builder, et_value **identity, et_arena *arena,
                        et_error *error)
{
    et_value *dict = et_value_dict(arena);
    uint64_t fingerprint = et_encoder_fingerprint(et_data_set_encoder(builder->dataset));
    et_value_set_string(dict, "builder", builder->ET_CLASS->name);
    et_value_set_string(dict, "encoder", et_arena_printf(arena, "%016" PRIx64, fingerprint));
    *identity = dict;
    return et_value_failed(dict) ? et_alloc_failed(error, 64, "a job's identity") : ET_OK;
}

static int compare(const et_identity *kept, const char *key, const char *now, const char *cure,
                   et_error *error)
{
    const char *was;
    if (!kept->values || et_value_read_string(kept->values, key, &was, NULL) || !strcmp(was, now))
        return ET_OK;
    return et_fail(error, ET_ECONFIG, "%s was made by another %s (%s, not %s): %s",
                   kept->checkpoint, key, was, now, cure);
}

int et_builder_check_same(const char *directory, const et_value *identity, et_arena *arena,
                          et_error *error)
{
    static const char *const keys[] = { "builder", "encoder" };
    static const char cure[] =
        "name another output, or restore builder, schema, metadata and features";
    et_identity kept;
    int status = et_identity_of_newest(&kept, directory, arena, error);
    for (int i = 0; i < 2 && !status; i++)
        status = compare(&kept, keys[i], et_value_get(identity, keys[i])->string, cure, error);
    return status;
}

int et_builder_check_identity(const et_identity *identity, const et_encoder *encoder,
                              et_error *error)
{
    char now[24];
    snprintf(now, sizeof now, "%016" PRIx64, et_encoder_fingerprint(encoder));
    return compare(identity, "encoder", now, "its schema, metadata or features have changed",
                   error);
}

/* ---- writing
 * ------------------------------------------------------------------------------------- */

static bool is_common(const char *name)
{
    for (const et_option *flag = et_model_arguments.flags; flag->field.name; flag++)
        if (!strcmp(flag->field.name, name))
            return true;
    return false;
}

int et_builder_write_class(const et_model_builder *builder, const char *path, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_value *root = et_value_dict(&arena), *own = NULL;
    const et_value *all = et_arguments_echo(builder->args, &arena);
    et_value_set_string(root, "builder", builder->ET_CLASS->name);
    own = et_value_set_dict(root, "arguments");
    for (const et_value *v = all ? all->first : NULL; v && own; v = v->next) {
        et_value *copy = is_common(v->key) ? NULL : et_arena_alloc(&arena, sizeof *copy);
        if (!copy)
            continue;
        *copy = *v;
        copy->next = NULL;
        et_value_append(own, v->key, copy);
    }
    int status = ET_OK;
    if (all && !et_value_failed(root))
        et_yaml_print(&text, root);
    if (!all || et_value_failed(root) || text.failed)
        status = et_alloc_failed(error, text.length, path);
    if (!status)
        status = et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

int et_builder_write(const et_model_builder *builder, const char *directory, et_error *error)
{
    static const char *const names[] = { ET_TABLE_SCHEMA, ET_TABLE_METADATA, ET_TABLE_FEATURES,
                                         ET_RUN_BUILDER };
    const et_data_set *dataset = builder->dataset;
    int status = ET_OK;
    for (int i = 0; i < 4 && !status; i++) {
        char *path = et_path_join(directory, names[i]);
        if (!path)
            return et_alloc_failed(error, strlen(directory), "a path");
        status = i == 0   ? et_schema_save(et_data_set_schema(dataset), path, error)
                 : i == 1 ? et_metadata_save(et_data_set_metadata(dataset), path, error)
                 : i == 2 ? et_feature_set_save(et_data_set_features(dataset), path, error)
                          : et_builder_write_class(builder, path, error);
        et_free(path);
    }
    return status;
}

/* ---- reading
 * ------------------------------------------------------------------------------------- */

static int choose(const et_model_builder_class **kind, const char *name,
                  const et_model_builder_class *given, et_error *error)
{
    *kind = given;
    for (size_t i = 0; i < sizeof ready / sizeof *ready && !*kind; i++)
        if (!strcmp(ready[i]->name, name))
            *kind = ready[i];
    if (!*kind)
        return et_fail(error, ET_ECONFIG,
                       "a model of builder %s; predict with the program that has this builder",
                       name);
    return strcmp((*kind)->name, name)
               ? et_fail(error, ET_ECONFIG, "a model of builder %s, not of %s", name, (*kind)->name)
               : ET_OK;
}

static int read_class(const et_model_builder_class **kind, et_arguments **arguments,
                      const et_value *root, const et_model_builder_class *given, et_error *error)
{
    const char *name;
    et_model_builder_class whole;
    int status = et_value_read_string(root, "builder", &name, error);
    if (!status)
        status = choose(kind, name, given, error);
    if (!status)
        status = et_model_builder_class_resolve(&whole, *kind, error);
    if (!status)
        status =
            et_arguments_create(arguments, whole.arguments, et_value_get(root, "arguments"), error);
    return status ? status : et_arguments_process(*arguments, error);
}

int et_builder_parse(const et_model_builder_class **kind, et_arguments **arguments,
                     const char *bytes, size_t length, const char *path,
                     const et_model_builder_class *given, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *root;
    int status = et_yaml_parse(&root, &arena, bytes, length, path, error);
    int read = status ? ET_OK : read_class(kind, arguments, root, given, error);
    et_arena_release(&arena);
    return read ? et_fail_while(error, read, "%s", path) : status;
}

int et_builder_prediction(et_model_builder *builder, et_params **params, et_build_fn **build,
                          void **payload, et_error *error)
{
    et_graph_interface *graph;
    int status = et_model_builder_build_prediction_graph(builder, NULL, &graph, error);
    if (status)
        return status;
    *params = et_model_builder_params(builder);
    *build = graph->build;
    *payload = graph;
    return ET_OK;
}
