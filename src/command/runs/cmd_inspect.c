/* etude inspect: shows the contents of a checkpoint or a run, and whether it is damaged. Reads
 * only, takes no lock, and changes nothing, so a run may be training in the directory. For a file
 * of another program it shows the tensors, and reports that the file has no checksums.
 *
 * The exit code is 3 if a checksum differs, after everything was shown.
 *
 *   etude inspect FILE   sizes, parameters by block, the verdict
 *   etude inspect RUN    first the run and its checkpoints; then the same for the newest, and
 *                        whether the run's settings and files belong to it */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include <etude/command.h>
#include <etude/log.h>
#include <etude/value.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "command/command.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/runs/history.h"
#include "command/series_log.h"
#include "formats/events/log_names.h"
#include "formats/grid.h"
#include "formats/safetensors/manifest.h"
#include "formats/safetensors/safetensors.h"
#include "systems/modelgarden/experiment.h"
#include "systems/training/session.h"
#include "train/checkpoint/artifact/artifact.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/run_names.h"
#include "train/checkpoint/state.h"

/* ---- a checkpoint ---- */

/* The contents of a checkpoint are collected before they are shown: sizes by purpose, parameters by
 * block, the verdict of every checksum. */

/* Uses of tensors of a checkpoint (train/checkpoint/state.h). */
typedef enum inspection_part {
    PART_WEIGHTS,
    PART_AVERAGE,
    PART_OPTIMIZER,
    PART_EXPORT, /* of one file: its texts, and scales of narrow weights */
    PARTS
} inspection_part;

/* Weights with a common prefix: "encoder/layer_0" for encoder/layer_0/output/weight, "hidden_0" for
 * hidden_0/weight. Consecutive blocks that differ only in one number of their names are one. */
typedef struct inspection_block {
    char *name;       /* of the first; owned */
    int64_t last;     /* number of the last; -1: a single block */
    int64_t blocks;   /* in a row */
    int64_t tensors;  /* of each */
    int64_t elements; /* of each */
} inspection_block;

typedef struct inspection {
    char *path; /* owned */
    et_safetensors *file;
    int64_t elements; /* of all tensors */
    int64_t weights;  /* elements of weights */
    uint64_t bytes[PARTS];
    inspection_block *blocks; /* [block_count], owned, in the order of the data */
    size_t block_count, block_capacity;
    bool *wrong;     /* [tensors of the file] differs from its checksum; owned */
    size_t damaged;  /* how many do */
    et_error fault;  /* of the first of them */
    et_arena *arena; /* of state */
    et_value *state; /* the state tree; NULL: none */
    uint64_t file_bytes;
} inspection;

/* ---- blocks ---- */

static inspection_part part_of(const char *name)
{
    if (!strncmp(name, ET_STATE_AVERAGE, strlen(ET_STATE_AVERAGE)))
        return PART_AVERAGE;
    if (!strncmp(name, ET_STORED_TEXT, strlen(ET_STORED_TEXT)) ||
        !strncmp(name, ET_STORED_SCALE, strlen(ET_STORED_SCALE)))
        return PART_EXPORT;
    return et_state_is_weight(name) ? PART_WEIGHTS : PART_OPTIMIZER;
}

static int add_weight(inspection *it, const et_safetensors_tensor *tensor, et_error *error)
{
    et_assert(it->block_count <= it->block_capacity);
    /* The block is the first two parts of a name with three or more, the first part of a name with
     * two. */
    const char *name = tensor->name, *first = strchr(name, '/');
    const char *second = first ? strchr(first + 1, '/') : NULL, *end = second ? second : first;
    const size_t length = end ? (size_t)(end - name) : strlen(name);
    inspection_block *last = it->block_count ? &it->blocks[it->block_count - 1] : NULL;
    if (!last || strlen(last->name) != length || strncmp(last->name, name, length) != 0) {
        const bool grown = ET_VECTOR_GROW(it->blocks, it->block_capacity, it->block_count + 1);
        char *copy = grown ? et_strndup(name, length) : NULL;
        if (!copy)
            return et_alloc_failed(error, "parameters by block");
        last = &it->blocks[it->block_count++];
        *last = (inspection_block){ .name = copy, .last = -1, .blocks = 1 };
    }
    last->tensors++;
    last->elements += et_shape_count(tensor->shape);
    return ET_OK;
}

/* Data are sorted by width, then by name. Blocks should have the model's order: that of the names,
 * with numbers in them compared as numbers. */
