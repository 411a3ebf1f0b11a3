/* The tree over ranks: the bits of one process for any numbers of shards and ranks; and one failure
 * for all ranks. */
#include "train/ranks/ranked.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/comm/ranks.h"
#include "engine/tensor/params.h"
#include "train/ranks/eval_shard.h"
#include "train/small_pass.h"
#include "train/step/step.h"

/* Some buckets of gradients, and one of means. */
enum { ROWS = 3, HIDDEN = 20000, BUCKETS = 3, MOST_SHARDS = 9, MOST_RANKS = 5 };

static void build(et_scope *s, void *payload)
{
    (void)payload;
    small_build(s, HIDDEN);
}

static const et_pass_options training = { .training = true };

/* How a step goes. */
typedef struct course {
    int bad, fails;  /* a shard that is not finite, one whose data are wrong; -1: none */
    bool unexpected; /* the reducer does not know on which batches the pass runs */
    bool again;      /* the pass runs for another, too */
} course;

static const course all_well = { .bad = -1, .fails = -1 };

/* Reduces the batches of an update, skipping those of other ranks. */
static int reduce_as(small_pass *s, et_reducer *reducer, course c, et_reduced *out, et_error *error)
{
    int status = ET_OK;
    et_reducer_begin(reducer);
    for (int i = 0; i < reducer->shards; i++) {
        status = status ? status : et_source_next(s->source, s->batch, error);
        if (i < reducer->first || i >= reducer->end || status)
            continue;
        if (i == c.bad)
            *(float *)s->batch->data[0] = INFINITY;
        if (!c.unexpected)
            et_reducer_expect(reducer, i);
        status = i == c.fails ? et_fail(error, ET_EDATA, "shard %d", i)
                              : et_pass_run(s->pass, s->batch, 1, 0, error);
        if (!status)
            status = et_reducer_add(reducer, i, s->pass, error);
        if (!status && c.again)
            status = et_pass_run(s->pass, s->batch, 1, 0, error);
    }
    status = et_reducer_meet(reducer, status, error);
    return status ? status : et_reducer_end(reducer, out, error);
}

static int reduce(small_pass *s, et_reducer *reducer, int bad, int fails, et_reduced *out,
                  et_error *error)
{
    return reduce_as(s, reducer, (course){ .bad = bad, .fails = fails }, out, error);
}

static int rank_equal(et_comm *comm, const char *word)
{
    int shards = atoi(word);
    small_pass one, mine;
    et_reducer *tree, *ranked, *other = NULL;
    et_reduced expected, found;
    et_error error = ET_ERROR_INIT;
    small_open(&one, build, ROWS, &training);
    small_open(&mine, build, ROWS, &training);
    rank_assert(!et_tree_open(&tree, one.pass, shards, &error));
    rank_assert(!et_ranked_open(&ranked, mine.pass, shards, comm, &error));
    size_t bytes = (size_t)et_params_trained_size(one.params) * sizeof(float);
    for (int step = 0; step < 3; step++) {
        course c = all_well;
        /* Another listener replaces it in the pass. */
        if (step == 1)
            rank_assert(!et_ranked_open(&other, mine.pass, shards, comm, &error));
        if (step == 2)
            et_reducer_close(other);
        c.unexpected = step == 1 && shards % 2;
        c.again = step == 2;
        rank_assert(!reduce_as(&one, tree, all_well, &expected, &error));
        rank_assert(!reduce_as(&mine, ranked, c, &found, &error));
        rank_assert(!memcmp(expected.gradient, found.gradient, bytes));
        rank_assert(!memcmp(expected.means, found.means, (1 + FEATURES) * sizeof(float)));
        rank_assert(expected.loss == found.loss && expected.divisor == found.divisor);
        rank_assert(expected.measures == found.measures);
        for (int i = 0; i < found.measures; i++)
            rank_assert(expected.measured[i].total == found.measured[i].total &&
                        expected.measured[i].weight == found.measured[i].weight &&
                        !strcmp(expected.measured[i].name, found.measured[i].name));
    }
    et_reducer_close(tree);
    et_reducer_close(ranked);
    small_close(&one);
    small_close(&mine);
    return 0;
}

