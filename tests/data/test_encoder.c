#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <locale.h>
#include <math.h>

#include "base/scarce.h"
#include "calls.h"
#include "data/encoder_fixture.h"
#include "data/fixture.h"
#include "data/table/features/transforms.h"
#include "data/table_fixture.h"

#define NUMBERS_MAX 24

typedef struct row_case {
    const char *feature; /* its text after "- ", with the name F */
    const char *cells[CELLS];
    float numbers[NUMBERS_MAX];
    int32_t ids[4];
    int width;
} row_case;

static int encode(const et_encoder *encoder, const char *const *texts, void *to, et_error *error)
{
    et_cell cells[CELLS];
    for (int i = 0; i < CELLS; i++)
        cells[i] = cell_of(texts[i]);
    return et_encoder_row(encoder, cells, (void *[]){ to }, "f.csv:7", error);
}

static void check_numbers(const row_case *c, const float *numbers)
{
    for (int i = 0; i < c->width; i++) {
        bool nan = isnan(c->numbers[i]) && isnan(numbers[i]);
        if (!nan && !(fabsf(numbers[i] - c->numbers[i]) <= 2e-7f * (1 + fabsf(c->numbers[i]))))
            fail_msg("%s of %s %s: column %d is %.9g, not %.9g", c->feature,
                     c->cells[0] ? c->cells[0] : "", c->cells[2] ? c->cells[2] : "", i, numbers[i],
                     c->numbers[i]);
    }
}

static void check_row(const row_case *c)
{
    et_encoder *encoder = NULL;
    union {
        float numbers[NUMBERS_MAX];
        int32_t ids[NUMBERS_MAX];
    } out;
    for (int i = 0; i < NUMBERS_MAX; i++)
        out.numbers[i] = 12345; /* a number that must be overwritten */
    assert_ok(open_feature(&encoder, c->feature, error));
    const et_encoded_field *f = et_encoder_field(encoder, 0);
    assert_int_equal(f->width, c->width);
    assert_ok(encode(encoder, c->cells, &out, error));
    if (f->kind == ET_ENCODED_NUMBERS || f->kind == ET_ENCODED_VALUES ||
        f->kind == ET_ENCODED_LABELS)
        check_numbers(c, out.numbers);
    else
        for (int i = 0; i < c->width; i++) {
            assert_int_equal(out.ids[i], c->ids[i]);
            if (f->kind == ET_ENCODED_IDS)
                assert_true(out.ids[i] >= 0 && out.ids[i] < f->cardinality[i]);
        }
    assert_true(out.numbers[c->width] == 12345);
    et_encoder_free(encoder);
}

#define OF_X(text)                                                                                 \
    {                                                                                              \
        [X] = text                                                                                 \
    }
#define OF_T(text)                                                                                 \
    {                                                                                              \
        [T] = text                                                                                 \
    }

