#include "command/translation/ensemble_models.h"

#include "base/alloc.h"

int et_ensemble_models_open(et_ensemble_models *models, const char *const *runs, int count,
                            et_translator_options *options, et_error *error)
{
    const et_translator_options like = { .checkpoint = options->checkpoint,
                                         .precision = options->precision,
                                         .live_weights = options->live_weights };
    int status = ET_OK;
    *models = (et_ensemble_models){ .count = 0 };
    if (!count)
        return ET_OK;
    models->items = et_alloc_zero((size_t)count, sizeof(et_translator *));
    if (!models->items)
        return et_alloc_failed(error, (size_t)count * sizeof(et_translator *), "an ensemble");
    for (models->count = 0; models->count < count && !status; models->count++)
        status =
            et_translator_open(&models->items[models->count], runs[models->count], &like, error);
    options->others = (const et_translator *const *)models->items;
    options->other_count = count;
    return status;
}

void et_ensemble_models_close(et_ensemble_models *models)
{
    for (int i = 0; i < models->count; i++)
        et_translator_close(models->items[i]);
    et_free(models->items);
    *models = (et_ensemble_models){ .count = 0 };
}
