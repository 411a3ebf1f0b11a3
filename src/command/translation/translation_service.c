#include "command/translation/translation_service.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "command/translation/libretranslate.h"
#include "command/translation/result_lines.h"
#include "command/translation/served_models.h"
#include "data/text/punctuation.h"
#include "tasks/translation/decoding/translator_private.h"

/* Normalization turns the 3 bytes of U+FDFA into 15 letters of 2 bytes and 3 spaces of 3, and each
 * of these bytes may be a token. A shorter text cannot have too many tokens. */
#define BYTES_SAFE (ET_TRANSLATION_SOURCE_MAX / 16)

/* A line with more bytes is refused before it is encoded, which takes seconds for a line of
 * megabytes. */
#define BYTES_MAX (32 * ET_TRANSLATION_SOURCE_MAX)

typedef struct translations {
    et_service service; /* the first member */
    et_served_models models;
    bool keyed; /* clients need a token */
} translations;

typedef struct asked {
    const char **lines;   /* [items] for the next model of the route; of a request of ours */
    et_libre_route route; /* of one model, number 0, if a request of ours names no languages */
    int beam, results;    /* of the last model; results 0: only the best translation, as text */
    et_libre *libre;      /* a request of LibreTranslate's API, owned; NULL: of ours */
} asked;

/* ---- opening ---- */

static void close_service(et_service *self)
{
    translations *all = (translations *)(void *)self;
    if (!all)
        return;
    et_served_models_close(&all->models);
    et_free(all);
}

static int open_service(et_service **out, const char *model_dir, const et_service_options *options,
                        et_error *error)
{
    *out = NULL;
    translations *all = et_alloc_zero(1, sizeof *all);
    if (!all)
        return et_alloc_failed(error, sizeof *all, "a service");
    all->service.ET_CLASS = &et_translation_service;
    all->keyed = options->keyed;
    int status = et_served_models_open(&all->models, model_dir, options, error);
    if (status)
        close_service(&all->service);
    else
        *out = &all->service;
    return status;
}

static void describe(const et_service *self, et_value *facts)
{
    et_served_models_describe(&((const translations *)(const void *)self)->models, facts);
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
    const et_translator *t = et_served_model_translator(&all->models, to->route.models[0]);
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
    int status = et_libre_open(&to->libre, &all->models.languages, request, error);
    if (status)
        return status;
    to->route = *et_libre_route_of(to->libre);
    const size_t last = to->route.models[to->route.count - 1];
    const int beam = et_served_model_beam(&all->models, last);
    const int beam_max = et_served_model_beam_max(&all->models, last);
    const size_t count = et_libre_count(to->libre);
    const int results = et_libre_alternatives(to->libre) + 1;
    if (results > beam_max)
        return et_fail(error, ET_EDATA, "alternatives %d: this model has at most %d", results - 1,
                       beam_max - 1);
    to->beam = results > beam ? results : beam;
    to->results = results > 1 ? results : 0;
    const char **lines = et_arena_array(request->arena, count + 1, sizeof *lines);
    if (!lines)
        return et_alloc_failed(error, count * sizeof *lines, "lines");
    et_libre_lines(to->libre, lines);
    request->items = (int64_t)count;
    for (size_t i = 0; i < count && !status && !et_service_ended(request); i++)
        status = check_length(all, to, lines[i], (int64_t)i + 1, &tokens, error);
    et_tokens_release(&tokens);
    if (!status && !count)
        status = et_libre_print(to->libre, request, error);
    return status;
}

/* A request of ours needs no languages if there is one model. */
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
    int status = et_service_keys(request, keys, error);
    if (!status)
        status = find_route(all, request, to, error);
    const size_t last = status ? 0 : to->route.models[to->route.count - 1];
    if (!status)
        status =
            et_service_number(request, "beam_size", 1, et_served_model_beam_max(&all->models, last),
                              et_served_model_beam(&all->models, last), &beam, error);
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
    const asked *what;       /* of the first request: route, beam and results are those of all */
    atomic_bool *ended;      /* [count], owned */
    size_t *firsts, *counts; /* [count] the lines of a request in this round, owned */
    const atomic_bool **lines_ended; /* [total] into ended, owned */
    const char **lines;              /* [total], owned */
    char **results;                  /* the same; of a search: none */
    et_hypotheses *found;            /* of a search, owned */
    size_t total;
} batch;

static void release_round(batch *b)
{
    et_translator_free_results(b->results, b->results ? b->total : 0);
    et_free(b->results);
    et_free(b->lines);
    et_free(b->lines_ended);
    et_hypotheses_free(b->found);
    b->results = NULL;
    b->lines = NULL;
    b->lines_ended = NULL;
    b->found = NULL;
}

static asked *asked_of(const batch *b, size_t request)
{
    return b->requests[request]->payload;
}

/* The lines of all requests that wait for an answer. again: only of documents whose translations
 * have lost markup. */
