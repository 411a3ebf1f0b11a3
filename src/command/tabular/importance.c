#include "command/tabular/importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "data/table/schema/schema.h"

ET_SORT_BY(by_mean, et_importance, ET_DOWN(mean), strcmp(a->column, b->column))

int et_importances_measure(et_importances *out, et_explain *explain, int repeats, size_t most,
                           et_error *error)
{
    et_assert(out && explain && repeats > 0);
    const et_schema *schema = et_encoder_schema(et_explain_predictor(explain)->model->encoder);
    const size_t fields = (size_t)et_schema_count(schema);
    const size_t room = most && most < fields ? most : fields;
    int status = ET_OK;
    *out = (et_importances){ .items = et_alloc(room, sizeof *out->items),
                             .worse = et_alloc(room * (size_t)repeats, sizeof *out->worse) };
    if (!out->items || !out->worse)
        return et_alloc_failed(error, room * (size_t)repeats * sizeof *out->worse, "importance");
    for (int f = 0; f < (int)fields && !status; f++) {
        if (!et_explain_reads(explain, f))
            continue;
        if (out->count == room) {
            out->left++;
            continue;
        }
        et_importance *one = &out->items[out->count];
        *one = (et_importance){ .column = et_schema_at(schema, f)->name,
                                .worse = &out->worse[out->count * (size_t)repeats] };
        status = et_explain_importance(explain, f, repeats, one->worse, error);
        if (!status) {
            double sum = 0, squares = 0;
            for (int i = 0; i < repeats; i++)
                sum += one->worse[i];
            one->mean = sum / repeats;
            for (int i = 0; i < repeats; i++)
                squares += (one->worse[i] - one->mean) * (one->worse[i] - one->mean);
            one->deviation = sqrt(squares / repeats);
        }
        out->count++;
    }
    if (!status)
        qsort(out->items, out->count, sizeof *out->items, by_mean);
    return status;
}

void et_importances_release(et_importances *all)
{
    et_free(all->items);
    et_free(all->worse);
}

void et_importances_head(et_grid *grid)
{
    et_grid_add(grid, "column");
    et_grid_add(grid, "importance");
    et_grid_add(grid, "spread");
}

void et_importances_row(const et_importance *one, et_grid *grid)
{
    et_assert(one->column && one->worse);
    et_grid_add(grid, one->column);
    et_grid_addf(grid, "%.6f", one->mean);
    et_grid_addf(grid, "%.6f", one->deviation);
}
