/* Sessions. The file is opened for each line, because someone may have moved it meanwhile, and
 * lines are few. */
#include "systems/training/session.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <etude/log.h>
#include <etude/version.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/threads/thread.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "base/vector.h"
#include "formats/events/event.h"
#include "formats/events/progress.h"
#include "train/checkpoint/run_names.h"
#include "train/run/run.h"

#define INFO_MAX  ((size_t)8 << 20)
#define LOCKS_MAX ((size_t)64 << 20)

/* ---- train.log ---- */

static void append_lines(et_strbuf *out, const char *text)
{
    et_run_messages_print(out, text, time(NULL));
}

static void write_lines(et_session *s, const et_strbuf *lines, bool first)
{
    int failed = et_run_messages_write(s->log.text, lines, first);
    if (failed && !s->lost)
        s->lost = failed;
}

/* Called under the progress's lock, so it may not print a line itself. */
static void take_line(void *self, const char *text)
{
    et_session *s = self;
    if (!*s->log.text) {
        append_lines(&s->kept, text);
        return;
    }
    et_strbuf lines = ET_STRBUF_INIT;
    append_lines(&lines, text);
    if (lines.length || lines.failed)
        write_lines(s, &lines, false);
    et_strbuf_release(&lines);
}

void et_session_open(et_session *s, struct et_progress *progress,
                     void (*report_lost)(const et_lost_report *report))
{
    et_assert(progress && !s->progress);
    s->progress = progress;
    s->report_lost = report_lost;
    s->opened = time(NULL);
    et_progress_copy_to(progress, take_line, s);
}

/* ---- info.json ---- */

static const char *reason_of(int status)
{
    return status == ET_OK             ? "done"
           : status == ET_EINTERRUPTED ? "interrupted"
           : status == ET_EDIVERGED    ? "diverged"
                                       : "failed";
}

/* "model name" of the first CPU in /proc/cpuinfo; "" if missing. */
static void name_cpu(char *name, size_t size)
{
    char *text, *at;
    size_t length;
    *name = 0;
    if (et_file_read(&text, &length, "/proc/cpuinfo", (size_t)16 << 20, NULL))
        return;
    if ((at = strstr(text, "model name")) && (at = strchr(at, ':')))
        snprintf(name, size, "%.*s", (int)strcspn(at + 1, "\n"), at + 1);
    size_t blanks = strspn(name, " \t");
    memmove(name, name + blanks, strlen(name + blanks) + 1);
    et_free(text);
}

/* The last session of info.json; NULL: none. */
static const et_value *last_session(const char *model_dir, et_arena *arena)
{
    et_value *tree = NULL;
    if (et_value_read_file(&tree, arena, et_path_of(model_dir, ET_RUN_SESSIONS).text, INFO_MAX,
                           et_json_parse, NULL))
        return NULL;
    const et_value *all = et_value_get(tree, "sessions");
    const et_value *last = all && all->kind == ET_VALUE_LIST ? all->last : NULL;
    return last && last->kind == ET_VALUE_DICT ? last : NULL;
}

int64_t et_session_done_at(const char *model_dir)
{
    et_assert(model_dir);
    et_arena arena = ET_ARENA_INIT;
    const char *reason;
    int64_t step = -1;
    const et_value *last = last_session(model_dir, &arena);
    bool done = last && et_value_get(last, ET_SESSION_ENDED) &&
                !et_value_read_string(last, ET_SESSION_REASON, &reason, NULL) &&
                !strcmp(reason, reason_of(ET_OK)) &&
                !et_value_read_int(last, ET_SESSION_LAST, &step, NULL);
    et_arena_release(&arena);
    return done ? step : -1;
}

const char *et_session_reason(const char *model_dir)
{
    static const int ends[] = { ET_OK, ET_EINTERRUPTED, ET_EDIVERGED, ET_EDATA };
    et_arena arena = ET_ARENA_INIT;
    const char *reason, *found = NULL;
    const et_value *last = last_session(model_dir, &arena);
    if (last && !et_value_get(last, ET_SESSION_ENDED))
        found = "killed";
    else if (last && !et_value_read_string(last, ET_SESSION_REASON, &reason, NULL))
        for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
            found = !strcmp(reason, reason_of(ends[i])) ? reason_of(ends[i]) : found;
    et_arena_release(&arena);
    return found;
}

