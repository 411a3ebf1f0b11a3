#include "command/translation/libretranslate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "tasks/translation/decoding/beam.h"
#include "tasks/translation/documents/document.h"

/* A text of a request, and its printed alternatives to the document's translation. */
typedef struct text {
    et_document *document;
    et_strbuf between;  /* of a second model: the text that the document has */
    et_strbuf *results; /* [alternatives], owned; [count] are there */
    int count;
} text;

struct et_libre {
    const et_libre_models *models;
    et_libre_route route;
    int leg; /* of the route */
    int format;
    bool list, detected;
    bool asked;       /* for alternatives */
    int alternatives; /* that are searched */
    text *texts;      /* [count], owned */
    size_t count;
};

/* ---- other paths ---- */

static int answer(et_service_request *request, et_strbuf *out, et_error *error)
{
    int status = out->failed ? et_alloc_failed(error, out->length, "an answer") : ET_OK;
    if (!status)
        et_service_answer(request, out->data, out->length);
    et_strbuf_release(out);
    return status;
}

int et_libre_print_languages(const et_libre_models *models, et_service_request *request,
                             et_error *error)
{
    const et_strbuf *listing = &models->listing;
    if (!*models->items[0].source)
        return et_libre_models_source(models, &(const char *){ NULL }, error);
    et_service_answer(request, listing->data, listing->length);
    return ET_OK;
}

/* As LibreTranslate's server without keys, files, suggestions and limits; 500: its default. */
int et_libre_print_settings(const et_libre_models *models, bool keyed, et_service_request *request,
                            et_error *error)
{
    const et_libre_languages *first = &models->items[0];
    et_strbuf out = ET_STRBUF_INIT;
    if (!*first->source)
        return et_libre_models_source(models, &(const char *){ NULL }, error);
    et_strbuf_printf(&out,
                     "{\"apiKeys\": %s, \"charLimit\": -1, \"filesTranslation\": false, "
                     "\"frontendTimeout\": 500, \"keyRequired\": %s, \"language\": {\"source\": ",
                     keyed ? "true" : "false", keyed ? "true" : "false");
    et_libre_language_print(first->source, &out);
    et_strbuf_append(&out, ", \"target\": ");
    et_libre_language_print(first->targets[0].code, &out);
    et_strbuf_append(&out, "}, \"suggestions\": false, \"supportedFilesFormat\": []}\n");
    return answer(request, &out, error);
}

static void print_detected(const char *source, et_strbuf *out)
{
    et_strbuf_append(out, "{\"confidence\": 0.0, \"language\": ");
    et_json_print_string(out, et_libre_code_shown(source));
    et_strbuf_append_char(out, '}');
}

/* ---- reading ---- */

/* NULL: it is missing, null or empty. */
static const et_value *member(const et_value *body, const char *key)
{
    const et_value *value = et_value_get(body, key);
    if (!value || value->kind == ET_VALUE_NULL ||
        (value->kind == ET_VALUE_STRING && !*value->string) ||
        (value->kind == ET_VALUE_LIST && !value->count))
        return NULL;
    return value;
}

static int read_text(const et_value *body, const char *key, const char **out, et_error *error)
{
    const et_value *value = member(body, key);
    if (!value)
        return et_fail(error, ET_EDATA, "Invalid request: missing %s parameter", key);
    if (value->kind != ET_VALUE_STRING)
        return et_fail(error, ET_EDATA, "%s is %s; expected a text", key,
                       et_json_kind_name(value->kind));
    *out = value->string;
    return ET_OK;
}

