/* Binary files of Marian: models with every type of numbers, shortlists, and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/files.h"
#include "formats/marian_samples.h"

static const float numbers[6] = { 1, -2, 3, 4, 5.5f, -127 };
static const float halves[3] = { 1, -2, 0.5f };
static const char text[] = "type: transformer\n";

/* Of intgemm8 values are bytes by m. */
static const float grid[6] = { 0.5f, -1, 1.5f, 2, -63.5f, 63.5f };
static const sample_item items[] = {
    { "weight", ET_MARIAN_NUMBER_FLOAT32, 2, 3, numbers, NULL, 0 },
    { "vector", ET_MARIAN_NUMBER_FLOAT32, 0, 6, numbers, NULL, 0 },
    { "Wemb", ET_MARIAN_NUMBER_INTGEMM8, 2, 3, grid, NULL, 2 },
    { "encoder_l1_self_Wq", ET_MARIAN_NUMBER_INTGEMM8, 2, 3, grid, NULL, 2 },
    { "encoder_l1_self_Wq_QuantMultA", ET_MARIAN_NUMBER_FLOAT32, 1, 1, numbers, NULL, 0 },
    { "special:model.yml", ET_MARIAN_NUMBER_BYTE, 0, sizeof text, NULL, text, 0 },
};
enum { ITEMS = sizeof items / sizeof *items };

static bytes file;

static int open_bytes(et_marian_model **model, const char *data, size_t length, et_error *failure)
{
    char *copy = et_alloc(length + 1, 1);
    memcpy(copy, data, length);
    return et_marian_model_open(model, copy, length, "model.bin", failure);
}

static void make(void)
{
    file.length = 0;
    add_marian_model(&file, items, ITEMS);
}

static void test_marian__reads(void **state)
{
    (void)state;
    et_marian_model *model;
    float values[6];
    make();
    assert_ok(open_bytes(&model, file.data, file.length, error));
    assert_int_equal(et_marian_model_count(model), ITEMS);
    for (int i = 0; i < 4; i++) {
        const et_marian_item *item = et_marian_model_find(model, items[i].name);
        assert_non_null(item);
        assert_true(item == et_marian_model_at(model, (size_t)i));
        assert_int_equal(item->shape.rank, items[i].rows ? 2 : 1);
        assert_int_equal(et_shape_count(item->shape), 6);
        assert_ok(et_marian_model_read(model, item, values, error));
        assert_memory_equal(values, items[i].values, sizeof values);
    }
    const et_marian_item *settings = et_marian_model_find(model, "special:model.yml");
    assert_int_equal(settings->type, ET_MARIAN_TYPE_BYTE);
    assert_string_equal(settings->data, text);
    assert_null(et_marian_model_find(model, "none"));
    assert_string_equal(et_marian_model_find(model, "Wemb")->type_name, "intgemm8");
    et_marian_model_close(model);
}

static void test_marian__halves(void **state)
{
    (void)state;
    static const uint16_t half[] = { 0x3c00, 0xc000, 0x3800 };
    et_marian_model *model;
    float values[3];
    sample_item item = { "h", ET_MARIAN_NUMBER_BYTE, 0, sizeof half, NULL, (const char *)half, 0 };
    file.length = 0;
    add_marian_model(&file, &item, 1);
    const uint64_t type = ET_MARIAN_NUMBER_FLOAT16;
    const int32_t three = 3;
    memcpy(file.data + 24, &type, sizeof type);
    memcpy(file.data + 50, &three, sizeof three);
    assert_ok(open_bytes(&model, file.data, file.length, error));
    assert_ok(et_marian_model_read(model, et_marian_model_at(model, 0), values, error));
    assert_memory_equal(values, halves, sizeof values);
    et_marian_model_close(model);
}

static int give_values(void *self, size_t item, const void **data, et_error *failure)
{
    (void)self, (void)failure;
    *data = items[item].text ? (const void *)items[item].text : items[item].values;
    return ET_OK;
}

/* What is written is the file that the samples are: the largest value of `grid` is 127 / m. */
static void test_marian__writes(void **state)
{
    et_marian_written written[ITEMS];
    char path[800];
    size_t length;
    snprintf(path, sizeof path, "%s/written.bin", (const char *)*state);
    for (int i = 0; i < ITEMS; i++) {
        const sample_item *of = &items[i];
        written[i] = (et_marian_written){
            .name = of->name,
            .type = of->text                               ? ET_MARIAN_TYPE_BYTE
                    : of->type == ET_MARIAN_NUMBER_FLOAT32 ? ET_MARIAN_TYPE_FLOAT32
                                                           : ET_MARIAN_TYPE_INTGEMM8,
            .shape = of->rows ? et_shape_2(of->rows, of->columns) : et_shape_1(of->columns),
        };
    }
    assert_ok(et_marian_model_write(path, written, ITEMS, give_values, NULL, error));
    char *is = get_file(path, &length);
    make();
    assert_int_equal(length, file.length);
    assert_memory_equal(is, file.data, length);
    free(is);
}