static int compare_names(const void *left, const void *right)
{
    const et_safetensors_tensor *const *a = left, *const *b = right;
    return strverscmp((*a)->name, (*b)->name);
}

/* The number at the end of a name, and its position; -1: no number. */
static int64_t number_of(const char *name, size_t *before)
{
    *before = strlen(name);
    while (*before && isdigit((unsigned char)name[*before - 1]))
        --*before;
    size_t digits = strlen(name) - *before;
    return digits && digits < 9 ? strtoll(name + *before, NULL, 10) : -1;
}

static bool follows(const inspection_block *one, const inspection_block *next)
{
    size_t before, other;
    int64_t first = number_of(one->name, &before), number = number_of(next->name, &other);
    int64_t last = one->last < 0 ? first : one->last;
    return first >= 0 && number == last + 1 && before == other &&
           !strncmp(one->name, next->name, before) && one->tensors == next->tensors &&
           one->elements == next->elements;
}

static void join_blocks(inspection *it)
{
    size_t count = 0;
    for (size_t i = 0; i < it->block_count; i++) {
        inspection_block *one = count ? &it->blocks[count - 1] : NULL;
        size_t before;
        if (one && follows(one, &it->blocks[i])) {
            one->last = number_of(it->blocks[i].name, &before);
            one->blocks++;
            et_free(it->blocks[i].name);
        } else {
            it->blocks[count++] = it->blocks[i];
        }
    }
    it->block_count = count;
}

static int make_blocks(inspection *it, et_error *error)
{
    size_t count = et_safetensors_count(it->file), weights = 0;
    const et_safetensors_tensor **sorted;
    if (ET_ALLOC(sorted, count + 1, "parameters by block", error))
        return ET_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        if (part_of(tensor->name) == PART_WEIGHTS)
            sorted[weights++] = tensor;
    }
    qsort(sorted, weights, sizeof *sorted, compare_names);
    int status = ET_OK;
    for (size_t i = 0; i < weights && !status; i++)
        status = add_weight(it, sorted[i], error);
    et_free(sorted);
    join_blocks(it);
    return status;
}

/* ---- gathering ---- */

/* Zeros are fine. */
static void inspection_close(inspection *it)
{
    for (size_t i = 0; i < it->block_count; i++)
        et_free(it->blocks[i].name);
    et_free(it->blocks);
    et_free(it->wrong);
    et_free(it->path);
    et_safetensors_close(it->file);
    et_arena_free(it->arena);
    *it = (inspection){ .path = NULL };
}

/* Reads every byte. A damaged tensor is not an error here. ET_ENOTFOUND: no such file. ET_EFORMAT:
 * not a file of named tensors. */
static int inspection_open(inspection *it, const char *path, et_error *error)
{
    et_assert(it && path);
    *it = (inspection){ .path = et_strdup(path) };
    if (!it->path)
        return et_alloc_failed(error, "a path");
    int status = et_safetensors_open_foreign(&it->file, path, error);
    if (!status) {
        it->wrong = et_alloc_zero(et_safetensors_count(it->file) + 1, sizeof *it->wrong);
        status = it->wrong ? make_blocks(it, error) : et_alloc_failed(error, "a checkpoint");
    }
    if (status) {
        inspection_close(it);
        return status;
    }
    struct stat info;
    if (!stat(it->path, &info))
        it->file_bytes = (uint64_t)info.st_size;
    /* The text is parsed to be shown, not to be checked. */
    const char *text = et_safetensors_metadata(it->file, ET_CHECKPOINT_KEY_STATE);
    it->arena = text ? et_arena_new() : NULL;
    if (!it->arena || et_json_parse(&it->state, it->arena, text, strlen(text), it->path, NULL))
        it->state = NULL;
    /* Each tensor separately, so that the message can tell whether one or all are damaged. */
    for (size_t i = 0; i < et_safetensors_count(it->file); i++) {
        et_error reason = ET_ERROR_INIT;
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        const inspection_part part = part_of(tensor->name);
        const int64_t elements = et_shape_count(tensor->shape);
        it->elements += elements;
        it->bytes[part] += tensor->bytes;
        it->weights += part == PART_WEIGHTS ? elements : 0;
        it->wrong[i] = et_safetensors_verify_tensor(it->file, tensor, &reason) != ET_OK;
        if (it->wrong[i] && !it->damaged++)
            it->fault = reason;
    }
    return ET_OK;
}

