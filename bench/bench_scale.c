/* Compares ranks with threads on this machine, and estimates the speed of many machines.
 *
 *     bench_scale [tiny|base] [STEPS] [NAME=VALUE ...]
 *
 * The program starts itself as ranks, connected by sockets, and prints two tables for
 * doc/reference/scale.md:
 *
 *   1 x 2 and 2 x 1    tokens per second of one process with two threads and of two ranks with one
 *                      thread each, in turn, with two shards per update
 *   the model          of scale_model.h: its parts, measured here by one process with one thread;
 *                      its step time for 1, 2 and 4 ranks with four shards, and the measured step
 *                      time; its step time for 1 to 1,024 machines with one shard each, for the
 *                      network that NAME=VALUE describes
 *
 *     latency=20e-6 bandwidth=1.25e9    of the network: seconds, bytes per second each way
 *     years=3                           mean time between two failures of a machine
 *     restart=90                        seconds from a failure to the next step
 *     rounds=3 vocabulary=10000         rounds of threads and ranks in turn; tokens
 *     a.b.c=value                       any setting of an experiment
 *
 * The cost of a checkpoint is the time to write its bytes to a file and to the disk. A save delays
 * steps by that time if nothing else runs during the save. */
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "bench.h"
#include "engine/comm/comm.h"
#include "engine/tensor/params.h"
#include "model.h"
#include "scale_model.h"
#include "train/ranks/ranked.h"

#define STEPS_MAX    200
#define SETTINGS_MAX 16
#define ROUNDS_MAX   20
#define MESSAGES     100
#define SHARDS       4
#define LARGE        ((size_t)8 << 20) /* bytes of a message whose time is all way */
#define YEAR         (365.25 * 86400)

/* The work of a rank, which answers through a file. */
typedef enum scale_task { TASK_STEPS, TASK_PARTS, TASK_NETWORK } scale_task;

typedef struct scale_answer {
    double seconds, tokens;         /* of a step */
    scale_work work;                /* for TASK_PARTS, as the following */
    double adds, checkpoint, bytes; /* bytes: of a checkpoint */
    double latency, bandwidth;      /* TASK_NETWORK */
} scale_answer;

typedef struct scale_request {
    const char *model;
    int steps;
    const char *settings[SETTINGS_MAX];
    int setting_count;
    scale_network network; /* of many machines */
    double years, restart, rounds, vocabulary;
} scale_request;

/* ---- in a rank ---- */

static void open_model(bench_model *model, const scale_request *r, int shards, et_comm *comm)
{
    bench_model_options options = BENCH_MODEL_OPTIONS_INIT;
    options.name = r->model;
    options.vocabulary = (int32_t)r->vocabulary;
    options.settings = r->settings;
    options.setting_count = r->setting_count;
    options.shards = shards;
    options.comm = comm;
    bench_model_open(model, &options);
}

static void time_steps(const scale_request *r, int shards, et_comm *comm, scale_answer *out)
{
    static double seconds[STEPS_MAX];
    bench_model model;
    double since = 0;
    open_model(&model, r, shards, comm);
    bench_model_step(&model);
    bench_lap(&since);
    for (int i = 0; i < r->steps; i++) {
        bench_model_step(&model);
        seconds[i] = bench_lap(&since);
        out->tokens += (double)model.step.units / r->steps;
    }
    out->seconds = bench_median(seconds, r->steps);
    bench_model_close(&model);
}

/* When gradients are ready. */
typedef struct hearing {
    double begun, at[SCALE_BUCKETS_MOST]; /* sums, over passes */
    double bytes[SCALE_BUCKETS_MOST];
    int heard;
    et_buckets buckets;
} hearing;

static void hear(void *self, int bucket)
{
    hearing *h = self;
    int64_t begin = bucket ? h->buckets.end[bucket - 1] : 0;
    h->at[h->heard] += et_clock_monotonic() - h->begun;
    h->bytes[h->heard++] = (double)(h->buckets.end[bucket] - begin) * sizeof(float);
}

static void fill_work(scale_work *w, const hearing *h, double *passes, int count)
{
    double squares = 0, mean = 0;
    for (int i = 0; i < count; i++)
        mean += passes[i] / count;
    for (int i = 0; i < count; i++)
        squares += (passes[i] - mean) * (passes[i] - mean);
    w->pass = bench_median(passes, count);
    w->deviation = sqrt(squares / count);
    w->buckets = h->buckets.trained;
    for (int i = 0; i < w->buckets; i++) {
        w->bytes[i] = h->bytes[i];
        w->ready[i] = fmin(1, h->at[i] / count / mean);
    }
}