/* A form has digits for a number. As LibreTranslate: less than 0 is 0, and a fraction is cut. */
static int read_alternatives(et_libre *r, const et_value *body, et_error *error)
{
    const et_value *value = member(body, "alternatives");
    char *end = NULL;
    double number = 0;
    if (value && value->kind == ET_VALUE_STRING)
        number = (double)strtol(value->string, &end, 10);
    else if (value && value->kind == ET_VALUE_INT)
        number = (double)value->integer;
    else if (value && value->kind == ET_VALUE_FLOAT)
        number = trunc(value->real);
    else if (value)
        end = (char *)"x";
    if (end && (*end || end == value->string))
        return et_fail(error, ET_EDATA, "Invalid request: alternatives parameter is not a number");
    if (number >= ET_BEAM_SIZE_MAX)
        return et_fail(error, ET_EDATA, "Invalid request: alternatives parameter must be <= %d",
                       ET_BEAM_SIZE_MAX - 1);
    r->asked = number > 0;
    r->alternatives = number > 0 ? (int)number : 0;
    return ET_OK;
}

static int read_named_format(et_libre *r, const et_value *body, et_error *error)
{
    const char *name;
    int status = read_text(body, "name", &name, error);
    if (!status)
        status = et_document_format_of(name, &r->format, error);
    if (r->format == ET_DOCUMENT_LINES)
        r->format = ET_DOCUMENT_TEXT;
    return status ? ET_EDATA : ET_OK;
}

static int read_given_format(et_libre *r, const et_value *body, et_error *error)
{
    const char *given;
    int status = read_text(body, "format", &given, error);
    r->format = ET_DOCUMENT_TEXT;
    while (!status && et_document_formats[r->format] &&
           strcmp(et_document_formats[r->format], given) != 0)
        r->format++;
    if (!status && !et_document_formats[r->format])
        status = et_fail(error, ET_EDATA, "%.40s format is not supported", given);
    return status;
}

static int read_format(et_libre *r, const et_value *body, et_error *error)
{
    int status = ET_OK;
    r->format = ET_DOCUMENT_TEXT;
    if (member(body, "format"))
        status = read_given_format(r, body, error);
    else if (member(body, "name"))
        status = read_named_format(r, body, error);
    if (status)
        return status;
    if (r->format == ET_DOCUMENT_PO && r->route.count > 1)
        return et_fail(error, ET_EDATA,
                       "po format: two models, through English, would both fill in the "
                       "translations; send the texts, or translate to English first");
    if (r->format != ET_DOCUMENT_TEXT)
        r->alternatives = 0; /* LibreTranslate's answer has none either */
    return ET_OK;
}

static int open_document(const et_libre *r, text *t, const char *bytes, size_t length,
                         et_error *error)
{
    const et_libre_languages *l = &r->models->items[r->route.models[r->leg]];
    const et_document_options options = { .format = r->format,
                                          .sentences = l->sentences,
                                          .tags = l->known,
                                          .tag = r->route.targets[r->leg]->tag,
                                          .name = "q" };
    return et_document_open(&t->document, bytes, length, &options, error);
}

static int open_text(et_libre *r, const et_value *value, et_error *error)
{
    text *t = &r->texts[r->count];
    if (value->kind != ET_VALUE_STRING)
        return et_fail(error, ET_EDATA, "q: text %zu is %s; expected a text", r->count + 1,
                       et_json_kind_name(value->kind));
    t->results = et_alloc_zero((size_t)r->alternatives + 1, sizeof *t->results); /* not 0 */
    r->count++;
    if (!t->results)
        return et_alloc_failed(error, sizeof *t->results, "a text");
    return open_document(r, t, value->string, strlen(value->string), error);
}

static int open_texts(et_libre *r, const et_value *q, et_error *error)
{
    int status = ET_OK;
    r->list = q->kind == ET_VALUE_LIST;
    r->texts = et_alloc_zero(r->list ? q->count : 1, sizeof *r->texts);
    if (!r->texts)
        return et_alloc_failed(error, q->count * sizeof *r->texts, "texts");
    if (!r->list)
        return open_text(r, q, error);
    for (const et_value *v = q->first; v && !status; v = v->next)
        status = open_text(r, v, error);
    return status;
}

