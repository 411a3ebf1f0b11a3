/* The kind of task for tables: its row. */
#include "tasks/tabular/tabular_kind.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "command/exporting.h"
#include "command/tabular/tabular_commands.h"
#include "data/text/paths.h"
#include "tasks/tabular/ensemble/ensemble.h"
#include "tasks/tabular/setup/setup.h"
#include "tasks/tabular/table_files.h"
#include "tasks/tabular/tabular_task.h"

static int open_task(et_task **out, const void *options, const et_task_context *context,
                     et_error *error)
{
    return et_tabular_task_open(out, options, context, error);
}

/* Takes all three texts or none, because features belong to one schema. */
static int inherit(void *settings, const char *model_dir, et_arena *arena, const char **taken,
                   et_error *error)
{
    et_tabular_options *o = settings;
    const bool given = (o->schema_path && *o->schema_path) ||
                       (o->metadata_path && *o->metadata_path) ||
                       (o->features_path && *o->features_path);
    *taken = NULL;
    if (given)
        return ET_OK;
    et_artifact artifact;
    int status = et_artifact_open(&artifact, model_dir, error);
    if (status)
        return status;
    o->schema_path = et_artifact_setting(&artifact, ET_TABLE_SCHEMA, arena);
    o->metadata_path = et_artifact_setting(&artifact, ET_TABLE_METADATA, arena);
    o->features_path = et_artifact_setting(&artifact, ET_TABLE_FEATURES, arena);
    et_artifact_close(&artifact);
    *taken = "schema, metadata, features";
    return o->schema_path && o->metadata_path && o->features_path
               ? ET_OK
               : et_alloc_failed(error, "a path");
}

static void read_files(const et_strings *paths, void (*file)(void *payload, const char *path),
                       void *payload)
{
    /* A missing file is not readable either; opening it reports the error. */
    et_arena arena = ET_ARENA_INIT;
    et_strings found;
    if (et_paths_match(&found, paths, NULL, &arena, NULL))
        found = *paths;
    for (size_t i = 0; i < found.count; i++)
        file(payload, found.items[i]);
    et_arena_release(&arena);
}

static void reads(const void *settings, void (*file)(void *payload, const char *path),
                  void *payload)
{
    const et_tabular_options *o = settings;
    read_files(&o->train_data.input_path, file, payload);
    for (size_t i = 0; i < o->train_data.mix.count; i++)
        read_files(&((const et_tabular_part *)o->train_data.mix.items)[i].input_path, file,
                   payload);
    read_files(&o->validation_data.input_path, file, payload);
    for (size_t i = 0; i < o->validation_data.sets.count; i++)
        read_files(&((const et_tabular_set *)o->validation_data.sets.items)[i].input_path, file,
                   payload);
    file(payload, o->schema_path);
    file(payload, o->metadata_path);
    file(payload, o->features_path);
}

/* ---- lines about the data ---- */

static void describe_columns(const et_tabular_task *task)
{
    const et_tabular_file *file = &task->file[ET_TABLE_FILE_FEATURES];
    et_strbuf text = ET_STRBUF_INIT;
    et_column_use *uses = et_alloc(et_schema_count(task->texts.schema), sizeof *uses);
    const bool ids = uses && et_tabular_find_uses(task, uses);
    if (!uses || et_column_uses_print(&text, uses, task->texts.schema, task->texts.metadata, NULL))
        et_task_tell(&task->context, "%-12s no memory to list the columns", "columns");
    else
        for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            et_task_tell(&task->context, "%-12s %s", line == text.data ? "columns" : "", line);
        }
    if (ids)
        et_task_tell(
            &task->context,
            "%-12s to use an ignored ID column, add a feature of type hash to a copy of %s and "
            "train another run with --set task.features_path=COPY (doc/features.md)",
            "", file->path);
    et_strbuf_release(&text);
    et_free(uses);
}

/* Whether the integers of a target were taken for classes, as they may not be meant. Texts of
 * digits, such as 007, are no integers. */
static bool is_taken_for_classes(const et_tabular_task *task, const et_encoded_field *target)
{
    for (int i = 0; i < target->classes; i++)
        if (strspn(target->label[i], "0123456789") != strlen(target->label[i]) ||
            (*target->label[i] == '0' && target->label[i][1]))
            return false;
    const char *given = task->options.features_path;
    return target->classes > 2 && !(given && *given) && task->file[ET_TABLE_FILE_SCHEMA].made &&
           task->options.target_type == ET_TABULAR_TARGET_AUTO &&
           task->options.loss == ET_TABULAR_LOSS_AUTO;
}

