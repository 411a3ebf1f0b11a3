/* The contents of a directory's event file, as text. Include after cmocka.h and calls. */
#ifndef ETUDE_TESTS_IO_EVENT_LINES_H
#define ETUDE_TESTS_IO_EVENT_LINES_H

#include <stdio.h>

#include "formats/events/event.h"
#include "formats/events/event.pb-c.h"
#include "formats/records/record.h"

/* "step tag value" of each scalar, a line each, in the order of writing. Static. */
static inline const char *event_lines(const char *directory)
{
    static char lines[4096];
    char path[1000];
    et_record_scan scan;
    const void *bytes;
    size_t length, used = 0;
    lines[0] = 0;
    snprintf(path, sizeof path, "%s/%s", directory, ET_EVENTS_NAME);
    assert_ok(et_record_scan_open(&scan, path, error));
    for (;;) {
        assert_ok(et_record_scan_next(&scan, &bytes, &length, error));
        if (!bytes)
            break;
        Etude__Event__Event *event = etude__event__event__unpack(NULL, length, bytes);
        assert_non_null(event);
        for (size_t i = 0; event->summary && i < event->summary->n_value; i++) {
            const Etude__Event__Value *value = event->summary->value[i];
            if (value->has_simple_value)
                used += (size_t)snprintf(lines + used, sizeof lines - used, "%lld %s %g\n",
                                         (long long)event->step, value->tag,
                                         (double)value->simple_value);
            assert_true(used < sizeof lines);
        }
        etude__event__event__free_unpacked(event, NULL);
    }
    et_record_scan_close(&scan);
    return lines;
}

#endif
