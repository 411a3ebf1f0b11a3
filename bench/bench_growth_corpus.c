/* Measures how costs grow with the corpus. The cost of a start and of a step should not grow.
 *
 *     bench_growth_corpus ETUDE [PAIRS [FOLDER]]
 *
 * ETUDE is the command. The program writes corpora of 10,000 pairs, of ten times as many and so on
 * up to PAIRS (default 1,000,000) below the current folder. Encoding takes ten times as long for
 * each further corpus; 10,000,000 pairs take some minutes and 2 GB of disk. A corpus repeats 10,000
 * generated pairs, each time with one word of every line changed. With FOLDER the corpora stay
 * there, and existing ones are used, so you can make them first and measure when the machine is
 * quiet. The program trains a tiny model on each corpus for one step, which encodes the text; all
 * models have the vocabulary of the first. Then it measures the corpora in turn, in several rounds:
 *
 *   start      from exec to the line that reports the start of training
 *   step       time per target token of a command that trains STEPS steps, with start and save
 *   touch      time per token of making batches from the cache just mapped: the first million
 *   batch      the same for the next million, when most pages have been read
 *   memory     peak of the training command, and of that, as the system reports at each line that
 *              the command writes: its own memory, and pages of mapped files, which the system can
 *              reclaim at any time
 *
 * Times are processor times, which other programs hardly change. The program prints medians, and
 * medians of the ratios to the smallest corpus in the same round. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "data/text/encoded.h"
#include "data/text/pairs.h"
#include "words.h"

#define BASE   10000 /* pairs that are repeated */
#define SIZES  4     /* corpora at most: BASE times 1, 10, 100, 1,000 */
#define ROUNDS 5
#define STEPS  20
#define BUDGET 1024 /* tokens of a batch: small batches, because arithmetic is not measured */
#define BYTES  500  /* of disk for a pair, text and cache, with some to spare */

enum { START, STEP, TOUCH, BATCH, PEAK, OWN, MAPPED, COSTS };
static const struct {
    const char *name, *unit;
} costs[COSTS] = {
    { "start_ms", "processor ms" },
    { "step_ns_token", "ns/token" },
    { "touch_ns_token", "ns/token" },
    { "batch_ns_token", "ns/token" },
    { "peak_mb", "MB" },
    { "own_mb", "MB" },
    { "mapped_mb", "MB" },
};

typedef struct corpus {
    int64_t pairs;
    char folder[32];
    int64_t steps; /* trained so far */
    double cost[COSTS][ROUNDS];
} corpus;

static void fail(const char *what)
{
    fprintf(stderr, "bench_growth_corpus: %s: %s\n", what, errno ? strerror(errno) : "unexpected");
    exit(1);
}

/* ---- text ---- */

/* Line `line` is base line line % BASE, with one other random word in each repetition. */
static void write_line(FILE *file, const char *vowels, uint32_t site, uint64_t line)
{
    uint64_t base = line % BASE, repetition = line / BASE;
    uint64_t words = 5 + et_random_below((et_random){ 1, 1, 1 }, base, 10);
    for (uint64_t i = 0; i < words; i++) {
        bool changed = repetition && i == repetition % words;
        et_random random = { 1, changed ? 3 : 2, site };
        if (i)
            fputc(' ', file);
        bench_write_word(file, vowels, et_random_uniform(random, changed ? line : 16 * base + i));
    }
    fputc('\n', file);
}

/* On standard error, because it is no result: every tenth of long work. */
static void show_progress(const char *path, int64_t done, int64_t of)
{
    if (of > 1000000 && done % (of / 10) == 0)
        fprintf(stderr, "%s: %lld of %lld lines\n", path, (long long)done, (long long)of);
}

static void write_side(const char *folder, const char *name, int64_t lines, const char *vowels,
                       uint32_t site)
{
    char path[64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file)
        fail(path);
    for (int64_t line = 0; line < lines; line++) {
        show_progress(path, line, lines);
        write_line(file, vowels, site, (uint64_t)line);
    }
    if (fclose(file))
        fail(path);
}

