/* Times the steps of the programs in examples/, with the programs' own loops. Prints the rate, the
 * peak and the time by kind of op.
 *
 *     bench_example NAME [DATA] [steps=N] [roof=no]     NAME: see `examples`, below
 *
 * DATA is the program's training data: the folder of MNIST's files, or a text. The program is the
 * example itself, with its main renamed, in a folder that is removed afterwards. The linker
 * redirects its calls of some library functions to this file (--wrap): each run of a pass that
 * trains is timed, and so are batches and updates. A step is the time from one run of the first
 * such pass to the next, so it includes all of the program's work: data, losses, updates, logs,
 * measures. The program prints the median, which rare work (an epoch's validation, a save) does not
 * change.
 *
 * Steps and peak (peak.h) are timed alternately, in three rounds, and the median of the rounds'
 * shares counts, as in bench_step (roof=no: one round): the peak of a step is the sum over its
 * passes. Operations are those of the plans' matrix products, 2 m n k each, forward and backward;
 * for causal attention only the visible half. Updates, element-wise functions, norms, losses and
 * random numbers do not count. Programs with convolutions have no peak. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "bench.h"
#include "engine/exec/pass.h"
#include "engine/graph/graph.h"
#include "kinds.h"
#include "train/step/update.h"

#define WARM_UP    20
#define ROUNDS     3
#define STEPS_MAX  3000 /* of a round */
#define PASSES_MAX 4
#define KINDS_RUNS 16

int mnist_loop_main(int argc, char **argv);
int mnist_cnn_main(int argc, char **argv);
int vae_loop_main(int argc, char **argv);
int gan_orbit_main(int argc, char **argv);
int charlm_orbit_main(int argc, char **argv);

typedef struct example {
    const char *name, *data; /* data: what to name; NULL: none is read */
    int (*run)(int argc, char **argv);
    const char *units; /* the option that sets its number of steps, to more than are timed */
    bool convolves;
} example;

static const example examples[] = {
    { "mnist_loop", "a folder with MNIST", mnist_loop_main, "1000", false },
    { "mnist_cnn", "a folder with MNIST", mnist_cnn_main, "1000", true },
    { "vae_loop", "a folder with MNIST", vae_loop_main, "1000", false },
    { "gan_orbit", NULL, gan_orbit_main, "1000000", false },
    { "charlm_orbit", "a text", charlm_orbit_main, "1000000", false },
};

/* Seconds of a step, and what of them its parts take. */
typedef struct step_times {
    double step, batch, pass, update;
} step_times;

typedef struct round_times {
    step_times median;
    double peak, all; /* of products with weights; of all products */
} round_times;

static struct {
    const example *example;
    char folder[32];
    int steps; /* of a round */
    bool peak;
    et_pass *pass[PASSES_MAX]; /* that train, in a step's order; they are the program's */
    int passes;
    double since; /* when the step under way began; NAN: that is not to be timed */
    step_times now;
    int left; /* steps that warm up */
    step_times times[STEPS_MAX];
    int timed;
    round_times rounds[ROUNDS];
    int round;
    int within;   /* calls of et_source_next */
    bool running; /* a pass */
} m = { .left = WARM_UP, .since = (double)NAN };

/* ---- measurements ---- */

static double median_of(const step_times *times, int count, double (*part)(const step_times *))
{
    static double values[STEPS_MAX];
    for (int i = 0; i < count; i++)
        values[i] = part(&times[i]);
    return bench_median(values, count);
}

static double step_of(const step_times *times)
{
    return times->step;
}

static double batch_of(const step_times *times)
{
    return times->batch;
}

static double pass_of(const step_times *times)
{
    return times->pass;
}

static double update_of(const step_times *times)
{
    return times->update;
}

static step_times medians(const step_times *times, int count)
{
    return (step_times){ median_of(times, count, step_of), median_of(times, count, batch_of),
                         median_of(times, count, pass_of), median_of(times, count, update_of) };
}

static void take_peak(round_times *round)
{
    static bench_kinds kinds;
    for (int i = 0; i < m.passes; i++) {
        et_plan *plan = et_pass_plan(m.pass[i]);
        kinds = (bench_kinds){ .count = 0 };
        const double peak = bench_kinds_peak(&kinds, plan);
        round->peak += peak;
        round->all += peak + bench_kinds_attention_peak(&kinds, plan);
    }
}

