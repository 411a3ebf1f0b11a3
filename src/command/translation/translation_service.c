#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/values/json.h"
#include "command/translation/libretranslate.h"
#include "command/translation/translating.h"
#include "command/translation/translation_commands.h"
#include "command/web/serving.h"
#include "data/text/punctuation.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/decoding/glossary.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/import/import.h"
#include "tasks/translation/settings/translation_kind.h"

/* ---- models ---- */

/* The models of a translation service. Runs of the same languages form one model, an ensemble; runs
 * of different languages are different models. Each model has a translator with the run's beam
 * size. It also keeps decoders for the last requested beam sizes and numbers of results. */

/* Decoders of a model in addition to the usual one. */
#define OTHERS_MAX 3

/* A translator for a beam size and a number of results. */
typedef struct variant {
    et_translator *translator;
    int beam, results;
    uint64_t used; /* when: the number of the call */
    et_decoding_options decoding;
} variant;

typedef struct served_model {
    et_translator *usual;
    et_ensemble_models others; /* of an ensemble */
    int beam;                  /* of the run */
    int beam_max;
    variant other[OTHERS_MAX];
    uint64_t calls;
} served_model;

typedef struct served_models {
    served_model *items;       /* [count], owned */
    et_libre_models languages; /* [count] of the models */
} served_models;

/* A run of the command line, and its languages. */
typedef struct run {
    const char *dir;
    const char *pair; /* "en,de"; "": not known. As --languages has it, or settings */
    char settings[2 * ET_LANGUAGE_MAX];
} run;

/* ---- languages of runs ---- */

/* Without --languages: the two languages for which the model normalizes punctuation, or else the
 * languages of its training data, if both are known. The target of a multilingual model is mul. */
