/* Experiments and their settings: the fields' table, the forms of --set, and that a run's file has
 * all settings. */
#include "systems/modelgarden/experiment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <math.h>

#include "base/arena.h"
#include "command/training/train_args.h"
#include "engine/optim/options.h"
#include "formats/files.h"
#include "tasks/translation/settings/translation_kind.h"
#include "tasks/translation/settings/translation_options.h"
#include "train/checkpoint/run_names.h"

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

/* ---- the table ---- */

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
        int layers[2], heads, intermediate, width;
        bool norm_first, use_bias;
    } cases[] = {
        { "translation/auto", { 4, 4 }, 4, 256, 128, true, true },
        { "translation/tiny", { 4, 4 }, 4, 256, 128, false, true },
        { "translation/base", { 6, 6 }, 8, 2048, 512, true, false },
        { "translation/student", { 6, 2 }, 8, 1536, 256, false, true },
        { "wmt_transformer/large", { 6, 6 }, 16, 4096, 1024, true, false },
        { "wmt_transformer/base", { 6, 6 }, 8, 2048, 512, true, false },
        { "wmt_transformer/tiny", { 6, 6 }, 4, 512, 128, true, false },
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
            check_stack(stacks[k], cases[i].layers[k], cases[i].heads, cases[i].intermediate);
            assert_int_equal(stacks[k]->norm_first, cases[i].norm_first);
            assert_int_equal(stacks[k]->use_bias, cases[i].use_bias);
        }
        bool student = strcmp(cases[i].name, "translation/student") == 0;
        assert_int_equal(model->decoder.recurrence,
                         student ? ET_RECURRENCE_SSRU : ET_RECURRENCE_NONE);
        /* It is whole but for the data. */
        assert_fails(et_experiment_check(&e, error), ET_ECONFIG, "task.train_data: no data");
        assert_ok(et_experiment_set(&e, "task.train_data.tsv_path=a.tsv", &arena, error));
        assert_ok(et_experiment_check(&e, error));
    }
}

/* Every value that Model Garden's registration sets, and the defaults that it leaves. */
static void test_experiment__wmt_large(void **state)
{
    (void)state;
    et_experiment e = begin("wmt_transformer/large");
    const et_translation_options *task = task_of(&e);
    const et_translation_model *model = &task->model;
    const et_translation_data *train = &task->train_data, *validation = &task->validation_data;
    const et_trainer_options *trainer = &e.trainer;
    const et_optimization_options *o = &trainer->optimizer_config;
    assert_true(model->padded_decode);
    assert_int_equal(model->decode_max_length, 100);
    assert_int_equal(model->beam_size, 4);
    assert_true(model->alpha == 0.6 && model->label_smoothing == 0.1);
    assert_true(model->dropout_rate == 0.1);
    assert_true(model->encoder.dropout_rate == 0.1 && model->decoder.dropout_rate == 0.1);
    assert_true(model->encoder.attention_dropout_rate == 0.1);
    assert_true(model->encoder.intermediate_dropout == 0.1);
    assert_true(model->encoder.norm_epsilon == 1e-6);
    assert_int_equal(model->encoder.activation, ET_ACTIVATION_RELU);
    assert_int_equal(train->global_batch_size, 24576);
    assert_true(train->static_batch && validation->static_batch);
    assert_int_equal(train->max_seq_length, 64);
    assert_int_equal(validation->global_batch_size, 32);
    assert_int_equal(validation->max_seq_length, 100);
    assert_string_equal(train->src_lang, "en");
    assert_string_equal(train->tgt_lang, "de");
    assert_string_equal(validation->src_lang, "en");
    assert_string_equal(validation->tgt_lang, "de");
    assert_int_equal(o->optimizer.type, ET_OPTIMIZER_ADAM);
    assert_true(o->optimizer.adam.beta_1 == 0.9 && o->optimizer.adam.beta_2 == 0.997);
    assert_true(o->optimizer.adam.epsilon == 1e-9);
    assert_int_equal(o->learning_rate.type, ET_RATE_POWER);
    assert_int_equal(o->warmup.type, ET_WARMUP_LINEAR);
    assert_int_equal(trainer->train_steps, 300000);
    assert_int_equal(trainer->steps_per_loop, 1000);
    assert_int_equal(trainer->summary_interval, 1000);
    assert_int_equal(trainer->checkpoint_interval, 5000);
    assert_int_equal(trainer->validation_interval, 5000);
    assert_int_equal(trainer->max_to_keep, 1);
}