/* Golden values: tools/golden-transforms. */
static void test_encoder__numbers(void **state)
{
    (void)state;
    static const row_case cases[] = {
        { "{name: F, fields: x}", OF_X("-1.5e3"), { -1500 }, .width = 1 },
        { "{name: F, fields: x}", OF_X(NULL), { 0 }, .width = 1 },
        { "{name: F, fields: 'x, n'}", { [X] = "1", [N] = "2" }, { 1, 2 }, .width = 2 },
        { "{name: F, fields: v}", { [V] = "1", "2", NULL }, { 1, 2, 0 }, .width = 3 },
        { "{name: F, type: log, fields: x}", OF_X("17"), { 2.89037176f }, .width = 1 },
        { "{name: F, type: log, fields: x}", OF_X("90.5"), { 4.51633897f }, .width = 1 },
        { "{name: F, type: log, fields: x}", OF_X("1e-12"), { 1e-12f }, .width = 1 },
        { "{name: F, type: log, fields: x}", OF_X(NULL), { 0 }, .width = 1 },
        { "{name: F, type: scale, fields: x}", OF_X("17"), { 0 }, .width = 1 },
        { "{name: F, type: scale, fields: x}", OF_X("90.5"), { 1 }, .width = 1 },
        { "{name: F, type: scale, fields: x}", OF_X("164"), { 2 }, .width = 1 },
        { "{name: F, type: scale, fields: x}", OF_X(NULL), { 0.5f }, .width = 1 },
        { "{name: F, type: scale, fields: x, transform: {min: -1, max: 1}}",
          OF_X("38.58"),
          { -0.412789116f },
          .width = 1 },
        { "{name: F, type: scale, fields: x, transform: {min: -1, max: 1}}",
          OF_X("-3"),
          { -1.54421769f },
          .width = 1 },
        { "{name: F, type: scale, fields: x, transform: {min: 2, max: 4}}",
          OF_X(NULL),
          { 3 },
          .width = 1 },
        /* A constant column. */
        { "{name: F, type: scale, fields: n, transform: {min: -1, max: 1}}",
          { [N] = "5" },
          { -1 },
          .width = 1 },
        { "{name: F, type: scale, fields: n, transform: {min: -1, max: 1}}",
          { [N] = "80" },
          { -1 },
          .width = 1 },
        { "{name: F, type: standardize, fields: n}", { [N] = "80" }, { 0 }, .width = 1 },
        { "{name: F, type: standardize, fields: w}", { [W] = "80" }, { 0 }, .width = 1 },
        { "{name: F, type: standardize, fields: x}", OF_X("17"), { -0.83610545f }, .width = 1 },
        { "{name: F, type: standardize, fields: x}", OF_X("38.58"), { -0.103388471f }, .width = 1 },
        { "{name: F, type: standardize, fields: x}", OF_X(NULL), { 0 }, .width = 1 },
        { "{name: F, type: missing, fields: 'x, n, t'}",
          { [X] = "1", [T] = "" },
          { 0, 1, 0 },
          .width = 3 },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_row(&cases[i]);
}

static void test_encoder__quantile(void **state)
{
    (void)state;
    static const struct {
        const char *x;
        float z;
    } untied[] = { { "0.05", -5.19933758f },  { "0.2", -1.50200766f },
                   { "0.31", -1.16003935f },  { "0.7", -0.338325681f },
                   { "1", 0.0232334862f },    { "1.25", 0.22191569f },
                   { "2", 0.647031413f },     { "3.3", 1.09641813f },
                   { "7", 1.43899669f },      { "100", 5.19933758f },
                   { "-5", -5.19933758f },    { "16.641", 5.19933758f },
                   { "0.051", -5.19933758f }, { NULL, 0 } },
      tied[] = { { "0", -0.67448975f },   { "0.5", 0.296737838f }, { "1", 0.524400513f },
                 { "1.5", 0.852495034f }, { "3", 0.908457869f },   { "20", 2.32257453f },
                 { "21", 5.19933758f },   { "22", 5.19933758f } };
    for (size_t i = 0; i < COUNT(untied); i++)
        check_row(&(row_case){ .feature = "{name: F, type: quantile, fields: x}",
                               .cells = { [X] = untied[i].x },
                               .numbers = { untied[i].z },
                               .width = 1 });
    for (size_t i = 0; i < COUNT(tied); i++)
        check_row(&(row_case){ .feature = "{name: F, type: quantile, fields: w}",
                               .cells = { [W] = tied[i].x },
                               .numbers = { tied[i].z },
                               .width = 1 });
}

static void test_encoder__columns(void **state)
{
    (void)state;
    static const char *const buckets =
        "{name: F, type: bucketize, fields: x, transform: {boundaries: '18, 25, 65'}}";
    static const char *const hot = "{name: F, type: one-hot, fields: t}";
    static const struct {
        const char *x;
        int column;
    } in[] = { { "17", 0 }, { "18", 1 }, { "24.9", 1 }, { "25", 2 },
               { "64", 2 }, { "65", 3 }, { "90", 3 },   { NULL, -1 } };
    for (size_t i = 0; i < COUNT(in); i++) {
        row_case c = { .feature = buckets, .cells = OF_X(in[i].x), .width = 4 };
        if (in[i].column >= 0)
            c.numbers[in[i].column] = 1;
        check_row(&c);
    }
    static const row_case cases[] = {
        { hot, OF_T("a"), { 1, 0, 0, 0 }, .width = 4 },
        { hot, OF_T("\xc3\xbc"), { 0, 0, 1, 0 }, .width = 4 },
        { hot, OF_T("A"), { 0, 0, 0, 1 }, .width = 4 },
        { hot, OF_T(""), { 0, 0, 0, 1 }, .width = 4 },
        { hot, OF_T(NULL), { 0, 0, 0, 1 }, .width = 4 },
        /* A default in the schema; entries under "vocab". */
        { "{name: F, type: one-hot, fields: u}", { [U] = NULL }, { 0, 1, 0 }, .width = 3 },
        { "{name: F, type: one-hot, fields: n}", { [N] = "7" }, { 1, 0, 0, 0 }, .width = 4 },
        { "{name: F, type: one-hot, fields: n}", { [N] = "+07.0" }, { 1, 0, 0, 0 }, .width = 4 },
        { "{name: F, type: one-hot, fields: n}", { [N] = "-2e0" }, { 0, 1, 0, 0 }, .width = 4 },
        { "{name: F, type: one-hot, fields: n}", { [N] = "-0" }, { 0, 0, 1, 0 }, .width = 4 },
        { "{name: F, type: one-hot, fields: n}", { [N] = "8" }, { 0, 0, 0, 1 }, .width = 4 },
        { "{name: F, type: concat, features: [{name: n}, {name: t, type: one-hot}, {name: c, type: "
          "concat, features: [{name: x, type: log}, {name: x, type: missing}]}]}",
          { [X] = "17", [N] = "3", [T] = "b" },
          { 3, 0, 1, 0, 0, 2.89037176f, 0 },
          .width = 7 },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_row(&cases[i]);
}

static void test_encoder__ids(void **state)
{
    (void)state;
    static const char *const hash = "{name: F, type: hash, fields: t, transform: {buckets: 1000}}";
    static const char *const cross =
        "{name: F, type: cross, fields: [t, u], transform: {buckets: 1000}}";
    static const char *const both =
        "{name: F, type: cross, fields: [t, y], transform: {buckets: 1000}}";
    static const char *const least =
        "{name: F, type: embed, fields: t, transform: {minimum_count: 2}}";
    static const char *const none =
        "{name: F, type: embed, fields: t, transform: {minimum_count: 9}}";
    static const char *const numbers =
        "{name: F, type: hash, fields: n, transform: {buckets: 1000}}";
    static const row_case cases[] = {
        { "{name: F, type: embed, fields: 't,u'}",
          { [T] = "b", [U] = "a" },
          .ids = { 1, 0 },
          .width = 2 },
        { "{name: F, type: embed, fields: 't, n'}",
          { [T] = "c", [N] = "9" },
          .ids = { 3, 3 },
          .width = 2 },
        { "{name: F, type: embed, fields: 't,u'}", { NULL }, .ids = { 4, 1 }, .width = 2 },
        { least, OF_T("b"), .ids = { 1 }, .width = 1 },
        { least, OF_T("\xc3\xbc"), .ids = { 2 }, .width = 1 },
        { least, OF_T("c"), .ids = { 2 }, .width = 1 },
        { least, OF_T(NULL), .ids = { 3 }, .width = 1 },
        { none, OF_T("a"), .ids = { 0 }, .width = 1 },
        { none, OF_T(NULL), .ids = { 1 }, .width = 1 },
        { "{name: F, type: one-hot, fields: t, transform: {minimum_count: 5}}",
          OF_T("b"),
          { 0, 1 },
          .width = 2 },
        { "{name: F, type: one-hot, fields: t, transform: {minimum_count: 5}}",
          OF_T("a"),
          { 1, 0 },
          .width = 2 },
        { hash, OF_T("Sales"), .ids = { 894 }, .width = 1 },
        { hash, OF_T(""), .ids = { 138 }, .width = 1 },
        { hash, OF_T("\xc3\xbc"), .ids = { 302 }, .width = 1 },
        { hash, OF_T(NULL), .ids = { 1000 }, .width = 1 },
        { numbers, { [N] = "39" }, .ids = { 552 }, .width = 1 },
        { numbers, { [N] = "3.9e1" }, .ids = { 552 }, .width = 1 },
        { cross, { [T] = "a", [U] = "b" }, .ids = { 119 }, .width = 1 },
        { cross, { [T] = "ab", [U] = "" }, .ids = { 593 }, .width = 1 },
        { cross, { [T] = "b", [U] = "a" }, .ids = { 285 }, .width = 1 },
        { both, { [T] = "a" }, .ids = { 36 }, .width = 1 },
        { both, { NULL }, .ids = { 1000 }, .width = 1 },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_row(&cases[i]);
}

static void test_encoder__dates(void **state)
{
    (void)state;
    static const char *const all = "{name: F, type: date, fields: t}";
    static const char *const day = "{name: F, type: date, fields: x, transform: {parts: [year, "
                                   "weekday, minute]}}";
    static const row_case cases[] = {
        { all,
          OF_T("2024-05-31"),
          { 0.54f, 0.333333333f, 0.866025404f, -0.5f, 0.967741935f, -0.20129852f, 0.979529941f,
            0.571428571f, -0.433883739f, -0.900968868f, 0, 0, 1, 0, 0, 1 },
          .width = 16 },
        { all,
          OF_T("1969-12-31T23:59:59"),
          { -0.01f, 0.916666667f, -0.5f, 0.866025404f, 0.967741935f, -0.20129852f, 0.979529941f,
            0.285714286f, 0.974927912f, -0.222520934f, 0.958333333f, -0.258819045f, 0.965925826f,
            0.983333333f, -0.104528463f, 0.994521895f },
          .width = 16 },
        { all,
          OF_T("2000-02-29 00:00"),
          { 0.3f, 0.0833333333f, 0.5f, 0.866025404f, 0.903225806f, -0.571268215f, 0.820763441f,
            0.142857143f, 0.781831482f, 0.623489802f, 0, 0, 1, 0, 0, 1 },
          .width = 16 },
        { all,
          OF_T("1900-03-01T06:30Z"),
          { -0.7f, 0.166666667f, 0.866025404f, 0.5f, 0, 0, 1, 0.428571429f, 0.433883739f,
            -0.900968868f, 0.25f, 1, 0, 0.5f, 0, -1 },
          .width = 16 },
        { all,
          OF_T("0004-02-29T00:00:60.25+05:30"),
          { -19.66f, 0.0833333333f, 0.5f, 0.866025404f, 0.903225806f, -0.571268215f, 0.820763441f,
            0.857142857f, -0.781831482f, 0.623489802f, 0, 0, 1, 0, 0, 1 },
          .width = 16 },
        { all, OF_T(NULL), { 0 }, .width = 16 },
        { "{name: F, type: date, fields: t, transform: {parts: [year, month], order: day-first}}",
          OF_T("1/4/2024"),
          { 0.54f, 0.25f, 1, 0 },
          .width = 4 },
        { "{name: F, type: date, fields: t, transform: {parts: [year, month]}}",
          OF_T("4/1/2024"),
          { 0.54f, 0.25f, 1, 0 },
          .width = 4 },
        { day, OF_X("0"), { 0, 0.428571429f, 0.433883739f, -0.900968868f, 0, 0, 1 }, .width = 7 },
        { day,
          OF_X("1717158600"),
          { 0.54f, 0.571428571f, -0.433883739f, -0.900968868f, 0.5f, 0, -1 },
          .width = 7 },
        { day,
          OF_X("-1"),
          { -0.01f, 0.285714286f, 0.974927912f, -0.222520934f, 0.983333333f, -0.104528463f,
            0.994521895f },
          .width = 7 },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_row(&cases[i]);
}

static void test_encoder__targets(void **state)
{
    (void)state;
    static const row_case cases[] = {
        { "{name: F, type: target, fields: y}", { [Y] = ">50K" }, .ids = { 1 }, .width = 1 },
        { "{name: F, type: target, fields: y}", { [Y] = NULL }, .ids = { -1 }, .width = 1 },
        { "{name: F, type: target, fields: x}", OF_X("3.5"), { 3.5f }, .width = 1 },
        { "{name: F, type: target, fields: x}", OF_X(NULL), { NAN }, .width = 1 },
        { "{name: F, type: target, fields: 'x, l'}",
          { [X] = "1", [L] = "4" },
          { 1, 4 },
          .width = 2 },
        /* Integer labels: by their entries, or from min to max. */
        { "{name: F, type: target, fields: n, transform: {classes: true}}",
          { [N] = "-2.0" },
          .ids = { 1 },
          .width = 1 },
        { "{name: F, type: target, fields: l, transform: {classes: true}}",
          { [L] = "6" },
          .ids = { 3 },
          .width = 1 },
        /* Several of two classes: 1 is yes. */
        { "{name: F, type: target, fields: 'y, u, k', transform: {classes: true}}",
          { [Y] = ">50K", [U] = "a", [K] = "6" },
          { 1, 0, 1 },
          .width = 3 },
        { "{name: F, type: target, fields: 'k, y', transform: {classes: true}}",
          { [Y] = NULL, [K] = "4" },
          { 0, NAN },
          .width = 2 },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        check_row(&cases[i]);
}

/* Yes is a word for it, or the larger number, wherever it stands among the entries. */
static void test_encoder__labels(void **state)
{
    (void)state;
    static const char *const fields = "fields: [{name: x, type: real}, {name: a, type: discrete}, "
                                      "{name: b, type: discrete}, {name: c, type: discrete}]";
    static const char *const entries = "{\"a\": {\"entries\": [\"Yes\", \"No\"]}, \"b\": "
                                       "{\"entries\": [\"10\", \"9\"]}, \"c\": {\"entries\": "
                                       "[\"left\", \"right\"]}}";
    static const char *const labels[] = { "No", "Yes", "9", "10", "left", "right" };
    static const char *const rows[2] = { "Yes", "10" };
    et_encoder *encoder;
    assert_ok(encoder_parse(&encoder, fields, entries,
                            "features: [{name: x}, {name: Y, type: target, fields: [a, b, c]}]",
                            error));
    const et_encoded_field *field = et_encoder_field(encoder, et_encoder_target(encoder));
    assert_int_equal(field->kind, ET_ENCODED_LABELS);
    assert_int_equal(field->width, 3);
    assert_string_equal(field->column[2], "c");
    for (int i = 0; i < 6; i++)
        assert_string_equal(field->label[i], labels[i]);
    float x, y[3];
    const et_cell cells[] = { cell_of("1"), cell_of(rows[0]), cell_of(rows[1]), cell_of("left") };
    assert_ok(et_encoder_row(encoder, cells, (void *[]){ &x, y }, NULL, error));
    assert_true(y[0] == 1 && y[1] == 1 && y[2] == 0);
    const et_cell wrong[] = { cell_of("1"), cell_of("maybe"), cell_of("9"), cell_of("left") };
    assert_fails(et_encoder_row(encoder, wrong, (void *[]){ &x, y }, NULL, error), ET_EDATA,
                 "the label \"maybe\" is not one of the 2");
    et_encoder_free(encoder);
}

/* Layout, labels, names of columns, keys, and which fields are read. */
static void test_encoder__layout(void **state)
{
    (void)state;
    static const char *const text = "features:\n"
                                    "- {name: id, type: key, fields: t}\n"
                                    "- {name: key, fields: n}\n"
                                    "- {name: X, type: concat, features: [x, {name: n, type: "
                                    "one-hot}, {name: v}]}\n"
                                    "- {name: x, type: standardize}\n"
                                    "- {name: E, type: embed, fields: [t, u]}\n"
                                    "- {name: Y, type: target, fields: y}\n"
                                    "- {name: Z, type: target, fields: l}\n";
    static const char *const columns[] = { "x",          "n: 7", "n: -2", "n: 0",
                                           "n: another", "v[0]", "v[1]",  "v[2]" };
    et_encoder *encoder = NULL;
    const char *name = NULL;
    assert_ok(encoder_parse(&encoder, schema, metadata, text, error));
    const et_layout *layout = et_encoder_layout(encoder);
    assert_int_equal(et_encoder_fields(encoder), 4);
    assert_int_equal(layout->fields, 5);
    assert_string_equal(layout->field[4].name, "mask");
    assert_int_equal(et_layout_find(layout, "X"), 0);
    assert_true(et_shape_equal(layout->field[0].item, et_shape_1(8)));
    assert_true(layout->field[1].dtype == ET_I32 && layout->field[1].empty == ET_EMPTY_NONE);
    assert_int_equal(layout->field[2].item.rank, 0);
    assert_true(layout->field[3].dtype == ET_F32);
    assert_int_equal(et_encoder_target(encoder), 2);
    const et_encoded_field *x = et_encoder_field(encoder, 0), *e = et_encoder_field(encoder, 1),
                           *y = et_encoder_field(encoder, 2);
    for (int i = 0; i < 8; i++)
        assert_string_equal(x->column[i], columns[i]);
    assert_true(e->cardinality[0] == 5 && e->cardinality[1] == 4);
    assert_string_equal(e->column[1], "u");
    assert_int_equal(y->classes, 2);
    assert_string_equal(y->label[1], ">50K");
    assert_string_equal(y->column[0], "y");
    assert_int_equal(et_encoder_key(encoder, 0, &name), T);
    assert_string_equal(name, "id");
    assert_int_equal(et_encoder_key(encoder, 1, &name), N);
    assert_string_equal(name, "key");
    assert_int_equal(et_encoder_key(encoder, 2, &name), -1);
    assert_int_equal(et_encoder_cells(encoder), CELLS);
    assert_int_equal(et_encoder_cell(encoder, 7), L);
    assert_true(et_encoder_reads(encoder, 3, true) && !et_encoder_reads(encoder, 3, false));
    assert_true(et_encoder_reads(encoder, 0, false) && !et_encoder_reads(encoder, 5, false));
    et_encoder_free(encoder);
}

/* Targets that are not wanted are not looked at. */
static void test_encoder__without_target(void **state)
{
    (void)state;
    static const char *const text =
        "features:\n- {name: x}\n- {name: Y, type: target, fields: y}\n";
    et_encoder *encoder = NULL;
    et_cell cells[CELLS] = { [X] = { "2", 1 }, [Y] = { "?!", 2 } };
    float x = 0;
    int32_t y = 9;
    assert_ok(encoder_parse(&encoder, schema, metadata, text, error));
    assert_ok(et_encoder_row(encoder, cells, (void *[]){ &x, NULL }, NULL, error));
    assert_true(x == 2);
    assert_fails(et_encoder_row(encoder, cells, (void *[]){ &x, &y }, NULL, error), ET_EDATA,
                 "column y: the label \"?!\" is not one of the 2 in the metadata (<=50K, >50K)");
    et_encoder_free(encoder);
}

/* A column that has only shown integers takes fractions as numbers; as a label, a fraction is
 * unknown. */
static void test_encoder__fractions(void **state)
{
    (void)state;
    static const char *const numbers = "features:\n- {name: S, type: standardize, fields: k}\n"
                                       "- {name: E, type: embed, fields: k}\n";
    static const char *const target = "features:\n- {name: x}\n- {name: Y, type: target, fields: "
                                      "k, transform: {classes: true}}\n";
    static const struct {
        const char *text;
        float number;
        int id;
        bool label;
    } rows[] = {
        { "5", 2, 2, false },
        { "4.0", 0, 0, true },
        { "4.5", 1, 2, false },
        { "5.6", 3.2f, 2, false },
    };
    et_encoder *encoder = NULL, *labels = NULL;
    assert_ok(encoder_parse(&encoder, schema, metadata, numbers, error));
    assert_ok(encoder_parse(&labels, schema, metadata, target, error));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_cell cells[CELLS] = { 0 };
        float number;
        int32_t id;
        cells[K] = (et_cell){ .text = rows[i].text, .length = strlen(rows[i].text) };
        assert_ok(et_encoder_row(encoder, cells, (void *[]){ &number, &id }, NULL, error));
        assert_true(fabsf(number - rows[i].number) < 1e-6f);
        assert_int_equal(id, rows[i].id);
        int status = et_encoder_row(labels, cells, (void *[]){ &number, &id }, NULL, NULL);
        assert_int_equal(status, rows[i].label ? ET_OK : ET_EDATA);
    }
    et_encoder_free(encoder);
    et_encoder_free(labels);
}

/* Values that are not text give the same results as their texts. */
static void test_encoder__values(void **state)
{
    (void)state;
    static const char *const text =
        "features:\n- {name: X, fields: [x, v]}\n- {name: E, type: embed, fields: [n, t]}\n"
        "- {name: H, type: hash, fields: n, transform: {buckets: 1000}}\n";
    et_encoder *encoder = NULL;
    float numbers[4];
    int32_t ids[2], hash;
    void *to[] = { numbers, ids, &hash };
    et_reading values[CELLS];
    for (int i = 0; i < CELLS; i++)
        values[i] = (et_reading){ .missing = true };
    values[X] = (et_reading){ .number = 0.5 };
    values[V + 1] = (et_reading){ .number = -3 };
    values[N] = (et_reading){ .number = 39 };
    values[T] = (et_reading){ .text = "bx", .length = 1 };
    assert_ok(encoder_parse(&encoder, schema, metadata, text, error));
    assert_ok(et_encoder_values(encoder, values, to, NULL, error));
    assert_true(numbers[0] == 0.5f && numbers[1] == 0 && numbers[2] == -3 && numbers[3] == 0);
    assert_true(ids[0] == 3 && ids[1] == 1 && hash == 552);
    values[N].number = 7;
    assert_ok(et_encoder_values(encoder, values, to, NULL, error));
    assert_int_equal(ids[0], 0);
    values[N].number = 7.5;
    assert_fails(et_encoder_values(encoder, values, to, "a:1", error), ET_EDATA,
                 "a:1: column n: 7.5 is not an integer, but the schema says so: correct it, set "
                 "fractions: true, or make the field real");
    values[N].missing = true;
    values[X].number = NAN;
    assert_fails(et_encoder_values(encoder, values, to, "a:1", error), ET_EDATA,
                 "a:1: column x: nan is not finite: correct it");
    et_encoder_free(encoder);
}

static void test_encoder__bad_rows(void **state)
{
    (void)state;
    static const struct {
        const char *feature, *cells[CELLS], *error;
    } cases[] = {
        { "{name: F, fields: x}", OF_X("abc"), "f.csv:7: column x: \"abc\" is not a number" },
        { "{name: F, fields: x}", OF_X("1e999"),
          "column x: \"1e999\" is too large for a double: correct it" },
        { "{name: F, fields: x}", OF_X("1e39"), "1e+39 is too large for float32: correct it" },
        { "{name: F, fields: x}", OF_X("0x1p3"),
          "\"0x1p3\" is not a number, but the schema says real" },
        { "{name: F, fields: x}", OF_X("nan"), "\"nan\" is not a number" },
        { "{name: F, fields: x}", OF_X("inf"), "\"inf\" is not a number" },
        { "{name: F, fields: x}", OF_X("1,5"), "\"1,5\" is not a number" },
        { "{name: F, fields: x}", OF_X(""), "\"\" is not a number" },
        { "{name: F, fields: n}",
          { [N] = "3.5" },
          "column n: 3.5 is not an integer, but the schema says so: correct it, set fractions: "
          "true, or make the field real" },
        { "{name: F, fields: w}", { NULL }, "f.csv:7: column w: the value" },
        { "{name: F, type: log, fields: x}", OF_X("-1"), "ln(x + 1) of -1 is not a number" },
        { "{name: F, type: date, fields: t}", OF_T("31/5/2024"),
          "\"31/5/2024\" is not a date with the month first, as in the rows that were analyzed: "
          "correct it, or write 2024-05-31" },
        { "{name: F, type: date, fields: t, transform: {order: day-first}}", OF_T("5/31/2024"),
          "\"5/31/2024\" is not a date with the day first" },
        { "{name: F, type: date, fields: t}", OF_T("31.4.2024"),
          "\"31.4.2024\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T("2023-02-29"),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T("2023-00-29"),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T("2023-01-29T24:00"),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T("2023-01-29T"),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T("2023-01-29T10:00:00."),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T("2023-01-29T10:00+5"),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T("2023-01-29 10:00x"),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: t}", OF_T(""),
          "\" is not a date: write 2024-05-31 or 2024-05-31T12:30:00" },
        { "{name: F, type: date, fields: x}", OF_X("1e15"),
          "is not a time in seconds since 1970 (years 0 to 9999): correct it" },
        { "{name: F, type: target, fields: y}",
          { [Y] = "<=50K." },
          "the label \"<=50K.\" is not one of the 2" },
        { "{name: F, type: target, fields: y}",
          { [Y] = "" },
          "the label \"\" is not one of the 2" },
        { "{name: F, type: target, fields: l, transform: {classes: true}}",
          { [L] = "7" },
          "the label \"7\" is not one of the 4 in the metadata (3, 4, ...)" },
        { "{name: F, type: target, fields: l, transform: {classes: true}}",
          { [L] = "2" },
          "the label \"2\" is not one of the 4" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_encoder *encoder = NULL;
        float room[16];
        assert_ok(open_feature(&encoder, cases[i].feature, error));
        assert_fails(encode(encoder, cases[i].cells, room, error), ET_EDATA, cases[i].error);
        et_encoder_free(encoder);
    }
}

static uint64_t fingerprint(const char *schema_text, const char *metadata_text, const char *text)
{
    et_encoder *encoder = NULL;
    assert_ok(encoder_parse(&encoder, schema_text, metadata_text, text, error));
    uint64_t print = et_encoder_fingerprint(encoder);
    et_encoder_free(encoder);
    return print;
}

/* The fingerprint is equal for encoders with equal rows, and different otherwise. */
static void test_encoder__fingerprint(void **state)
{
    (void)state;
    static const char *const base =
        "fields:\n- {name: a, type: real}\n- {name: b, type: discrete}\n";
    static const char *const with = "fields:\n- {name: a, type: real, default: 3}\n"
                                    "- {name: b, type: discrete}\n";
    static const char *const seen = "{\"a\": {\"mean\": 1, \"std\": 2}, \"b\": {\"entries\": "
                                    "[\"x\", \"y\"]}}";
    static const char *const other = "{\"a\": {\"mean\": 1, \"std\": 3}, \"b\": {\"entries\": "
                                     "[\"x\", \"y\"]}}";
    static const char *const turned = "{\"a\": {\"mean\": 1, \"std\": 2}, \"b\": {\"entries\": "
                                      "[\"y\", \"x\"]}}";
    static const char *const f = "features:\n- {name: a, type: standardize}\n"
                                 "- {name: b, type: one-hot}\n";
    static const char *const g = "features: [{name: a, fields: a, type: standardize}, {name: b, "
                                 "type: one-hot}]";
    static const char *const h = "features: [{name: a, type: standardize}, {name: b, type: embed}]";
    uint64_t print = fingerprint(base, seen, f);
    assert_true(print == fingerprint(base, seen, g));
    assert_true(print != fingerprint(with, seen, f));
    assert_true(print != fingerprint(base, other, f));
    assert_true(print != fingerprint(base, turned, f));
    assert_true(print != fingerprint(base, seen, h));
}

/* A decimal point is one in every locale. */
static void test_encoder__locale(void **state)
{
    (void)state;
    static const char *const places[] = { "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8" };
    const char *found = NULL;
    for (size_t i = 0; !found && i < COUNT(places); i++)
        found = setlocale(LC_ALL, places[i]);
    check_row(&(row_case){ .feature = "{name: F, fields: x}",
                           .cells = OF_X("1.25"),
                           .numbers = { 1.25f },
                           .width = 1 });
    check_row(&(row_case){
        .feature = "{name: F, type: bucketize, fields: x, transform: {boundaries: [0.5, 1.5]}}",
        .cells = OF_X("1.25"),
        .numbers = { 0, 1, 0 },
        .width = 3 });
    setlocale(LC_ALL, "C");
}

/* scipy.stats.norm.ppf. */
static void test_encoder__normal_quantile(void **state)
{
    (void)state;
    static const double cases[][2] = {
        { 1e-300, -37.047096299361201 },   { 1e-20, -9.2623400897984087 },
        { 1e-07, -5.1993375821928165 },    { 0.001, -3.0902323061678132 },
        { 0.07, -1.4757910281791706 },     { 0.0750001, -1.4395307645017301 },
        { 0.3, -0.52440051270804089 },     { 0.5, 0 },
        { 0.925, 1.4395314709384563 },     { 0.93, 1.4757910281791711 },
        { 0.9999999, 5.1993375822906609 },
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_true(fabs(et_normal_quantile(cases[i][0]) - cases[i][1]) <=
                    4e-15 * fabs(cases[i][1]));
}

/* Every byte of the three texts changed: no crash, and each resulting encoder encodes. */
static void test_encoder__mutated(void **state)
{
    (void)state;
    static const char *const text =
        "features:\n- {name: X, type: concat, features: [{name: x, type: quantile}, {name: t, "
        "type: "
        "one-hot}, {name: v}, {name: n, type: scale}]}\n"
        "- {name: Y, type: target, fields: l, transform: {classes: true}}\n"
        "- {name: C, type: cross, fields: [t, u], transform: {buckets: 9}}\n";
    static const char bytes[] = { '1', '-', 'x', ',', ' ', '"' };
    const char *texts[] = { schema, metadata, text };
    const et_cell cells[CELLS] = { [X] = { "3", 1 }, [N] = { "7", 1 }, [L] = { "4", 1 } };
    int whole = 0;
    for (int which = 0; which < 3; which++) {
        const char *used[] = { schema, metadata, text };
        char *copy = strdup(texts[which]);
        used[which] = copy;
        for (char *at = copy; *at; at++)
            for (size_t k = 0; k < COUNT(bytes); k++) {
                et_encoder *encoder = NULL;
                et_error error = ET_ERROR_INIT;
                char before = *at;
                float room[3][64];
                void *to[] = { room[0], room[1], room[2] };
                *at = bytes[k];
                int status = encoder_parse(&encoder, used[0], used[1], used[2], &error);
                *at = before;
                assert_true(!status == !error.text[0]);
                if (!status && et_encoder_cells(encoder) == CELLS &&
                    et_encoder_fields(encoder) == 3 && et_encoder_field(encoder, 0)->width < 64) {
                    int row = et_encoder_row(encoder, cells, to, NULL, &error);
                    assert_true(!row == !error.text[0]);
                    whole++;
                }
                et_encoder_free(encoder);
            }
        free(copy);
    }
    assert_in_range(whole, 800, 3000);
}

static void test_encoder__memory(void **state)
{
    (void)state;
    static const char *const text =
        "features:\n- {name: X, type: concat, features: [{name: x, type: quantile}, {name: t, "
        "type: "
        "one-hot}, {name: v}, {name: u, type: date}]}\n- {name: k, type: key, fields: t}\n"
        "- {name: Y, type: target, fields: l, transform: {classes: true}}\n"
        "- {name: C, type: cross, fields: [t, u], transform: {buckets: 9}}\n";
    three t;
    int status = ET_ENOMEM;
    assert_ok(three_parse(&t, schema, metadata, text, error));
    for (long n = 0; status; n++) {
        et_encoder *encoder = NULL;
        et_error error = ET_ERROR_INIT;
        scarce_begin(n);
        status = et_encoder_new(&encoder, t.schema, t.metadata, t.features, &error);
        et_encoder_free(encoder);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
    three_free(&t);
}

/* Scaled by the quartiles, then limited to -3 to 3: the same formula. */
static void test_encoder__robust(void **state)
{
    (void)state;
    static const struct {
        const char *cell;
        double x;
    } cases[] = { { "0.9705", 0.9705 }, { "1", 1 },         { "-3", -3 },
                  { "40", 40 },         { "1e300", 1e300 }, { "-1e300", -1e300 } };
    const double middle = (1.6992 + 2.4294) / 2 - (0.4274 + 0.5738) / 2;
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double z = (cases[i].x - 0.9705) / middle;
        const double wanted = fabs(z) > 1e100 ? copysign(3, z) : z / sqrt(1 + z * z / 9);
        check_row(&(row_case){ .feature = "{name: F, type: robust, fields: x}",
                               .cells = { [X] = cases[i].cell },
                               .numbers = { (float)wanted },
                               .width = 1 });
    }
    check_row(&(row_case){
        .feature = "{name: F, type: robust, fields: x}", .cells = { NULL }, .width = 1 });
    /* Equal quartiles: half of the range; a constant. */
    static const char fields[] = "fields: [{name: a, type: real}, {name: b, type: real}]";
    static const char numbers[] =
        "{\"a\": {\"min\": -2, \"max\": 6, \"quantiles\": [-2, 1, 1, 1, 6]}, "
        "\"b\": {\"min\": 7, \"max\": 7, \"quantiles\": [7, 7, 7]}}";
    et_encoder *encoder;
    float out[2];
    assert_ok(encoder_parse(&encoder, fields, numbers,
                            "features: [{name: F, type: robust, fields: 'a, b'}]", error));
    et_cell cells[] = { cell_of("5"), cell_of("9") };
    assert_ok(et_encoder_row(encoder, cells, (void *[]){ out }, "f.csv:1", error));
    assert_true(fabs((double)out[0] - 1 / sqrt(1 + 1 / 9.0)) < 1e-6 && out[1] == 0);
    et_encoder_free(encoder);
    assert_fails(open_feature(&encoder, "{name: F, type: robust, fields: n}", error), ET_ECONFIG,
                 "the metadata has no quantiles of n");
}

/* A line up to five times the distance of the quartiles; beyond, never twice as far. The formula
 * once more: the last quantile of x is too far away. */
static void test_encoder__clip(void **state)
{
    (void)state;
    static const char *const cells[] = { "0.9705", "1", "-3", "40", "-40", "1e300", "-1e300" };
    double quantiles[] = { 0.051,  0.2749, 0.4274, 0.5738, 0.7606, 0.9705,
                           1.2888, 1.6992, 2.4294, 3.7993, 16.641 };
    const double far = 5 * ((1.6992 + 2.4294) / 2 - (0.4274 + 0.5738) / 2);
    double mean = 0, square = 0;
    quantiles[10] = 0.9705 + far;
    for (size_t i = 0; i < COUNT(quantiles); i++)
        mean += quantiles[i] / COUNT(quantiles);
    for (size_t i = 0; i < COUNT(quantiles); i++)
        square += pow(quantiles[i] - mean, 2) / COUNT(quantiles);
    const double spread = sqrt(square), from = fmax(far / spread, 4);
    for (size_t i = 0; i < COUNT(cells); i++) {
        const double z = (strtod(cells[i], NULL) - mean) / spread;
        const double wanted = fabs(z) <= from ? z : copysign(2 * from - from * from / fabs(z), z);
        check_row(&(row_case){ .feature = "{name: F, type: clip, fields: x}",
                               .cells = { [X] = cells[i] },
                               .numbers = { (float)wanted },
                               .width = 1 });
    }
    check_row(&(row_case){
        .feature = "{name: F, type: clip, fields: x}", .cells = { NULL }, .width = 1 });
    /* Equal quartiles: standardized up to the farther end of the range; a constant. */
    static const char fields[] = "fields: [{name: a, type: real}, {name: b, type: real}]";
    static const char numbers[] =
        "{\"a\": {\"min\": -2, \"max\": 6, \"mean\": 1, \"std\": 2, "
        "\"quantiles\": [-2, 1, 1, 1, 6]}, \"b\": {\"min\": 7, \"max\": 7, \"mean\": 7, "
        "\"std\": 0, \"quantiles\": [7, 7, 7]}}";
    static const struct {
        const char *a, *b;
        double wanted;
    } rows[] = { { "6", "7", 2.5 }, { "-3", "1e9", -2 }, { "11", "-9", 5 - 6.25 / 5 } };
    static const char typing[] =
        "{\"a\": {\"min\": 0, \"max\": 1e300, \"quantiles\": [0, 0, 0, 0, 1e300]},"
        " \"b\": {\"min\": -1e300, \"max\": 9, \"quantiles\": [-1e300, 0, 1, 2, 9]}}";
    static const char usual[] =
        "{\"a\": {\"min\": -2, \"max\": 6, \"mean\": 1, \"std\": 2, "
        "\"quantiles\": [-2, 0, 1, 2, 6]}, \"b\": {\"min\": -2, \"max\": 6, \"mean\": 1, "
        "\"std\": 2, \"quantiles\": [-2, 0, 1, 2, 6]}}";
    et_encoder *encoder;
    float out[2];
    assert_ok(encoder_parse(&encoder, fields, numbers,
                            "features: [{name: F, type: clip, fields: 'a, b'}]", error));
    for (size_t i = 0; i < COUNT(rows); i++) {
        et_cell both[] = { cell_of(rows[i].a), cell_of(rows[i].b) };
        assert_ok(et_encoder_row(encoder, both, (void *[]){ out }, "f.csv:1", error));
        assert_true(fabs((double)out[0] - rows[i].wanted) < 1e-6 && out[1] == 0);
    }
    et_encoder_free(encoder);
    /* A typing error in the training rows: there is no deviation, and b has its scale all the same.
     */
    assert_ok(encoder_parse(&encoder, fields, typing,
                            "features: [{name: F, type: clip, fields: 'a, b'}]", error));
    et_cell typed[] = { cell_of("1e300"), cell_of("2") };
    assert_ok(et_encoder_row(encoder, typed, (void *[]){ out }, "f.csv:1", error));
    assert_true(out[0] == 2 &&
                fabs((double)out[1] - 1.4 / sqrt((92.16 + .36 + .16 + 1.96 + 70.56) / 5)) < 1e-6);
    et_encoder_free(encoder);
    /* No value is far away: standardize. */
    assert_ok(encoder_parse(&encoder, fields, usual,
                            "features: [{name: F, type: clip, fields: 'a, b'}]", error));
    et_cell near[] = { cell_of("6"), cell_of("12") };
    assert_ok(et_encoder_row(encoder, near, (void *[]){ out }, "f.csv:1", error));
    assert_true(out[0] == 2.5F && fabs((double)out[1] - (10 - 25 / 5.5)) < 1e-6);
    et_encoder_free(encoder);
    assert_fails(open_feature(&encoder, "{name: F, type: clip, fields: n}", error), ET_ECONFIG,
                 "the metadata has no");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoder__numbers),
        cmocka_unit_test(test_encoder__quantile),
        cmocka_unit_test(test_encoder__columns),
        cmocka_unit_test(test_encoder__ids),
        cmocka_unit_test(test_encoder__dates),
        cmocka_unit_test(test_encoder__targets),
        cmocka_unit_test(test_encoder__labels),
        cmocka_unit_test(test_encoder__layout),
        cmocka_unit_test(test_encoder__without_target),
        cmocka_unit_test(test_encoder__fractions),
        cmocka_unit_test(test_encoder__values),
        cmocka_unit_test(test_encoder__bad_rows),
        cmocka_unit_test(test_encoder__fingerprint),
        cmocka_unit_test(test_encoder__locale),
        cmocka_unit_test(test_encoder__normal_quantile),
        cmocka_unit_test(test_encoder__mutated),
        cmocka_unit_test(test_encoder__memory),
        cmocka_unit_test(test_encoder__robust),
        cmocka_unit_test(test_encoder__clip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