/* "2 classes: <=50K, >50K", of many the first ones. */
static void describe_target(const et_tabular_task *task)
{
    const et_encoded_field *field = task->target.field;
    const et_tabular_target *target = &task->target;
    const int64_t width = target->classes ? 1 : field->width;
    et_strbuf text = ET_STRBUF_INIT;
    et_strbuf_append(&text, "target       ");
    for (int64_t i = 0; i < width && i < 8; i++)
        et_strbuf_printf(&text, "%s%s", i ? ", " : "", field->column[i]);
    et_strbuf_append(&text, width > 8 ? ", ...: " : ": ");
    if (target->quantiles)
        et_strbuf_printf(&text, "%s of a number",
                         et_format_many(target->quantiles, "quantile").text);
    else if (target->values)
        et_strbuf_printf(&text, "%s", width > 1 ? "numbers" : "a number");
    else if (target->labels)
        et_strbuf_append(&text, "two classes each");
    else
        et_strbuf_printf(&text, "%s classes", et_format_count(field->classes).text);
    for (int i = 0; i < field->classes && i < 8; i++) {
        et_strbuf_append(&text, i ? ", " : ": ");
        et_plain_append(&text, field->label[i]);
    }
    et_strbuf_append(&text, field->classes > 8 ? ", ..." : "");
    if (is_taken_for_classes(task, field))
        et_strbuf_append(&text, "  (to predict a number: --set task.target_type=number)");
    et_task_tell(&task->context, "%s", et_strbuf_text(&text));
    et_strbuf_release(&text);
}

/* "validation   fold 2 of 5: 200 rows, later by day than the 400 that are learned" */
static void describe_split(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    const bool groups = et_tabular_is_named(o->groups), times = et_tabular_is_named(o->time);
    char how[200] = "", part[64] = "";
    if (groups)
        snprintf(how, sizeof how, ", in whole groups of %.100s", o->groups);
    else if (times)
        snprintf(how, sizeof how, ", later by %.100s than the rows of training", o->time);
    if (!task->validations && o->n_splits)
        et_task_tell(&task->context, "validation   %lld folds, each in turn%s",
                     (long long)o->n_splits, how);
    if (!task->validations)
        return;
    const et_format rows = et_format_count(task->validation[0]->count);
    const double share = 100.0 * (double)task->validation[0]->count / (double)task->table->count;
    if (o->n_splits)
        snprintf(part, sizeof part, "fold %lld of %lld", (long long)o->fold + 1,
                 (long long)o->n_splits);
    else /* the actual share: groups and equal times stay whole, so it differs from held_out */
        snprintf(part, sizeof part, share < 10 ? "%.2g %%" : "%.0f %%", share);
    et_task_tell(&task->context, "validation   %s of these rows %s held out (%s)%s", rows.text,
                 task->validation[0]->count == 1 ? "is" : "are", part, how);
}

static void describe(et_task *self)
{
    const et_tabular_task *task = et_tabular_task_of(self);
    const int columns = et_schema_count(task->texts.schema);
    const int64_t parts = (int64_t)task->options.train_data.mix.count;
    et_task_tell(&task->context, "data         %s, %s%s%s",
                 et_format_many(task->table->count, "row").text,
                 et_format_many(columns, "column").text, parts ? "; a mix of " : "",
                 parts ? et_format_many(parts, "table").text : "");
    if (!task->validations && !task->options.n_splits)
        et_task_tell(&task->context, "validation   none, as task.held_out is 0");
    for (int i = 0; task->validation_tables[0] && i < task->validations; i++) {
        const et_tabular_set *sets = task->options.validation_data.sets.items;
        et_task_tell(&task->context, "validation   %s%s%s",
                     et_format_many(task->validation[i]->count, "row").text, sets ? ": " : "",
                     sets ? sets[i].name : "");
    }
    if (task->validation_tables[0] && task->options.held_out > 0 &&
        task->options.held_out != ET_TABULAR_HELD_OUT)
        et_task_tell(
            &task->context,
            "             task.held_out has no effect, because validation_data names files");
    if (!task->validation_tables[0])
        describe_split(task);
    describe_target(task);
    /* "6 columns of numbers, 8 of texts" */
    int64_t numbers = 0, ids = 0, texts = 0;
    for (int f = 0; f < et_encoder_fields(task->encoder); f++) {
        const et_encoded_field *field = et_encoder_field(task->encoder, f);
        numbers += field->kind == ET_ENCODED_NUMBERS ? field->width : 0;
        ids += field->kind == ET_ENCODED_IDS ? field->width : 0;
        texts += field->kind == ET_ENCODED_WORDS;
    }
    const et_tabular_file *file = &task->file[ET_TABLE_FILE_FEATURES];
    const char *given = task->options.features_path;
    et_task_tell(&task->context, "features     %s, %s%s%s  (%s%s)",
                 et_format_many(numbers, "number").text, et_format_many(ids, "id").text,
                 texts ? ", " : "", texts ? et_format_many(texts, "text").text : "", file->path,
                 file->made && !(given && *given) ? ", inferred" : "");
    describe_columns(task);
    const int64_t parameters = et_params_elements(task->context.params);
    if (!parameters) /* of a run that trains several models */
        return;
    const et_field *type = et_tabular_fields.fields[0].nested->fields;
    et_task_tell(&task->context, "model        %s, %s parameters",
                 type->choices[task->options.model.type], et_format_count(parameters).text);
}

