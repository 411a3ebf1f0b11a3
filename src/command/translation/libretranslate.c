#include "command/translation/libretranslate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "command/print.h"
#include "command/web/serving.h"
#include "tasks/translation/decoding/beam.h"
#include "tasks/translation/documents/document.h"

/* Languages that a message lists. */
#define LISTED 12

/* Codes of models, and how requests and answers write them. */
static const struct {
    const char *code, *shown;
} aliases[] = { { "pb", "pt-BR" }, { "zh", "zh-Hans" }, { "zt", "zh-Hant" } };

/* Codes by ISO 639-1 or of LibreTranslate's models, the code of ISO 639-3 that tags have, and
 * English names. */
static const struct {
    const char *code, *tag, *name;
} names[] = {
    { "af", "afr", "Afrikaans" },
    { "an", "arg", "Aragonese" },
    { "ar", "ara", "Arabic" },
    { "az", "aze", "Azerbaijani" },
    { "be", "bel", "Belarusian" },
    { "bg", "bul", "Bulgarian" },
    { "bn", "ben", "Bengali" },
    { "bs", "bos", "Bosnian" },
    { "ca", "cat", "Catalan" },
    { "co", "cos", "Corsican" },
    { "cs", "ces", "Czech" },
    { "cy", "cym", "Welsh" },
    { "da", "dan", "Danish" },
    { "de", "deu", "German" },
    { "el", "ell", "Greek" },
    { "en", "eng", "English" },
    { "eo", "epo", "Esperanto" },
    { "es", "spa", "Spanish" },
    { "et", "est", "Estonian" },
    { "eu", "eus", "Basque" },
    { "fa", "fas", "Persian" },
    { "fi", "fin", "Finnish" },
    { "fr", "fra", "French" },
    { "ga", "gle", "Irish" },
    { "gl", "glg", "Galician" },
    { "he", "heb", "Hebrew" },
    { "hi", "hin", "Hindi" },
    { "hr", "hrv", "Croatian" },
    { "ht", "hat", "Haitian" },
    { "hu", "hun", "Hungarian" },
    { "hy", "hye", "Armenian" },
    { "id", "ind", "Indonesian" },
    { "is", "isl", "Icelandic" },
    { "it", "ita", "Italian" },
    { "ja", "jpn", "Japanese" },
    { "ka", "kat", "Georgian" },
    { "kk", "kaz", "Kazakh" },
    { "ko", "kor", "Korean" },
    { "la", "lat", "Latin" },
    { "lb", "ltz", "Luxembourgish" },
    { "lt", "lit", "Lithuanian" },
    { "lv", "lav", "Latvian" },
    { "mk", "mkd", "Macedonian" },
    { "ms", "msa", "Malay" },
    { "mt", "mlt", "Maltese" },
    { "nb", "nob", "Norwegian" },
    { "nl", "nld", "Dutch" },
    { "nn", "nno", "Norwegian Nynorsk" },
    { "oc", "oci", "Occitan" },
    { "pb", "", "Portuguese (Brazil)" },
    { "pl", "pol", "Polish" },
    { "pt", "por", "Portuguese" },
    { "rm", "roh", "Romansh" },
    { "ro", "ron", "Romanian" },
    { "ru", "rus", "Russian" },
    { "sc", "srd", "Sardinian" },
    { "sk", "slk", "Slovak" },
    { "sl", "slv", "Slovenian" },
    { "sq", "sqi", "Albanian" },
    { "sr", "srp", "Serbian" },
    { "sv", "swe", "Swedish" },
    { "sw", "swa", "Swahili" },
    { "th", "tha", "Thai" },
    { "tl", "tgl", "Tagalog" },
    { "tr", "tur", "Turkish" },
    { "uk", "ukr", "Ukrainian" },
    { "ur", "urd", "Urdu" },
    { "uz", "uzb", "Uzbek" },
    { "vi", "vie", "Vietnamese" },
    { "wa", "wln", "Walloon" },
    { "zh", "zho", "Chinese" },
    { "zh", "cmn", "Chinese" },
    { "zt", "", "Chinese (traditional)" },
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* ---- codes ---- */

const char *et_libre_code_shown(const char *code)
{
    et_assert(code);
    for (size_t i = 0; i < COUNT(aliases); i++)
        if (!strcmp(aliases[i].code, code))
            return aliases[i].shown;
    return code;
}

/* Writes Etude's code for the code in a request or a tag. A base code of ISO 639-3 becomes its code
 * of ISO 639-1. A text that is too long for a code is cut, and is then no code. */
static void make_code(const char *text, size_t length, char code[ET_LANGUAGE_MAX])
{
    char given[ET_LANGUAGE_MAX];
    size_t count = 0;
    for (; count < length && count < sizeof given - 1; count++) {
        const char c = text[count];
        given[count] = (char)(c >= 'A' && c <= 'Z' ? c + 32 : c == '_' ? '-' : c);
    }
    given[count] = 0;
    const size_t base = strcspn(given, "-");
    const char *first = NULL;
    for (size_t i = 0; i < COUNT(names) && base == 3 && !first; i++)
        first = strncmp(names[i].tag, given, base) ? NULL : names[i].code;
    snprintf(code, ET_LANGUAGE_MAX, "%s%s", first ? first : given, first ? given + base : "");
    for (size_t i = 0; i < COUNT(aliases); i++)
        if (!strcasecmp(aliases[i].shown, code))
            snprintf(code, ET_LANGUAGE_MAX, "%s", aliases[i].code);
}

/* A language without a row has its code for a name. */
static const char *name_of(const char *code)
{
    for (size_t i = 0; i < COUNT(names); i++)
        if (!strcmp(names[i].code, code))
            return names[i].name;
    return et_libre_code_shown(code);
}

/* ---- languages of a model ---- */

static const et_libre_target *find_target(const et_libre_languages *l, const char *code)
{
    for (size_t i = 0; i < l->count; i++)
        if (!strcmp(l->targets[i].code, code))
            return &l->targets[i];
    return NULL;
}

static void list_targets(const et_libre_languages *l, et_strbuf *out)
{
    for (size_t i = 0; i < l->count && i < LISTED; i++)
        et_strbuf_printf(out, "%s%s", i ? ", " : "", et_libre_code_shown(l->targets[i].code));
    et_strbuf_append(out, l->count > LISTED ? ", ..." : "");
}

/* Adds the target of a tag of the model or of the user, "fr=TAG". */
static int add_tag(et_libre_languages *l, const char *given, bool own, const char *target,
                   et_error *error)
{
    et_libre_target *t = &l->targets[l->count];
    const char *equals = own ? strchr(given, '=') : NULL;
    const char *tag = equals ? equals + 1 : given;
    const size_t length = strlen(tag);
    const bool named = length > 4 && !strncmp(tag, ">>", 2) && !strcmp(tag + length - 2, "<<");
    t->tag = tag;
    if (equals)
        make_code(given, (size_t)(equals - given), t->code);
    else if (own && *target)
        make_code(target, strlen(target), t->code);
    else if (named)
        make_code(tag + 2, length - 4, t->code);
    else
        return et_fail(error, ET_EUSAGE, "--tag %.100s: name the language of the tag: --tag %s",
                       given, et_shell_quote(et_path_print("fr=%.100s", given).text).text);
    if (find_target(l, t->code) && own)
        return et_fail(error, ET_EUSAGE,
                       "--tag %.100s: another tag has the language %s; name the language of each "
                       "tag, such as --tag %s",
                       given, et_libre_code_shown(t->code),
                       et_shell_quote(et_path_print("fr=%.100s", tag).text).text);
    if (find_target(l, t->code)) /* >>cmn<< and >>zho<<: the second keeps its own name */
        snprintf(t->code, sizeof t->code, "%.*s", (int)(length - 4), tag + 2);
    l->count++;
    return ET_OK;
}

static int open_targets(et_libre_languages *l, const char *given, const char *target,
                        const et_strings *tags, et_error *error)
{
    const bool own = tags->count > 0, all = !strcmp(target, "mul");
    const et_strings *list = own ? tags : l->known;
    const char *only = own && list->count == 1 && !all ? target : "";
    int status = ET_OK;
    if (ET_ALLOC_ZERO(l->targets, list->count + 1, "languages", error))
        return ET_ENOMEM;
    for (size_t i = 0; i < list->count && !status; i++)
        status = add_tag(l, list->items[i], own, only, error);
    if (!status && list->count && *target && !all && !*only) {
        /* Keeps the target with this code alone. */
        char code[ET_LANGUAGE_MAX];
        make_code(target, strlen(target), code);
        const et_libre_target *found = find_target(l, code);
        if (found) {
            l->targets[0] = *found;
            l->count = 1;
        } else {
            et_strbuf names_of_tags = ET_STRBUF_INIT;
            list_targets(l, &names_of_tags);
            status = et_fail(error, ET_EUSAGE,
                             "--languages %s: the model has no tag for %s; it has tags for %s",
                             given, target, et_strbuf_text(&names_of_tags));
            et_strbuf_release(&names_of_tags);
        }
    }
    if (!status && !list->count && *target) {
        make_code(target, strlen(target), l->targets[0].code);
        l->count = 1;
    }
    l->tag = !status && (own || l->count == 1) ? l->targets[0].tag : NULL;
    return status;
}

int et_libre_languages_open(et_libre_languages *l, const char *given, const et_strings *tags,
                            const et_strings *known, et_error *error)
{
    char source[ET_LANGUAGE_MAX] = "", target[ET_LANGUAGE_MAX] = "";
    const bool tagged = tags->count || known->count;
    *l = (et_libre_languages){ .known = known };
    if (given && tagged && et_language_is_code(given) && strlen(given) < sizeof source)
        strcpy(source, given);
    else if (given && !et_language_read_pair(given, source, target))
        return et_fail(error, ET_EUSAGE,
                       "--languages %s: expected the codes of two languages, such as en,de%s",
                       given, tagged ? ", or of the source alone, such as en" : "");
    int status = open_targets(l, given, target, tags, error);
    if (status || !given)
        return status;
    make_code(source, strlen(source), l->source);
    et_error missing = ET_ERROR_INIT;
    if (et_sentences_open(&l->sentences, source, &missing))
        et_log(ET_LOG_WARNING, "%s; each line of a text is translated as one sentence",
               missing.text);
    return ET_OK;
}

void et_libre_languages_close(et_libre_languages *l)
{
    et_sentences_close(l->sentences);
    et_free(l->targets);
    l->sentences = NULL;
    l->targets = NULL;
}

/* ---- routes ---- */

/* The model between two others. */
#define BETWEEN "en"

static bool find_leg(const et_libre_models *all, const char *from, const char *to,
                     et_libre_route *route)
{
    for (size_t i = 0; i < all->count; i++) {
        const et_libre_languages *l = &all->items[i];
        const et_libre_target *target = strcmp(l->source, from) ? NULL : find_target(l, to);
        if (!target)
            continue;
        route->models[route->count] = i;
        route->targets[route->count++] = target;
        return true;
    }
    return false;
}

static bool find_route(const et_libre_models *all, const char *from, const char *to,
                       et_libre_route *route)
{
    *route = (et_libre_route){ .count = 0 };
    return find_leg(all, from, to, route) ||
           (strcmp(from, to) != 0 && find_leg(all, from, BETWEEN, route) &&
            find_leg(all, BETWEEN, to, route));
}

static void list_sources(const et_libre_models *all, et_strbuf *out)
{
    for (size_t i = 0; i < all->count; i++) {
        bool before = false;
        for (size_t k = 0; k < i; k++)
            before = before || !strcmp(all->items[k].source, all->items[i].source);
        if (!before)
            et_strbuf_printf(out, "%s%s", i ? ", " : "", et_libre_code_shown(all->items[i].source));
    }
}

/* The source of all models. Errors as et_libre_models_find. */
static int source_of(const et_libre_models *all, const char **code, et_error *error)
{
    et_assert(code);
    *code = all->items[0].source;
    if (!**code)
        return et_fail(error, ET_ECONFIG,
                       "the server does not know the languages of its model; start it with "
                       "--languages en,de");
    size_t same = 1;
    while (same < all->count && !strcmp(all->items[same].source, *code))
        same++;
    if (same == all->count)
        return ET_OK;
    et_strbuf list = ET_STRBUF_INIT;
    list_sources(all, &list);
    int status = et_fail(error, ET_EDATA,
                         "the language of the text is not detected; the models translate from "
                         "%s: name the source",
                         et_strbuf_text(&list));
    et_strbuf_release(&list);
    return status;
}

/* A code that the listing has before this one is left out. */
static bool is_listed(const char *code, const char *const *before, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(before[i], code))
            return true;
    return false;
}

