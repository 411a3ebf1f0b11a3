/* Work of ranks with one status, and values of all ranks, over processes of this machine. */
#include "engine/comm/together.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "engine/comm/ranks.h"

enum { MOST = 5 };

/* ---- in the ranks ---- */

typedef struct worker {
    int rank, fails; /* fails: the rank that does; -1: none */
    int done;
} worker;

static int work(void *self, et_error *error)
{
    worker *w = self;
    w->done++;
    return w->rank == w->fails ? et_fail(error, ET_EDATA, "no %d", w->rank) : ET_OK;
}

/* The first failure is that of all, with its text, and the next work is together again. */
static int rank_run(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    const int rank = et_comm_rank(comm), size = et_comm_size(comm);
    (void)word;
    for (int fails = -1; fails < size; fails++) {
        worker w = { rank, fails, 0 };
        char text[64];
        snprintf(text, sizeof text, fails ? "on rank %d: no %d" : "no 0", fails, fails);
        int status = et_together_run(comm, work, &w, &error);
        rank_assert(w.done == 1 && status == (fails < 0 ? ET_OK : ET_EDATA));
        rank_assert(fails < 0 || !strcmp(error.text, text));
        et_comm_resume(comm);
    }
    return 0;
}

/* The others begin only when rank 0 is done, and not at all if it has failed. */
static int rank_in_turn(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    const int rank = et_comm_rank(comm), size = et_comm_size(comm);
    (void)word;
    worker w = { rank, -1, 0 };
    rank_assert(!et_together_in_turn(comm, work, &w, &error) && w.done == 1);
    w = (worker){ rank, 0, 0 };
    rank_assert(et_together_in_turn(comm, work, &w, &error) == ET_EDATA);
    rank_assert(w.done == (rank == 0) && !strcmp(error.text, "no 0"));
    et_comm_resume(comm);
    w = (worker){ rank, size - 1, 0 };
    int status = et_together_in_turn(comm, work, &w, &error);
    rank_assert(w.done == 1 && status == (rank == size - 1 ? ET_EDATA : ET_OK));
    /* All hear of it at the next call, whichever it is. */
    int64_t number = 7;
    rank_assert(size == 1 ||
                et_together_give(comm, status, &number, sizeof number, &error) == ET_EDATA);
    return 0;
}

static int rank_answers(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    const int rank = et_comm_rank(comm), size = et_comm_size(comm);
    (void)word;
    for (int from = 0; from < size; from++) {
        bool decided = rank == from, any = rank == from;
        rank_assert(!et_together_decide(comm, ET_OK, &decided, &error) && decided == (from == 0));
        rank_assert(!et_together_any(comm, ET_OK, &any, &error) && any);
    }
    bool none = false;
    rank_assert(!et_together_any(comm, ET_OK, &none, &error) && !none);
    int64_t number = rank + 5;
    rank_assert(!et_together_give(comm, ET_OK, &number, sizeof number, &error) && number == 5);
    return 0;
}

/* A rank that failed before comes with its status, and nobody waits for its bytes. */
static int rank_table(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    const int rank = et_comm_rank(comm), size = et_comm_size(comm);
    void *all;
    (void)word;
    rank_assert(!et_together_table(comm, ET_OK, &rank, sizeof rank, &all, &error));
    for (int i = 0; i < size; i++)
        rank_assert(((const int *)all)[i] == i);
    et_free(all);
    int status = rank == size - 1 ? et_fail(&error, ET_ENOTFOUND, "no file") : ET_OK;
    rank_assert(et_together_table(comm, status, &rank, sizeof rank, &all, &error) == ET_ENOTFOUND);
    rank_assert(!all && strstr(error.text, "no file"));
    return 0;
}

static const rank_case cases[] = {
    { "run", rank_run },
    { "in turn", rank_in_turn },
    { "answers", rank_answers },
    { "table", rank_table },
    { NULL, NULL },
};

/* ---- their parent ---- */

static void check(const char *name)
{
    for (int ranks = 1; ranks <= MOST; ranks++)
        assert_int_equal(run_ranks(name, ranks, ""), 0);
}

static void test_together__run(void **state)
{
    (void)state;
    check("run");
}

static void test_together__in_turn(void **state)
{
    (void)state;
    check("in turn");
}

static void test_together__answers(void **state)
{
    (void)state;
    check("answers");
}

static void test_together__table(void **state)
{
    (void)state;
    check("table");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together__run),
        cmocka_unit_test(test_together__in_turn),
        cmocka_unit_test(test_together__answers),
        cmocka_unit_test(test_together__table),
    };
    return is_rank() ? run_rank(cases) : cmocka_run_group_tests(tests, NULL, NULL);
}
