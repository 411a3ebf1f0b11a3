/* etude data analyze: facts about a table. Reads CSV files once and prints a report. With --output
 * DIR it writes the two texts that features are fitted from:
 *
 *   files -> et_analyze -> report (standard output), DIR/schema.yaml, DIR/metadata.json
 *
 * An existing file with other content is kept unless --force is given; the report is printed
 * before. If a table cannot be read to its end, nothing is written.
 *
 *   exit code 2: an option; 3: a row, a column, the files; 4: a disk */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "command/command.h"
#include "command/options/name_list.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/tabular/data_report.h"
#include "command/tabular/tabular_commands.h"
#include "data/table/analysis/analyze.h"
#include "data/table/analysis/column_use.h"
#include "data/table/schema/schema.h"
#include "data/text/paths.h"
#include "formats/events/progress.h"
#include "tasks/tabular/table_files.h"

typedef struct data_options {
    et_strings words; /* "analyze", then files */
    const char *delimiter, *comment, *schema, *output;
    et_strings missing, targets, dropped, only;
    int64_t entries, quantiles;
    int header; /* its place among headers */
    bool force, dry_run, json, quiet;
    et_analyze_options options;
    const char **markers; /* of missing values, ended by NULL; owned */
} data_options;

/* ORDER et_analyze_header, the last two once more. */
static const char *const headers[] = { "auto", "yes", "no", "true", "false", NULL };

static const et_option options[] = {
    ET_OPTION_LIST(data_options, targets, "target", "NAME,...", "the columns to predict"),
    ET_OPTION_LIST(data_options, dropped, "drop", "NAME,...",
                   "columns that training will not use (train --drop)"),
    ET_OPTION_LIST(data_options, only, "features", "NAME,...",
                   "the only columns that training will use (train --features)"),
    ET_OPTION_TEXT(data_options, delimiter, "delimiter", "C",
                   "delimiter: , ; | or tab (default: detected)"),
    ET_OPTION_CHOICE(data_options, header, "header", "auto|yes|no", headers,
                     "whether the first row has the column names"),
    ET_OPTION_TEXT(data_options, comment, "comment", "C",
                   "skip lines that begin with this character"),
    ET_OPTION_LIST(data_options, missing, "missing", "TEXT",
                   "further text that means a missing value; may be given again"),
    ET_OPTION_TEXT(data_options, schema, "schema", "FILE",
                   "take names and types of columns from this schema"),
    ET_OPTION_COUNT(data_options, entries, "entries", "N", 0, ET_OPTION_COUNT_MAX,
                    "values kept per discrete column (100,000)"),
    ET_OPTION_COUNT(data_options, quantiles, "quantiles", "N", 0, 100001,
                    "quantiles kept per numeric column (257)"),
    ET_OPTION_TEXT(data_options, output, "output", "DIR",
                   "directory for " ET_TABLE_SCHEMA " and " ET_TABLE_METADATA
                   " (default: write no files)"),
    ET_OPTION_FLAG(data_options, force, "force", "replace existing files"),
    ET_OPTION_FLAG(data_options, dry_run, "dry-run", "write no files"),
    ET_OPTION_FLAG(data_options, json, "json", "print the report as JSON"),
    ET_OPTION_QUIET(data_options, quiet),
    ET_OPTION_PROCESSORS,
    ET_OPTION_REST(data_options, words, "analyze FILE..."),
    ET_OPTION_END
};

const et_usage et_usage_data = {
    options, sizeof(data_options),
    "Analyzes a table (CSV, plain or gzip; - is standard input): types, ranges,\ndistributions, "
    "suspicious values. With --output DIR, also writes schema and\nmetadata for training.",
    "analyze train.csv --target income --output ."
};

/* ---- options ---- */

static int take_character(char *out, const char *option, const char *text, et_error *error)
{
    return et_csv_character(out, text)
               ? ET_OK
               : et_fail(error, ET_EUSAGE, "%s %s: give one character, or tab", option, text);
}

static int take_missing(data_options *args, et_error *error)
{
    const size_t count = args->missing.count;
    if (!count)
        return ET_OK;
    args->markers = et_csv_missing_with(args->missing.items, count);
    if (!args->markers)
        return et_alloc_failed(error, count * sizeof *args->markers, "--missing");
    args->options.csv.missing = args->markers;
    return ET_OK;
}