static const char *part_name(inspection_part part)
{
    et_assert(part >= PART_WEIGHTS && part < PARTS);
    static const char *const names[] = { "weights", "average", "optimizer", "export" };
    return names[part];
}

/* ---- for people ---- */

static int print_blocks(const inspection *it, et_error *error)
{
    et_assert(it->blocks || !it->block_count);
    et_grid grid = { .columns = 4, .most = ET_GRID_CELL_MAX };
    const char *const heads[] = { "block", "tensors", "parameters", "share" };
    et_grid_add_row(&grid, heads);
    int64_t tensors = 0;
    for (size_t i = 0; i < it->block_count; i++) {
        const inspection_block *b = &it->blocks[i];
        tensors += b->tensors * b->blocks;
        if (b->last >= 0)
            et_grid_addf(&grid, "%s to %" PRId64, b->name, b->last);
        else
            et_grid_add(&grid, b->name);
        et_grid_add(&grid, et_format_count(b->tensors * b->blocks).text);
        et_grid_add(&grid, et_format_count(b->elements * b->blocks).text);
        double share =
            it->weights ? 100.0 * (double)(b->elements * b->blocks) / (double)it->weights : 0;
        et_grid_addf(&grid, "%.1f %%", share);
    }
    et_grid_add(&grid, "all");
    et_grid_add(&grid, et_format_count(tensors).text);
    et_grid_add(&grid, et_format_count(it->weights).text);
    et_grid_add(&grid, NULL);
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return status;
}

static const char *type_name(const et_safetensors_tensor *tensor)
{
    return tensor->dtype == ET_SAFETENSORS_F16 ? "float16" : et_dtype_name(tensor->dtype);
}

static int print_tensors(const inspection *it, bool all, et_error *error)
{
    et_grid grid = { .columns = 4, .headless = true, .left = 4 };
    for (size_t i = 0; i < et_safetensors_count(it->file); i++) {
        char shape[ET_SHAPE_TEXT_MAX];
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        if (!all && !it->wrong[i])
            continue;
        et_grid_add(&grid, tensor->name);
        et_grid_add(&grid, type_name(tensor));
        et_grid_add(&grid, et_shape_print(tensor->shape, shape));
        et_grid_add(&grid, it->wrong[i] ? "damaged" : "ok");
    }
    int status = et_grid_print(&grid, stdout, ET_GRID_TEXT, error);
    et_grid_release(&grid);
    return status;
}

static int print_state(const inspection *it, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_json_print(&out, it->state, 2);
    et_strbuf_append_char(&out, '\n');
    et_print(stdout, "state ");
    et_print_text(stdout, et_strbuf_text(&out));
    int status = out.failed ? et_alloc_failed(error, "a state") : ET_OK;
    et_strbuf_release(&out);
    return status;
}

/* ---- for programs ---- */

static void describe_tensors(const inspection *it, et_value *list)
{
    for (size_t i = 0; i < et_safetensors_count(it->file); i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(it->file, i);
        et_value *dict = et_value_add_dict(list);
        et_value_set_string(dict, "name", tensor->name);
        et_value_set_string(dict, "dtype", type_name(tensor));
        et_value *shape = et_value_set_list(dict, "shape");
        for (int k = 0; k < tensor->shape.rank; k++)
            et_value_add_int(shape, tensor->shape.size[k]);
        et_value_set_bool(dict, "ok", !it->wrong[i]);
    }
}

/* ---- run overview ---- */

/* The first lines about a run: kind, progress, quality, data, and checkpoints. */

typedef struct et_run_overview {
    const et_program *program;
    const et_history *history;
    const et_manifest *checkpoints; /* of the run's folder */
    int64_t parameters;             /* 0: not known */
} et_run_overview;

#define SHOWN 12 /* files of data, checkpoints in a line */

/* Prints one line; its topic has thirteen columns, as in the lines that a start prints. */
static void say(const char *about, const et_strbuf *text)
{
    if (text->length)
        et_print_lines(stdout, "%-12s %s\n", about, text->data);
}

static void append_day(et_strbuf *out, double wall)
{
    char day[32];
    struct tm local;
    time_t seconds = (time_t)wall;
    if (!(wall >= 0 && wall < 1e11) || !localtime_r(&seconds, &local))
        return;
    strftime(day, sizeof day, "%Y-%m-%d %H:%M", &local);
    et_strbuf_append(out, day);
}

