#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/wait.h>
#include <time.h>
#include <cmocka.h>

#include "command/test_resume_run.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "formats/events/event.h"
#include "formats/events/event.pb-c.h"
#include "formats/files.h"
#include "formats/records/record.h"
#include "systems/training/session.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

#define PROGRAM ET_TEST_BUILD "/etude"

/* ---- the language ---- */

/* Words of one to three syllables; the other language has the sentence backwards, with the
 * syllables of each word reversed. */
enum { LEXICON = 90 };

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void append_word(et_strbuf *out, uint64_t word, bool backwards)
{
    static const char consonants[] = "bdfgklmnprstvz", vowels[] = "aeiou";
    uint64_t state = word * 977 + 13;
    int syllables = 1 + (int)(word % 3);
    char text[3][3];
    for (int i = 0; i < syllables; i++) {
        text[i][0] = consonants[next_random(&state) % 14];
        text[i][1] = vowels[next_random(&state) % 5];
        text[i][2] = 0;
    }
    for (int i = 0; i < syllables; i++)
        et_strbuf_append(out, text[backwards ? syllables - 1 - i : i]);
}

static void append_line(et_strbuf *out, const uint64_t *words, int count, bool backwards)
{
    for (int i = 0; i < count; i++) {
        if (i)
            et_strbuf_append_char(out, ' ');
        append_word(out, words[backwards ? count - 1 - i : i], backwards);
    }
    et_strbuf_append_char(out, '\n');
}

static void write_text(const char *name, const char *suffix, et_strbuf *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s.%s", name, suffix);
    assert_false(text->failed);
    put_file(path, text->data, text->length);
    et_strbuf_release(text);
}

void run_write_pairs(const char *name, int count, uint64_t seed)
{
    et_strbuf source = ET_STRBUF_INIT, target = ET_STRBUF_INIT;
    uint64_t words[12];
    for (int i = 0; i < count; i++) {
        int length = 2 + (int)(next_random(&seed) % 9);
        for (int k = 0; k < length; k++)
            words[k] = next_random(&seed) % LEXICON;
        append_line(&source, words, length, false);
        append_line(&target, words, length, true);
    }
    write_text(name, "source", &source);
    write_text(name, "target", &target);
}

#define STACK                                                                                      \
    "{num_layers: 1, num_attention_heads: 2, intermediate_size: 32, dropout_rate: 0.1, "           \
    "attention_dropout_rate: 0.1, intermediate_dropout: 0.1}\n"

static const char settings[] =
    "task:\n"
    "  model:\n"
    "    encoder: " STACK "    decoder: " STACK "    embedding_width: 16\n"
    "    beam_size: 2\n"
    "    extra_decode_length: 4\n"
    "  train_data: {source_path: train.source, target_path: train.target,\n"
    "    global_batch_size: 128, shuffle_pool: 100}\n"
    "  validation_data: {source_path: valid.source, target_path: valid.target,\n"
    "    global_batch_size: 128}\n"
    "  vocabulary: {size: 100}\n"
    "trainer:\n"
    "  train_steps: 160\n"
    "  gradient_accumulation: 2\n"
    "  checkpoint_interval: 10\n"
    "  summary_interval: 8\n"
    "  validation_interval: 40\n"
    "  max_to_keep: 3\n"
    "  best_checkpoint_eval_metric: validation_loss\n"
    "  best_checkpoint_metric_comp: lower\n"
    "  optimizer_config:\n"
    "    ema: {enabled: true, average_decay: 0.9}\n"
    "    learning_rate: {inverse_sqrt: {warmup_steps: 40}}\n"
    "runtime: {seed: 7}\n";

int run_make_corpus(void **state)
{
    char *name = strdup("resume-XXXXXX");
    *state = name;
    if (!name || !mkdtemp(name) || chdir(name))
        return 1;
    run_write_pairs("train", 400, 1);
    run_write_pairs("valid", 24, 2);
    put_file("settings.yaml", settings, sizeof settings - 1);
    return 0;
}

int run_remove_corpus(void **state)
{
    return chdir("..") || remove_directory(state);
}

/* ---- processes ---- */

static void add_words(const char **words, int *count, const char *const *more, const char *before)
{
    for (; *more; more++) {
        assert_true(*count + 3 < 4 * RUN_WORDS_MAX);
        if (before)
            words[(*count)++] = before;
        words[(*count)++] = *more;
    }
}

/* In the child. */
static void become(const run_command *command, int log)
{
    const char *fixed[] = { PROGRAM,    "train",         "--experiment", "translation/tiny",
                            "--config", "settings.yaml", "--model-dir",  command->directory,
                            NULL };
    const char *words[4 * RUN_WORDS_MAX];
    int count = 0;
    add_words(words, &count, command->before, NULL);
    add_words(words, &count, fixed, NULL);
    add_words(words, &count, command->settings, "--set");
    words[count] = NULL;
    char threads[16];
    snprintf(threads, sizeof threads, "%d", command->threads);
    if (command->threads)
        setenv("OMP_NUM_THREADS", threads, 1);
    if (dup2(log, STDOUT_FILENO) < 0 || dup2(log, STDERR_FILENO) < 0)
        _exit(126);
    execvp(words[0], (char **)words);
    _exit(127);
}

