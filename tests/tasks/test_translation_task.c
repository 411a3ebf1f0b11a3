/* The task's own part of validation, and its loss: evaluated pairs are scored, each once and in the
 * order of the text; the requested values are shown; the smoothed loss of a perfect prediction is
 * 0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/ops.h>

#include "base/arena.h"
#include "base/files/file.h"
#include "command/bad_case.h"
#include "engine/exec/plan.h"
#include "engine/graph/build.h"
#include "engine/nn/transformer.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/translation_task.h"
#include "train/task/task_private.h"

enum { PAIRS = 60 };

typedef struct fixture {
    et_arena arena;
    et_experiment experiment;
    et_params *params;
    et_device *device;
    et_task *task;
    et_source *source;
    et_pass *pass;
    et_batch *batch;
    et_value *state; /* of the validation that is under way */
    char told[4000];
} fixture;

static void tell(void *listener, const char *line)
{
    char *told = listener;
    size_t used = strlen(told);
    snprintf(told + used, 4000 - used, "%s\n", line);
}

static void check(int status, const et_error *error)
{
    if (status)
        fail_msg("%s", error->text);
}

static void build(et_scope *scope, void *payload)
{
    et_task_build(payload, scope, false);
}

/* words: settings in addition to those of the small model. */
static void open_task(fixture *f, const char *directory, const char *words)
{
    et_error error = ET_ERROR_INIT;
    *f = (fixture){ .arena = ET_ARENA_INIT };
    et_experiment *e = &f->experiment;
    check(et_experiment_begin(e, &et_translation_program, "translation/tiny", &f->arena, &error),
          &error);
    check(et_experiment_read_file(e, "tiny.yaml", &f->arena, &error), &error);
    check(et_experiment_set(e,
                            "task.validation_data.source_path=a.en,"
                            "task.validation_data.target_path=a.de",
                            &f->arena, &error),
          &error);
    check(et_experiment_set(e, words, &f->arena, &error), &error);
    check(et_params_new(&f->params, &error), &error);
    check(et_device_open(&f->device, &error), &error);
    et_task_context context = { .model_dir = directory,
                                .params = f->params,
                                .device = f->device,
                                .listener = f->told,
                                .tell = tell };
    check(et_directory_make(directory, &error), &error);
    check(et_translation_task_open(&f->task, e->task, &context, &error), &error);
    check(et_task_build_inputs(f->task, NULL, NULL, &f->source, &error), &error);
    const et_pass_options options = { .training = false };
    check(et_pass_open(&f->pass, f->device, f->params, &f->source->layout, build, f->task, &options,
                       &error),
          &error);
    check(et_params_materialize(f->params, false, &error), &error);
    et_init_draw(f->params, 3);
    check(et_batch_new(&f->batch, &f->source->layout, &error), &error);
    f->state = et_value_dict(&f->arena);
    *f->told = 0;
}

static void close_task(fixture *f)
{
    et_pass_close(f->pass);
    et_batch_free(f->batch);
    et_source_close(f->source);
    et_translation_task_close(f->task);
    et_device_close(f->device);
    et_params_free(f->params);
    et_arena_release(&f->arena);
}

/* So many batches, from the beginning; 0: all. How many pairs they had. */
static int evaluate(fixture *f, int batches)
{
    et_error error = ET_ERROR_INIT;
    int pairs = 0;
    for (int i = 0; !batches || i < batches; i++) {
        check(et_source_next(f->source, f->batch, &error), &error);
        if (!f->batch->filled[0])
            break;
        pairs += (int)f->batch->filled[0];
        et_task_step now = { .inputs = f->batch, .model = f->pass };
        et_value *logs = et_value_dict(&f->arena);
        check(et_task_validation_step(f->task, &now, logs, &error), &error);
        check(et_task_aggregate_logs(f->task, f->state, logs, &error), &error);
    }
    return pairs;
}

/* The lines of translations/<step>.txt, and the logged values. */
static int validate(fixture *f, int64_t step, const char *directory)
{
    et_error error = ET_ERROR_INIT;
    char path[200];
    size_t length;
    et_value *logs = et_value_dict(&f->arena);
    double score;
    et_value_set_float(logs, "validation_nll", 1);
    check(et_task_reduce_aggregated_logs(f->task, f->state, step, logs, &error), &error);
    check(et_value_read_float(logs, "sacrebleu_score", &score, &error), &error);
    check(et_value_read_float(logs, "bleu_score", &score, &error), &error);
    check(et_value_read_float(logs, "validation_perplexity", &score, &error), &error);
    assert_true(fabs(score - exp(1)) < 1e-9);
    snprintf(path, sizeof path, "%s/translations/%d.txt", directory, (int)step);
    char *text = bad_read(path, &length);
    int lines = 0;
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    free(text);
    return lines;
}

