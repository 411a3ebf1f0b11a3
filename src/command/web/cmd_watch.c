/* etude watch: a web page that follows the runs below a directory: curves, new samples, throughput,
 * warnings. The server reads runs only when the page asks, so it costs nothing while no page is
 * open, and it writes nothing. The page is built from the files in watch/ and is a part of the
 * program; it loads nothing from other servers.
 *
 *     GET /            the page             POST /api/points   new points
 *     GET /api/runs    all runs             GET /api/run?id=N, /api/sample?id=N&name=... */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/command.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "command/command.h"
#include "command/outputs.h"
#include "command/runs/histories.h"
#include "command/runs/history.h"
#include "command/web/server.h"
#include "command/web/web.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/run_names.h"

/* ---- the board ---- */

/* The board: the runs below a directory. Keeps their histories (history.h) up to date and prints
 * them as JSON. Reads only. A run keeps its number while the board is open. If the run resumes from
 * a checkpoint, its log is cut off. Then the run's generation changes, and earlier points are
 * invalid. One thread. */

typedef struct et_board_item {
    char *path;          /* as the search found it; owned */
    const char *name;    /* in path: the part after the board's directory */
    et_history *history; /* owned; NULL: it could not be read yet */
    int64_t generation;
    char *fault; /* current fault of its files; owned; NULL: none */
} et_board_item;

typedef struct et_board {
    const et_program *program;
    char *directory;      /* owned */
    char *root;           /* directory without symbolic links; files outside are not shown. Free
                             with free() */
    et_board_item *items; /* [count] by number; owned */
    size_t count, capacity;
    double searched, updated; /* when, of et_clock_monotonic; 0: never */
} et_board;

/* Seconds between two searches for new runs, and between two readings of logs. */
#define SEARCH_INTERVAL 3
#define UPDATE_INTERVAL 0.4

/* "a/b" of "runs/a/b"; of the directory itself its own name. */
static const char *name_of(const et_board *board, const char *path)
{
    const size_t length = et_path_length(board->directory);
    if (strncmp(path, board->directory, length) != 0)
        return path;
    const char *rest = path + length + strspn(path + length, "/");
    return *rest ? rest : et_path_base(path);
}

/* An unreadable folder is reported once. */
static int search(et_board *board, et_error *error)
{
    et_run_list found = { .quiet = isfinite(board->searched) };
    int status = et_run_list_add(&found, board->directory, error);
    for (size_t i = 0; i < found.count; i++) {
        size_t known = 0;
        while (known < board->count && strcmp(board->items[known].path, found.items[i]) != 0)
            known++;
        if (known < board->count)
            continue;
        /* Without memory it is found again later. */
        const bool grown = ET_VECTOR_GROW(board->items, board->capacity, board->count + 1);
        char *copy = grown ? et_strdup(found.items[i]) : NULL;
        if (copy)
            board->items[board->count++] =
                (et_board_item){ .path = copy, .name = name_of(board, copy), .generation = 1 };
    }
    et_run_list_release(&found);
    return status;
}

static void sane(const et_board *board)
{
    et_assert(board->program && board->directory);
    et_assert(board->count <= board->capacity);
    et_assert(!isnan(board->searched) && !isnan(board->updated));
    for (size_t i = 0; i < board->count; i++) {
        const et_board_item *item = &board->items[i];
        et_assert(item->path && item->name && item->generation >= 1);
        et_assert(item->name >= item->path && item->name <= item->path + strlen(item->path));
        et_assert(!item->history || !strcmp(item->history->model_dir, item->path));
    }
}

/* ---- updates ---- */