static int check(data_options *args, et_error *error)
{
    if (!args->words.count || strcmp(args->words.items[0], "analyze") != 0) {
        const char *word = args->words.count ? args->words.items[0] : "";
        const bool file = *word && et_file_exists(word);
        return et_fail(error, ET_EUSAGE, "data: give a subcommand: data analyze %s%s%s",
                       file ? word : "FILE...", *word && !file ? "; there is no " : "",
                       file ? "" : word);
    }
    if (args->words.count < 2)
        return et_fail(error, ET_EUSAGE, "data analyze: no file is given; name one");
    if (args->force && !args->output)
        return et_fail(
            error, ET_EUSAGE,
            "--force: only with --output DIR, which writes files; for example --output runs");
    int status = et_outputs_check_directory("--output", args->output, error);
    if (!status)
        status =
            take_character(&args->options.csv.delimiter, "--delimiter", args->delimiter, error);
    if (!status)
        status = take_character(&args->options.csv.comment, "--comment", args->comment, error);
    if (!status)
        status = take_missing(args, error);
    args->options.header = (et_analyze_header)(args->header > 2 ? args->header - 2 : args->header);
    args->options.entries = args->entries;
    args->options.quantiles = (int)args->quantiles;
    return status;
}

/* ---- output files ---- */

/* Both output files, and their contents. */
typedef struct result {
    char *path[2]; /* owned; NULL: nothing is written */
    char *text[2]; /* owned */
    char *made;    /* the directory, if it was made for them; owned */
} result;

static int open_result(result *r, const data_options *args, const et_call *call,
                       const et_strings *paths, et_error *error)
{
    static const char *const names[] = { ET_TABLE_SCHEMA, ET_TABLE_METADATA };
    const char *directory = args->dry_run ? NULL : args->output;
    et_outputs outputs = { .program = call->program };
    int status = ET_OK;
    for (size_t i = 0; i < paths->count; i++)
        et_outputs_read(&outputs, paths->items[i]);
    et_outputs_read(&outputs, args->schema);
    status = et_outputs_check_standard(&outputs, error);
    if (!status && directory && !et_file_exists(directory)) {
        status = et_directory_make(directory, error);
        r->made = status ? NULL : et_strdup(directory);
    }
    for (int i = 0; i < 2 && !status && directory; i++) {
        r->path[i] = et_path_join(directory, names[i]);
        status = r->path[i] ? et_outputs_check(&outputs, "--output", r->path[i], error)
                            : et_alloc_failed(error, strlen(directory), "a path");
    }
    et_outputs_release(&outputs);
    return status;
}

/* *same: the file exists and has exactly this text. */
static int look_at(bool *same, const char *path, const char *text, bool force, et_error *error)
{
    char *there;
    size_t length;
    *same = false;
    if (!et_file_exists(path))
        return ET_OK;
    if (!et_file_read(&there, &length, path, strlen(text) + 1, NULL)) {
        *same = length == strlen(text) && !memcmp(there, text, length);
        et_free(there);
    }
    return *same || force ? ET_OK
                          : et_fail(error, ET_EDENIED,
                                    "%s exists with other content: add --force to replace it, or "
                                    "choose another --output",
                                    path);
}

/* Either both are written or none. */
static int write_result(result *r, const et_analysis *analysis, const data_options *args,
                        et_error *error)
{
    bool same[2];
    if (!r->path[0])
        return ET_OK;
    int status = et_schema_format(analysis->schema, &r->text[0], error);
    if (!status)
        status = et_metadata_format(analysis->metadata, &r->text[1], error);
    for (int i = 0; i < 2 && !status; i++)
        status = look_at(&same[i], r->path[i], r->text[i], args->force, error);
    for (int i = 0; i < 2 && !status; i++)
        if (!same[i])
            status = et_file_write(r->path[i], r->text[i], strlen(r->text[i]), error);
    if (!status && !args->json)
        et_print(stdout, "\nwritten: %s, %s\n", r->path[0], r->path[1]);
    return status;
}

/* ---- the work ---- */

typedef struct scan_progress {
    et_progress *progress;
    double start;
} scan_progress;

static void show(void *payload, uint64_t done, uint64_t all)
{
    const scan_progress *w = payload;
    double seconds = et_clock_monotonic() - w->start;
    et_progress_state state = { .what = "MB",
                                .step = (int64_t)(done / 1000000),
                                .steps = (int64_t)(all / 1000000),
                                .rate = seconds > 0 ? (double)done / 1e6 / seconds : NAN,
                                .unit = "MB/s",
                                .seconds_left = NAN };
    if (state.step < state.steps) /* a compressed file may be larger than it says */
        et_progress_update(w->progress, &state);
}

