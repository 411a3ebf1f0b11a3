/* The sum of a bucket over all ranks equals the tree of one process, bit for bit, in both ways of
 * exchange. */
#include "train/ranks/bucket_sum.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "engine/comm/ranks.h"
#include "engine/exec/device.h"

enum { MOST_SHARDS = 16, MOST_RANKS = 8, LONGEST = 70003 };

/* One element, sizes around alignments and changes of the algorithm, odd sizes, and sizes above 16
 * per rank. */
static const int64_t counts[] = { 1,    2,    15,   16,   17,   33,   250,  1003,  1004,
                                  1005, 1984, 1985, 2047, 4096, 5003, 8193, 20011, LONGEST };

enum { COUNTS = sizeof counts / sizeof counts[0] };

typedef struct world {
    et_comm *comm;
    et_device *device;
    et_bucket_sum *sum;
    int rank, ranks, shards, own;
    et_tree_node nodes[MOST_SHARDS];
    int begin[MOST_RANKS + 1];
    float *whole;             /* [LONGEST]: the sum of one process */
    float *mine[MOST_SHARDS]; /* [own] [LONGEST] */
} world;

/* So that every other order gives other bits. */
static float value_of(int shard, int64_t k)
{
    uint32_t x = (uint32_t)(shard * 7919 + k + 1) * 2654435761u;
    x = (x ^ x >> 15) * 2246822519u;
    return ((float)(x >> 8) / (float)(1 << 23) - 1) * (float)(1 << x % 13);
}

typedef struct fold {
    float **part;
    const et_kernels *kernels;
} fold;

static void add(void *payload, int to, int from)
{
    fold *self = payload;
    self->kernels->accumulate(self->part[to], self->part[from], LONGEST);
}

/* The sum of a node's shards. */
static void sum_node(const world *w, et_tree_node node, float *sum)
{
    float *part[MOST_SHARDS];
    et_tree_node one[MOST_SHARDS] = { { 0, 0, 0 } };
    fold f = { part, w->device->kernels };
    for (int i = 0; i < node.count; i++) {
        part[i] = i ? malloc(LONGEST * sizeof *sum) : sum;
        one[i] = (et_tree_node){ node.first + i, 1, -1 };
        for (int64_t k = 0; part[i] && k < LONGEST; k++)
            part[i][k] = value_of(node.first + i, k);
    }
    et_tree_fold(one, node.count, w->shards, add, &f);
    for (int i = 1; i < node.count; i++)
        free(part[i]);
}

static void fill(const world *w)
{
    for (int i = 0; i < w->own; i++)
        sum_node(w, w->nodes[w->begin[w->rank] + i], w->mine[i]);
}

static int open_world(world *w, et_comm *comm, int shards)
{
    et_error error = ET_ERROR_INIT;
    int most;
    *w = (world){ .comm = comm, .rank = et_comm_rank(comm), .ranks = et_comm_size(comm) };
    w->shards = shards;
    rank_assert(!et_device_open(&w->device, &error));
    for (int r = 0; r < w->ranks; r++)
        w->begin[r + 1] =
            w->begin[r] + et_tree_nodes(shards, shards * r / w->ranks, shards * (r + 1) / w->ranks,
                                        w->nodes + w->begin[r], &most);
    w->own = w->begin[w->rank + 1] - w->begin[w->rank];
    w->whole = malloc(LONGEST * sizeof *w->whole);
    rank_assert(w->whole);
    sum_node(w, (et_tree_node){ 0, shards, -1 }, w->whole);
    for (int i = 0; i < w->own; i++)
        rank_assert((w->mine[i] = malloc(LONGEST * sizeof *w->whole)));
    const et_rank_sums sums = { .comm = comm,
                                .kernels = w->device->kernels,
                                .nodes = w->nodes,
                                .begin = w->begin,
                                .shards = shards };
    rank_assert(!et_bucket_sum_open(&w->sum, &sums, LONGEST, &error));
    return 0;
}

static void close_world(world *w)
{
    et_bucket_sum_close(w->sum);
    for (int i = 0; i < w->own; i++)
        free(w->mine[i]);
    free(w->whole);
    et_device_close(w->device);
}

