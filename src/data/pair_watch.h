/* A decorator around a source of pairs that tells a track of each batch made. Around what a
 * prefetch thread reads, it shows when that thread works; batches and positions are those of the
 * source within. */
#ifndef ETUDE_DATA_PAIR_WATCH_H
#define ETUDE_DATA_PAIR_WATCH_H

#include "base/trace.h"
#include "data/pair_source.h"

/* Wraps inner, which it owns from then on (on failure the caller still does). track is that of the
 * thread which will call next. */
int et_pair_watch_open(et_pair_source **out, et_pair_source *inner, et_track *track,
                       et_error *error);

#endif
