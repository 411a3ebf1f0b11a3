/* Collected results of all ranks (et_together_collect), read in pieces, in any order of ranks. The
 * calls are open (which may fail on one rank alone), take (by all ranks), next or copy, release.
 * If ranks make the items of a list in turn, et_collected_items is the only call. */
#ifndef ETUDE_TRAIN_RANKS_COLLECTED_H
#define ETUDE_TRAIN_RANKS_COLLECTED_H

#include "base/arena.h"
#include "base/text/strbuf.h"
#include "engine/comm/together.h"

/* All zeros: closed; may be released. */
typedef struct et_collected {
    void *all;       /* owned, like both arrays */
    size_t *size;    /* [ranks]: bytes that are not read yet */
    const char **at; /* [ranks]: the begin of each rank's bytes */
} et_collected;

/* ET_ENOMEM. */
int et_collected_open(et_collected *collected, const et_comm *comm, et_error *error);
void et_collected_release(et_collected *collected);

/* et_together_collect: all ranks call it, with the status of its own work, opening included.
 * Earlier contents are freed. */
int et_collected_take(et_collected *collected, et_comm *comm, int status, const void *mine,
                      size_t size, et_error *error);

/* The next `size` bytes of a rank; NULL: fewer are left. */
const char *et_collected_next(et_collected *collected, int rank, size_t size);

/* The same, aligned and in the arena; NULL also without memory. */
void *et_collected_copy(et_collected *collected, int rank, size_t size, et_arena *arena);

/* Reads item `item` of a list, as rank has written it. False: it is incomplete, or memory is
 * short. */
typedef bool et_collected_read_fn(void *payload, int64_t item, et_collected *from, int rank);

/* For a list of count items: rank r of R has made items r, r + R, ... and has written them to mine,
 * one after another. read gets all other items, in order. All ranks call this, with the status of
 * their own work. what: "scores". */
int et_collected_items(et_comm *comm, const char *what, int64_t count, int status,
                       const et_strbuf *mine, et_collected_read_fn *read, void *payload,
                       et_error *error);

#endif
