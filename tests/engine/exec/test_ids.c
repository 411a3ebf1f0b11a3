/* Ids, labels and offsets of a batch are checked against the sizes that they index. */
#include "engine/exec/pass_model.h"

#include <string.h>

#include "engine/graph/build.h"

/* labels, through a change of shape, and pair [T, 2] choose rows. */
static void build_look_ups(et_scope *s, void *payload)
{
    (void)payload;
    static const et_column columns[] = { { 5, 2 }, { CLASSES, 2 } };
    const et_init one = { .kind = ET_INIT_ONES };
    et_node *labels_1 =
        et_reshape(et_reshape(et_batch_input(s, "labels"), et_shape_2(ROWS, 1)), et_shape_1(ROWS));
    et_node *table = et_param(s, "table", et_shape_2(CLASSES, 4), one);
    et_node *tables = et_param(s, "tables", et_shape_1(et_columns_size(columns, 2)), one);
    et_node *h = et_add(et_embedding(labels_1, table, 1, NULL, NULL),
                        et_embed_columns(et_batch_input(s, "pair"), tables, columns, 2));
    et_loss(s, "loss", et_mul(h, h), 1);
    et_output(s, "gathered", et_gather_rows(table, labels_1));
}

/* labels choose rows after some were drawn. */
static void build_sampled(et_scope *s, void *payload)
{
    (void)payload;
    const et_init one = { .kind = ET_INIT_ONES };
    et_node *labels_1 =
        et_reshape(et_reshape(et_batch_input(s, "labels"), et_shape_2(ROWS, 1)), et_shape_1(ROWS));
    et_node *h = et_param(s, "h", et_shape_2(ROWS, 4), one);
    et_node *table = et_param(s, "table", et_shape_2(3 * ROWS, 4), one);
    et_loss(s, "loss", et_sampled_loss(s, h, table, labels_1, 0, 2 * ROWS), 1);
}

/* Column 0 of pair selects rows; column 1 is only read in its last rows, after two rows of labels.
 */
static void build_pieces(et_scope *s, void *payload)
{
    (void)payload;
    const et_init one = { .kind = ET_INIT_ONES };
    et_node *both = et_batch_input(s, "pair");
    et_node *first = et_reshape(et_slice_columns(both, 0, 1), et_shape_1(ROWS));
    et_node *last = et_slice_rows(et_slice_columns(both, 1, 1), 2, ROWS - 2);
    et_node *ahead = et_reshape(et_slice_rows(et_batch_input(s, "labels"), 3, 2), et_shape_2(2, 1));
    et_node *second =
        et_reshape(et_concatenate_rows((et_node *[]){ ahead, last }, 2), et_shape_1(ROWS));
    et_node *h =
        et_embedding(first, et_param(s, "table", et_shape_2(6, CLASSES), one), 1, NULL, NULL);
    et_loss(s, "loss", et_softmax_loss(h, second, 0), 1);
}

/* The same columns side by side in the other order. */
static void build_pieces_by_column(et_scope *s, void *payload)
{
    (void)payload;
    static const et_column columns[] = { { 5, 2 }, { 7, 2 } };
    const et_init one = { .kind = ET_INIT_ONES };
    et_node *both = et_batch_input(s, "pair");
    et_node *turned[] = { et_slice_columns(both, 1, 1), et_slice_columns(both, 0, 1) };
    et_node *tables = et_param(s, "tables", et_shape_1(et_columns_size(columns, 2)), one);
    et_loss(s, "loss", et_embed_columns(et_concatenate_columns(turned, 2), tables, columns, 2), 1);
}

/* Rows of pair that labels choose choose rows themselves. */
static void build_gathered(et_scope *s, void *payload)
{
    (void)payload;
    const et_init one = { .kind = ET_INIT_ONES };
    et_node *chosen = et_gather_rows(et_batch_input(s, "pair"), et_batch_input(s, "labels"));
    et_node *table = et_param(s, "table", et_shape_2(6, 4), one);
    et_loss(s, "loss", et_embedding(et_reshape(chosen, et_shape_1(2 * ROWS)), table, 1, NULL, NULL),
            1);
}

static int longest_key;

/* labels[0 .. 2] are offsets of keys, with zeros before them of queries. */
static void build_segments(et_scope *s, void *payload)
{
    (void)payload;
    const et_attention_options options = { .heads = 2, .longest_key = longest_key };
    et_node *h = et_batch_input(s, "x"), *keys = et_slice_rows(et_batch_input(s, "labels"), 0, 3);
    et_node *queries[] = { et_integers(s, 0, 1, 0),
                           et_slice_rows(et_batch_input(s, "labels"), 3, 2) };
    et_node *q = et_dense(et_in(s, "q"), h, 4), *kv = et_dense(et_in(s, "kv"), h, 8);
    et_node *mixed = et_attention(s, q, kv, et_concatenate_rows(queries, 2), keys, &options);
    et_loss(s, "loss", et_square(mixed), 1);
    et_output(s, "y", mixed);
}