static const char *text_of(const et_value *dict, const char *key)
{
    const char *text;
    return dict && !et_value_read_string(dict, key, &text, NULL) ? text : NULL;
}

/* ---- lines ---- */

static void append_experiment(et_strbuf *out, const et_run_overview *o)
{
    const char *name = text_of(o->history->settings, "experiment");
    if (name)
        et_plain_append(out, name);
}

static void append_progress(et_strbuf *out, const et_run_overview *o)
{
    const et_history *h = o->history;
    const char *state = et_history_state_name(et_history_state_of(h));
    int64_t steps = et_history_steps(h), done = et_history_steps_done(h);
    double epoch = (double)done / et_history_steps_per_epoch(h);
    if (done >= 0)
        et_strbuf_append(out, et_format_count(done).text);
    else
        et_strbuf_append(out, "no step logged yet");
    if (steps > 0)
        et_strbuf_printf(out, " of %s", et_format_count(steps).text);
    if (done >= 0 && !isnan(epoch))
        et_strbuf_printf(out, ", %s epochs", et_format_value(epoch).text);
    if (*state)
        et_strbuf_printf(out, "; %s", state);
}

static void append_best(et_strbuf *out, const et_run_overview *o)
{
    et_history_best best = et_history_best_of(o->history);
    if (!best.series)
        return;
    et_plain_append(out, best.metric);
    et_strbuf_printf(out, " %s at step %s%s", et_format_value(best.value).text,
                     et_format_count(best.step).text, best.lower ? " (lower is better)" : "");
}

/* Appends the last losses, as far as they were logged. */
static void append_last(et_strbuf *out, const et_run_overview *o)
{
    const et_history_series *found[8];
    size_t count = et_history_match(o->history, ET_LOGGED_LOSS, found, 8);
    for (size_t i = 0; i < count && i < 8; i++) {
        const et_history_point *p = &found[i]->points[found[i]->count - 1];
        const char *dot = strchr(found[i]->name, '.');
        et_strbuf_printf(out, "%s%s %s", i ? ", " : "", dot ? dot + 1 : found[i]->name,
                         et_format_value(p->value).text);
    }
}

static void append_time(et_strbuf *out, const et_run_overview *o)
{
    const et_history *h = o->history;
    const et_value *sessions = et_history_sessions(h), *last = sessions ? sessions->last : NULL;
    double seconds = et_history_seconds_in_all(h), began;
    if (!isnan(seconds))
        et_strbuf_append(out, et_format_duration(seconds).text);
    if (last)
        et_strbuf_printf(out, " in %s", et_format_many((int64_t)sessions->count, "session").text);
    if (last && !et_value_read_float(last, ET_SESSION_BEGAN, &began, NULL)) {
        et_strbuf_append(out, ", the last from ");
        append_day(out, began);
    }
    const char *host = text_of(last, "host"), *version = text_of(last, "version");
    if (host && version) {
        et_strbuf_append(out, " on ");
        et_plain_append(out, host);
        et_strbuf_append(out, ", etude ");
        et_plain_append(out, version);
    }
}

/* Files that the settings name. */
typedef struct file_list {
    et_strbuf *out; /* for people, or NULL */
    et_value *list; /* for programs, or NULL */
    int count;
} file_list;

static void take_file(void *payload, const char *path)
{
    file_list *f = payload;
    if (!path)
        return;
    if (f->list)
        et_value_add_string(f->list, path);
    if (f->out && f->count < SHOWN) {
        et_strbuf_append(f->out, f->count ? ", " : "");
        et_plain_append(f->out, path);
    }
    f->count++;
}

/* Settings that this program does not know name no files. */
static void list_files(file_list *f, const et_run_overview *o)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    if (!et_experiment_open_run(&experiment, o->program, o->history->model_dir, &arena, NULL) &&
        experiment.kind->reads)
        experiment.kind->reads(experiment.task, take_file, f);
    if (f->out && f->count > SHOWN)
        et_strbuf_printf(f->out, " and %d more", f->count - SHOWN);
    et_arena_release(&arena);
}

static void append_data(et_strbuf *out, const et_run_overview *o)
{
    file_list f = { .out = out };
    list_files(&f, o);
}

