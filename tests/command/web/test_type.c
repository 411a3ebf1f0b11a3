#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <string.h>

#include "command/web/form.h"

#define COUNT(x) (sizeof(x) / sizeof(x)[0])

static void test_type__content_types(void **state)
{
    static const struct {
        const char *header, *type; /* NULL: refused */
    } rows[] = {
        { "application/json", "application/json" },
        { "Application/JSON", "application/json" },
        { " text/csv ", "text/csv" },
        { "application/json;charset=utf-8", "application/json" },
        { "application/json; charset=UTF-8", "application/json" },
        { "application/json; charset=UTF8", "application/json" },
        { "application/json; charset=utf8", "application/json" },
        { "application/json ; Charset=\"uTf-8\" ", "application/json" },
        { "application/json; charset=\"utf8\"", "application/json" },
        { "application/json; charset=\"ut\\f-8\"", "application/json" },
        { "text/csv; header=present; charset=utf-8", "text/csv" },
        { "text/csv; charset=utf-8; header=present", "text/csv" },
        { "text/csv; header=\"a; charset=latin1\"", "text/csv" },
        { "application/json;", "application/json" },
        { "application/json; ;charset=utf-8", "application/json" },
        { "application/vnd.api+json", "application/vnd.api+json" },
        { "application/json; charset=latin1", NULL },
        { "application/json; charset=utf-16", NULL },
        { "application/json; charset=utf-8x", NULL },
        { "application/json; charset=utf-8 x", NULL },
        { "application/json; charset=utf-8; charset=latin1", NULL },
        { "application/json; charset=latin1; charset=utf-8", NULL },
        { "application/json; charset=", NULL },
        { "application/json; charset", NULL },
        { "application/json; charset=\"utf-8", NULL },
        { "application/json; charset=\"utf-8\\", NULL },
        { "application/json; charset=\"", NULL },
        { "application/json; charset=\"utf-8\\\"", NULL },
        { "application/json; charset=utf-8aaaaaaaaaaaaaaaaaaaaaaaaaa", NULL },
        { "application/json; charset =utf-8", NULL },
        { "application/json; =utf-8", NULL },
        { "application/json charset=utf-8", NULL },
        { "application/json, text/plain", NULL },
        { "application/", NULL },
        { "/json", NULL },
        { "json", NULL },
        { "application//json", NULL },
        { "application/json/x", NULL },
        { "\"application/json\"", NULL },
        { "", NULL },
        { NULL, NULL },
    };
    char type[ET_HTTP_TYPE_MAX], longest[2 * ET_HTTP_TYPE_MAX];
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const bool taken = et_http_type_read(type, rows[i].header);
        if (taken != (rows[i].type != NULL) || (taken && strcmp(type, rows[i].type) != 0))
            fail_msg("%s: %s", rows[i].header ? rows[i].header : "none", taken ? type : "refused");
    }
    memset(longest, 'a', sizeof longest);
    longest[1] = '/';
    longest[ET_HTTP_TYPE_MAX] = 0;
    assert_false(et_http_type_read(type, longest));
    longest[ET_HTTP_TYPE_MAX - 1] = 0;
    assert_true(et_http_type_read(type, longest));
    assert_string_equal(type, longest);
}

static void test_type__codings(void **state)
{
    static const char *const plain[] = { NULL,         "",           "identity",
                                         "Identity",   " identity ", "identity, identity",
                                         ", identity," };
    static const char *const others[] = { "gzip",         "identity, gzip", "identityx",    "ident",
                                          "identity;q=1", "\"identity\"",   "identity gzip" };
    (void)state;
    for (size_t i = 0; i < COUNT(plain); i++)
        assert_true(et_http_coding_is_identity(plain[i]));
    for (size_t i = 0; i < COUNT(others); i++)
        if (et_http_coding_is_identity(others[i]))
            fail_msg("%s is taken", others[i]);
}

static void test_type__parameters(void **state)
{
    static const struct {
        const char *header, *value; /* NULL: none */
    } rows[] = {
        { "multipart/form-data; boundary=x", "x" },
        { "multipart/form-data;BOUNDARY=\"a b\"; charset=utf-8", "a b" },
        { "form-data; name=\"q\"; boundary=\"a\\\"b\"", "a\"b" },
        { "multipart/form-data; boundary=\"\"", "" },
        { "multipart/form-data; boundary=1234567", "1234567" },
        { "multipart/form-data; boundary=12345678", NULL },
        { "multipart/form-data; boundary=\"12345678\"", NULL },
        { "multipart/form-data; boundary=a; boundary=b", NULL },
        { "multipart/form-data; boundary=a; charset", NULL },
        { "multipart/form-data; boundary=a b", NULL },
        { "multipart/form-data; boundary=", NULL },
        { "multipart/form-data; boundary=\"a", NULL },
        { "multipart/form-data; boundarys=a", NULL },
        { "multipart/form-data", NULL },
        { "", NULL },
    };
    char value[8];
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const bool found = et_http_parameter(rows[i].header, "boundary", value, sizeof value);
        if (found != (rows[i].value != NULL) || (found && strcmp(value, rows[i].value) != 0))
            fail_msg("%s: %s", rows[i].header, found ? value : "none");
    }
}

static void test_type__accepted(void **state)
{
    static const struct {
        const char *header;
        double weight;
    } rows[] = {
        { "text/csv", 1 },
        { " TEXT/Csv ", 1 },
        { "application/json, text/csv", 1 },
        { "application/json;q=1,text/csv;q=0.25", 0.25 },
        { "text/csv ; header=present ; Q=0.5 , */*", 0.5 },
        { "text/csv;q=0", 0 },
        { "text/csv;q=nan", 1 },
        { "text/csv;q=", 1 },
        { ",, ,text/csv;;", 1 },
        { "text/csv-schema, text/*, */*", 0 },
        { "text/csv-schema, text/csv;q=0.5", 0.5 },
        { "x-text/csv", 0 },
        { "text/csv;seq=2;q=0.5", 0.5 },
        { "text/csv;x=\"a,q=0.1\";q=0.5", 0.5 },
        { "text/csv;header=absent;q=0.2, text/csv;q=0.7", 0.7 },
        { "text/csv;;;q=0.5,", 0.5 },
        { "text/csv;=,application/json", 1 },
        { "", 0 },
        { NULL, 0 },
    };
    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const double weight = et_http_accepts(rows[i].header, "text/csv");
        if (weight != rows[i].weight)
            fail_msg("%s: %g, not %g", rows[i].header, weight, rows[i].weight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_type__content_types),
        cmocka_unit_test(test_type__codings),
        cmocka_unit_test(test_type__parameters),
        cmocka_unit_test(test_type__accepted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
