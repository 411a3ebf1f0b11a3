/* Feeds: where a reader of a data set (<etude/standard.h>) stands. A feed is made over a tree of
 * sources; it lives when it has been begun, and then it goes on until it is dropped.
 *
 * Batches are made with the feed, so that reading allocates nothing. The beginning of a source is
 * where it stands when it comes into a feed; whoever takes it out puts it back there (rewind), so
 * that it may come again. */
#ifndef ETUDE_TRAIN_RUN_FEED_H
#define ETUDE_TRAIN_RUN_FEED_H

#include <etude/standard.h>

int et_feed_new(et_feed **out, const et_dataset *dataset, et_error *error);
void et_feed_free(et_feed *feed); /* NULL allowed; not the sources */

/* All sources at their beginning; begin: unless it lives. */
int et_feed_rewind(et_feed *feed, et_error *error);
int et_feed_begin(et_feed *feed, et_error *error);
void et_feed_drop(et_feed *feed);

/* For a reading that may have to be done again: remember where it stands, go back there. */
void et_feed_mark(et_feed *feed);
int et_feed_return(et_feed *feed, et_error *error);

/* {"live": true, "sources": {"": {...}}}; a feed that does not live has no sources there. */
int et_feed_save(const et_feed *feed, et_value *dict, et_error *error);
int et_feed_restore(et_feed *feed, const et_value *dict, et_error *error);

#endif