int et_session_tell_directory(const char *model_dir, int status, et_error *error)
{
    char here[4096];
    const char *directory;
    et_arena arena = ET_ARENA_INIT;
    const et_value *last =
        status == ET_ENOTFOUND && error && model_dir ? last_session(model_dir, &arena) : NULL;
    if (last && !et_value_read_string(last, ET_SESSION_DIRECTORY, &directory, NULL) && *directory &&
        getcwd(here, sizeof here) && strcmp(here, directory) != 0) {
        const et_error reason = *error;
        status = et_fail(
            error, status,
            "%s; %s was started in %s: run the command in this directory, or name the data again",
            reason.text, model_dir, directory);
    }
    et_arena_release(&arena);
    return status;
}

/* The existing list, or a new one. NULL: the file has another format and is not changed, or there
 * is no memory. */
static et_value *read_sessions(et_session *s)
{
    et_error reason = ET_ERROR_INIT;
    et_value *list;
    if (!et_file_exists(s->info.text)) {
        s->tree = et_value_dict(&s->arena);
        et_value_set_string(s->tree, "format", ET_SESSION_FORMAT);
        return et_value_set_list(s->tree, "sessions");
    }
    int status =
        et_value_read_file(&s->tree, &s->arena, s->info.text, INFO_MAX, et_json_parse, &reason);
    list = status ? NULL : et_value_get(s->tree, "sessions");
    if (list && list->kind == ET_VALUE_LIST)
        return list;
    et_log(ET_LOG_WARNING, "%s%s; Etude does not record sessions until you move this file away",
           status ? reason.text : s->info.text, status ? "" : " is not a list of sessions");
    s->tree = NULL;
    return NULL;
}

static void write_info(et_session *s)
{
    et_error reason = ET_ERROR_INIT;
    if (s->own && et_json_write(s->info.text, s->tree, 2, "\n", &reason))
        et_log(ET_LOG_WARNING, "%s; training continues without this file", reason.text);
}

static void begin_info(et_session *s, const et_call *call, const et_session_facts *facts)
{
    et_value *list = read_sessions(s);
    et_value *own = s->own = list ? et_value_add_dict(list) : NULL;
    if (!own)
        return;
    /* Removes the second session while there are too many. */
    while (list->count > ET_SESSIONS_MAX && list->first->next) {
        list->first->next = list->first->next->next;
        list->count--;
    }
    char here[4096] = "", host[256] = "", cpu[256];
    gethostname(host, sizeof host - 1);
    name_cpu(cpu, sizeof cpu);
    et_value_set_string(own, "version", et_version());
    et_value *words = et_value_set_list(own, "command");
    et_value_add_string(words, call->program->name);
    et_value_add_string(words, call->command);
    for (int i = 0; i < call->argc; i++)
        et_value_add_string(words, call->argv[i]);
    et_value_set_string(own, ET_SESSION_DIRECTORY, getcwd(here, sizeof here) ? here : "");
    et_value_set_string(own, "host", host);
    et_value_set_string(own, "cpu", cpu);
    et_value_set_int(own, "process", getpid());
    et_value_set_int(own, ET_SESSION_THREADS, facts->threads);
    et_value_set_int(own, ET_SESSION_PARAMETERS, facts->parameters);
    et_value_set_int(own, ET_SESSION_MEMORY, (int64_t)facts->memory);
    et_value_set_int(own, ET_SESSION_STEPS, facts->steps);
    et_value_set_int(own, ET_SESSION_FIRST, facts->first_step);
    et_value_set_int(own, ET_SESSION_VALUES, facts->first_values);
    et_value_set_float(own, ET_SESSION_BEGAN, et_clock_wall());
}

