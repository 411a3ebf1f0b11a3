/* Shape rules of layout, batch norms, images and samples: as test_shape.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "engine/graph/build.h"
#include "engine/graph/graph.h"
#include "engine/graph/shape_cases.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

enum { T = 7, D = 6 };

static const et_init ones = { ET_INIT_ONES, 0 };
static const et_column columns[] = { { 5, 2 }, { 9, 3 } };

static et_node *act(et_scope *s, const char *name, et_shape shape)
{
    return et_input(s, name, et_graph_act(et_scope_graph(s)), shape);
}

static et_node *x(et_scope *s)
{
    return act(s, "x", et_shape_2(T, D));
}

static et_node *image(et_scope *s)
{
    return act(s, "image", et_shape_4(2, 9, 8, 3));
}

static et_node *ids(et_scope *s, et_shape shape)
{
    return et_input(s, "ids", ET_I32, shape);
}

static et_node *vector(et_scope *s, const char *name, int64_t count)
{
    return et_param(s, name, et_shape_1(count), ones);
}

static et_node *convolution(et_scope *s, int64_t channels, const et_convolution_options *options)
{
    et_node *weight = et_param(s, "w", et_shape_4(3, 2, channels, 5), ones);
    return et_convolution(image(s), weight, vector(s, "b", 5), options);
}

static et_node *pooled(et_scope *s, int window, int stride, bool same)
{
    et_pool_options options = { .window = { window, window },
                                .stride = { stride, stride },
                                .same = same };
    return et_max_pool(image(s), &options);
}

/* ---- what fits ---- */

static et_node *fits_reshape(et_scope *s)
{
    return et_reshape(x(s), et_shape_4(1, 2, T, 3));
}

static et_node *fits_columns(et_scope *s)
{
    et_node *parts[] = { x(s), et_slice_columns(x(s), 4, 2), x(s) };
    return et_concatenate_columns(parts, 3);
}

static et_node *fits_many(et_scope *s)
{
    et_node *parts[100];
    for (int i = 0; i < 100; i++)
        parts[i] = x(s);
    return et_concatenate_columns(parts, 100);
}

static et_node *fits_rows(et_scope *s)
{
    et_node *parts[] = { image(s), et_slice_rows(image(s), 1, 1) };
    return et_concatenate_rows(parts, 2);
}

static et_node *fits_gather(et_scope *s)
{
    return et_gather_rows(x(s), ids(s, et_shape_1(30)));
}

static et_node *fits_one_hot(et_scope *s)
{
    return et_one_hot(ids(s, et_shape_1(T)), 4);
}

static et_node *fits_embed_columns(et_scope *s)
{
    return et_embed_columns(ids(s, et_shape_2(T, 2)), vector(s, "t", 5 * 2 + 9 * 3), columns, 2);
}

static et_node *fits_rms_norm(et_scope *s)
{
    return et_rms_norm(x(s), vector(s, "g", D), 1e-6f);
}

static et_node *fits_batch_norm(et_scope *s)
{
    et_node *mean, *variance;
    et_batch_norm(image(s), vector(s, "g", 3), vector(s, "b", 3), NULL, 0.1f, &mean, &variance);
    return et_add(mean, variance);
}

static et_node *fits_convolution(et_scope *s)
{
    return convolution(s, 3, NULL);
}

static et_node *fits_same(et_scope *s)
{
    return convolution(s, 3, &(et_convolution_options){ .same = true, .stride = { 2, 3 } });
}

static et_node *fits_dilation(et_scope *s)
{
    return convolution(s, 3, &(et_convolution_options){ .dilation = { 3, 2 }, .stride = { 1, 4 } });
}

static et_node *fits_pool(et_scope *s)
{
    return pooled(s, 3, 2, false);
}

static et_node *fits_pool_same(et_scope *s)
{
    return pooled(s, 3, 0, true);
}

static et_node *fits_whole(et_scope *s)
{
    return et_mean_pool(image(s), NULL);
}

static et_node *fits_copies(et_scope *s)
{
    et_node *w = et_param(s, "w", et_shape_2(5, 4), ones);
    return et_scaled_copies(w, vector(s, "r", 3 * 5), vector(s, "c", 3 * 4));
}

static et_node *fits_noise(et_scope *s)
{
    return et_noise(s, "noise", et_shape_2(3, 4));
}

static et_node *fits_bernoulli(et_scope *s)
{
    return et_bernoulli(s, "drawn", vector(s, "p", 8));
}