/* Arrays begin at any alignment, as buckets do. */
static int run_at(world *w, int64_t at, int64_t count, et_comm_word *word, et_error *error)
{
    float *part[MOST_SHARDS];
    for (int i = 0; i < w->own; i++)
        part[i] = w->mine[i] + at;
    return et_bucket_sum_run(w->sum, part, count, false, word, error);
}

static int rank_equal(et_comm *comm, const char *word)
{
    world w;
    et_error error = ET_ERROR_INIT;
    int wrong = open_world(&w, comm, atoi(word));
    for (int i = 0; !wrong && i < 2 * COUNTS; i++) {
        int64_t count = counts[i / 2], at = (LONGEST - count) / 2;
        bool rides = i % 2 && et_bucket_sum_carries(w.sum, count, false);
        et_comm_word said = et_comm_say(comm, ET_OK, 0);
        fill(&w);
        float before = w.mine[0][0], after = w.mine[0][LONGEST - 1];
        rank_assert(!run_at(&w, at, count, rides ? &said : NULL, &error));
        rank_assert(!memcmp(w.mine[0] + at, w.whole + at, (size_t)count * sizeof(float)));
        rank_assert(!at || w.mine[0][0] == before);
        rank_assert(!at || w.mine[0][LONGEST - 1] == after);
        rank_assert(!said.status && !said.flags);
    }
    close_world(&w);
    return wrong;
}

/* Each rank in turn has no gradients; ranks that have some learn of it from the same message. */
static int rank_words(et_comm *comm, const char *word)
{
    world w;
    et_error error = ET_ERROR_INIT;
    int wrong = open_world(&w, comm, atoi(word)), rank = et_comm_rank(comm);
    for (int i = 0; !wrong && et_bucket_sum_carries(w.sum, counts[i], false); i++)
        for (int fails = 0; fails < w.ranks; fails++) {
            unsigned flags = 0;
            char text[64];
            et_comm_word said = et_comm_say(comm, ET_OK, rank == fails ? 4 : 0);
            fill(&w);
            rank_assert(!(rank == fails
                              ? et_bucket_sum_run(w.sum, NULL, counts[i], false, &said, &error)
                              : run_at(&w, 0, counts[i], &said, &error)));
            rank_assert(!et_comm_settle(comm, &said, &flags, &error) && flags == 4);
            /* All from there on fail: the first counts. */
            int status = rank < fails ? ET_OK : et_fail(&error, ET_EDATA, "no %d", rank);
            said = et_comm_say(comm, status, 0);
            rank_assert(!(status ? et_bucket_sum_run(w.sum, NULL, counts[i], false, &said, NULL)
                                 : run_at(&w, 0, counts[i], &said, NULL)));
            rank_assert(et_comm_settle(comm, &said, NULL, &error) == ET_EDATA);
            snprintf(text, sizeof text, fails ? "on rank %d: no %d" : "no 0", fails, fails);
            rank_assert(!strcmp(error.text, text));
            et_comm_resume(comm);
            /* A rank that fails elsewhere does not know the bucket. */
            said = et_comm_say(comm, ET_OK, 0);
            status = et_fail(&error, ET_EDATA, "elsewhere");
            if (rank == fails)
                rank_assert(et_comm_agree(comm, status, NULL, &error) == ET_EDATA);
            else
                rank_assert(!run_at(&w, 0, counts[i], &said, NULL) &&
                            et_comm_settle(comm, &said, NULL, &error) == ET_EDATA);
            rank_assert(strstr(error.text, "elsewhere"));
            et_comm_resume(comm);
            said = et_comm_say(comm, ET_OK, 0);
            fill(&w);
            rank_assert(!run_at(&w, 0, counts[i], &said, &error) && !said.status && !said.flags);
            rank_assert(!memcmp(w.mine[0], w.whole, (size_t)counts[i] * sizeof(float)));
        }
    close_world(&w);
    return wrong;
}

/* Ranks whose messages are counted. */
typedef struct counted {
    et_comm comm;
    et_comm *inner;
} counted;