/* Each shard in turn fails; all ranks know which it was, and the text. */
static int rank_fails(et_comm *comm, const char *word)
{
    int shards = atoi(word);
    small_pass s;
    et_reducer *ranked;
    et_reduced sum;
    et_error error = ET_ERROR_INIT;
    small_open(&s, build, ROWS, &training);
    rank_assert(!et_ranked_open(&ranked, s.pass, shards, comm, &error));
    for (int bad = 0; bad < shards; bad++) {
        char text[64];
        rank_assert(reduce(&s, ranked, bad, -1, &sum, &error) == ET_EDIVERGED);
        rank_assert(ranked->bad == bad);
        bool owner = bad >= ranked->first && bad < ranked->end;
        et_fail(&error, ET_EDIVERGED, owner ? "shard %d it was" : "not mine", bad);
        rank_assert(et_reducer_failed(ranked, bad, ET_EDIVERGED, &error) == ET_EDIVERGED);
        snprintf(text, sizeof text, "shard %d it was", bad);
        rank_assert(!strcmp(error.text, text));
        rank_assert(reduce(&s, ranked, -1, bad, &sum, &error) == ET_EDATA);
        snprintf(text, sizeof text, "shard %d", bad);
        rank_assert(strstr(error.text, text));
        et_comm_resume(comm);
        rank_assert(!reduce(&s, ranked, -1, -1, &sum, &error));
    }
    et_reducer_close(ranked);
    small_close(&s);
    return 0;
}

/* ---- while the pass runs ---- */

/* Ranks whose bytes are counted, over the ranks of inner. */
typedef struct counted {
    et_comm comm;
    et_comm *inner;
} counted;

static _Atomic size_t sent;
static _Atomic int messages;

static int count_sent(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                      et_error *error)
{
    et_comm *inner = ((counted *)comm)->inner;
    int status = inner->class->exchange(inner, send, receive, came, error);
    sent += send.size;
    messages++;
    return status;
}

static const et_comm_class one_thread = { .name = "counted", .exchange = count_sent };
static const et_comm_class any_thread = { .name = "counted",
                                          .exchange = count_sent,
                                          .any_thread = true };

static counted count_on(et_comm *inner, bool any)
{
    return (counted){ { .class = any ? &any_thread : &one_thread,
                        .rank = et_comm_rank(inner),
                        .size = et_comm_size(inner) },
                      inner };
}

/* Up to a minute: how much has been sent, once that is more than so much. */
static size_t sent_more_than(size_t bytes)
{
    for (double begun = et_clock_monotonic(); sent <= bytes && et_clock_monotonic() - begun < 60;)
        usleep(1000);
    return sent;
}

/* All gradients except those after add are there before add is called: the pass sends them. */
static int rank_early(et_comm *comm, const char *word)
{
    (void)word;
    small_pass s;
    et_reducer *ranked;
    et_reduced sum;
    et_error error = ET_ERROR_INIT;
    counted c = count_on(comm, true);
    small_open(&s, build, ROWS, &training);
    rank_assert(!et_ranked_open(&ranked, s.pass, 2, &c.comm, &error));
    size_t gradient = (size_t)et_params_trained_size(s.params) * sizeof(float);
    for (int step = 0; step < 2; step++) {
        sent = 0;
        et_reducer_begin(ranked);
        rank_assert(!et_source_next(s.source, s.batch, &error));
        et_reducer_expect(ranked, et_comm_rank(comm));
        rank_assert(!et_pass_run(s.pass, s.batch, 1, 0, &error));
        rank_assert(sent_more_than(gradient - 1) >= gradient);
        rank_assert(!et_reducer_add(ranked, et_comm_rank(comm), s.pass, &error));
        rank_assert(!et_reducer_meet(ranked, ET_OK, &error));
        rank_assert(!et_reducer_end(ranked, &sum, &error));
    }
    et_reducer_close(ranked);
    small_close(&s);
    et_free(c.comm.scratch);
    return 0;
}

