/* etude data analyze: facts about a table. Reads CSV files once and prints a report. With --output
 * DIR it writes the two texts that features are fitted from:
 *
 *   files -> et_analyze -> report (standard output), DIR/schema.yaml, DIR/metadata.json
 *
 * An existing file with other content is kept unless --force is given; the report is printed in any
 * case. If a table cannot be read to its end, no file is written.
 *
 *   exit code 2: an option; 3: a row, a column, the files; 4: a disk */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <etude/value.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/tabular/tabular_commands.h"
#include "data/table/analysis/analyze.h"
#include "data/table/analysis/column_use.h"
#include "data/table/schema/schema.h"
#include "data/text/paths.h"
#include "formats/events/progress.h"
#include "formats/grid.h"
#include "tasks/tabular/table_files.h"
#include "tasks/tabular/tabular_task.h"

/* ---- data report ---- */

/* The report of an analysis (data/table/analysis/analyze_report.c) for people: a table of numeric
 * columns with small histograms, a table of discrete columns with their most frequent values, and
 * suspicious findings. */

/* Columns of a name, and of a value among others. */
#define SHOWN_NAME_MAX 28
#define VALUE_MAX      24
/* Values of a discrete column that are shown. */
#define VALUES 4

#define CUT    ".." /* in place of the rest */
#define TARGET "the target"
#define TEXTS  "texts and classes"

/* ---- texts ---- */

/* Up to `most` columns of a text that was made plain. */
static void append_text(et_strbuf *out, const char *text, size_t most)
{
    et_assert(text && most > 0);
    et_strbuf plain = ET_STRBUF_INIT;
    et_plain_append(&plain, text);
    const char *all = et_strbuf_text(&plain);
    const bool cut = et_utf8_columns(all, plain.length) > most;
    et_strbuf_append_bytes(out, all, et_utf8_fitting(all, cut ? most - strlen(CUT) : most));
    et_strbuf_append(out, cut ? CUT : "");
    out->failed |= plain.failed;
    et_strbuf_release(&plain);
}

static void add_name(et_grid *grid, const char *text)
{
    et_strbuf name = ET_STRBUF_INIT;
    append_text(&name, text, SHOWN_NAME_MAX);
    et_grid_take(grid, &name);
}

/* Columns that a name takes. */
static size_t columns_of(const char *text)
{
    et_strbuf name = ET_STRBUF_INIT;
    append_text(&name, text, SHOWN_NAME_MAX);
    const size_t columns = et_utf8_columns(et_strbuf_text(&name), name.length);
    et_strbuf_release(&name);
    return columns;
}

static const char *text_at(const et_value *dict, const char *key)
{
    et_assert(dict && key);
    const et_value *value = et_value_get(dict, key);
    return value && value->kind == ET_VALUE_STRING ? value->string : "";
}

static int64_t count_at(const et_value *dict, const char *key)
{
    et_assert(dict && key);
    int64_t count = 0;
    return et_value_read_int(dict, key, &count, NULL) ? 0 : count;
}

static bool is_true(const et_value *dict, const char *key)
{
    bool boolean = false;
    return !et_value_read_bool(dict, key, &boolean, NULL) && boolean;
}

/* "~12,345" for an estimate. */
static et_format distinct_of(const et_value *column)
{
    et_format count = et_format_count(count_at(column, "distinct")), result = { "" };
    strcpy(result.text, is_true(column, "exact") ? "" : "~");
    strcat(result.text, count.text);
    return result;
}

/* ---- numbers ---- */

static bool is_numeric(const et_value *column)
{
    return et_value_get(column, "min") != NULL;
}

static void add_number(et_grid *grid, const et_value *dict, const char *key)
{
    double number;
    const bool is = !et_value_read_float(dict, key, &number, NULL);
    et_grid_add(grid, is ? et_format_value(number).text : "-");
}

/* Appends an empty line and the table, unless the table has no rows. Releases the table. */
static void append_table(et_strbuf *out, et_grid *grid)
{
    if (grid->count > grid->columns) {
        et_strbuf_append_char(out, '\n');
        et_grid_append(grid, ET_GRID_TEXT, out);
    }
    out->failed |= grid->failed;
    et_grid_release(grid);
}

/* Draws eight heights; the largest share has the highest, and any share above 0 at least the
 * lowest. */