pid_t run_start(const run_command *command)
{
    char log[300];
    snprintf(log, sizeof log, "%s.log", command->directory);
    /* Opened here and not in the child, so that a reader of the log does not find the last start's
     * text. */
    int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    assert_true(fd >= 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become(command, fd);
    close(fd);
    return pid;
}

double run_clock(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void run_sleep(double seconds)
{
    struct timespec time = { (time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds)) };
    while (nanosleep(&time, &time) && errno == EINTR)
        ;
}

/* Seconds that any one command may take, under a sanitizer on a busy machine. */
#define PATIENCE 240

int run_wait(pid_t pid)
{
    int status;
    double end = run_clock() + PATIENCE;
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (run_clock() > end) {
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
            fail_msg("the command did not end within %d s", PATIENCE);
        }
        run_sleep(0.001);
    }
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

int run(const run_command *command)
{
    return run_wait(run_start(command));
}

char *run_log(const char *directory)
{
    char path[300];
    size_t length;
    snprintf(path, sizeof path, "%s.log", directory);
    return get_file(path, &length);
}

bool run_await_text(pid_t pid, const char *path, const char *text)
{
    siginfo_t info;
    for (;;) {
        info.si_pid = 0;
        waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
        size_t length;
        char *found = access(path, R_OK) ? NULL : get_file(path, &length);
        bool there = found && strstr(found, text);
        free(found);
        if (there || info.si_pid)
            return there;
        run_sleep(0.001);
    }
}

/* ---- directories ---- */

void run_remove(const char *directory)
{
    if (access(directory, F_OK) == 0)
        assert_int_equal(nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Names of files below a directory, sorted, for nftw, which takes no payload. */
static struct {
    char *names[256];
    size_t count, skip; /* skip: so much of each path is the directory's */
} found;

static int note_file(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)where;
    if (type == FTW_F && found.count < 256)
        found.names[found.count++] = strdup(path + found.skip);
    return 0;
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void find_files(const char *directory)
{
    found.count = 0;
    found.skip = strlen(directory) + 1;
    assert_int_equal(nftw(directory, note_file, 16, FTW_PHYS), 0);
    qsort(found.names, found.count, sizeof found.names[0], by_name);
}

static void forget_files(void)
{
    while (found.count)
        free(found.names[--found.count]);
}

int run_count_temporary(const char *directory)
{
    int count = 0;
    if (access(directory, F_OK))
        return 0;
    find_files(directory);
    for (size_t i = 0; i < found.count; i++)
        count += strstr(found.names[i], ".tmp.") != NULL;
    forget_files();
    return count;
}

static void copy_file(const char *to, const char *from)
{
    size_t length;
    char *bytes = get_file(from, &length), *folder = strdup(to);
    *strrchr(folder, '/') = 0;
    assert_int_equal(et_directory_make(folder, NULL), 0);
    put_file(to, bytes, length);
    free(folder);
    free(bytes);
}

void run_copy(const char *to, const char *from)
{
    char source[600], target[600];
    find_files(from);
    for (size_t i = 0; i < found.count; i++) {
        snprintf(source, sizeof source, "%s/%s", from, found.names[i]);
        snprintf(target, sizeof target, "%s/%s", to, found.names[i]);
        copy_file(target, source);
    }
    forget_files();
}

/* ---- comparison ---- */

/* Removes every "time":{...} of JSON lines, which holds no dict. */
static void without_times(char *text)
{
    static const char mark[] = "\"time\":{";
    char *out = text;
    while (*text) {
        if (!strncmp(text, mark, sizeof mark - 1))
            text = strchr(text, '}');
        *out++ = *text++;
    }
    *out = 0;
}

/* Removes the lines of a manifest with times, the last deleted files, the manifest's checksum, and
 * the checksums of files. A file that was found and not saved has no known checksum; its bytes are
 * compared. */
static void without_moments(char *text)
{
    char *out = text, *leaving = strstr(text, "  \"leaving\"");
    assert_non_null(leaving);
    *leaving = 0;
    for (char *line = text, *end; *line; line = end) {
        end = strchr(line, '\n') + 1;
        size_t length = (size_t)(end - line);
        if (!memmem(line, length, "\"checksum\"", 10) && !memmem(line, length, "\"time\"", 6) &&
            !memmem(line, length, "\"begun\"", 7))
            out = (char *)memmove(out, line, length) + length;
    }
    *out = 0;
}

static void compare_texts(const char *left, const char *right, void (*clean)(char *text))
{
    size_t length;
    char *a = get_file(left, &length), *b = get_file(right, &length);
    clean(a);
    clean(b);
    if (strcmp(a, b))
        fail_msg("%s and %s differ:\n%s\n%s", left, right, a, b);
    free(a);
    free(b);
}

static Etude__Event__Event *next_event(et_record_scan *reader)
{
    const void *bytes;
    size_t length;
    assert_int_equal(et_record_scan_next(reader, &bytes, &length, NULL), 0);
    assert_false(reader->torn);
    if (!bytes)
        return NULL;
    Etude__Event__Event *event = etude__event__event__unpack(NULL, length, bytes);
    assert_non_null(event);
    return event;
}

static void compare_values(const Etude__Event__Event *a, const Etude__Event__Event *b)
{
    size_t count = a->summary ? a->summary->n_value : 0;
    assert_int_equal(count, b->summary ? b->summary->n_value : 0);
    for (size_t i = 0; i < count; i++) {
        const Etude__Event__Value *x = a->summary->value[i], *y = b->summary->value[i];
        assert_string_equal(x->tag, y->tag);
        assert_int_equal(x->has_simple_value, y->has_simple_value);
        if (strncmp(x->tag, "time/", 5))
            assert_memory_equal(&x->simple_value, &y->simple_value, sizeof(float));
    }
}

static void compare_events(const char *left, const char *right)
{
    et_record_scan one, two;
    int64_t last = -1;
    assert_int_equal(et_record_scan_open(&one, left, NULL), 0);
    assert_int_equal(et_record_scan_open(&two, right, NULL), 0);
    for (;;) {
        Etude__Event__Event *a = next_event(&one), *b = next_event(&two);
        assert_int_equal(a == NULL, b == NULL);
        if (!a)
            break;
        assert_int_equal(a->step, b->step);
        assert_true(b->has_step ? b->step > last : last == -1);
        last = b->has_step ? b->step : last;
        compare_values(a, b);
        etude__event__event__free_unpacked(a, NULL);
        etude__event__event__free_unpacked(b, NULL);
    }
    assert_true(last > 0);
    et_record_scan_close(&one);
    et_record_scan_close(&two);
}

static void compare_bytes(const char *left, const char *right)
{
    size_t length, other;
    char *a = get_file(left, &length), *b = get_file(right, &other);
    size_t at = 0;
    while (at < length && at < other && a[at] == b[at])
        at++;
    if (length != other || at < length)
        fail_msg("%s (%zu bytes) and %s (%zu) differ at byte %zu", left, length, right, other, at);
    free(a);
    free(b);
}

/* Files about sessions differ, but must be complete: lines that end, and valid JSON. */
static void check_session_file(const char *path)
{
    size_t length;
    char *text = get_file(path, &length);
    et_arena arena = ET_ARENA_INIT;
    et_value *value;
    if (!strcmp(et_path_base(path), ET_RUN_MESSAGES))
        assert_true(length > 0 && text[length - 1] == '\n' && !memchr(text, 0, length));
    else
        assert_int_equal(et_json_parse(&value, &arena, text, length, path, NULL), 0);
    et_arena_release(&arena);
    free(text);
}

static bool is_session_file(const char *path, const char *name)
{
    return !strcmp(name, ET_RUN_MESSAGES) ||
           (!strcmp(name, ET_RUN_SESSIONS) && !strstr(path, "/" ET_CHECKPOINT_BEST "/"));
}

static void compare_files(const char *left, const char *right)
{
    const char *name = et_path_base(left);
    /* Settings may have changed from part to part. */
    if (!strcmp(name, "lock") || !strcmp(name, ET_EVENTS_SETTINGS))
        return;
    if (is_session_file(left, name)) {
        check_session_file(left);
        check_session_file(right);
        return;
    }
    if (!strcmp(name, "metrics.jsonl"))
        compare_texts(left, right, without_times);
    else if (!strcmp(name, "checkpoint.json"))
        compare_texts(left, right, without_moments);
    else if (!strcmp(name, ET_EVENTS_NAME))
        compare_events(left, right);
    else
        compare_bytes(left, right);
}

/* Notes that a cache was found sound: whether there is one depends on how old the cache was when
 * a run began again. */
static bool is_note(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && !strcmp(name + length - 5, ".seen");
}

/* All names but notes', one a line; free with et_strbuf_release. */
static et_strbuf names_below(const char *directory)
{
    et_strbuf names = ET_STRBUF_INIT;
    find_files(directory);
    for (size_t i = 0; i < found.count; i++)
        if (!is_note(found.names[i]))
            et_strbuf_printf(&names, "%s\n", found.names[i]);
    forget_files();
    return names;
}

void run_assert_same(const char *expected, const char *directory)
{
    et_strbuf left = names_below(expected), right = names_below(directory);
    if (strcmp(et_strbuf_text(&left), et_strbuf_text(&right)))
        fail_msg("%s has\n%s%s has\n%s", expected, et_strbuf_text(&left), directory,
                 et_strbuf_text(&right));
    char *state, *name = strtok_r(left.data, "\n", &state);
    for (; name; name = strtok_r(NULL, "\n", &state)) {
        char a[600], b[600];
        snprintf(a, sizeof a, "%s/%s", expected, name);
        snprintf(b, sizeof b, "%s/%s", directory, name);
        compare_files(a, b);
    }
    et_strbuf_release(&left);
    et_strbuf_release(&right);
}