/* Settings that mean nothing here, in all groups: each takes its own value, and another is refused
 * with the reason that its help is. Returns how many there are below path. */
static int check_fixed(et_experiment *e, const et_fields *table, const char *path)
{
    int count = 0;
    for (const et_field *field = table->fields; field->kind != ET_FIELD_KIND_END; field++) {
        char whole[300], text[400], reason[40];
        snprintf(whole, sizeof whole, "%s%s%s", path, *path ? "." : "", field->name);
        if (field->kind == ET_FIELD_KIND_STRUCT)
            count += check_fixed(e, field->nested, whole);
        if (field->kind != ET_FIELD_KIND_ONLY || !field->default_string)
            continue;
        snprintf(text, sizeof text, "%s=%s", whole, field->default_string);
        assert_ok(et_experiment_set(e, text, &arena, error));
        snprintf(text, sizeof text, "%s=no_such_value", whole);
        snprintf(reason, sizeof reason, "%.30s", field->help);
        assert_true(strlen(reason) > 10);
        assert_fails(et_experiment_set(e, text, &arena, error), ET_ECONFIG, reason);
        assert_fails(et_experiment_set(e, text, &arena, error), ET_ECONFIG, field->name);
        count++;
    }
    return count;
}

static void test_experiment__fixed(void **state)
{
    (void)state;
    et_experiment e = begin("wmt_transformer/large");
    assert_in_range(check_fixed(&e, e.table, ""), 30, 200);
}

/* The rates of Model Garden's schedule: 2 / sqrt(1024) times step^-0.5 after 16,000 linear steps.
 */
static void test_experiment__wmt_large_rates(void **state)
{
    (void)state;
    static const struct {
        int64_t step;
        double rate;
    } cases[] = { { 0, 0 }, { 8000, 2.4705e-4 }, { 16000, 4.9411e-4 }, { 64000, 2.4705e-4 } };
    et_experiment e = begin("wmt_transformer/large");
    const et_optimization_options *o = &e.trainer.optimizer_config;
    et_schedule schedule;
    assert_ok(et_schedule_init(&schedule, &o->learning_rate, &o->warmup, error));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_true(fabs(et_schedule_rate(&schedule, cases[i].step) - cases[i].rate) < 5e-9);
}

/* Of the settings that batches are made by. */
static void test_experiment__batching(void **state)
{
    (void)state;
    static const struct {
        const char *words, *fault; /* NULL: none */
    } cases[] = {
        { "task.train_data.static_batch=true", NULL },
        { "task.train_data.batching=bucketed", NULL },
        { "task.validation_data.batching=bucketed,task.validation_data.global_batch_size=65",
          NULL },
        { "task.validation_data.static_batch=true,task.validation_data.global_batch_size=8", NULL },
        { "task.model.padded_decode=true,task.model.decode_max_length=9", NULL },
        { "task.model.padded_decode=true", "task.model.padded_decode: needs" },
        { "task.model.r_drop=5", NULL },
        { "task.model.r_drop=5,task.model.dropout_rate=0", NULL }, /* layers drop */
        { "task.model.r_drop=5,task.model.dropout_rate=0,task.model.encoder.dropout_rate=0,"
          "task.model.encoder.attention_dropout_rate=0,task.model.encoder.intermediate_dropout=0,"
          "task.model.decoder.dropout_rate=0,task.model.decoder.attention_dropout_rate=0,"
          "task.model.decoder.intermediate_dropout=0",
          "task.model.r_drop: 5 needs dropout, but all dropout rates are 0; set "
          "task.model.dropout_rate, or set r_drop to 0" },
        { "task.model.sampled_vocabulary=9999", NULL },
        { "task.model.sampled_vocabulary=9999,task.model.r_drop=5",
          "task.model.sampled_vocabulary: cannot be combined with r_drop, which compares "
          "predictions of all tokens; set one of them to 0" },
        { "task.train_data.static_batch=true,task.train_data.batching=bucketed",
          "task.train_data: static_batch and batching: bucketed are both set; keep one" },
        { "task.train_data.static_batch=true,task.train_data.global_batch_size=63",
          ".global_batch_size: 63 tokens are fewer than max_seq_length, 64" },
        { "task.train_data.batching=bucketed,task.train_data.global_batch_size=64",
          "64 tokens are fewer than max_seq_length, 64, rounded up to its bucket" },
        { "task.validation_data.batching=bucketed,task.validation_data.global_batch_size=64",
          "task.validation_data.global_batch_size: 64 tokens are fewer than max_seq_length," },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_experiment e = begin("translation/tiny");
        assert_ok(et_experiment_set(&e, "task.train_data.tsv_path=a.tsv", &arena, error));
        assert_ok(et_experiment_set(&e, cases[i].words, &arena, error));
        if (cases[i].fault)
            assert_fails(et_experiment_check(&e, error), ET_ECONFIG, cases[i].fault);
        else
            assert_ok(et_experiment_check(&e, error));
    }
}