/* Batches of several shards, as a rank has them, part by part. */
static void time_passes(bench_model *m, int count, scale_work *w)
{
    static double passes[STEPS_MAX], adds[STEPS_MAX];
    et_error error = ET_ERROR_INIT;
    hearing h = { 0 };
    et_reducer *tree;
    bench_check(et_buckets_divide(&h.buckets, m->params, 0, &error), &error);
    if (h.buckets.count > SCALE_BUCKETS_MOST)
        bench_check(et_fail(&error, ET_EFAIL, "%d buckets", h.buckets.count), &error);
    const et_plan_listener listener = { h.buckets.end, h.buckets.count, hear, &h };
    bench_check(et_pass_listen(m->pass, &listener, &error), &error);
    bench_check(et_tree_open(&tree, m->pass, count, &error), &error);
    et_reducer_begin(tree);
    for (int i = 0; i < count; i++) {
        bench_check(et_source_next(m->source, m->step.batch, &error), &error);
        h.begun = et_clock_monotonic();
        h.heard = 0;
        bench_check(et_pass_run(m->pass, m->step.batch, 1, (uint64_t)i, &error), &error);
        passes[i] = et_clock_monotonic() - h.begun;
        double since = 0;
        bench_lap(&since);
        bench_check(et_reducer_add(tree, i, m->pass, &error), &error);
        adds[i] = bench_lap(&since);
    }
    et_reducer_close(tree);
    et_pass_listen(m->pass, NULL, NULL);
    fill_work(w, &h, passes, count);
    w->add = bench_median(adds, count);
    et_buckets_release(&h.buckets);
}

/* Bytes of weights and slots, written and on the disk. */
static double time_file(size_t bytes)
{
    enum { BLOCK = 1 << 20 };
    char path[] = "scale.XXXXXX", *block = calloc(1, BLOCK);
    int fd = block ? mkstemp(path) : -1;
    double since = 0;
    bench_lap(&since);
    for (size_t at = 0; fd >= 0 && at < bytes; at += BLOCK)
        if (write(fd, block, BLOCK) != BLOCK)
            fd = -1;
    if (fd < 0 || fsync(fd)) {
        perror("a file of a checkpoint's size");
        exit(1);
    }
    double seconds = bench_lap(&since);
    close(fd);
    unlink(path);
    free(block);
    return seconds;
}

/* Bytes a second; not the first time, which brings memory. */
static double time_adding(const bench_model *m)
{
    enum { TIMES = 5 };
    int64_t trained = et_params_trained_size(m->params);
    float *more = et_alloc_aligned((size_t)trained * sizeof *more, 64);
    double since = 0, seconds[TIMES];
    if (!more)
        exit(1);
    memset(more, 0, (size_t)trained * sizeof *more);
    bench_lap(&since);
    for (int i = 0; i < TIMES; i++) {
        m->device->kernels->accumulate(et_params_gradients(m->params), more, trained);
        seconds[i] = bench_lap(&since);
    }
    et_free(more);
    return (double)trained * sizeof *more / bench_median(seconds, TIMES);
}

static void time_parts(const scale_request *r, scale_answer *out)
{
    bench_model m;
    int count = r->steps < 2 ? 2 : r->steps;
    open_model(&m, r, 1, NULL);
    bench_model_step(&m);
    time_passes(&m, count, &out->work);
    double since = 0, seconds[STEPS_MAX];
    bench_lap(&since);
    for (int i = 0; i < r->steps; i++) {
        bench_model_step(&m);
        seconds[i] = bench_lap(&since);
    }
    out->work.rest = fmax(0, bench_median(seconds, r->steps) - out->work.pass);
    out->adds = time_adding(&m);
    out->bytes = (double)et_params_flat_size(m.params) * sizeof(float) +
                 (double)et_optimizer_bytes(m.optimizer);
    out->checkpoint = time_file((size_t)out->bytes);
    bench_model_close(&m);
}

static double time_message(et_comm *comm, size_t size, int count)
{
    static double seconds[MESSAGES];
    et_error error = ET_ERROR_INIT;
    int other = 1 - et_comm_rank(comm);
    char *out = et_alloc_zero(size, 1), *in = et_alloc_zero(size, 1);
    double since = 0;
    if (!out || !in)
        exit(1);
    bench_lap(&since);
    for (int i = 0; i < count; i++) {
        bench_check(et_comm_exchange(comm, (et_comm_chunk){ other, out, size },
                                     (et_comm_chunk){ other, in, size }, &error),
                    &error);
        seconds[i] = bench_lap(&since);
    }
    et_free(out);
    et_free(in);
    return bench_median(seconds, count);
}