/* A failure is stored with its run, and the next reading tries the run again. */
static void board_update(et_board *board)
{
    double now = et_clock_monotonic();
    sane(board);
    if (now - board->searched >= SEARCH_INTERVAL) {
        search(board, NULL);
        board->searched = et_clock_monotonic();
    }
    if (now - board->updated < UPDATE_INTERVAL)
        return;
    for (size_t i = 0; i < board->count; i++) {
        et_board_item *item = &board->items[i];
        et_error error = ET_ERROR_INIT;
        bool anew = false;
        int status = item->history
                         ? et_history_update(item->history, &anew, &error)
                         : et_history_open_below(&item->history, item->path, board->root, &error);
        item->generation += anew;
        et_free(item->fault);
        item->fault = status ? et_strdup(error.text) : NULL;
    }
    board->updated = et_clock_monotonic();
}

/* ---- opening ---- */

/* NULL allowed. */
static void board_close(et_board *board)
{
    if (!board)
        return;
    for (size_t i = 0; i < board->count; i++) {
        et_history_close(board->items[i].history);
        et_free(board->items[i].path);
        et_free(board->items[i].fault);
    }
    et_free(board->items);
    free(board->root);
    et_free(board->directory);
    et_free(board);
}

/* Searches for runs and reads them. Finding no run is no error, because one may begin soon.
 * ET_ENOTFOUND: no such directory. */
static int board_open(et_board **out, const et_program *program, const char *directory,
                      et_error *error)
{
    *out = NULL;
    et_board *board;
    if (ET_ALLOC_ZERO(board, 1, "a list of runs", error))
        return ET_ENOMEM;
    board->program = program;
    board->searched = board->updated = -(double)INFINITY;
    board->directory = et_strdup(directory);
    board->root = realpath(directory, NULL);
    int status = board->directory ? search(board, error) : et_alloc_failed(error, "a path");
    if (!status && !board->root)
        status = et_fail_errno(error, "%s", directory);
    if (status) {
        board_close(board);
        return status;
    }
    board_update(board);
    *out = board;
    return ET_OK;
}

/* NULL: no run has that number, or it could not be read. */
static const et_board_item *board_find(const et_board *board, int64_t id)
{
    if (id < 0 || (uint64_t)id >= board->count || !board->items[id].history)
        return NULL;
    return &board->items[id];
}

/* ---- all runs ---- */

/* Prints all runs, a line each. Points may be many, so they are printed without a tree of
 * values. */

/* Most points of an answer: some megabytes of text. */
#define POINTS_MAX 200000
#define RUNS_MAX   1000

static void append_number(et_strbuf *out, double value)
{
    if (isfinite(value))
        et_strbuf_append_double(out, value);
    else
        et_strbuf_append(out, "null");
}

static void append_key(et_strbuf *out, const char *before, const char *key)
{
    et_strbuf_printf(out, "%s\"%s\": ", before, key);
}

static void append_text(et_strbuf *out, const char *before, const char *key, const char *text)
{
    append_key(out, before, key);
    et_json_print_string(out, text);
}

/* {"directory", "now", "runs": [{"id", "name", "kind", "state", "step", "steps", "seconds",
 * "generation", "points", "last", "best": {"series", "metric", "value", "step", "lower"}, "fault"},
 * ...]}; step -1, steps 0, last null, kind, best and fault missing: not known. kind: the
 * experiment's name before the slash. points: total number of points. */
