/* One run: its settings, its sessions, the end of its log, its samples. */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "command/runs/run_size.h"
#include "command/web/board_private.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/run_names.h"

/* Bytes of a log that are read, from its end; lines of it that are shown. */
#define LOG_BYTES   ((size_t)256 << 10)
#define LOG_LINES   200
#define SESSIONS    20
#define SAMPLES_MAX 10000
#define SAMPLE_NAME 64

/* ---- files ---- */

/* Up to most bytes of a regular file, which must not be a link and must be below the board's
 * directory, from its begin or up to its end; terminated. *cut: there are more. */
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
        return et_alloc_failed(error, most, "a file");
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

static bool is_warning(const char *line)
{
    return strstr(line, "warning: ") || strstr(line, "error: ");
}

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
        if (is_warning(lines[count]))
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

/* The folder of a run's samples, from its kind; NULL: none. */
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
        char **grown = et_vector_grow(names, &capacity, count + 1, sizeof *names, 64);
        char *name = et_arena_strdup(arena, entry->d_name);
        names = grown ? grown : names;
        if (!grown || !name)
            break;
        names[count++] = name;
    }
    if (stream)
        closedir(stream);
    if (count)
        qsort(names, count, sizeof *names, compare_samples);
    for (size_t i = 0; i < count; i++)
        et_value_add_string(samples, names[i]);
    et_free(names);
}

int et_board_sample(const et_board *board, int64_t id, const char *name, et_strbuf *out,
                    et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_board_item *item = et_board_find(board, id);
    const char *folder = item && is_sample(name) ? sample_folder(board, item, &arena) : NULL;
    const char *path = folder ? et_arena_printf(&arena, "%s/%s", folder, name) : NULL;
    char *text = NULL;
    size_t length;
    bool cut;
    int status =
        path ? read_part(&text, &length, board, path, ET_BOARD_SAMPLE_MAX, false, &cut, error)
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

/* The last ones. */
static void add_sessions(et_value *facts, const et_history *h)
{
    et_value *to = et_value_set_list(facts, "sessions");
    const et_value *list = et_value_get(h->info, "sessions");
    const et_value *from = list && list->kind == ET_VALUE_LIST ? list->first : NULL;
    for (size_t skip = from && list->count > SESSIONS ? list->count - SESSIONS : 0; skip; skip--)
        from = from->next;
    for (; from; from = from->next)
        et_value_append_copy(to, NULL, from);
}

int et_board_run(const et_board *board, int64_t id, et_strbuf *out, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const et_board_item *item = et_board_find(board, id);
    if (!item)
        return et_fail(error, ET_EDATA, "no run has the number %" PRId64, id);
    et_value *facts = et_value_dict(&arena);
    et_value_set_int(facts, "id", id);
    et_value_set_string(facts, "name", item->name);
    et_value_set_string(facts, "path", item->path);
    et_value_set_int(facts, "parameters", et_run_parameters(item->history));
    if (item->history->settings)
        et_value_append_copy(facts, "settings", item->history->settings);
    add_sessions(facts, item->history);
    add_log(facts, board, item, &arena);
    add_samples(facts, board, item, &arena);
    int status = et_value_failed(facts) ? et_alloc_failed(error, arena.used, "a run") : ET_OK;
    if (!status)
        et_json_print(out, facts, 0);
    et_arena_release(&arena);
    return status;
}
