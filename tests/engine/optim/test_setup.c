/* Every member of a struct of settings is the setting of its name. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <etude/optimizer.h>
#include <etude/optimizer_rule.h>

#include "base/arena.h"
#include "base/values/json.h"
#include "calls.h"
#include "engine/optim/options.h"

static const char *const ab[] = { "a", "b", NULL }, *const c[] = { "c", NULL };

typedef struct setup_case {
    et_optimizer_setup setup;
    const char *text;
} setup_case;

#define CLIPS                .clipvalue = 1, .clipnorm = 2, .global_clipnorm = 0
#define CLIPS_TEXT           "clipvalue: 1, clipnorm: 2"
#define BETAS                .beta_1 = 0.5, .beta_2 = 0.6, .epsilon = 0.1
#define BETAS_TEXT           "beta_1: 0.5, beta_2: 0.6, epsilon: 0.1"
#define RULE(name, settings) "{optimizer: {type: " name ", " name ": {" settings "}}, " RATE "}"
#define RATE                 "learning_rate: {type: constant, constant: {learning_rate: 0.001}}"
#define SCHEDULE(name, settings)                                                                   \
    "{optimizer: {type: adam}, learning_rate: {type: " name ", " name ": {" settings "}}}"

static const setup_case cases[] = {
    { { .sgd = &(const et_sgd){ .momentum = 0.3, .decay = 0.4, CLIPS, .nesterov = true } },
      RULE("sgd", "momentum: 0.3, decay: 0.4, nesterov: true, " CLIPS_TEXT) },
    { { .rmsprop =
            &(const et_rmsprop){
                .rho = 0.4, .momentum = 0.3, .epsilon = 0.1, CLIPS, .centered = true } },
      RULE("rmsprop", "rho: 0.4, momentum: 0.3, epsilon: 0.1, centered: true, " CLIPS_TEXT) },
    { { .adagrad = &(const et_adagrad){ .initial_accumulator_value = 0.4, .epsilon = 0.1, CLIPS } },
      RULE("adagrad", "initial_accumulator_value: 0.4, epsilon: 0.1, " CLIPS_TEXT) },
    { { .adam = &(const et_adam){ BETAS, CLIPS, .amsgrad = true } },
      RULE("adam", BETAS_TEXT ", amsgrad: true, " CLIPS_TEXT) },
    { { .adamw = &(const et_adamw){ BETAS, CLIPS, .weight_decay_rate = 0.7,
                                    .exclude_from_weight_decay = ab, .include_in_weight_decay = c,
                                    .gradient_clip_norm = 3, .amsgrad = true } },
      RULE("adamw", BETAS_TEXT
           ", weight_decay_rate: 0.7, exclude_from_weight_decay: [a, b], "
           "include_in_weight_decay: [c], gradient_clip_norm: 3, amsgrad: true, " CLIPS_TEXT) },
    { { .lamb = &(const et_lamb){ BETAS, CLIPS, .weight_decay_rate = 0.7,
                                  .exclude_from_weight_decay = ab,
                                  .exclude_from_layer_adaptation = c, .decay = 0.4 } },
      RULE("lamb", BETAS_TEXT ", weight_decay_rate: 0.7, exclude_from_weight_decay: [a, b], "
                              "exclude_from_layer_adaptation: [c], decay: 0.4, " CLIPS_TEXT) },
    { { .lars = &(const et_lars){ .momentum = 0.3,
                                  .eeta = 0.2,
                                  CLIPS,
                                  .weight_decay_rate = 0.7,
                                  .exclude_from_weight_decay = ab,
                                  .exclude_from_layer_adaptation = c,
                                  .nesterov = true } },
      RULE("lars", "momentum: 0.3, eeta: 0.2, weight_decay_rate: 0.7, exclude_from_weight_decay: "
                   "[a, b], exclude_from_layer_adaptation: [c], nesterov: true, " CLIPS_TEXT) },
    { { .muon =
            &(const et_muon){ BETAS, CLIPS, .momentum = 0.3, .weight_decay_rate = 0.7,
                              .adam_rate = 0.8, .exclude_from_weight_decay = ab,
                              .exclude_from_orthogonalization = c, .iterations = 3,
                              .scale = ET_MUON_SHAPE, .orthogonalization_dtype = ET_MUON_AUTO } },
      RULE("muon",
           BETAS_TEXT ", momentum: 0.3, weight_decay_rate: 0.7, adam_rate: 0.8, "
                      "exclude_from_weight_decay: [a, b], exclude_from_orthogonalization: [c], "
                      "iterations: 3, scale: shape, orthogonalization_dtype: auto, " CLIPS_TEXT) },
    { { .cosine = &(const et_schedule_cosine){ 0.1, 0.2, 30, 4 } },
      SCHEDULE("cosine", "initial_learning_rate: 0.1, alpha: 0.2, decay_steps: 30, offset: 4") },
    { { .polynomial = &(const et_schedule_polynomial){ 0.1, 0.02, 3, 40, true, 5 } },
      SCHEDULE("polynomial", "initial_learning_rate: 0.1, end_learning_rate: 0.02, power: 3, "
                             "decay_steps: 40, cycle: true, offset: 5") },
    { { .exponential = &(const et_schedule_exponential){ 0.1, 0.9, 30, true, 6 } },
      SCHEDULE("exponential", "initial_learning_rate: 0.1, decay_rate: 0.9, decay_steps: 30, "
                              "staircase: true, offset: 6") },
    { { .inverse_sqrt = &(const et_schedule_inverse_sqrt){ 0.1, 20, 0.03 } },
      SCHEDULE("inverse_sqrt", "peak_learning_rate: 0.1, warmup_steps: 20, "
                               "warmup_init_learning_rate: 0.03") },
    { { .learning_rate = 0.2, .warmup_steps = 7, .average_decay = 0.5 },
      "{optimizer: {type: adam}, learning_rate: {type: constant, constant: {learning_rate: 0.2}}, "
      "warmup: {type: linear, linear: {warmup_steps: 7}}, ema: {enabled: true, average_decay: "
      "0.5}}" },
    { { .rule = "adam", .adam = &(const et_adam){ 0 } }, RULE("adam", "") },
    { { .adamw = &(const et_adamw){ .weight_decay_rate = 0.1 },
        .parameter_groups =
            (const et_parameter_group[]){ { "^encoder/", .learning_rate_multiplier = 0.1 },
                                          { "bias|norm", .no_weight_decay = true },
                                          { "^head/", 10, .weight_decay_rate = 0.2 } },
        .parameter_group_count = 3 },
      "{optimizer: {type: adamw, adamw: {weight_decay_rate: 0.1}}, " RATE
      ", parameter_groups: [{pattern: ^encoder/, learning_rate_multiplier: 0.1}, {pattern: "
      "bias|norm, weight_decay_rate: 0}, {pattern: ^head/, learning_rate_multiplier: 10, "
      "weight_decay_rate: 0.2}]}" },
};

static void print(et_strbuf *out, const et_optimizer_setup *setup)
{
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options options = { 0 };
    assert_ok(et_optimizer_settle(&options, setup, &arena, error));
    et_json_print(out, et_fields_echo(&et_optimization_fields, &options, &arena), 1);
    et_arena_release(&arena);
}

static void test_setup__a_member_is_the_setting_of_its_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_strbuf structs = ET_STRBUF_INIT, text = ET_STRBUF_INIT;
        print(&structs, &cases[i].setup);
        print(&text, &(et_optimizer_setup){ .settings = cases[i].text });
        assert_string_equal(et_strbuf_text(&structs), et_strbuf_text(&text));
        et_strbuf_release(&structs);
        et_strbuf_release(&text);
    }
}

static const struct {
    et_optimizer_setup setup;
    const char *why;
} bad[] = {
    { { .muon = &(const et_muon){ .scale = 2 } }, "muon.scale: no choice is called 2" },
    { { .muon = &(const et_muon){ .scale = -1 } }, "muon.scale: no choice is called -1" },
    { { .muon = &(const et_muon){ .iterations = -3 } }, "muon.iterations: -3" },
    { { .lars = &(const et_lars){ .eeta = NAN } }, "lars.eeta" },
    { { .cosine = &(const et_schedule_cosine){ 0.1, .decay_steps = -3000 } },
      "cosine.decay_steps: -3000" },
};

/* What no setting accepts is refused, also numbers that are no choice. */
static void test_setup__refuses(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_optimization_options options;
        assert_fails(et_optimizer_settle(&options, &bad[i].setup, &arena, error), ET_ECONFIG,
                     bad[i].why);
        et_arena_release(&arena);
    }
}