static int run_rank(const scale_request *r, scale_task task, int shards, const char *path)
{
    static scale_answer answer;
    et_error error = ET_ERROR_INIT;
    et_comm *comm;
    bench_check(et_comm_open(&comm, NULL, &error), &error);
    if (task == TASK_STEPS)
        time_steps(r, shards, comm, &answer);
    if (task == TASK_PARTS)
        time_parts(r, &answer);
    if (task == TASK_NETWORK) {
        answer.latency = time_message(comm, 8, MESSAGES);
        answer.bandwidth =
            LARGE / fmax(1e-9, time_message(comm, LARGE, MESSAGES / 5) - answer.latency);
    }
    if (et_comm_rank(comm) == 0) {
        FILE *file = fopen(path, "wb");
        if (!file || fwrite(&answer, sizeof answer, 1, file) != 1 || fclose(file)) {
            perror(path);
            return 1;
        }
    }
    et_comm_close(comm);
    return 0;
}

/* ---- starting ranks ---- */

static char **arguments; /* of this program, from which ranks make theirs */
static int argument_count;

/* Runs SELF rank TASK SHARDS PATH, followed by this program's own arguments. */
static scale_answer ask(scale_task task, int ranks, int threads, int shards)
{
    char path[] = "answer.XXXXXX", rank[] = "rank", words[3][16],
         *argv[SETTINGS_MAX + 16] = { arguments[0] };
    pid_t pids[ET_RANKS_MAX];
    et_error error = ET_ERROR_INIT;
    scale_answer answer;
    int fd = mkstemp(path), status, wrong = fd < 0;
    snprintf(words[0], sizeof words[0], "%d", (int)task);
    snprintf(words[1], sizeof words[1], "%d", shards);
    snprintf(words[2], sizeof words[2], "%d", threads);
    setenv("OMP_NUM_THREADS", words[2], 1);
    char *mine[] = { rank, words[0], words[1], path };
    memcpy(argv + 1, mine, sizeof mine);
    memcpy(argv + 5, arguments + 1, (size_t)argument_count * sizeof *argv);
    bench_check(et_ranks_start(pids, ranks, argv, &error), &error);
    for (int i = 0; i < ranks; i++)
        if (waitpid(pids[i], &status, 0) != pids[i] || status)
            wrong = 1;
    if (wrong || read(fd, &answer, sizeof answer) != (ssize_t)sizeof answer) {
        fprintf(stderr, "bench_scale: a rank has failed\n");
        exit(1);
    }
    close(fd);
    unlink(path);
    return answer;
}

static double rate_of(int ranks, int threads)
{
    scale_answer a = ask(TASK_STEPS, ranks, threads, 2);
    return a.tokens / a.seconds;
}

static void compare_threads(const scale_request *r)
{
    double threads[ROUNDS_MAX], ranks[ROUNDS_MAX], ratio[ROUNDS_MAX];
    const int rounds = (int)r->rounds;
    for (int i = 0; i < rounds; i++) {
        threads[i] = rate_of(1, 2);
        ranks[i] = rate_of(2, 1);
        ratio[i] = ranks[i] / threads[i];
    }
    double share = bench_median(ratio, rounds);
    printf("\n| %s, two shards | target tokens/s |\n|---|---|\n", r->model);
    printf("| one process, 2 threads | %.0f |\n", bench_median(threads, rounds));
    printf("| 2 ranks, 1 thread each | %.0f |\n", bench_median(ranks, rounds));
    printf("| ratio (goal: 0.95) | %.3f |\n", share);
    bench_figure(share, "ratio", NAN, "scale.%s.ranks_threads", r->model);
}

static void print_parts(const scale_request *r, const scale_answer *parts,
                        const scale_network *here)
{
    const scale_work *w = &parts->work;
    double bytes = 0, early = 0;
    for (int i = 0; i < w->buckets; i++) {
        bytes += w->bytes[i];
        early += w->bytes[i] * (1 - w->ready[i]) * w->pass;
    }
    printf("\n| part, %s, one thread | |\n|---|---|\n", r->model);
    printf("| pass over a shard | %.1f ms, deviation %.1f ms |\n", 1e3 * w->pass,
           1e3 * w->deviation);
    printf("| adding a shard; data and update | %.1f ms; %.1f ms |\n", 1e3 * w->add, 1e3 * w->rest);
    printf("| gradient | %.1f MB in %d buckets; a byte is ready %.1f ms before the pass ends |\n",
           1e-6 * bytes, w->buckets, 1e3 * early / bytes);
    printf("| sockets of this machine | %.1f us, %.2f GB/s each way |\n", 1e6 * here->latency,
           1e-9 * here->bandwidth);
    printf("| adding | %.2f GB/s |\n", 1e-9 * here->adds);
    printf("| checkpoint | %.1f MB in %.2f s |\n", 1e-6 * parts->bytes, parts->checkpoint);
}

