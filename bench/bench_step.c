/* Times one training step of a translation model, and shows where the time goes.
 *
 *     bench_step tiny|base float32|bfloat16 [STEPS] [NAME=VALUE ...]
 *
 * Batches have 4,096 tokens per side of generated pairs and a vocabulary of 10,000 tokens. Dropout
 * and Adam are those of the experiment. NAME=VALUE changes the model or the output:
 *
 *     vocabulary=32000         number of tokens
 *     length=200               tokens of every sentence
 *     recompute=feed_forward   none, cheap, feed_forward or auto (as in the trainer)
 *     layers=3                 of encoder and of decoder; also width, feed_forward, heads
 *     roof=no                  only times steps
 *     plan=yes                 times nothing, prints the plan with one call a line, and its memory
 *     a.b.c=value              any other setting of the experiment
 *
 * The peak is the time of the model's matrix products alone, each at the best rate measured in this
 * process (peak.h). The program prints two peaks: one for products with weights, which is stricter,
 * and one for all products, with those of attention. It times steps and peak in turn, in three
 * rounds, and prints the median of the rounds' shares, because a processor's clock rate varies by a
 * tenth and more. */
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "bench.h"
#include "kinds.h"
#include "model.h"

#define WARM_UP   3
#define STEPS_MAX 1000
#define ROUNDS    3

/* Times are in seconds, of a step. */
typedef struct step_result {
    double seconds;   /* median */
    double processor; /* processors' time, mean */
    double tokens;    /* target tokens of a step, mean */
    double planned, peak;
    double peak_time, all;   /* of the products with weights; of all products */
    double share, share_all; /* of them, by steps of the same round */
} step_result;

static void print_steps(const bench_model *model, const step_result *r, const char *name)
{
    printf(
        "%s %s: %.0f target tokens/s, %.2f ms a step of %.0f target tokens, %.2f of processors\n",
        name, bench_dtype_short(model->act), r->tokens / r->seconds, 1e3 * r->seconds, r->tokens,
        1e3 * r->processor);
}

/* name: of figures. */
static void print_result(const bench_model *model, const step_result *r, const char *name)
{
    const char *type = bench_dtype_short(model->act);
    double rate = r->tokens / r->seconds;
    printf("    roof of products with weights %.2f ms: %.1f %% of it reached; of all products, "
           "attention's too, %.2f ms: %.1f %%\n",
           1e3 * r->peak_time, 100 * r->share, 1e3 * r->all, 100 * r->share_all);
    printf("    %.1f MB planned, peak %.1f MB; plan made in %.1f ms (%d kernel calls)\n",
           1e-6 * r->planned, 1e-6 * r->peak, 1e3 * model->plan_seconds,
           et_plan_calls(model->plan));
    bench_figure(rate, "target tokens/s", r->tokens / r->peak_time, "step.%s.%s.tokens_s", name,
                 type);
    bench_figure(1e3 * r->seconds, "ms", 1e3 * r->peak_time, "step.%s.%s.ms", name, type);
    bench_figure(r->share, "share", 1, "step.%s.%s.roof_share", name, type);
    bench_figure(r->share_all, "share", 1, "step.%s.%s.roof_share_all_products", name, type);
    bench_figure(1e-6 * r->planned, "MB", NAN, "step.%s.%s.planned_mb", name, type);
    bench_figure(1e-6 * r->peak, "MB", NAN, "step.%s.%s.peak_mb", name, type);
    bench_figure(1e3 * model->plan_seconds, "ms", NAN, "step.%s.%s.plan_ms", name, type);
}

static step_result time_steps(bench_model *model, int steps)
{
    static double seconds[STEPS_MAX];
    step_result result = { .planned = (double)bench_model_planned(model) };
    bench_model_step(model); /* the caches are the model's again */
    double since = 0, busy = bench_processor_seconds();
    bench_lap(&since);
    for (int i = 0; i < steps; i++) {
        bench_model_step(model);
        seconds[i] = bench_lap(&since);
        result.tokens += (double)model->step.units / steps;
    }
    result.processor = (bench_processor_seconds() - busy) / steps;
    result.seconds = bench_median(seconds, steps);
    result.peak = (double)bench_peak_memory();
    return result;
}

