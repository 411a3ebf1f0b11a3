#include "command/translation/served_models.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "command/translation/translating.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/decoding/glossary.h"
#include "tasks/translation/decoding/translator_device.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/settings/translation_kind.h"

/* Decoders of a model in addition to the usual one. */
#define OTHERS_MAX 3

/* A translator for a beam size and a number of results. */
typedef struct variant {
    et_translator *translator;
    int beam, results;
    uint64_t used; /* when: the number of the call */
    et_decoding_options decoding;
} variant;

struct et_served_model {
    et_translator *usual;
    et_ensemble_models others; /* of an ensemble */
    int beam;                  /* of the run */
    int beam_max;
    variant other[OTHERS_MAX];
    uint64_t calls;
};

/* A run of the command line, and its languages. */
typedef struct run {
    const char *dir;
    const char *pair; /* "en,de"; "": not known. As --languages has it, or settings */
    char settings[2 * ET_LANGUAGE_MAX];
} run;

/* ---- languages of runs ---- */

/* Without --languages: the two languages whose punctuation the model normalizes, or those of its
 * training data, if both are known. The target of a multilingual model is mul. */
static int read_pair(run *r, et_error *error)
{
    et_artifact artifact = { .name = NULL };
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    int status = et_import_open_artifact(&artifact, r->dir, error);
    if (!status)
        status = et_experiment_open_artifact(&experiment, &et_translation_program, &artifact,
                                             &arena, error);
    if (!status) {
        const et_translation_options *settings = experiment.task;
        const struct {
            const char *source, *target;
        } of[] = {
            { settings->vocabulary.source_punctuation, settings->vocabulary.target_punctuation },
            { settings->train_data.src_lang, settings->train_data.tgt_lang },
        };
        for (size_t i = 0; i < sizeof of / sizeof *of && !*r->settings; i++)
            if (of[i].source && of[i].target && et_language_is_code(of[i].source) &&
                et_language_is_code(of[i].target))
                snprintf(r->settings, sizeof r->settings, "%s,%s", of[i].source, of[i].target);
    }
    r->pair = r->settings;
    et_artifact_close(&artifact);
    et_arena_release(&arena);
    return status;
}

static int read_pairs(run *runs, size_t count, const et_service_options *o, et_error *error)
{
    int status = ET_OK;
    if (o->language_count > 1 && o->language_count != count)
        return et_fail(error, ET_EUSAGE,
                       "--languages is given %zu times for %zu run%s; give it once, or once for "
                       "each run in the order of the runs",
                       o->language_count, count, count > 1 ? "s" : "");
    for (size_t i = 0; i < count && !status; i++) {
        if (o->language_count)
            runs[i].pair = o->languages[o->language_count > 1 ? i : 0];
        else
            status = read_pair(&runs[i], error);
    }
    return status;
}

/* With models of several pairs: each pair is known, and no option is for one model alone. */
static int check_several(const run *runs, size_t count, const et_service_options *o,
                         et_error *error)
{
    const char *option = o->tag_count ? "--tag"
                         : o->terms   ? "--terms"
                         : o->weights ? "--ensemble-weights"
                                      : NULL;
    if (option)
        return et_fail(error, ET_EUSAGE,
                       "%s: the runs translate between different languages; start a server for "
                       "each pair, or leave the option out",
                       option);
    for (size_t i = 0; i < count; i++)
        if (!*runs[i].pair)
            return et_fail(error, ET_EUSAGE,
                           "%s: the languages of this model are not known, and those of other runs "
                           "are; give --languages once for each run in the order of the runs",
                           runs[i].dir);
    return ET_OK;
}

/* ---- opening ---- */

static int open_languages(et_served_model *m, et_libre_languages *languages, const char *pair,
                          const et_service_options *o, et_error *error)
{
    const et_strings tags = { o->tags, o->tag_count };
    const bool tagged = tags.count || m->usual->language_tags.count;
    const char *comma = strchr(pair, ',');
    const bool known = *pair && (o->language_count || tagged || strcmp(comma + 1, "mul") != 0);
    int status = ET_OK;
    for (size_t i = 0; i < tags.count && !status; i++) {
        const char *equals = strchr(tags.items[i], '=');
        int32_t id;
        status = et_vocabularies_find_token(m->usual->sides.source, "--tag",
                                            equals ? equals + 1 : tags.items[i], &id, error);
    }
    if (!status)
        status = et_libre_languages_open(languages, known ? pair : NULL, &tags,
                                         &m->usual->language_tags, error);
    m->usual->options.tag = languages->tag;
    return status;
}

/* The first of runs is the model's, and the others of the same pair are its ensemble. */
static int open_model(et_served_model *m, et_libre_languages *languages, const run *runs,
                      size_t count, const et_service_options *o, et_error *error)
{
    const et_decoding_options decoding = { .terms = o->terms };
    et_translator_options options = { .checkpoint = o->checkpoint,
                                      .precision = o->precision,
                                      .live_weights = o->live_weights,
                                      .weights = o->weights };
    const char *others[ET_DECODER_MODELS_MAX];
    int other_count = 0;
    for (size_t i = 1; i < count; i++)
        if (!strcmp(runs[i].pair, runs->pair))
            others[other_count++] = runs[i].dir;
    int status = et_ensemble_models_open(&m->others, others, other_count, &options, error);
    options.decoding = &decoding;
    if (!status)
        status = et_translator_open(&m->usual, runs->dir, &options, error);
    if (!status)
        status = open_languages(m, languages, runs->pair, o, error);
    if (status)
        return status;
    const int half = (int)(et_vocabulary_size(m->usual->sides.target) / 2);
    m->beam = et_translator_decoder_options(m->usual).beam.size;
    m->beam_max = half < ET_BEAM_SIZE_MAX ? half : ET_BEAM_SIZE_MAX;
    return ET_OK;
}

