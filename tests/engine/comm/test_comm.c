/* Collectives over processes of this machine, also with a rank that is gone, silent or out of step.
 */
#include "engine/comm/comm.h"
#include "engine/comm/together.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "engine/comm/ranks.h"
#include "train/ranks/collected.h"

enum { MOST = 7, LARGE = 3 << 20 };

/* ---- in the ranks ---- */

static int rank_gather(et_comm *comm, const char *word)
{
    int rank = et_comm_rank(comm), size = et_comm_size(comm);
    (void)word;
    for (size_t each = 1; each < 5000; each = each * 7 + 1) {
        unsigned char *mine = malloc(each), *all = malloc(each * (size_t)size);
        rank_assert(mine && all);
        for (size_t i = 0; i < each; i++)
            mine[i] = (unsigned char)(i * 31 + (size_t)rank * 7);
        rank_assert(!et_comm_gather(comm, mine, each, all, NULL));
        for (int r = 0; r < size; r++)
            for (size_t i = 0; i < each; i++)
                rank_assert(all[(size_t)r * each + i] == (unsigned char)(i * 31 + (size_t)r * 7));
        free(mine);
        free(all);
    }
    return 0;
}

/* Different sizes, including 0; a rank that failed before fails all. */
static int rank_collect(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    int rank = et_comm_rank(comm), size = et_comm_size(comm);
    size_t sizes[MOST], most = 70000;
    unsigned char *mine = malloc(most);
    void *all;
    (void)word;
    rank_assert(mine);
    memset(mine, 40 + rank, most);
    for (size_t each = 0; each < 9000; each = each * 11 + 1) {
        rank_assert(
            !et_together_collect(comm, ET_OK, mine, each * (size_t)rank, &all, sizes, &error));
        const unsigned char *at = all;
        for (int r = 0; r < size; r++) {
            rank_assert(sizes[r] == each * (size_t)r);
            for (size_t i = 0; i < sizes[r]; i++)
                rank_assert(*at++ == 40 + r);
        }
        et_free(all);
    }
    int status = rank == size - 1 ? et_fail(&error, ET_EDATA, "nothing to give") : ET_OK;
    rank_assert(et_together_collect(comm, status, mine, 5, &all, sizes, &error) == ET_EDATA);
    rank_assert(!all && strstr(error.text, "nothing to give"));
    free(mine);
    return 0;
}

/* A size that only rank 0 knows, including 0; a rank that failed before fails all. */
static int rank_hand_out(et_comm *comm, const char *word)
{
    const int rank = et_comm_rank(comm), size = et_comm_size(comm);
    static char text[70000];
    (void)word;
    memset(text, 'x', sizeof text);
    for (size_t length = 0; length < sizeof text; length = length * 11 + 1) {
        void *bytes = rank ? NULL : text;
        size_t got = rank ? 12345 : length;
        et_error error = ET_ERROR_INIT;
        rank_assert(!et_together_hand_out(comm, ET_OK, &bytes, &got, &error));
        rank_assert(got == length && (rank ? !bytes == !length : bytes == text));
        rank_assert(!length || !memcmp(bytes, text, length));
        rank_assert(!rank || !length || !((char *)bytes)[length]);
        if (rank)
            et_free(bytes);
    }
    et_error error = ET_ERROR_INIT;
    void *bytes = text;
    size_t got = 5;
    int status = rank == size - 1 ? et_fail(&error, ET_EDATA, "nothing to give") : ET_OK;
    rank_assert(et_together_hand_out(comm, status, &bytes, &got, &error) == ET_EDATA);
    rank_assert((rank ? !bytes : bytes == text) && strstr(error.text, "nothing to give"));
    return 0;
}

static bool read_item(void *payload, int64_t item, et_collected *from, int rank)
{
    const char *at = et_collected_next(from, rank, (size_t)item + 1);
    ++*(int64_t *)payload;
    return at && at[0] == 'a' + item && at[item] == 'a' + item;
}

/* Item i is i + 1 letters. The last rank may omit the last letter of its last item: the others
 * notice, if it has any. */
static int rank_items(et_comm *comm, const char *word)
{
    const int rank = et_comm_rank(comm), size = et_comm_size(comm);
    (void)word;
    for (int count = 0; count < 16; count += 5)
        for (size_t less = 0; less < 2; less++) {
            const bool cut = less && size > 1 && count >= size;
            const int own = count / size + (rank < count % size);
            int64_t others = 0;
            et_error error = ET_ERROR_INIT;
            et_strbuf mine = ET_STRBUF_INIT;
            for (int i = rank; i < count; i += size)
                for (int k = 0; k <= i; k++)
                    et_strbuf_append_char(&mine, (char)('a' + i));
            mine.length -= cut && rank == size - 1;
            int status = et_collected_items(comm, "letters", count, ET_OK, &mine, read_item,
                                            &others, &error);
            rank_assert(status == (cut && rank < size - 1 ? ET_EFAIL : ET_OK));
            rank_assert(!status || strstr(error.text, "letters of rank"));
            rank_assert(status || others == count - own);
            et_strbuf_release(&mine);
        }
    return 0;
}