/* Median of one figure over the rounds; it begins `at` bytes into a result. */
static double over_rounds(const step_result rounds[ROUNDS], size_t at)
{
    double values[ROUNDS];
    for (int i = 0; i < ROUNDS; i++)
        memcpy(&values[i], (const char *)&rounds[i] + at, sizeof values[i]);
    return bench_median(values, ROUNDS);
}

/* `steps` in all, at least one a round. The peak is the first round's, as the peak's own matrices
 * count in later ones. */
static step_result time_rounds(bench_model *model, bench_kinds *kinds, int steps)
{
    step_result rounds[ROUNDS], result;
    for (int i = 0; i < ROUNDS; i++) {
        step_result *r = &rounds[i];
        *r = time_steps(model, (steps + ROUNDS - 1) / ROUNDS);
        r->peak_time = bench_kinds_peak(kinds, model->plan);
        r->all = r->peak_time + bench_kinds_attention_peak(kinds, model->plan);
        r->share = r->peak_time / r->seconds;
        r->share_all = r->all / r->seconds;
    }
    result = rounds[0];
    result.seconds = over_rounds(rounds, offsetof(step_result, seconds));
    result.processor = over_rounds(rounds, offsetof(step_result, processor));
    result.tokens = over_rounds(rounds, offsetof(step_result, tokens));
    result.peak_time = over_rounds(rounds, offsetof(step_result, peak_time));
    result.all = over_rounds(rounds, offsetof(step_result, all));
    result.share = over_rounds(rounds, offsetof(step_result, share));
    result.share_all = over_rounds(rounds, offsetof(step_result, share_all));
    return result;
}

/* ---- command line ---- */

#define SETTINGS_MAX 32
#define SETTING_MAX  160

typedef struct request {
    bench_model_options model;
    int steps;
    bool peak_time, plan;
    const char *settings[SETTINGS_MAX];
} request;

static _Noreturn void refuse(const char *what)
{
    fprintf(stderr,
            "bench_step: cannot take %s\n"
            "usage: bench_step tiny|base float32|bfloat16 [STEPS, 1 to %d] [NAME=VALUE ...]\n",
            what, STEPS_MAX);
    exit(2);
}

static int recompute_named(const char *name)
{
    if (!strcmp(name, "auto"))
        return ET_RECOMPUTE_AUTO;
    if (!strcmp(name, "none"))
        return ET_RECOMPUTE_NONE;
    if (!strcmp(name, "feed_forward"))
        return ET_RECOMPUTE_MARKED;
    if (strcmp(name, "cheap") != 0)
        refuse("that recompute: none, cheap, feed_forward or auto");
    return ET_RECOMPUTE_CHEAP;
}

/* A short name for a setting of both stacks, or for the width; other settings are not changed. */
static const char *setting_of(const char *word, const char *value)
{
    static const char *const short_options[][2] = { { "layers=", "num_layers" },
                                                    { "heads=", "num_attention_heads" },
                                                    { "feed_forward=", "intermediate_size" } };
    static char text[SETTINGS_MAX][SETTING_MAX];
    static int used;
    char *out = text[used++ % SETTINGS_MAX];
    if (!strncmp(word, "width=", 6)) {
        snprintf(out, SETTING_MAX, "task.model.embedding_width=%s", value);
        return out;
    }
    for (size_t i = 0; i < sizeof short_options / sizeof short_options[0]; i++) {
        const char *name = short_options[i][1];
        if (strncmp(word, short_options[i][0], strlen(short_options[i][0])) != 0)
            continue;
        snprintf(out, SETTING_MAX, "task.model.encoder.%s=%.20s,task.model.decoder.%s=%.20s", name,
                 value, name, value);
        return out;
    }
    return word;
}

