#include "command/translation/translation_service.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "command/translation/ensemble_models.h"
#include "command/translation/libretranslate.h"
#include "command/translation/result_lines.h"
#include "data/text/sides.h"
#include "tasks/translation/decoding/glossary.h"
#include "tasks/translation/decoding/translator_device.h"
#include "tasks/translation/decoding/translator_private.h"

/* Decoders in addition to the usual one. */
#define OTHERS_MAX 3

/* Normalization turns the 3 bytes of U+FDFA into 15 letters of 2 bytes and 3 spaces of 3, and each
 * of these bytes may be a token. A shorter text cannot have too many tokens. */
#define BYTES_SAFE (ET_TRANSLATION_SOURCE_MAX / 16)

/* A line with more bytes is refused before it is encoded, which takes seconds for a line of
 * megabytes. */
#define BYTES_MAX (32 * ET_TRANSLATION_SOURCE_MAX)

/* A translator for a beam size and a number of results. */
typedef struct variant {
    et_translator *translator;
    uint64_t group;
    uint64_t used; /* when: the batch's number */
    et_decoding_options decoding;
} variant;

typedef struct translations {
    et_service service; /* the first member */
    et_translator *usual;
    et_ensemble_models others; /* of an ensemble */
    int beam;                  /* of the run */
    int beam_max;
    et_libre_languages languages;
    bool keyed; /* clients need a token */
    variant other[OTHERS_MAX];
    uint64_t batches;
} translations;

typedef struct asked {
    const char **lines; /* [items] */
    int beam, results;  /* results 0: only the best translation, as text */
    et_libre *libre;    /* a request of LibreTranslate's API, owned; NULL: of ours */
} asked;

/* Both are at most ET_BEAM_SIZE_MAX. */
static uint64_t group_of(int beam, int results)
{
    return (uint64_t)beam << 32 | (uint64_t)results;
}

/* ---- opening ---- */

static void close_service(et_service *self)
{
    translations *all = (translations *)(void *)self;
    if (!all)
        return;
    for (int i = 0; i < OTHERS_MAX; i++)
        et_translator_close(all->other[i].translator);
    et_translator_close(all->usual);
    et_ensemble_models_close(&all->others);
    et_libre_languages_close(&all->languages);
    et_free(all);
}

/* Without --languages: the two languages whose punctuation the model normalizes, if both are known.
 * The target of a multilingual model is mul. */
static int open_languages(translations *all, const et_service_options *o, et_error *error)
{
    const et_translation_options *settings = all->usual->experiment.task;
    const char *source = settings->vocabulary.source_punctuation;
    const char *target = settings->vocabulary.target_punctuation;
    const et_strings tags = { o->tags, o->tag_count };
    const bool tagged = tags.count || all->usual->language_tags.count;
    char pair[2 * ET_LANGUAGE_MAX];
    const char *given = o->languages;
    int status = ET_OK;
    if (!given && source && target && *source && *target && strcmp(source, "mul") != 0 &&
        (tagged || strcmp(target, "mul") != 0)) {
        snprintf(pair, sizeof pair, "%s,%s", source, target);
        given = pair;
    }
    for (size_t i = 0; i < tags.count && !status; i++) {
        const char *equals = strchr(tags.items[i], '=');
        int32_t id;
        status = et_vocabularies_find_token(all->usual->sides.source, "--tag",
                                            equals ? equals + 1 : tags.items[i], &id, error);
    }
    if (!status)
        status = et_libre_languages_open(&all->languages, given, &tags, &all->usual->language_tags,
                                         error);
    all->usual->options.tag = all->languages.tag;
    return status;
}

static int open_service(et_service **out, const char *model_dir, const et_service_options *options,
                        et_error *error)
{
    const et_decoding_options decoding = { .terms = options->terms };
    et_translator_options o = { .checkpoint = options->checkpoint,
                                .precision = options->precision,
                                .live_weights = options->live_weights,
                                .weights = options->weights };
    *out = NULL;
    translations *all = et_alloc_zero(1, sizeof *all);
    if (!all)
        return et_alloc_failed(error, sizeof *all, "a service");
    all->service.ET_CLASS = &et_translation_service;
    all->keyed = options->keyed;
    int status =
        et_ensemble_models_open(&all->others, options->others, options->other_count, &o, error);
    o.decoding = &decoding;
    if (!status)
        status = et_translator_open(&all->usual, model_dir, &o, error);
    if (!status)
        status = open_languages(all, options, error);
    if (status) {
        close_service(&all->service);
        return status;
    }
    const int half = (int)(et_vocabulary_size(all->usual->sides.target) / 2);
    all->beam = et_translator_decoder_options(all->usual).beam.size;
    all->beam_max = half < ET_BEAM_SIZE_MAX ? half : ET_BEAM_SIZE_MAX;
    *out = &all->service;
    return ET_OK;
}