static int read_pair(run *r, et_error *error)
{
    et_artifact artifact = { .name = NULL };
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment = { .kind = NULL };
    int status;
    if (!(status = et_import_open_artifact(&artifact, r->dir, error)) &&
        !(status = et_experiment_open_artifact(&experiment, &et_translation_program, &artifact,
                                               &arena, error))) {
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

/* Checks models of several pairs: each pair must be known, and no option may be for one model
 * only. */
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
            return et_fail(
                error, ET_EUSAGE,
                "%s: the languages of this model are unknown, but the languages of another run are "
                "known; give --languages once for each run, in the order of the runs",
                runs[i].dir);
    return ET_OK;
}

/* ---- opening of models ---- */

static int open_languages(served_model *m, et_libre_languages *languages, const char *pair,
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

/* The first of runs is the model; the other runs of the pair are its ensemble. */
static int open_model(served_model *m, et_libre_languages *languages, const run *runs, size_t count,
                      const et_service_options *o, et_error *error)
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
    if (!status && !(status = et_translator_open(&m->usual, runs->dir, &options, error)))
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

/* model_dir is the first run, options.others the further ones. ET_EUSAGE: the languages of a run
 * are wrong, or unknown although other runs have languages; or an option needs a single model. */
static int open_models(served_models *models, const char *model_dir, const et_service_options *o,
                       et_error *error)
{
    et_assert(model_dir && o);
    const size_t count = (size_t)o->other_count + 1;
    run *runs = et_alloc_zero(count, sizeof *runs);
    size_t pairs = 0;
    *models = (served_models){ .items = et_alloc_zero(count, sizeof *models->items),
                               .languages = { .items = et_alloc_zero(
                                                  count, sizeof *models->languages.items) } };
    int status =
        runs && models->items && models->languages.items ? ET_OK : et_alloc_failed(error, "models");
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

/* ---- use of models ---- */

static void describe_model(const served_model *m, const et_libre_languages *l, et_value *facts)
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

/* Finds or opens the translator for a beam size and a number of results. Borrowed until the next
 * call. */
static int find_variant(served_models *models, size_t model, int beam, int results,
                        et_translator **out, et_error *error)
{
    et_assert(model < models->languages.count);
    served_model *m = &models->items[model];
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

/* ---- the service ---- */

/* Normalization turns the 3 bytes of U+FDFA into 15 letters of 2 bytes and 3 spaces of 3, and each
 * of these bytes may be a token. A shorter text cannot have too many tokens. */
#define BYTES_SAFE (ET_TRANSLATION_SOURCE_MAX / 16)

/* A line with more bytes is refused before it is encoded, which takes seconds for a line of
 * megabytes. */
#define BYTES_MAX (32 * ET_TRANSLATION_SOURCE_MAX)

typedef struct translations {
    et_service service; /* the first member */
    served_models models;
    bool keyed; /* clients need a token */
} translations;

typedef struct asked {
    const char **lines;   /* [items] for the next model of the route; of a request of ours */
    et_libre_route route; /* of one model, number 0, if a request of ours names no languages */
    int beam, results;    /* of the last model; results 0: only the best translation, as text */
    et_libre *libre;      /* a request of LibreTranslate's API, owned; NULL: of ours */
    atomic_bool ended;    /* nobody waits for the answer */
    size_t first, count;  /* its lines in a round of a batch */
} asked;

/* ---- opening ---- */

static void close_service(et_service *self)
{
    translations *all = (translations *)(void *)self;
    if (!all)
        return;
    served_models *models = &all->models;
    for (size_t i = 0; i < models->languages.count; i++) {
        served_model *m = &models->items[i];
        for (int v = 0; v < OTHERS_MAX; v++)
            et_translator_close(m->other[v].translator);
        et_translator_close(m->usual);
        et_ensemble_models_close(&m->others);
    }
    et_free(models->items);
    et_libre_models_close(&models->languages);
    et_free(all);
}

static int open_service(et_service **out, const char *model_dir, const et_service_options *options,
                        et_error *error)
{
    *out = NULL;
    translations *all;
    if (ET_ALLOC_ZERO(all, 1, "a service", error))
        return ET_ENOMEM;
    all->service.ET_CLASS = &et_translation_service;
    all->keyed = options->keyed;
    int status = open_models(&all->models, model_dir, options, error);
    if (status)
        close_service(&all->service);
    else
        *out = &all->service;
    return status;
}

static void describe(const et_service *self, et_value *facts)
{
    const served_models *models = &((const translations *)(const void *)self)->models;
    const size_t count = models->languages.count;
    describe_model(&models->items[0], &models->languages.items[0], facts);
    et_value *list = count > 1 ? et_value_set_list(facts, "models") : NULL;
    for (size_t i = 0; list && i < count; i++)
        describe_model(&models->items[i], &models->languages.items[i], et_value_add_dict(list));
}

/* ---- reading ---- */

/* A line with too many tokens is translated in pieces, for which n-best lists are impossible. */
static int check_length(const translations *all, const asked *to, const char *line, int64_t number,
                        et_tokens *tokens, et_error *error)
{
    size_t length = strlen(line);
    if (length > BYTES_MAX)
        return et_fail(error, ET_EDATA, "line %lld has %zu bytes, more than %d: split the line",
                       (long long)number, length, BYTES_MAX);
    if (!to->results || length < BYTES_SAFE)
        return ET_OK;
    const et_translator *t = all->models.items[to->route.models[0]].usual;
    int status = et_sides_encode(&t->sides, false, line, length, tokens, error);
    if (!status && tokens->count > ET_TRANSLATION_SOURCE_MAX - 1)
        return et_fail(error, ET_EDATA, "line %lld has %zu tokens, more than %d: split the line",
                       (long long)number, tokens->count, ET_TRANSLATION_SOURCE_MAX - 1);
    return status;
}

static int check_line(const translations *all, const asked *to, const et_value *line,
                      int64_t number, et_tokens *tokens, et_error *error)
{
    if (line->kind != ET_VALUE_STRING)
        return et_fail(error, ET_EDATA, "line %lld is %s; expected a text", (long long)number,
                       et_json_kind_name(line->kind));
    if (strpbrk(line->string, "\r\n"))
        return et_fail(error, ET_EDATA, "line %lld contains a line end: send two lines",
                       (long long)number);
    return check_length(all, to, line->string, number, tokens, error);
}

static int read_lines(const translations *all, et_service_request *request, asked *to,
                      et_error *error)
{
    const et_value *lines = et_value_get(request->json, "lines");
    et_tokens tokens = ET_TOKENS_INIT;
    int status = ET_OK;
    if (!lines || lines->kind != ET_VALUE_LIST)
        return et_fail(error, ET_EDATA, "lines: expected a list of texts, found %s",
                       lines ? et_json_kind_name(lines->kind) : "nothing");
    to->lines = et_arena_array(request->arena, lines->count, sizeof *to->lines);
    if (!to->lines)
        return et_alloc_failed(error, "lines");
    for (const et_value *line = lines->first; line && !status && !et_service_ended(request);
         line = line->next) {
        status = check_line(all, to, line, ++request->items, &tokens, error);
        to->lines[request->items - 1] = status ? NULL : line->string;
    }
    et_tokens_release(&tokens);
    return status;
}

/* Reads the lines of all texts. Without lines, the answer is already written. */
static int read_texts(const translations *all, et_service_request *request, asked *to,
                      et_error *error)
{
    et_tokens tokens = ET_TOKENS_INIT;
    int status = et_libre_open(&to->libre, &all->models.languages, request, error);
    if (status)
        return status;
    to->route = *et_libre_route_of(to->libre);
    const size_t last = to->route.models[to->route.count - 1];
    const int beam = all->models.items[last].beam;
    const int beam_max = all->models.items[last].beam_max;
    const size_t count = et_libre_count(to->libre);
    const int results = et_libre_alternatives(to->libre) + 1;
    if (results > beam_max)
        return et_fail(error, ET_EDATA, "alternatives %d: this model has at most %d", results - 1,
                       beam_max - 1);
    to->beam = results > beam ? results : beam;
    to->results = results > 1 ? results : 0;
    const char **lines = et_arena_array(request->arena, count + 1, sizeof *lines);
    if (!lines)
        return et_alloc_failed(error, "lines");
    et_libre_lines(to->libre, lines);
    request->items = (int64_t)count;
    for (size_t i = 0; i < count && !status && !et_service_ended(request); i++)
        status = check_length(all, to, lines[i], (int64_t)i + 1, &tokens, error);
    et_tokens_release(&tokens);
    if (!status && !count)
        et_libre_print(to->libre, request);
    return status;
}

/* A request in Etude's own form needs no languages if there is one model. */
static int find_route(const translations *all, const et_service_request *request, asked *to,
                      et_error *error)
{
    const et_value *source = et_value_get(request->json, "source");
    const et_value *target = et_value_get(request->json, "target");
    bool automatic;
    to->route = (et_libre_route){ .count = 1 };
    if (!source && !target && all->models.languages.count == 1)
        return ET_OK;
    if (!source || !target || source->kind != ET_VALUE_STRING || target->kind != ET_VALUE_STRING)
        return et_fail(
            error, ET_EDATA,
            "source and target: expected the codes of two languages, such as \"source\": "
            "\"en\", \"target\": \"de\"; GET /languages lists them");
    return et_libre_models_find(&all->models.languages, source->string, target->string, &to->route,
                                &automatic, error);
}

static int read_own(const translations *all, et_service_request *request, asked *to,
                    et_error *error)
{
    static const char *const keys[] = { "lines", "beam_size", "n_best", "source", "target", NULL };
    int64_t beam = 0, results = 0;
    int status;
    if ((status = et_service_keys(request, keys, error)) ||
        (status = find_route(all, request, to, error)))
        return status;
    const served_model *last = &all->models.items[to->route.models[to->route.count - 1]];
    if ((status = et_service_number(request, "beam_size", 1, last->beam_max, last->beam, &beam,
                                    error)) ||
        (status = et_service_number(request, "n_best", 1, ET_BEAM_SIZE_MAX, 0, &results, error)))
        return status;
    if (results > beam)
        return et_fail(error, ET_EDATA,
                       "n_best %lld: more than the beam size, %lld; raise beam_size",
                       (long long)results, (long long)beam);
    to->beam = (int)beam;
    to->results = (int)results;
    status = read_lines(all, request, to, error);
    if (!status && !request->items) {
        const char *none = to->results ? "{\"hypotheses\": []}\n" : "{\"translations\": []}\n";
        et_service_answer(request, none, strlen(none));
    }
    return status;
}

static int read_request(et_service *self, et_service_request *request, et_error *error)
{
    const translations *all = (const translations *)(const void *)self;
    asked *to = et_arena_alloc(request->arena, sizeof *to);
    request->payload = to;
    if (!to)
        return et_alloc_failed(error, "a request");
    int status = et_libre_is(request) ? read_texts(all, request, to, error)
                                      : read_own(all, request, to, error);
    request->group = 0;
    if (status)
        return status;
    /* Requests are answered together if they have the same route, beam size and number of results.
     * Beam and results are at most ET_BEAM_SIZE_MAX, and models are at most 32. */
    const size_t first = to->route.models[0], second = to->route.models[to->route.count - 1];
    request->group = (uint64_t)first << 48 | (uint64_t)second << 40 | (uint64_t)to->beam << 20 |
                     (uint64_t)to->results;
    return ET_OK;
}

static void release_request(et_service_request *request)
{
    et_libre_close(((asked *)request->payload)->libre);
}

static int answer_languages(et_service *self, et_service_request *request, et_error *error)
{
    return et_libre_print_languages(&((const translations *)(const void *)self)->models.languages,
                                    request, error);
}

static int answer_settings(et_service *self, et_service_request *request, et_error *error)
{
    const translations *all = (const translations *)(const void *)self;
    return et_libre_print_settings(&all->models.languages, all->keyed, request, error);
}

static int answer_detect(et_service *self, et_service_request *request, et_error *error)
{
    return et_libre_detect(&((const translations *)(const void *)self)->models.languages, request,
                           error);
}

/* ---- answers ---- */

/* Requests of one group being answered. Each round translates the lines that requests have then. */
typedef struct batch {
    et_service_request *const *requests; /* [count] */
    size_t count;
    const asked *what; /* of the first request: route, beam and results are those of all */
    et_arena arena;    /* of a round */
    const atomic_bool **lines_ended; /* [total], as lines and results */
    const char **lines;
    char **results;       /* their texts are owned; of a search: none */
    et_hypotheses *found; /* of a search, owned */
    size_t total;
} batch;

static void release_round(batch *b)
{
    et_translator_free_results(b->results, b->results ? b->total : 0);
    et_hypotheses_free(b->found);
    et_arena_release(&b->arena);
    b->results = NULL;
    b->found = NULL;
}

static asked *asked_of(const batch *b, size_t request)
{
    return b->requests[request]->payload;
}

/* The lines of all requests whose client still waits. again: only lines of documents whose
 * translations have lost markup. */
static int begin_round(batch *b, bool again, et_error *error)
{
    release_round(b);
    b->total = 0;
    for (size_t i = 0; i < b->count; i++) {
        asked *what = asked_of(b, i);
        const bool waits = !what->ended && !b->requests[i]->status;
        what->first = b->total;
        what->count = !waits || (again && !what->libre) ? 0
                      : what->libre                     ? et_libre_count(what->libre)
                                                        : (size_t)b->requests[i]->items;
        b->total += what->count;
    }
    if (!b->total)
        return ET_OK;
    b->lines_ended = et_arena_array(&b->arena, b->total, sizeof *b->lines_ended);
    b->lines = et_arena_array(&b->arena, b->total, sizeof *b->lines);
    b->results = et_arena_array(&b->arena, b->total, sizeof *b->results);
    if (b->arena.failed)
        return et_alloc_failed(error, "lines");
    for (size_t i = 0; i < b->count; i++) {
        const asked *what = asked_of(b, i);
        if (what->count && what->libre)
            et_libre_lines(what->libre, b->lines + what->first);
        for (size_t line = 0; line < what->count; line++) {
            b->lines_ended[what->first + line] = &what->ended;
            if (!what->libre)
                b->lines[what->first + line] = what->lines[line];
        }
    }
    return ET_OK;
}

/* After each step of the decoder; true: nobody waits for any of it. */
static bool note_ended(void *payload, size_t done, size_t lines)
{
    batch *b = payload;
    bool all = true;
    (void)done;
    (void)lines;
    for (size_t i = 0; i < b->count; i++) {
        if (et_service_ended(b->requests[i]))
            atomic_store_explicit(&asked_of(b, i)->ended, true, memory_order_relaxed);
        else
            all = false;
    }
    return all;
}

/* results 0: the best translations alone. */
static int run_round(translations *all, batch *b, size_t model, int beam, int results,
                     et_error *error)
{
    et_translator *t;
    int status = find_variant(&all->models, model, beam, results, &t, error);
    if (status)
        return status;
    t->ended = b->lines_ended;
    et_translator_set_progress(t, note_ended, b);
    status = results ? et_translator_search(t, b->lines, b->total, &b->found, error)
                     : et_translator_translate(t, b->lines, b->total, b->results, error);
    et_translator_set_progress(t, NULL, NULL);
    t->ended = NULL;
    return status;
}

/* Gives documents their translations, and requests of ours the lines for the next model. Returns
 * the number of lines that documents need translated once more. */
static size_t take_round(batch *b, bool last)
{
    size_t left = 0;
    for (size_t i = 0; i < b->count; i++) {
        et_service_request *request = b->requests[i];
        asked *what = request->payload;
        if (!what->count || what->ended)
            continue;
        if (what->libre)
            request->status = et_libre_take(what->libre, b->results + what->first, b->found,
                                            what->first, &request->error);
        for (size_t line = 0; line < what->count && !what->libre && !last && !request->status;
             line++) {
            what->lines[line] = et_arena_strdup(request->arena, b->results[what->first + line]);
            if (!what->lines[line])
                request->status = et_alloc_failed(&request->error, "a line");
        }
        if (what->libre && !request->status)
            left += et_libre_count(what->libre);
    }
    return left;
}

static void print_own(batch *b, et_service_request *request)
{
    const asked *what = request->payload;
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, b->found ? "{\"hypotheses\": [" : "{\"translations\": [");
    for (size_t line = what->first; line < what->first + what->count; line++) {
        et_strbuf_append(&out, line > what->first ? ", " : "");
        if (b->found)
            et_result_lines_print_json(&out, b->found, line, false);
        else
            et_json_print_string(&out, b->results[line]);
    }
    et_strbuf_append(&out, "]}\n");
    et_service_answer_text(request, &out);
}

/* The next model of the route, or the answer. */
static void finish_texts(batch *b, bool last)
{
    for (size_t i = 0; i < b->count; i++) {
        const asked *what = asked_of(b, i);
        et_service_request *request = b->requests[i];
        if (!what->libre || what->ended || request->status)
            continue;
        if (last)
            et_libre_print(what->libre, request);
        else
            request->status = et_libre_advance(what->libre, &request->error);
    }
}

static int translate_leg(translations *all, batch *b, int leg, et_error *error)
{
    const et_libre_route *route = &b->what->route;
    const size_t model = route->models[leg];
    const bool last = leg == route->count - 1;
    const int usual = all->models.items[model].beam;
    int status = begin_round(b, false, error);
    if (!status && b->total)
        status = run_round(all, b, model, last ? b->what->beam : usual, last ? b->what->results : 0,
                           error);
    if (status)
        return status;
    const size_t left = take_round(b, last);
    /* Requests of ours; documents may need one more round. */
    for (size_t i = 0; last && i < b->count; i++)
        if (!asked_of(b, i)->libre && !asked_of(b, i)->ended && !b->requests[i]->status)
            print_own(b, b->requests[i]);
    if (left)
        status = begin_round(b, true, error);
    if (!status && left && b->total && !(status = run_round(all, b, model, usual, 0, error)))
        (void)take_round(b, last);
    if (!status)
        finish_texts(b, last);
    return status;
}

static void answer(et_service *self, et_service_request *const *requests, size_t count)
{
    translations *all = (translations *)(void *)self;
    et_error error = ET_ERROR_INIT;
    batch b = { .requests = requests, .count = count, .what = requests[0]->payload };
    int status = ET_OK;
    for (int leg = 0; !status && leg < b.what->route.count; leg++)
        status = translate_leg(all, &b, leg, &error);
    for (size_t i = 0; i < count && status; i++) {
        requests[i]->status = status;
        requests[i]->error = error;
    }
    release_round(&b);
}

static const char *const types[] = { ET_SERVICE_FORM, ET_SERVICE_PARTS, NULL };

static const et_service_path paths[] = {
    { .path = "/languages", .open = true, .answer = answer_languages },
    { .path = "/frontend/settings", .open = true, .answer = answer_settings },
    { .path = "/detect", .asks = true, .answer = answer_detect },
    { .path = NULL },
};

const et_service_class et_translation_service = {
    .name = "translate",
    .items = "lines",
    .example = "{\"lines\": [\"A dog runs.\"], \"beam_size\": 4, \"n_best\": 1}",
    .open = open_service,
    .close = close_service,
    .describe = describe,
    .types = types,
    .key = "api_key",
    .languages = true,
    .terms = true,
    .ensembles = true,
    .paths = paths,
    .read = read_request,
    .release = release_request,
    .answer = answer,
};