static void append_histogram(et_strbuf *out, const et_value *histogram, bool ascii)
{
    static const char *const blocks[] = { " ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                          "\u2585", "\u2586", "\u2587", "\u2588" };
    static const char *const letters[] = { " ", ".", ":", "-", "=", "+", "*", "#", "@" };
    const et_value *shares = et_value_get(histogram, "shares");
    double most = 0;
    for (const et_value *share = shares ? shares->first : NULL; share; share = share->next)
        most = share->real > most ? share->real : most;
    for (const et_value *share = shares ? shares->first : NULL; share; share = share->next) {
        int height = share->real > 0 ? 1 + (int)(share->real / most * 7.999) : 0;
        et_strbuf_append(out, (ascii ? letters : blocks)[height > 8 ? 8 : height]);
    }
}

static void print_numbers(et_strbuf *out, const et_value *columns, size_t width, bool ascii)
{
    static const char *const heads[] = { "numbers", "missing", "distinct", "min", "median",
                                         "max",     "mean",    "std",      "",    "" };
    et_grid grid = { .columns = sizeof heads / sizeof *heads, .left = 1, .least = width };
    et_grid_add_row(&grid, heads);
    for (const et_value *c = columns->first; c; c = c->next) {
        if (!is_numeric(c))
            continue;
        add_name(&grid, text_at(c, "name"));
        et_grid_add(&grid, et_format_count(count_at(c, "missing")).text);
        et_grid_add(&grid, distinct_of(c).text);
        add_number(&grid, c, "min");
        add_number(&grid, et_value_get(c, "quantiles"), "50 %");
        add_number(&grid, c, "max");
        add_number(&grid, c, "mean");
        add_number(&grid, c, "std");
        const et_value *histogram = et_value_get(c, "histogram");
        et_strbuf text = ET_STRBUF_INIT;
        append_histogram(&text, histogram, ascii);
        et_grid_take(&grid, &text);
        et_grid_add(&grid, is_true(c, "target") ? TARGET : NULL);
    }
    append_table(out, &grid);
}

/* ---- texts ---- */

static void append_entries(et_strbuf *out, const et_value *column)
{
    const et_value *entries = et_value_get(column, "entries");
    double values = (double)count_at(column, "count");
    int64_t shown = 0;
    for (const et_value *e = entries ? entries->first : NULL; e && shown < VALUES; e = e->next) {
        et_strbuf_append(out, shown++ ? ", " : "");
        append_text(out, text_at(e, "text"), VALUE_MAX);
        et_strbuf_printf(out, " %.3g %%", 100 * (double)count_at(e, "count") / values);
    }
    if (!shown)
        et_strbuf_append_char(out, '-');
    else if (count_at(column, "distinct") > shown)
        et_strbuf_printf(out, ", %s more",
                         et_format_count(count_at(column, "distinct") - shown).text);
}

static void print_texts(et_strbuf *out, const et_value *columns, size_t width)
{
    static const char *const heads[] = { TEXTS, "missing", "distinct", "most frequent" };
    et_grid grid = {
        .columns = sizeof heads / sizeof *heads, .left = 1, .last_left = true, .least = width
    };
    et_grid_add_row(&grid, heads);
    for (const et_value *c = columns->first; c; c = c->next) {
        if (is_numeric(c))
            continue;
        et_strbuf entries = ET_STRBUF_INIT;
        append_entries(&entries, c);
        add_name(&grid, text_at(c, "name"));
        et_grid_add(&grid, et_format_count(count_at(c, "missing")).text);
        et_grid_add(&grid, distinct_of(c).text);
        et_strbuf_append(&entries, is_true(c, "target") ? "  " TARGET : "");
        et_grid_take(&grid, &entries);
    }
    append_table(out, &grid);
}

/* ---- suspicious values ---- */

/* ascii: draws only ASCII characters; names and values are not changed. */
static void data_report_print(et_strbuf *out, const et_value *report, bool ascii)
{
    const et_value *columns = et_value_get(report, "columns");
    size_t width = strlen(TEXTS);
    for (const et_value *c = columns->first; c; c = c->next) {
        const size_t name = columns_of(text_at(c, "name"));
        width = name > width ? name : width;
    }
    const et_value *files = et_value_get(report, "files");
    const char *delimiter = text_at(report, "delimiter");
    const bool tab = !strcmp(delimiter, "\t");
    if (files->count == 1)
        et_plain_append(out, files->first->string);
    else
        et_strbuf_printf(out, "%zu files", files->count);
    et_strbuf_printf(out, ": %s of %s, %s, ", et_format_many(count_at(report, "rows"), "row").text,
                     et_format_many((int64_t)columns->count, "column").text,
                     et_format_bytes((uint64_t)count_at(report, "bytes")).text);
    if (*delimiter)
        et_strbuf_printf(out, "delimiter %s%s%s, %s header\n", tab ? "" : "\"",
                         tab ? "tab" : delimiter, tab ? "" : "\"",
                         is_true(report, "header") ? "with a" : "no");
    else
        et_strbuf_append(out, "JSON lines\n");
    const et_value *unmatched = et_value_get(report, "missing_unmatched");
    for (const et_value *item = unmatched->first; item; item = item->next) {
        et_strbuf_append(out, "--missing ");
        et_plain_append(out, item->string);
        et_strbuf_append(out, " matches no value\n");
    }
    print_numbers(out, columns, width, ascii);
    print_texts(out, columns, width);
    const et_value *list = et_value_get(report, "suspicious");
    et_grid grid = { .columns = 2, .left = 2, .least = width };
    et_grid_add(&grid, "suspicious");
    et_grid_add(&grid, NULL);
    for (const et_value *item = list->first; item; item = item->next) {
        add_name(&grid, text_at(item, "column"));
        et_grid_add(&grid, text_at(item, "text"));
    }
    append_table(out, &grid);
}

/* ---- the command data ---- */

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

/* ORDER et_header, the last two once more. */
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

static int check(data_options *args, et_error *error)
{
    if (!args->words.count || strcmp(args->words.items[0], "analyze") != 0) {
        const char *word = args->words.count ? args->words.items[0] : "";
        const bool file = *word && et_file_exists(word);
        return et_fail(error, ET_EUSAGE, "data: give a subcommand: data analyze %s%s%s",
                       file ? et_shell_quote(word).text : "FILE...",
                       *word && !file ? "; there is no " : "", file ? "" : word);
    }
    if (args->words.count < 2)
        return et_fail(error, ET_EUSAGE, "data analyze: no file is given; name one");
    if (args->force && !args->output)
        return et_fail(
            error, ET_EUSAGE,
            "--force: only with --output DIR, which writes files; for example --output runs");
    et_csv_options *csv = &args->options.csv;
    int status;
    if (!(status = et_outputs_check_directory(args->output, error)) &&
        !(status = take_character(&csv->delimiter, "--delimiter", args->delimiter, error)))
        status = take_character(&csv->comment, "--comment", args->comment, error);
    if (!status && args->missing.count) {
        args->markers = et_csv_missing_with(args->missing.items, args->missing.count);
        args->options.csv.missing = args->markers;
        if (!args->markers)
            status = et_alloc_failed(error, "--missing");
    }
    args->options.header = (et_header)(args->header > 2 ? args->header - 2 : args->header);
    args->options.entries = args->entries;
    args->options.quantiles = (int)args->quantiles;
    return status;
}

/* ---- output files ---- */

/* Both output files, and their contents. */
typedef struct result {
    et_path path[2];  /* "": no file is written */
    char *text[2];    /* owned */
    const char *made; /* the directory, if it was made for these files */
} result;

static int open_result(result *r, const data_options *args, const et_call *call,
                       const et_strings *paths, et_error *error)
{
    static const char *const names[] = { ET_TABLE_SCHEMA, ET_TABLE_METADATA };
    const char *directory = args->dry_run ? NULL : args->output;
    et_outputs outputs = { .program = call->program };
    et_outputs_read_all(&outputs, paths);
    et_outputs_read(&outputs, args->schema);
    et_outputs_check_standard(&outputs, error);
    if (!outputs.status && directory && !et_file_exists(directory)) {
        outputs.status = et_directory_make(directory, error);
        r->made = outputs.status ? NULL : directory;
    }
    for (int i = 0; i < 2 && directory; i++) {
        r->path[i] = et_path_of(directory, names[i]);
        et_outputs_check(&outputs, "--output", r->path[i].text, error);
    }
    return et_outputs_release(&outputs);
}

/* *same: the file exists and has exactly this text. */
static int check_existing(bool *same, const char *path, const char *text, bool force,
                          et_error *error)
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

/* Writes both files or none. */
static int write_result(result *r, const et_analysis *analysis, const data_options *args,
                        et_error *error)
{
    bool same[2];
    if (!*r->path[0].text)
        return ET_OK;
    int status = et_schema_format(analysis->schema, &r->text[0], error);
    if (!status)
        status = et_metadata_format(analysis->metadata, &r->text[1], error);
    for (int i = 0; i < 2 && !status; i++)
        status = check_existing(&same[i], r->path[i].text, r->text[i], args->force, error);
    for (int i = 0; i < 2 && !status; i++)
        if (!same[i])
            status = et_file_write(r->path[i].text, r->text[i], strlen(r->text[i]), error);
    if (!status && !args->json)
        et_print(stdout, "\nwritten: %s, %s\n", r->path[0].text, r->path[1].text);
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

/* The use of columns in training. */
static int append_uses(et_strbuf *out, const et_analysis *analysis, const et_analyze_options *how,
                       et_error *error)
{
    const et_feature_choice choice = et_analyze_choice(how);
    const int count = et_schema_count(analysis->schema);
    et_column_use *uses;
    if (ET_ALLOC(uses, count, "columns", error))
        return ET_ENOMEM;
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
        data_report_print(&out, analysis->report, !et_locale_is_utf8());
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
        return et_alloc_failed(error, "paths");
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

/* The last use of --target counts. Names live in arena. */
static int name_columns(data_options *args, et_arena *arena, et_error *error)
{
    const size_t uses = args->targets.count;
    et_strings names, last = { uses ? &args->targets.items[uses - 1] : NULL, uses > 0 };
    et_analyze_options *o = &args->options;
    int status;
    if (!(status = et_name_list_read(&names, "--target", &last, arena, error)) &&
        !(status = et_name_list_read(&o->dropped, "--drop", &args->dropped, arena, error)))
        status = et_name_list_read(&o->only, "--features", &args->only, arena, error);
    if (!status && uses) {
        o->target = names.items[0];
        o->more_targets = (et_strings){ names.items + 1, names.count - 1 };
    }
    const et_feature_choice choice = et_analyze_choice(o);
    return status ? status : et_column_choice_check(&choice, error);
}

static int run(data_options *args, const et_call *call, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strings given = { args->words.items + 1, args->words.count - 1 }, paths;
    et_analysis analysis = { .arena = ET_ARENA_INIT };
    result r = { .made = NULL };
    int status;
    if (!(status = name_input(&given, &arena, error)) &&
        !(status = name_columns(args, &arena, error)) &&
        !(status = et_paths_match(&paths, &given, NULL, &arena, error)) &&
        !(status = open_result(&r, args, call, &paths, error)) &&
        !(status = analyze(args, &paths, &analysis, error))) {
        if (!(status = print(&analysis, args->json, &args->options, error)))
            status = write_result(&r, &analysis, args, error);
        et_analysis_release(&analysis);
    }
    if (status && r.made)
        rmdir(r.made);
    for (int i = 0; i < 2; i++)
        et_free(r.text[i]);
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

/* ---- uses of columns ---- */

/* Why features ignore a column is known only if they were inferred. */
bool et_tabular_find_uses(const et_tabular_task *task, et_column_use *uses)
{
    const char *given = task->options.features_path;
    const et_feature_choice choice = et_tabular_choice(&task->options);
    bool ids = false;
    et_column_uses_of(uses, task->texts.schema, task->texts.features);
    for (int i = 0; i < et_schema_count(task->texts.schema) && !(given && *given); i++) {
        const et_schema_field *field = et_schema_at(task->texts.schema, i);
        et_column_use inferred = et_column_use_infer(
            field, et_metadata_find(task->texts.metadata, field->name), &choice);
        if (inferred.ignored && !(uses[i].transforms & ~inferred.transforms))
            uses[i].ignored = inferred.ignored;
        const et_column_use *use = &uses[i];
        ids |= use->ignored == ET_COLUMN_KEY || use->ignored == ET_COLUMN_RUNNING;
    }
    return ids;
}