static int begin_round(batch *b, bool again, et_error *error)
{
    release_round(b);
    b->total = 0;
    for (size_t i = 0; i < b->count; i++) {
        const asked *what = asked_of(b, i);
        const bool waits = !b->ended[i] && !b->requests[i]->status;
        b->firsts[i] = b->total;
        b->counts[i] = !waits || (again && !what->libre) ? 0
                       : what->libre                     ? et_libre_count(what->libre)
                                                         : (size_t)b->requests[i]->items;
        b->total += b->counts[i];
    }
    if (!b->total)
        return ET_OK;
    b->lines_ended = et_alloc(b->total, sizeof *b->lines_ended);
    b->lines = et_alloc(b->total, sizeof *b->lines);
    b->results = et_alloc_zero(b->total, sizeof *b->results);
    if (!b->lines_ended || !b->lines || !b->results)
        return et_alloc_failed(error, b->total * sizeof *b->lines, "lines");
    for (size_t i = 0; i < b->count; i++) {
        const asked *what = asked_of(b, i);
        if (b->counts[i] && what->libre)
            et_libre_lines(what->libre, b->lines + b->firsts[i]);
        for (size_t line = 0; line < b->counts[i]; line++) {
            b->lines_ended[b->firsts[i] + line] = &b->ended[i];
            if (!what->libre)
                b->lines[b->firsts[i] + line] = what->lines[line];
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
            atomic_store_explicit(&b->ended[i], true, memory_order_relaxed);
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
    int status = et_served_model_find(&all->models, model, beam, results, &t, error);
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

static void fail_request(et_service_request *request, int status, const et_error *error)
{
    request->status = status;
    request->error = *error;
}

/* Gives documents their translations, and requests of ours the lines for the next model. Returns
 * the number of lines that documents need translated once more. */
static size_t take_round(batch *b, bool last)
{
    size_t left = 0;
    for (size_t i = 0; i < b->count; i++) {
        et_service_request *request = b->requests[i];
        asked *what = request->payload;
        et_error error = ET_ERROR_INIT;
        int status = ET_OK;
        if (!b->counts[i] || b->ended[i])
            continue;
        if (what->libre)
            status = et_libre_take(what->libre, b->results + b->firsts[i], b->found, b->firsts[i],
                                   &error);
        for (size_t line = 0; line < b->counts[i] && !what->libre && !last && !status; line++) {
            what->lines[line] = et_arena_strdup(request->arena, b->results[b->firsts[i] + line]);
            status = what->lines[line] ? ET_OK : et_alloc_failed(&error, 0, "a line");
        }
        if (status)
            fail_request(request, status, &error);
        else if (what->libre)
            left += et_libre_count(what->libre);
    }
    return left;
}

static void print_own(batch *b, size_t i)
{
    et_service_request *request = b->requests[i];
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append(&out, b->found ? "{\"hypotheses\": [" : "{\"translations\": [");
    for (size_t line = b->firsts[i]; line < b->firsts[i] + b->counts[i]; line++) {
        et_strbuf_append(&out, line > b->firsts[i] ? ", " : "");
        if (b->found)
            et_result_lines_print_json(&out, b->found, line, false);
        else
            et_json_print_string(&out, b->results[line]);
    }
    et_strbuf_append(&out, "]}\n");
    if (out.failed)
        request->status = et_alloc_failed(&request->error, out.length, "an answer");
    else
        et_service_answer(request, out.data, out.length);
    et_strbuf_release(&out);
}

/* The next model of the route, or the answer. */
static void finish_texts(batch *b, bool last)
{
    for (size_t i = 0; i < b->count; i++) {
        et_libre *libre = asked_of(b, i)->libre;
        et_error error = ET_ERROR_INIT;
        if (!libre || b->ended[i] || b->requests[i]->status)
            continue;
        int status =
            last ? et_libre_print(libre, b->requests[i], &error) : et_libre_advance(libre, &error);
        if (status)
            fail_request(b->requests[i], status, &error);
    }
}

static int translate_leg(translations *all, batch *b, int leg, et_error *error)
{
    const et_libre_route *route = &b->what->route;
    const size_t model = route->models[leg];
    const bool last = leg == route->count - 1;
    const int usual = et_served_model_beam(&all->models, model);
    int status = begin_round(b, false, error);
    if (!status && b->total)
        status = run_round(all, b, model, last ? b->what->beam : usual, last ? b->what->results : 0,
                           error);
    if (status)
        return status;
    const size_t left = take_round(b, last);
    if (last) {
        /* Requests of ours; documents may need one more round. */
        for (size_t i = 0; i < b->count; i++)
            if (!asked_of(b, i)->libre && !b->ended[i] && !b->requests[i]->status)
                print_own(b, i);
    }
    if (left)
        status = begin_round(b, true, error);
    if (!status && left && b->total) {
        status = run_round(all, b, model, usual, 0, error);
        if (!status)
            (void)take_round(b, last);
    }
    if (!status)
        finish_texts(b, last);
    return status;
}

static void answer(et_service *self, et_service_request *const *requests, size_t count)
{
    translations *all = (translations *)(void *)self;
    et_error error = ET_ERROR_INIT;
    batch b = { .requests = requests, .count = count, .what = requests[0]->payload };
    b.ended = et_alloc_zero(count, sizeof *b.ended);
    b.firsts = et_alloc_zero(count, sizeof *b.firsts);
    b.counts = et_alloc_zero(count, sizeof *b.counts);
    int status = b.ended && b.firsts && b.counts
                     ? ET_OK
                     : et_alloc_failed(&error, count * sizeof *b.firsts, "a batch");
    for (int leg = 0; !status && leg < b.what->route.count; leg++)
        status = translate_leg(all, &b, leg, &error);
    for (size_t i = 0; i < count && status; i++)
        fail_request(requests[i], status, &error);
    release_round(&b);
    et_free(b.firsts);
    et_free(b.counts);
    et_free(b.ended);
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