static bool is_first_of_pair(const run *runs, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (!strcmp(runs[i].pair, runs[at].pair))
            return false;
    return true;
}

int et_served_models_open(et_served_models *models, const char *model_dir,
                          const et_service_options *o, et_error *error)
{
    et_assert(model_dir && o);
    const size_t count = (size_t)o->other_count + 1;
    run *runs = et_alloc_zero(count, sizeof *runs);
    size_t pairs = 0;
    *models = (et_served_models){ .items = et_alloc_zero(count, sizeof *models->items),
                                  .languages = { .items = et_alloc_zero(
                                                     count, sizeof *models->languages.items) } };
    int status = runs && models->items && models->languages.items
                     ? ET_OK
                     : et_alloc_failed(error, count * sizeof *models->items, "models");
    for (size_t i = 0; i < count && !status; i++)
        runs[i].dir = i ? o->others[i - 1] : model_dir;
    if (!status)
        status = read_pairs(runs, count, o, error);
    for (size_t i = 0; i < count && !status; i++)
        pairs += is_first_of_pair(runs, i);
    if (!status && pairs > 1)
        status = check_several(runs, count, o, error);
    for (size_t i = 0; i < count && !status; i++) {
        const size_t at = models->languages.count;
        if (!is_first_of_pair(runs, i))
            continue;
        models->languages.count++;
        status = open_model(&models->items[at], &models->languages.items[at], runs + i, count - i,
                            o, error);
    }
    if (!status)
        status = et_libre_models_list(&models->languages, error);
    et_free(runs);
    return status;
}

void et_served_models_close(et_served_models *models)
{
    for (size_t i = 0; i < models->languages.count; i++) {
        et_served_model *m = &models->items[i];
        for (int v = 0; v < OTHERS_MAX; v++)
            et_translator_close(m->other[v].translator);
        et_translator_close(m->usual);
        et_ensemble_models_close(&m->others);
    }
    et_free(models->items);
    et_libre_models_close(&models->languages);
}

/* ---- use ---- */

et_translator *et_served_model_translator(const et_served_models *models, size_t model)
{
    et_assert(model < models->languages.count);
    return models->items[model].usual;
}

int et_served_model_beam(const et_served_models *models, size_t model)
{
    return models->items[model].beam;
}

int et_served_model_beam_max(const et_served_models *models, size_t model)
{
    return models->items[model].beam_max;
}

static void describe_model(const et_served_model *m, const et_libre_languages *l, et_value *facts)
{
    et_value_set_string(facts, "checkpoint", et_translator_checkpoint(m->usual));
    et_value_set_int(facts, "step", et_translator_step(m->usual));
    if (m->others.count) {
        et_value *list = et_value_set_list(facts, "others");
        for (int i = 0; list && i < m->others.count; i++)
            et_value_add_string(list, et_translator_checkpoint(m->others.items[i]));
    }
    et_value_set_int(facts, "beam_size", m->beam);
    et_value_set_int(facts, "beam_size_max", m->beam_max);
    if (!*l->source)
        return;
    et_value_set_string(facts, "source", et_libre_code_shown(l->source));
    et_value *targets = et_value_set_list(facts, "targets");
    for (size_t i = 0; i < l->count; i++) {
        et_value *target = et_value_add_dict(targets);
        et_value_set_string(target, "code", et_libre_code_shown(l->targets[i].code));
        if (l->targets[i].tag)
            et_value_set_string(target, "tag", l->targets[i].tag);
    }
}

void et_served_models_describe(const et_served_models *models, et_value *facts)
{
    const size_t count = models->languages.count;
    describe_model(&models->items[0], &models->languages.items[0], facts);
    et_value *list = count > 1 ? et_value_set_list(facts, "models") : NULL;
    for (size_t i = 0; list && i < count; i++)
        describe_model(&models->items[i], &models->languages.items[i], et_value_add_dict(list));
}

int et_served_model_find(et_served_models *models, size_t model, int beam, int results,
                         et_translator **out, et_error *error)
{
    et_assert(model < models->languages.count);
    et_served_model *m = &models->items[model];
    variant *oldest = &m->other[0];
    *out = m->usual;
    m->calls++;
    if (beam == m->beam && results <= 1)
        return ET_OK;
    for (variant *v = m->other; v < m->other + OTHERS_MAX; v++) {
        if (v->translator && v->beam == beam && v->results == results) {
            v->used = m->calls;
            *out = v->translator;
            return ET_OK;
        }
        if (v->used < oldest->used)
            oldest = v;
    }
    /* Replaces the variant that was used longest ago. */
    et_translator_close(oldest->translator);
    const et_glossary *glossary = m->usual->glossary;
    *oldest = (variant){ .beam = beam,
                         .results = results,
                         .decoding = { .results = results,
                                       .terms = glossary ? et_glossary_path(glossary) : NULL } };
    const et_translator_options options = { .tag = models->languages.items[model].tag,
                                            .beam_size = beam,
                                            .precision = m->usual->options.precision,
                                            .shares = m->usual,
                                            .decoding = &oldest->decoding };
    int status = et_translator_open_beside(&oldest->translator, &options, error);
    oldest->used = status ? 0 : m->calls;
    *out = oldest->translator;
    return status;
}
