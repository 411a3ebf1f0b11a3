/* Assigns chunks of a rule with scratch to threads. A thread does whole chunks, in its own scratch,
 * and takes the next when it is done; there is no barrier in a chunk. Chunks that would delay the
 * others, or that take much scratch, come first, and all threads do them together: the rule divides
 * its loops. Both ways give the same bits. Private to this folder. */
#ifndef ETUDE_ENGINE_OPTIM_TEAM_H
#define ETUDE_ENGINE_OPTIM_TEAM_H

#include "engine/optim/slot_layout.h"

typedef struct et_optim_team {
    et_optim_section
        *sections;          /* [count], owned: the chunks of a rank, each part the longest first */
    size_t count, together; /* the first `together` are done so */
    int threads;            /* threads with their own scratch: at most one per chunk */
    float *scratch;         /* [threads][each], owned, or more for chunks that all threads do
                             * together */
    size_t each;            /* whole lines of the cache */
} et_optim_team;

/* For OpenMP's present number of threads: additional later ones take part only in common work. own:
 * the range that this rank updates. */
int et_optim_team_init(et_optim_team *team, const et_optim_layout *layout, et_range own,
                       et_error *error);
/* Threads that take part now: no more than OpenMP has. */
int et_optim_team_now(const et_optim_team *team);
void et_optim_team_release(et_optim_team *team);

#endif
