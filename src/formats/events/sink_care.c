/* Handling of another run's logs at a sink's place. */
#include "base/files/aside.h"
#include "base/files/file.h"
#include "formats/events/sink.h"

et_sink_care et_sink_care_of(const et_value *positions, const char *kind)
{
    const et_value *keeps = et_value_get(positions, ET_SINK_KEEPS);
    const et_value *since = et_value_get(positions, ET_SINK_SINCE);
    et_sink_care care = { .keeps = keeps && keeps->kind == ET_VALUE_BOOL && keeps->boolean };
    if (since && since->kind == ET_VALUE_FLOAT)
        care.since = since->real;
    else if (!et_value_get(positions, kind))
        care.keeps = true;
    return care;
}

int et_sink_set_aside(et_sink_care care, const char *path, uint64_t offset, et_error *error)
{
    return care.keeps || et_file_written(path) < care.since ? et_aside_truncate(path, offset, error)
                                                            : ET_OK;
}