static void board_runs(const et_board *board, et_strbuf *out)
{
    append_text(out, "{", "directory", board->directory);
    append_key(out, ", ", "now");
    append_number(out, et_clock_wall());
    append_key(out, ", ", "runs");
    et_strbuf_append_char(out, '[');
    for (size_t i = 0; i < board->count; i++) {
        const et_board_item *item = &board->items[i];
        et_strbuf_printf(out, "%s{\"id\": %zu, \"generation\": %" PRId64, i ? ",\n" : "", i,
                         item->generation);
        append_text(out, ", ", "name", item->name);
        if (item->history) {
            const et_history *h = item->history;
            const et_history_best best = et_history_best_of(h);
            const et_value *experiment = et_history_setting(h, "experiment");
            int64_t points = 0;
            for (size_t k = 0; k < h->count; k++)
                points += (int64_t)h->series[k].count;
            if (experiment && experiment->kind == ET_VALUE_STRING) {
                /* "kind" of "kind/size". Values of the same name have the same meaning in runs of
                 * one kind. */
                char kind[64];
                snprintf(kind, sizeof kind, "%.*s", (int)strcspn(experiment->string, "/"),
                         experiment->string);
                append_text(out, ", ", "kind", kind);
            }
            append_text(out, ", ", "state", et_history_state_name(et_history_state_of(h)));
            et_strbuf_printf(out,
                             ", \"step\": %" PRId64 ", \"steps\": %" PRId64 ", \"points\": %" PRId64
                             ", \"first\": %" PRId64,
                             et_history_steps_done(h), et_history_steps(h), points,
                             et_history_first_values(h));
            append_key(out, ", ", "seconds");
            append_number(out, et_history_seconds_in_all(h));
            append_key(out, ", ", "last");
            append_number(out, h->last_wall);
            if (best.series) {
                append_text(out, ", \"best\": {", "series", best.series->name);
                append_text(out, ", ", "metric", best.metric);
                et_strbuf_printf(out,
                                 ", \"step\": %" PRId64 ", \"lower\": %s, \"value\": ", best.step,
                                 best.lower ? "true" : "false");
                append_number(out, best.value);
                et_strbuf_append_char(out, '}');
            }
        }
        if (item->fault)
            append_text(out, ", ", "fault", item->fault);
        et_strbuf_append_char(out, '}');
    }
    et_strbuf_append(out, "]}\n");
}

/* ---- points ---- */

/* room: points that may still be sent. false: the series has more points than were appended. */
static bool append_series(et_strbuf *out, const et_history *h, size_t at, size_t first,
                          int64_t *room, bool *any)
{
    const et_history_series *s = &h->series[at];
    size_t count = first < s->count ? s->count - first : 0;
    bool all = (int64_t)count <= *room;
    if (!all)
        count = (size_t)*room;
    if (!count)
        return all;
    *room -= (int64_t)count;
    et_strbuf_printf(out, "%s{\"at\": %zu, ", *any ? ",\n" : "", at);
    *any = true;
    append_text(out, "", "name", s->name);
    et_strbuf_printf(out, ", \"lower\": %s%s", et_history_is_lower_better(h, s) ? "true" : "false",
                     et_history_repeats(h, s) ? ", \"repeats\": true" : "");
    append_key(out, ", ", "points");
    for (size_t i = first; i < first + count; i++) {
        et_strbuf_printf(out, "%s[%" PRId64 ", ", i == first ? "[" : ", ", s->points[i].step);
        append_number(out, s->points[i].wall);
        et_strbuf_append(out, ", ");
        append_number(out, s->points[i].value);
        et_strbuf_append_char(out, ']');
    }
    et_strbuf_append(out, "]}");
    return all;
}

static bool append_run(et_strbuf *out, const et_board *board, const et_value *asked, int64_t *room,
                       et_error *error)
{
    int64_t id = -1, generation = 0;
    bool any = false, all = true;
    et_value_read_int(asked, "id", &id, NULL);
    et_value_read_int(asked, "generation", &generation, NULL);
    const et_board_item *item = board_find(board, id);
    if (!item) {
        et_fail(error, ET_EDATA, "no run has the number %" PRId64, id);
        return true;
    }
    const et_value *counts = generation == item->generation ? et_value_get(asked, "have") : NULL;
    et_strbuf_printf(out, "{\"id\": %" PRId64 ", \"generation\": %" PRId64 ", \"series\": [", id,
                     item->generation);
    const et_value *known = counts ? counts->first : NULL;
    for (size_t i = 0; i < item->history->count; i++) {
        /* How many points of the series the client already has. */
        const bool some = known && known->kind == ET_VALUE_INT && known->integer > 0;
        all &= append_series(out, item->history, i, some ? (size_t)known->integer : 0, room, &any);
        known = known ? known->next : NULL;
    }
    et_strbuf_append(out, "]}");
    return all;
}