/* All pairs once, whichever batches they came in, and without a word about it. */
static void test_translation_task__validates_all(void **state)
{
    (void)state;
    static const char *const settings[] = {
        "task.validation_data.global_batch_size=256",
        "task.validation_data.static_batch=true,task.validation_data.global_batch_size=16",
        "task.validation_data.batching=bucketed,task.validation_data.global_batch_size=256",
    };
    for (size_t i = 0; i < COUNT(settings); i++) {
        fixture f;
        open_task(&f, "t", settings[i]);
        assert_int_equal(evaluate(&f, 0), PAIRS);
        assert_int_equal(validate(&f, (int64_t)i, "t"), PAIRS);
        assert_string_equal(f.told, "");
        close_task(&f);
    }
}

/* Some batches: exactly their pairs are scored, with a message; the next validation, from the
 * beginning, does not contain them. A repeated batch counts once. */
static void test_translation_task__validates_a_part(void **state)
{
    (void)state;
    fixture f;
    et_error error = ET_ERROR_INIT;
    et_position begin = { 0 };
    open_task(&f, "t",
              "task.validation_data.static_batch=true,task.validation_data.global_batch_size=16");
    et_source_position(f.source, &begin);
    assert_int_equal(evaluate(&f, 2), 32);
    assert_int_equal(validate(&f, 1, "t"), 32);
    assert_non_null(strstr(f.told, "validation   32 of 60 pairs"));
    check(et_source_seek(f.source, &begin, &error), &error);
    f.state = et_value_dict(&f.arena);
    assert_int_equal(evaluate(&f, 1), 16);
    assert_int_equal(validate(&f, 2, "t"), 16);
    check(et_source_seek(f.source, &begin, &error), &error);
    assert_int_equal(evaluate(&f, 1), 16);
    assert_int_equal(validate(&f, 2, "t"), 16);
    close_task(&f);
}

/* Input, output and reference of the first pairs. */
static void test_translation_task__prints_translations(void **state)
{
    (void)state;
    fixture f;
    int shown = 0;
    open_task(&f, "t", "task.print_translations=2");
    evaluate(&f, 0);
    validate(&f, 1, "t");
    for (const char *at = f.told; (at = strstr(at, "  Input      ")); at++)
        shown++;
    assert_int_equal(shown, 2);
    size_t length;
    char *source = bad_read("a.en", &length), *target = bad_read("a.de", &length), line[300];
    snprintf(line, sizeof line, "  Input      %.*s\n  Output     ", (int)strcspn(source, "\n"),
             source);
    bad_assert_says("print", f.told, line);
    snprintf(line, sizeof line, "\n  Reference  %.*s\n", (int)strcspn(target, "\n"), target);
    bad_assert_says("print", f.told, line);
    free(source);
    free(target);
    close_task(&f);
}

/* ---- pairs that are longer than the limit of the loss ---- */

static double number_behind(const char *text, const char *name)
{
    const char *at = text ? strstr(text, name) : NULL;
    if (!at)
        fail_msg("no %s in: %s", name, text);
    return strtod(at + strlen(name) + strspn(at + strlen(name), " :\""), NULL);
}

static bad_end succeed(const char *line)
{
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        fail_msg("%s: %s%s", line, end.out, end.err);
    return end;
}

/* count lines of a.en and a.de, each as often as times, the last ones. */
static void write_long(const char *from, const char *to, int first, int count, int times)
{
    size_t length;
    char *text = bad_read(from, &length), *at = text;
    FILE *file = fopen(to, "w");
    for (int i = 0; i < first + count; i++) {
        size_t line = strcspn(at, "\n");
        for (int k = 0; k < (i < first ? 1 : times); k++)
            fprintf(file, "%s%.*s", k ? " " : "", (int)line, at);
        fputc('\n', file);
        at += line + 1;
    }
    fclose(file);
    free(text);
}

#define LONG                                                                                       \
    "--set "                                                                                       \
    "task.validation_data.source_path=long.en,task.validation_data.target_path=long.de,"           \
    "task.model.embedding_width=32,task.train_data.global_batch_size=256,"                         \
    "trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=100 "

