/* Features as YAML. A file's list becomes specs in an arena; et_feature_set_make checks and copies
 * them. Features that a concat names are looked up and put in its place. A feature that occurs
 * again below itself is a cycle. */
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/yaml.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/schema.h"

/* Largest accepted file, in bytes; the limit of the YAML reader. */
#define FILE_MAX ((size_t)16 << 20)
/* Most specs made from one file, including named ones: nested names could grow without limit. */
#define SPECS_MAX 100000

/* A feature of the file's list. */
typedef struct listed {
    const et_value *value;
    const char *name;
    bool named; /* by a concat */
    bool open;  /* it is being read, so meeting it again is a cycle */
} listed;

typedef struct reading {
    et_text_reading text; /* the first member */
    listed *list;         /* [count] */
    int count, specs;
    int depth; /* of features in features */
} reading;

/* ---- keys ---- */

#define KEY(kind, member, ...) ET_TEXT_KEY(kind, et_feature_spec, member, __VA_ARGS__)
#define WITH(member)           .with = offsetof(et_feature_spec, member)

static const et_text_key feature_keys[] = {
    KEY(TEXT, name, "name"),
    KEY(OWN, type, "type"),
    KEY(TEXTS, fields, "fields", WITH(field_count)),
    { .name = "transform", .kind = ET_KEY_OWN },
    KEY(OWN, features, "features"),
    ET_TEXT_KEYS_END,
};
static const et_text_key option_keys[] = {
    KEY(NUMBER, minimum, "min", WITH(maximum)),
    KEY(NUMBER, maximum, "max", WITH(minimum)),
    KEY(NUMBERS, boundaries, "boundaries", WITH(boundary_count)),
    KEY(COUNT, buckets, "buckets", .least = 1),
    KEY(TEXTS, parts, "parts", WITH(part_count)),
    KEY(WORD, order, "order", .least = ET_DATE_MONTH_FIRST,
        .words = et_date_order_names + ET_DATE_MONTH_FIRST),
    KEY(TRUTH, classes, "classes"),
    KEY(COUNT, words, "words", .least = 1),
    KEY(COUNT, minimum_count, "minimum_count", .least = 1),
    ET_TEXT_KEYS_END,
};

static const char *const wrong[ET_KEY_KINDS] = {
    [ET_KEY_TEXT] = "expected a text",
    [ET_KEY_TRUTH] = "expected true or false",
    [ET_KEY_COUNT] = "expected a count of at least 1",
    [ET_KEY_NUMBER] = "expected a number",
    [ET_KEY_NUMBERS] = "expected a list of numbers, such as 18, 25, 65",
    [ET_KEY_WORD] = "expected month-first, day-first or time-of-day",
};

/* scale's usual max is 1, also if only min is given. */
static void read_options(et_text_reading *r, const et_value *value, et_feature_spec *spec)
{
    if (value->kind == ET_VALUE_NULL)
        return;
    if (value->kind != ET_VALUE_DICT)
        et_text_keys_wrong(r, value, "expected a group, such as {min: -1, max: 1}");
    et_text_keys_read(r, option_keys, "a transform", value, spec);
    if (et_value_get(value, "min") && !et_value_get(value, "max"))
        spec->maximum = 1;
}

/* ---- features in features ---- */

static void read_feature(reading *r, const et_value *value, et_feature_spec *spec);

/* A feature of the list, read in place of its name. */
static void read_named(reading *r, const et_value *value, et_feature_spec *spec)
{
    et_text_reading *text = &r->text;
    const char *name = et_text_keys_scalar(text, value);
    listed *l = r->list;
    while (l < r->list + r->count && (!l->name || strcmp(l->name, name)))
        l++;
    if (text->status)
        return;
    if (l == r->list + r->count)
        text->status = et_fail(text->error, ET_ECONFIG,
                               "%s:%d: the file has no feature %.60s: write it in full, such as "
                               "{name: %.60s, type: standardize}",
                               text->name, value->line, name, name);
    else if (l->open)
        text->status =
            et_fail(text->error, ET_ECONFIG,
                    "%s:%d: feature %.60s contains itself: remove it from one of the lists "
                    "of features that lead to this line",
                    text->name, value->line, name);
    else {
        l->open = l->named = true;
        read_feature(r, l->value, spec);
        l->open = false;
    }
}

static void read_inner(reading *r, const et_value *value, et_feature_spec *spec)
{
    if (value->kind != ET_VALUE_LIST) {
        et_text_keys_wrong(&r->text, value, "expected a list of features");
        return;
    }
    et_feature_spec *inner =
        value->count ? et_text_keys_array(&r->text, value->count, sizeof *inner) : NULL;
    int count = 0;
    et_assert(inner || r->text.status || !value->first);
    for (const et_value *item = value->first; !r->text.status && item; item = item->next, count++)
        if (item->kind == ET_VALUE_DICT)
            read_feature(r, item, &inner[count]);
        else
            read_named(r, item, &inner[count]);
    spec->features = inner;
    spec->feature_count = count;
}

static et_transform read_type(et_text_reading *r, const et_value *value)
{
    const char *word = et_text_keys_scalar(r, value);
    for (int i = 0; !r->status && i < ET_TRANSFORM_COUNT; i++)
        if (!strcmp(word, et_transform_rows[i].name))
            return (et_transform)i;
    if (r->status)
        return ET_TRANSFORM_IDENTITY;
    et_strbuf words = ET_STRBUF_INIT;
    for (int i = 0; i < ET_TRANSFORM_COUNT; i++)
        et_strbuf_printf(&words, "%s%s", i ? ", " : "", et_transform_rows[i].name);
    r->status = et_fail(r->error, ET_ECONFIG,
                        "%s:%d: unknown type \"%.60s\"%s. Types: %s (doc/features.md)", r->name,
                        value->line, word, et_nearest_hint(word, et_transform_words, "").text,
                        et_strbuf_text(&words));
    et_strbuf_release(&words);
    return ET_TRANSFORM_IDENTITY;
}