/* Every shorter file is refused with its name and a place, and so is one with more bytes. */
static void test_marian__length(void **state)
{
    (void)state;
    et_marian_model *model;
    make();
    for (size_t length = 0; length < file.length; length++)
        assert_fails(open_bytes(&model, file.data, length, error), ET_EFORMAT, "model.bin: byte ");
    add(&file, "x", 1);
    assert_fails(open_bytes(&model, file.data, file.length, error), ET_EFORMAT,
                 "1 bytes follow the last item");
}

/* Eight bytes at a place of the file become a number. */
static void check_changed(size_t at, uint64_t number, const char *message)
{
    et_marian_model *model;
    make();
    memcpy(file.data + at, &number, sizeof number);
    assert_fails(open_bytes(&model, file.data, file.length, error), ET_EFORMAT, message);
}

/* Heads of items are at 16, 48, ..., their names at 208, their shapes after these. */
static void test_marian__damage(void **state)
{
    (void)state;
    const size_t names = 16 + 32 * ITEMS;
    size_t shapes = names;
    for (int i = 0; i < ITEMS; i++)
        shapes += strlen(items[i].name) + 1;
    check_changed(0, 2, "the version is 2");
    check_changed(8, UINT64_MAX, "items are more than the file has");
    check_changed(8, UINT64_C(1) << 59, "items are more than the file has");
    check_changed(16, UINT64_MAX, "the name of item 0 has 18446744073709551615 bytes");
    check_changed(16, 0, "item 0 has no name");
    check_changed(16, 3, "item 0 has no name");
    check_changed(names, UINT64_C(0x7600746867006577), "item 0 has no name");
    check_changed(names, UINT64_C(0x7600746867696501), "item 0 has no name");
    check_changed(names, UINT64_C(0x76007468676965ff), "item 0 has no name");
    check_changed(32, 9, "weight has 9 dimensions");
    check_changed(32, UINT64_MAX, "weight has 18446744073709551615 dimensions");
    check_changed(40, 1, "weight has 1 bytes, too few for its shape");
    check_changed(40, UINT64_MAX - 7, "weight has 18446744073709551608 bytes, more than");
    check_changed(shapes, UINT64_C(0x7fffffff7fffffff), "too few for its shape");
    check_changed(shapes, UINT64_C(0xffffffff00000002), "weight has a size of -1");
    check_changed(shapes, 2, "weight has a size of 0");
}

static void test_marian__names_twice(void **state)
{
    (void)state;
    et_marian_model *model;
    const sample_item twice[] = { items[0], items[1], items[0] };
    file.length = 0;
    add_marian_model(&file, twice, 3);
    assert_fails(open_bytes(&model, file.data, file.length, error), ET_EFORMAT,
                 "two items have the name weight");
}

/* Types that are not read are named; multipliers are positive. */
static void test_marian__types(void **state)
{
    (void)state;
    static const float wrong[] = { 0, -1, INFINITY, NAN };
    et_marian_model *model;
    float values[6];
    make();
    memcpy(file.data + 24, &(uint64_t){ 0x4102 }, 8);
    memcpy(file.data + 24 + 32, &(uint64_t){ 0x1234 }, 8);
    assert_ok(open_bytes(&model, file.data, file.length, error));
    assert_string_equal(et_marian_model_at(model, 0)->type_name, "intgemm16");
    assert_string_equal(et_marian_model_at(model, 1)->type_name, "0x1234");
    assert_int_equal(et_marian_model_at(model, 1)->type, ET_MARIAN_TYPE_OTHER);
    et_marian_model_close(model);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        sample_item item = items[3];
        item.m = wrong[i];
        file.length = 0;
        add_marian_model(&file, &item, 1);
        assert_ok(open_bytes(&model, file.data, file.length, error));
        assert_fails(et_marian_model_read(model, et_marian_model_at(model, 0), values, error),
                     ET_EFORMAT, "encoder_l1_self_Wq has the multiplier");
        et_marian_model_close(model);
    }
}

/* ---- shortlists ---- */

enum { SOURCE = 7, TARGET = 30 };

static bool gives(int s, int t)
{
    return s != 3 && t % (s + 2) == 1;
}

static int open_lexicon(et_lexicon **lexicon, const char *data, size_t length, et_error *failure)
{
    char *copy = et_alloc(length + 1, 1);
    memcpy(copy, data, length);
    return et_lexicon_open(lexicon, copy, length, SOURCE, TARGET, "lex.bin", failure);
}