/* All languages, sources and targets, in the order of the models. Returns how many. */
static size_t list_codes(const et_libre_models *all, const char **codes)
{
    size_t count = 0;
    for (size_t i = 0; i < all->count; i++) {
        const et_libre_languages *l = &all->items[i];
        if (!is_listed(l->source, codes, count))
            codes[count++] = l->source;
        for (size_t t = 0; t < l->count; t++)
            if (!is_listed(l->targets[t].code, codes, count))
                codes[count++] = l->targets[t].code;
    }
    return count;
}

/* {"code": "en", "name": "English", which } or a list ends. */
static void print_named(const char *code, et_strbuf *out)
{
    et_strbuf_append(out, "{\"code\": ");
    et_json_print_string(out, et_libre_code_shown(code));
    et_strbuf_append(out, ", \"name\": ");
    et_json_print_string(out, name_of(code));
}

int et_libre_models_list(et_libre_models *all, et_error *error)
{
    size_t total = 0;
    for (size_t i = 0; i < all->count; i++)
        total += 1 + all->items[i].count;
    if (!*all->items[0].source)
        return ET_OK;
    const char **codes;
    et_strbuf *out = &all->listing;
    if (ET_ALLOC(codes, total, "languages", error))
        return ET_ENOMEM;
    const size_t count = list_codes(all, codes);
    for (size_t from = 0; from < count; from++) {
        const char *comma = "";
        et_strbuf_append(out, from ? ", " : "[");
        print_named(codes[from], out);
        et_strbuf_append(out, ", \"targets\": [");
        for (size_t to = 0; to < count; to++) {
            et_libre_route route;
            if (!find_route(all, codes[from], codes[to], &route))
                continue;
            et_strbuf_append(out, comma);
            et_json_print_string(out, et_libre_code_shown(codes[to]));
            comma = ", ";
            if (route.count > 1)
                et_print(stderr, "languages    %s to %s goes through English\n",
                         et_libre_code_shown(codes[from]), et_libre_code_shown(codes[to]));
        }
        et_strbuf_append(out, "]}");
    }
    et_strbuf_append(out, "]\n");
    et_free(codes);
    return out->failed ? et_alloc_failed(error, "languages") : ET_OK;
}