/* New points. asked is {"runs": [{"id", "generation", "have": [COUNT, ...]}, ...]} with the number
 * of points that the page has of each series. The result: {"runs": [{"id", "generation", "series":
 * [{"at", "name", "lower", "repeats", "points": [[STEP, WALL, VALUE], ...]}, ...]}, ...], "more":
 * whether to ask again at once}. lower: whether lower values are better. repeats: an earlier series
 * has the same numbers (et_history_repeats), else missing. For another generation all points are
 * sent. ET_EFORMAT: asked has another form; ET_EDATA: no such run. */
static int board_points(const et_board *board, const et_value *asked, et_strbuf *out,
                        et_error *error)
{
    const et_value *runs = et_value_get(asked, "runs");
    et_error reason = ET_ERROR_INIT;
    int64_t room = POINTS_MAX;
    bool all = true;
    if (!runs || runs->kind != ET_VALUE_LIST || runs->count > RUNS_MAX)
        return et_fail(error, ET_EFORMAT, "runs: expected a list of at most %d numbers", RUNS_MAX);
    et_strbuf_append(out, "{\"runs\": [");
    for (const et_value *run = runs->first; run && !reason.status; run = run->next) {
        et_strbuf_append(out, run == runs->first ? "" : ",\n");
        all &= append_run(out, board, run, &room, &reason);
    }
    et_strbuf_printf(out, "], \"more\": %s}\n", all ? "false" : "true");
    return reason.status ? et_fail(error, reason.status, "%s", reason.text) : ET_OK;
}

/* ---- one run: settings, sessions, the end of its log, samples ---- */

/* Bytes read from the end of a log; lines shown. */
#define LOG_BYTES   ((size_t)256 << 10)
#define LOG_LINES   200
#define SESSIONS    20
#define SAMPLES_MAX 10000
#define SAMPLE_NAME 64
/* Bytes of a sample that are shown. */
#define SAMPLE_MAX ((size_t)256 << 10)

/* Reads at most `most` bytes from the begin or the end of a regular file, which must be below the
 * board's directory and not a link. The text is terminated. *cut: the file has more. */
static int read_part(char **out, size_t *length, const et_board *board, const char *path,
                     size_t most, bool end, bool *cut, et_error *error)
{
    struct stat info;
    *out = NULL;
    *length = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0 || fstat(fd, &info) || !S_ISREG(info.st_mode) ||
        !et_file_is_below(fd, board->root)) {
        int status = fd < 0 ? et_fail_errno(error, "%s", path)
                            : et_fail(error, ET_EDENIED, "%s: not a regular file", path);
        if (fd >= 0)
            close(fd);
        return status;
    }
    size_t size = info.st_size > 0 ? (size_t)info.st_size : 0;
    *cut = size > most;
    off_t from = end && *cut ? (off_t)(size - most) : 0;
    char *bytes = et_alloc(most + 1, 1);
    ssize_t got = 0;
    while (bytes && *length < most &&
           (got = pread(fd, bytes + *length, most - *length, from + (off_t)*length)) > 0)
        *length += (size_t)got;
    close(fd);
    if (!bytes)
        return et_alloc_failed(error, "a file");
    bytes[*length] = 0;
    *out = bytes;
    return ET_OK;
}

/* Bytes that JSON could not hold, or a page not show, become blanks. */
static void make_plain(char *line)
{
    size_t bad = 0;
    for (char *at = line; *at; at++)
        if ((unsigned char)*at < 0x20 || *at == 0x7f)
            *at = ' ';
    for (size_t length = strlen(line); !et_utf8_valid(line, length, &bad); length -= bad) {
        line += bad;
        *line = '?';
    }
}

/* ---- the log ---- */

/* Lines from the end, back to front in out; how many. */
static size_t split_lines(char *text, char **out, size_t most)
{
    size_t count = 0;
    for (char *end = text + strlen(text); end > text && count < most;) {
        while (end > text && end[-1] == '\n')
            *--end = 0;
        while (end > text && end[-1] != '\n')
            end--;
        if (*end)
            out[count++] = end;
    }
    return count;
}

