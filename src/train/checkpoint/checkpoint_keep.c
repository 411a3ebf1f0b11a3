/* Deletes checkpoints. With N = 2: 100 200p 300 400 -> 300 400, and 100 200 250p -> 100 200 250p. A
 * transient checkpoint (p) is never counted, so the newest one stays in addition to the N. */
#include "train/checkpoint/checkpoint_keep.h"

#include <math.h>

#include "base/assert.h"

int et_checkpoint_keep_check(const et_checkpoint_options *options, et_error *error)
{
    double hours = options->keep_every_n_hours;
    return hours >= 0 && isfinite(hours)
               ? ET_OK
               : et_fail(error, ET_EUSAGE,
                         "keep_every_n_hours: %g; give a number of hours, or 0 to keep only the "
                         "newest checkpoints",
                         hours);
}

et_checkpoint_keep et_checkpoint_keep_rule(const et_checkpoint_options *options, double opened)
{
    int64_t newest = options->max_to_keep ? options->max_to_keep : 5;
    return (et_checkpoint_keep){ newest < 0 ? INT64_MAX / 2 : newest, options->keep_every_n_hours,
                                 opened };
}

void et_checkpoint_keep_found(et_manifest *manifest, const et_checkpoint_keep *keep)
{
    for (int64_t i = 0; keep->hours > 0 && i < (int64_t)manifest->count - keep->newest; i++)
        manifest->entries[i].kept = true;
}

/* How many of the newest N are too many. */
static int64_t count_beyond(const et_manifest *manifest, const et_checkpoint_keep *keep)
{
    int64_t counted = 0;
    for (size_t i = 0; i < manifest->count; i++)
        counted += !manifest->entries[i].transient && !manifest->entries[i].kept;
    return counted - keep->newest;
}

/* The beginning of the hours, at first; a clock that was set back begins anew. */
static void count_hours(et_manifest *manifest, const et_checkpoint_keep *keep)
{
    double now = manifest->entries[manifest->count - 1].time;
    if (keep->hours <= 0)
        return;
    if (manifest->kept_time <= 0)
        manifest->kept_time = keep->opened;
    if (now < manifest->kept_time)
        manifest->kept_time = now;
}

/* Whether a checkpoint that falls out stays for good. */
static bool keep_for_good(et_manifest *manifest, et_manifest_entry *entry,
                          const et_checkpoint_keep *keep)
{
    if (keep->hours <= 0 || entry->time - manifest->kept_time < 3600 * keep->hours)
        return false;
    entry->kept = true;
    manifest->kept_time = entry->time;
    return true;
}

static int remove_beyond(et_manifest *manifest, const et_checkpoint_keep *keep, et_error *error)
{
    int status = ET_OK;
    int64_t beyond = count_beyond(manifest, keep);
    for (size_t i = 0; !status && beyond > 0;) {
        et_manifest_entry *entry = &manifest->entries[i];
        bool counts = !entry->kept;
        beyond -= counts;
        if (!counts || keep_for_good(manifest, entry, keep))
            i++;
        else
            status = et_manifest_remove(manifest, i, error);
    }
    return status;
}

int et_checkpoint_thin_out(et_manifest *manifest, const et_checkpoint_keep *keep, et_error *error)
{
    et_assert(manifest->count > 0 && keep->newest >= 1);
    int status = ET_OK;
    count_hours(manifest, keep);
    for (size_t i = 0; !status && i + 1 < manifest->count;)
        if (manifest->entries[i].transient)
            status = et_manifest_remove(manifest, i, error);
        else
            i++;
    return status ? status : remove_beyond(manifest, keep, error);
}