static void describe(const et_service *self, et_value *facts)
{
    const translations *all = (const translations *)(const void *)self;
    et_value_set_string(facts, "checkpoint", et_translator_checkpoint(all->usual));
    et_value_set_int(facts, "step", et_translator_step(all->usual));
    if (all->others.count) {
        et_value *list = et_value_set_list(facts, "others");
        for (int i = 0; list && i < all->others.count; i++)
            et_value_add_string(list, et_translator_checkpoint(all->others.items[i]));
    }
    et_value_set_int(facts, "beam_size", all->beam);
    et_value_set_int(facts, "beam_size_max", all->beam_max);
    if (*all->languages.source) {
        et_value_set_string(facts, "source", et_libre_code_shown(all->languages.source));
        et_value *targets = et_value_set_list(facts, "targets");
        for (size_t i = 0; i < all->languages.count; i++) {
            const et_libre_target *t = &all->languages.targets[i];
            et_value *target = et_value_add_dict(targets);
            et_value_set_string(target, "code", et_libre_code_shown(t->code));
            if (t->tag)
                et_value_set_string(target, "tag", t->tag);
        }
    }
}

/* ---- reading ---- */

/* A line with too many tokens is translated in pieces, which have no n-best list. */
static int check_length(const translations *all, const asked *to, const char *line, int64_t number,
                        et_tokens *tokens, et_error *error)
{
    size_t length = strlen(line);
    if (length > BYTES_MAX)
        return et_fail(error, ET_EDATA, "line %lld has %zu bytes, more than %d: split the line",
                       (long long)number, length, BYTES_MAX);
    if (!to->results || length < BYTES_SAFE)
        return ET_OK;
    int status = et_sides_encode(&all->usual->sides, false, line, length, tokens, error);
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
        return et_alloc_failed(error, lines->count * sizeof *to->lines, "lines");
    for (const et_value *line = lines->first; line && !status && !et_service_ended(request);
         line = line->next) {
        status = check_line(all, to, line, ++request->items, &tokens, error);
        to->lines[request->items - 1] = status ? NULL : line->string;
    }
    et_tokens_release(&tokens);
    return status;
}

/* The lines of all texts. Without any, the answer is there. */
static int read_texts(const translations *all, et_service_request *request, asked *to,
                      et_error *error)
{
    et_tokens tokens = ET_TOKENS_INIT;
    int status = et_libre_open(&to->libre, &all->languages, request, error);
    if (status)
        return status;
    const size_t count = et_libre_count(to->libre);
    const int results = et_libre_alternatives(to->libre) + 1;
    if (results > all->beam_max)
        return et_fail(error, ET_EDATA, "alternatives %d: this model has at most %d", results - 1,
                       all->beam_max - 1);
    to->beam = results > all->beam ? results : all->beam;
    to->results = results > 1 ? results : 0;
    to->lines = et_arena_array(request->arena, count + 1, sizeof *to->lines);
    if (!to->lines)
        return et_alloc_failed(error, count * sizeof *to->lines, "lines");
    et_libre_lines(to->libre, to->lines);
    request->items = (int64_t)count;
    for (size_t i = 0; i < count && !status && !et_service_ended(request); i++)
        status = check_length(all, to, to->lines[i], (int64_t)i + 1, &tokens, error);
    et_tokens_release(&tokens);
    if (!status && !count)
        status = et_libre_print(to->libre, request, error);
    return status;
}

static int read_own(const translations *all, et_service_request *request, asked *to,
                    et_error *error)
{
    static const char *const keys[] = { "lines", "beam_size", "n_best", NULL };
    int64_t beam = 0, results = 0;
    int status = et_service_keys(request, keys, error);
    if (!status)
        status = et_service_number(request, "beam_size", 1, all->beam_max, all->beam, &beam, error);
    if (!status)
        status = et_service_number(request, "n_best", 1, ET_BEAM_SIZE_MAX, 0, &results, error);
    if (!status && results > beam)
        status =
            et_fail(error, ET_EDATA, "n_best %lld: more than the beam size, %lld; raise beam_size",
                    (long long)results, (long long)beam);
    if (!status) {
        to->beam = (int)beam;
        to->results = (int)results;
        status = read_lines(all, request, to, error);
    }
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
        return et_alloc_failed(error, sizeof *to, "a request");
    int status = et_libre_is(request) ? read_texts(all, request, to, error)
                                      : read_own(all, request, to, error);
    request->group = group_of(to->beam, to->results);
    return status;
}

