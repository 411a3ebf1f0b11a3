/* A run's history. Logs grow at their end, and a resumed run cuts them off. Then earlier reads are
 * invalid. To detect this, the last line read is compared with the bytes at its offset. Every line
 * has a time, so a repeated step has other bytes.
 *
 * Files are read by offset and not mapped, because reading a mapping of a file that was cut off
 * gives SIGBUS. */
#include "command/runs/history.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <etude/summary.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/map.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "base/vector.h"
#include "formats/events/log_names.h"
#include "formats/safetensors/manifest.h"
#include "formats/safetensors/safetensors.h"
#include "systems/training/session.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

#define CHUNK         ((size_t)256 << 10)
#define DOCUMENT_MAX  ((size_t)8 << 20) /* bytes of settings or sessions */
#define MEASURED      "measured."
#define MEASURED_FILE ET_LOGGED_VALIDATION "/" ET_RUN_LOG

/* Identifies one version of a file. */
typedef struct version {
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec changed;
} version;

typedef struct log_file {
    const char *path;
    const char *prefix; /* of names */
    ino_t inode;        /* inode of the file that was read; 0: not read yet */
    int64_t offset;     /* after the last whole line that was read */
    int64_t lines;
    int64_t last;      /* offset of that line */
    uint64_t checksum; /* of it */
} log_file;

typedef struct document {
    const char *path;
    version version; /* version of the file that was read */
    et_arena arena;
    et_value *value; /* NULL: none */
} document;

enum { OWN, BESIDE, LOGS };

struct et_history_files {
    log_file logs[LOGS];
    document settings, info;
    et_arena paths;   /* of the run and its files */
    const char *root; /* files must be below this directory; NULL: anywhere */
    et_arena names;   /* of series */
    et_map index;     /* name to place in series */
    char *buffer;     /* [room] text being read; owned */
    size_t room;
};

/* ---- points ---- */

/* A line is walked twice: every value is checked before the first point is added, so a wrong line
 * adds no points, even if it is read repeatedly. Every series has a point. */

static int add_series(size_t *out, et_history *h, const char *name, et_error *error)
{
    struct et_history_files *f = h->files;
    et_history_series one = { .name = et_arena_strdup(&f->names, name) };
    if (!one.name || !ET_VECTOR_GROW(h->series, h->capacity, h->count + 1) ||
        !ET_VECTOR_GROW(one.points, one.capacity, 1) ||
        !et_map_put(&f->index, one.name, (int64_t)h->count)) {
        et_free(one.points);
        return et_alloc_failed(error, "the name of a value");
    }
    h->series[h->count] = one;
    *out = h->count++;
    return ET_OK;
}

/* Values shared by all points of a line. */
typedef struct line {
    et_history *history;
    int64_t step;
    double wall;
    size_t fresh; /* names that the history has not yet */
    size_t base;  /* of the prefix in name */
    char name[ET_HISTORY_NAME_MAX + 1];
} line;

static int check_point(line *l, double value, et_error *error)
{
    int64_t found;
    (void)value;
    l->fresh += !et_map_get(&l->history->files->index, l->name, &found);
    return l->history->count + l->fresh <= ET_HISTORY_SERIES_MAX
               ? ET_OK
               : et_fail(error, ET_EFORMAT, "more than %d names of values in a run",
                         ET_HISTORY_SERIES_MAX);
}

static int add_point(line *l, double value, et_error *error)
{
    et_history *h = l->history;
    int64_t found;
    size_t position = 0;
    int status = ET_OK;
    if (et_map_get(&h->files->index, l->name, &found))
        position = (size_t)found;
    else
        status = add_series(&position, h, l->name, error);
    if (status)
        return status;
    et_assert(position < h->count);
    et_history_series *s = &h->series[position];
    if (!ET_VECTOR_APPEND(s->points, s->count, s->capacity,
                          (et_history_point){ l->step, l->wall, value }))
        return et_alloc_failed(error, "points");
    return ET_OK;
}