static void take_word(request *asked, const char *word)
{
    const char *value = strchr(word, '=');
    if (!value++) {
        asked->steps = atoi(word);
        if (asked->steps < 1 || asked->steps > STEPS_MAX)
            refuse(word);
    } else if (!strncmp(word, "vocabulary=", 11)) {
        asked->model.vocabulary = atoi(value);
    } else if (!strncmp(word, "length=", 7)) {
        asked->model.length = atoi(value);
    } else if (!strncmp(word, "recompute=", 10)) {
        asked->model.recompute = recompute_named(value);
    } else if (!strncmp(word, "roof=", 5)) {
        asked->peak_time = strcmp(value, "no") != 0;
    } else if (!strncmp(word, "plan=", 5)) {
        asked->plan = strcmp(value, "no") != 0;
    } else {
        asked->settings[asked->model.setting_count++] = setting_of(word, value);
    }
}

/* The name of the figures: size and changed settings, such as tiny.vocabulary=32000. */
static const char *name_of(int argc, char **argv)
{
    static char name[SETTINGS_MAX * SETTING_MAX];
    size_t at = (size_t)snprintf(name, sizeof name, "%s", argv[1]);
    for (int i = 3; i < argc && at < sizeof name; i++)
        if (strchr(argv[i], '='))
            at += (size_t)snprintf(name + at, sizeof name - at, ".%s", argv[i]);
    return name;
}

static request asked_for(int argc, char **argv)
{
    request asked = { .model = BENCH_MODEL_OPTIONS_INIT, .steps = 20, .peak_time = true };
    if (argc < 3 || argc - 3 > SETTINGS_MAX)
        refuse("so few or so many words");
    asked.model.name = argv[1];
    asked.model.act = bench_dtype(argv[2]);
    for (int i = 3; i < argc; i++)
        take_word(&asked, argv[i]);
    if (asked.model.vocabulary < 16 || asked.model.vocabulary > 65536)
        refuse("that vocabulary: 16 to 65,536 pieces");
    if (asked.model.length && (asked.model.length < 4 || asked.model.length > BENCH_BUDGET))
        refuse("that length: 4 to 4,096 tokens");
    return asked;
}

static void print_plan(const bench_model *model)
{
    et_error error = ET_ERROR_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_plan_print(model->plan, &text);
    if (text.failed)
        bench_check(et_alloc_failed(&error, "the text of a plan"), &error);
    fputs(et_strbuf_text(&text), stdout);
    et_strbuf_release(&text);
    printf("%.1f MB planned\n", 1e-6 * (double)bench_model_planned(model));
}

/* name: of figures. */
static void measure(bench_model *model, const request *asked, const char *name)
{
    static bench_kinds kinds;
    bench_kinds_time(&kinds, model->plan,
                     asked->steps < BENCH_RUNS_MAX ? asked->steps : BENCH_RUNS_MAX);
    bench_kinds_add_others(&kinds, &model->step, model->step.batch->filled[ET_PAIR_TARGET]);
    step_result result = time_rounds(model, &kinds, asked->steps);
    print_steps(model, &result, asked->model.name);
    print_result(model, &result, name);
    bench_kinds_print(&kinds, result.seconds);
}

int main(int argc, char **argv)
{
    static bench_model model;
    request asked = asked_for(argc, argv);
    asked.model.settings = asked.settings;
    bench_print_machine();
    bench_model_open(&model, &asked.model);
    for (int i = 0; i < WARM_UP && !asked.plan; i++)
        bench_model_step(&model);
    if (asked.plan) {
        print_plan(&model);
    } else if (asked.peak_time) {
        measure(&model, &asked, name_of(argc, argv));
    } else {
        step_result result = time_steps(&model, asked.steps);
        print_steps(&model, &result, asked.model.name);
    }
    bench_model_close(&model);
    return 0;
}