/* One bucket after another, as each becomes ready, in rank 0's order. word: "any" thread, or
 * "first": the transport only accepts one thread. */
static int rank_buckets(et_comm *comm, const char *word)
{
    enum { END = 1000 };
    et_error error = ET_ERROR_INIT;
    small_pass s;
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm), begin[MOST_RANKS + 1];
    et_tree_node nodes[MOST_RANKS];
    int64_t ends[] = { 100, 107, END };
    et_buckets buckets = { ends, 3, 3 };
    bool any = !strcmp(word, "any"), bad;
    counted c = count_on(comm, any);
    small_open(&s, build, ROWS, &training);
    for (int i = 0; i <= ranks; i++)
        begin[i] = i;
    for (int i = 0; i < ranks; i++)
        nodes[i] = (et_tree_node){ i, 1, -1 };
    int *order = malloc(3 * sizeof *order);
    rank_assert(order);
    for (int i = 0; i < 3; i++)
        order[i] = rank ? i : 2 - i;
    et_exchange *exchange;
    et_exchange_parts parts = { .sums = { &c.comm, et_pass_device(s.pass)->kernels, nodes, begin,
                                          ranks },
                                .buckets = &buckets,
                                .order = order };
    rank_assert(!et_exchange_open(&exchange, &parts, &error));
    for (int step = 0; step < 3; step++) {
        float values[END], *mine[] = { values };
        sent = 0;
        et_exchange_begin(exchange, ET_OK, false, NULL, mine);
        for (int i = 2; i >= 0; i--) {
            size_t before = sent;
            for (int64_t k = i ? ends[i - 1] : 0; k < ends[i]; k++)
                values[k] = (float)(k + rank + step);
            et_exchange_ready(exchange, i);
            rank_assert(i != 2 || !any || sent_more_than(before) > before);
        }
        rank_assert(!et_exchange_wait(exchange, &bad, &error) && !bad);
        for (int64_t k = 0; k < END; k++)
            rank_assert(values[k] == (float)(ranks * (k + step) + ranks * (ranks - 1) / 2));
        /* No rank sends if one has a bad value, or has failed. */
        et_exchange_begin(exchange, ET_OK, rank == 1, NULL, rank == 1 ? NULL : mine);
        rank_assert(!et_exchange_wait(exchange, &bad, &error) && bad);
        int status = rank ? ET_OK : et_fail(&error, ET_EDATA, "a file");
        et_exchange_begin(exchange, status, false, &error, mine);
        rank_assert(et_exchange_wait(exchange, &bad, &error) == ET_EDATA && !bad);
        rank_assert(!strcmp(error.text, "a file"));
        et_comm_resume(&c.comm);
        rank_assert(values[1] == (float)(ranks * (1 + step) + ranks * (ranks - 1) / 2));
    }
    et_exchange_close(exchange);
    small_close(&s);
    et_free(c.comm.scratch);
    return 0;
}

/* Messages of an update for which all is ready; rank `early` begins by its thread, -1: none does.
 */
