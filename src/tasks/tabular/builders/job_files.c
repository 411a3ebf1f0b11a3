/* job.yaml has the job's configuration and its arguments as they were given. builder.yaml describes
 * the model:
 *
 *     builder: feed_forward
 *     arguments:
 *       learning_rate: 0.01
 *       hidden_layers: [20, 10]
 *
 * builder.yaml has only arguments of the builder's class. Arguments that all programs have describe
 * how a job runs; a trained model does not depend on them. */
#include "tasks/tabular/builders/builders.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "data/table/table_set.h"
#include "tasks/tabular/table_files.h"
#include "train/checkpoint/identity.h"
#include "train/checkpoint/run_names.h"

/* Files of a job: the texts of its model, then job.yaml. */
enum { JOB_FILES = ET_TABLE_MODEL_FILES + 1 };

/* Builders that builder.yaml can name without a program. */
static const et_model_builder_class *const ready[] = { &et_feed_forward_builder };

/* ---- identity ---- */

int et_builder_identify(et_model_builder *builder, et_value **identity, et_arena *arena,
                        et_error *error)
{
    et_assert(builder->dataset && identity && arena);
    et_value *dict = et_value_dict(arena);
    uint64_t fingerprint = et_encoder_fingerprint(et_table_set_encoder(builder->dataset));
    et_value_set_string(dict, "builder", builder->ET_CLASS->name);
    et_value_set_string(dict, "encoder", et_arena_printf(arena, "%016" PRIx64, fingerprint));
    *identity = dict;
    return et_value_failed(dict) ? et_alloc_failed(error, "a job's identity") : ET_OK;
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
    et_assert(directory && identity && arena);
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
    et_assert(identity && encoder);
    char now[24];
    snprintf(now, sizeof now, "%016" PRIx64, et_encoder_fingerprint(encoder));
    return compare(identity, "encoder", now, "its schema, metadata or features have changed",
                   error);
}

/* ---- writing ---- */

/* The text of a tree, or out of memory. */
static int write_tree(const et_value *root, const char *path, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    const bool whole = root && !et_value_failed(root);
    if (whole)
        et_yaml_print(&text, root);
    int status = whole && !text.failed
                     ? et_file_write(path, et_strbuf_text(&text), text.length, error)
                     : et_alloc_failed(error, path);
    et_strbuf_release(&text);
    return status;
}

static int write_job(const et_model_builder *builder, const et_job_config *config, const char *path,
                     et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *root = et_value_dict(&arena), *environment = et_value_set_dict(root, "config");
    int status = environment ? et_value_merge(environment, et_job_config_env(config), error)
                             : et_alloc_failed(error, path);
    /* "--batch-size 64": a flag with its value, as TensorFX writes them. */
    et_value *list = et_value_set_list(root, "args");
    const et_strings *raw = &builder->args->raw;
    for (size_t i = 0; i < raw->count; i++) {
        const char *word = raw->items[i];
        bool value = i + 1 < raw->count && strncmp(raw->items[i + 1], "--", 2) != 0;
        if (value)
            word = et_arena_printf(&arena, "%s %s", word, raw->items[++i]);
        et_value_add_string(list, word);
    }
    if (!status)
        status = write_tree(root, path, error);
    et_arena_release(&arena);
    return status;
}

/* Arguments that all programs have are left out. */
static int write_builder(const et_model_builder *builder, const char *path, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *root = et_value_dict(&arena);
    const et_value *all = et_arguments_echo(builder->args, &arena);
    et_value_set_string(root, "builder", builder->ET_CLASS->name);
    et_value *own = et_value_set_dict(root, "arguments");
    for (const et_value *v = all ? all->first : NULL; v && own; v = v->next) {
        const et_option *flag = et_model_arguments.flags;
        while (flag->field.name && strcmp(flag->field.name, v->key) != 0)
            flag++;
        if (!flag->field.name)
            et_value_append_copy(own, v->key, v);
    }
    int status = write_tree(all ? root : NULL, path, error);
    et_arena_release(&arena);
    return status;
}

int et_builder_write(const et_model_builder *builder, const et_job_config *config,
                     const char *directory, et_error *error)
{
    et_assert(builder->dataset && directory);
    const et_table_files texts = { (et_schema *)et_table_set_schema(builder->dataset),
                                   (et_metadata *)et_table_set_metadata(builder->dataset),
                                   (et_feature_set *)et_table_set_features(builder->dataset) };
    int status = ET_OK;
    for (int i = 0; i < JOB_FILES && !status; i++) {
        const bool table = i < ET_TABLE_FILES, model = i == ET_TABLE_FILE_MODEL;
        const et_path path = et_path_of(directory, table   ? et_table_file_names[i]
                                                   : model ? ET_RUN_BUILDER
                                                           : "job.yaml");
        status = table   ? et_table_file_save(&texts, i, path.text, error)
                 : model ? write_builder(builder, path.text, error)
                         : write_job(builder, config, path.text, error);
    }
    return status;
}

/* ---- reading ---- */

static int read_class(const et_model_builder_class **kind, et_arguments **arguments,
                      const et_value *root, const et_model_builder_class *given, et_error *error)
{
    const char *name;
    et_model_builder_class whole;
    int status = et_value_read_string(root, "builder", &name, error);
    if (status)
        return status;
    *kind = given;
    for (size_t i = 0; i < sizeof ready / sizeof *ready && !*kind; i++)
        if (!strcmp(ready[i]->name, name))
            *kind = ready[i];
    if (!*kind)
        return et_fail(error, ET_ECONFIG,
                       "a model of builder %s; predict with the program that has this builder",
                       name);
    if (strcmp((*kind)->name, name) != 0)
        return et_fail(error, ET_ECONFIG, "a model of builder %s, not of %s", name, (*kind)->name);
    if ((status = et_model_builder_class_resolve(&whole, *kind, error)) ||
        (status = et_arguments_create(arguments, whole.arguments, et_value_get(root, "arguments"),
                                      error)))
        return status;
    return et_arguments_process(*arguments, error);
}

int et_builder_parse(const et_model_builder_class **kind, et_arguments **arguments,
                     const char *bytes, size_t length, const char *path,
                     const et_model_builder_class *given, et_error *error)
{
    et_assert(kind && arguments && path);
    et_arena arena = ET_ARENA_INIT;
    et_value *root;
    int status = et_yaml_parse(&root, &arena, bytes, length, path, error);
    int read = status ? ET_OK : read_class(kind, arguments, root, given, error);
    et_arena_release(&arena);
    return read ? et_fail_while(error, read, "%s", path) : status;
}