/* If the text begins within a line, that partial line is dropped. */
static void add_log(et_value *facts, const et_board *board, const et_board_item *item,
                    et_arena *arena)
{
    char *text, *lines[4 * LOG_LINES];
    size_t length, most = sizeof lines / sizeof lines[0];
    bool cut;
    const char *path = et_arena_printf(arena, "%s/%s", item->path, ET_RUN_MESSAGES);
    et_value *log = et_value_set_list(facts, "log");
    et_value *warnings = et_value_set_list(facts, "warnings");
    if (!path || read_part(&text, &length, board, path, LOG_BYTES, true, &cut, NULL))
        return;
    char *from = cut ? strchr(text, '\n') : text;
    size_t count = from ? split_lines(from, lines, most) : 0;
    while (count--) {
        make_plain(lines[count]);
        const char *line = lines[count];
        if (strstr(line, "warning: ") || strstr(line, "error: "))
            et_value_add_string(warnings, lines[count]);
        if (count < LOG_LINES)
            et_value_add_string(log, lines[count]);
    }
    et_free(text);
}

/* ---- samples ---- */

/* "1200.txt", "1200.news.txt" */
static bool is_sample(const char *name)
{
    size_t length = strlen(name);
    if (length < 5 || length >= SAMPLE_NAME || !et_path_ends(name, ".txt") ||
        !isdigit((unsigned char)*name))
        return false;
    for (; *name; name++)
        if (!isalnum((unsigned char)*name) && !strchr("._-", *name))
            return false;
    return true;
}

static int compare_samples(const void *a, const void *b)
{
    const char *left = *(char *const *)a, *right = *(char *const *)b;
    long long x = strtoll(left, NULL, 10), y = strtoll(right, NULL, 10);
    return x != y ? (x > y) - (x < y) : strcmp(left, right);
}

/* The folder of a run's samples, according to its kind; NULL: none. */
static const char *sample_folder(const et_board *board, const et_board_item *item, et_arena *arena)
{
    et_experiment experiment = { .kind = NULL };
    char name[ET_RUN_FILE_NAME];
    et_run_file file;
    const char *settings = et_arena_printf(arena, "%s/" ET_RUN_SETTINGS, item->path);
    if (!settings || !et_path_is_below(settings, board->root) ||
        et_experiment_open_run(&experiment, board->program, item->path, arena, NULL))
        return NULL;
    for (int i = 0; (file = et_kind_file(experiment.kind, i, name)).name; i++)
        if (file.what & ET_RUN_SAMPLES)
            return et_arena_printf(arena, "%s/%s", item->path, file.name);
    return NULL;
}

static void add_samples(et_value *facts, const et_board *board, const et_board_item *item,
                        et_arena *arena)
{
    const char *folder = sample_folder(board, item, arena);
    et_value *samples = et_value_set_list(facts, "samples");
    DIR *stream = folder ? opendir(folder) : NULL;
    const bool below = stream && et_file_is_below(dirfd(stream), board->root);
    char **names = NULL;
    size_t count = 0, capacity = 0;
    for (const struct dirent *entry; below && count < SAMPLES_MAX && (entry = readdir(stream));) {
        if (!is_sample(entry->d_name) || (entry->d_type != DT_REG && entry->d_type != DT_UNKNOWN))
            continue;
        char *name = et_arena_strdup(arena, entry->d_name);
        if (!name || !ET_VECTOR_APPEND(names, count, capacity, name))
            break;
    }
    if (stream)
        closedir(stream);
    if (count)
        qsort(names, count, sizeof *names, compare_samples);
    for (size_t i = 0; i < count; i++)
        et_value_add_string(samples, names[i]);
    et_free(names);
}