/* Both hold the same bytes, and some. */
static void same_files(const char *left, const char *right)
{
    size_t lengths[2];
    char *texts[] = { bad_read(left, &lengths[0]), bad_read(right, &lengths[1]) };
    assert_true(lengths[0] > 40);
    assert_string_equal(texts[0], texts[1]);
    free(texts[0]);
    free(texts[1]);
}

/* With any limit, a validation translates whole sources and scores whole texts, as evaluate does
 * for the files. The number of pairs that the loss has shortened is reported when a run begins and
 * when it is evaluated; with several texts, for each. */
static void test_translation_task__scores_whole_pairs(void **state)
{
    (void)state;
    write_long("a.en", "long.en", 21, 2, 16);
    write_long("a.de", "long.de", 21, 2, 16);
    bad_end end = succeed("train --config tiny.yaml --model-dir w " LONG
                          "--set trainer.train_steps=600 --set trainer.validation_interval=600 "
                          "--set task.validation_data.max_seq_length=32");
    char *metrics = bad_read("w/metrics.jsonl", NULL);
    const double trained = number_behind(metrics, "\"sacrebleu_score");
    free(metrics);
    bad_assert_says("train", end.err, "validation   23 pairs; 2 shortened to 32 tokens for loss");
    bad_release(&end);
    end = succeed("evaluate --model-dir w --source long.en --reference long.de --output w.txt "
                  "--json");
    const double files = number_behind(end.out, "\"sacrebleu_score\"");
    bad_release(&end);
    same_files("w.txt", "w/translations/600.txt");
    if (!(files > 0 && fabs(trained - files) < 0.01))
        fail_msg("trained %g, of the files %g", trained, files);
    static const struct {
        const char *set, *said;
        bool whole;
    } cases[] = {
        { "", "23 pairs; 2 shortened to 32 tokens", false },
        { "--set task.validation_data.max_seq_length=9", " shortened to 9 tokens", false },
        { "--set task.validation_data.static_batch=true", "2 shortened", false },
        { "--set task.validation_data.batching=bucketed", "2 shortened", false },
        { "--set task.validation_data.max_seq_length=400", NULL, true },
        { "--quiet", NULL, false },
    };
    double loss[2] = { 0 };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char line[300];
        snprintf(line, sizeof line, "evaluate --model-dir w %s", cases[i].set);
        end = succeed(line);
        assert_true(fabs(number_behind(end.out, "sacrebleu_score ") - files) < 0.001);
        if (i != 1)
            loss[cases[i].whole] = number_behind(end.out, "\nloss ");
        if (cases[i].said)
            bad_assert_says(line, end.err, cases[i].said);
        else
            assert_string_equal(end.err, "");
        bad_release(&end);
    }
    assert_true(loss[0] != loss[1]); /* of the whole pairs, if the limit allows it */
    end = succeed("evaluate --model-dir w --set "
                  "task.validation_data.source_path=null,task.validation_data.target_path=null,"
                  "task.validation_data.sets='[{name: short, source_path: a.en, target_path: a.de},"
                  "{name: long, source_path: long.en, target_path: long.de}]'");
    bad_assert_says("sets", end.err, "validation   long: 23 pairs; 2 shortened");
    assert_int_equal(bad_count_lines(end.err), 1);
    assert_true(fabs(number_behind(end.out, "long/sacrebleu_score") - files) < 0.001);
    bad_release(&end);
}

/* Validation reads the first 1,023 tokens of a source and says so; evaluate translates all. */
static void test_translation_task__cuts_where_translate_does(void **state)
{
    (void)state;
    write_long("a.en", "long.en", 2, 2, 300);
    write_long("a.de", "long.de", 2, 2, 300);
    bad_end end = succeed("train --config tiny.yaml --model-dir x " LONG
                          "--set trainer.train_steps=600 --set trainer.validation_interval=600 "
                          "--set task.model.decode_max_length=20");
    bad_assert_says("train", end.err,
                    "whole, but 2 sources translated from the first 1,023 tokens");
    bad_release(&end);
    end = succeed("evaluate --model-dir x --source long.en --reference long.de --output x.txt");
    bad_assert_says("evaluate", end.err, "3,300 tokens, more than 1,023; translated in 4 pieces");
    bad_release(&end);
}

/* Trained in two parts or in one go: the same bytes, whatever makes the batches, and across passes.
 */