static void append_size(et_strbuf *out, const et_run_overview *o)
{
    int64_t memory;
    const et_value *sessions = et_history_sessions(o->history);
    const et_value *last = sessions ? sessions->last : NULL;
    const char *precision =
        text_of(et_value_get(o->history->settings, "runtime"), "mixed_precision_dtype");
    if (o->parameters)
        et_strbuf_printf(out, "%s parameters", et_format_count(o->parameters).text);
    if (precision) {
        et_strbuf_append(out, out->length ? ", " : "");
        et_plain_append(out, precision);
    }
    if (last && !et_value_read_int(last, ET_SESSION_MEMORY, &memory, NULL) && memory > 0)
        et_strbuf_printf(out, ", %s planned", et_format_bytes((uint64_t)memory).text);
}

/* The metric that chooses the best checkpoint, as measured at this step; NaN: not measured. */
static double score_at(const et_run_overview *o, int64_t step)
{
    const et_history_series *s = et_history_best_of(o->history).series;
    for (size_t i = s ? s->count : 0; i-- > 0;)
        if (s->points[i].step == step)
            return s->points[i].value;
    return (double)NAN;
}

static void append_checkpoints(et_strbuf *out, const et_run_overview *o)
{
    size_t count = o->checkpoints->count, first = count > SHOWN ? count - SHOWN : 0;
    et_strbuf_printf(out, "%s", first ? "..., " : "");
    for (size_t i = first; i < count; i++) {
        const et_manifest_entry *entry = &o->checkpoints->entries[i];
        double score = score_at(o, entry->step);
        et_strbuf_printf(out, "%sstep %s", i > first ? ", " : "",
                         et_format_count(entry->step).text);
        if (!isnan(score))
            et_strbuf_printf(out, " (%s)", et_format_value(score).text);
    }
    /* The step of the file in best/. After a kill, the log may have a later best step whose file
     * was not written. */
    et_arena arena = ET_ARENA_INIT;
    et_value *info;
    int64_t best = -1;
    if (!et_checkpoint_best_info(&info, o->history->model_dir, &arena, NULL))
        et_value_read_int(info, ET_CHECKPOINT_STEP, &best, NULL);
    et_arena_release(&arena);
    if (best >= 0)
        et_strbuf_printf(out, "; the best in " ET_CHECKPOINT_BEST "/, step %s",
                         et_format_count(best).text);
}

static void run_overview_print(const et_run_overview *o)
{
    static const struct {
        const char *about;
        void (*append)(et_strbuf *out, const et_run_overview *o);
    } lines[] = {
        { "experiment", append_experiment },
        { "step", append_progress },
        { "best", append_best },
        { "last", append_last },
        { "time", append_time },
        { "data", append_data },
        { "model", append_size },
        { "checkpoints", append_checkpoints },
    };
    et_strbuf text = ET_STRBUF_INIT;
    et_plain_append(&text, o->history->model_dir);
    say("run", &text);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        et_strbuf_reset(&text);
        lines[i].append(&text, o);
        say(lines[i].about, &text);
    }
    et_strbuf_release(&text);
}

/* ---- for programs ---- */

static void describe_checkpoints(const et_run_overview *o, et_value *list)
{
    for (size_t i = 0; i < o->checkpoints->count; i++) {
        const et_manifest_entry *entry = &o->checkpoints->entries[i];
        et_value *dict = et_value_add_dict(list);
        double score = score_at(o, entry->step);
        et_value_set_int(dict, "step", entry->step);
        et_value_set_string(dict, "file", entry->file);
        if (!isnan(score))
            et_value_set_float(dict, "score", score);
    }
}

static void run_overview_describe(const et_run_overview *o, et_value *dict)
{
    const et_history *h = o->history;
    const et_value *sessions = et_history_sessions(h);
    const et_history_best best = et_history_best_of(h);
    const char *experiment = text_of(h->settings, "experiment");
    et_history_describe(h, &best, dict);
    if (experiment)
        et_value_set_string(dict, "experiment", experiment);
    et_value_set_int(dict, "sessions", sessions ? (int64_t)sessions->count : 0);
    file_list f = { .list = et_value_set_list(dict, "data") };
    list_files(&f, o);
    describe_checkpoints(o, et_value_set_list(dict, "checkpoints"));
}

/* ---- the command inspect ---- */

/* A request of the user, and the output. */
typedef struct inquiry {
    const et_program *program;
    const char *model_dir;
    et_strings paths;
    bool tensors, json;
    et_value *list; /* results of the checkpoints inspected so far, for --json */
} inquiry;

static const et_option options[] = {
    ET_OPTION_TEXT(inquiry, model_dir, "model-dir", "DIR", "a run, the same as RUN"),
    ET_OPTION_FLAG(inquiry, tensors, "tensors", "show every tensor with its check, and the state"),
    ET_OPTION_JSON(inquiry, json), ET_OPTION_REST(inquiry, paths, "RUN|CHECKPOINT..."),
    ET_OPTION_END
};