static void test_experiment__unknown(void **state)
{
    (void)state;
    et_experiment e;
    assert_fails(
        et_experiment_begin(&e, &et_translation_program, "translation/bass", &arena, error),
        ET_ECONFIG, "no experiment is called translation/bass. Nearest: translation/base");
    assert_fails(et_experiment_begin(&e, &et_translation_program, "xyz", &arena, error), ET_ECONFIG,
                 "no experiment is called xyz; ");
}

/* ---- single settings ---- */

/* One word of the command line, and the resulting settings. */
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

/* ---- the saved settings ---- */

/* A word for 0; null means 0 too, whatever the default, and 0 is written. */
static void test_experiment__all_checkpoints(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t kept;
    } cases[] = { { "trainer.max_to_keep=null", 0 },
                  { "trainer.max_to_keep=all", 0 },
                  { "trainer.max_to_keep=All", 0 },
                  { "trainer.max_to_keep=0", 0 },
                  { "trainer.max_to_keep=3", 3 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_experiment e = begin("translation/tiny");
        assert_int_equal(e.trainer.max_to_keep, 5);
        assert_ok(et_experiment_set(&e, cases[i].text, &arena, error));
        assert_int_equal(e.trainer.max_to_keep, cases[i].kept);
    }
    et_experiment e = begin("translation/tiny");
    assert_fails(et_experiment_set(&e, "trainer.max_to_keep=-1", &arena, error), ET_ECONFIG,
                 "out of range");
    assert_fails(et_experiment_set(&e, "trainer.max_to_keep=most", &arena, error), ET_ECONFIG,
                 "max_to_keep");
}

/* Every setting is written and read back: the second file has the bytes of the first. */
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
    assert_ok(et_experiment_write(&e, in(state, ET_RUN_SETTINGS), error));
    assert_ok(et_experiment_open_run(&again, &et_translation_program, *state, &arena, error));
    assert_string_equal(again.name, "translation/base");
    assert_int_equal(again.runtime.seed, 4503599627370496);
    assert_int_equal(task_of(&again)->train_data.source_path.count, 6);
    assert_string_equal(task_of(&again)->train_data.source_path.items[1], "q\"uo: te\n#");
    assert_true(again.trainer.optimizer_config.ema.average_decay == 0.99999999);
    assert_ok(et_experiment_check_same(&e, &again, NULL, "run", false, error));
    assert_ok(et_experiment_write(&again, in(state, "again.yaml"), error));
    size_t length, length_again;
    char *text = get_file(in(state, ET_RUN_SETTINGS), &length);
    char *text_again = get_file(in(state, "again.yaml"), &length_again);
    assert_int_equal(length, length_again);
    assert_memory_equal(text, text_again, length);
    free(text);
    free(text_again);
}

