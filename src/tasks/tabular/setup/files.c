/* The three texts that describe a table: schema, metadata, features. Each is the run's own file, or
 * else a copy of the one that the settings name, or else inferred from the training data. The texts
 * are written before the rows are read, and then read from the written files. So a resumed run has
 * the same texts as the first start.
 *
 * Weights need these texts, so checkpoints contain their checksums. */
#include <math.h>
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "data/table/analysis/analyze.h"
#include "data/table/analysis/column_use.h"
#include "tasks/tabular/setup/setup_private.h"
#include "tasks/tabular/table_files.h"
#include "train/checkpoint/identity.h"

/* Most classes of integers, because every label is kept. */
#define CLASSES_MAX 1000

static const struct {
    const char *key, *setting;
} files[ET_TABLE_FILES] = {
    [ET_TABLE_FILE_SCHEMA] = { "schema", "schema_path" },
    [ET_TABLE_FILE_METADATA] = { "metadata", "metadata_path" },
    [ET_TABLE_FILE_FEATURES] = { "features", "features_path" },
};

static const char *given(const et_tabular_options *options, int which)
{
    const char *const paths[] = { options->schema_path, options->metadata_path,
                                  options->features_path };
    return paths[which] && *paths[which] ? paths[which] : NULL;
}

/* ---- how tables are read ---- */

/* The character of a checked setting. */
static char character(const char *text)
{
    char c = 0;
    (void)et_csv_character(&c, text);
    return c;
}

et_table_samples_options et_tabular_table_options(const et_tabular_options *options,
                                                  const char *const *missing)
{
    static const et_header headers[] = { [ET_TABULAR_HEADER_AUTO] = ET_HEADER_FOUND,
                                         [ET_TABULAR_HEADER_TRUE] = ET_HEADER_THERE,
                                         [ET_TABULAR_HEADER_FALSE] = ET_HEADER_ABSENT,
                                         [ET_TABULAR_HEADER_YES] = ET_HEADER_THERE,
                                         [ET_TABULAR_HEADER_NO] = ET_HEADER_ABSENT };
    return (et_table_samples_options){ .csv = { .delimiter = character(options->delimiter),
                                                .comment = character(options->comment),
                                                .missing = missing },
                                       .header = headers[options->header] };
}

/* As a table of samples leaves them out. */
static bool has_target(const et_encoder *encoder, void *const *item)
{
    const int target = et_encoder_target(encoder);
    const et_encoded_field *field = et_encoder_field(encoder, target);
    const float *value = item[target];
    if (field->kind == ET_ENCODED_CLASS)
        return *(const int32_t *)item[target] >= 0;
    int64_t i = 0;
    while (i < field->width && !isnan(value[i]))
        i++;
    return i == field->width;
}

int et_tabular_each_row(const et_tabular_task *task, const et_strings *paths,
                        et_tabular_take_fn *take, void *payload, et_error *error)
{
    const et_encoder *encoder = task->encoder;
    const et_table_samples_options table = et_tabular_table_options(&task->options, task->missing);
    et_rows_options how = { .csv = table.csv, .header = table.header };
    et_arena arena = ET_ARENA_INIT;
    et_row row = { .end = false };
    et_rows *rows = NULL;
    void **item = et_encoder_items(encoder, &arena);
    if (paths != &task->paths)
        how.csv.known = &task->known;
    int status = arena.failed ? et_alloc_failed(error, "a row")
                              : et_rows_open_files(&rows, et_encoder_row_layout(encoder), paths,
                                                   &how, task->texts.metadata, error);
    while (!status && !(status = et_rows_next(rows, &row, error)) && !row.end) {
        status = et_row_encode(encoder, rows, &row, item, error);
        if (!status && has_target(encoder, item))
            status = take(payload, &row, item);
    }
    et_rows_close(rows);
    et_arena_release(&arena);
    return status;
}

/* ---- identity ---- */

/* path: the run's own file, or a given one, which may be an export with the text. */
static int read_text(int which, const char *path, char **bytes, size_t *length, et_error *error)
{
    return et_artifact_read_named(path, et_table_file_names[which], ET_TABLE_BYTES_MAX, bytes,
                                  length, error);
}

