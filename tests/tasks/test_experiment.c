/* Experiments and their settings: what the table says, what --set may look like, and that what is
 * written into a run is all of it. */
#include "train/experiment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/arena.h"
#include "io/files.h"
#include "tasks/translation/kind.h"
#include "tasks/translation/options.h"

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

static const et_translation_options *task_of(const et_experiment *e)
{
    return e->task;
}

/* ---- the table -------------------------------------------------------------------------- */

static void check_stack(const et_translation_stack *stack, int layers, int heads, int intermediate)
{
    assert_int_equal(stack->num_layers, layers);
    assert_int_equal(stack->num_attention_heads, heads);
    assert_int_equal(stack->intermediate_size, intermediate);
}

static void test_experiment__models(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int layers, heads, intermediate, width;
        bool norm_first, use_bias;
    } cases[] = {
        { "translation/tiny", 4, 4, 256, 128, false, true },
        { "translation/base", 6, 8, 2048, 512, true, false },
    };
    size_t count = sizeof cases / sizeof cases[0];
    assert_null(et_translation_experiments[count].name);
    for (size_t i = 0; i < count; i++) {
        et_experiment e = begin(cases[i].name);
        const et_translation_model *model = &task_of(&e)->model;
        const et_translation_stack *stacks[] = { &model->encoder, &model->decoder };
        assert_string_equal(e.name, cases[i].name);
        assert_int_equal(model->embedding_width, cases[i].width);
        for (int k = 0; k < 2; k++) {
            check_stack(stacks[k], cases[i].layers, cases[i].heads, cases[i].intermediate);
            assert_int_equal(stacks[k]->norm_first, cases[i].norm_first);
            assert_int_equal(stacks[k]->use_bias, cases[i].use_bias);
        }
        /* It is whole but for the data. */
        assert_fails(et_experiment_check(&e, error), ET_ECONFIG, "task.train_data: no data");
        assert_ok(et_experiment_set(&e, "task.train_data.tsv_path=a.tsv", &arena, error));
        assert_ok(et_experiment_check(&e, error));
    }
}

static void test_experiment__unknown(void **state)
{
    (void)state;
    et_experiment e;
    assert_fails(
        et_experiment_begin(&e, &et_translation_program, "translation/bass", &arena, error),
        ET_ECONFIG, "no experiment named translation/bass. Nearest: translation/base");
    assert_fails(et_experiment_begin(&e, &et_translation_program, "xyz", &arena, error), ET_ECONFIG,
                 "no experiment named xyz; ");
}

/* ---- single settings -------------------------------------------------------------------- */