static int add_ready(et_comm *comm, int early, int *count)
{
    enum { COUNT = 8, EACH = 5000, END = COUNT * EACH };
    static float values[END];
    float *mine[] = { values };
    et_error error = ET_ERROR_INIT;
    small_pass s;
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm), begin[MOST_RANKS + 1];
    et_tree_node nodes[MOST_RANKS];
    int64_t ends[COUNT];
    et_buckets buckets = { ends, COUNT, COUNT - 1 };
    counted c = count_on(comm, rank == early);
    bool bad;
    small_open(&s, build, ROWS, &training);
    int *order = malloc(COUNT * sizeof *order);
    rank_assert(order);
    for (int i = 0; i < COUNT; i++) {
        ends[i] = (i + 1) * EACH;
        order[i] = COUNT - 1 - i;
    }
    for (int i = 0; i <= ranks; i++) {
        begin[i] = i;
        nodes[i < ranks ? i : 0] = (et_tree_node){ i < ranks ? i : 0, 1, -1 };
    }
    et_exchange *exchange;
    et_exchange_parts parts = { .sums = { &c.comm, et_pass_device(s.pass)->kernels, nodes, begin,
                                          ranks },
                                .buckets = &buckets,
                                .order = order };
    rank_assert(!et_exchange_open(&exchange, &parts, &error));
    for (int step = 0; step < 2; step++) {
        for (int64_t k = 0; k < END; k++)
            values[k] = (float)(k % 1000 + rank + step);
        messages = 0;
        et_exchange_begin(exchange, ET_OK, false, NULL, mine);
        for (int i = 0; i < COUNT; i++)
            et_exchange_ready(exchange, i);
        for (double since = et_clock_monotonic(); rank == early && !messages;)
            rank_assert(et_clock_monotonic() - since < 60);
        rank_assert(!et_exchange_wait(exchange, &bad, &error) && !bad);
        *count = messages;
        for (int64_t k = 0; k < END; k++)
            rank_assert(values[k] == (float)(ranks * (k % 1000 + step) + ranks * (ranks - 1) / 2));
    }
    et_exchange_close(exchange);
    small_close(&s);
    et_free(c.comm.scratch);
    return 0;
}

/* If all ranks have everything, buckets are joined into one; if one rank has begun earlier, they
 * are not. */
static int rank_joined(et_comm *comm, const char *word)
{
    int joined, apart;
    (void)word;
    int line = add_ready(comm, -1, &joined);
    if (!line)
        line = add_ready(comm, et_comm_size(comm) - 1, &apart);
    rank_assert(line || apart > 2 * joined);
    return line;
}

/* ---- in half the bytes ---- */

static float rounded(float value)
{
    return et_bf16_to_float(et_bf16_from_float(value));
}

static float value_of(int rank, int64_t k)
{
    return (float)(rank + 1) * 0.37f * (float)k + 0.001f;
}

/* What rank `owner` adds up of up to three ranks, and all get. */
static float half_sum(int ranks, int owner, int64_t k)
{
    float sum = 0;
    for (int r = 0; r < ranks; r++) {
        float value = r == owner ? value_of(r, k) : rounded(value_of(r, k));
        sum = r ? sum + value : value;
    }
    return rounded(sum);
}

/* Two buckets of gradients, and one that is not rounded; counts the bytes. */
static int rank_halves(et_comm *comm, const char *word)
{
    enum { PART = 64, GRADIENTS = 2 * 3 * PART, END = GRADIENTS + 48 };
    et_error error = ET_ERROR_INIT;
    small_pass s;
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm), begin[MOST_RANKS + 1];
    et_tree_node nodes[MOST_RANKS];
    int64_t ends[] = { ranks * PART, 2 * ranks * PART, 2 * ranks * PART + 48 };
    et_buckets buckets = { ends, 3, 2 };
    float values[END], *mine[] = { values };
    counted c = count_on(comm, true);
    bool bad;
    (void)word;
    c.comm.bfloat16_gradients = true;
    small_open(&s, build, ROWS, &training);
    for (int i = 0; i < ranks; i++) {
        nodes[i] = (et_tree_node){ i, 1, -1 };
        begin[i] = i;
    }
    begin[ranks] = ranks;
    int *order = malloc(3 * sizeof *order);
    rank_assert(order);
    for (int i = 0; i < 3; i++)
        order[i] = i;
    et_exchange *exchange;
    et_exchange_parts parts = { .sums = { &c.comm, et_pass_device(s.pass)->kernels, nodes, begin,
                                          ranks },
                                .buckets = &buckets,
                                .order = order };
    rank_assert(!et_exchange_open(&exchange, &parts, &error));
    for (int step = 0; step < 2; step++) {
        for (int64_t k = 0; k < ends[2]; k++)
            values[k] = value_of(rank, k);
        sent = 0;
        et_exchange_begin(exchange, ET_OK, false, NULL, mine);
        rank_assert(!et_exchange_wait(exchange, &bad, &error) && !bad);
        for (int64_t k = 0; k < ends[1]; k++)
            rank_assert(values[k] == half_sum(ranks, (int)(k / PART % ranks), k));
        for (int64_t k = ends[1]; k < ends[2]; k++) {
            float sum = value_of(0, k);
            for (int r = 1; r < ranks; r++)
                sum += value_of(r, k);
            rank_assert(values[k] == sum);
        }
        /* Agreement and order aside. */
        rank_assert(sent > (size_t)(4 * PART * (ranks - 1)) * sizeof(et_bf16) &&
                    sent < (size_t)(4 * PART * (ranks - 1)) * sizeof(float));
    }
    et_exchange_close(exchange);
    small_close(&s);
    et_free(c.comm.scratch);
    return 0;
}

