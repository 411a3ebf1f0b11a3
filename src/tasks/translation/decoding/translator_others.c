/* Translators as models of an ensemble. Each stays as it is and is only read: its weights, settings
 * and vocabularies. The translator that is opened with them has the decoder, which runs all models
 * (search.c) and averages their probabilities (choice.c). */
#include <string.h>

#include "base/alloc.h"
#include "tasks/translation/decoding/translator_private.h"

int et_translator_check_others(const et_translator_options *o, et_error *error)
{
    if (o->other_count < 0 || o->other_count >= ET_DECODER_MODELS_MAX)
        return et_fail(error, ET_ECONFIG, "an ensemble with %d other models: give 0 to %d",
                       o->other_count, ET_DECODER_MODELS_MAX - 1);
    if (o->other_count && o->shares)
        return et_fail(error, ET_ECONFIG,
                       "a translator that shares weights has the others of that translator: set no "
                       "others");
    if (o->weights && !o->other_count)
        return et_fail(error, ET_ECONFIG, "weights are for an ensemble: set others, too");
    for (int i = 0; i < o->other_count; i++)
        if (!o->others || !o->others[i])
            return et_fail(error, ET_ECONFIG, "other model %d of the ensemble is NULL", i + 1);
    for (int i = 0; o->weights && i <= o->other_count; i++)
        if (!(o->weights[i] > 0 && o->weights[i] <= 1e6))
            return et_fail(error, ET_ECONFIG,
                           "weight %d of the ensemble is %g: give a number above 0, up to 1e6",
                           i + 1, o->weights[i]);
    return ET_OK;
}

/* The names of models are the paths of their weights. */
static int check_other(const et_translator *t, const et_translator *other, et_error *error)
{
    int status = ET_OK;
    if (other->other_count)
        return et_fail(error, ET_ECONFIG,
                       "%s belongs to an ensemble itself: name the models one by one",
                       other->checkpoint);
    status = et_vocabularies_check_equal(t->sides.target, other->sides.target, error);
    return status ? et_fail_while(error, status,
                                  "%s and %s need the same target vocabulary for an ensemble",
                                  t->checkpoint, other->checkpoint)
                  : ET_OK;
}

static bool reads_other_tokens(const et_sides *a, const et_sides *b)
{
    return a->punctuation[false] != b->punctuation[false] ||
           et_vocabulary_checksum(a->source) != et_vocabulary_checksum(b->source);
}

static void fill_weights(const et_translator *t, double *weights)
{
    const double *given = t->options.weights;
    double sum = 0;
    for (int i = 0; i <= t->other_count; i++)
        sum += given ? given[i] : 1;
    for (int i = 0; i <= t->other_count; i++)
        weights[i] = (given ? given[i] : 1) / sum;
}

static void fill_models(et_translator *t, const et_translator **others, et_decoder_model *models,
                        et_transformer *transformers)
{
    for (int i = 0; i < t->other_count; i++) {
        const et_translator *other = others[i] = t->options.others[i];
        transformers[i] = et_translator_transformer(other);
        models[i] = (et_decoder_model){ other->params, &transformers[i], other->act, other->int8 };
        t->own_sources = t->own_sources || reads_other_tokens(&t->sides, &other->sides);
    }
}

int et_translator_join_others(et_translator *t, et_error *error)
{
    const et_translator *from = t->options.shares;
    t->other_count = from ? from->other_count : t->options.other_count;
    const size_t count = (size_t)t->other_count;
    if (from) {
        t->others = from->others;
        t->weights = from->weights;
        t->models = from->models;
        t->own_sources = from->own_sources;
    }
    if (from || !count)
        return ET_OK;
    const et_translator **others = et_arena_array(&t->arena, count, sizeof *others);
    et_decoder_model *models = et_arena_array(&t->arena, count, sizeof *models);
    et_transformer *transformers = et_arena_array(&t->arena, count, sizeof *transformers);
    double *weights = et_arena_array(&t->arena, count + 1, sizeof *weights);
    if (!others || !models || !transformers || !weights)
        return et_alloc_failed(error, count * sizeof *transformers, "an ensemble");
    int status = ET_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = check_other(t, t->options.others[i], error);
    if (status)
        return status;
    fill_models(t, others, models, transformers);
    fill_weights(t, weights);
    t->others = others;
    t->models = models;
    t->weights = weights;
    return ET_OK;
}

int et_translator_join_suppressed(et_translator *t, et_error *error)
{
    size_t count = (size_t)t->choice.never_count;
    for (int i = 0; i < t->other_count; i++)
        count += (size_t)t->others[i]->choice.never_count;
    if (!t->other_count || !count)
        return ET_OK;
    int32_t *ids = et_arena_array(&t->arena, count, sizeof *ids), *end = ids;
    if (!ids)
        return et_alloc_failed(error, count * sizeof *ids, "a list of tokens");
    for (int i = -1; i < t->other_count; i++) {
        const et_choice_options *of = i < 0 ? &t->choice : &t->others[i]->choice;
        if (of->never_count)
            memcpy(end, of->never, (size_t)of->never_count * sizeof *ids);
        end += of->never_count;
    }
    t->choice.never = ids;
    t->choice.never_count = (int)count;
    return ET_OK;
}