static void test_shape_layers__fits(void **state)
{
    (void)state;
    static const fitting cases[] = {
        { fits_reshape, ACT, { 4, { 1, 2, T, 3 } } },
        { fits_columns, ACT, { 2, { T, 2 * D + 2 } } },
        { fits_many, ACT, { 2, { T, 100 * D } } },
        { fits_rows, ACT, { 4, { 3, 9, 8, 3 } } },
        { fits_gather, ACT, { 2, { 30, D } } },
        { fits_one_hot, ACT, { 2, { T, 4 } } },
        { fits_embed_columns, ACT, { 2, { T, 5 } } },
        { fits_rms_norm, ACT, { 2, { T, D } } },
        { fits_batch_norm, ET_F32, { 1, { 3 } } },
        { fits_convolution, ACT, { 4, { 2, 7, 7, 5 } } },
        { fits_same, ACT, { 4, { 2, 5, 3, 5 } } },
        { fits_dilation, ACT, { 4, { 2, 3, 2, 5 } } },
        { fits_pool, ACT, { 4, { 2, 4, 3, 3 } } },
        { fits_pool_same, ACT, { 4, { 2, 3, 3, 3 } } },
        { fits_whole, ACT, { 4, { 2, 1, 1, 3 } } },
        { fits_copies, ACT, { 2, { 5, 3 * 4 } } },
        { fits_noise, ACT, { 2, { 3, 4 } } },
        { fits_bernoulli, ET_F32, { 1, { 8 } } },
    };
    assert_fit(cases, COUNT(cases));
}

/* ---- invalid inputs ---- */

static et_node *wrong_reshape(et_scope *s)
{
    return et_reshape(x(s), et_shape_2(T, D + 1));
}

static et_node *wrong_columns(et_scope *s)
{
    et_node *parts[] = { x(s), act(s, "y", et_shape_2(T + 1, D)) };
    return et_concatenate_columns(parts, 2);
}

static et_node *wrong_no_columns(et_scope *s)
{
    et_node *parts[] = { et_input(s, "x", ET_F32, et_shape_2(2, 3)) };
    return et_concatenate_columns(parts, 0);
}

static et_node *wrong_no_rows(et_scope *s)
{
    et_node *parts[] = { et_input(s, "x", ET_F32, et_shape_2(2, 3)) };
    return et_concatenate_rows(parts, -1);
}

static et_node *wrong_concatenate_type(et_scope *s)
{
    et_node *parts[] = { x(s), et_param(s, "y", et_shape_2(T, D), ones) };
    return et_concatenate_columns(parts, 2);
}

static et_node *wrong_slice(et_scope *s)
{
    return et_slice_columns(x(s), 4, 3);
}

static et_node *wrong_slice_far(et_scope *s)
{
    return et_slice_rows(x(s), INT64_MAX - 1, 2);
}

static et_node *wrong_slice_scalar(et_scope *s)
{
    return et_slice_columns(et_sum(x(s)), 0, 1);
}

static et_node *wrong_gather(et_scope *s)
{
    return et_gather_rows(x(s), vector(s, "v", 3));
}

static et_node *copies(et_scope *s, int64_t row_scales, int64_t column_scales)
{
    et_node *w = et_param(s, "w", et_shape_2(5, 4), ones);
    return et_scaled_copies(w, vector(s, "r", row_scales), vector(s, "c", column_scales));
}

static et_node *wrong_copies(et_scope *s)
{
    return et_scaled_copies(vector(s, "w", 5), vector(s, "r", 5), NULL);
}

static et_node *wrong_row_scales(et_scope *s)
{
    return copies(s, 3 * 4, 3 * 4);
}

static et_node *wrong_column_scales(et_scope *s)
{
    return copies(s, 3 * 5, 2 * 4);
}

static et_node *wrong_depth(et_scope *s)
{
    return et_one_hot(ids(s, et_shape_1(T)), 0);
}

static et_node *wrong_table(et_scope *s)
{
    return et_embed_columns(ids(s, et_shape_2(T, 2)), vector(s, "t", 36), columns, 2);
}

static et_node *wrong_column_count(et_scope *s)
{
    return et_embed_columns(ids(s, et_shape_2(T, 3)), vector(s, "t", 37), columns, 2);
}

static et_node *wrong_column(et_scope *s)
{
    static const et_column empty[] = { { 5, 2 }, { 0, 3 } };
    return et_embed_columns(ids(s, et_shape_2(T, 2)), vector(s, "t", 10), empty, 2);
}

static et_node *wrong_rms_norm(et_scope *s)
{
    return et_rms_norm(x(s), vector(s, "g", T), 1e-6f);
}

