/* A small real run of the command for the tests of resuming: a corpus of an invented language; a
 * tiny model with every feature that has a position (dropout, shuffling, buckets, prefetch,
 * accumulation, average, validation, best); processes to interrupt; and a comparison of the files
 * of two runs, except times. Include after cmocka.h. */
#ifndef ETUDE_TESTS_CLI_TEST_RESUME_RUN_H
#define ETUDE_TESTS_CLI_TEST_RESUME_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Steps of the run, unless --set says another; a multiple of the intervals below. */
enum { RUN_STEPS = 160, RUN_SUMMARY = 8, RUN_CHECKPOINT = 10, RUN_VALIDATION = 40, RUN_KEPT = 3 };

enum { RUN_WORDS_MAX = 24 };

typedef struct run_command {
    const char *directory;               /* the model's directory; corpus and settings are next to
                                          * it */
    const char *settings[RUN_WORDS_MAX]; /* key=value, NULL at the end */
    int threads;                         /* OMP_NUM_THREADS; 0: unchanged */
    const char *before[RUN_WORDS_MAX];   /* words before the program, such as strace's */
} run_command;

/* Makes a fresh directory below the current one, enters it, and writes train.{source,target},
 * valid.{source,target} and settings.yaml. Setup and teardown of a group. */
int run_make_corpus(void **state);
int run_remove_corpus(void **state);

/* Writes count pairs of the language to NAME.source and NAME.target. */
void run_write_pairs(const char *name, int count, uint64_t seed);

/* Starts `etude train`; its output goes to DIRECTORY.log. */
pid_t run_start(const run_command *command);

/* Waits; the exit code, or minus the signal. Fails the test after a minute. */
int run_wait(pid_t pid);

/* Both. */
int run(const run_command *command);

/* The output of a directory's last start; free it. */
char *run_log(const char *directory);

/* Waits until the file has the text; false: the process ended before. */
bool run_await_text(pid_t pid, const char *path, const char *text);

/* Seconds of a clock that only goes forward, and waiting for some. */
double run_clock(void);
void run_sleep(double seconds);

/* Removes a directory and its contents; copies one, files' bytes only. */
void run_remove(const char *directory);
void run_copy(const char *to, const char *from);

/* Number of temporary files below a directory, which a kill during a save leaves. */
int run_count_temporary(const char *directory);

/* Fails unless both directories have the same files, equal except for times: in metrics.jsonl the
 * dicts "time", in events the wall times and tags below "time/", in checkpoint.json the times of
 * saves; train.log and info.json, which are only read. Also fails if a tag has a step twice, or
 * steps do not ascend. */
void run_assert_same(const char *expected, const char *found);

#endif