/* Every rule, the last schedule and the average of variables, by the names of the documents. */
static void test_experiment__optimizers(void **state)
{
    (void)state;
    static const char *const sets[] = {
        "optimizer.type=sgd",
        "optimizer.type=sgd_experimental",
        "optimizer.sgd_experimental.jit_compile=true",
        "optimizer.type=rmsprop",
        "optimizer.rmsprop.centered=true",
        "optimizer.type=adagrad",
        "optimizer.adagrad.initial_accumulator_value=0",
        "optimizer.type=adam",
        "optimizer.adam.amsgrad=true",
        "optimizer.type=adam_experimental",
        "optimizer.type=adamw",
        "optimizer.type=adamw_experimental",
        "optimizer.adamw_experimental.weight_decay=0.01",
        "optimizer.type=lamb",
        "optimizer.lamb.exclude_from_layer_adaptation=[norm, bias]",
        "optimizer.type=lars",
        "optimizer.lars.classic_momentum=false",
        "optimizer.type=adafactor_keras",
        "optimizer.adafactor_keras.relative_step=false",
        "optimizer.type=muon",
        "optimizer.muon.scale=shape",
        "ema.trainable_weights_only=false",
        "learning_rate.step_cosine_with_offset.boundaries=[0, 10]",
        "learning_rate.step_cosine_with_offset.values=[1e-3, 0]",
        "learning_rate.type=step_cosine_with_offset",
    };
    et_experiment e = begin("translation/tiny");
    for (size_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        char set[160];
        snprintf(set, sizeof set, "trainer.optimizer_config.%s", sets[i]);
        assert_ok(et_experiment_set(&e, set, &arena, error));
        assert_ok(et_optimization_check(&e.trainer.optimizer_config, error));
    }
}