/* Invalid segments are errors of the data. */
static void test_ids__offsets(void **state)
{
    (void)state;
    static const struct {
        int longest;
        int32_t offsets[5];
        const char *message; /* NULL: it is right */
    } cases[] = {
        { 2, { 0, 2, 4, 1, ROWS }, NULL },
        { 2, { 5, 6, ROWS, 0, 0 }, NULL },
        { 2, { 0, 2, 5, 1, 2 }, "attention: offset 3 of \"labels\" is 5 after 2" },
        { 4, { 0, 2, 5, 1, 2 }, NULL },
        { 0, { 0, ROWS, ROWS, 1, 2 }, NULL },
        { INT32_MAX, { 0, ROWS, ROWS, 1, 2 }, NULL },
        { 0, { 0, 1, ROWS + 1, 1, 2 }, "offset 3 of \"labels\" is 9 after 1" },
        { 0, { 3, 1, 2, 1, 2 }, "offset 2 of \"labels\" is 1 after 3" },
        { 0, { -1, 1, 2, 1, 2 }, "offset 2 of \"labels\" is 1 after -1" },
        { 0, { 0, 1, 2, -1, 2 }, "offset 4 of \"labels\" is -1 after 0" },
        { 0, { 0, 1, 2, 3, 2 }, "offset 5 of \"labels\" is 2 after 3" },
        { 0, { 0, 1, 2, 3, INT32_MAX }, "offset 5 of \"labels\" is 2147483647 after 3" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        et_error error = ET_ERROR_INIT;
        longest_key = cases[i].longest;
        int status = try_model(&m, build_segments, &training, ROWS, ROWS, &error);
        assert_true(status == ET_OK || status == ET_EDATA);
        memcpy(m.batch->data[1], cases[i].offsets, sizeof cases[i].offsets);
        status = et_pass_run(m.pass, m.batch, 1, 0, &error);
        assert_int_equal(status, cases[i].message ? ET_EDATA : ET_OK);
        if (cases[i].message && !strstr(error.text, cases[i].message))
            fail_msg("%s", error.text);
        close_model(&m);
    }
}

/* A longest segment that is not given is one of all rows: equal bits. */
static void test_ids__longest_key(void **state)
{
    (void)state;
    static const int32_t offsets[] = { 0, ROWS, ROWS, 5, ROWS };
    float first[ROWS * 4];
    for (int longest = ROWS; longest >= 0; longest -= ROWS) {
        model m;
        et_error error = ET_ERROR_INIT;
        longest_key = longest;
        try_model(&m, build_segments, &training, ROWS, ROWS, &error);
        memcpy(m.batch->data[1], offsets, sizeof offsets);
        assert_int_equal(et_pass_run(m.pass, m.batch, 1, 0, NULL), ET_OK);
        if (longest)
            memcpy(first, et_pass_output(m.pass, "y").data, sizeof first);
        else
            assert_memory_equal(first, et_pass_output(m.pass, "y").data, sizeof first);
        close_model(&m);
    }
}

/* Ids at or above a table's rows, or a loss's classes, are an error of the data: nothing is read or
 * written outside the table. Ids below 0 are empty. */
static void test_ids__choose_rows(void **state)
{
    (void)state;
    static const struct {
        et_build_fn *build;
        int field;
        int64_t place;
        int32_t id;
        const char *message; /* NULL: it is right */
    } cases[] = {
        { build_classes, 1, 2, CLASSES - 1, NULL },
        { build_classes, 1, 2, -1, NULL },
        { build_classes, 1, 2, CLASSES, "number 3 of \"labels\" in a batch is" },
        { build_classes, 1, 0, INT32_MAX, "number 1 of \"labels\" in a batch is 2147483647, but " },
        { build_sampled, 1, 4, 3 * ROWS - 1, NULL },
        { build_sampled, 1, 4, 3 * ROWS, "number 5 of \"labels\" in a batch is" },
        { build_look_ups, 1, ROWS - 1, CLASSES, "of \"labels\"" },
        { build_look_ups, 1, ROWS - 1, -1, NULL },
        { build_look_ups, 3, 4, 4, NULL },
        { build_look_ups, 3, 4, 5, "number 5 of \"pair\" in a batch is 5, but the model has 5" },
        { build_look_ups, 3, 2 * ROWS - 1, CLASSES - 1, NULL },
        { build_look_ups, 3, 2 * ROWS - 1, CLASSES, "of \"pair\"" },
        { build_pieces, 3, 0, 5, NULL },
        { build_pieces, 3, 0, 6, "number 1 of \"pair\" in a batch is 6, but the model has 6" },
        { build_pieces, 3, 14, 6, "number 15 of \"pair\"" },
        { build_pieces, 3, 3, INT32_MAX, NULL },
        { build_pieces, 3, 5, CLASSES, "number 6 of \"pair\"" },
        { build_pieces, 3, 15, CLASSES, "number 16 of \"pair\"" },
        { build_pieces, 1, 2, INT32_MAX, NULL },
        { build_pieces, 1, 3, CLASSES, "number 4 of \"labels\"" },
        { build_pieces, 1, 5, INT32_MAX, NULL },
        { build_pieces_by_column, 3, 8, 6, NULL },
        { build_pieces_by_column, 3, 8, 7, "number 9 of \"pair\"" },
        { build_pieces_by_column, 3, 9, 4, NULL },
        { build_pieces_by_column, 3, 9, 5, "number 10 of \"pair\"" },
        { build_gathered, 3, 2 * CLASSES, INT32_MAX, NULL },
        { build_gathered, 3, 2 * CLASSES - 1, 6, "number 6 of \"pair\"" },
        { build_gathered, 1, 7, ROWS, "number 8 of \"labels\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        et_error error = ET_ERROR_INIT;
        open_model(&m, cases[i].build, &training, ROWS, ROWS);
        ((int32_t *)m.batch->data[cases[i].field])[cases[i].place] = cases[i].id;
        int status = et_pass_run(m.pass, m.batch, 1, 0, &error);
        assert_int_equal(status, cases[i].message ? ET_EDATA : ET_OK);
        if (cases[i].message && !strstr(error.text, cases[i].message))
            fail_msg("%s", error.text);
        close_model(&m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ids__choose_rows),
        cmocka_unit_test(test_ids__offsets),
        cmocka_unit_test(test_ids__longest_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
