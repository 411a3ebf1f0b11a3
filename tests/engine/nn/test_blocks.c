/* Tables of embeddings, and blocks of attention: declared parameters, refused inputs, and which
 * rows attend to each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include <etude/model.h>

#include "calls.h"

enum { KINDS = 5, LENGTH = 6, WIDTH = 16, ROWS = 1500 };

static int32_t words[ROWS][LENGTH], same[ROWS];

/* Whether the last word is the first one again. */
static int draw_words(void **state)
{
    uint64_t number = 5;
    (void)state;
    for (int i = 0; i < ROWS; i++) {
        for (int k = 0; k < LENGTH; k++) {
            number = number * 6364136223846793005u + 1442695040888963407u;
            words[i][k] = (int32_t)(number >> 40) % KINDS;
        }
        if (i % 2)
            words[i][LENGTH - 1] = words[i][0];
        same[i] = words[i][LENGTH - 1] == words[i][0];
    }
    return 0;
}

static et_node *embed(et_scope *s, et_node *x)
{
    const et_init small = { ET_INIT_NORMAL, 0.1f };
    const int64_t batch = et_node_shape(x).size[0];
    et_node *h = et_embedding_table(et_in(s, "words"), x, KINDS, WIDTH);
    et_node *places = et_param(s, "places", et_shape_1(LENGTH * WIDTH), small);
    h = et_bias(et_reshape(h, et_shape_2(batch, LENGTH * WIDTH)), places);
    return et_reshape(h, et_shape_2(batch * LENGTH, WIDTH));
}

static void build(et_scope *s, void *payload)
{
    et_node *x = et_batch_input(s, ET_MODEL_X);
    const int64_t batch = et_node_shape(x).size[0];
    et_node *h = et_attention_block(et_in(s, "block"), embed(s, x), LENGTH, payload);
    et_output(s, "rows", et_reshape(h, et_shape_2(batch, LENGTH * WIDTH)));
    h = et_flatten(et_reshape(h, et_shape_3(batch, LENGTH, WIDTH)));
    h = et_dense(et_in(s, "logits"), et_slice_columns(h, (LENGTH - 1) * WIDTH, WIDTH), 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, ET_MODEL_Y), 0), 1);
}

static et_model *open_words(et_attention_block_options *block)
{
    et_model *model;
    const et_model_options options = { .x = { 1, { LENGTH } },
                                       .x_type = ET_I32,
                                       .y_type = ET_I32,
                                       .optimizer = { .learning_rate = 0.003 } };
    assert_ok(et_model_open(&model, build, block, &options, error));
    return model;
}

static et_shape shape_of(const et_model *model, const char *name)
{
    const int index = et_params_find(et_model_params(model), name);
    return et_params_shape(et_model_params(model), index);
}

static void test_blocks__declare(void **state)
{
    (void)state;
    et_attention_block_options block = { .heads = 4, .units = 24 };
    et_model *model = open_words(&block);
    static const struct {
        const char *name;
        et_shape shape;
    } cases[] = {
        { "words/table", { 2, { KINDS, WIDTH } } },
        { "block/norm_0/scale", { 1, { WIDTH } } },
        { "block/qkv/weight", { 2, { WIDTH, 3 * WIDTH } } },
        { "block/mixed/weight", { 2, { WIDTH, WIDTH } } },
        { "block/norm_1/offset", { 1, { WIDTH } } },
        { "block/hidden/weight", { 2, { WIDTH, 24 } } },
        { "block/out/bias", { 1, { WIDTH } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_true(et_shape_equal(shape_of(model, cases[i].name), cases[i].shape));
    et_model_close(model);
}

static void test_blocks__learn_what_two_rows_say_together(void **state)
{
    (void)state;
    double accuracy;
    et_attention_block_options block = { .heads = 2, .dropout = 0.05f };
    et_model *model = open_words(&block);
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    assert_ok(et_model_fit_arrays(model, words, same, ROWS, &(et_fit){ .epochs = 30 }, error));
    assert_ok(et_model_evaluate(model, words, same, ROWS, logs, error));
    assert_ok(et_value_read_float(logs, "validation_accuracy", &accuracy, error));
    assert_true(accuracy > 0.95);
    et_arena_free(arena);
    et_model_close(model);
}

/* Rows that change with the last word: all, or in a causal block only the last; never those of
 * another sequence. */
static void test_blocks__causal_rows_see_no_later_ones(void **state)
{
    (void)state;
    static float out[2][2][LENGTH][WIDTH];
    for (int causal = 0; causal < 2; causal++) {
        et_attention_block_options block = { .heads = 2, .causal = causal };
        et_model *model = open_words(&block);
        int32_t two[2][LENGTH] = { { 0, 1, 2, 3, 4, 0 }, { 4, 3, 2, 1, 0, 4 } };
        assert_ok(et_model_predict(model, two, 2, out[0], error));
        two[0][LENGTH - 1] = 3;
        assert_ok(et_model_predict(model, two, 2, out[1], error));
        for (int k = 0; k < LENGTH; k++) {
            const int differs = memcmp(out[0][0][k], out[1][0][k], sizeof out[0][0][k]) != 0;
            assert_int_equal(differs, !causal || k == LENGTH - 1);
        }
        assert_memory_equal(out[0][1], out[1][1], sizeof out[0][1]);
        et_model_close(model);
    }
}

/* ---- misuse ---- */

typedef struct wrong_block {
    et_attention_block_options options;
    int64_t length;
    bool image;
    const char *says;
} wrong_block;

static const wrong_block wrongs[] = {
    { { .heads = 3 }, LENGTH, false, "3 heads do not divide a width of 16" },
    { { .heads = -1 }, LENGTH, false, "-1 heads" },
    { { .units = -2 }, LENGTH, false, "-2 units" },
    { { .heads = 2 }, 0, false, "sequences of 0 rows" },
    { { .heads = 2 }, 7, false, "sequences of 7 rows do not divide" },
    { { .heads = 2 }, LENGTH, true, "give rows of numbers" },
};

static void build_wrong(et_scope *s, void *payload)
{
    const wrong_block *w = payload;
    et_node *x = et_batch_input(s, ET_MODEL_X), *h = embed(s, x);
    const int64_t batch = et_node_shape(x).size[0];
    if (w->image)
        h = et_reshape(h, et_shape_3(batch, LENGTH, WIDTH));
    et_output(s, "rows", et_attention_block(et_in(s, "block"), h, w->length, &w->options));
}

static void test_blocks__refuse(void **state)
{
    (void)state;
    const et_model_options options = { .x = { 1, { LENGTH } }, .x_type = ET_I32 };
    for (size_t i = 0; i < sizeof wrongs / sizeof *wrongs; i++) {
        et_model *model;
        wrong_block wrong = wrongs[i];
        assert_fails(et_model_open(&model, build_wrong, &wrong, &options, error), ET_EGRAPH,
                     wrong.says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks__declare),
        cmocka_unit_test(test_blocks__learn_what_two_rows_say_together),
        cmocka_unit_test(test_blocks__causal_rows_see_no_later_ones),
        cmocka_unit_test(test_blocks__refuse),
    };
    return cmocka_run_group_tests(tests, draw_words, NULL);
}
