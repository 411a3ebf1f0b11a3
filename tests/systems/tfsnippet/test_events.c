/* Events: order, reverse order, removing a handler while it is called, refusals. */
#include <etude/events.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "calls.h"

typedef struct bell {
    char name;
    char *said;           /* shared: names in the order of ringing */
    et_event_hub *source; /* to take off `off`, or hang on `on`, when it rings */
    struct bell *off, *on;
    int status;
} bell;

static int ring(void *payload, const char *event, const void *what, et_error *error)
{
    bell *b = payload;
    size_t used = strlen(b->said);
    snprintf(b->said + used, 32 - used, "%c%s", b->name, (const char *)what);
    if (b->off)
        assert_int_equal(et_event_hub_off(b->source, event, ring, b->off, error), 0);
    if (b->on)
        assert_int_equal(et_event_hub_on(b->source, event, ring, b->on, error), 0);
    return b->status ? et_fail(error, b->status, "bell %c", b->name) : ET_OK;
}

static void test_events__order(void **state)
{
    (void)state;
    char said[32] = "";
    bell a = { .name = 'a', .said = said }, b = { .name = 'b', .said = said };
    et_event_hub *s;
    assert_ok(et_event_hub_new(&s, NULL, 0, error));
    assert_ok(et_event_hub_fire(s, "noon", "", error));
    assert_ok(et_event_hub_on(s, "noon", ring, &a, error));
    assert_ok(et_event_hub_on(s, "noon", ring, &b, error));
    assert_ok(et_event_hub_on(s, "noon", ring, &a, error));
    assert_ok(et_event_hub_fire(s, "noon", "", error));
    assert_ok(et_event_hub_fire(s, "night", "", error));
    assert_ok(et_event_hub_reverse_fire(s, "noon", "!", error));
    assert_string_equal(said, "abaa!b!a!");
    *said = 0;
    assert_ok(et_event_hub_off(s, "noon", ring, &a, error));
    assert_ok(et_event_hub_fire(s, "noon", "", error));
    assert_string_equal(said, "ba");
    assert_ok(et_event_hub_clear(s, "noon", error));
    assert_ok(et_event_hub_on(s, "night", ring, &b, error));
    assert_ok(et_event_hub_fire(s, "noon", "", error));
    assert_ok(et_event_hub_clear(s, NULL, error));
    assert_ok(et_event_hub_fire(s, "night", "", error));
    assert_string_equal(said, "ba");
    et_event_hub_free(s);
}

/* The list changes during a call of the handlers: removed handlers are not called, added ones wait.
 */
static void test_events__changed_while_fired(void **state)
{
    (void)state;
    char said[32] = "";
    et_event_hub *s;
    assert_ok(et_event_hub_new(&s, NULL, 0, error));
    bell c = { .name = 'c', .said = said }, b = { .name = 'b', .said = said };
    bell many[8];
    bell a = { .name = 'a', .said = said, .source = s, .off = &b, .on = &c };
    assert_ok(et_event_hub_on(s, "noon", ring, &a, error));
    assert_ok(et_event_hub_on(s, "noon", ring, &b, error));
    assert_ok(et_event_hub_fire(s, "noon", "", error));
    assert_string_equal(said, "a");
    a.off = a.on = NULL;
    for (int i = 0; i < 8; i++) {
        many[i] = (bell){ .name = (char)('0' + i), .said = said };
        assert_ok(et_event_hub_on(s, "noon", ring, &many[i], error));
    }
    assert_ok(et_event_hub_fire(s, "noon", "", error));
    assert_string_equal(said, "aac01234567");
    et_event_hub_free(s);
}

static void test_events__a_failure_ends_the_firing(void **state)
{
    (void)state;
    char said[32] = "";
    et_error failure = ET_ERROR_INIT;
    bell a = { .name = 'a', .said = said }, b = { .name = 'b', .said = said, .status = ET_EIO };
    et_event_hub *s;
    assert_ok(et_event_hub_new(&s, NULL, 0, error));
    assert_ok(et_event_hub_on(s, "noon", ring, &a, error));
    assert_ok(et_event_hub_on(s, "noon", ring, &b, error));
    assert_ok(et_event_hub_on(s, "noon", ring, &a, error));
    assert_int_equal(et_event_hub_fire(s, "noon", "", &failure), ET_EIO);
    assert_string_equal(failure.text, "bell b");
    assert_string_equal(said, "ab");
    et_event_hub_free(s);
}

static void test_events__errors(void **state)
{
    (void)state;
    static const char *const allowed[] = { "before_step", "after_step" };
    et_error failure = ET_ERROR_INIT;
    bell a = { 0 };
    et_event_hub *s;
    static const char *const unnamed[] = { "before_step", NULL };
    assert_fails(et_event_hub_new(&s, allowed, -1, error), ET_EUSAGE, "-1 allowed events");
    assert_fails(et_event_hub_new(&s, unnamed, 2, error), ET_EUSAGE, "allowed event 1 has no name");
    assert_null(s);
    assert_ok(et_event_hub_new(&s, allowed, 2, error));
    assert_int_equal(et_event_hub_on(s, "befor_step", ring, &a, &failure), ET_ECONFIG);
    assert_non_null(strstr(failure.text, "befor_step. Nearest: before_step"));
    assert_int_equal(et_event_hub_off(s, "x", ring, &a, &failure), ET_ECONFIG);
    assert_int_equal(et_event_hub_fire(s, "x", NULL, &failure), ET_ECONFIG);
    assert_int_equal(et_event_hub_reverse_fire(s, "x", NULL, &failure), ET_ECONFIG);
    assert_int_equal(et_event_hub_clear(s, "x", &failure), ET_ECONFIG);
    assert_int_equal(et_event_hub_on(s, NULL, ring, &a, &failure), ET_ECONFIG);
    assert_int_equal(et_event_hub_off(s, "before_step", ring, &a, &failure), ET_ENOTFOUND);
    assert_ok(et_event_hub_clear(s, NULL, error));
    et_event_hub_free(s);
    et_event_hub_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events__order),
        cmocka_unit_test(test_events__changed_while_fired),
        cmocka_unit_test(test_events__a_failure_ends_the_firing),
        cmocka_unit_test(test_events__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