/* The text is put on top. */
static void test_setup__the_text_counts(void **state)
{
    (void)state;
    et_strbuf both = ET_STRBUF_INIT, text = ET_STRBUF_INIT;
    print(&both, &(et_optimizer_setup){ .adam = &(et_adam){ .beta_1 = 0.5 },
                                        .settings = "{optimizer: {adam: {beta_1: 0}}}" });
    print(&text, &(et_optimizer_setup){ .settings = RULE("adam", "beta_1: 0") });
    assert_string_equal(et_strbuf_text(&both), et_strbuf_text(&text));
    et_strbuf_release(&both);
    et_strbuf_release(&text);
}

/* A list of groups in the text takes the place of the struct's. */
static void test_setup__the_text_has_the_groups(void **state)
{
    (void)state;
    static const et_parameter_group mine[] = { { .pattern = "a" }, { .pattern = "b" } };
    et_strbuf both = ET_STRBUF_INIT, text = ET_STRBUF_INIT;
    print(&both, &(et_optimizer_setup){ .parameter_groups = mine,
                                        .parameter_group_count = 2,
                                        .settings = "{parameter_groups: {pattern: c}}" });
    print(&text, &(et_optimizer_setup){ .settings = "{parameter_groups: [{pattern: c}]}" });
    assert_string_equal(et_strbuf_text(&both), et_strbuf_text(&text));
    et_strbuf_release(&both);
    et_strbuf_release(&text);
}