const et_usage et_usage_inspect = {
    options, sizeof(inquiry),
    "Shows a checkpoint (of a run: the newest) and checks every checksum. For a run,\nit also "
    "checks whether settings and files have changed since the training.",
    "runs/a"
};

/* ---- the run of a checkpoint ---- */

/* Checks whether the checkpoint was made with the settings and files that the run has now. */
static int check_run(const et_experiment *experiment, const et_identity *identity,
                     const char *model_dir, et_error *error)
{
    const et_task_kind *kind = experiment->kind;
    int status =
        et_experiment_check_same(experiment, experiment, identity, model_dir, false, error);
    return status || !kind->belongs ? status
                                    : kind->belongs(experiment->task, model_dir, identity, error);
}

/* "RUN/params.yaml, RUN/schema.yaml": the existing files that are compared, each after `before`. */
static void append_compared(et_strbuf *out, const et_task_kind *kind, const char *model_dir,
                            const char *before, const char *between)
{
    char name[ET_RUN_FILE_NAME];
    et_run_file file;
    et_strbuf_printf(out, "%s" ET_RUN_SETTINGS, before);
    for (int i = 0; kind && (file = et_kind_file(kind, i, name)).name; i++)
        if (file.what & ET_RUN_COMPARED && et_file_exists_in(model_dir, file.name))
            et_strbuf_printf(out, "%s%s%s", between, before, file.name);
}

/* Whether the files next to a run's checkpoint belong to it: yes, no, or unknown. */
static int inspect_identity(const inspection *it, const inquiry *ask, const char *model_dir,
                            et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    et_identity identity = { it->path, NULL };
    const char *text = et_safetensors_metadata(it->file, ET_CHECKPOINT_KEY_STATE);
    int status = et_identity_parse(&identity.values, text, it->path, &arena, error);
    bool known = !status && identity.values;
    /* Without an identity in the checkpoint nothing is compared, so unreadable settings are no
     * error. */
    int opened = status ? status
                        : et_experiment_open_run(&experiment, ask->program, model_dir, &arena,
                                                 known ? error : NULL);
    if (known)
        status = opened ? opened : check_run(&experiment, &identity, model_dir, error);
    if (!status && !ask->json) {
        char before[4200];
        et_strbuf files = ET_STRBUF_INIT;
        snprintf(before, sizeof before, "%s/", model_dir);
        append_compared(&files, opened ? NULL : experiment.kind, model_dir, known ? before : "",
                        known ? ", " : " and ");
        if (known)
            et_print_lines(stdout, "as trained: %s\n", et_strbuf_text(&files));
        else
            et_print_lines(stdout, "not compared: %s, for which this checkpoint has no checksums\n",
                           et_strbuf_text(&files));
        et_strbuf_release(&files);
    }
    et_arena_release(&arena);
    return status;
}

/* ---- one checkpoint ---- */

static int show(const inspection *it, const inquiry *ask, et_value *dict, et_error *error)
{
    if (ask->json) {
        et_value_set_string(dict, "file", it->path);
        et_value_set_int(dict, "file_bytes", (int64_t)it->file_bytes);
        et_value *bytes = et_value_set_dict(dict, "bytes");
        for (int part = 0; part < PARTS; part++)
            et_value_set_int(bytes, part_name((inspection_part)part), (int64_t)it->bytes[part]);
        et_value_set_int(dict, "tensor_count", (int64_t)et_safetensors_count(it->file));
        et_value_set_int(dict, "elements", it->elements);
        et_value_set_int(dict, "parameters", it->weights);
        et_value_set_bool(dict, "checksums", et_safetensors_sealed(it->file));
        et_value_set_int(dict, "damaged", (int64_t)it->damaged);
        et_value *blocks = et_value_set_list(dict, "blocks");
        for (size_t i = 0; i < it->block_count; i++) {
            const inspection_block *b = &it->blocks[i];
            et_value *block = et_value_add_dict(blocks);
            et_value_set_string(block, "name", b->name);
            et_value_set_int(block, "blocks", b->blocks);
            et_value_set_int(block, "tensors", b->tensors);
            et_value_set_int(block, "parameters", b->elements);
        }
        if (ask->tensors)
            describe_tensors(it, et_value_set_list(dict, "tensors"));
        return ET_OK;
    }
    et_print(stdout, "checkpoint   %s\n", it->path);
    char parts[200] = "";
    for (int part = 0; part < PARTS; part++)
        if (it->bytes[part])
            snprintf(parts + strlen(parts), sizeof parts - strlen(parts), " %s %s,",
                     part_name((inspection_part)part), et_format_bytes(it->bytes[part]).text);
    et_print_lines(stdout, "file         %s:%s %s tensors, %s elements%s\n",
                   et_format_bytes(it->file_bytes).text, parts,
                   et_format_count((int64_t)et_safetensors_count(it->file)).text,
                   et_format_count(it->elements).text,
                   et_safetensors_sealed(it->file) ? ""
                                                   : "; no checksums: written by another program");
    et_print(stdout, "\n");
    int status = print_blocks(it, error);
    et_print(stdout, "\n");
    if (!status)
        status = print_tensors(it, ask->tensors, error);
    return status || !ask->tensors || !it->state ? status : print_state(it, error);
}