static void print_kinds(et_pass *pass, double step)
{
    static bench_kinds kinds;
    et_plan *plan = et_pass_plan(pass);
    bench_kinds_time(&kinds, plan, KINDS_RUNS);
    bench_kinds_peak(&kinds, plan);
    bench_kinds_attention_peak(&kinds, plan);
    bench_kinds_print(&kinds, step);
}

static double over_rounds(double (*figure)(const round_times *))
{
    double values[ROUNDS];
    for (int i = 0; i < m.round; i++)
        values[i] = figure(&m.rounds[i]);
    return bench_median(values, m.round);
}

static double peak_of(const round_times *round)
{
    return round->peak;
}

static double share_of(const round_times *round)
{
    return round->peak / round->median.step;
}

static double share_of_all(const round_times *round)
{
    return round->all / round->median.step;
}

static void print_result(void)
{
    const char *name = m.example->name;
    step_times of[ROUNDS];
    for (int i = 0; i < m.round; i++)
        of[i] = m.rounds[i].median;
    const step_times t = medians(of, m.round);
    const double peak = over_rounds(peak_of);
    const double rest = t.step - t.batch - t.pass - t.update;
    printf("%s: %.1f steps/s, %.3f ms a step: passes %.1f %%, update %.1f %%, batch %.1f %%, the "
           "rest %.1f %%\n",
           name, 1 / t.step, 1e3 * t.step, 100 * t.pass / t.step, 100 * t.update / t.step,
           100 * t.batch / t.step, 100 * rest / t.step);
    bench_figure(1 / t.step, "steps/s", m.peak ? 1 / peak : (double)NAN, "example.%s.steps_s",
                 name);
    if (!m.peak)
        return;
    printf("    roof of products with weights %.3f ms: %.1f %% of it reached; of all products, "
           "attention's too, %.1f %%\n",
           1e3 * peak, 100 * over_rounds(share_of), 100 * over_rounds(share_of_all));
    bench_figure(over_rounds(share_of), "share", 1, "example.%s.roof_share", name);
    bench_figure(over_rounds(share_of_all), "share", 1, "example.%s.roof_share_all_products", name);
    for (int i = 0; i < m.passes; i++)
        print_kinds(m.pass[i], t.step);
}

static void remove_folder(void)
{
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", m.folder);
    if (system(command))
        fprintf(stderr, "bench_example: %s stays\n", m.folder);
}

/* Ends the process before the program's own end; its saves end too. */
static _Noreturn void finish(void)
{
    print_result();
    fflush(stdout);
    _exit(0);
}

static void end_round(void)
{
    round_times *round = &m.rounds[m.round++];
    round->median = medians(m.times, m.timed);
    if (m.peak)
        take_peak(round);
    if (m.round == ROUNDS || !m.peak)
        finish();
    m.timed = 0;
    m.left = WARM_UP;
}

/* ---- between the program and the library ---- */

/* Called before a step's first pass takes its batch: the step before has ended here. */
static void begin_step(void)
{
    const double now = et_clock_monotonic();
    m.now.step = now - m.since;
    if (m.left > 0)
        m.left--;
    else if (!isnan(m.since))
        m.times[m.timed++] = m.now;
    if (m.timed == m.steps)
        end_round();
    m.now = (step_times){ 0 };
    m.since = et_clock_monotonic();
}

static bool trains(const et_pass *pass)
{
    return et_pass_plan(pass)->graph->gradient_count > 0;
}

/* The pass's number among passes that train; -1: it does not train. */
static int number_of(et_pass *pass)
{
    for (int i = 0; i < m.passes; i++)
        if (m.pass[i] == pass)
            return i;
    if (!trains(pass) || m.passes == PASSES_MAX)
        return -1;
    m.pass[m.passes] = pass;
    return m.passes++;
}

int __real_et_pass_run(et_pass *pass, const et_batch *batch, uint64_t seed, uint64_t number,
                       et_error *error);
int __wrap_et_pass_run(et_pass *pass, const et_batch *batch, uint64_t seed, uint64_t number,
                       et_error *error);
void __real_et_pass_run_variant(et_pass *pass, int which, const et_batch *batch, uint64_t seed,
                                uint64_t number);
void __wrap_et_pass_run_variant(et_pass *pass, int which, const et_batch *batch, uint64_t seed,
                                uint64_t number);
