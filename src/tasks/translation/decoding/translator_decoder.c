/* The decoder of a translator, by its options. */
#include "base/assert.h"
#include "data/text/vocabulary/vocabulary.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/settings/translation_options.h"

/* 64 positions: the size of a graph that declares parameters; the decoder has its own table. */
et_transformer et_translator_transformer(const et_translator *t)
{
    return et_translation_transformer(t->experiment.task, et_vocabulary_size(t->sides.source),
                                      et_vocabulary_size(t->sides.target), 64);
}

static const et_translation_model *model_of(const et_translator *t)
{
    const et_translation_options *options = t->experiment.task;
    return &options->model;
}

static double length_penalty(const et_translator *t)
{
    const et_translator_options *o = &t->options;
    if (o->no_length_penalty)
        return 0;
    return o->alpha > 0 ? o->alpha : model_of(t)->alpha;
}

et_decoder_options et_translator_decoder_options(const et_translator *t)
{
    const et_translation_model *settings = model_of(t);
    const et_translator_options *o = &t->options;
    const int results = t->decoding.results ? t->decoding.results : 1;
    const int beam = o->beam_size ? o->beam_size : (int)settings->beam_size;
    const bool shortlist = !o->no_shortlist && !t->other_count && (o->shortlist || !t->step);
    return (et_decoder_options){
        .beam = { .size = t->decoding.sampling ? results : beam,
                  .alpha = length_penalty(t),
                  .by_length = settings->length_penalty == ET_LENGTH_PENALTY_LENGTH,
                  .shrinks = settings->shrink_beam,
                  .force_end = settings->force_end,
                  .eos = et_vocabulary_eos(t->sides.target),
                  .ends = t->ends,
                  .end_count = t->end_count,
                  .results = results },
        .choice = t->choice,
        .start = et_vocabulary_start(t->sides.target),
        .max_length = o->max_length ? o->max_length : settings->decode_max_length,
        .length_factor = settings->decode_length_factor,
        .extra_length = settings->extra_decode_length,
        .sentences = o->sentences ? o->sentences : 32,
        .act = t->act,
        .int8 = t->int8,
        .lexicon = shortlist ? t->lexicon : NULL,
        .others = t->models,
        .other_count = t->other_count,
    };
}

int et_translator_check_shortlist(const et_translator *t, et_error *error)
{
    if (t->other_count)
        return et_fail(error, ET_ECONFIG,
                       "shortlist on: an ensemble translates with all tokens; leave it out");
    return t->lexicon ? ET_OK
                      : et_fail(error, ET_ECONFIG,
                                "shortlist on: %s has no " ET_TRANSLATION_LEXICON
                                ", which only models of Firefox and Bergamot have; leave it out",
                                t->checkpoint);
}

int et_translator_make_decoder(et_decoder **out, et_translator *t,
                               const et_decoder_options *options, et_error *error)
{
    et_assert(t->params && t->device && options);
    et_transformer model = et_translator_transformer(t);
    return et_decoder_new(out, t->params, t->device, &model, options, error);
}