static void test_translation_task__resumes(void **state)
{
    (void)state;
    static const char *const ways[] = {
        "--set task.train_data.static_batch=true --set task.train_data.global_batch_size=320",
        "--set task.train_data.batching=bucketed --set task.train_data.global_batch_size=320",
        "--set task.train_data.batching=packed --set task.train_data.global_batch_size=320",
        "--set task.train_data.batching=packed --set task.train_data.global_batch_size=320 "
        "--set task.model.r_drop=3 --set task.model.dropout_rate=0.2",
        "--set task.train_data.max_seq_length=16 --set task.train_data.global_batch_size=16 "
        "--set task.model.sampled_vocabulary=20",
    };
    static const char *const runs[][3] = { { "whole", "9" }, { "parts", "4" }, { "parts", "9" } };
    char *sums[COUNT(ways)];
    size_t lengths[COUNT(ways)];
    for (size_t w = 0; w < COUNT(ways); w++) {
        for (size_t i = 0; i < COUNT(runs); i++) {
            char line[600];
            snprintf(
                line, sizeof line,
                "train --config tiny.yaml --model-dir %s%zu %s --set trainer.summary_interval=1 "
                "--set trainer.steps_per_loop=1 --set "
                "trainer.train_steps=%s",
                runs[i][0], w, ways[w], runs[i][1]);
            bad_end end = bad_start(line, NULL, NULL);
            if (end.code)
                fail_msg("%s: %s", line, end.err);
            bad_release(&end);
        }
        char path[100];
        size_t length;
        snprintf(path, sizeof path, "whole%zu/checkpoints/ckpt-9.safetensors", w);
        sums[w] = bad_read(path, &lengths[w]);
        snprintf(path, sizeof path, "parts%zu/checkpoints/ckpt-9.safetensors", w);
        char *parts = bad_read(path, &length);
        assert_int_equal(length, lengths[w]);
        assert_memory_equal(parts, sums[w], length);
        free(parts);
        for (size_t k = 0; k < w; k++) /* other batches are another run */
            assert_true(lengths[k] != length || memcmp(sums[k], sums[w], length));
    }
    for (size_t w = 0; w < COUNT(ways); w++)
        free(sums[w]);
}

/* Model Garden's build_losses: less the entropy of the smoothed target, 1.362429 for 32,000 tokens
 * and 0.1, so that a perfect prediction scores 0. */
static void test_translation_task__smoothing_constant(void **state)
{
    (void)state;
    enum { PIECES = 32000, WIDTH = 4 };
    et_error error = ET_ERROR_INIT;
    et_params *params;
    et_device *device;
    et_graph *graph;
    et_plan *plan;
    static const float h[2 * WIDTH] = { 0 };
    static const int32_t labels[2] = { 5, -1 };
    check(et_params_new(&params, &error), &error);
    check(et_device_open(&device, &error), &error);
    check(et_graph_new(&graph, params, NULL, &error), &error);
    et_scope *root = et_graph_scope(graph);
    et_node *table =
        et_param(root, "table", et_shape_2(PIECES, WIDTH), et_init_glorot_uniform(4, 4));
    et_node *loss = et_vocabulary_loss(et_input(root, "h", ET_F32, et_shape_2(2, WIDTH)), table,
                                       et_input(root, "labels", ET_I32, et_shape_1(2)), 0.1f);
    check(et_params_materialize(params, false, &error), &error);
    check(et_plan_new(&plan, graph, device, &loss, 1, NULL, &error), &error);
    et_plan_bind(plan, "h", h);
    et_plan_bind(plan, "labels", labels);
    et_plan_run(plan, (et_random){ 0 });
    const float *sums = et_plan_output(plan, 0).data;
    assert_true(fabs((double)sums[ET_LOSS_SUM_LOSS] - (log(PIECES) - 1.362429)) < 1e-4);
    assert_true(fabs((double)sums[ET_LOSS_SUM_NLL] - log(PIECES)) < 1e-4);
    assert_true(sums[ET_LOSS_SUM_TOKENS] == 1); /* a row without a label counts in nothing */
    et_plan_free(plan);
    et_graph_free(graph);
    et_device_close(device);
    et_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translation_task__validates_all),
        cmocka_unit_test(test_translation_task__validates_a_part),
        cmocka_unit_test(test_translation_task__prints_translations),
        cmocka_unit_test(test_translation_task__scores_whole_pairs),
        cmocka_unit_test(test_translation_task__cuts_where_translate_does),
        cmocka_unit_test(test_translation_task__resumes),
        cmocka_unit_test(test_translation_task__smoothing_constant),
    };
    return cmocka_run_group_tests(tests, bad_set_up, bad_tear_down);
}
