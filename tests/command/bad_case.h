/* Cases of bad input for the command: the command line and the expected result. Each case runs
 * `etude` in a fresh directory of text files and settings. It checks the exit code, the words of
 * the one line on standard error, and that no file was made, deleted or left incomplete. Include
 * after cmocka.h.
 *
 *     static const bad_case cases[] = {
 *         { "score none.de", .input = "a.de", .code = 3, .words = { "none.de" } },
 *     };
 *     bad_run(cases, COUNT(cases));
 */
#ifndef ETUDE_TESTS_CLI_BAD_CASE_H
#define ETUDE_TESTS_CLI_BAD_CASE_H

#include <stdbool.h>
#include <stddef.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { BAD_WORDS_MAX = 8 };

/* What `train` needs to train the small model of tiny.yaml on a.en and a.de in m. */
#define TRAIN "train --experiment translation/tiny --config tiny.yaml --model-dir m "

/* The same text settings, for rows that name other files. */
#define SOURCE " --set task.train_data.source_path="
#define TARGET " --set task.train_data.target_path="

typedef struct bad_case {
    const char *line;  /* words after `etude`; '' keep spaces together */
    const char *input; /* file for standard input; NULL: an empty one */
    int code;
    const char *words[BAD_WORDS_MAX]; /* in the last line on standard error */
    int lines;                        /* on standard error before that one; -1: any number */
    const char *made;                 /* files that the case makes, NULL: none */
} bad_case;

/* Makes a fresh directory below the current one and enters it; writes a.en and a.de (60 pairs),
 * two.en and two.de, tiny.yaml and empty. Setup and teardown of a group. */
int bad_set_up(void **state);
int bad_tear_down(void **state);

/* Runs all cases; names the line that fails. What `made` names is removed after its case. */
void bad_run(const bad_case *cases, size_t count);

/* How a program ended, and its output. Free with bad_release. */
typedef struct bad_end {
    int code; /* exit code, or minus the signal */
    char *out, *err;
    long kilobytes; /* most memory it had */
    double seconds; /* of a processor: what else runs here does not count */
} bad_end;

/* Runs `etude` with the words of line. output: where standard output goes, NULL: end.out. */
bad_end bad_start(const char *line, const char *input, const char *output);
void bad_release(bad_end *end);

/* The last line of a text, the line end taken away; changes the text. */
char *bad_last_line(char *text);
int bad_count_lines(const char *text);

/* Fails the test with the line and the text, unless word is in text. */
void bad_assert_says(const char *line, const char *text, const char *word);

/* Files. Content of length bytes; the whole of a file, terminated (free it). */
void bad_write(const char *path, const void *bytes, size_t length);
void bad_write_text(const char *path, const char *text);
char *bad_read(const char *path, size_t *length);
void bad_remove(const char *path);

/* The names of all files below path, directories with a "/" at their end, sorted, separated by
 * spaces; free it. */
char *bad_list(const char *path);

/* Trains tiny.yaml's model in directory for some steps, with a checkpoint at each fifth. */
void bad_train(const char *directory, int steps);

#endif