static et_node *wrong_batch_norm(et_scope *s)
{
    return et_batch_norm(image(s), vector(s, "g", 3), vector(s, "b", 9), NULL, 0.1f, NULL, NULL);
}

static et_node *wrong_mask(et_scope *s)
{
    et_node *gamma = vector(s, "g", 3), *mask = vector(s, "b", 9);
    return et_batch_norm(image(s), gamma, gamma, mask, 0.1f, NULL, NULL);
}

static et_node *wrong_epsilon(et_scope *s)
{
    et_node *gamma = vector(s, "g", 3);
    return et_batch_norm(image(s), gamma, gamma, NULL, -1, NULL, NULL);
}

static et_node *no_columns(et_scope *s)
{
    return et_embed_columns(ids(s, et_shape_2(7, 3)), vector(s, "t", 36), NULL, 0);
}

static et_node *no_name(et_scope *s)
{
    return et_noise(s, "", et_shape_1(3));
}

static et_node *wrong_channels(et_scope *s)
{
    return convolution(s, 4, NULL);
}

static et_node *wrong_window(et_scope *s)
{
    return convolution(s, 3, &(et_convolution_options){ .dilation = { 5, 1 } });
}

static et_node *wrong_stride(et_scope *s)
{
    return convolution(s, 3, &(et_convolution_options){ .stride = { 1, -1 } });
}

static et_node *wrong_pool(et_scope *s)
{
    return pooled(s, 9, 1, false);
}

static et_node *wrong_pool_rank(et_scope *s)
{
    return et_mean_pool(x(s), NULL);
}

static et_node *wrong_bernoulli(et_scope *s)
{
    return et_bernoulli(s, "drawn", ids(s, et_shape_1(3)));
}

static void test_shape_layers__refuses(void **state)
{
    (void)state;
    static const misfit cases[] = {
        { wrong_reshape, { "(reshape): m/x [7, 6] does not have as many elements as [7, 7]" } },
        { wrong_columns, { "(concatenate): other sizes or types differ", "m/y [8, 6]" } },
        { wrong_no_columns, { "concatenate: count 0: must be from 1" } },
        { wrong_no_rows, { "concatenate: count -1: must be from 1" } },
        { wrong_concatenate_type, { "(concatenate): other sizes or types differ", "m/y" } },
        { wrong_slice, { "(slice): m/x [7, 6] does not have 3 of its columns from 4 on" } },
        { wrong_slice_far,
          { "m/x [7, 6] does not have 2 of its rows from 9223372036854775806 on" } },
        { wrong_slice_scalar, { "(slice): a scalar has no rows or columns" } },
        { wrong_gather, { "(gather): not a matrix and int32 rows", "m/v [3]" } },
        { wrong_copies, { "(scaled_copies): not a float32 matrix", "m/w [5]" } },
        { wrong_row_scales, { "(scaled_copies): not one float32 scale for each row", "m/r [12]" } },
        { wrong_column_scales,
          { "(scaled_copies): not one float32 scale for each column", "m/c [8]" } },
        { wrong_depth, { "one_hot: depth 0: must be from 1 to" } },
        { wrong_table, { "(embed_columns): the table is not a float32 vector", "m/t [36]" } },
        { wrong_column_count, { "(embed_columns): not int32 ids with one column", "[7, 3]" } },
        { wrong_column, { "(embed_columns): column 1 has 0 rows of width 3" } },
        { wrong_rms_norm, { "(rms_norm): scale is not a vector as wide", "m/g [7]" } },
        { wrong_batch_norm, { "(batch_norm): not float32, one number", "m/b [9]" } },
        { wrong_mask, { "(batch_norm): the mask is not float32, one number", "m/b [9]" } },
        { wrong_epsilon, { "batch_norm: epsilon -1: must be from 0 to" } },
        { no_columns, { "embed_columns: columns 0: must be from 1 to" } },
        { no_name, { "the name is missing" } },
        { wrong_channels, { "(convolution): not an image and a weight", "m/w [3, 2, 4, 5]" } },
        { wrong_window, { "(convolution): the window is larger than the image", "[2, 9, 8, 3]" } },
        { wrong_stride, { "(convolution): a stride or dilation is negative" } },
        { wrong_pool, { "(max_pool): the window is larger than the image" } },
        { wrong_pool_rank, { "(mean_pool): not a numeric image", "m/x [7, 6]" } },
        { wrong_bernoulli, { "(bernoulli): whole numbers are not probabilities" } },
    };
    assert_refused(cases, COUNT(cases));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shape_layers__fits),
        cmocka_unit_test(test_shape_layers__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