static int checksum_of(uint64_t *checksum, int which, const char *path, et_error *error)
{
    char *bytes;
    size_t length;
    int status = read_text(which, path, &bytes, &length, error);
    if (status)
        return status;
    *checksum = et_checksum(bytes, length);
    et_free(bytes);
    return ET_OK;
}

static int check_belongs(uint64_t checksum, const et_identity *identity, int which,
                         const char *path, et_error *error)
{
    et_assert(which >= 0 && which < ET_TABLE_FILES && path);
    const char *was;
    et_checksum_text is = et_checksum_print(checksum);
    if (!identity || !identity->values || !et_value_get(identity->values, files[which].key))
        return ET_OK;
    int status = et_value_read_string(identity->values, files[which].key, &was, error);
    if (status)
        return et_fail_while(error, status, "%s", identity->checkpoint);
    if (!strcmp(was, is.digits))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%s changed since %s was trained (checksum %s, was %s); restore the file, or "
                   "train with it in another --model-dir (task.%s)",
                   path, identity->checkpoint, is.digits, was, files[which].setting);
}

/* A resumed run keeps the unit of its weights. */
static bool is_exact(const et_tabular_task *task)
{
    const et_identity *identity = task->context.identity;
    return !identity || !identity->values || et_value_get(identity->values, ET_TARGET_UNIT);
}

static int make_encoder(et_tabular_task *task, et_error *error)
{
    et_assert(!task->encoder);
    return is_exact(task) ? et_encoder_new_exact(&task->encoder, task->texts.schema,
                                                 task->texts.metadata, task->texts.features, error)
                          : et_encoder_new(&task->encoder, task->texts.schema, task->texts.metadata,
                                           task->texts.features, error);
}

/* Sets the key from an exact encoder. Nothing of a target of classes. */
static int identify_unit(const et_tabular_task *task, et_value *identity, et_error *error)
{
    if (!task->target.values)
        return ET_OK;
    et_value *list = et_value_set_list(identity, ET_TARGET_UNIT);
    for (int64_t k = 0; k < task->target.values; k++) {
        const et_target_unit unit = et_encoder_unit(task->encoder, k);
        et_value_add_float(list, unit.offset);
        et_value_add_float(list, unit.scale);
    }
    return et_value_failed(identity) ? et_alloc_failed(error, "the unit of the target") : ET_OK;
}

int et_tabular_identify(const et_task *task, et_value *identity, et_error *error)
{
    const et_tabular_task *self = et_tabular_task_of(task);
    et_assert(identity && self->training);
    for (int i = 0; i < ET_TABLE_FILES; i++)
        et_value_set_string(identity, files[i].key,
                            et_checksum_print(self->file[i].checksum).digits);
    if (self->delimiter)
        et_value_set_string(identity, ET_IDENTITY_DELIMITER, (const char[]){ self->delimiter, 0 });
    if (!et_value_set_string(identity, ET_IDENTITY_DATA,
                             et_checksum_print(self->training->fingerprint).digits))
        return et_alloc_failed(error, "settings");
    return is_exact(self) ? identify_unit(self, identity, error) : ET_OK;
}

int et_tabular_belongs_in(const et_artifact *artifact, const et_identity *identity, et_error *error)
{
    et_assert(artifact);
    et_arena arena = ET_ARENA_INIT;
    int status = ET_OK;
    for (int i = 0; !status && i < ET_TABLE_FILES; i++) {
        uint64_t checksum;
        const char *name = et_table_file_names[i], *path = et_artifact_path(artifact, name, &arena);
        status = path ? et_artifact_checksum(artifact, name, ET_TABLE_BYTES_MAX, &checksum, error)
                      : et_alloc_failed(error, "a path");
        if (!status)
            status = check_belongs(checksum, identity, i, path, error);
    }
    et_arena_release(&arena);
    return status;
}

int et_tabular_belongs(const void *options, const char *model_dir, const et_identity *identity,
                       et_error *error)
{
    et_artifact artifact;
    (void)options;
    int status = et_artifact_open(&artifact, model_dir, error);
    if (!status)
        status = et_tabular_belongs_in(&artifact, identity, error);
    et_artifact_close(&artifact);
    return status;
}

/* ---- the run's own ---- */

