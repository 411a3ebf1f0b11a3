/* The settings that translation/auto chooses by the number of pairs and steps; and that it keeps
 * given settings.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "formats/files.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/settings/translation_options.h"

static et_arena arena;

static int release_arena(void **state)
{
    et_arena_release(&arena);
    return remove_directory(state);
}

static et_experiment begin(const char *name)
{
    et_experiment e;
    assert_ok(et_experiment_begin(&e, &et_translation_program, name, &arena, error));
    return e;
}

static void set(et_experiment *e, const char *text)
{
    assert_ok(et_experiment_set(e, text, &arena, error));
}

static const et_translation_options *task_of(const et_experiment *e)
{
    return e->task;
}

static const et_schedule_cosine *rate_of(const et_experiment *e)
{
    return &e->trainer.optimizer_config.learning_rate.cosine;
}

static int64_t warmup_of(const et_experiment *e)
{
    return e->trainer.optimizer_config.warmup.linear.warmup_steps;
}

/* Pairs of lines with as many target tokens as captions have. */
static et_recipe_amounts of(int64_t pairs, int64_t steps)
{
    return (et_recipe_amounts){ .samples = pairs, .units = 17.0 * (double)pairs, .steps = steps };
}

static et_experiment choose(const char *settings, const et_recipe_amounts *amounts)
{
    et_experiment e = begin(ET_TRANSLATION_AUTO);
    if (settings)
        set(&e, settings);
    assert_ok(et_recipe_apply(&e, amounts, &arena, error));
    set(&e, "task.train_data.source_path=a,task.train_data.target_path=b");
    assert_ok(et_experiment_complete(&e, error));
    assert_ok(et_experiment_check(&e, error));
    return e;
}

static void test_translation_recipe__which(void **state)
{
    (void)state;
    et_experiment automatic = begin(ET_TRANSLATION_AUTO), tiny = begin("translation/tiny");
    assert_non_null(et_recipe_of(&automatic));
    assert_null(et_recipe_of(&tiny));
}