static void release_request(et_service_request *request)
{
    et_libre_close(((asked *)request->payload)->libre);
}

static int answer_languages(et_service *self, et_service_request *request, et_error *error)
{
    return et_libre_print_languages(&((const translations *)(const void *)self)->languages, request,
                                    error);
}

static int answer_settings(et_service *self, et_service_request *request, et_error *error)
{
    const translations *all = (const translations *)(const void *)self;
    return et_libre_print_settings(&all->languages, all->keyed, request, error);
}

static int answer_detect(et_service *self, et_service_request *request, et_error *error)
{
    return et_libre_detect(&((const translations *)(const void *)self)->languages, request, error);
}

/* ---- decoders ---- */

/* Replaces the variant that was used longest ago. */
static int open_variant(translations *all, variant *v, const asked *what, et_error *error)
{
    et_translator_close(v->translator);
    const et_glossary *glossary = all->usual->glossary;
    *v = (variant){ .decoding = { .results = what->results,
                                  .terms = glossary ? et_glossary_path(glossary) : NULL },
                    .group = group_of(what->beam, what->results ? what->results : 1) };
    const et_translator_options options = { .tag = all->languages.tag,
                                            .beam_size = what->beam,
                                            .precision = all->usual->options.precision,
                                            .shares = all->usual,
                                            .decoding = &v->decoding };
    return et_translator_open_beside(&v->translator, &options, error);
}

static int find_translator(translations *all, const asked *what, et_translator **out,
                           et_error *error)
{
    const int results = what->results ? what->results : 1;
    variant *oldest = &all->other[0];
    *out = all->usual;
    all->batches++;
    if (what->beam == all->beam && results == 1)
        return ET_OK;
    for (variant *v = all->other; v < all->other + OTHERS_MAX; v++) {
        if (v->translator && v->group == group_of(what->beam, results)) {
            v->used = all->batches;
            *out = v->translator;
            return ET_OK;
        }
        if (v->used < oldest->used)
            oldest = v;
    }
    int status = open_variant(all, oldest, what, error);
    oldest->used = status ? 0 : all->batches;
    *out = oldest->translator;
    return status;
}

/* ---- answers ---- */

/* The requests being answered, and which of them have ended. */
typedef struct batch {
    et_service_request *const *requests; /* [count] */
    size_t count;
    atomic_bool *ended;             /* [count], owned */
    const atomic_bool **line_ended; /* [lines] into ended, owned */
    const char **lines;             /* [total], owned */
    char **results;                 /* the same */
    size_t total;
} batch;

static void release_batch(batch *b)
{
    et_translator_free_results(b->results, b->total);
    et_free(b->results);
    et_free(b->lines);
    et_free(b->line_ended);
    et_free(b->ended);
}

static int init_batch(batch *b, et_service_request *const *requests, size_t count, et_error *error)
{
    *b = (batch){ .requests = requests, .count = count };
    for (size_t i = 0; i < count; i++)
        b->total += (size_t)requests[i]->items;
    b->ended = et_alloc_zero(count, sizeof *b->ended);
    b->line_ended = et_alloc(b->total, sizeof *b->line_ended);
    b->lines = et_alloc(b->total, sizeof *b->lines);
    b->results = et_alloc_zero(b->total, sizeof *b->results);
    if (!b->ended || !b->line_ended || !b->lines || !b->results)
        return et_alloc_failed(error, b->total * sizeof *b->lines, "a batch");
    for (size_t i = 0, at = 0; i < count; i++) {
        const asked *what = requests[i]->payload;
        for (int64_t line = 0; line < requests[i]->items; line++, at++) {
            b->lines[at] = what->lines[line];
            b->line_ended[at] = &b->ended[i];
        }
    }
    return ET_OK;
}

/* After each step of the decoder; true: nobody waits for any of it. */
static bool look_for_ended(void *payload, size_t done, size_t lines)
{
    batch *b = payload;
    bool all = true;
    (void)done;
    (void)lines;
    for (size_t i = 0; i < b->count; i++) {
        if (et_service_ended(b->requests[i]))
            atomic_store_explicit(&b->ended[i], true, memory_order_relaxed);
        else
            all = false;
    }
    return all;
}