static int board_sample(const et_board *board, int64_t id, const char *name, et_strbuf *out,
                        et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_board_item *item = board_find(board, id);
    const char *folder = item && is_sample(name) ? sample_folder(board, item, &arena) : NULL;
    const char *path = folder ? et_arena_printf(&arena, "%s/%s", folder, name) : NULL;
    char *text = NULL;
    size_t length;
    bool cut;
    int status = path ? read_part(&text, &length, board, path, SAMPLE_MAX, false, &cut, error)
                      : et_fail(error, ET_EDATA, "no sample has this number");
    if (!status) {
        /* To its last whole line. */
        char *end = cut ? strrchr(text, '\n') : NULL;
        et_strbuf_append_bytes(out, text, end ? (size_t)(end + 1 - text) : length);
    }
    et_free(text);
    et_arena_release(&arena);
    return status && status != ET_ENOMEM ? et_fail(error, ET_EDATA, "no sample has this number")
                                         : status;
}

/* ---- the run ---- */

/* {"id", "name", "path", "parameters", "settings": {...}, "sessions": [...], "log": [LINE, ...],
 * "warnings": [LINE, ...], "samples": [NAME, ...]}: of long lists only the ends. ET_EDATA: no such
 * run. */
static int board_run(const et_board *board, int64_t id, et_strbuf *out, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_board_item *item = board_find(board, id);
    if (!item)
        return et_fail(error, ET_EDATA, "no run has the number %" PRId64, id);
    et_value *facts = et_value_dict(&arena);
    et_value_set_int(facts, "id", id);
    et_value_set_string(facts, "name", item->name);
    et_value_set_string(facts, "path", item->path);
    et_value_set_int(facts, "parameters", et_run_parameters(item->history));
    if (item->history->settings)
        et_value_append_copy(facts, "settings", item->history->settings);
    /* The last ones. */
    et_value *to = et_value_set_list(facts, "sessions");
    const et_value *list = et_history_sessions(item->history), *from = list ? list->first : NULL;
    for (size_t skip = from && list->count > SESSIONS ? list->count - SESSIONS : 0; skip; skip--)
        from = from->next;
    for (; from; from = from->next)
        et_value_append_copy(to, NULL, from);
    add_log(facts, board, item, &arena);
    add_samples(facts, board, item, &arena);
    int status = et_value_failed(facts) ? et_alloc_failed(error, "a run") : ET_OK;
    if (!status)
        et_json_print(out, facts, 0);
    et_arena_release(&arena);
    return status;
}

/* ---- the command's options ---- */

#define PORT        8090
#define CONNECTIONS 64
#define BODY_MAX    ((size_t)1 << 20)
#define TRANSFER    30
#define IDLE        0.5
#define LEAVING     5

typedef struct watch_options {
    const char *directory;
    et_web_args web;
} watch_options;

static const et_option options[] = { ET_OPTION_TEXT(watch_options, directory, "model-dir", "DIR",
                                                    "a run, or a directory with runs below it"),
                                     ET_WEB_PORT(watch_options, web.port, PORT),
                                     ET_OPTION_GROUP(watch_options, web, et_web_options),
                                     ET_OPTION_WORD(watch_options, directory, "[DIR]", "directory"),
                                     ET_OPTION_END };

const et_usage et_usage_watch = {
    options, sizeof(watch_options),
    "Serves a page that follows the runs below a directory. Prints the address of\nthe page; "
    "Ctrl-C stops the server. Runs are not changed.",
    "runs --port 8090"
};

/* ---- requests ---- */

static int http_status(int status)
{
    switch (status) {
    case ET_EFORMAT:
        return 400;
    case ET_EDATA: /* the run or metric does not exist */
        return 404;
    case ET_ENOMEM:
        return 503;
    default:
        return 500;
    }
}

/* Answers with text, or with the error, and frees the text. */
static void finish(et_http_request *to, int status, const et_error *error, const char *type,
                   et_strbuf *text)
{
    if (!status)
        et_web_reply_text(to, 200, type, text);
    else
        et_http_refuse(to, http_status(status), error->text);
    et_strbuf_release(text);
}