static void check_model(const scale_request *r, const scale_answer *parts, scale_network here)
{
    double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    printf("\n| ranks, %d shards | the model | measured | |\n|---|---|---|---|\n", SHARDS);
    for (int ranks = 1; ranks <= SHARDS; ranks *= 2) {
        here.crowd = ranks / cores;
        here.overlaps = 2 * ranks <= cores;
        double said = scale_step_of(&parts->work, &here, ranks, SHARDS).seconds;
        double took = ask(TASK_STEPS, ranks, 1, SHARDS).seconds;
        printf("| %d | %.1f ms | %.1f ms | %+.0f %% |\n", ranks, 1e3 * said, 1e3 * took,
               100 * (said / took - 1));
        bench_figure(said / took, "ratio", NAN, "scale.%s.model_%d", r->model, ranks);
    }
}

static void extrapolate(const scale_request *r, const scale_answer *parts)
{
    const scale_network *n = &r->network;
    const double cost = parts->checkpoint;
    double alone = scale_step_of(&parts->work, n, 1, 1).seconds;
    printf("\n%.0f us, %.2f GB/s; a failure in %g years of a machine, %.0f s to start again:\n\n",
           1e6 * n->latency, 1e-9 * n->bandwidth, r->years, r->restart);
    printf("| machines, a shard each | step | exposed | of one machine's rate | a failure every | "
           "checkpoint every (Young; Daly) | useful |\n|---|---|---|---|---|---|---|\n");
    for (int ranks = 1; ranks <= 1024; ranks *= 2) {
        scale_step s = scale_step_of(&parts->work, n, ranks, ranks);
        double failures = r->years * YEAR / ranks, interval = scale_daly(cost, failures);
        printf("| %d | %.1f ms | %.1f ms | %.0f %% | %.1f h | %.0f s; %.0f s | %.2f %% |\n", ranks,
               1e3 * s.seconds, 1e3 * s.exposed, 100 * alone / s.seconds, failures / 3600,
               scale_young(cost, failures), interval,
               100 * scale_useful(interval, cost, r->restart, failures));
    }
}

/* ---- command line ---- */

static _Noreturn void refuse(const char *what)
{
    fprintf(stderr, "bench_scale: %s; usage: bench_scale [tiny|base] [STEPS] [NAME=VALUE ...]\n",
            what);
    exit(2);
}

static void take_setting(scale_request *r, const char *text)
{
    const struct {
        const char *name;
        double *to;
    } numbers[] = {
        { "latency=", &r->network.latency },
        { "bandwidth=", &r->network.bandwidth },
        { "years=", &r->years },
        { "restart=", &r->restart },
        { "rounds=", &r->rounds },
        { "vocabulary=", &r->vocabulary },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        size_t length = strlen(numbers[i].name);
        char *end;
        if (strncmp(text, numbers[i].name, length) != 0)
            continue;
        *numbers[i].to = strtod(text + length, &end);
        if (*end || !(*numbers[i].to > 0))
            refuse(text);
        return;
    }
    if (r->setting_count == SETTINGS_MAX)
        refuse(text);
    r->settings[r->setting_count++] = text;
}

static scale_request read_request(int argc, char **argv)
{
    scale_request r = { .model = "tiny",
                        .steps = 20,
                        .network = { .latency = 20e-6, .bandwidth = 1.25e9, .overlaps = true },
                        .years = 3,
                        .restart = 90,
                        .rounds = 3,
                        .vocabulary = BENCH_VOCABULARY };
    for (int i = 1; i < argc; i++) {
        if (strchr(argv[i], '='))
            take_setting(&r, argv[i]);
        else if (!strcmp(argv[i], "tiny") || !strcmp(argv[i], "base"))
            r.model = argv[i];
        else if ((r.steps = atoi(argv[i])) < 1 || r.steps > STEPS_MAX)
            refuse(argv[i]);
    }
    if (r.rounds < 1 || r.rounds > ROUNDS_MAX || r.vocabulary < 100 || r.vocabulary > 1e6)
        refuse("rounds: 1 to 20; vocabulary: 100 to 1000000");
    return r;
}

int main(int argc, char **argv)
{
    bool rank = argc >= 5 && !strcmp(argv[1], "rank");
    scale_request r = read_request(rank ? argc - 4 : argc, rank ? argv + 4 : argv);
    if (rank)
        return run_rank(&r, (scale_task)atoi(argv[2]), atoi(argv[3]), argv[4]);
    if (argc > SETTINGS_MAX)
        refuse("too many arguments");
    arguments = argv;
    argument_count = argc - 1;
    bench_print_machine();
    compare_threads(&r);
    scale_answer parts = ask(TASK_PARTS, 1, 1, 1), network = ask(TASK_NETWORK, 2, 1, 2);
    scale_network here = { .latency = network.latency,
                           .bandwidth = network.bandwidth,
                           .adds = parts.adds };
    r.network.adds = parts.adds;
    print_parts(&r, &parts, &here);
    check_model(&r, &parts, here);
    extrapolate(&r, &parts);
    return 0;
}