int __real_et_update_apply(et_optimizer *optimizer, const et_reduced *sum, double scale,
                           et_update *update, et_error *error);
int __wrap_et_update_apply(et_optimizer *optimizer, const et_reduced *sum, double scale,
                           et_update *update, et_error *error);
int __real_et_source_next(et_source *source, et_batch *batch, et_error *error);
int __wrap_et_source_next(et_source *source, et_batch *batch, et_error *error);

/* A pass that has not run has no plan yet. */
int __wrap_et_pass_run(et_pass *pass, const et_batch *batch, uint64_t seed, uint64_t number,
                       et_error *error)
{
    if (m.passes && m.pass[0] == pass)
        begin_step();
    const double since = et_clock_monotonic();
    m.running = true;
    const int status = __real_et_pass_run(pass, batch, seed, number, error);
    m.running = false;
    if (!status && number_of(pass) >= 0)
        m.now.pass += et_clock_monotonic() - since;
    return status;
}

/* The library's own step runs a pass that it has checked. */
void __wrap_et_pass_run_variant(et_pass *pass, int which, const et_batch *batch, uint64_t seed,
                                uint64_t number)
{
    if (!m.running && m.passes && m.pass[0] == pass)
        begin_step();
    const double since = et_clock_monotonic();
    __real_et_pass_run_variant(pass, which, batch, seed, number);
    if (!m.running && number_of(pass) >= 0)
        m.now.pass += et_clock_monotonic() - since;
}

/* By a program's own update and by the library's step alike. */
int __wrap_et_update_apply(et_optimizer *optimizer, const et_reduced *sum, double scale,
                           et_update *update, et_error *error)
{
    const double since = et_clock_monotonic();
    const int status = __real_et_update_apply(optimizer, sum, scale, update, error);
    m.now.update += et_clock_monotonic() - since;
    return status;
}

/* A source takes its batches from another one. */
int __wrap_et_source_next(et_source *source, et_batch *batch, et_error *error)
{
    const double since = et_clock_monotonic();
    m.within++;
    const int status = __real_et_source_next(source, batch, error);
    if (--m.within == 0)
        m.now.batch += et_clock_monotonic() - since;
    return status;
}

/* ---- command line ---- */

static _Noreturn void refuse(void)
{
    fprintf(stderr, "usage: bench_example NAME [DATA] [steps=N, 1 to %d] [roof=no]\n", STEPS_MAX);
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++)
        fprintf(stderr, "    %s, DATA: %s\n", examples[i].name,
                examples[i].data ? examples[i].data : "none");
    exit(2);
}

/* Its DATA, NULL: none. */
static char *take_words(int argc, char **argv)
{
    char *data = NULL;
    m.steps = 150;
    m.peak = true;
    for (size_t i = 0; argc > 1 && i < sizeof examples / sizeof *examples; i++)
        if (!strcmp(argv[1], examples[i].name))
            m.example = &examples[i];
    for (int i = 2; i < argc; i++)
        if (!strncmp(argv[i], "steps=", 6))
            m.steps = atoi(argv[i] + 6);
        else if (!strcmp(argv[i], "roof=no"))
            m.peak = false;
        else
            data = argv[i];
    if (!m.example || !m.example->data != !data || m.steps < 1 || m.steps > STEPS_MAX)
        refuse();
    m.peak = m.peak && !m.example->convolves;
    return data;
}

/* Runs in a separate process: threads of a save may still write when it ends. */
static int run_example(int count, char **words)
{
    bench_print_machine();
    const int status = m.example->run(count, words);
    fprintf(stderr, "bench_example: %s ended before its steps were timed\n", m.example->name);
    return status ? status : 1;
}

int main(int argc, char **argv)
{
    char *data = take_words(argc, argv), *words[5] = { argv[1], m.folder };
    int count = 2, status = 1 << 8; /* as if it had exited with 1 */
    snprintf(m.folder, sizeof m.folder, "bench_example-XXXXXX");
    if (!mkdtemp(m.folder)) {
        perror(m.folder);
        return 1;
    }
    if (data)
        words[count++] = data;
    words[count++] = (char *)m.example->units;
    const pid_t child = fork();
    if (child == 0)
        return run_example(count, words);
    signal(SIGINT, SIG_IGN); /* the program's, and then the folder goes */
    if (child < 0 || waitpid(child, &status, 0) != child)
        perror("bench_example");
    remove_folder();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