/* results or found: of all lines of the batch, a request's from the first one on. */
static void print_answer(et_service_request *request, char **results, const et_hypotheses *found,
                         size_t first)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, found ? "{\"hypotheses\": [" : "{\"translations\": [");
    for (int64_t i = 0; i < request->items; i++) {
        et_strbuf_append(&out, i ? ", " : "");
        if (found)
            et_result_lines_print_json(&out, found, first + (size_t)i, false);
        else
            et_json_print_string(&out, results[first + (size_t)i]);
    }
    et_strbuf_append(&out, "]}\n");
    if (out.failed)
        request->status = et_alloc_failed(&request->error, out.length, "an answer");
    else
        et_service_answer(request, out.data, out.length);
    et_strbuf_release(&out);
}

static void fail_request(et_service_request *request, int status, const et_error *error)
{
    request->status = status;
    request->error = *error;
}

/* Takes the results of requests of LibreTranslate's API. Returns the number of lines that they need
 * translated once more. */
static size_t take_texts(batch *b, const et_hypotheses *found)
{
    size_t left = 0, first = 0;
    for (size_t i = 0; i < b->count; i++) {
        et_error error = ET_ERROR_INIT;
        et_libre *libre = ((asked *)b->requests[i]->payload)->libre;
        int status = ET_OK;
        if (libre && !b->ended[i])
            status = et_libre_take(libre, b->results + first, found, first, &error);
        if (status)
            fail_request(b->requests[i], status, &error);
        else if (libre && !b->ended[i])
            left += et_libre_count(libre);
        first += (size_t)b->requests[i]->items;
    }
    return left;
}

/* The second round of documents whose translations have lost markup. */
static int translate_again(translations *all, batch *b, size_t left, et_error *error)
{
    const char **lines = et_alloc(left, sizeof *lines);
    char **results = et_alloc_zero(left, sizeof *results);
    int status = lines && results ? ET_OK : et_alloc_failed(error, left * sizeof *lines, "texts");
    for (int round = 0; round < 2 && !status; round++) {
        size_t first = 0;
        for (size_t i = 0; i < b->count && !status; i++) {
            et_libre *libre = ((asked *)b->requests[i]->payload)->libre;
            const size_t count =
                libre && !b->ended[i] && !b->requests[i]->status ? et_libre_count(libre) : 0;
            if (count && !round)
                et_libre_lines(libre, lines + first);
            else if (count)
                status = et_libre_take(libre, results + first, NULL, 0, error);
            first += count;
        }
        if (!round && !status)
            status = et_translator_translate(all->usual, lines, left, results, error);
    }
    et_translator_free_results(results, results ? left : 0);
    et_free(results);
    et_free(lines);
    return status;
}

static void print_text(et_service_request *request, const et_libre *libre)
{
    et_error error = ET_ERROR_INIT;
    int status = request->status ? ET_OK : et_libre_print(libre, request, &error);
    if (status)
        fail_request(request, status, &error);
}

static int translate(translations *all, batch *b, et_error *error)
{
    const asked *what = b->requests[0]->payload;
    et_translator *t;
    et_hypotheses *found = NULL;
    int status = find_translator(all, what, &t, error);
    if (status)
        return status;
    t->ended = b->line_ended;
    et_translator_set_progress(t, look_for_ended, b);
    status = what->results ? et_translator_search(t, b->lines, b->total, &found, error)
                           : et_translator_translate(t, b->lines, b->total, b->results, error);
    et_translator_set_progress(t, NULL, NULL);
    t->ended = NULL;
    const size_t left = status ? 0 : take_texts(b, found);
    if (left)
        status = translate_again(all, b, left, error);
    for (size_t i = 0, first = 0; i < b->count && !status; i++) {
        const et_libre *libre = ((asked *)b->requests[i]->payload)->libre;
        if (!b->ended[i] && libre)
            print_text(b->requests[i], libre);
        else if (!b->ended[i])
            print_answer(b->requests[i], b->results, found, first);
        first += (size_t)b->requests[i]->items;
    }
    et_hypotheses_free(found);
    return status;
}

static void answer(et_service *self, et_service_request *const *requests, size_t count)
{
    translations *all = (translations *)(void *)self;
    et_error error = ET_ERROR_INIT;
    batch b;
    int status = init_batch(&b, requests, count, &error);
    if (!status)
        status = translate(all, &b, &error);
    for (size_t i = 0; i < count && status; i++)
        fail_request(requests[i], status, &error);
    release_batch(&b);
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