/* ---- export: a model in a form that `predict` and et_predictor_open read ---- */

static const char *const export_formats[] = { "onnx", NULL };

static const char *const export_inputs[] = { "raw", "encoded", NULL };

static const et_option export_options[] = {
    ET_OPTION_TEXT(et_exporting_args, options.inputs, "inputs", NULL,
                   "inputs of an ONNX model; raw: the table's columns as texts and numbers (the "
                   "default); encoded: the values of the features",
                   .field.choices = export_inputs),
    ET_EXPORTING_OPTIONS(export_formats,
                         "for other programs: a file whose inputs are the table's columns",
                         et_option_precisions)
};

static const et_usage export_usage = { export_options, sizeof(et_exporting_args),
                                       ET_EXPORTING_ABOUT("predicting", "predict"),
                                       ET_EXPORTING_EXAMPLE };

static int write_export(const et_exporting_args *args, et_error *error)
{
    et_predictor *predictor;
    const et_predictor_options how = { .checkpoint = args->checkpoint,
                                       .live_weights = args->live_weights };
    int status = et_predictor_open(&predictor, args->model_dir, &how, error);
    if (status)
        return status;
    status = et_predictor_export(predictor, args->output, &args->options, error);
    const et_table_facts *facts = et_predictor_facts(predictor);
    if (!status)
        et_exporting_tell(args, facts->checkpoint, facts->step);
    et_predictor_close(predictor);
    return status;
}

static int export_model(const et_call *call, et_error *error)
{
    static const et_exporting kind = { export_formats, true, write_export };
    return et_exporting_run(&kind, call, error);
}

/* ---- the row ---- */

static const et_run_file files[] = {
    { ET_TABLE_SCHEMA, ET_RUN_MADE_AT_START | ET_RUN_COMPARED },
    { ET_TABLE_METADATA, ET_RUN_MADE_AT_START | ET_RUN_COMPARED },
    { ET_TABLE_FEATURES, ET_RUN_MADE_AT_START | ET_RUN_COMPARED },
    { NULL, 0 },
};