/* Prepares info.json with an end of this session. A handler fills in the time and the reason. */
static void prepare_report(et_session *s)
{
    static const char ended[] = "\"" ET_SESSION_ENDED "\": ", said[] = "\"error\": \"";
    et_value *tree = s->own ? et_value_dict(&s->arena) : NULL;
    if (!tree || et_value_merge(tree, s->tree, NULL))
        return;
    et_value *own = et_value_get(tree, "sessions")->last;
    et_value_set_int(own, ET_SESSION_ENDED, 0);
    et_value_set_string(own, ET_SESSION_REASON, reason_of(ET_EDATA));
    et_value_set_string(own, "error", "");
    et_strbuf text = ET_STRBUF_INIT;
    et_json_print(&text, tree, 2);
    et_strbuf_append_char(&text, '\n');
    char *before = et_strbuf_keep(&text, &s->arena), *between = NULL, *behind = NULL;
    for (char *at = before; at && (at = strstr(at, ended)); at++)
        between = at + sizeof ended - 1;
    for (char *at = between; at && (at = strstr(at, said)); at++)
        behind = at + sizeof said - 1;
    const char *temporary = et_arena_printf(&s->arena, "%s.%ld", s->info.text, (long)getpid());
    if (!behind || !temporary)
        return;
    /* The time replaces the 0; the message's final quote follows. */
    s->lost_file = (et_lost_report){
        .path = s->info.text,
        .temporary = temporary,
        .before = et_arena_strndup(&s->arena, before, between - before),
        .between = et_arena_strndup(&s->arena, between + 1, behind - between - 1),
        .behind = behind,
    };
    if (s->report_lost && s->lost_file.before && s->lost_file.between)
        s->report_lost(&s->lost_file);
}

/* ---- settings for TensorBoard ---- */

typedef struct setting_list {
    et_events_setting *items; /* [count], owned; texts in arena */
    size_t count, capacity;
    et_arena arena;
    bool failed;
} setting_list;

static void add_setting(setting_list *list, const char *name, const et_value *value)
{
    et_strbuf text = ET_STRBUF_INIT;
    et_events_setting one = { .name = name, .kind = ET_EVENTS_NUMBER };
    if (et_value_is_number(value)) {
        one.number = et_value_number(value);
    } else if (value->kind == ET_VALUE_BOOL) {
        one.kind = ET_EVENTS_BOOL;
        one.number = value->boolean;
    } else {
        one.kind = ET_EVENTS_TEXT;
        if (value->kind == ET_VALUE_STRING)
            et_strbuf_append(&text, value->string);
        else
            et_json_print(&text, value, 0);
        one.text = et_strbuf_keep(&text, &list->arena);
        list->failed |= !one.text;
    }
    list->failed = list->failed || !ET_VECTOR_APPEND(list->items, list->count, list->capacity, one);
}

static void add_settings(setting_list *list, const char *path, const et_value *dict)
{
    for (const et_value *v = dict->first; v && !list->failed; v = v->next) {
        const char *name = et_arena_printf(&list->arena, "%s%s%s", path, *path ? "." : "", v->key);
        list->failed |= !name;
        if (name && v->kind == ET_VALUE_DICT)
            add_settings(list, name, v);
        else if (name)
            add_setting(list, name, v);
    }
}

static void cannot_show(const et_error *reason)
{
    et_log(ET_LOG_WARNING, "%s; TensorBoard will not show settings", reason->text);
}

/* ---- a session ---- */

/* All of a begin that waits for the disk: the first step does not wait for it. */
static void *write_begin(void *self)
{
    et_session *s = self;
    begin_info(s, s->call, &s->facts);
    prepare_report(s); /* a file may be lost while the disk takes its time */
    write_info(s);
    /* A file in addition to the run's event files, because checkpoints have the lengths of those.
     * Each session replaces this file, so it is durable only at the end of a session. */
    setting_list list = { .failed = !s->facts.settings };
    et_error reason = ET_ERROR_INIT;
    if (s->facts.settings)
        add_settings(&list, "", s->facts.settings);
    int status = list.failed
                     ? et_alloc_failed(&reason, "settings")
                     : et_events_open(&s->shown, s->model_dir, ET_EVENTS_SETTINGS, 0, &reason);
    if (!status)
        status = et_events_settings(s->shown, list.items, list.count, &reason);
    if (status)
        cannot_show(&reason);
    et_free(list.items);
    et_arena_release(&list.arena);
    return NULL;
}

/* A session may be opened or not. A session that has begun has a file for its lines. */
static void sane(const et_session *s)
{
    et_assert(s->progress || (!*s->log.text && !s->writes));
    et_assert(!*s->log.text || (s->call && s->model_dir));
    et_assert(*s->log.text || !s->writes);
    et_assert(s->lost >= 0);
    et_assert(s->facts.first_step >= 0 && s->facts.threads >= 0);
}