/* ---- the command ---- */

/* Starts `etude train` in the corpus's folder up to `steps`; *from is its standard error. */
static pid_t start(const char *etude, const corpus *c, int64_t steps, int *from)
{
    char until[64], every[64], budget[64];
    const char *vocabulary = c->pairs == BASE ? "task.vocabulary.size=4000"
                                              : "task.sentencepiece_model_path=../first.model";
    snprintf(until, sizeof until, "trainer.train_steps=%lld", (long long)steps);
    snprintf(budget, sizeof budget, "task.train_data.global_batch_size=%d", BUDGET);
    snprintf(every, sizeof every, "trainer.summary_interval=%d", STEPS);
    pid_t child = bench_fork(from);
    if (child)
        return child;
    if (!chdir(c->folder))
        execl(etude, etude, "train", "--experiment", "translation/tiny", "--model-dir", "run",
              "--set", "task.train_data.source_path=source", "--set",
              "task.train_data.target_path=target", "--set", vocabulary, "--set",
              "trainer.checkpoint_interval=0", "--set", budget, "--set", until, "--set", every,
              (char *)NULL);
    _exit(127);
}

/* Bytes that a process has in memory: its own, and of mapped files (proc(5), status). */
typedef struct resident {
    double own, mapped;
} resident;

/* Keeps the larger of the earlier and the current values. An ended process has none. */
static void look_at_memory(pid_t child, resident *most)
{
    char path[64], line[256];
    double kilobytes;
    snprintf(path, sizeof path, "/proc/%d/status", (int)child);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "RssAnon: %lf", &kilobytes) == 1)
            most->own = fmax(most->own, 1024 * kilobytes);
        if (sscanf(line, "RssFile: %lf", &kilobytes) == 1)
            most->mapped = fmax(most->mapped, 1024 * kilobytes);
    }
    if (file)
        fclose(file);
}

/* Reads the command's output, to its end or to the line about steps; the last line in `last`. With
 * `most`, measures its memory at each line. */
static bool read_lines(int from, bool to_steps, char last[1024], pid_t child, resident *most)
{
    FILE *lines = fdopen(from, "r");
    bool found = false;
    last[0] = 0;
    if (!lines)
        fail("fdopen");
    while (!found && fgets(last, 1024, lines)) {
        if (most)
            look_at_memory(child, most);
        found = to_steps && (!strncmp(last, "training     ", 13) || /* from the start */
                             !strncmp(last, "resuming     ", 13));
    }
    fclose(lines);
    return found;
}