/* Appends a key to name[length]. Returns the new length; 0: too long, or the key is empty or has
 * control characters. */
static size_t extend(line *l, size_t length, const char *key)
{
    size_t more = strlen(key);
    for (const char *c = key; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return 0;
    if (!more || length + more + 1 > ET_HISTORY_NAME_MAX)
        return 0;
    memcpy(l->name + length, key, more + 1);
    return length + more;
}

typedef int (*point_taker)(line *l, double value, et_error *error);

/* Adds the numbers of a dict whose name is name[length]. The JSON reader limits the depth. */
static int walk(line *l, size_t length, const et_value *dict, point_taker take, et_error *error)
{
    int status = ET_OK;
    for (const et_value *v = dict->first; v && !status; v = v->next) {
        /* The clock of the line, and its step, are in every point. */
        bool own = length == l->base && (!strcmp(v->key, "step") || !strcmp(v->key, ET_SINK_TIME));
        if (own || v->kind == ET_VALUE_STRING || v->kind == ET_VALUE_LIST)
            continue;
        size_t end = extend(l, length, v->key);
        if (!end)
            return et_fail(error, ET_EFORMAT,
                           "the name of a value is empty, too long or has a control character");
        if (v->kind == ET_VALUE_DICT) {
            l->name[end] = '.';
            status = walk(l, end + 1, v, take, error);
        } else {
            double value = v->kind == ET_VALUE_INT     ? (double)v->integer
                           : v->kind == ET_VALUE_FLOAT ? v->real
                           : v->kind == ET_VALUE_BOOL  ? (double)v->boolean
                                                       : (double)NAN;
            status = take(l, value, error);
        }
    }
    return status;
}

/* ---- lines ---- */

static int take_line(et_history *h, const log_file *file, const char *text, size_t length,
                     et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *dict;
    line l = { .history = h };
    int status = et_json_parse(&dict, &arena, text, length, NULL, error);
    if (!status && dict->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "expected {\"step\": ...}, found %s",
                         et_value_kind_name(dict->kind));
    if (!status)
        status = et_value_read_int(dict, "step", &l.step, error);
    if (!status && l.step < 0)
        status = et_fail(error, ET_EFORMAT, "step %" PRId64 " is negative", l.step);
    if (!status) {
        double wall;
        const et_value *clock = et_value_get(dict, ET_SINK_TIME);
        l.wall = clock && !et_value_read_float(clock, "wall", &wall, NULL) ? wall : (double)NAN;
        l.base = (size_t)snprintf(l.name, sizeof l.name, "%s", file->prefix);
        status = walk(&l, l.base, dict, check_point, error);
    }
    if (!status) {
        l.name[l.base] = 0;
        status = walk(&l, l.base, dict, add_point, error);
    }
    if (status)
        et_fail_while(error, status, "%s:%" PRId64, file->path, file->lines + 1);
    else
        h->step = l.step > h->step ? l.step : h->step;
    if (!status && !file->prefix[0]) {
        h->lines++;
        if (!isnan(l.wall)) {
            h->first_wall = isnan(h->first_wall) ? l.wall : h->first_wall;
            h->last_wall = l.wall;
        }
    }
    et_arena_release(&arena);
    return status;
}

static ssize_t read_at(int fd, char *to, size_t size, int64_t offset)
{
    ssize_t got;
    do
        got = pread(fd, to, size, (off_t)offset);
    while (got < 0 && errno == EINTR);
    return got;
}

static int make_room(struct et_history_files *f, size_t wanted, const log_file *file,
                     et_error *error)
{
    if (wanted > ET_HISTORY_LINE_MAX)
        return et_fail(error, ET_EFORMAT, "%s:%" PRId64 ": a line of more than %zu MB is not a log",
                       file->path, file->lines + 1, ET_HISTORY_LINE_MAX >> 20);
    if (!ET_VECTOR_GROW(f->buffer, f->room, wanted < CHUNK ? CHUNK : wanted))
        return et_alloc_failed(error, "a line");
    return ET_OK;
}

/* Consumes the complete lines of buffer[length], which is at file->offset; *used: their bytes. */
static int take_lines(et_history *h, log_file *file, size_t length, size_t *used, et_error *error)
{
    const char *text = h->files->buffer, *end;
    *used = 0;
    while ((end = memchr(text + *used, '\n', length - *used))) {
        size_t size = (size_t)(end - text) - *used;
        int status = take_line(h, file, text + *used, size, error);
        if (status)
            return status;
        file->last = file->offset;
        file->checksum = et_checksum(text + *used, size + 1);
        file->offset += (int64_t)size + 1;
        file->lines++;
        *used += size + 1;
    }
    return ET_OK;
}

static int read_lines(et_history *h, log_file *file, int fd, et_error *error)
{
    struct et_history_files *f = h->files;
    size_t have = 0, used;
    et_assert(file->last <= file->offset);
    for (;;) {
        int status = make_room(f, have + 1, file, error);
        if (status)
            return status;
        ssize_t got = read_at(fd, f->buffer + have, f->room - have, file->offset + (int64_t)have);
        if (got < 0)
            return et_fail_errno(error, "cannot read %s", file->path);
        if (!got)
            return ET_OK;
        status = take_lines(h, file, have + (size_t)got, &used, error);
        if (status)
            return status;
        have = have + (size_t)got - used;
        memmove(f->buffer, f->buffer + used, have);
    }
}

/* Whether the file still begins with the part that was read before. */
static bool goes_on(struct et_history_files *f, const log_file *file, int fd,
                    const struct stat *info)
{
    size_t size = (size_t)(file->offset - file->last);
    if (!file->offset)
        return true;
    if (info->st_ino != file->inode || info->st_size < file->offset ||
        make_room(f, size, file, NULL))
        return false;
    return read_at(fd, f->buffer, size, file->last) == (ssize_t)size &&
           et_checksum(f->buffer, size) == file->checksum;
}

/* ---- files ---- */

static void forget(et_history *h)
{
    struct et_history_files *f = h->files;
    for (size_t i = 0; i < h->count; i++)
        et_free(h->series[i].points);
    h->count = 0;
    h->lines = 0;
    h->step = -1;
    h->first_wall = h->last_wall = (double)NAN;
    et_arena_release(&f->names);
    et_map_release(&f->index);
    for (int i = 0; i < LOGS; i++)
        f->logs[i] = (log_file){ .path = f->logs[i].path, .prefix = f->logs[i].prefix };
}

/* *moved: the part that was read before has changed or is missing, so this call has read
 * nothing. */
static int read_log(et_history *h, log_file *file, bool *moved, et_error *error)
{
    int fd;
    struct stat info;
    et_error reason = ET_ERROR_INIT;
    int status = et_file_open_below(&fd, file->path, h->files->root, &reason);
    *moved = status == ET_ENOTFOUND && file->offset > 0;
    if (status)
        return status == ET_ENOTFOUND ? ET_OK : et_fail(error, status, "%s", reason.text);
    if (fstat(fd, &info))
        status = et_fail_errno(error, "cannot read %s", file->path);
    if (!status && !goes_on(h->files, file, fd, &info))
        *moved = true;
    else if (!status) {
        file->inode = info.st_ino;
        status = read_lines(h, file, fd, error);
    }
    close(fd);
    return status;
}

static int read_logs(et_history *h, bool *moved, et_error *error)
{
    int status = ET_OK;
    *moved = false;
    for (int i = 0; i < LOGS && !status && !*moved; i++)
        status = read_log(h, &h->files->logs[i], moved, error);
    return status;
}

/* Both are replaced as a whole when they change. */
static int read_document(document *d, const char *root, bool json, et_error *error)
{
    struct stat info;
    if (stat(d->path, &info)) {
        et_arena_release(&d->arena);
        d->value = NULL;
        d->version = (version){ 0 };
        return ET_OK;
    }
    const version now = { info.st_dev, info.st_ino, info.st_size, info.st_mtim };
    const version *was = &d->version;
    if (now.device == was->device && now.inode == was->inode && now.size == was->size &&
        now.changed.tv_sec == was->changed.tv_sec && now.changed.tv_nsec == was->changed.tv_nsec)
        return ET_OK;
    char *text;
    size_t length;
    et_arena arena = ET_ARENA_INIT;
    et_value *value = NULL;
    int status = et_file_read_below(&text, &length, d->path, root, DOCUMENT_MAX, error);
    if (status)
        return status;
    status = (json ? et_json_parse : et_yaml_parse)(&value, &arena, text, length, d->path, error);
    et_free(text);
    if (!status && value->kind != ET_VALUE_DICT)
        status = et_fail(error, ET_EFORMAT, "%s: expected names and values, found %s", d->path,
                         et_value_kind_name(value->kind));
    if (status) {
        et_arena_release(&arena);
        return status;
    }
    et_arena_release(&d->arena);
    *d = (document){ d->path, now, arena, value };
    return ET_OK;
}

/* ---- all together ---- */

static et_history *make(const char *model_dir, const char *root)
{
    et_history *h = et_alloc_zero(1, sizeof *h);
    struct et_history_files *f = h ? et_alloc_zero(1, sizeof *f) : NULL;
    if (!f) {
        et_free(h);
        return NULL;
    }
    h->files = f;
    et_arena *paths = &f->paths;
    h->model_dir = et_arena_strdup(paths, model_dir);
    f->logs[OWN].path = et_arena_strdup(paths, et_path_of(model_dir, ET_RUN_LOG).text);
    f->logs[OWN].prefix = "";
    f->logs[BESIDE].path = et_arena_strdup(paths, et_path_of(model_dir, MEASURED_FILE).text);
    f->logs[BESIDE].prefix = MEASURED;
    f->settings.path = et_arena_strdup(paths, et_path_of(model_dir, ET_RUN_SETTINGS).text);
    f->info.path = et_arena_strdup(paths, et_path_of(model_dir, ET_RUN_SESSIONS).text);
    f->root = root ? et_arena_strdup(paths, root) : NULL;
    forget(h);
    if (!paths->failed)
        return h;
    et_history_close(h);
    return NULL;
}

bool et_history_is_run(const char *directory)
{
    return et_file_exists_in(directory, ET_RUN_LOG) ||
           et_file_exists_in(directory, ET_RUN_SETTINGS);
}

int et_history_open(et_history **out, const char *model_dir, et_error *error)
{
    return et_history_open_below(out, model_dir, NULL, error);
}

int et_history_open_below(et_history **out, const char *model_dir, const char *root,
                          et_error *error)
{
    et_assert(out && model_dir);
    bool anew;
    struct stat info;
    *out = NULL;
    int status = et_path_check(model_dir, error);
    if (status || (status = et_directory_check(model_dir, error)))
        return status;
    if (stat(model_dir, &info))
        return et_fail_errno(error, "%s", model_dir);
    if (!S_ISDIR(info.st_mode))
        return et_fail(error, ET_ENOTFOUND, "%s is not a directory: name the directory of a run",
                       model_dir);
    if (!et_history_is_run(model_dir))
        return et_fail(error, ET_ENOTFOUND,
                       "%s: not a run: it has neither " ET_RUN_SETTINGS " nor " ET_RUN_LOG,
                       model_dir);
    et_history *h = make(model_dir, root);
    if (!h)
        return et_alloc_failed(error, "a run's history");
    *out = h;
    return et_history_update(h, &anew, error);
}

/* Each name of the index belongs to the series at its place, and no series is empty. */
static void sane(const et_history *h)
{
    et_assert(h->model_dir && h->files && h->count <= h->capacity);
    et_assert(h->lines >= 0 && h->step >= -1);
    et_assert(isnan(h->first_wall) == isnan(h->last_wall));
    et_assert(h->count <= ET_HISTORY_SERIES_MAX);
    for (size_t i = 0; i < h->count; i++) {
        const et_history_series *s = &h->series[i];
        et_assert(s->count > 0 && s->count <= s->capacity);
        et_assert(et_history_find(h, s->name) == s);
    }
    for (int i = 0; i < LOGS; i++)
        et_assert(h->files->logs[i].last >= 0 &&
                  h->files->logs[i].last <= h->files->logs[i].offset);
}

/* If the file is cut off again during this reading, the next call notices it. */
int et_history_update(et_history *h, bool *anew, et_error *error)
{
    struct et_history_files *f = h->files;
    sane(h);
    int status = read_document(&f->settings, f->root, false, error);
    int other = read_document(&f->info, f->root, true, status ? NULL : error);
    h->settings = f->settings.value;
    h->info = f->info.value;
    status = status ? status : other;
    other = read_logs(h, anew, status ? NULL : error);
    if (*anew) {
        bool again;
        forget(h);
        other = read_logs(h, &again, status ? NULL : error);
    }
    return status ? status : other;
}

void et_history_close(et_history *h)
{
    if (!h)
        return;
    struct et_history_files *f = h->files;
    forget(h);
    et_arena_release(&f->paths);
    et_arena_release(&f->settings.arena);
    et_arena_release(&f->info.arena);
    et_free(f->buffer);
    et_free(f);
    et_free(h->series);
    et_free(h);
}

const et_history_series *et_history_find(const et_history *h, const char *name)
{
    et_assert(h->files && name);
    int64_t position;
    return et_map_get(&h->files->index, name, &position) ? &h->series[position] : NULL;
}

/* ---- the size of a run's model ---- */

/* {"params": {"elements": N}, ...} is in the state of every checkpoint. */
static int64_t read_elements(const char *path)
{
    et_safetensors *file;
    et_value *state;
    et_arena arena = ET_ARENA_INIT;
    int64_t elements = 0;
    if (et_safetensors_open_foreign(&file, path, NULL))
        return 0;
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    if (text && !et_json_parse(&state, &arena, text, strlen(text), path, NULL)) {
        const et_value *params = et_value_get(state, "params");
        if (!params || et_value_read_int(params, "elements", &elements, NULL))
            elements = 0;
    }
    et_arena_release(&arena);
    et_safetensors_close(file);
    return elements > 0 ? elements : 0;
}

static bool is_shown(const char *path, const char *root)
{
    return !root || et_path_is_below(path, root);
}

const et_value *et_history_sessions(const et_history *h)
{
    const et_value *list = et_value_get(h->info, "sessions");
    return list && list->kind == ET_VALUE_LIST ? list : NULL;
}

int64_t et_run_parameters(const et_history *h)
{
    int64_t elements = 0;
    const et_value *sessions = et_history_sessions(h);
    if (sessions && sessions->last &&
        !et_value_read_int(sessions->last, ET_SESSION_PARAMETERS, &elements, NULL) && elements > 0)
        return elements;
    /* Else of the newest checkpoint that can be read. */
    const char *root = h->files->root;
    const et_path directory = et_path_of(h->model_dir, ET_CHECKPOINT_FOLDER);
    et_manifest manifest = { 0 };
    elements = 0;
    if (!is_shown(directory.text, root) || !et_file_exists(directory.text) ||
        et_manifest_rebuild(&manifest, directory.text, ET_CHECKPOINT_PREFIX, NULL))
        return 0;
    for (size_t i = manifest.count; i-- && !elements;) {
        const et_path path = et_path_of(directory.text, manifest.entries[i].file);
        elements = is_shown(path.text, root) ? read_elements(path.text) : 0;
    }
    et_manifest_release(&manifest);
    return elements;
}