/* More than any socket holds. */
static int rank_broadcast(et_comm *comm, const char *word)
{
    int rank = et_comm_rank(comm), size = et_comm_size(comm);
    (void)word;
    unsigned char *bytes = malloc(LARGE);
    rank_assert(bytes);
    for (int root = 0; root < size; root++) {
        memset(bytes, rank == root ? 17 + root : 0, LARGE);
        rank_assert(!et_comm_broadcast(comm, root, bytes, LARGE, NULL));
        for (size_t i = 0; i < LARGE; i++)
            rank_assert(bytes[i] == 17 + root);
    }
    free(bytes);
    return 0;
}

/* Both ways at once, with everybody in turn. */
static int rank_exchange(et_comm *comm, const char *word)
{
    int rank = et_comm_rank(comm), size = et_comm_size(comm);
    (void)word;
    unsigned char *out = malloc(LARGE), *in = malloc(LARGE);
    rank_assert(out && in);
    memset(out, 100 + rank, LARGE);
    for (int k = 0; k < size; k++) {
        int to = (rank + k) % size, from = (rank - k + size) % size;
        memset(in, 0, LARGE);
        rank_assert(!et_comm_exchange(comm, (et_comm_chunk){ to, out, LARGE },
                                      (et_comm_chunk){ from, in, LARGE }, NULL));
        rank_assert(in[0] == (k ? 100 + from : 0) && in[LARGE - 1] == in[0]);
    }
    free(out);
    free(in);
    return 0;
}

static int rank_agree(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    int rank = et_comm_rank(comm), size = et_comm_size(comm), status = ET_OK;
    unsigned flags = 1u << rank;
    (void)word;
    rank_assert(!et_comm_agree(comm, ET_OK, &flags, &error) && flags == (1u << size) - 1);
    for (int from = 0; from < size; from++) {
        /* All from `from` on fail; the first counts. */
        if (rank >= from)
            status = et_fail(&error, ET_EDATA + rank % 2, "no %d", rank);
        char text[64];
        snprintf(text, sizeof text, from ? "on rank %d: no %d" : "no 0", from, from);
        rank_assert(et_comm_agree(comm, status, NULL, &error) == ET_EDATA + from % 2);
        rank_assert(strcmp(error.text, text) == 0);
        /* Once a failure is reported, no rank reports it again. */
        rank_assert(et_comm_agree(comm, ET_EIO, NULL, &error) == ET_EIO);
        et_comm_resume(comm);
        status = ET_OK;
    }
    rank_assert(!et_comm_agree(comm, ET_OK, NULL, &error));
    return 0;
}

/* At least one text names another rank than the one that has not even tried. */
static int rank_gone(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    int status = et_comm_agree(comm, ET_OK, NULL, &error);
    if (et_comm_rank(comm) == atoi(word))
        _exit(0);
    rank_assert(!status || status == ET_EIO);
    rank_assert(et_comm_agree(comm, ET_OK, NULL, &error) == ET_EIO);
    rank_assert(strstr(error.text, "has ended"));
    rank_assert(et_comm_agree(comm, ET_OK, NULL, &error) == ET_EIO);
    return 0;
}

/* Seconds of silence in these tests: more than a busy machine takes to start a rank. */
#define SILENCE      3.0
#define SILENCE_TEXT "3"

static int rank_silent(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    double begun = et_clock_monotonic();
    rank_assert(!et_comm_agree(comm, ET_OK, NULL, &error));
    if (et_comm_rank(comm) == atoi(word))
        raise(SIGSTOP);
    rank_assert(et_comm_agree(comm, ET_OK, NULL, &error) == ET_EIO);
    rank_assert(et_clock_monotonic() - begun > SILENCE / 2);
    return 0;
}

/* A rank that computes for long is not silent. */
static int rank_busy(et_comm *comm, const char *word)
{
    (void)word;
    if (et_comm_rank(comm) == 1)
        for (double begun = et_clock_monotonic(); et_clock_monotonic() - begun < 2 * SILENCE;)
            continue;
    rank_assert(!et_comm_agree(comm, ET_OK, NULL, NULL));
    return 0;
}

static int rank_out_of_step(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    char bytes[64] = "", all[64 * MOST];
    (void)word;
    int status = et_comm_gather(comm, bytes, et_comm_rank(comm) ? 8 : 16, all, &error);
    rank_assert(status == ET_EFAIL || status == ET_EIO);
    rank_assert(strstr(error.text, status == ET_EFAIL ? "out of step" : "has ended"));
    return 0;
}