/* Settings that define the run may not change; its length and its kept files may. */
static void test_experiment__same(void **state)
{
    (void)state;
    enum { FREE, ASKED, NEVER };
    static const struct {
        const char *set;
        int allowed; /* changed without, with, or not even with accept */
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
        { "task.model.r_drop=5", ASKED },
        { "task.model.sampled_vocabulary=99999", ASKED },
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

/* A decay without a length of its own has the run's length, which is then the user's decision. */
static void test_experiment__decay_of_the_run(void **state)
{
    (void)state;
    static const char cosine[] = "trainer.optimizer_config.learning_rate={type: cosine, cosine: "
                                 "{initial_learning_rate: 0.001}}";
    static const char own[] = "trainer.optimizer_config.learning_rate.cosine.decay_steps=6000";
    et_experiment kept = begin("translation/tiny"), now = begin("translation/tiny");
    assert_ok(et_experiment_set(&kept, cosine, &arena, error));
    assert_ok(et_experiment_set(&now, cosine, &arena, error));
    assert_ok(et_trainer_check(&now.trainer, error));
    assert_ok(et_experiment_check_same(&kept, &now, NULL, "run", false, error));
    assert_ok(et_experiment_set(&now, "trainer.train_steps=9000", &arena, error));
    assert_fails(et_experiment_check_same(&kept, &now, NULL, "run", false, error), ET_ECONFIG,
                 "cosine.decay_steps: 6000, but now it is 9000. Add --accept-changes to resume "
                 "with the new value, ");
    assert_ok(et_experiment_check_same(&kept, &now, NULL, "run", true, error));
    assert_ok(et_experiment_set(&now, "trainer.train_epochs=3", &arena, error));
    assert_fails(et_experiment_check_same(&kept, &now, NULL, "run", false, error), ET_ECONFIG,
                 "cosine.decay_steps: 6000, but now it is 3ep");
    /* If the old length is given as the decay's own, the run may have any length. */
    assert_ok(et_experiment_set(&now, own, &arena, error));
    assert_ok(et_experiment_check_same(&kept, &now, NULL, "run", false, error));
    /* A checkpoint keeps the length; settings stay as given. */
    et_value *identity;
    assert_ok(et_experiment_identify(&identity, &kept, NULL, NULL, &arena, error));
    assert_int_equal(et_value_path(et_value_get(identity, ET_IDENTITY_TRAINING),
                                   "trainer.optimizer_config.learning_rate.cosine.decay_steps")
                         ->integer,
                     6000);
    assert_int_equal(kept.trainer.optimizer_config.learning_rate.cosine.decay_steps, 0);
    assert_ok(et_experiment_set(&now, "trainer.optimizer_config.learning_rate.cosine.offset=9000",
                                &arena, error));
    assert_ok(et_trainer_check(&now.trainer, error));
    assert_ok(et_experiment_set(&kept, "trainer.optimizer_config.learning_rate.cosine.offset=9000",
                                &arena, error));
    assert_fails(et_trainer_check(&kept.trainer, error), ET_ECONFIG,
                 "leave no step of 6000 for the decay");
}

/* A list of groups is compared member by member; a member that an older checkpoint lacks is not. */
static void test_experiment__groups(void **state)
{
    (void)state;
    static const char groups[] = "trainer.optimizer_config.parameter_groups=";
    const char *half = et_arena_printf(&arena, "%s[{pattern: x}, {pattern: bias, %s}]", groups,
                                       "learning_rate_multiplier: 0.5");
    const char *quarter = et_arena_printf(&arena, "%s[{pattern: x}, {pattern: bias, %s}]", groups,
                                          "learning_rate_multiplier: 0.25");
    const char *one = et_arena_printf(&arena, "%s[{pattern: x}]", groups);
    et_experiment kept = begin("translation/tiny"), now = begin("translation/tiny");
    et_value *values;
    assert_ok(et_experiment_set(&kept, half, &arena, error));
    assert_ok(et_experiment_set(&now, quarter, &arena, error));
    assert_ok(et_experiment_identify(&values, &kept, NULL, NULL, &arena, error));
    const et_identity identity = { "ckpt", values };
    assert_fails(et_experiment_check_same(&kept, &now, &identity, "run", false, error), ET_ECONFIG,
                 "ckpt belongs to a run with trainer.optimizer_config.parameter_groups[1]"
                 ".learning_rate_multiplier: 0.5, but now it is 0.25");
    assert_ok(et_experiment_set(&now, one, &arena, error));
    assert_fails(et_experiment_check_same(&kept, &now, &identity, "run", false, error), ET_ECONFIG,
                 "trainer.optimizer_config.parameter_groups: ");
    et_value *list = (et_value *)et_value_path(et_value_get(values, ET_IDENTITY_TRAINING),
                                               "trainer.optimizer_config.parameter_groups");
    assert_non_null(list);
    et_value *group = list->first->next;
    assert_ok(et_experiment_set(&now, half, &arena, error));
    assert_ok(et_experiment_check_same(&kept, &now, &identity, "run", false, error));
    group->first = group->first->next;
    group->count--;
    assert_ok(et_experiment_check_same(&kept, &now, &identity, "run", false, error));
    et_value_set_int(group, "unheard_of", 1);
    assert_fails(et_experiment_check_same(&kept, &now, &identity, "run", false, error), ET_ECONFIG,
                 "parameter_groups[1]: ");
}

/* In a one-of block, the branches that are not chosen are neither written nor compared; the choice
 * itself is. */
static void test_experiment__branches(void **state)
{
    et_experiment e = begin("translation/tiny"), again, other = begin("translation/tiny");
    static const char adam[] = "trainer.optimizer_config.optimizer.adam.beta_1=0.5";
    static const char sgd[] = "trainer.optimizer_config.optimizer.sgd.momentum=0.5";
    static const char chosen[] = "trainer.optimizer_config.optimizer.type=sgd";
    assert_ok(et_experiment_set(&e, sgd, &arena, error));
    assert_ok(et_experiment_write(&e, in(state, ET_RUN_SETTINGS), error));
    size_t length;
    char *text = get_file(in(state, ET_RUN_SETTINGS), &length);
    assert_non_null(strstr(text, "    optimizer:\n      type: adam\n      adam:\n"));
    assert_non_null(strstr(text, "    learning_rate:\n      type: inverse_sqrt\n      inverse_sq"));
    assert_non_null(
        strstr(text, "    warmup:\n      type: none\n    regularization:\n      type: constant\n"));
    assert_null(strstr(text, "sgd"));
    assert_null(strstr(text, " tpu"));
    free(text);
    assert_ok(et_experiment_open_run(&again, &et_translation_program, *state, &arena, error));
    assert_ok(et_experiment_check_same(&again, &e, NULL, "run", false, error));
    assert_ok(et_experiment_set(&other, adam, &arena, error));
    assert_fails(et_experiment_check_same(&again, &other, NULL, "run", false, error), ET_ECONFIG,
                 "optimizer.adam.beta_1: 0.9, but now it is 0.5");
    assert_ok(et_experiment_set(&e, chosen, &arena, error));
    assert_fails(et_experiment_check_same(&again, &e, NULL, "run", false, error), ET_ECONFIG,
                 "optimizer.type: adam, but now it is sgd");
}

/* A run that another program has trained by a rule of its own is read, but does not train. */
static void test_experiment__rule_of_another_program(void **state)
{
    (void)state;
    static const char text[] = "experiment: translation/tiny\ntask: {train_data: {source_path: a, "
                               "target_path: b}}\ntrainer: {train_steps: 5, optimizer_config: "
                               "{optimizer: {type: lion, lion: {beta: 1}}, learning_rate: {type: "
                               "constant}}}\nruntime: {}\n";
    et_experiment e;
    assert_ok(
        et_experiment_open_text(&e, &et_translation_program, text, "params.yaml", &arena, error));
    assert_string_equal(e.unknown_rule, "lion");
    assert_ok(et_experiment_check(&e, error));
    assert_fails(et_train_settle(&e, error), ET_ECONFIG,
                 "optimizer.type: lion is an update rule of the program that began the run");
    assert_ok(et_experiment_set(&e, "trainer.optimizer_config.optimizer.type=sgd", &arena, error));
    assert_ok(et_train_settle(&e, error));
}

/* Files, trees and words on a command line; in any of them the experiment may be named. */
static void test_experiment__forms(void **state)
{
    FILE *file = fopen(in(state, "a=b.yaml"), "w");
    char path[300];
    assert_non_null(file);
    fputs("experiment: translation/tiny\nruntime: {seed: 7}\n", file);
    fclose(file);
    et_experiment e = begin("translation/tiny");
    snprintf(path, sizeof path, "%s", in(state, "a=b.yaml"));
    assert_ok(et_experiment_set(&e, path, &arena, error));
    assert_int_equal(e.runtime.seed, 7);
    assert_ok(et_experiment_set(&e,
                                "{\"experiment\": \"translation/tiny\", \"runtime\": "
                                "{\"seed\": 8}}",
                                &arena, error));
    assert_int_equal(e.runtime.seed, 8);
    assert_ok(et_experiment_set(&e,
                                "task.train_data.source_path[1]=b,"
                                "task.train_data.source_path[0]=a",
                                &arena, error));
    assert_string_equal(task_of(&e)->train_data.source_path.items[1], "b");
    assert_fails(et_experiment_set(&e, "{experiment: translation/base}", &arena, error), ET_ECONFIG,
                 ": these are settings for translation/base, not for translation/tiny");
    e.locked = true;
    assert_fails(et_experiment_set(&e, "runtime.seed=9", &arena, error), ET_ECONFIG, "locked");
    assert_fails(et_experiment_set(&e, path, &arena, error), ET_ECONFIG, "locked");
    assert_fails(et_experiment_read_file(&e, path, &arena, error), ET_ECONFIG, "locked");
    assert_int_equal(e.runtime.seed, 8);
}

static void check_names(const et_fields *table)
{
    for (const et_field *row = table->fields; row->kind != ET_FIELD_KIND_END; row++) {
        for (const et_field *before = table->fields; before != row; before++)
            if (!strcmp(before->name, row->name))
                fail_msg("%s has two rows named %s", table->name, row->name);
        if (!row->help)
            fail_msg("%s.%s: no help", table->name, row->name);
        if (row->kind == ET_FIELD_KIND_STRUCT)
            check_names(row->nested);
    }
}

static void test_experiment__tables(void **state)
{
    (void)state;
    et_experiment e = begin("translation/tiny");
    check_names(e.table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_experiment__models),
        cmocka_unit_test(test_experiment__wmt_large),
        cmocka_unit_test(test_experiment__fixed),
        cmocka_unit_test(test_experiment__wmt_large_rates),
        cmocka_unit_test(test_experiment__batching),
        cmocka_unit_test(test_experiment__unknown),
        cmocka_unit_test(test_experiment__set),
        cmocka_unit_test(test_experiment__all_checkpoints),
        cmocka_unit_test(test_experiment__written_and_read),
        cmocka_unit_test(test_experiment__optimizers),
        cmocka_unit_test(test_experiment__same),
        cmocka_unit_test(test_experiment__groups),
        cmocka_unit_test(test_experiment__decay_of_the_run),
        cmocka_unit_test(test_experiment__branches),
        cmocka_unit_test(test_experiment__rule_of_another_program),
        cmocka_unit_test(test_experiment__forms),
        cmocka_unit_test(test_experiment__tables),
    };
    return cmocka_run_group_tests(tests, make_directory, release_arena);
}