void et_libre_models_close(et_libre_models *all)
{
    for (size_t i = 0; i < all->count; i++)
        et_libre_languages_close(&all->items[i]);
    et_free(all->items);
    et_strbuf_release(&all->listing);
    *all = (et_libre_models){ .count = 0 };
}

/* The message lists the pairs that the models have. */
static int refuse_pair(const et_libre_models *all, const char *source, const char *target,
                       const char *from, et_error *error)
{
    et_strbuf list = ET_STRBUF_INIT;
    size_t known = 0;
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(all->items[i].source, from) != 0)
            continue;
        et_strbuf_append(&list, known++ ? ", " : "");
        list_targets(&all->items[i], &list);
    }
    for (size_t i = 0; i < all->count && known; i++)
        for (size_t t = 0; t < all->items[i].count; t++) {
            const char *code = all->items[i].targets[t].code;
            et_libre_route route;
            if (find_route(all, from, code, &route) &&
                route.targets[1] == &all->items[i].targets[t] && known++ <= LISTED)
                et_strbuf_printf(&list, ", %s", known > LISTED ? "..." : et_libre_code_shown(code));
        }
    if (!known)
        list_sources(all, &list);
    if (known)
        et_fail(error, ET_EDATA, "%.40s is not supported; from %s, the server translates to %s",
                target, et_libre_code_shown(from), et_strbuf_text(&list));
    else
        et_fail(error, ET_EDATA, "%.40s is not supported; the server translates from %s", source,
                et_strbuf_text(&list));
    et_strbuf_release(&list);
    return ET_EDATA;
}