/* What stands in one word of the command line, and what comes of it. */
static void test_experiment__set(void **state)
{
    (void)state;
    static const struct {
        const char *words;
        int64_t steps, seed;
        const char *paths; /* of sources, a bar between */
    } cases[] = {
        { "trainer.train_steps=5", 5, 0, "" },
        { "trainer.train_steps=5,runtime.seed=9", 5, 9, "" },
        { "trainer.train_steps=5, runtime.seed=9", 5, 9, "" },
        { "{trainer: {train_steps: 5}, runtime: {seed: 9}}", 5, 9, "" },
        { "task.train_data.source_path=a.en", 6000, 0, "a.en" },
        { "task.train_data.source_path=[a.en, b.en],runtime.seed=9", 6000, 9, "a.en|b.en" },
        { "task.train_data.source_path=a,b,runtime.seed=9", 6000, 9, "a,b" },
        { "task.train_data.source_path=\"a,runtime.seed=8\",runtime.seed=9", 6000, 9,
          "a,runtime.seed=8" },
        { "task.train_data.source_path=['it''s, x.y=1', b],runtime.seed=9", 6000, 9,
          "it's, x.y=1|b" },
        { "task.train_data.source_path=x=y", 6000, 0, "x=y" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_experiment e = begin("translation/tiny");
        char paths[200] = "";
        assert_ok(et_experiment_set(&e, cases[i].words, &arena, error));
        assert_int_equal(e.trainer.train_steps, cases[i].steps);
        assert_int_equal(e.runtime.seed, cases[i].seed);
        const et_strings *sources = &task_of(&e)->train_data.source_path;
        for (size_t k = 0; k < sources->count; k++) {
            strcat(paths, k ? "|" : "");
            strcat(paths, sources->items[k]);
        }
        assert_string_equal(paths, cases[i].paths);
    }
}

/* ---- what a run keeps ------------------------------------------------------------------- */

/* Everything that may be set is written, and read back as it was: the second file has the bytes
 * of the first. */
static void test_experiment__written_and_read(void **state)
{
    static const char *const sets[] = {
        "task.train_data.source_path=['a b.en', \"q\\\"uo: te\\n#\", 'it''s', '5', 'true', '']",
        "task.train_data.target_path=[1,2,3,4,5,6]",
        "task.sentencepiece_model_path=~/x y.model",
        "task.model.alpha=0.1",
        "task.model.encoder.norm_epsilon=1e-7",
        "task.model.encoder.activation=swish",
        "task.train_data.deduplicate=true",
        "trainer.optimizer_config.optimizer.type=adamw",
        "trainer.optimizer_config.optimizer.adamw.exclude_from_weight_decay=[norm, 'bias$']",
        "trainer.optimizer_config.learning_rate.stepwise.values=[0.1, 1e-2, 3]",
        "trainer.optimizer_config.ema.average_decay=0.99999999",
        "runtime.seed=4503599627370496",
    };
    et_experiment e = begin("translation/base"), again;
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++)
        assert_ok(et_experiment_set(&e, sets[i], &arena, error));
    assert_ok(et_experiment_write(&e, in(state, ET_EXPERIMENT_FILE), error));
    assert_ok(et_experiment_open_run(&again, &et_translation_program, *state, &arena, error));
    assert_string_equal(again.name, "translation/base");
    assert_int_equal(again.runtime.seed, 4503599627370496);
    assert_int_equal(task_of(&again)->train_data.source_path.count, 6);
    assert_string_equal(task_of(&again)->train_data.source_path.items[1], "q\"uo: te\n#");
    assert_true(again.trainer.optimizer_config.ema.average_decay == 0.99999999);
    assert_ok(et_experiment_check_same(&e, &again, NULL, "run", false, error));
    assert_ok(et_experiment_write(&again, in(state, "again.yaml"), error));
    size_t length, length_again;
    char *text = get_file(in(state, ET_EXPERIMENT_FILE), &length);
    char *text_again = get_file(in(state, "again.yaml"), &length_again);
    assert_int_equal(length, length_again);
    assert_memory_equal(text, text_again, length);
    free(text);
    free(text_again);
}

/* What makes a run what it is may not change; how long it trains and what it keeps may. */
static void test_experiment__same(void **state)
{
    (void)state;
    enum { FREE, ASKED, NEVER };
    static const struct {
        const char *set;
        int allowed; /* as it is, with accept, not at all */
    } cases[] = {
        { "trainer.train_steps=9", FREE },
        { "trainer.checkpoint_interval=9", FREE },
        { "trainer.max_to_keep=9", FREE },
        { "runtime.prefetch=0", FREE },
        { "runtime.loss_scale=dynamic", NEVER },
        { "trainer.loss_upper_bound=9", FREE },
        { "trainer.recovery_max_trials=9", FREE },
        { "trainer.recovery_begin_steps=9", FREE },
        { "task.init_checkpoint=runs/other", FREE }, /* a run begins once */
        { "runtime.recompute=none", FREE },
        { "task.model.beam_size=2", FREE },
        { "task.validation_data.tsv_path=v.tsv", FREE },
        { "trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=9", ASKED },
        { "task.model.dropout_rate=0.2", ASKED },
        { "task.model.label_smoothing=0", ASKED },
        { "task.model.encoder.num_layers=3", NEVER },
        { "task.train_data.tsv_path=t.tsv", FREE }, /* its content counts */
        { "task.train_data.shuffle_pool=9", NEVER },
        { "task.vocabulary.size=9", NEVER },
        { "trainer.gradient_accumulation=2", NEVER },
        { "runtime.seed=9", NEVER },
        { "runtime.mixed_precision_dtype=float32", NEVER },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_experiment kept = begin("translation/tiny"), now = begin("translation/tiny");
        assert_ok(et_experiment_set(&now, cases[i].set, &arena, error));
        for (int accept = 0; accept < 2; accept++) {
            bool allowed = cases[i].allowed <= (accept ? ASKED : FREE);
            int status = et_experiment_check_same(&kept, &now, NULL, "run", accept, NULL);
            if (status != (allowed ? ET_OK : ET_ECONFIG))
                fail_msg("%s, accept %d: status %d", cases[i].set, accept, status);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experiment__models),
        cmocka_unit_test(test_experiment__unknown),
        cmocka_unit_test(test_experiment__set),
        cmocka_unit_test(test_experiment__written_and_read),
        cmocka_unit_test(test_experiment__same),
    };
    return cmocka_run_group_tests(tests, make_directory, release_arena);
}