/* What a run saves of its settings is read back as it was. */
static void test_setup__groups_are_read_back(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options options, again;
    et_strbuf saved = ET_STRBUF_INIT, read = ET_STRBUF_INIT;
    const et_optimizer_setup setup = {
        .settings = "{parameter_groups: [{pattern: 'a|b$', learning_rate_multiplier: 0.1}, "
                    "{pattern: c, weight_decay_rate: 0}], optimizer: {type: adamw}}"
    };
    assert_ok(et_optimizer_settle(&options, &setup, &arena, error));
    et_value *echo = et_fields_effective(&et_optimization_fields, &options, &arena);
    et_json_print(&saved, echo, 1);
    et_fields_defaults(&et_optimization_fields, &again);
    assert_ok(
        et_fields_read(&et_optimization_fields, &again, echo, &arena, "params.yaml", "", error));
    et_json_print(&read, et_fields_effective(&et_optimization_fields, &again, &arena), 1);
    assert_string_equal(et_strbuf_text(&saved), et_strbuf_text(&read));
    assert_non_null(strstr(et_strbuf_text(&saved), "a|b$"));
    et_strbuf_release(&saved);
    et_strbuf_release(&read);
    et_arena_release(&arena);
}

static void no_update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    (void)options, (void)step, (void)chunk;
}

/* Rules of the program may be chosen, and nothing is chosen at first. */
static void test_setup__settings_of_a_program(void **state)
{
    (void)state;
    static const et_optimizer_rule mine = { .name = "mine", .update = no_update },
                                   adam = { .name = "adam", .update = no_update };
    static const et_optimizer_rule *const own[] = { &mine, NULL }, *const taken[] = { &adam, NULL };
    static const char *const none[] = { "optimizer.type == None", "learning_rate.type == None",
                                        "warmup.type == None", NULL };
    et_arena arena = ET_ARENA_INIT;
    et_settings settings;
    assert_ok(et_optimizer_settings(&settings, own, &arena, error));
    assert_ok(et_settings_check(&settings, none, error));
    assert_ok(et_settings_override(&settings, "optimizer.type=mine, learning_rate=0.5", error));
    assert_fails(et_settings_check(&settings, none, error), ET_ECONFIG, "optimizer.type is mine");
    assert_fails(et_optimizer_settings(&settings, taken, &arena, error), ET_EUSAGE,
                 "adam is already registered");
    assert_fails(et_optimizer_settings(&settings, NULL, NULL, error), ET_ENOMEM, "memory");
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setup__a_member_is_the_setting_of_its_name),
        cmocka_unit_test(test_setup__refuses),
        cmocka_unit_test(test_setup__the_text_counts),
        cmocka_unit_test(test_setup__the_text_has_the_groups),
        cmocka_unit_test(test_setup__groups_are_read_back),
        cmocka_unit_test(test_setup__settings_of_a_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