static const et_option options[] = {
    ET_OPTION_SETS("data", "FILE,...", "training tables: CSV or JSON lines (.jsonl), plain or .gz",
                   .settings = { "task.train_data.input_path" }, .experiment = ET_TABULAR_AUTO,
                   .endings = ".csv .csv.gz .jsonl .jsonl.gz .ndjson .ndjson.gz"),
    ET_OPTION_SETS("valid", "FILE,...", "validation table",
                   .settings = { "task.validation_data.input_path" }),
    ET_OPTION_SETS(
        "held-out", "FRACTION",
        "fraction of the rows to validate on, without --valid and --folds (default: 0.15)",
        .settings = { "task.held_out" }),
    ET_OPTION_SETS("folds", "K", "K-fold cross-validation: train K models and average them",
                   .settings = { "task.n_splits" }),
    ET_OPTION_SETS("group", "COLUMN",
                   "never split rows with the same value in COLUMN between training and validation",
                   .settings = { "task.groups" }),
    ET_OPTION_SETS("time", "COLUMN", "validate on rows that are later than all training rows",
                   .settings = { "task.time" }),
    ET_OPTION_SETS("target", "NAME,...", "columns to predict", .settings = { "task.target" },
                   .names = true),
    ET_OPTION_SETS("quantiles", "P,...",
                   "predict these quantiles of the target instead of its mean (0.1,0.5,0.9)",
                   .settings = { "task.quantile_levels" }, .names = true),
    ET_OPTION_SETS("id", "NAME",
                   "column with IDs of rows: not an input of the model, copied to predictions",
                   .settings = { "task.id" }),
    ET_OPTION_SETS("weight", "NAME", "column with the weight of each row in loss and scores",
                   .settings = { "task.weight" }),
    ET_OPTION_SETS("drop", "NAME,...", "columns that are not inputs of the model",
                   .settings = { "task.features.drop" }, .names = true, .list = true),
    ET_OPTION_SETS("features", "NAME,...", "the only columns that are inputs of the model",
                   .settings = { "task.features.only" }, .names = true, .list = true),
    ET_OPTION_SETS("class-weights", "CLASS:WEIGHT,...",
                   "weights of the classes in training, or balanced: all classes weigh the same",
                   .settings = { "task.class_weights" }, .names = true, .list = true),
    ET_OPTION_SETS("label-smoothing", "RATE",
                   "probability that training spreads over the other classes",
                   .settings = { "task.label_smoothing" }),
    ET_OPTION_SETS("batch-size", "N", "rows per batch",
                   .settings = { "task.train_data.batch_size" }),
    ET_OPTION_SETS("dropout", "RATE", "fraction of units dropped in training",
                   .settings = { "task.model.mlp.dropout", "task.model.resnet.hidden_dropout",
                                 "task.model.ft_transformer.ffn_dropout",
                                 "task.model.realmlp.dropout", "task.model.tabm.dropout" }),
    ET_OPTION_SETS("layers", "N", "layers or blocks of the model",
                   .settings = { "task.model.mlp.num_layers", "task.model.resnet.num_blocks",
                                 "task.model.ft_transformer.num_blocks",
                                 "task.model.realmlp.num_layers", "task.model.tabm.num_layers" }),
    ET_OPTION_SETS("missing", "TEXT...", "further texts that mean a missing value",
                   .settings = { "task.missing" }),
    ET_OPTION_SETS("delimiter", "C", "delimiter: , ; | or tab (default: detected)",
                   .settings = { "task.delimiter" }),
    ET_OPTION_SETS("comment", "C", "skip lines that begin with this character",
                   .settings = { "task.comment" }),
    ET_OPTION_SETS("header", "auto|yes|no", "whether the first row has the column names",
                   .settings = { "task.header" }),
    ET_OPTION_END,
};

static const et_command commands[] = {
    ET_COMMAND("predict", et_cmd_predict, "predict rows with a trained model", &et_usage_predict),
    ET_COMMAND("evaluate", et_cmd_evaluate_table, "evaluate a trained model",
               &et_usage_evaluate_table),
    ET_COMMAND("explain", et_cmd_explain, "measure what predictions depend on", &et_usage_explain),
    ET_COMMAND("report", et_cmd_report, "write a page about a run", &et_usage_report),
    ET_COMMAND("data", et_cmd_data, "analyze a table", &et_usage_data),
    ET_COMMAND("export", export_model, "export a trained model", &export_usage),
    ET_COMMAND("scaffold", et_cmd_scaffold, "write a C project that trains and predicts",
               &et_usage_scaffold),
    { .name = "tfx", .help = "TensorFX's commands under their names", .commands = et_tfx_commands },
    ET_COMMAND_END,
};

static const char *const kept[] = { "task.schema_path", "task.metadata_path", "task.features_path",
                                    NULL };

const et_task_kind et_tabular_kind = {
    .name = "tabular",
    .fields = &et_tabular_fields,
    .size = sizeof(et_tabular_options),
    .experiments = et_tabular_experiments,
    .open = open_task,
    .close = et_tabular_task_close,
    .check = et_tabular_check,
    .check_metric = et_tabular_check_metric,
    .inherit = inherit,
    .kept = kept,
    .reads = reads,
    .describe = describe,
    .identify = et_tabular_identify,
    .belongs = et_tabular_belongs,
    .files = files,
    .commands = commands,
    .example = "--data train.csv --target price",
    .rate = "rows/s",
    .amount = "rows",
    .options = options,
    .batch = "task.train_data.batch_size",
    .next = "predict",
    .next_help = "predicts rows",
    .service = &et_tabular_service,
    .series = &et_tabular_series,
};