/* The same on all ranks and in every run; near the whole sum, which is nowhere. */
static int rank_half_equal(et_comm *comm, const char *word)
{
    int shards = atoi(word), ranks = et_comm_size(comm);
    small_pass one, mine;
    et_reducer *tree, *ranked;
    et_reduced exact, found;
    et_error error = ET_ERROR_INIT;
    comm->bfloat16_gradients = true;
    small_open(&one, build, ROWS, &training);
    small_open(&mine, build, ROWS, &training);
    rank_assert(!et_tree_open(&tree, one.pass, shards, &error));
    rank_assert(!et_ranked_open(&ranked, mine.pass, shards, comm, &error));
    int64_t count = et_params_trained_size(one.params);
    float *all = malloc((size_t)(ranks * count) * sizeof *all);
    rank_assert(all && !reduce(&one, tree, -1, -1, &exact, &error));
    rank_assert(!reduce(&mine, ranked, -1, -1, &found, &error));
    rank_assert(!et_comm_gather(comm, found.gradient, (size_t)count * sizeof *all, all, &error));
    double largest = 0, off = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs(exact.gradient[i]));
        off = fmax(off, fabs(exact.gradient[i] - found.gradient[i]));
        for (int r = 0; r < ranks; r++)
            rank_assert(all[r * count + i] == all[i]);
    }
    rank_assert(off > 0 && off < largest * shards / 64);
    rank_assert(exact.loss == found.loss && exact.divisor == found.divisor);
    rank_assert(!memcmp(exact.means, found.means, (1 + FEATURES) * sizeof(float)));
    free(all);
    et_reducer_close(tree);
    et_reducer_close(ranked);
    small_close(&one);
    small_close(&mine);
    return 0;
}

static int rank_few(et_comm *comm, const char *word)
{
    small_pass s;
    et_reducer *ranked;
    et_error error = ET_ERROR_INIT;
    (void)word;
    small_open(&s, build, ROWS, &training);
    rank_assert(et_ranked_open(&ranked, s.pass, et_comm_size(comm) - 1, comm, &error) ==
                ET_ECONFIG);
    rank_assert(!ranked && strstr(error.text, "data_shards"));
    small_close(&s);
    return 0;
}