static double processor_seconds(const struct rusage *usage)
{
    return (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
           1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

/* Trains `steps` more, to the end of the command. */
static struct rusage train(const char *etude, corpus *c, int steps, resident *most)
{
    char last[1024];
    struct rusage usage;
    int from, status;
    c->steps += steps;
    pid_t child = start(etude, c, c->steps, &from);
    read_lines(from, false, last, child, most);
    if (wait4(child, &status, 0, &usage) != child || status) {
        fprintf(stderr, "bench_growth_corpus: etude train failed: %s", last);
        exit(1);
    }
    return usage;
}

/* Milliseconds until the line about steps. */
static double time_start(const char *etude, const corpus *c)
{
    char last[1024];
    struct rusage usage;
    int from;
    pid_t child = start(etude, c, c->steps + 1000000, &from);
    bool reached = read_lines(from, true, last, child, NULL);
    kill(child, SIGKILL);
    wait4(child, NULL, 0, &usage);
    if (!reached) {
        fprintf(stderr, "bench_growth_corpus: no step was reached: %s", last);
        exit(1);
    }
    return 1e3 * processor_seconds(&usage);
}

/* A number of the last line of the run's log, by its key. */
static double logged(const corpus *c, const char *key)
{
    char path[64], line[4096], last[4096] = "";
    snprintf(path, sizeof path, "%s/run/metrics.jsonl", c->folder);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        memcpy(last, line, sizeof last);
    const char *found = strstr(last, key);
    if (!file || !found)
        fail(path);
    fclose(file);
    return strtod(strchr(found, ':') + 1, NULL);
}

/* Mean target tokens of a step, from the last log. */
static double logged_tokens(const corpus *c)
{
    return logged(c, "\"tokens_per_second\":") / logged(c, "\"steps_per_second\":");
}

/* ---- only batches ---- */

/* Nanoseconds for a token of batches with a million tokens in all. */
static double time_million(et_source *source, et_batch *batch)
{
    et_error error = ET_ERROR_INIT;
    double tokens = 0, begin = bench_processor_seconds();
    while (tokens < 1e6) {
        bench_check(et_source_next(source, batch, &error), &error);
        tokens += (double)(batch->filled[ET_PAIR_SOURCE] + batch->filled[ET_PAIR_TARGET]);
    }
    return 1e9 * (bench_processor_seconds() - begin) / tokens;
}

/* Of the first million tokens, and of the next, from the run's cache. */
static void time_batches(const corpus *c, double *first, double *later)
{
    char source[64], target[64], cache[64];
    const char *sides[] = { source, target };
    et_corpus_paths paths = { .source = { &sides[0], 1 }, .target = { &sides[1], 1 } };
    et_encoded_options filter = ET_ENCODED_OPTIONS_INIT;
    const et_batches_options options = { .shuffle = true,
                                         .bucket = true,
                                         .repeat = true,
                                         .pool = 8192,
                                         .capacity = { BUDGET / 4, BUDGET, BUDGET } };
    et_error error = ET_ERROR_INIT;
    et_vocabulary *vocabulary;
    et_encoded *encoded;
    et_source *batches;
    et_batch *batch;
    snprintf(source, sizeof source, "%s/source", c->folder);
    snprintf(target, sizeof target, "%s/target", c->folder);
    snprintf(cache, sizeof cache, "%s/run/cache/train.pairs", c->folder);
    bench_check(et_vocabulary_open(&vocabulary, "first.model", &error), &error);
    bench_check(et_encoded_open(&encoded, &paths,
                                (et_sides){ .source = vocabulary, .target = vocabulary }, &filter,
                                cache, &error),
                &error);
    if (!encoded->from_cache)
        fail(cache);
    bench_check(et_pair_batches_open(&batches, encoded, &options, &error), &error);
    bench_check(et_batch_new(&batch, &batches->layout, &error), &error);
    *first = time_million(batches, batch);
    *later = time_million(batches, batch);
    et_batch_free(batch);
    et_source_close(batches);
    et_encoded_close(encoded);
    et_vocabulary_close(vocabulary);
}

/* ---- all ---- */

/* Writes under a temporary name until both sides are complete, because existing files are used
 * again. */
static void write_corpus(const corpus *c)
{
    char folder[sizeof c->folder + 8];
    snprintf(folder, sizeof folder, "%s.part", c->folder);
    if (mkdir(folder, 0777) && errno != EEXIST)
        fail(folder);
    write_side(folder, "source", c->pairs, "aeiou", 1);
    write_side(folder, "target", c->pairs, "aouyi", 2);
    if (rename(folder, c->folder))
        fail(c->folder);
}

/* Runs a step, which encodes the text; or reads the log of an earlier one. */
static void prepare(const char *etude, corpus *c, int64_t pairs)
{
    char cache[64];
    double since = 0;
    c->pairs = pairs;
    snprintf(c->folder, sizeof c->folder, "pairs-%lld", (long long)pairs);
    snprintf(cache, sizeof cache, "%s/run/cache/train.pairs", c->folder);
    bench_lap(&since);
    if (access(c->folder, R_OK)) {
        write_corpus(c);
        printf("%lld pairs: written in %.1f s\n", (long long)pairs, bench_lap(&since));
    }
    if (!access(cache, R_OK)) {
        c->steps = (int64_t)logged(c, "\"step\":");
        return;
    }
    struct rusage usage = train(etude, c, 1, NULL);
    printf("%lld pairs: encoded and a step done in %.1f s, of the processor %.1f s, peak %.0f MB\n",
           (long long)pairs, bench_lap(&since), processor_seconds(&usage),
           1e-6 * 1024 * (double)usage.ru_maxrss);
    if (pairs == BASE && link("pairs-10000/run/vocabulary.model", "first.model"))
        fail("first.model");
}

static void measure(const char *etude, corpus *c, int round)
{
    resident most = { 0, 0 };
    c->cost[START][round] = time_start(etude, c);
    struct rusage usage = train(etude, c, STEPS, &most);
    c->cost[STEP][round] = 1e9 * processor_seconds(&usage) / (STEPS * logged_tokens(c));
    c->cost[PEAK][round] = 1e-6 * 1024 * (double)usage.ru_maxrss;
    c->cost[OWN][round] = 1e-6 * most.own;
    c->cost[MAPPED][round] = 1e-6 * most.mapped;
    time_batches(c, &c->cost[TOUCH][round], &c->cost[BATCH][round]);
}

/* How many times the smallest corpus's: the median over rounds. */
static double growth(const corpus *c, const corpus *first, int cost)
{
    double ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        ratios[i] = c->cost[cost][i] / first->cost[cost][i];
    return bench_median(ratios, ROUNDS);
}

static void show(corpus *corpora, int count)
{
    double ratio[SIZES][COSTS];
    for (int i = 0; i < count; i++)
        for (int k = 0; k < COSTS; k++)
            ratio[i][k] = growth(&corpora[i], &corpora[0], k);
    printf("\nN pairs: nothing of ours grows; x: times that of %d pairs\n%10s", BASE, "pairs");
    for (int k = 0; k < COSTS; k++)
        printf(" %14s     x", costs[k].name);
    for (int i = 0; i < count; i++) {
        printf("\n%10lld", (long long)corpora[i].pairs);
        for (int k = 0; k < COSTS; k++) {
            double median = bench_median(corpora[i].cost[k], ROUNDS);
            printf(" %14.1f %5.2f", median, ratio[i][k]);
            bench_figure(median, costs[k].unit, NAN, "growth.corpus.%lld.%s",
                         (long long)corpora[i].pairs, costs[k].name);
        }
    }
    printf("\n");
}

static void check_disk(int64_t pairs)
{
    struct statvfs disk;
    double wanted = 1.2 * BYTES * (double)pairs;
    if (statvfs(".", &disk))
        fail("statvfs");
    if ((double)disk.f_bavail * (double)disk.f_frsize > wanted)
        return;
    fprintf(stderr, "bench_growth_corpus: %.1f GB of disk are wanted here; take fewer pairs\n",
            1e-9 * wanted);
    exit(1);
}

/* Enters a new folder, or the named one. */
static void enter(const char *named, char *made)
{
    if (named && mkdir(named, 0777) && errno != EEXIST)
        fail(named);
    if (!named && !mkdtemp(made))
        fail(made);
    if (chdir(named ? named : made))
        fail(named ? named : made);
}

int main(int argc, char **argv)
{
    static corpus corpora[SIZES];
    char made[] = "bench_growth.XXXXXX", command[64];
    const char *named = argc > 3 ? argv[3] : NULL;
    char *etude = argc > 1 ? realpath(argv[1], NULL) : NULL;
    int64_t most = argc > 2 ? atoll(argv[2]) : 1000000;
    int count = 0;
    if (!etude || most < BASE) {
        fprintf(stderr, "usage: bench_growth_corpus ETUDE [PAIRS, %d or more [FOLDER]]\n", BASE);
        return 2;
    }
    enter(named, made);
    check_disk(most);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what takes minutes is seen while it runs */
    bench_print_machine();
    for (int64_t pairs = BASE; pairs <= most && count < SIZES; pairs *= 10)
        prepare(etude, &corpora[count++], pairs);
    for (int round = 0; round < ROUNDS; round++)
        for (int i = 0; i < count; i++)
            measure(etude, &corpora[i], round);
    show(corpora, count);
    free(etude);
    if (named)
        return 0;
    snprintf(command, sizeof command, "rm -rf ../%s", made);
    return system(command) == 0 ? 0 : 1;
}