/* More pairs bear a larger vocabulary, more passes more dropout, longer runs a longer warm-up. */
static void test_translation_recipe__amounts(void **state)
{
    (void)state;
    static const struct {
        int64_t pairs, steps, vocabulary, warmup;
        double dropout;
    } cases[] = {
        { 3000, 1800, 2500, 180, 0.3 },    { 10000, 1800, 4500, 180, 0.2 },
        { 30000, 1800, 8000, 180, 0.1 },   { 100000, 1800, 14500, 180, 0.05 },
        { 30000, 10800, 8000, 1000, 0.3 }, { 100000, 60, 14500, 6, 0.05 },
        { 1, 1, 1000, 1, 0.25 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_recipe_amounts amounts = of(cases[i].pairs, cases[i].steps);
        et_experiment e = choose(NULL, &amounts);
        assert_int_equal(task_of(&e)->vocabulary.max_size, cases[i].vocabulary);
        assert_int_equal(warmup_of(&e), cases[i].warmup);
        assert_true(task_of(&e)->model.dropout_rate == cases[i].dropout);
        assert_true(task_of(&e)->model.encoder.dropout_rate == cases[i].dropout);
        assert_true(task_of(&e)->model.decoder.dropout_rate == cases[i].dropout);
        assert_in_range(e.trainer.validation_interval, 1, cases[i].steps);
    }
}

/* Passes over the data are so many steps. */
static void test_translation_recipe__epochs(void **state)
{
    (void)state;
    et_recipe_amounts steps = of(30000, 2490), epochs = of(30000, 0);
    epochs.epochs = 10;
    et_experiment a = choose(NULL, &steps), b = choose(NULL, &epochs);
    et_strbuf first = ET_STRBUF_INIT, second = ET_STRBUF_INIT;
    assert_ok(et_recipe_print(&a, &first, error));
    assert_ok(et_recipe_print(&b, &second, error));
    assert_string_equal(et_strbuf_text(&first), et_strbuf_text(&second));
    assert_non_null(
        strstr(et_strbuf_text(&first),
               "width 128, layers 4, feed-forward 256, vocabulary up to 8,000, dropout 0."));
    et_strbuf_release(&first);
    et_strbuf_release(&second);
}

/* In any form; the other settings follow those that are set. */
static void test_translation_recipe__set_settings_stay(void **state)
{
    (void)state;
    et_recipe_amounts amounts = of(3000, 1800);
    et_experiment e = choose("task.model.dropout_rate=0.45,task.train_data.global_batch_size=5000,"
                             "trainer.optimizer_config.learning_rate=0.0031",
                             &amounts);
    assert_float_equal(task_of(&e)->model.dropout_rate, 0.45, 0);
    assert_float_equal(task_of(&e)->model.encoder.dropout_rate, 0.45, 0);
    assert_int_equal(task_of(&e)->train_data.global_batch_size, 5000);
    assert_in_range(task_of(&e)->model.sampled_vocabulary, 5000, INT32_MAX);
    assert_float_equal(rate_of(&e)->initial_learning_rate, 0.0031, 0);

    /* Exactly the experiment's initial values. */
    et_experiment plain = begin(ET_TRANSLATION_AUTO);
    char text[80];
    snprintf(text, sizeof text, "task.vocabulary.max_size=%lld",
             (long long)task_of(&plain)->vocabulary.max_size);
    e = choose(text, &amounts);
    assert_int_equal(task_of(&e)->vocabulary.max_size, task_of(&plain)->vocabulary.max_size);
    et_strbuf told = ET_STRBUF_INIT;
    assert_ok(et_recipe_print(&e, &told, error));
    assert_null(strstr(et_strbuf_text(&told), "vocabulary"));
    assert_non_null(strstr(et_strbuf_text(&told), "dropout"));
    et_strbuf_reset(&told);
    e = choose("task.vocabulary.size=6000", &amounts);
    assert_int_equal(task_of(&e)->vocabulary.size, 6000);
    assert_ok(et_recipe_print(&e, &told, error));
    assert_null(strstr(et_strbuf_text(&told), "vocabulary"));
    et_strbuf_reset(&told);
    e = choose("task.sentencepiece_model_path=a.model", &amounts);
    assert_ok(et_recipe_print(&e, &told, error));
    assert_null(strstr(et_strbuf_text(&told), "vocabulary"));
    assert_int_equal(task_of(&e)->vocabulary.max_size, task_of(&plain)->vocabulary.max_size);
    et_strbuf_release(&told);
}

/* Each shard of a batch has room for the longest sentence, and all have the same size. */
static void test_translation_recipe__shards(void **state)
{
    (void)state;
    et_recipe_amounts amounts = of(500, 10);
    et_experiment one = choose(NULL, &amounts);
    assert_int_equal(task_of(&one)->train_data.global_batch_size, 512);
    for (int shards = 2; shards <= 48; shards += 5) {
        char text[40];
        snprintf(text, sizeof text, "runtime.data_shards=%d", shards);
        et_experiment e = choose(text, &amounts);
        const et_translation_data *data = &task_of(&e)->train_data;
        assert_int_equal(data->global_batch_size % shards, 0);
        assert_in_range(data->global_batch_size / shards, data->max_seq_length, INT32_MAX);
    }
}

/* By pairs and by tokens of the whole run; not once an update has been timed at a size. */
static void test_translation_recipe__size(void **state)
{
    (void)state;
    static const struct {
        int64_t pairs, steps, width, layers, heads;
    } cases[] = {
        { 30000, 1800, 128, 4, 4 },   { 30000, 1000000, 128, 4, 4 },
        { 100000, 1800, 128, 4, 4 },  { 100000, 100000, 256, 4, 4 },
        { 1000000, 1800, 128, 4, 4 }, { 1000000, 1000000, 512, 6, 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_recipe_amounts amounts = of(cases[i].pairs, cases[i].steps);
        et_experiment e = choose(NULL, &amounts);
        assert_int_equal(task_of(&e)->model.embedding_width, cases[i].width);
        assert_int_equal(task_of(&e)->model.encoder.num_layers, cases[i].layers);
        assert_int_equal(task_of(&e)->model.decoder.num_attention_heads, cases[i].heads);
        amounts.steps = 1;
        amounts.sized = true;
        assert_ok(et_recipe_apply(&e, &amounts, &arena, error));
        assert_int_equal(task_of(&e)->model.embedding_width, cases[i].width);
        assert_int_equal(warmup_of(&e), 1);
    }
    et_recipe_amounts amounts = of(30000, 1800);
    et_experiment e = choose("task.model.embedding_width=54", &amounts);
    assert_int_equal(task_of(&e)->model.encoder.num_attention_heads, 2);
}

/* A setting of a branch that is not chosen is not changed. */
static void test_translation_recipe__other_branches(void **state)
{
    (void)state;
    et_recipe_amounts amounts = of(3000, 1800);
    et_experiment plain = begin(ET_TRANSLATION_AUTO);
    et_experiment e = choose("{task: {model: {r_drop: 1}}, trainer: {optimizer_config: "
                             "{learning_rate: {type: constant, constant: {learning_rate: 1e-3}}, "
                             "ema: null}}}",
                             &amounts);
    assert_int_equal(rate_of(&e)->decay_steps, rate_of(&plain)->decay_steps);
    assert_int_equal(task_of(&e)->model.sampled_vocabulary, 0);
}

/* A run's own choices, whatever other amounts would give; and a person's against both. */
static void test_translation_recipe__adopt(void **state)
{
    (void)state;
    et_recipe_amounts amounts = of(3000, 1800);
    et_experiment kept = choose(NULL, &amounts), now = begin(ET_TRANSLATION_AUTO);
    kept.trainer.train_steps = 1800;
    set(&now, "task.model.dropout_rate=0.45");
    assert_ok(et_recipe_adopt(&now, &kept, &arena, error));
    assert_int_equal(task_of(&now)->vocabulary.max_size, task_of(&kept)->vocabulary.max_size);
    assert_int_equal(warmup_of(&now), warmup_of(&kept));
    assert_float_equal(task_of(&now)->model.dropout_rate, 0.45, 0);
    assert_int_equal(now.trainer.train_steps, 1800);
    assert_false(et_recipe_has_length(&now));
    set(&now, "trainer.train_epochs=7");
    assert_ok(et_recipe_adopt(&now, &kept, &arena, error));
    assert_int_equal(now.trainer.train_steps, -7000);
    assert_true(et_recipe_has_length(&now));
}

static et_experiment tune(const et_recipe_amounts *amounts)
{
    et_experiment e = begin(ET_TRANSLATION_AUTO);
    assert_ok(et_recipe_begin_finetuning(&e, &arena, error));
    assert_ok(et_recipe_apply(&e, amounts, &arena, error));
    return e;
}

/* Fine-tuning makes so many validations that it can stop early, however short it is and whatever
 * they cost; under a limit of time only those that it has room for. */
static void test_translation_recipe__validations(void **state)
{
    (void)state;
    for (int64_t steps = 10; steps < 100000; steps *= 3)
        for (double cost = 1; cost < 10000; cost *= 9) {
            et_recipe_amounts amounts = of(3000, steps);
            amounts.validation = cost;
            et_experiment e = tune(&amounts);
            assert_int_equal(e.trainer.early_stopping.patience, 3);
            assert_in_range(steps / e.trainer.validation_interval, 5, 10);
            assert_int_equal(e.trainer.checkpoint_interval, e.trainer.validation_interval);
            amounts.fitting = 2;
            e = tune(&amounts);
            assert_in_range(e.trainer.validation_interval, steps / 2, (steps + 1) / 2);
            amounts.fitting = 1000;
            e = tune(&amounts);
            assert_in_range(steps / e.trainer.validation_interval, 5, 10);
        }
}

static void write_lines(const char *name, int count)
{
    FILE *file = fopen(name, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++)
        fprintf(file, "the dog runs home %d\n", i);
    fclose(file);
}

/* All texts, up to the limit of each. */
static void test_translation_recipe__measure(void **state)
{
    (void)state;
    write_lines("a", 300);
    write_lines("b", 300);
    et_recipe_amounts amounts;
    et_experiment e = begin(ET_TRANSLATION_AUTO);
    set(&e, "task.train_data.source_path=a,task.train_data.target_path=b");
    assert_ok(et_recipe_measure(&e, &amounts, error));
    assert_int_equal(amounts.samples, 300);
    assert_in_range(amounts.units, 900, 3000);
    assert_int_equal(amounts.steps, 0);
    assert_true(amounts.epochs > 1 && amounts.validation == 0);
    set(&e, "task.train_data.limit=100,task.validation_data.source_path=a,"
            "task.validation_data.target_path=b");
    assert_ok(et_recipe_measure(&e, &amounts, error));
    assert_int_equal(amounts.samples, 100);
    assert_true(amounts.validation > 0);
    write_lines("b", 299);
    set(&e, "task.train_data.limit=0");
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_recipe_measure(&e, &amounts, &error), ET_EDATA);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_translation_recipe__which),
        cmocka_unit_test(test_translation_recipe__amounts),
        cmocka_unit_test(test_translation_recipe__epochs),
        cmocka_unit_test(test_translation_recipe__set_settings_stay),
        cmocka_unit_test(test_translation_recipe__shards),
        cmocka_unit_test(test_translation_recipe__size),
        cmocka_unit_test(test_translation_recipe__other_branches),
        cmocka_unit_test(test_translation_recipe__adopt),
        cmocka_unit_test(test_translation_recipe__validations),
        cmocka_unit_test(test_translation_recipe__measure),
    };
    return cmocka_run_group_tests(tests, make_directory, release_arena);
}
