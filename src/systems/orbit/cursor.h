/* A cursor over a data set (<etude/standard.h>), which is a tree of sources. A cursor lives from
 * begin until it is dropped, and continues over the calls in between.
 *
 * Batches are allocated with the cursor, so reading allocates nothing. Each begin puts the sources
 * to the beginning of their data. Other cursors may read the same sources between two batches: each
 * continues after its own last one. */
#ifndef ETUDE_SYSTEMS_ORBIT_CURSOR_H
#define ETUDE_SYSTEMS_ORBIT_CURSOR_H

#include <etude/standard.h>

int et_cursor_new(et_cursor **out, const et_source_tree *dataset, et_error *error);
void et_cursor_free(et_cursor *cursor); /* NULL allowed; not the sources */

/* All sources at their beginning; begin: unless it lives. */
int et_cursor_rewind(et_cursor *cursor, et_error *error);
int et_cursor_begin(et_cursor *cursor, et_error *error);
void et_cursor_drop(et_cursor *cursor);

/* For a reading that may have to be done again: remember where it stands, go back there. */
void et_cursor_mark(et_cursor *cursor);
int et_cursor_return(et_cursor *cursor, et_error *error);

/* {"live": true, "sources": {"": {...}}}; a cursor that does not live has no sources there. */
int et_cursor_save(const et_cursor *cursor, et_value *dict, et_error *error);
int et_cursor_restore(et_cursor *cursor, const et_value *dict, et_error *error);

#endif
