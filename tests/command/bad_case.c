#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bad_case.h"

enum { WORDS_MAX = 64, NAMES_MAX = 256, PAIRS = 60 };

static char home[4096]; /* where tests began */

/* ---- files ---- */

void bad_write(const char *path, const void *bytes, size_t length)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
}

void bad_write_text(const char *path, const char *text)
{
    bad_write(path, text, strlen(text));
}

char *bad_read(const char *path, size_t *length)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("%s: cannot be read: %s", path, strerror(errno));
    fseek(file, 0, SEEK_END);
    size_t size = (size_t)ftell(file);
    rewind(file);
    char *bytes = malloc(size + 1);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, size, file), size);
    bytes[size] = 0;
    fclose(file);
    if (length)
        *length = size;
    return bytes;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void bad_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static int compare_names(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

static void add_names(const char *folder, const char *prefix, char **names, size_t *count)
{
    DIR *stream = opendir(folder);
    assert_non_null(stream);
    for (const struct dirent *item; (item = readdir(stream)) != NULL;) {
        if (!strcmp(item->d_name, ".") || !strcmp(item->d_name, ".."))
            continue;
        char path[1024], name[1024];
        struct stat info;
        snprintf(path, sizeof path, "%s/%s", folder, item->d_name);
        assert_int_equal(lstat(path, &info), 0);
        snprintf(name, sizeof name, "%s%s%s", prefix, item->d_name,
                 S_ISDIR(info.st_mode) ? "/" : "");
        assert_true(*count < NAMES_MAX);
        names[(*count)++] = strdup(name);
        if (S_ISDIR(info.st_mode))
            add_names(path, name, names, count);
    }
    closedir(stream);
}

char *bad_list(const char *path)
{
    char *names[NAMES_MAX], *text = calloc(NAMES_MAX, 128);
    size_t count = 0, length = 0;
    add_names(path, "", names, &count);
    qsort(names, count, sizeof *names, compare_names);
    for (size_t i = 0; i < count; i++) {
        length += (size_t)sprintf(text + length, "%s%s", i ? " " : "", names[i]);
        free(names[i]);
    }
    return text;
}

/* ---- texts to train on ---- */

/* Line i of a made-up language and of its word-by-word translation. */
static void write_sides(const char *source_path, const char *target_path, int count)
{
    static const char *const source[] = { "red", "blue", "dog", "cat", "house", "tree", "runs" };
    static const char *const target[] = { "rot", "blau", "hund", "katze", "haus", "baum", "rennt" };
    FILE *left = fopen(source_path, "w"), *right = fopen(target_path, "w");
    assert_true(left && right);
    for (int i = 0; i < count; i++) {
        int words = 2 + i % 4;
        for (int k = 0; k < words; k++) {
            int word = (i * 5 + k * 3 + i / 7) % 7;
            fprintf(left, "%s%s", k ? " " : "", source[word]);
            fprintf(right, "%s%s", k ? " " : "", target[word]);
        }
        fputc('\n', left);
        fputc('\n', right);
    }
    fclose(left);
    fclose(right);
}

static const char settings[] =
    "experiment: translation/tiny\n"
    "task:\n"
    "  model:\n"
    "    encoder: {num_layers: 1, num_attention_heads: 2, intermediate_size: 16}\n"
    "    decoder: {num_layers: 1, num_attention_heads: 2, intermediate_size: 16}\n"
    "    embedding_width: 16\n"
    "    extra_decode_length: 4\n"
    "  train_data: {source_path: a.en, target_path: a.de, global_batch_size: 64,\n"
    "    max_seq_length: 32}\n"
    "  vocabulary: {size: 30}\n"
    "trainer: {train_steps: 3, checkpoint_interval: 5}\n"
    "runtime: {seed: 1, mixed_precision_dtype: float32}\n";

int bad_set_up(void **state)
{
    char directory[] = "bad-XXXXXX";
    (void)state;
    if (!getcwd(home, sizeof home) || !mkdtemp(directory) || chdir(directory))
        return -1;
    chmod(".", 0755);
    setenv("OMP_NUM_THREADS", "1", 1); /* the models are too small to share */
    write_sides("a.en", "a.de", PAIRS);
    write_sides("two.en", "two.de", 2);
    bad_write_text("tiny.yaml", settings);
    bad_write_text("empty", "");
    return 0;
}

int bad_tear_down(void **state)
{
    char here[4096];
    (void)state;
    if (!getcwd(here, sizeof here) || chdir(home))
        return -1;
    bad_remove(here);
    return 0;
}

void bad_train(const char *directory, int steps)
{
    char line[512];
    snprintf(line, sizeof line,
             "train --config tiny.yaml --model-dir '%s' --set trainer.train_steps=%d", directory,
             steps);
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s: exit code %d: %s", line, end.code, end.err);
    bad_release(&end);
}

/* ---- programs ---- */

/* Cuts text (changed) into words at spaces outside ''. */
static int split(char *text, char *words[WORDS_MAX])
{
    int count = 0;
    for (char *from = text, *to = text; *from;) {
        while (*from == ' ')
            from++;
        if (!*from)
            break;
        assert_true(count < WORDS_MAX - 1);
        words[count++] = to;
        for (bool quoted = false; *from && (quoted || *from != ' '); from++) {
            if (*from == '\'')
                quoted = !quoted;
            else
                *to++ = *from;
        }
        if (*from)
            from++;
        *to++ = 0;
    }
    words[count] = NULL;
    return count;
}

static void open_as(const char *path, int flags, int fd)
{
    int opened = open(path, flags, 0666);
    if (opened < 0 || dup2(opened, fd) < 0)
        _exit(126);
    if (opened != fd)
        close(opened);
}

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + 1e-6 * (double)time.tv_usec;
}