bool et_libre_is(const et_service_request *request)
{
    static const char *const keys[] = { "q", "source", "target", "format" };
    if (et_value_get(request->json, "lines"))
        return false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (et_value_get(request->json, keys[i]))
            return true;
    return strcmp(request->type, "application/json") != 0;
}

int et_libre_open(et_libre **out, const et_libre_models *models, const et_service_request *request,
                  et_error *error)
{
    et_assert(out && models && request);
    const et_value *q = member(request->json, "q");
    *out = NULL;
    int status = q ? ET_OK : et_fail(error, ET_EDATA, "Invalid request: missing q parameter");
    et_libre *r = status ? NULL : et_alloc_zero(1, sizeof *r);
    if (status || !r)
        return status ? status : et_alloc_failed(error, sizeof *r, "a request");
    r->models = models;
    const char *source, *target;
    status = read_text(request->json, "source", &source, error);
    if (!status)
        status = read_text(request->json, "target", &target, error);
    if (!status)
        status = et_libre_models_find(models, source, target, &r->route, &r->detected, error);
    if (!status)
        status = read_alternatives(r, request->json, error);
    if (!status)
        status = read_format(r, request->json, error);
    if (!status)
        status = open_texts(r, q, error);
    if (status)
        et_libre_close(r);
    else
        *out = r;
    return status;
}

void et_libre_close(et_libre *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->count; i++) {
        for (int n = 0; r->texts[i].results && n < r->alternatives; n++)
            et_strbuf_release(&r->texts[i].results[n]);
        et_free(r->texts[i].results);
        et_document_close(r->texts[i].document);
        et_strbuf_release(&r->texts[i].between);
    }
    et_free(r->texts);
    et_free(r);
}

/* The texts do not matter: the models have one source, or the request is refused. */
int et_libre_detect(const et_libre_models *models, et_service_request *request, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    const char *source;
    if (!member(request->json, "q"))
        return et_fail(error, ET_EDATA, "Invalid request: missing q parameter");
    int status = et_libre_models_source(models, &source, error);
    if (status)
        return status;
    et_strbuf_append_char(&out, '[');
    print_detected(source, &out);
    et_strbuf_append(&out, "]\n");
    return answer(request, &out, error);
}

/* ---- translating ---- */

int et_libre_alternatives(const et_libre *r)
{
    return r->alternatives;
}

const et_libre_route *et_libre_route_of(const et_libre *r)
{
    return &r->route;
}

size_t et_libre_count(et_libre *r)
{
    size_t total = 0, count;
    for (size_t i = 0; i < r->count; i++) {
        et_document_lines(r->texts[i].document, &count);
        total += count;
    }
    return total;
}

void et_libre_lines(et_libre *r, const char **out)
{
    et_assert(out);
    size_t count;
    for (size_t i = 0; i < r->count; i++) {
        const char *const *lines = et_document_lines(r->texts[i].document, &count);
        if (count)
            memcpy(out, lines, count * sizeof *out);
        out += count;
    }
}

/* Gives the document the n-th hypothesis of each of its lines. false: a line has fewer, or *status
 * is an error. */
static bool take_hypotheses(text *t, const et_hypotheses *found, size_t first, int n,
                            char **results, int *status, et_error *error)
{
    size_t count;
    et_document_restart(t->document);
    et_document_lines(t->document, &count);
    for (size_t i = 0; i < count; i++) {
        if (n >= et_hypotheses_count(found, first + i))
            return false;
        results[i] = (char *)et_hypotheses_at(found, first + i, n)->text;
    }
    *status = count ? et_document_take(t->document, results, error) : ET_OK;
    return !*status;
}

/* An alternative that has lost a placeholder is left out; the best one, which comes last, is then
 * translated in parts. */
