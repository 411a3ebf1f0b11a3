/* TFSnippet, tests/utils/test_events.py. */
#include <etude/events.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "calls.h"

/* A handler that counts its calls and keeps the last value. */
typedef struct mock {
    int calls;
    const void *what;
} mock;

static int call(void *payload, const char *event, const void *what, et_error *error)
{
    mock *m = payload;
    (void)event, (void)error;
    m->calls++;
    m->what = what;
    return ET_OK;
}

static void test_events__events(void **state)
{
    (void)state;
    static const char *const allowed[] = { "ev1" };
    const int value = 456;
    et_event_hub *hub;
    mock f1 = { 0 }, f2 = { 0 };
    assert_ok(et_event_hub_new(&hub, NULL, 0, error));
    assert_ok(et_event_hub_on(hub, "ev1", call, &f1, error));
    assert_ok(et_event_hub_on(hub, "ev2", call, &f1, error));
    assert_ok(et_event_hub_on(hub, "ev2", call, &f2, error));
    assert_ok(et_event_hub_fire(hub, "ev1", &value, error));
    assert_true(f1.calls == 1 && f1.what == &value && f2.calls == 0);
    assert_ok(et_event_hub_fire(hub, "ev2", &f1, error));
    assert_true(f1.calls == 2 && f1.what == &f1 && f2.calls == 1 && f2.what == &f1);
    assert_ok(et_event_hub_off(hub, "ev2", call, &f1, error));
    assert_ok(et_event_hub_fire(hub, "ev2", &f2, error));
    assert_true(f1.calls == 2 && f2.calls == 2 && f2.what == &f2);
    assert_ok(et_event_hub_fire(hub, "ev1", &value, error));
    assert_true(f1.calls == 3 && f1.what == &value);
    et_event_hub_free(hub);
    assert_ok(et_event_hub_new(&hub, allowed, 1, error));
    assert_ok(et_event_hub_on(hub, "ev1", call, &f1, error));
    assert_ok(et_event_hub_fire(hub, "ev1", &value, error));
    assert_int_equal(f1.calls, 4);
    et_event_hub_free(hub);
}

static int destination[3], destinations;

static int append(void *payload, const char *event, const void *what, et_error *error)
{
    (void)event, (void)what, (void)error;
    destination[destinations++] = *(const int *)payload;
    return ET_OK;
}

static void test_events__order(void **state)
{
    (void)state;
    int numbers[] = { 1, 2, 3 };
    et_event_hub *hub;
    assert_ok(et_event_hub_new(&hub, NULL, 0, error));
    for (int i = 0; i < 3; i++)
        assert_ok(et_event_hub_on(hub, "ev", append, &numbers[i], error));
    destinations = 0;
    assert_ok(et_event_hub_fire(hub, "ev", NULL, error));
    assert_memory_equal(destination, numbers, sizeof numbers);
    destinations = 0;
    assert_ok(et_event_hub_reverse_fire(hub, "ev", NULL, error));
    for (int i = 0; i < 3; i++)
        assert_int_equal(destination[i], 3 - i);
    et_event_hub_free(hub);
}

static void test_events__clear(void **state)
{
    (void)state;
    static const char *const names[] = { "ev1", "ev2", "ev3" };
    static const int calls[] = { 3, 2, 0 };
    mock f[2];
    et_event_hub *hub;
    assert_ok(et_event_hub_new(&hub, NULL, 0, error));
    for (int i = 0; i < 6; i++)
        assert_ok(et_event_hub_on(hub, names[i / 2], call, &f[i % 2], error));
    for (int part = 0; part < 3; part++) {
        if (part == 1) {
            assert_ok(et_event_hub_clear(hub, "ev1", error));
            assert_ok(et_event_hub_clear(hub, "ev4", error));
        } else if (part == 2) {
            assert_ok(et_event_hub_clear(hub, NULL, error));
        }
        f[0].calls = f[1].calls = 0;
        for (int i = 0; i < 3; i++)
            assert_ok(et_event_hub_fire(hub, names[i], NULL, error));
        assert_int_equal(f[0].calls, calls[part]);
        assert_int_equal(f[1].calls, calls[part]);
    }
    et_event_hub_free(hub);
}

static void test_events__errors(void **state)
{
    (void)state;
    static const char *const allowed[] = { "ev1" };
    mock f = { 0 };
    et_event_hub *hub;
    assert_ok(et_event_hub_new(&hub, allowed, 1, error));
    assert_fails(et_event_hub_on(hub, "ev2", call, &f, error), ET_ECONFIG, "no event ev2");
    assert_fails(et_event_hub_fire(hub, "ev2", &f, error), ET_ECONFIG, "no event ev2");
    assert_fails(et_event_hub_off(hub, "ev1", call, &f, error), ET_ENOTFOUND,
                 "ev1 has no such handler");
    et_event_hub_free(hub);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events__events),
        cmocka_unit_test(test_events__order),
        cmocka_unit_test(test_events__clear),
        cmocka_unit_test(test_events__errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