bad_end bad_start(const char *line, const char *input, const char *output)
{
    char *words[WORDS_MAX + 1], *text = strdup(line);
    static char program[] = ET_TEST_BUILD "/etude";
    words[0] = program;
    split(text, words + 1);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(240); /* a command that waits for ever fails its case */
        open_as(input ? input : "/dev/null", O_RDONLY, 0);
        open_as(output ? output : "end.out", O_WRONLY | O_CREAT | O_TRUNC, 1);
        open_as("end.err", O_WRONLY | O_CREAT | O_TRUNC, 2);
        execv(program, words);
        _exit(127);
    }
    int status;
    struct rusage usage;
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    free(text);
    bad_end end = { .code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status),
                    .kilobytes = usage.ru_maxrss,
                    .seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime) };
    end.out = output ? strdup("") : bad_read("end.out", NULL);
    end.err = bad_read("end.err", NULL);
    remove("end.out");
    remove("end.err");
    return end;
}

void bad_release(bad_end *end)
{
    free(end->out);
    free(end->err);
    *end = (bad_end){ 0 };
}

int bad_count_lines(const char *text)
{
    int count = 0;
    for (; *text; text++)
        count += *text == '\n';
    return count;
}

char *bad_last_line(char *text)
{
    size_t length = strlen(text);
    if (length && text[length - 1] == '\n')
        text[length - 1] = 0;
    char *end = strrchr(text, '\n');
    return end ? end + 1 : text;
}

void bad_assert_says(const char *line, const char *text, const char *word)
{
    if (!strstr(text, word))
        fail_msg("etude %s\n    does not say: %s\n    but: %s", line, word, text);
}

/* ---- cases ---- */

static void check_end(const bad_case *row, bad_end *end)
{
    int lines = bad_count_lines(end->err);
    if (end->code != row->code)
        fail_msg("etude %s\n    exit code %d, expected %d: %s", row->line, end->code, row->code,
                 end->err);
    if (row->lines >= 0 && lines != row->lines + (row->code != 0))
        fail_msg("etude %s\n    %d lines on standard error, expected %d: %s", row->line, lines,
                 row->lines + (row->code != 0), end->err);
    char *last = bad_last_line(end->err);
    if (row->code && strncmp(last, "etude: ", 7))
        fail_msg("etude %s\n    does not begin with its name: %s", row->line, last);
    for (size_t i = 0; i < BAD_WORDS_MAX && row->words[i]; i++)
        bad_assert_says(row->line, last, row->words[i]);
}

static void check_files(const bad_case *row, const char *before)
{
    if (row->made) {
        if (access(row->made, F_OK))
            fail_msg("etude %s\n    did not make %s", row->line, row->made);
        bad_remove(row->made);
    }
    char *after = bad_list(".");
    if (strcmp(before, after))
        fail_msg("etude %s\n    files before: %s\n    files after:  %s", row->line, before, after);
    free(after);
}

void bad_run(const bad_case *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *before = bad_list(".");
        bad_end end = bad_start(cases[i].line, cases[i].input, NULL);
        check_end(&cases[i], &end);
        check_files(&cases[i], before);
        bad_release(&end);
        free(before);
    }
}
