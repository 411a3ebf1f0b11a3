#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include <etude/log.h>

#include "calls.h"
#include "data/fixture.h"
#include "data/table_fixture.h"

static const char *const wide_schema = "fields:\n"
                                       "  - {name: p, type: real}\n"
                                       "  - {name: q, type: integer}\n"
                                       "  - {name: x, type: real}\n";
static const char *const wide_metadata =
    "{\"p\": {\"min\": 1e12, \"max\": 1.00000001e12, \"mean\": 1000000001000.5, \"std\": 3000},"
    " \"q\": {\"min\": -9, \"max\": 9, \"mean\": 2, \"std\": 0.5},"
    " \"x\": {\"min\": 1.7e18, \"max\": 1.7000000001e18, \"mean\": 1.7e18, \"std\": 1e6}}";
static const char *const wide_features = "features:\n"
                                         "- {name: X, type: standardize, fields: x}\n"
                                         "- {name: Y, type: target, fields: [p, q]}\n"
                                         "- {name: Z, type: identity, fields: x}\n";

static void open_exact(et_encoder **out, const char *text)
{
    three t;
    assert_ok(three_parse(&t, wide_schema, wide_metadata, text, error));
    assert_ok(et_encoder_new_exact(out, t.schema, t.metadata, t.features, error));
    three_free(&t);
}

/* In units of their deviation, and unchanged. */
static void test_encoder_exact__exact_targets(void **state)
{
    (void)state;
    et_encoder *encoder, *plain;
    open_exact(&encoder, wide_features);
    assert_int_equal(et_encoder_fields(encoder), 4);
    assert_int_equal(et_encoder_target(encoder), 1);
    assert_int_equal(et_encoder_written(encoder), 2);
    assert_string_equal(et_encoder_field(encoder, 2)->name, "Y/written");
    assert_int_equal(et_encoder_layout(encoder)->field[2].dtype, ET_I32);
    assert_int_equal(et_encoder_layout(encoder)->field[2].item.size[0], 4);
    assert_true(et_encoder_unit(encoder, 0).offset == 1000000001000.5);
    assert_true(et_encoder_unit(encoder, 0).scale == 3000);
    assert_true(et_encoder_unit(encoder, 1).offset == 2 &&
                et_encoder_unit(encoder, 1).scale == 0.5);
    float x, y[2], z;
    int32_t written[4];
    void *const to[] = { &x, y, written, &z };
    const et_cell cells[] = { cell_of("1000000007762.1"), cell_of("3"),
                              cell_of("1700000000001024000") };
    assert_ok(et_encoder_row(encoder, cells, to, NULL, error));
    assert_true(x == 1.024f && y[1] == 2);
    assert_true(fabsf(y[0] - (float)(6761.6 / 3000)) < 1e-6f);
    assert_true(et_encoded_written(written, 0) == 1000000007762.1);
    assert_true(et_encoded_written(written, 1) == 3);
    const et_cell none[] = { cell_of(NULL), cell_of("3"), cell_of("1700000000001024000") };
    assert_ok(et_encoder_row(encoder, none, to, NULL, error));
    assert_true(isnan(y[0]) && isnan(et_encoded_written(written, 0)));
    assert_ok(encoder_parse(&plain, wide_schema, wide_metadata, wide_features, error));
    assert_int_equal(et_encoder_fields(plain), 3);
    assert_int_equal(et_encoder_written(plain), -1);
    assert_true(et_encoder_unit(plain, 1).offset == 0 && et_encoder_unit(plain, 1).scale == 1);
    assert_true(et_encoder_fingerprint(plain) != et_encoder_fingerprint(encoder));
    et_encoder_free(plain);
    et_encoder_free(encoder);
    three t;
    assert_ok(three_parse(&t, wide_schema, wide_metadata,
                          "features:\n- {name: Y/written, type: scale, fields: x}\n"
                          "- {name: Y, type: target, fields: p}\n",
                          error));
    assert_fails(et_encoder_new_exact(&encoder, t.schema, t.metadata, t.features, error),
                 ET_ECONFIG, "another feature is called Y/written");
    three_free(&t);
}

static int warned;
static char warning[400];

static void keep_warning(void *payload, et_log_level level, const char *message)
{
    (void)payload;
    assert_int_equal(level, ET_LOG_WARNING);
    snprintf(warning, sizeof warning, "%s", message);
    warned++;
}

static int warnings_of(const et_encoder *encoder)
{
    warned = 0;
    et_log_set(keep_warning, NULL);
    et_encoder_warn_coarse(encoder);
    et_log_set(NULL, NULL);
    return warned;
}

/* x unchanged; in a program's data set the target too. */
static void test_encoder_exact__coarse(void **state)
{
    (void)state;
    et_encoder *encoder;
    open_exact(&encoder, wide_features);
    assert_int_equal(warnings_of(encoder), 1);
    assert_non_null(strstr(warning, "column x: "));
    et_encoder_free(encoder);
    assert_ok(encoder_parse(&encoder, wide_schema, wide_metadata, wide_features, error));
    assert_int_equal(warnings_of(encoder), 2);
    et_encoder_free(encoder);
    open_exact(&encoder, "features:\n- {name: x, type: scale}\n- {name: q, type: identity}\n");
    assert_int_equal(warnings_of(encoder), 0);
    et_encoder_free(encoder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoder_exact__exact_targets),
        cmocka_unit_test(test_encoder_exact__coarse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
