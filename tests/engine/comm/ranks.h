/* Test programs that are their own ranks: a case starts the program again, several times, and each
 * of them runs one function as a rank. Include after cmocka.h.
 *
 *     static const rank_case cases[] = { { "gather", rank_gather }, { NULL, NULL } };
 *     assert_int_equal(run_ranks("gather", 3, ""), 0);            in the parent
 *     int main(void) { if (is_rank()) return run_rank(cases); ... }
 */
#ifndef ETUDE_TESTS_COMM_RANKS_H
#define ETUDE_TESTS_COMM_RANKS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "calls.h"
#include "engine/comm/comm.h"

#define RANK_CASE "ETUDE_TEST_RANK_CASE"
#define RANK_WORD "ETUDE_TEST_RANK_WORD"
#define RANK_WAIT "ETUDE_TEST_RANK_TIMEOUT"

/* Returns 0, or the line that failed; word: the parent's argument. */
typedef int rank_fn(et_comm *comm, const char *word);

typedef struct rank_case {
    const char *name;
    rank_fn *run;
} rank_case;

/* Seconds of silence, unless the parent sets another number: a busy machine delays ranks. */
#define RANK_TIMEOUT 60.0

/* In a rank: if the condition fails, the rank ends with the line number. */
#define rank_assert(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "rank: %s:%d: %s\n", __FILE__, __LINE__, #condition);                  \
            return __LINE__ % 125 + 1;                                                             \
        }                                                                                          \
    } while (0)

static inline bool is_rank(void)
{
    return et_comm_by_launch();
}

static inline int run_rank(const rank_case *cases)
{
    et_error error = ET_ERROR_INIT;
    const char *name = getenv(RANK_CASE), *word = getenv(RANK_WORD), *wait = getenv(RANK_WAIT);
    et_comm_options options = { .peer_timeout = wait ? atof(wait) : RANK_TIMEOUT };
    et_comm *comm;
    while (cases->name && (!name || strcmp(cases->name, name) != 0))
        cases++;
    if (!cases->name || et_comm_open(&comm, &options, &error)) {
        fprintf(stderr, "rank: %s\n", error.text);
        return 126;
    }
    int wrong = cases->run(comm, word ? word : "");
    et_comm_close(comm);
    return wrong;
}

/* Ranks of this program; they are collected by run_ranks, or one by one. */
static inline void start_ranks(pid_t *pids, const char *name, int ranks, const char *word)
{
    static char self[4096];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = 0;
    char *argv[] = { self, NULL };
    setenv(RANK_CASE, name, 1);
    setenv(RANK_WORD, word, 1);
    assert_ok(et_ranks_start(pids, ranks, argv, error));
}

/* The first exit code that is not 0, of ranks that all end. */
static inline int run_ranks(const char *name, int ranks, const char *word)
{
    pid_t pids[ET_RANKS_MAX];
    int wrong = 0;
    start_ranks(pids, name, ranks, word);
    for (int i = 0; i < ranks; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        wrong = wrong ? wrong : code;
    }
    return wrong;
}

/* In the parent: runs a command that checks the ranks' files; it must succeed. */
__attribute__((format(printf, 1, 2), unused)) static void shell(const char *format, ...)
{
    char command[500];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command))
        fail_msg("%s", command);
}

#endif
