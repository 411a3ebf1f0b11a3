/* task.train_data.mix. The files of all parts are one table, so schema, classes and held-out rows
 * are those of all parts. A part is a range of rows, and training samples are drawn from the parts
 * by weight. */
#include "base/alloc.h"
#include "data/text/paths.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"

static const et_tabular_part *part_at(const et_tabular_task *task, size_t i)
{
    return (const et_tabular_part *)task->options.train_data.mix.items + i;
}

int et_tabular_find_mix(et_tabular_task *task, et_error *error)
{
    const size_t count = task->options.train_data.mix.count;
    et_strings found[ET_TABULAR_MIX_MAX], *all = &task->paths;
    size_t files = 0;
    for (size_t i = 0; i < count; i++) {
        int status = et_paths_match(&found[i], &part_at(task, i)->input_path, "task.train_data.mix",
                                    &task->arena, error);
        if (status)
            return status;
        task->mix.file[i] = files;
        files += found[i].count;
    }
    const char **items = et_arena_alloc(&task->arena, files * sizeof *items);
    if (!items)
        return et_alloc_failed(error, files * sizeof *items, "paths");
    *all = (et_strings){ .items = items };
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < found[i].count; k++)
            items[all->count++] = found[i].items[k];
    return ET_OK;
}

void et_tabular_find_ranges(et_tabular_task *task, const et_samples *table)
{
    const size_t count = task->options.train_data.mix.count;
    for (size_t i = 0; i < count; i++)
        task->mix.end[i] =
            i + 1 < count ? et_table_first(table, task->mix.file[i + 1]) : table->count;
}

/* Rows of the table. They are in order, and so is the table's end where there is a limit. */
static int open_part(et_samples **out, const et_tabular_task *task, size_t at,
                     const unsigned char *side, uint32_t *which, et_error *error)
{
    const int64_t begin = at ? task->mix.end[at - 1] : 0;
    int64_t end = task->mix.end[at], count = 0;
    end = end < task->table->count ? end : task->table->count;
    for (int64_t row = begin; row < end; row++)
        if (!side || side[row] == ET_TABULAR_LEARNED)
            which[count++] = (uint32_t)row;
    if (!count)
        return et_fail(error, ET_EDATA,
                       "task.train_data.mix[%zu]: %s: no row is left for training; leave this "
                       "table out, or change held_out or limit",
                       at, task->paths.items[task->mix.file[at]]);
    return et_tabular_choose(out, task->table, which, count, error);
}

int et_tabular_mix(et_tabular_task *task, const unsigned char *side, et_error *error)
{
    const et_tabular_data *data = &task->options.train_data;
    const size_t count = data->mix.count;
    const uint64_t seed = data->seed < 0 ? task->context.seed : (uint64_t)data->seed;
    et_samples *parts[ET_TABULAR_MIX_MAX] = { NULL };
    double weights[ET_TABULAR_MIX_MAX];
    uint32_t *which = et_alloc((size_t)task->table->count, sizeof *which);
    int status =
        which ? ET_OK : et_alloc_failed(error, (size_t)task->table->count * sizeof *which, "rows");
    for (size_t i = 0; !status && i < count; i++) {
        weights[i] = part_at(task, i)->weight;
        status = open_part(&parts[i], task, i, side, which, error);
    }
    if (!status)
        status = et_mix_open(&task->training, parts, weights, (int)count, seed, error);
    for (size_t i = 0; status && i < count; i++)
        et_samples_close(parts[i]);
    et_free(which);
    return status;
}