/* Compares the content of the named file with the run's copy. A file that is gone is not needed. */
static int check_same(const et_tabular_task *task, int which, et_error *error)
{
    const char *path = given(&task->options, which);
    uint64_t checksum;
    if (!path)
        return ET_OK;
    if (!et_file_exists(path)) {
        et_log(ET_LOG_WARNING, "task.%s: %s does not exist; Etude uses the run's copy, %s",
               files[which].setting, path, task->file[which].path);
        return ET_OK;
    }
    int status = checksum_of(&checksum, which, path, error);
    if (status || checksum == task->file[which].checksum)
        return status;
    return et_fail(
        error, ET_ECONFIG,
        "task.%s: %s is not the file that this run started with (%s); choose another --model-dir",
        files[which].setting, path, task->file[which].path);
}

static int read_file(et_tabular_task *task, int which, const char *path, et_error *error)
{
    et_assert(which >= 0 && which < ET_TABLE_FILES && path);
    char *text;
    size_t length;
    int status = read_text(which, path, &text, &length, error);
    if (status)
        return status;
    status = et_table_file_parse(&task->texts, which, text, length, path, error);
    et_free(text);
    return status;
}

/* The largest number of different integers that makes a target's integers classes, as in
 * et_analyze_options. A loss for classes also makes them classes. */
static int most_classes(const et_tabular_options *options)
{
    const int type = options->target_type, loss = options->loss;
    if (options->quantile_levels.count)
        return -1;
    if (options->target.count > 1 && type == ET_TABULAR_TARGET_AUTO &&
        (loss == ET_TABULAR_LOSS_AUTO || loss == ET_TABULAR_LOSS_BINARY))
        return 2;
    if (type == ET_TABULAR_TARGET_CLASS ||
        (type == ET_TABULAR_TARGET_AUTO && loss && loss <= ET_TABULAR_LOSS_BINARY))
        return CLASSES_MAX;
    return type == ET_TABULAR_TARGET_AUTO && loss == ET_TABULAR_LOSS_AUTO ? 0 : -1;
}

/* Whether the targets' integers are classes. If the settings do not decide, two consecutive
 * integers are a yes and a no, and more integers are numbers. */
static bool are_classes(const et_tabular_task *task)
{
    const et_strings *targets = &task->options.target;
    const int most = most_classes(&task->options);
    bool all = true, any = false;
    for (size_t i = 0; i < targets->count; i++) {
        const char *name = targets->items[i];
        const et_schema_field *field = et_schema_find(task->texts.schema, name);
        const et_column_metadata *target = et_metadata_find(task->texts.metadata, name);
        if (field && field->type == ET_SCHEMA_DISCRETE)
            continue;
        any = true;
        all &= field && field->type == ET_SCHEMA_INTEGER && target && target->has_range &&
               target->max - target->min < (most ? (double)most : 2);
    }
    return any && all;
}

/* Texts are no numbers and fractions no classes, whatever the settings call them. */
static int check_types(const et_tabular_task *task, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool number = o->target_type == ET_TABULAR_TARGET_NUMBER;
    for (size_t i = 0; i < o->target.count; i++) {
        const char *name = o->target.items[i];
        const et_schema_field *field = et_schema_find(task->texts.schema, name);
        const et_column_metadata *target = et_metadata_find(task->texts.metadata, name);
        if (o->target_type == ET_TABULAR_TARGET_CLASS && field && field->type == ET_SCHEMA_REAL)
            return et_fail(error, ET_ECONFIG,
                           "task.target_type is class, but the target %s has fractions; write "
                           "classes as whole numbers or texts, or choose number",
                           name);
        if (o->target_type == ET_TABULAR_TARGET_CLASS && field && target &&
            field->type == ET_SCHEMA_INTEGER && target->max - target->min >= CLASSES_MAX)
            return et_fail(error, ET_ECONFIG,
                           "task.target_type is class, but the target %s has whole numbers from "
                           "%.17g to %.17g, too many for classes; make it discrete in a schema "
                           "(task.schema_path), or choose number",
                           name, target->min, target->max);
        if ((number || o->quantile_levels.count) && field && target &&
            field->type == ET_SCHEMA_DISCRETE)
            return et_fail(error, ET_ECONFIG,
                           "task.%s, but the target %s has texts such as \"%.40s\"; %s",
                           number ? "target_type is number" : "quantile_levels need a number", name,
                           target->entry_count ? target->entries[0] : "",
                           number ? "choose class, or name another column"
                                  : "leave this setting out, or name another column");
    }
    return ET_OK;
}