static int messages;

static int count_messages(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                          et_error *error)
{
    et_comm *inner = ((counted *)comm)->inner;
    messages += send.rank >= 0;
    return inner->class->exchange(inner, send, receive, came, error);
}

static const et_comm_class counted_class = { .name = "counted", .exchange = count_messages };

typedef struct expectation {
    int ranks, shards;
    int64_t count;
    const char *way;
    int messages;
} expectation;

static const expectation expected[] = {
    { 2, 2, 1, "doubling", 1 },    { 2, 8, 1004, "doubling", 1 }, { 2, 2, 1005, "halving", 2 },
    { 2, 4, 20011, "halving", 2 }, { 4, 4, 17, "doubling", 2 },   { 4, 16, 20011, "halving", 4 },
    { 8, 8, 1000, "doubling", 3 }, { 2, 3, 250, "gathering", 1 }, { 2, 6, 20011, "parts", 3 },
    { 3, 3, 16, "gathering", 2 },  { 3, 3, 20011, "parts", 4 },   { 3, 4, 1, "gathering", 2 },
    { 4, 12, 1, "gathering", 2 },  { 4, 12, 20011, "parts", 9 },  { 8, 9, 17, "gathering", 3 },
};

/* As many messages with a word as without one. */
static int rank_collectives(et_comm *comm, const char *word)
{
    et_error error = ET_ERROR_INIT;
    world w;
    const expectation *e = &expected[atoi(word)];
    counted c = {
        { .class = &counted_class, .rank = et_comm_rank(comm), .size = et_comm_size(comm) }, comm
    };
    int wrong = open_world(&w, &c.comm, e->shards);
    rank_assert(!wrong && !strcmp(et_bucket_sum_collective(w.sum, e->count, false), e->way));
    bool carries = et_bucket_sum_carries(w.sum, e->count, false);
    rank_assert(carries == (!strcmp(e->way, "doubling") || (e->way[0] == 'h' && e->count < 1985)));
    for (int i = 0; i < 1 + carries; i++) {
        et_comm_word said = et_comm_say(comm, ET_OK, 0);
        messages = 0;
        fill(&w);
        rank_assert(!run_at(&w, 0, e->count, i ? &said : NULL, &error));
        rank_assert(messages == e->messages);
    }
    close_world(&w);
    return 0;
}

static const rank_case cases[] = {
    { "equal", rank_equal }, { "words", rank_words }, { "ways", rank_collectives }, { NULL, NULL }
};

/* ---- their parent ---- */

/* Whole branches and runs that the tree cuts through, with ranks that are a power of two or not. */
static const int worlds[][2] = { { 2, 2 }, { 2, 3 }, { 2, 8 }, { 2, 11 }, { 3, 3 },
                                 { 3, 8 }, { 4, 4 }, { 4, 6 }, { 4, 7 },  { 4, 16 },
                                 { 5, 5 }, { 8, 8 }, { 8, 13 } };

enum { WORLDS = sizeof worlds / sizeof worlds[0] };

static void run_all(const char *name)
{
    for (int i = 0; i < WORLDS; i++) {
        char word[16];
        snprintf(word, sizeof word, "%d", worlds[i][1]);
        if (run_ranks(name, worlds[i][0], word))
            fail_msg("%s: %d shards over %d ranks", name, worlds[i][1], worlds[i][0]);
    }
}

static void test_bucket_sum__equal(void **state)
{
    (void)state;
    run_all("equal");
}

static void test_bucket_sum__words(void **state)
{
    (void)state;
    run_all("words");
}

static void test_bucket_sum__collectives(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char word[16];
        snprintf(word, sizeof word, "%zu", i);
        if (run_ranks("ways", expected[i].ranks, word))
            fail_msg("%s, %d ranks, %d shards", expected[i].way, expected[i].ranks,
                     expected[i].shards);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bucket_sum__equal),
        cmocka_unit_test(test_bucket_sum__words),
        cmocka_unit_test(test_bucket_sum__collectives),
    };
    return is_rank() ? run_rank(cases) : cmocka_run_group_tests(tests, NULL, NULL);
}
