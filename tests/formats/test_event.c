#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files.h"
#include "formats/events/event.h"
#include "formats/events/event.pb-c.h"
#include "formats/records/record.h"

/* Message number index of the file in directory; free it. */
static Etude__Event__Event *read_event(const char *directory, size_t index)
{
    char path[600];
    et_record_scan reader;
    const void *bytes;
    size_t length;
    snprintf(path, sizeof path, "%s/%s", directory, ET_EVENTS_NAME);
    assert_ok(et_record_scan_open(&reader, path, error));
    for (size_t i = 0; i <= index; i++) {
        assert_ok(et_record_scan_next(&reader, &bytes, &length, error));
        assert_non_null(bytes);
    }
    Etude__Event__Event *event = etude__event__event__unpack(NULL, length, bytes);
    assert_non_null(event);
    et_record_scan_close(&reader);
    return event;
}

static void write_one(et_events *events, int64_t step, et_events_value value)
{
    assert_ok(et_events_write(events, step, &value, 1, error));
}

static void test_event__messages(void **state)
{
    et_events *events;
    const et_events_value values[] = { { "loss", 3.125, NULL },
                                       { "sample", 0, "Gr\xc3\xbc\xc3\x9f e" } };
    assert_ok(et_events_open(&events, in(state, "a/b"), ET_EVENTS_NAME, 0, error));
    assert_ok(et_events_write(events, 0, values, 2, error));
    write_one(events, 7, (et_events_value){ .tag = "zero" });
    assert_ok(et_events_close(events, error));

    Etude__Event__Event *event = read_event(in(state, "a/b"), 0);
    assert_string_equal(event->file_version, "brain.Event:2");
    assert_true(event->wall_time > 1.6e9);
    etude__event__event__free_unpacked(event, NULL);

    event = read_event(in(state, "a/b"), 1);
    assert_true(event->has_step);
    assert_int_equal(event->step, 0);
    assert_int_equal(event->summary->n_value, 2);
    assert_string_equal(event->summary->value[0]->tag, "loss");
    assert_true(event->summary->value[0]->simple_value == 3.125f);
    const Etude__Event__Value *text = event->summary->value[1];
    assert_false(text->has_simple_value);
    assert_string_equal(text->metadata->plugin_data->plugin_name, "text");
    assert_int_equal(text->tensor->dtype, 7);
    assert_int_equal(text->tensor->n_string_val, 1);
    assert_memory_equal(text->tensor->string_val[0].data, "Gr\xc3\xbc\xc3\x9f e", 8);
    etude__event__event__free_unpacked(event, NULL);

    event = read_event(in(state, "a/b"), 2);
    assert_int_equal(event->step, 7);
    assert_true(event->summary->value[0]->has_simple_value);
    etude__event__event__free_unpacked(event, NULL);
}

/* The bytes of a file with its wall times (field 1, 8 bytes at the front) taken out. */
static char *without_times(const char *path, size_t *length)
{
    et_record_scan reader;
    const void *bytes;
    size_t size;
    char *out = calloc(1, 1 << 16);
    assert_non_null(out);
    *length = 0;
    assert_ok(et_record_scan_open(&reader, path, error));
    for (;;) {
        assert_ok(et_record_scan_next(&reader, &bytes, &size, error));
        if (bytes == NULL)
            break;
        assert_int_equal(*(const char *)bytes, 0x09); /* field 1, fixed 64 */
        memcpy(out + *length, (const char *)bytes + 9, size - 9);
        *length += size - 9;
    }
    et_record_scan_close(&reader);
    return out;
}

static void write_steps(et_events *events, int64_t first, int64_t last)
{
    for (int64_t step = first; step <= last; step++) {
        write_one(events, step,
                  (et_events_value){ .tag = "loss", .scalar = 1.0 / (double)(step + 1) });
        write_one(events, step,
                  (et_events_value){ .tag = "text", .text = step % 2 ? "odd" : "even" });
    }
}

/* 1..10 at once, or 1..7, back to the offset after 4, 5..10: the same but for the clock. */
static void test_event__resume(void **state)
{
    et_events *events;
    assert_ok(et_events_open(&events, in(state, "whole"), ET_EVENTS_NAME, 0, error));
    write_steps(events, 1, 10);
    const int64_t end = et_events_offset(events);
    assert_ok(et_events_close(events, error));

    assert_ok(et_events_open(&events, in(state, "cut"), ET_EVENTS_NAME, 0, error));
    write_steps(events, 1, 4);
    assert_ok(et_events_flush(events, error));
    const int64_t kept = et_events_offset(events);
    write_steps(events, 5, 7);
    assert_ok(et_events_close(events, error));
    assert_ok(et_events_open(&events, in(state, "cut"), ET_EVENTS_NAME, kept, error));
    assert_int_equal(et_events_offset(events), kept);
    write_steps(events, 5, 10);
    assert_int_equal(et_events_offset(events), end);
    assert_ok(et_events_close(events, error));

    size_t length, other_length;
    char *whole = without_times(in(state, "whole/" ET_EVENTS_NAME), &length);
    char *other = without_times(in(state, "cut/" ET_EVENTS_NAME), &other_length);
    assert_int_equal(length, other_length);
    assert_memory_equal(whole, other, length);
    free(whole);
    free(other);
}

/* A file whose first record was torn is begun again. */
static void test_event__torn_version(void **state)
{
    et_events *events;
    mkdir(in(state, "torn"), 0777);
    put_file(in(state, "torn/" ET_EVENTS_NAME), "\x18\0\0", 3);
    assert_ok(
        et_events_open(&events, in(state, "torn"), ET_EVENTS_NAME, ET_EVENTS_CONTINUE, error));
    assert_ok(et_events_close(events, error));
    Etude__Event__Event *event = read_event(in(state, "torn"), 0);
    assert_string_equal(event->file_version, "brain.Event:2");
    etude__event__event__free_unpacked(event, NULL);
}

static void test_event__no_directory(void **state)
{
    et_events *events;
    put_file(in(state, "file"), "", 0);
    assert_int_equal(et_events_open(&events, in(state, "file"), ET_EVENTS_NAME, 0, NULL),
                     ET_EDENIED);
    assert_int_equal(et_events_open(&events, in(state, "file/below"), ET_EVENTS_NAME, 0, NULL),
                     ET_EDENIED);
    assert_null(events);
}

/* If there is no room for the first record, the call fails and nothing leaks. */
static void test_event__no_room(void **state)
{
    et_events *events;
    limit_files(10);
    const int status = et_events_open(&events, in(state, "full"), ET_EVENTS_NAME, 0, NULL);
    unlimit_files();
    assert_int_equal(status, ET_ENOSPACE);
    assert_null(events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event__messages),     cmocka_unit_test(test_event__resume),
        cmocka_unit_test(test_event__torn_version), cmocka_unit_test(test_event__no_directory),
        cmocka_unit_test(test_event__no_room),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