#define REPORTED_MAX 8

/* Reports columns from which a model learns little in their present use: texts that look like
 * numbers, dates or durations; numbers that look like codes; labels that look the same; columns
 * that reveal the target or occur twice; dates whose order or century no row shows. If the types of
 * columns are given, reports only the first seven kinds. */
static void tell_suspicious(const et_tabular_task *task, const et_value *report, bool inferred)
{
    static const char *const kinds[] = { "labels",    "flat",    "outlier",  "leak",  "copy",
                                         "order",     "century", "group",    "comma", "duration",
                                         "separator", "minus",   "unit",     "date",  "mixed",
                                         "large",     "number",  "exponent", "id",    "notation" };
    const et_tabular_options *o = &task->options;
    const size_t count = inferred ? sizeof kinds / sizeof *kinds : 7;
    const bool drawn = !et_tabular_is_named(o->groups) && !et_tabular_is_named(o->time) &&
                       !et_tabular_has_validation_data(o); /* held-out rows, one by one */
    int reported = 0, more = 0;
    for (const et_value *v = et_value_get(report, "suspicious")->first; v; v = v->next) {
        const char *kind = et_value_get(v, "kind")->string;
        const char *column = et_value_get(v, "column")->string;
        const bool id = o->id && !strcmp(column, o->id);
        /* Whether the model reads the column, as far as the settings say. */
        const bool read = !id && !(o->groups && !strcmp(column, o->groups)) &&
                          !(o->weight && !strcmp(column, o->weight)) &&
                          !et_tabular_is_named(o->features_path);
        const bool relation = !strcmp(kind, "leak") || !strcmp(kind, "copy");
        bool tells = false;
        for (size_t i = 0; i < count; i++)
            tells |= !strcmp(kind, kinds[i]);
        tells |= !strcmp(kind, "spelling") && o->groups && !strcmp(column, o->groups);
        tells &= (!id || (o->time && !strcmp(column, o->time))) && (!relation || read);
        tells &= strcmp(kind, "group") != 0 || drawn;
        tells &= strcmp(kind, "order") != 0 || !et_column_date_order(task->texts.features, column);
        if (tells && reported == REPORTED_MAX)
            more++;
        else if (tells && ++reported)
            et_log(ET_LOG_WARNING, "column %s: %s", column, et_value_get(v, "text")->string);
    }
    if (more)
        et_log(ET_LOG_WARNING,
               "%d more columns have such problems; `etude data analyze %s` lists all", more,
               et_shell_quote(task->paths.items[0]).text);
}

/* Infers schema and metadata if they are missing. */
static int analyze(et_tabular_task *task, et_error *error)
{
    const et_table_samples_options table = et_tabular_table_options(&task->options, task->missing);
    const et_feature_choice choice = et_tabular_choice(&task->options);
    et_table_files *texts = &task->texts;
    et_analyze_options options = { .csv = table.csv,
                                   .header = table.header,
                                   .target = choice.target,
                                   .more_targets = { choice.more_targets,
                                                     (size_t)choice.more_target_count },
                                   .dropped = task->options.features.drop,
                                   .only = task->options.features.only,
                                   .time = task->options.time,
                                   .classes = most_classes(&task->options),
                                   .entries = task->options.entries,
                                   .quantiles = (int)task->options.quantiles,
                                   .schema = texts->schema };
    et_analysis analysis;
    int status = et_analyze(&analysis, &task->paths, &options, error);
    if (status)
        return status;
    /* A marker that is written in another way than in the file leaves wrong numbers in the
     * statistics. */
    const et_value *unmatched = et_value_get(analysis.report, "missing_unmatched");
    for (const et_value *v = unmatched->first; v; v = v->next)
        et_log(ET_LOG_WARNING,
               "--missing %s matches no value; check how the file writes missing values",
               v->string);
    tell_suspicious(task, analysis.report, !texts->schema);
    if (!texts->schema) {
        texts->schema = analysis.schema;
        analysis.schema = NULL;
    }
    if (!texts->metadata) {
        texts->metadata = analysis.metadata;
        analysis.metadata = NULL;
    }
    et_analysis_release(&analysis);
    return ET_OK;
}