/* Merging is exact: the same on all, whatever the order. */
static int rank_metrics(et_comm *comm, const char *word)
{
    et_metrics *one, *mine;
    et_error error = ET_ERROR_INIT;
    int rank = et_comm_rank(comm), ranks = et_comm_size(comm);
    (void)word;
    rank_assert(!et_metrics_new(&one, &error) && !et_metrics_new(&mine, &error));
    rank_assert(!et_metrics_define(one, "mean", &et_metric_mean, &error));
    rank_assert(!et_metrics_define(mine, "mean", &et_metric_mean, &error));
    for (int i = 0; i < 20 * ranks; i++) {
        et_metrics_add(one, "mean", pow(-1.7, i % 60), 1);
        if (i % ranks == rank)
            et_metrics_add(mine, "mean", pow(-1.7, i % 60), 1);
    }
    rank_assert(!et_metrics_sum_ranks(mine, comm, &error));
    rank_assert(et_metrics_value(one, "mean") == et_metrics_value(mine, "mean"));
    et_metrics_free(one);
    et_metrics_free(mine);
    return 0;
}

/* ---- a step's samples ---- */

enum { STEPS = 7 };

/* What passes have run on, in order: step, shard, sample. */
static int note_ids(void *self, et_step *step, et_error *error)
{
    (void)error;
    for (int64_t i = 0; i < step->batch->filled[0]; i++)
        fprintf(self, "%lld %d %lu\n", (long long)step->count, step->drawn - 1,
                (unsigned long)step->batch->sample[i]);
    return ET_OK;
}

static void log_steps(et_comm *comm, int shards, const char *path)
{
    small_pass s;
    et_step step;
    et_metrics *metrics;
    et_optimizer *optimizer;
    et_overflow overflow = et_overflow_fail();
    FILE *log = fopen(path, "w");
    assert_non_null(log);
    small_open(&s, build, ROWS, &training);
    assert_ok(et_metrics_new(&metrics, error));
    assert_ok(et_optimizer_open(&optimizer, s.device, s.params, "", NULL, error));
    et_reducer *reducer;
    if (comm)
        assert_ok(et_ranked_open(&reducer, s.pass, shards, comm, error));
    else
        assert_ok(et_tree_open(&reducer, s.pass, shards, error));
    et_step_parts parts = { .source = s.source,
                            .pass = s.pass,
                            .optimizer = optimizer,
                            .overflow = &overflow,
                            .metrics = metrics,
                            .prefix = "training_",
                            .reducer = reducer,
                            .hooks = { .self = log, .seen = note_ids } };
    assert_ok(et_step_open(&step, &parts, error));
    for (int i = 0; i < STEPS; i++)
        assert_ok(et_step_run(&step, error));
    et_step_release(&step);
    et_optimizer_free(optimizer);
    et_metrics_free(metrics);
    small_close(&s);
    fclose(log);
}

/* word: the number of shards, and the name of the log. */
static int rank_ids(et_comm *comm, const char *word)
{
    char path[64], *end;
    int shards = (int)strtol(word, &end, 10);
    snprintf(path, sizeof path, "%s.%d", end + 1, et_comm_rank(comm));
    log_steps(comm, shards, path);
    return 0;
}

static const rank_case cases[] = {
    { "ids", rank_ids },
    { "equal", rank_equal },
    { "fails", rank_fails },
    { "early", rank_early },
    { "buckets", rank_buckets },
    { "joined", rank_joined },
    { "few", rank_few },
    { "metrics", rank_metrics },
    { "halves", rank_halves },
    { "half equal", rank_half_equal },
    { NULL, NULL },
};

/* ---- their parent ---- */

static void test_ranked__equal(void **state)
{
    (void)state;
    for (int shards = 2; shards <= MOST_SHARDS; shards++)
        for (int ranks = 1; ranks <= MOST_RANKS && ranks <= shards; ranks++) {
            char word[16];
            snprintf(word, sizeof word, "%d", shards);
            if (run_ranks("equal", ranks, word))
                fail_msg("%d shards over %d ranks", shards, ranks);
        }
}

static void test_ranked__fails(void **state)
{
    (void)state;
    assert_int_equal(run_ranks("fails", 1, "3"), 0);
    assert_int_equal(run_ranks("fails", 2, "5"), 0);
    assert_int_equal(run_ranks("fails", 4, "4"), 0);
    assert_int_equal(run_ranks("few", 3, ""), 0);
    assert_int_equal(run_ranks("metrics", 4, ""), 0);
}

