/* A tree of plain values as bytes, for another process of the same program: every kind, numbers bit
 * for bit, also NaN and infinity. */
#ifndef ETUDE_TRAIN_CHECKPOINT_VALUE_BYTES_H
#define ETUDE_TRAIN_CHECKPOINT_VALUE_BYTES_H

#include <etude/value.h>

#include "base/arena.h"
#include "base/text/strbuf.h"

/* Appends value and what is below it; a failure is the buffer's. */
void et_value_write_bytes(et_strbuf *to, const et_value *value);

/* *out: a copy in arena. ET_EFORMAT: bytes that write has not made. */
int et_value_read_bytes(et_value **out, et_arena *arena, const void *bytes, size_t size,
                        et_error *error);

#endif
