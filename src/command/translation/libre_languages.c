#include "command/translation/libre_languages.h"

#include <etude/log.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/json.h"

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

/* Writes the code of a model for a code as a request or a tag has it, with the base of a code of
 * ISO 639-3 as ISO 639-1. A longer text is cut, and is no code. */
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

/* ---- opening ---- */

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
        return et_fail(error, ET_EUSAGE,
                       "--tag %.100s: name the language of the tag: --tag fr=%.100s", given, given);
    if (find_target(l, t->code) && own)
        return et_fail(error, ET_EUSAGE,
                       "--tag %.100s: another tag has the language %s; name the language of each "
                       "tag, such as --tag fr=%.100s",
                       given, et_libre_code_shown(t->code), tag);
    if (find_target(l, t->code)) /* >>cmn<< and >>zho<<: the second keeps its own name */
        snprintf(t->code, sizeof t->code, "%.*s", (int)(length - 4), tag + 2);
    l->count++;
    return ET_OK;
}

/* Keeps the target with this code alone. */
static int choose_target(et_libre_languages *l, const char *given, const char *target,
                         et_error *error)
{
    char code[ET_LANGUAGE_MAX];
    make_code(target, strlen(target), code);
    const et_libre_target *found = find_target(l, code);
    if (!found) {
        et_strbuf all = ET_STRBUF_INIT;
        list_targets(l, &all);
        et_fail(error, ET_EUSAGE, "--languages %s: the model has no tag for %s; it has tags for %s",
                given, target, et_strbuf_text(&all));
        et_strbuf_release(&all);
        return ET_EUSAGE;
    }
    l->targets[0] = *found;
    l->count = 1;
    return ET_OK;
}

static int open_targets(et_libre_languages *l, const char *given, const char *target,
                        const et_strings *tags, et_error *error)
{
    const bool own = tags->count > 0, all = !strcmp(target, "mul");
    const et_strings *list = own ? tags : l->known;
    const char *only = own && list->count == 1 && !all ? target : "";
    int status = ET_OK;
    l->targets = et_alloc_zero(list->count + 1, sizeof *l->targets);
    if (!l->targets)
        return et_alloc_failed(error, list->count * sizeof *l->targets, "languages");
    for (size_t i = 0; i < list->count && !status; i++)
        status = add_tag(l, list->items[i], own, only, error);
    if (!status && list->count && *target && !all && !*only)
        status = choose_target(l, given, target, error);
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

int et_libre_models_source(const et_libre_models *all, const char **code, et_error *error)
{
    et_assert(code);
    *code = all->items[0].source;
    if (!**code)
        return et_fail(error, ET_ECONFIG,
                       "the server does not know the languages of its model; start it with "
                       "--languages en,de");
    for (size_t i = 1; i < all->count; i++)
        if (strcmp(all->items[i].source, *code) != 0)
            return et_fail(error, ET_EDATA,
                           "the language of the text is not detected; the models translate from "
                           "%s, %s and more: name the source",
                           et_libre_code_shown(*code), et_libre_code_shown(all->items[i].source));
    return ET_OK;
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

static void print_code(const char *code, et_strbuf *out)
{
    et_json_print_string(out, et_libre_code_shown(code));
}

static void print_named(const char *code, et_strbuf *out)
{
    et_strbuf_append(out, "{\"code\": ");
    print_code(code, out);
    et_strbuf_append(out, ", \"name\": ");
    et_json_print_string(out, name_of(code));
}

void et_libre_language_print(const char *code, et_strbuf *out)
{
    et_assert(code && out);
    print_named(code, out);
    et_strbuf_append_char(out, '}');
}

int et_libre_models_list(et_libre_models *all, et_error *error)
{
    size_t total = 0;
    for (size_t i = 0; i < all->count; i++)
        total += 1 + all->items[i].count;
    if (!*all->items[0].source)
        return ET_OK;
    const char **codes = et_alloc(total, sizeof *codes);
    et_strbuf *out = &all->listing;
    if (!codes)
        return et_alloc_failed(error, total * sizeof *codes, "languages");
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
            print_code(codes[to], out);
            comma = ", ";
            if (route.count > 1)
                et_log(ET_LOG_INFO, "%s to %s goes through English",
                       et_libre_code_shown(codes[from]), et_libre_code_shown(codes[to]));
        }
        et_strbuf_append(out, "]}");
    }
    et_strbuf_append(out, "]\n");
    et_free(codes);
    return out->failed ? et_alloc_failed(error, out->length, "languages") : ET_OK;
}

void et_libre_models_close(et_libre_models *all)
{
    for (size_t i = 0; i < all->count; i++)
        et_libre_languages_close(&all->items[i]);
    et_free(all->items);
    et_strbuf_release(&all->listing);
    *all = (et_libre_models){ .count = 0 };
}

/* Says what the models can do instead. */
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
    for (size_t i = 0; i < all->count && !known; i++) {
        bool before = false;
        for (size_t k = 0; k < i; k++)
            before = before || !strcmp(all->items[k].source, all->items[i].source);
        if (!before)
            et_strbuf_printf(&list, "%s%s", i ? ", " : "",
                             et_libre_code_shown(all->items[i].source));
    }
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
    int status = ET_OK;
    make_code(source, strlen(source), from);
    make_code(target, strlen(target), to);
    *automatic = !strcmp(from, "auto");
    if (*automatic || !*only)
        status = et_libre_models_source(all, &only, error);
    if (!status && *automatic)
        snprintf(from, sizeof from, "%s", only);
    if (!status && !find_route(all, from, to, route))
        status = refuse_pair(all, source, target, from, error);
    return status;
}