/* Depends only on the parameters: whole, in order, aligned, neither tiny nor huge. */
static void test_ranked__cut(void **state)
{
    static const int64_t sizes[] = { 1, 15, 100000, 3000000, 20000, 20000, 7, 700000 };
    (void)state;
    for (int64_t times = 1; times < 100; times *= 7) {
        et_params *params;
        et_buckets buckets;
        char name[16];
        int index;
        assert_ok(et_params_new(&params, error));
        for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
            snprintf(name, sizeof name, "p%zu", i);
            assert_ok(et_params_declare(params, name, et_shape_1(sizes[i] * times),
                                        (et_init){ ET_INIT_ZEROS, 0 }, &index, error));
        }
        assert_ok(et_params_materialize(params, false, error));
        assert_ok(et_buckets_divide(&buckets, params, 3, error));
        int64_t trained = et_params_trained_size(params), begin = 0;
        assert_int_equal(buckets.count, buckets.trained + 1);
        assert_int_equal(buckets.end[buckets.trained], trained + 3);
        assert_int_equal(buckets.end[buckets.trained - 1], trained);
        assert_true(buckets.trained > 8 && buckets.trained < 33);
        for (int i = 0; i < buckets.trained; begin = buckets.end[i++]) {
            assert_true(buckets.end[i] > begin && buckets.end[i] % 16 == 0);
            assert_true(buckets.end[i] - begin < trained / 4);
        }
        et_buckets_release(&buckets);
        et_params_free(params);
    }
    small_pass s;
    et_buckets buckets;
    small_open(&s, build, ROWS, &training);
    assert_ok(et_buckets_divide(&buckets, s.params, 1 + FEATURES, error));
    assert_int_equal(buckets.count, BUCKETS);
    et_buckets_release(&buckets);
    small_close(&s);
}

static void test_ranked__early(void **state)
{
    (void)state;
    assert_int_equal(run_ranks("early", 2, ""), 0);
    for (int ranks = 2; ranks <= 4; ranks++) {
        assert_int_equal(run_ranks("buckets", ranks, "any"), 0);
        assert_int_equal(run_ranks("buckets", ranks, "first"), 0);
        assert_int_equal(run_ranks("joined", ranks, ""), 0);
    }
}

static void test_ranked__halves(void **state)
{
    (void)state;
    for (int ranks = 2; ranks <= 3; ranks++) {
        assert_int_equal(run_ranks("halves", ranks, ""), 0);
        assert_int_equal(run_ranks("half equal", ranks, "5"), 0);
    }
}

/* The ranks' logs together are that of one process: in its order, no sample is missing or comes
 * twice. */
static void test_ranked__ids(void **state)
{
    static const int shards[] = { 4, 5, 8 };
    (void)state;
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++)
        for (int ranks = 2; ranks <= 4; ranks++) {
            char name[32], word[48], command[256];
            snprintf(name, sizeof name, "ids.%d.%d.%d", (int)getpid(), shards[i], ranks);
            snprintf(word, sizeof word, "%d %s", shards[i], name);
            log_steps(NULL, shards[i], name);
            assert_int_equal(run_ranks("ids", ranks, word), 0);
            snprintf(command, sizeof command,
                     "sort -s -k1,1n -k2,2n %s.? | cmp - %s && [ -s %s ] && rm %s*", name, name,
                     name, name);
            assert_int_equal(system(command), 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranked__cut),    cmocka_unit_test(test_ranked__early),
        cmocka_unit_test(test_ranked__equal),  cmocka_unit_test(test_ranked__fails),
        cmocka_unit_test(test_ranked__halves), cmocka_unit_test(test_ranked__ids),
    };
    return is_rank() ? run_rank(cases) : cmocka_run_group_tests(tests, NULL, NULL);
}