static const rank_case cases[] = {
    { "gather", rank_gather },
    { "collect", rank_collect },
    { "items", rank_items },
    { "hand out", rank_hand_out },
    { "broadcast", rank_broadcast },
    { "exchange", rank_exchange },
    { "agree", rank_agree },
    { "gone", rank_gone },
    { "silent", rank_silent },
    { "busy", rank_busy },
    { "out of step", rank_out_of_step },
    { NULL, NULL },
};

/* ---- their parent ---- */

static void test_comm__collectives(void **state)
{
    static const char *const names[] = { "gather",    "collect",  "items", "hand out",
                                         "broadcast", "exchange", "agree" };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int ranks = 1; ranks <= MOST; ranks += ranks > 3 ? 2 : 1)
            assert_int_equal(run_ranks(names[i], ranks, ""), 0);
}

static void test_comm__alone(void **state)
{
    et_comm *comm;
    unsigned flags = 5;
    int mine = 3, all = 0;
    (void)state;
    assert_ok(et_comm_open(&comm, NULL, error));
    assert_int_equal(et_comm_rank(comm), 0);
    assert_int_equal(et_comm_size(comm), 1);
    assert_fails(et_comm_agree(comm, et_fail(error, ET_EIO, "it"), &flags, error), ET_EIO, "it");
    assert_ok(et_comm_agree(comm, ET_OK, &flags, error));
    assert_int_equal(flags, 5);
    assert_ok(et_comm_gather(comm, &mine, sizeof mine, &all, error));
    assert_int_equal(all, 3);
    assert_ok(et_comm_broadcast(comm, 0, &mine, sizeof mine, error));
    et_comm_close(comm);
    assert_int_equal(et_comm_size(NULL), 1);
    et_comm_close(NULL);
}

static void test_comm__gone(void **state)
{
    (void)state;
    assert_int_equal(run_ranks("gone", 2, "1"), 0);
    assert_int_equal(run_ranks("gone", 4, "0"), 0);
    assert_int_equal(run_ranks("gone", 4, "2"), 0);
}

/* The other ranks end by themselves, within some timeouts. */
static void test_comm__silent(void **state)
{
    (void)state;
    setenv(RANK_WAIT, SILENCE_TEXT, 1);
    for (int ranks = 2; ranks <= 4; ranks++) {
        pid_t pids[ET_RANKS_MAX];
        int status;
        start_ranks(pids, "silent", ranks, "1");
        for (int i = 0; i < ranks; i++) {
            if (i == 1)
                continue;
            assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), 0);
        }
        kill(pids[1], SIGKILL);
        assert_int_equal(waitpid(pids[1], &status, 0), pids[1]);
    }
    assert_int_equal(run_ranks("busy", 3, ""), 0);
    unsetenv(RANK_WAIT);
}

static void test_comm__out_of_step(void **state)
{
    (void)state;
    assert_int_equal(run_ranks("out of step", 2, ""), 0);
    assert_int_equal(run_ranks("out of step", 5, ""), 0);
}

/* Variables that no launch has set are refused, and the process's descriptors are not used. */
static void test_comm__environment(void **state)
{
    static const char *const bad[][2] = {
        { "0/2", "" },           { "2/2", "-1,-1,-1,-1" },  { "0/0", "-1,-1,-1" },
        { "0/65", "-1" },        { "0/2", "-1,0,0,0" },     { "0/2", "-1,999999,4,5" },
        { "x", "-1" },           { "0/2/3", "-1,1,1,1" },   { "0/1", "0,-1,-1" },
        { "0/1", "-1,-1,-1,7" }, { "99999999999/1", "-1" }, { "", "" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        et_comm *comm;
        setenv(ET_RANK_VARIABLE, bad[i][0], 1);
        setenv(ET_RANK_SOCKETS_VARIABLE, bad[i][1], 1);
        assert_fails(et_comm_open(&comm, NULL, error), ET_ECONFIG, "ETUDE_RANK=");
        assert_null(comm);
    }
    unsetenv(ET_RANK_VARIABLE);
    unsetenv(ET_RANK_SOCKETS_VARIABLE);
    et_comm *comm;
    et_comm_options options = { .peer_timeout = -1 };
    assert_fails(et_comm_open(&comm, &options, error), ET_ECONFIG, "peer_timeout");
    setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
    setenv("ETUDE_MPI", "/no/such/module.so", 1);
    assert_fails(et_comm_open(&comm, NULL, error), ET_ENOTFOUND, "/no/such/module.so");
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("ETUDE_MPI");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_comm__collectives), cmocka_unit_test(test_comm__alone),
        cmocka_unit_test(test_comm__gone),        cmocka_unit_test(test_comm__silent),
        cmocka_unit_test(test_comm__out_of_step), cmocka_unit_test(test_comm__environment),
    };
    return is_rank() ? run_rank(cases) : cmocka_run_group_tests(tests, NULL, NULL);
}