static int take_alternatives(et_libre *r, const et_hypotheses *found, size_t first, et_error *error)
{
    const size_t total = et_libre_count(r);
    char **results = et_alloc(total + 1, sizeof *results);
    int status = results ? ET_OK : et_alloc_failed(error, total * sizeof *results, "texts");
    for (size_t i = 0, count; i < r->count && !status; i++, first += count) {
        text *t = &r->texts[i];
        size_t left;
        et_document_lines(t->document, &count);
        for (int n = 1; n <= r->alternatives; n++) {
            if (!take_hypotheses(t, found, first, n, results, &status, error))
                break;
            if (!et_document_lines(t->document, &left))
                et_document_print(t->document, &t->results[t->count++]);
        }
        if (!status)
            (void)take_hypotheses(t, found, first, 0, results, &status, error);
    }
    et_free(results);
    return status;
}

int et_libre_take(et_libre *r, char *const *results, const et_hypotheses *found, size_t first,
                  et_error *error)
{
    et_assert(results || found);
    int status = found ? take_alternatives(r, found, first, error) : ET_OK;
    for (size_t i = 0, count; i < r->count && !found && !status; i++, results += count) {
        et_document_lines(r->texts[i].document, &count);
        if (count)
            status = et_document_take(r->texts[i].document, results, error);
    }
    return status;
}

int et_libre_advance(et_libre *r, et_error *error)
{
    int status = ET_OK;
    r->leg++;
    for (text *t = r->texts; t < r->texts + r->count && !status; t++) {
        et_document_print(t->document, &t->between);
        et_document_close(t->document);
        t->document = NULL;
        status = t->between.failed
                     ? et_alloc_failed(error, t->between.length, "a text")
                     : open_document(r, t, et_strbuf_text(&t->between), t->between.length, error);
    }
    return status;
}

/* ---- answers ---- */

typedef void print_fn(const et_libre *r, const text *t, et_strbuf *out);

static void print_best(const et_libre *r, const text *t, et_strbuf *out)
{
    et_strbuf whole = ET_STRBUF_INIT;
    (void)r;
    et_document_print(t->document, &whole);
    et_json_print_string(out, et_strbuf_text(&whole));
    out->failed |= whole.failed;
    et_strbuf_release(&whole);
}

/* Those that differ from the best. */
static void print_others(const et_libre *r, const text *t, et_strbuf *out)
{
    et_strbuf best = ET_STRBUF_INIT;
    const char *comma = "";
    (void)r;
    et_document_print(t->document, &best);
    et_strbuf_append_char(out, '[');
    for (int n = 0; n < t->count; n++) {
        out->failed |= t->results[n].failed;
        if (!strcmp(et_strbuf_text(&t->results[n]), et_strbuf_text(&best)))
            continue;
        et_strbuf_append(out, comma);
        et_json_print_string(out, et_strbuf_text(&t->results[n]));
        comma = ", ";
    }
    et_strbuf_append_char(out, ']');
    out->failed |= best.failed;
    et_strbuf_release(&best);
}

static void print_language(const et_libre *r, const text *t, et_strbuf *out)
{
    (void)t;
    print_detected(r->models->items[r->route.models[0]].source, out);
}

/* A value for each text, as a list if the request has a list. */
static void print_each(const et_libre *r, const char *key, print_fn *print, et_strbuf *out)
{
    et_strbuf_printf(out, "%s\"%s\": %s", out->length > 1 ? ", " : "", key, r->list ? "[" : "");
    for (size_t i = 0; i < r->count; i++) {
        et_strbuf_append(out, i ? ", " : "");
        print(r, &r->texts[i], out);
    }
    et_strbuf_append(out, r->list ? "]" : "");
}

int et_libre_print(const et_libre *r, et_service_request *request, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_strbuf_append_char(&out, '{');
    if (r->asked)
        print_each(r, "alternatives", print_others, &out);
    if (r->detected)
        print_each(r, "detectedLanguage", print_language, &out);
    if (r->route.count > 1) {
        et_strbuf_append(&out, out.length > 1 ? ", \"through\": " : "\"through\": ");
        et_json_print_string(&out, r->models->items[r->route.models[1]].source);
    }
    print_each(r, "translatedText", print_best, &out);
    et_strbuf_append(&out, "}\n");
    return answer(request, &out, error);
}