static void test_marian__lexicon(void **state)
{
    (void)state;
    et_lexicon *lexicon;
    size_t length, count;
    char *data = make_lexicon(5, SOURCE, TARGET, gives, &length);
    assert_ok(open_lexicon(&lexicon, data, length, error));
    assert_int_equal(et_lexicon_first(lexicon), 5);
    for (int s = -1; s < SOURCE + 2; s++) {
        const uint32_t *list = et_lexicon_of(lexicon, s, &count);
        for (int t = 0; t < TARGET && s >= 0 && s < SOURCE; t++)
            if (gives(s, t)) {
                assert_true(count > 0);
                assert_int_equal(*list++, t);
                count--;
            }
        assert_int_equal(count, 0);
    }
    assert_memory_equal(et_lexicon_bytes(lexicon, &count), data, length);
    assert_int_equal(count, length);
    et_lexicon_close(lexicon);
    et_free(data);
    data = make_lexicon(500, SOURCE, TARGET, gives, &length); /* more than there are */
    assert_ok(open_lexicon(&lexicon, data, length, error));
    assert_int_equal(et_lexicon_first(lexicon), TARGET);
    et_lexicon_close(lexicon);
    et_free(data);
}

/* Any byte that differs is noticed by the sum; shorter and longer files by their size. */
static void test_marian__lexicon_damage(void **state)
{
    (void)state;
    et_lexicon *lexicon;
    size_t length;
    char *data = make_lexicon(5, SOURCE, TARGET, gives, &length), *longer = et_alloc(length + 4, 1);
    for (size_t at = 0; at < length / 8 * 8; at++) {
        data[at] = (char)(data[at] ^ 4);
        assert_fails(open_lexicon(&lexicon, data, length, error), ET_EFORMAT, "lex.bin: byte ");
        data[at] = (char)(data[at] ^ 4);
        assert_fails(open_lexicon(&lexicon, data, at, error), ET_EFORMAT, "lex.bin: byte ");
    }
    memcpy(longer, data, length);
    memcpy(longer + length, data, 4);
    assert_fails(open_lexicon(&lexicon, longer, length + 4, error), ET_EFORMAT, "another size");
    et_free(longer);
    et_free(data);
}

/* With a right sum: tokens that the vocabularies do not have, offsets that go back. */
static void test_marian__lexicon_of_another_model(void **state)
{
    (void)state;
    et_lexicon *lexicon;
    size_t length;
    char *data = make_lexicon(5, SOURCE + 1, TARGET, gives, &length);
    assert_fails(open_lexicon(&lexicon, data, length, error), ET_EFORMAT,
                 "lists of 8 source tokens, but the vocabulary has 7");
    et_free(data);
    data = make_lexicon(5, SOURCE, TARGET + 5, gives, &length);
    assert_fails(open_lexicon(&lexicon, data, length, error), ET_EFORMAT,
                 "is not in the target's vocabulary of 30 tokens");
    et_free(data);
    data = make_lexicon(5, SOURCE, TARGET, gives, &length);
    memcpy(data + ET_LEXICON_HEADER + 8, &(uint64_t){ 28 }, 8);
    memcpy(data + 8, &(uint64_t){ et_lexicon_checksum(data, length) }, 8);
    assert_fails(open_lexicon(&lexicon, data, length, error), ET_EFORMAT,
                 "an offset is out of order");
    et_free(data);
}

static bool gives_larger(int s, int t)
{
    return t > s + 1;
}

static void test_marian__makes_shortlists(void **state)
{
    static const uint64_t offsets[] = { 0, 3, 5, 6, 6 };
    static const uint32_t list[] = { 2, 3, 4, 3, 4, 4 };
    size_t length, expected_length;
    char *made;
    (void)state;
    char *expected = make_lexicon(2, 4, 5, gives_larger, &expected_length);
    assert_ok(et_lexicon_make(offsets, 4, list, 2, 50, &made, &length, error));
    assert_int_equal(length, expected_length);
    assert_memory_equal(made, expected, length);
    et_free(expected);
    et_free(made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_marian__reads),
        cmocka_unit_test(test_marian__halves),
        cmocka_unit_test(test_marian__writes),
        cmocka_unit_test(test_marian__makes_shortlists),
        cmocka_unit_test(test_marian__length),
        cmocka_unit_test(test_marian__damage),
        cmocka_unit_test(test_marian__names_twice),
        cmocka_unit_test(test_marian__types),
        cmocka_unit_test(test_marian__lexicon),
        cmocka_unit_test(test_marian__lexicon_damage),
        cmocka_unit_test(test_marian__lexicon_of_another_model),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