static int infer(et_tabular_task *task, et_error *error)
{
    et_feature_choice choice = et_tabular_choice(&task->options);
    int status = ET_OK;
    if (!choice.target && !task->texts.features)
        return et_fail(error, ET_ECONFIG,
                       "task.target is not set; name the column to predict, for example with "
                       "--target price (`etude data analyze FILE` lists the columns)");
    if (!task->texts.schema || !task->texts.metadata)
        status = analyze(task, error);
    if (!status && choice.target && !task->texts.features)
        status = check_types(task, error);
    choice.classes = !status && choice.target && are_classes(task);
    if (!status && !task->texts.features)
        status = et_feature_set_infer(&task->texts.features, task->texts.schema,
                                      task->texts.metadata, &choice, error);
    return status;
}

/* Finds the target and checks that its metrics include the one that selects the best checkpoint. */
static int find_target(et_tabular_task *task, et_error *error)
{
    et_assert(task->encoder);
    const char *metric = task->context.best_metric;
    int status = et_tabular_target_of(&task->target, &task->options, task->encoder, error);
    return status || !metric ? status
                             : et_tabular_check_metric_of(&task->options, metric,
                                                          task->target.kind->scores, error);
}

/* All three make an encoder before any of them gets the run's name. */
static int make(et_tabular_task *task, et_error *error)
{
    int status;
    if (!(status = infer(task, error)) && !(status = make_encoder(task, error)))
        status = find_target(task, error);
    et_encoder_free(task->encoder);
    task->encoder = NULL;
    for (int i = 0; !status && i < ET_TABLE_FILES; i++) {
        const char *path = task->file[i].path, *named = given(&task->options, i);
        char *bytes = NULL;
        size_t length;
        if (!task->file[i].made)
            continue;
        if (!named) {
            status = et_table_file_save(&task->texts, i, path, error);
            continue;
        }
        status = read_text(i, named, &bytes, &length, error);
        if (!status)
            status = et_file_write(path, bytes, length, error);
        et_free(bytes);
    }
    et_table_files_release(&task->texts);
    return status;
}

/* Finds the run's own files, and makes missing ones from named files or by inference. */
static int find(et_tabular_task *task, et_error *error)
{
    bool missing = false;
    int status = ET_OK;
    for (int i = 0; i < ET_TABLE_FILES; i++) {
        et_tabular_file *file = &task->file[i];
        file->path = et_arena_strdup(
            &task->arena, et_path_of(task->context.model_dir, et_table_file_names[i]).text);
        if (!file->path)
            return et_alloc_failed(error, "a path");
        file->made = !et_file_exists(file->path);
        missing |= file->made;
        if (file->made && task->context.reader)
            return et_fail(error, ET_ENOTFOUND, "%s: no %s yet; train this run first",
                           task->context.model_dir, et_table_file_names[i]);
    }
    for (int i = 0; missing && !status && i < ET_TABLE_FILES; i++) {
        const char *path = task->file[i].made ? given(&task->options, i) : task->file[i].path;
        if (path)
            status = read_file(task, i, path, error);
    }
    return status || !missing ? status : make(task, error);
}

int et_tabular_open_files(et_tabular_task *task, et_error *error)
{
    et_assert(task->context.model_dir);
    int status = find(task, error);
    for (int i = 0; !status && i < ET_TABLE_FILES; i++) {
        et_tabular_file *file = &task->file[i];
        if (!(status = checksum_of(&file->checksum, i, file->path, error)) &&
            !(status =
                  check_belongs(file->checksum, task->context.identity, i, file->path, error)) &&
            !(status = check_same(task, i, error)))
            status = read_file(task, i, file->path, error);
    }
    if (!status)
        status = make_encoder(task, error);
    if (!status && !task->context.reader)
        et_encoder_warn_coarse(task->encoder);
    return status ? status : find_target(task, error);
}

void et_tabular_close_files(et_tabular_task *task)
{
    et_encoder_free(task->encoder);
    et_table_files_release(&task->texts);
}