static void handle_page(void *payload, et_http_request *from)
{
    (void)payload;
    et_web_reply_page(from, et_watch_page, et_watch_page_length);
}

static void handle_runs(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    board_update(payload);
    board_runs(payload, &out);
    et_web_reply_text(from, 200, "application/json", &out);
    et_strbuf_release(&out);
}

static void handle_points(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_error error = ET_ERROR_INIT;
    et_value *asked;
    size_t length;
    const char *type;
    int refused = et_web_check_type(from, NULL, &type, &error);
    if (refused) {
        et_http_refuse(from, refused, error.text);
        return;
    }
    char *body = et_http_take_body(from, &length);
    int status = et_json_parse(&asked, &arena, body ? body : "", length, "the body", &error);
    if (!status)
        status = board_points(payload, asked, &out, &error);
    finish(from, status, &error, "application/json", &out);
    et_arena_release(&arena);
    et_free(body);
}

/* -1: not a number of this form. */
static int64_t run_asked(const et_http_request *from)
{
    const char *id = et_http_query(from, "id");
    size_t length = id ? strspn(id, "0123456789") : 0;
    return length && length < 10 && !id[length] ? strtoll(id, NULL, 10) : -1;
}

static void handle_run(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    int status = board_run(payload, run_asked(from), &out, &error);
    finish(from, status, &error, "application/json", &out);
}

static void handle_sample(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    const char *name = et_http_query(from, "name");
    int status = board_sample(payload, run_asked(from), name ? name : "", &out, &error);
    finish(from, status, &error, "text/plain; charset=utf-8", &out);
}

static const et_http_route routes[] = {
    { "GET", "/", true, handle_page, NULL, false },
    { "GET", "/api/runs", false, handle_runs, NULL, false },
    { "POST", "/api/points", false, handle_points, NULL, false },
    { "GET", "/api/run", false, handle_run, NULL, false },
    { "GET", "/api/sample", false, handle_sample, NULL, false },
    { NULL, NULL, false, NULL, NULL, false },
};

/* ---- the command ---- */

static void run(et_http *http)
{
    while (!et_flag_is_set(&et_stop_requested))
        et_http_run(http, IDLE);
    et_http_drain(http);
    for (int i = 0; et_http_busy(http) && i < (int)(LEAVING / IDLE); i++)
        et_http_run(http, IDLE);
}

static int watch(const watch_options *args, const et_call *call, et_error *error)
{
    et_board *board = NULL;
    et_http *http = NULL;
    et_web web;
    int status = et_web_open(&web, &args->web, error);
    if (status)
        return status;
    status = board_open(&board, call->program, args->directory, error);
    const et_http_options how = { .guard = web.guard,
                                  .routes = routes,
                                  .payload = board,
                                  .body_max = BODY_MAX,
                                  .connections_max = CONNECTIONS,
                                  .seconds_max = TRANSFER };
    if (!status && !(status = et_http_open(&http, &web.listener, &how, error))) {
        et_signals_catch_stops_of_server("");
        /* The token follows #; browsers do not send that part. */
        char page[ET_TOKEN_MAX + 16] = "";
        fprintf(stderr, "watching     %s\n", et_format_many((int64_t)board->count, "run").text);
        if (web.made)
            snprintf(page, sizeof page, "#token=%s", web.token);
        status = et_web_tell(&web, page, error);
    }
    if (!status)
        run(http);
    et_http_close(http);
    board_close(board);
    et_web_close(&web);
    return status;
}

int et_cmd_watch(const et_call *call, et_error *error)
{
    const watch_options *args = call->options;
    if (!args->directory)
        return et_fail(error, ET_EUSAGE,
                       "watch: no directory is given; for example `%s watch runs`",
                       call->program->name);
    et_outputs outputs = { .program = call->program };
    et_outputs_read(&outputs, args->web.token_file);
    et_outputs_check_standard(&outputs, error);
    int status = et_outputs_release(&outputs);
    return status ? status : watch(args, call, error);
}