static void read_own(et_text_reading *r, const et_value *value, void *to)
{
    et_feature_spec *spec = to;
    if (!strcmp(value->key, "type"))
        spec->type = read_type(r, value);
    else if (!strcmp(value->key, "transform"))
        read_options(r, value, spec);
    else
        read_inner((reading *)(void *)r, value, spec);
}

static void read_feature(reading *r, const et_value *value, et_feature_spec *spec)
{
    et_text_reading *text = &r->text;
    if (value->kind != ET_VALUE_DICT)
        et_text_keys_wrong(text, value,
                           "a feature is a group of keys, such as {name: age, type: scale}");
    else if (++r->specs > SPECS_MAX)
        et_text_keys_wrong(text, value, "more than 100,000 features in total: use fewer");
    else if (r->depth > ET_FEATURE_DEPTH_MAX)
        text->status =
            et_fail(text->error, ET_ECONFIG, "%s:%d: features are nested more than %d deep",
                    text->name, value->line, ET_FEATURE_DEPTH_MAX);
    if (text->status)
        return;
    *spec = (et_feature_spec){ .line = value->line };
    r->depth++;
    et_text_keys_read(text, feature_keys, "a feature", value, spec);
    r->depth--;
    /* Both 0 in a spec means that no range is given. */
    const et_value *options = et_value_get(value, "transform");
    const bool given = options && (et_value_get(options, "min") || et_value_get(options, "max"));
    if (!text->status && given && spec->minimum == 0 && spec->maximum == 0)
        text->status =
            et_fail(text->error, ET_ECONFIG,
                    "%s:%d: feature %.60s: min and max are both 0; min must be less than max",
                    text->name, value->line, spec->name ? spec->name : "without a name");
}

/* ---- the file ---- */

/* Reads all features; features that a concat names are left out of the set. */
static int read_tree(et_feature_set **out, const et_value *root, reading *r)
{
    et_text_reading *text = &r->text;
    const et_value *list = et_text_keys_list(text, root, "features", "");
    const size_t most = list ? list->count : 0;
    int count = 0;
    r->list = list ? et_text_keys_array(text, most, sizeof *r->list) : NULL;
    for (const et_value *item = r->list ? list->first : NULL; item; item = item->next) {
        const et_value *name = et_value_get(item, "name");
        r->list[r->count++] = (listed){ .value = item, .name = name ? name->text : NULL };
    }
    et_feature_spec *specs = text->status ? NULL : et_text_keys_array(text, most, sizeof *specs);
    for (int i = 0; !text->status && i < r->count; i++) {
        r->list[i].open = true;
        read_feature(r, r->list[i].value, &specs[i]);
        r->list[i].open = false;
    }
    for (int i = 0; !text->status && i < r->count; i++)
        if (!r->list[i].named)
            specs[count++] = specs[i];
    et_assert(text->status || count > 0); /* without a cycle, some feature is named by no other */
    return text->status ? text->status
                        : et_feature_set_make(out, specs, count, text->name, text->error);
}

int et_feature_set_parse(et_feature_set **out, const char *text, size_t length, const char *name,
                         et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    reading r = {
        .text = { .name = name, .wrong = wrong, .own = read_own, .arena = &arena, .error = error }
    };
    et_value *root;
    int status = et_yaml_parse(&root, &arena, text, length, name, error);
    if (!status)
        status = read_tree(out, root, &r);
    et_arena_release(&arena);
    return status;
}

int et_feature_set_load(et_feature_set **out, const char *path, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, FILE_MAX, error);
    if (status)
        return status;
    status = et_feature_set_parse(out, text, length, path, error);
    et_free(text);
    return status;
}

/* ---- printing ---- */

static void add_spec(et_value *list, const et_feature_spec *spec)
{
    et_value *dict = et_value_add_dict(list), *options = et_value_dict(list->arena);
    et_value_set_string(dict, "name", spec->name);
    et_value_set_string(dict, "type", et_transform_name(spec->type));
    et_text_keys_write(dict, feature_keys + 1, spec);
    et_text_keys_write(options, option_keys, spec);
    if (dict && options && options->count)
        et_value_append(dict, "transform", options);
    et_value *inner = spec->feature_count ? et_value_set_list(dict, "features") : NULL;
    for (int i = 0; inner && i < spec->feature_count; i++)
        add_spec(inner, &spec->features[i]);
}

int et_feature_set_format(const et_feature_set *set, char **text, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *root = et_value_dict(&arena);
    et_value *list = et_value_set_list(root, "features");
    for (int i = 0; list && i < et_feature_set_count(set); i++)
        add_spec(list, et_feature_set_at(set, i));
    *text = et_text_keys_print(root);
    et_arena_release(&arena);
    return *text ? ET_OK : et_alloc_failed(error, "the text of features");
}

int et_feature_set_save(const et_feature_set *set, const char *path, et_error *error)
{
    char *text;
    int status = et_feature_set_format(set, &text, error);
    if (status)
        return status;
    status = et_file_write(path, text, strlen(text), error);
    et_free(text);
    return status;
}