/* Prints the verdict last. model_dir: the run whose newest checkpoint this is, or NULL. */
static int judge(const inspection *it, const inquiry *ask, et_value *dict, const char *model_dir,
                 et_error *error)
{
    et_error reason = ET_ERROR_INIT;
    int status = ET_OK;
    if (it->damaged)
        status = et_fail(&reason, ET_EFORMAT, "%s", it->fault.text);
    else if (model_dir)
        status = inspect_identity(it, ask, model_dir, &reason);
    if (!status && !ask->json)
        et_print(stdout, "%s: %s\n",
                 et_safetensors_sealed(it->file) ? "intact" : "no checksums, not verified",
                 it->path);
    et_value_set_bool(dict, "sound", !status);
    if (status)
        et_value_set_string(dict, "fault", reason.text);
    return status ? et_fail(error, status, "%s", reason.text) : ET_OK;
}

/* model_dir: as judge has it. */
static int inspect_file(const char *path, const inquiry *ask, const char *model_dir,
                        et_error *error)
{
    inspection it;
    int status = inspection_open(&it, path, error);
    if (status)
        return status;
    et_value *dict = et_value_add_dict(ask->list);
    status = show(&it, ask, dict, error);
    if (!status)
        status = judge(&it, ask, dict, model_dir, error);
    inspection_close(&it);
    return status;
}

/* ---- a run ---- */

/* The usual cause is a path one level too high or too low. */
static int no_checkpoint(const inquiry *ask, const char *directory, et_error *error)
{
    et_artifact artifact;
    if (!et_artifact_open(&artifact, directory, NULL) && artifact.member)
        et_fail(error, ET_ENOTFOUND,
                "%s: no checkpoint here; the weights of task %s are in the checkpoints of %s",
                directory, artifact.member->name, artifact.member->run);
    else
        et_fail(error, ET_ENOTFOUND,
                "%s: no checkpoint here; name a checkpoint, or the directory of a run that saved "
                "one (`%s train`)",
                directory, ask->program->name);
    et_artifact_close(&artifact);
    return ET_ENOTFOUND;
}

/* Opens the newest checkpoint of a run, by its step, even if it is damaged, because the command
 * reports damage. Checkpoints are found by name: reading the manifest would also delete leftovers
 * of a run that may be training. A training run may delete a listed checkpoint; then it has a newer
 * one. */
static int open_newest(inspection *it, et_manifest *manifest, const inquiry *ask,
                       const char *directory, et_error *error)
{
    int64_t last = -1;
    for (;;) {
        et_error reason = ET_ERROR_INIT;
        int status = et_manifest_rebuild(manifest, directory, ET_CHECKPOINT_PREFIX, error);
        if (status)
            return status;
        if (!manifest->count)
            return no_checkpoint(ask, directory, error);
        const et_manifest_entry *newest = &manifest->entries[manifest->count - 1];
        status = inspection_open(it, et_path_of(directory, newest->file).text, &reason);
        if (!status)
            return ET_OK;
        if (status != ET_ENOTFOUND || newest->step == last)
            return et_fail(error, status, "%s", reason.text);
        last = newest->step;
        et_manifest_release(manifest);
    }
}

/* Prints the logged results. They do not change the verdict: a fault in the log is only a warning.
 */
