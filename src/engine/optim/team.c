/* Work is counted in elements: the time per element is about the same for matrices whose smaller
 * sides are about equal. */

#include <omp.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/sort.h"
#include "base/threads/team.h"
#include "engine/optim/optimizer_private.h"

/* Floats of scratch that a thread has at most: 4 MiB. The products of a matrix that needs more are
 * long enough to be shared out. */
#define OWN_MOST ((size_t)1 << 20)

/* Descending. */
ET_SORT_BY(by_count, et_optim_section, ET_DOWN(count), ET_UP(begin))

/* Appends either the chunks that all threads do together, or the others. Returns the largest
 * scratch that one needs, in whole cache lines. */
static size_t append(et_optim_team *team, const et_optim_layout *layout, et_range own,
                     bool together)
{
    int64_t whole = 0; /* elements of whole tensors */
    for (size_t i = 0; i < layout->chunk_count; i++)
        if (layout->tensors[layout->chunks[i].tensor].whole)
            whole += et_optim_section_in(&layout->chunks[i], own).count;
    const size_t first = team->count;
    size_t most = 0;
    for (size_t i = 0; i < layout->chunk_count; i++) {
        const et_optim_section section = et_optim_section_in(&layout->chunks[i], own);
        const et_optim_tensor *tensor = &layout->tensors[section.tensor];
        const bool large =
            tensor->scratch > OWN_MOST || (tensor->whole && section.count * team->threads > whole);
        if (!section.count || large != together)
            continue;
        team->sections[team->count++] = section;
        most = tensor->scratch > most ? tensor->scratch : most;
    }
    qsort(team->sections + first, team->count - first, sizeof *team->sections, by_count);
    return (most + 15) / 16 * 16;
}

int et_optim_team_init(et_optim_team *team, const et_optim_layout *layout, et_range own,
                       et_error *error)
{
    *team = (et_optim_team){ .threads = et_team_threads() };
    team->sections = et_alloc(layout->chunk_count + 1, sizeof *team->sections);
    if (!team->sections)
        return et_alloc_failed(error, layout->chunk_count * sizeof *team->sections, "an optimizer");
    size_t floats = append(team, layout, own, true);
    team->together = team->count;
    team->each = append(team, layout, own, false);
    const size_t alone = team->count - team->together;
    if (alone < (size_t)team->threads)
        team->threads = alone ? (int)alone : 1;
    if ((size_t)team->threads * team->each > floats)
        floats = (size_t)team->threads * team->each;
    team->scratch = et_alloc_array((floats ? floats : 1) * sizeof(float));
    return team->scratch ? ET_OK
                         : et_alloc_failed(error, floats * sizeof(float), "an optimizer's scratch");
}

int et_optim_team_now(const et_optim_team *team)
{
    const int most = omp_get_max_threads();
    return most < team->threads ? most : et_team_most(team->threads);
}

void et_optim_team_release(et_optim_team *team)
{
    et_free(team->sections);
    et_free_array(team->scratch);
    *team = (et_optim_team){ .sections = NULL };
}
