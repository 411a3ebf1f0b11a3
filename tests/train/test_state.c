#include "train/checkpoint/state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/arena.h"
#include "base/values/json.h"
#include "engine/tensor/params.h"
#include "train/train.h"

static et_params *make_params(void)
{
    et_params *params;
    int index;
    assert_ok(et_params_new(&params, error));
    assert_ok(
        et_params_declare(params, "a/weight", et_shape_2(3, 5), (et_init){ 0 }, &index, error));
    assert_ok(et_params_declare(params, "b", et_shape_1(7), (et_init){ 0 }, &index, error));
    assert_ok(et_params_materialize(params, true, error));
    return params;
}

static et_optimizer *make_optimizer(et_params *params)
{
    et_optimization_options options;
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = ET_OPTIMIZER_ADAM;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.ema.enabled = true;
    et_optimizer *optimizer;
    assert_ok(et_optimizer_new(&optimizer, params, NULL, et_kernels_best(), &options, error));
    return optimizer;
}

static void test_state__params_and_optimizer(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        int64_t count;
    } expected[] = {
        { "a/weight", 15 },
        { "b", 7 },
        { "optimizer/m/a/weight", 15 },
        { "optimizer/m/b", 7 },
        { "optimizer/v/a/weight", 15 },
        { "optimizer/v/b", 7 },
        { "average/a/weight", 15 },
        { "average/b", 7 },
    };
    et_arena arena = ET_ARENA_INIT;
    et_params *params = make_params();
    et_optimizer *optimizer = make_optimizer(params);
    et_state *state;
    assert_ok(et_state_new(&state, error));
    assert_ok(et_state_add_params(state, params, error));
    assert_ok(et_state_add_optimizer(state, "optimizer", optimizer, error));
    assert_int_equal(et_state_tensor_count(state), 8);
    for (size_t i = 0; i < 8; i++) {
        const et_state_tensor *tensor = et_state_tensor_at(state, i);
        assert_string_equal(tensor->name, expected[i].name);
        assert_int_equal(et_shape_count(tensor->shape), expected[i].count);
        assert_int_equal(et_state_is_weight(tensor->name), i < 2);
        assert_ptr_equal(et_state_tensor_find(state, tensor->name), tensor);
    }
    assert_ptr_equal(et_state_tensor_at(state, 1)->data,
                     et_params_values(params) + et_params_offset(params, 1));
    assert_null(et_state_tensor_find(state, "c"));

    et_optimizer_set_progress(optimizer, 41, 0);
    et_value *tree;
    assert_ok(et_state_save(state, &tree, &arena, error));
    et_optimizer_set_progress(optimizer, 0, 0);
    uint64_t version = et_params_version(params);
    assert_ok(et_state_match(state, tree, error));
    assert_ok(et_state_restore(state, tree, error));
    assert_int_equal(et_optimizer_iterations(optimizer), 41);
    assert_int_equal(et_params_version(params), version + 1);
    /* If a slot is missing in the file, all slots of the rule are reset, which also resumes. */
    et_state_tensor_fill(state, 5, NULL);
    assert_true(et_state_tensor_at(state, 5)->missing);
    const et_slot *slots;
    et_optimizer_slots(optimizer, &slots);
    slots[0].data[0] = 5;
    et_state_start_slots(state, true);
    assert_true(slots[0].data[0] == 0);
    assert_int_equal(et_optimizer_slots_from(optimizer), 41);
    assert_ok(et_state_save(state, &tree, &arena, error));
    et_optimizer_set_progress(optimizer, 41, 0);
    assert_int_equal(et_optimizer_slots_from(optimizer), 0);
    assert_ok(et_state_restore(state, tree, error));
    assert_int_equal(et_optimizer_slots_from(optimizer), 41);
    et_value_set_int(et_value_get(tree, "optimizer"), "slots_from", 42);
    assert_fails(et_state_restore(state, tree, error), ET_EFORMAT, "slots_from: 42");
    et_state_free(state);
    et_optimizer_free(optimizer);
    et_params_free(params);
    et_arena_release(&arena);
}