static int show_overview(const inspection *it, const et_manifest *manifest, const inquiry *ask,
                         const char *model_dir, et_value *dict, et_error *error)
{
    et_history *history;
    et_error reason = ET_ERROR_INIT;
    int status = et_history_open(&history, model_dir, &reason);
    if (status == ET_ENOMEM) {
        et_history_close(history);
        return et_fail(error, status, "%s", reason.text);
    }
    if (status)
        et_log(ET_LOG_WARNING, "%s", reason.text);
    if (!history)
        return ET_OK;
    const et_run_overview overview = { ask->program, history, manifest, it->weights };
    if (ask->json)
        run_overview_describe(&overview, dict);
    else
        run_overview_print(&overview);
    et_history_close(history);
    return ET_OK;
}

static int inspect_run(const char *model_dir, const inquiry *ask, et_error *error)
{
    const et_path directory = et_path_of(model_dir, ET_CHECKPOINT_FOLDER);
    et_manifest manifest = { 0 };
    inspection it = { .path = NULL };
    if (et_series_is_unfinished(model_dir)) {
        et_strbuf text = ET_STRBUF_INIT;
        et_series_describe(&text, model_dir);
        et_fail(
            error, ET_ENOTFOUND,
            "%s: this run of several trainings has no model yet. %s. Name one of its trainings, or "
            "resume: %s train %s",
            model_dir, et_strbuf_text(&text), ask->program->name, model_dir);
        et_strbuf_release(&text);
        return ET_ENOTFOUND;
    }
    int status = et_file_exists(directory.text)
                     ? open_newest(&it, &manifest, ask, directory.text, error)
                     : no_checkpoint(ask, model_dir, error);
    if (!status) {
        et_value *dict = et_value_add_dict(ask->list);
        if (!(status = show_overview(&it, &manifest, ask, model_dir, dict, error)) &&
            !(status = show(&it, ask, dict, error)))
            status = judge(&it, ask, dict, model_dir, error);
    }
    inspection_close(&it);
    et_manifest_release(&manifest);
    return status;
}

/* For an export, and a run of several models: the weights, and whether the files next to them are
 * its own. */
static int inspect_directory(const char *path, const inquiry *ask, et_error *error)
{
    const et_path checkpoints = et_path_of(path, ET_CHECKPOINT_FOLDER);
    const et_path weights = et_path_of(path, ET_ARTIFACT_WEIGHTS);
    et_manifest manifest = { 0 };
    int status = et_directory_check(path, error);
    if (!status && et_file_exists(checkpoints.text))
        status = et_manifest_rebuild(&manifest, checkpoints.text, ET_CHECKPOINT_PREFIX, error);
    if (!status)
        status = !manifest.count && et_file_exists(weights.text)
                     ? inspect_file(weights.text, ask, path, error)
                     : inspect_run(path, ask, error);
    et_manifest_release(&manifest);
    return status;
}

/* ---- the command ---- */

int et_cmd_inspect(const et_call *call, et_error *error)
{
    inquiry *ask = call->options;
    ask->program = call->program;
    if (!ask->paths.count && !ask->model_dir)
        return et_fail(error, ET_EUSAGE, "inspect: name a checkpoint, or the directory of a run");
    et_arena arena = ET_ARENA_INIT;
    et_outputs outputs = { .program = ask->program };
    et_outputs_read_all(&outputs, &ask->paths);
    et_outputs_check_standard(&outputs, error);
    int status = et_outputs_release(&outputs);
    ask->list = et_value_list(&arena);
    if (!status) {
        /* Stops at the first that is not sound. */
        const et_strings *paths = &ask->paths;
        const char *run = ask->model_dir;
        struct stat info;
        if (run)
            status = !stat(run, &info) && S_ISREG(info.st_mode)
                         ? inspect_file(run, ask, NULL, error)
                         : inspect_directory(run, ask, error);
        for (size_t i = 0; i < paths->count && !status; i++)
            status = et_directory_exists(paths->items[i])
                         ? inspect_directory(paths->items[i], ask, error)
                         : inspect_file(paths->items[i], ask, NULL, error);
    }
    /* Prints one result alone, several as a list. Without a result, prints nothing: errors are
     * reported elsewhere. */
    int printed = ET_OK;
    const et_value *list = ask->json ? ask->list : NULL;
    if (list && list->count) {
        et_value *all = et_value_dict(&arena);
        if (list->count > 1)
            et_value_append_copy(all, "inspected", list);
        printed = et_print_json(list->count > 1 ? all : list->first, status ? NULL : error);
    }
    et_arena_release(&arena);
    return status ? status : printed;
}