void et_session_begin(et_session *s, const et_call *call, const char *model_dir,
                      const et_session_facts *facts)
{
    sane(s);
    et_assert(s->progress && !*s->log.text);
    et_assert(facts->first_step >= 0 && facts->threads >= 1);
    s->call = call;
    s->model_dir = model_dir;
    s->facts = *facts;
    s->info = et_path_of(model_dir, ET_RUN_SESSIONS);
    et_strbuf lines = ET_STRBUF_INIT;
    /* "session etude 0.1.0 on HOST, process 12: etude train runs/a", before lines that were kept
     * since the session was opened. */
    char host[256] = "";
    et_strbuf line = ET_STRBUF_INIT;
    gethostname(host, sizeof host - 1);
    et_strbuf_printf(&line, "session      etude %s on %s, process %ld: %s %s", et_version(), host,
                     (long)getpid(), call->program->name, call->command);
    for (int i = 0; i < call->argc; i++) {
        et_strbuf_append_char(&line, ' ');
        et_plain_append(&line, call->argv[i]);
    }
    et_run_messages_print(&lines, et_strbuf_text(&line), s->opened);
    et_strbuf_release(&line);
    et_strbuf_append(&lines, et_strbuf_text(&s->kept));
    s->log = et_path_of(model_dir, ET_RUN_MESSAGES);
    write_lines(s, &lines, true);
    et_strbuf_release(&lines);
    s->writes = !et_thread_start(&s->writer, write_begin, s, NULL);
    if (!s->writes)
        write_begin(s);
}

void et_session_end(et_session *s, int64_t last_step, int64_t steps, int status,
                    const et_error *error)
{
    sane(s);
    if (s->writes)
        et_thread_join(s->writer);
    if (s->report_lost)
        s->report_lost(NULL);
    if (s->progress && *s->log.text) {
        if (status)
            et_progress_record(s->progress, error->text);
        et_value_set_int(s->own, ET_SESSION_STEPS, steps);
        et_value_set_float(s->own, ET_SESSION_ENDED, et_clock_wall());
        et_value_set_string(s->own, ET_SESSION_REASON, reason_of(status));
        et_value_set_int(s->own, ET_SESSION_LAST, last_step);
        if (status)
            et_value_set_string(s->own, "error", error->text);
        write_info(s);
        if (s->lost)
            et_log(ET_LOG_WARNING, "%s: cannot write lines: %s", s->log.text, strerror(s->lost));
    }
    if (s->progress)
        et_progress_copy_to(s->progress, NULL, NULL);
    et_error reason = ET_ERROR_INIT;
    if (s->shown && et_events_close(s->shown, &reason))
        cannot_show(&reason);
    et_strbuf_release(&s->kept);
    et_arena_release(&s->arena);
    *s = (et_session)ET_SESSION_INIT;
}

/* Whether a line of /proc/locks, "1: FLOCK ADVISORY WRITE PROCESS MAJOR:MINOR:INODE 0 EOF", is a
 * held lock on this file. Some file systems show another device, so the number of the process that
 * the lock file names is enough for a match. A process of another container has another number. */
static bool is_held(const char *line, const struct stat *file, long holder)
{
    int at = 0;
    (void)!sscanf(line, "%*[0-9]: FLOCK ADVISORY WRITE %n", &at);
    if (!at)
        return false;
    char *next;
    long process = strtol(line + at, &next, 10);
    unsigned long major_number = *next == ' ' ? strtoul(next, &next, 16) : 0;
    unsigned long minor_number = *next == ':' ? strtoul(next + 1, &next, 16) : 0;
    if (*next != ':' || strtoull(next + 1, &next, 10) != file->st_ino || *next != ' ')
        return false;
    return process == holder ||
           (major_number == major(file->st_dev) && minor_number == minor(file->st_dev));
}

bool et_session_works(const char *model_dir)
{
    et_assert(model_dir);
    struct stat info;
    char *locks = NULL, *holder = NULL;
    size_t length;
    bool works = false;
    const et_path path = et_path_of(model_dir, ET_CHECKPOINT_FOLDER "/" ET_RUN_LOCK);
    if (!stat(path.text, &info) && !et_file_read(&holder, &length, path.text, 64, NULL) &&
        !et_file_read(&locks, &length, "/proc/locks", LOCKS_MAX, NULL))
        for (const char *at = locks; at && *at && !works; at = strchr(at, '\n')) {
            at += *at == '\n';
            works = is_held(at, &info, strtol(holder, NULL, 10));
        }
    et_free(locks);
    et_free(holder);
    return works;
}