int et_libre_models_find(const et_libre_models *all, const char *source, const char *target,
                         et_libre_route *route, bool *automatic, et_error *error)
{
    et_assert(source && target && route && automatic);
    char from[ET_LANGUAGE_MAX], to[ET_LANGUAGE_MAX];
    const char *only = all->items[0].source;
    make_code(source, strlen(source), from);
    make_code(target, strlen(target), to);
    *automatic = !strcmp(from, "auto");
    const int status = *automatic || !*only ? source_of(all, &only, error) : ET_OK;
    if (status)
        return status;
    if (*automatic)
        snprintf(from, sizeof from, "%s", only);
    return find_route(all, from, to, route) ? ET_OK : refuse_pair(all, source, target, from, error);
}

/* ---- requests ---- */

/* A text of a request, and its printed alternatives to the document's translation. */
typedef struct text {
    et_document *document;
    et_strbuf between;  /* of a second model: the text that the document has */
    et_strbuf *results; /* [alternatives], owned; the first `count` are filled */
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

int et_libre_print_languages(const et_libre_models *models, et_service_request *request,
                             et_error *error)
{
    const et_strbuf *listing = &models->listing;
    if (!*models->items[0].source)
        return source_of(models, &(const char *){ NULL }, error);
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
        return source_of(models, &(const char *){ NULL }, error);
    et_strbuf_printf(&out,
                     "{\"apiKeys\": %s, \"charLimit\": -1, \"filesTranslation\": false, "
                     "\"frontendTimeout\": 500, \"keyRequired\": %s, \"language\": {\"source\": ",
                     keyed ? "true" : "false", keyed ? "true" : "false");
    print_named(first->source, &out);
    et_strbuf_append(&out, "}, \"target\": ");
    print_named(first->targets[0].code, &out);
    et_strbuf_append(&out, "}}, \"suggestions\": false, \"supportedFilesFormat\": []}\n");
    et_service_answer_text(request, &out);
    return request->status;
}

static void print_detected(const char *source, et_strbuf *out)
{
    et_strbuf_append(out, "{\"confidence\": 0.0, \"language\": ");
    et_json_print_string(out, et_libre_code_shown(source));
    et_strbuf_append_char(out, '}');
}

/* ---- reading ---- */

/* NULL: missing, null or empty. */
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

static int read_format(et_libre *r, const et_value *body, et_error *error)
{
    int status = ET_OK;
    r->format = ET_DOCUMENT_TEXT;
    if (member(body, "format")) {
        const char *given;
        status = read_text(body, "format", &given, error);
        r->format = ET_DOCUMENT_TEXT;
        while (!status && et_document_formats[r->format] &&
               strcmp(et_document_formats[r->format], given) != 0)
            r->format++;
        if (!status && !et_document_formats[r->format])
            status = et_fail(error, ET_EDATA, "%.40s format is not supported", given);
    } else if (member(body, "name")) {
        const char *name;
        status = read_text(body, "name", &name, error);
        if (!status)
            status = et_document_format_of(name, &r->format, error);
        if (r->format == ET_DOCUMENT_LINES)
            r->format = ET_DOCUMENT_TEXT;
        status = status ? ET_EDATA : ET_OK;
    }
    if (status)
        return status;
    if (r->format == ET_DOCUMENT_PO && r->route.count > 1)
        return et_fail(error, ET_EDATA,
                       "po format: two models, through English, would both fill in the "
                       "translations; send the texts, or translate to English first");
    if (r->format != ET_DOCUMENT_TEXT)
        r->alternatives = 0; /* as in LibreTranslate's answer */
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
        return et_alloc_failed(error, "a text");
    return open_document(r, t, value->string, strlen(value->string), error);
}

static int open_texts(et_libre *r, const et_value *q, et_error *error)
{
    int status = ET_OK;
    r->list = q->kind == ET_VALUE_LIST;
    if (ET_ALLOC_ZERO(r->texts, r->list ? q->count : 1, "texts", error))
        return ET_ENOMEM;
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

/* LibreTranslate's words. curl sends JSON as a form, without a header that says otherwise. */
static int missing_q(const et_service_request *request, et_error *error)
{
    return et_fail(error, ET_EDATA, "Invalid request: missing q parameter%s",
                   strcmp(request->type, "application/json") != 0
                       ? "; JSON needs the header Content-Type: application/json"
                       : "");
}

int et_libre_open(et_libre **out, const et_libre_models *models, const et_service_request *request,
                  et_error *error)
{
    et_assert(out && models && request);
    const et_value *q = member(request->json, "q");
    *out = NULL;
    int status = q ? ET_OK : missing_q(request, error);
    et_libre *r = status ? NULL : et_alloc_zero(1, sizeof *r);
    if (status || !r)
        return status ? status : et_alloc_failed(error, "a request");
    r->models = models;
    const char *source, *target;
    if (!(status = read_text(request->json, "source", &source, error)) &&
        !(status = read_text(request->json, "target", &target, error)) &&
        !(status = et_libre_models_find(models, source, target, &r->route, &r->detected, error)) &&
        !(status = read_alternatives(r, request->json, error)) &&
        !(status = read_format(r, request->json, error)))
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
        return missing_q(request, error);
    int status = source_of(models, &source, error);
    if (status)
        return status;
    et_strbuf_append_char(&out, '[');
    print_detected(source, &out);
    et_strbuf_append(&out, "]\n");
    et_service_answer_text(request, &out);
    return request->status;
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

/* Leaves out an alternative that has lost a placeholder. The best alternative comes last; if it has
 * lost one, it is translated in parts. */
static int take_alternatives(et_libre *r, const et_hypotheses *found, size_t first, et_error *error)
{
    const size_t total = et_libre_count(r);
    char **results;
    int status = ET_ALLOC(results, total + 1, "texts", error);
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
                     ? et_alloc_failed(error, "a text")
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

/* Prints the alternatives that differ from the best translation. */
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

void et_libre_print(const et_libre *r, et_service_request *request)
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
    et_service_answer_text(request, &out);
}