/* Several optimizers have separate names, and their slots are not weights. */
static void test_state__names_of_optimizers(void **unused)
{
    (void)unused;
    et_params *params = make_params();
    et_optimizer *one = make_optimizer(params), *other = make_optimizer(params);
    et_state *state;
    assert_ok(et_state_new(&state, error));
    assert_ok(et_state_add_optimizer(state, "optimizer/one", one, error));
    assert_ok(et_state_add_optimizer(state, "optimizer/other", other, error));
    assert_non_null(et_state_tensor_find(state, "optimizer/one/m/b"));
    assert_non_null(et_state_tensor_find(state, "optimizer/other/average/b"));
    for (size_t i = 0; i < et_state_tensor_count(state); i++)
        assert_false(et_state_is_weight(et_state_tensor_at(state, i)->name));
    static const char *const wrong[] = { "adam", "optimizer2", "optimizers/a", "" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_fails(et_state_add_optimizer(state, wrong[i], one, error), ET_EUSAGE,
                     "the name of an optimizer must be \"optimizer\" or begin with \"optimizer/\"");
    et_state_free(state);
    et_optimizer_free(one);
    et_optimizer_free(other);
    et_params_free(params);
}

/* Two parts with one name would both read the same values. */
static void test_state__name_taken(void **unused)
{
    (void)unused;
    float values[2] = { 0 };
    et_params *params = make_params();
    et_optimizer *one = make_optimizer(params), *other = make_optimizer(params);
    et_state *state;
    assert_ok(et_state_new(&state, error));
    assert_ok(et_state_add_optimizer(state, "optimizer", one, error));
    const size_t tensors = et_state_tensor_count(state);
    assert_fails(et_state_add_optimizer(state, "optimizer", other, error), ET_EUSAGE,
                 "optimizer: another part of the state has this name; choose another");
    assert_ok(et_state_add_tensor(state, "noise", values, et_shape_1(2), error));
    assert_fails(et_state_add_tensor(state, "noise", values, et_shape_1(2), error), ET_EUSAGE,
                 "noise: another part of the state has this name; choose another");
    assert_int_equal(et_state_tensor_count(state), tensors + 1);
    et_state_free(state);
    et_optimizer_free(one);
    et_optimizer_free(other);
    et_params_free(params);
}

/* Parts that a file cannot store, or would confuse with another. */
static void test_state__no_part(void **unused)
{
    (void)unused;
    float values[2] = { 0 };
    const et_init ones = { .kind = ET_INIT_ONES };
    et_part_class half = toy_class;
    et_state *state;
    et_params *params;
    int index;
    assert_ok(et_state_new(&state, error));
    half.restore = NULL;
    assert_fails(et_state_add(state, NULL, &toy_class, values, error), ET_EUSAGE, "has no name");
    assert_fails(et_state_add(state, "half", &half, values, error), ET_EUSAGE,
                 "half: this part of the state cannot save and restore");
    assert_fails(et_state_add_tensor(state, "", values, et_shape_1(2), error), ET_EUSAGE,
                 "has no name");
    assert_fails(et_state_add_tensor(state, "a\tb", values, et_shape_1(2), error), ET_EUSAGE,
                 "array a\\tb: the name has control characters");
    assert_fails(et_state_add_tensor(state, "__metadata__", values, et_shape_1(2), error),
                 ET_EUSAGE, "array __metadata__: the name is reserved by the file format");
    assert_fails(et_state_add_tensor(state, "a\xff", values, et_shape_1(2), error), ET_EUSAGE,
                 "a\\xff: ");
    assert_fails(et_state_add_tensor(state, "n", values, (et_shape){ 77, { 1 } }, error), ET_EUSAGE,
                 "n: [rank 77] is not an array");
    assert_fails(et_state_add_tensor(state, "n", values, et_shape_1(-3), error), ET_EUSAGE,
                 "n: [-3] is not an array");
    assert_fails(et_state_add_tensor(state, "n", NULL, et_shape_1(2), error), ET_EUSAGE,
                 "n: NULL, [2] is not an array");
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "average/w", et_shape_1(2), ones, &index, error));
    assert_fails(et_state_add_params(state, params, error), ET_EUSAGE, "no values yet");
    assert_ok(et_params_materialize(params, false, error));
    assert_fails(et_state_add_params(state, params, error), ET_EUSAGE,
                 "parameter average/w: names that start with average/ or optimizer/ are reserved; "
                 "rename the scope");
    assert_int_equal(et_state_tensor_count(state), 0);
    et_state_free(state);
    et_params_free(params);
}

/* A part that files of an earlier version lack; files that have it restore it. */
static void test_state__optional_part(void **unused)
{
    (void)unused;
    et_arena arena = ET_ARENA_INIT;
    toy t = toy_new(3);
    toy_attach(&t);
    et_value *before, *after;
    assert_ok(et_state_save(t.state, &before, &arena, error));
    assert_ok(et_state_add_optional(t.state, "new", &toy_class, &t, error));
    assert_ok(et_state_save(t.state, &after, &arena, error));
    assert_ok(et_state_match(t.state, before, error));
    assert_ok(et_state_restore(t.state, before, error));
    assert_int_equal(t.restored, 1);
    assert_ok(et_state_match(t.state, after, error));
    assert_ok(et_state_restore(t.state, after, error));
    assert_int_equal(t.restored, 3);
    toy_free(&t);
    et_arena_release(&arena);
}

static void test_state__text_is_stable(void **unused)
{
    (void)unused;
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    toy t = toy_new(3);
    toy_attach(&t);
    et_value *tree;
    assert_ok(et_state_save(t.state, &tree, &arena, error));
    et_json_print(&text, tree, 0);
    assert_string_equal(text.data, "{\"toy\":{\"step\":3,\"real\":1.0}}");
    et_strbuf_release(&text);
    et_arena_release(&arena);
    toy_free(&t);
}

static void test_state__mismatch(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int status;
        const char *part;
    } cases[] = {
        { "[]", ET_EFORMAT, "not a group" },
        { "{}", ET_ECONFIG, "has no state of toy" },
        { "{\"toy\":3}", ET_ECONFIG, "has no state of toy" },
        { "{\"toy\":{},\"more\":{}}", ET_ECONFIG, "has state of more" },
    };
    toy t = toy_new(3);
    toy_attach(&t);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_value *tree;
        assert_ok(et_json_parse(&tree, &arena, cases[i].text, strlen(cases[i].text), "t", error));
        assert_fails(et_state_match(t.state, tree, error), cases[i].status, cases[i].part);
        et_arena_release(&arena);
    }
    et_arena arena = ET_ARENA_INIT;
    et_value *tree = et_value_dict(&arena);
    et_value_set_string(et_value_set_dict(tree, "toy"), "step", "x");
    assert_fails(et_state_restore(t.state, tree, error), ET_EFORMAT, "restoring toy: ");
    et_arena_release(&arena);
    toy_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_state__params_and_optimizer),
        cmocka_unit_test(test_state__names_of_optimizers),
        cmocka_unit_test(test_state__name_taken),
        cmocka_unit_test(test_state__no_part),
        cmocka_unit_test(test_state__optional_part),
        cmocka_unit_test(test_state__text_is_stable),
        cmocka_unit_test(test_state__mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