/* What training makes of the columns. */
static int append_uses(et_strbuf *out, const et_analysis *analysis, const et_analyze_options *how,
                       et_error *error)
{
    const et_feature_choice choice = et_analyze_choice(how);
    const int count = et_schema_count(analysis->schema);
    et_column_use *uses = et_alloc((size_t)count, sizeof *uses);
    if (!uses)
        return et_alloc_failed(error, (size_t)count * sizeof *uses, "columns");
    for (int i = 0; i < count; i++) {
        const et_schema_field *field = et_schema_at(analysis->schema, i);
        uses[i] =
            et_column_use_infer(field, et_metadata_find(analysis->metadata, field->name), &choice);
    }
    et_strbuf_append(out,
                     "\nhow training uses the columns (to ignore one: train --drop NAME; more: "
                     "doc/features.md)\n");
    int status = et_column_uses_print(out, uses, analysis->schema, analysis->metadata, error);
    et_free(uses);
    return status;
}

static int print(const et_analysis *analysis, bool json, const et_analyze_options *how,
                 et_error *error)
{
    int status = ET_OK;
    et_strbuf out = ET_STRBUF_INIT;
    if (json) {
        et_json_print(&out, analysis->report, 2);
        et_strbuf_append_char(&out, '\n');
        et_print_results(stdout, et_strbuf_text(&out), out.length);
    } else {
        et_data_report_print(&out, analysis->report, !et_locale_is_utf8());
        status = append_uses(&out, analysis, how, error);
        et_print_text_lines(stdout, et_strbuf_text(&out));
    }
    et_strbuf_release(&out);
    return status;
}

static int analyze(const data_options *args, const et_strings *paths, et_analysis *analysis,
                   et_error *error)
{
    et_schema *schema = NULL;
    scan_progress w = { NULL, et_clock_monotonic() };
    et_progress_options bar = ET_PROGRESS_OPTIONS_INIT;
    et_analyze_options how = args->options;
    bar.fd = args->quiet ? -1 : STDERR_FILENO;
    int status = args->schema ? et_schema_load(&schema, args->schema, error) : ET_OK;
    if (!status)
        status = et_progress_open(&w.progress, &bar, error);
    how.schema = schema;
    how.progress = show;
    how.payload = &w;
    if (!status)
        status = et_analyze(analysis, paths, &how, error);
    if (w.progress)
        et_progress_finish(w.progress, false);
    et_progress_close(w.progress);
    et_schema_free(schema);
    return status;
}

/* "-" is standard input. */
static int name_input(et_strings *given, et_arena *arena, et_error *error)
{
    const char **names = et_arena_array(arena, given->count, sizeof *names);
    if (!names)
        return et_alloc_failed(error, given->count * sizeof *names, "paths");
    int read = 0;
    for (size_t i = 0; i < given->count; i++) {
        bool standard = !strcmp(given->items[i], "-");
        names[i] = standard ? "/dev/stdin" : given->items[i];
        read += standard;
    }
    given->items = names;
    return read <= 1 ? ET_OK
                     : et_fail(error, ET_EUSAGE, "data analyze: name standard input (-) only once");
}

/* Of targets those of the last use; the names live in arena. */
static int name_columns(data_options *args, et_arena *arena, et_error *error)
{
    const size_t uses = args->targets.count;
    et_strings names, last = { uses ? &args->targets.items[uses - 1] : NULL, uses > 0 };
    int status = et_name_list_read(&names, "--target", &last, arena, error);
    if (!status)
        status = et_name_list_read(&args->options.dropped, "--drop", &args->dropped, arena, error);
    if (!status)
        status = et_name_list_read(&args->options.only, "--features", &args->only, arena, error);
    if (!status && uses) {
        args->options.target = names.items[0];
        args->options.more_targets = (et_strings){ names.items + 1, names.count - 1 };
    }
    const et_feature_choice choice = et_analyze_choice(&args->options);
    return status ? status : et_column_choice_check(&choice, error);
}

static int run(data_options *args, const et_call *call, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strings given = { args->words.items + 1, args->words.count - 1 }, paths;
    et_analysis analysis = { .arena = ET_ARENA_INIT };
    result r = { { NULL }, { NULL }, NULL };
    int status = name_input(&given, &arena, error);
    if (!status)
        status = name_columns(args, &arena, error);
    if (!status)
        status = et_paths_match(&paths, &given, NULL, &arena, error);
    if (!status)
        status = open_result(&r, args, call, &paths, error);
    if (!status)
        status = analyze(args, &paths, &analysis, error);
    if (!status) {
        status = print(&analysis, args->json, &args->options, error);
        if (!status)
            status = write_result(&r, &analysis, args, error);
        et_analysis_release(&analysis);
    }
    if (status && r.made)
        rmdir(r.made);
    et_free(r.made);
    for (int i = 0; i < 2; i++) {
        et_free(r.path[i]);
        et_free(r.text[i]);
    }
    et_arena_release(&arena);
    return status;
}

int et_cmd_data(const et_call *call, et_error *error)
{
    data_options *args = call->options;
    int status = check(args, error);
    if (!status)
        status = run(args, call, error);
    et_free(args->markers);
    return status;
}
