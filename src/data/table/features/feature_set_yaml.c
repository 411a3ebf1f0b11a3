/* Features as YAML. A file's list becomes specs in an arena; et_feature_set_make checks and copies
 * them. Features that a concat names are looked up and put in its place. A feature that occurs
 * again below itself is a cycle. */
#include <string.h>

#include <etude/value.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/number.h"

/* Largest file accepted, in bytes: what YAML is read of at most. */
#define FILE_MAX ((size_t)16 << 20)
/* Most specs made from one file, including named ones: nested names could grow without limit. */
#define SPECS_MAX 100000

static const char *const feature_keys[] = {
    "name", "type", "fields", "transform", "features", NULL
};

/* A feature of the file's list. */
typedef struct listed {
    const et_value *value;
    const char *name;
    bool named; /* by a concat */
    bool open;  /* it is being read: meeting it again is a cycle */
} listed;

/* The first failure ends reading. */
typedef struct reading {
    const char *name; /* of the text */
    et_arena *arena;
    listed *list; /* [count] */
    int count, specs;
    int depth; /* of features in features */
    et_error *error;
    int status;
} reading;

static void read_feature(reading *r, const et_value *value, et_feature_spec *spec);

/* ---- scalars ---- */

static void fail_line(reading *r, const et_value *at, const char *what)
{
    r->status = et_fail(r->error, ET_ECONFIG, "%s:%d: %s%s%s", r->name, at->line,
                        at->key ? at->key : "", at->key ? ": " : "", what);
}

/* NULL: no memory, a failure. */
static void *new_array(reading *r, size_t count, size_t size)
{
    void *array = et_arena_array(r->arena, count, size);
    if (!array)
        r->status = et_alloc_failed(r->error, r->arena->used, r->name);
    return array;
}

static bool is_scalar(const et_value *value)
{
    return value->kind != ET_VALUE_LIST && value->kind != ET_VALUE_DICT;
}

/* Takes the text as it was written, so 007 and 2024 are names. */
static const char *read_text(reading *r, const et_value *value)
{
    if (is_scalar(value))
        return value->text ? value->text : value->kind == ET_VALUE_STRING ? value->string : "";
    fail_line(r, value, "expected a text");
    return "";
}

static double read_number(reading *r, const et_value *value, const char *text, const char *expected)
{
    double number = 0;
    if (!r->status && !et_number_is(et_number_parse(&number, text, strlen(text))))
        fail_line(r, value, expected);
    return number;
}

static int64_t read_count(reading *r, const et_value *value)
{
    if (value->kind == ET_VALUE_INT && value->integer > 0)
        return value->integer;
    fail_line(r, value, "expected a count of at least 1");
    return 0;
}

/* A list, or one text with commas between the parts; blanks around a part are removed. */
static void read_texts(reading *r, const et_value *value, const char *const **out, int *count)
{
    const bool is_list = value->kind == ET_VALUE_LIST;
    const char *text = is_list ? "" : read_text(r, value);
    size_t most = value->count;
    for (const char *c = text; *c; c++)
        most += *c == ',';
    const char **items = r->status ? NULL : new_array(r, most + 1, sizeof *items);
    if (!items)
        return;
    *count = 0;
    *out = items;
    for (const et_value *item = is_list ? value->first : NULL; item && !r->status;
         item = item->next)
        items[(*count)++] = read_text(r, item);
    for (; !is_list; text++) {
        text += strspn(text, " \t");
        size_t length = strcspn(text, ","), kept = length;
        while (kept && strchr(" \t", text[kept - 1]))
            kept--;
        items[*count] = et_arena_printf(r->arena, "%.*s", (int)kept, text);
        if (!items[(*count)++])
            r->status = et_alloc_failed(r->error, r->arena->used, r->name);
        text += length;
        if (!*text || r->status)
            return;
    }
}

/* ---- transform ---- */

static void read_option(reading *r, const et_value *value, et_feature_spec *spec)
{
    static const char *const options[] = { "min",   "max",     "boundaries",    "buckets", "parts",
                                           "order", "classes", "minimum_count", "words",   NULL };
    const char *key = value->key;
    if (!strcmp(key, "min"))
        spec->minimum = read_number(r, value, read_text(r, value), "expected a number");
    else if (!strcmp(key, "max"))
        spec->maximum = read_number(r, value, read_text(r, value), "expected a number");
    else if (!strcmp(key, "boundaries")) {
        const char *const *texts = NULL;
        int count = 0;
        read_texts(r, value, &texts, &count);
        double *numbers = r->status ? NULL : new_array(r, (size_t)count, sizeof *numbers);
        for (int i = 0; numbers && i < count; i++)
            numbers[i] =
                read_number(r, value, texts[i], "expected a list of numbers, such as 18, 25, 65");
        spec->boundaries = numbers;
        spec->boundary_count = r->status ? 0 : count;
    } else if (!strcmp(key, "parts"))
        read_texts(r, value, &spec->parts, &spec->part_count);
    else if (!strcmp(key, "order")) {
        if (value->kind != ET_VALUE_STRING || !et_date_order_parse(&spec->order, value->string))
            fail_line(r, value, "expected month-first, day-first or time-of-day");
    } else if (!strcmp(key, "buckets"))
        spec->buckets = read_count(r, value);
    else if (!strcmp(key, "words"))
        spec->words = read_count(r, value);
    else if (!strcmp(key, "minimum_count"))
        spec->minimum_count = read_count(r, value);
    else if (!strcmp(key, "classes")) {
        spec->classes = value->kind == ET_VALUE_BOOL && value->boolean;
        if (value->kind != ET_VALUE_BOOL)
            fail_line(r, value, "expected true or false");
    } else
        r->status = et_fail(r->error, ET_ECONFIG, "%s:%d: a transform has no key \"%.60s\"%s",
                            r->name, value->line, key, et_nearest_hint(key, options, "").text);
}

/* scale's usual max is 1, also if only min is given. */
static void read_options(reading *r, const et_value *value, et_feature_spec *spec)
{
    if (value->kind == ET_VALUE_NULL)
        return;
    if (value->kind != ET_VALUE_DICT)
        fail_line(r, value, "expected a group, such as {min: -1, max: 1}");
    for (const et_value *option = value->first; !r->status && option; option = option->next)
        read_option(r, option, spec);
    if (et_value_get(value, "min") && !et_value_get(value, "max"))
        spec->maximum = 1;
}

/* ---- features in features ---- */

/* A feature of the list, read in place of its name. */
static void read_named(reading *r, const et_value *value, et_feature_spec *spec)
{
    const char *name = read_text(r, value);
    listed *l = r->list;
    while (l < r->list + r->count && (!l->name || strcmp(l->name, name)))
        l++;
    if (r->status)
        return;
    if (l == r->list + r->count)
        r->status = et_fail(r->error, ET_ECONFIG,
                            "%s:%d: the file has no feature %.60s: write it in full, such as "
                            "{name: %.60s, type: standardize}",
                            r->name, value->line, name, name);
    else if (l->open)
        r->status = et_fail(r->error, ET_ECONFIG,
                            "%s:%d: feature %.60s contains itself: remove it from one of the lists "
                            "of features that lead to this line",
                            r->name, value->line, name);
    else {
        l->open = l->named = true;
        read_feature(r, l->value, spec);
        l->open = false;
    }
}

static void read_inner(reading *r, const et_value *value, et_feature_spec *spec)
{
    if (value->kind != ET_VALUE_LIST) {
        fail_line(r, value, "expected a list of features");
        return;
    }
    et_feature_spec *inner = value->count ? new_array(r, value->count, sizeof *inner) : NULL;
    int count = 0;
    for (const et_value *item = value->first; !r->status && item; item = item->next, count++)
        if (item->kind == ET_VALUE_DICT)
            read_feature(r, item, &inner[count]);
        else
            read_named(r, item, &inner[count]);
    spec->features = inner;
    spec->feature_count = count;
}

static et_transform read_type(reading *r, const et_value *value)
{
    const char *word = read_text(r, value);
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

static void read_key(reading *r, const et_value *value, et_feature_spec *spec)
{
    const char *key = value->key;
    if (!strcmp(key, "name"))
        spec->name = read_text(r, value);
    else if (!strcmp(key, "type"))
        spec->type = read_type(r, value);
    else if (!strcmp(key, "fields"))
        read_texts(r, value, &spec->fields, &spec->field_count);
    else if (!strcmp(key, "transform"))
        read_options(r, value, spec);
    else if (!strcmp(key, "features"))
        read_inner(r, value, spec);
    else
        r->status = et_fail(r->error, ET_ECONFIG, "%s:%d: a feature has no key \"%.60s\"%s",
                            r->name, value->line, key, et_nearest_hint(key, feature_keys, "").text);
}

static void read_feature(reading *r, const et_value *value, et_feature_spec *spec)
{
    if (value->kind != ET_VALUE_DICT)
        fail_line(r, value, "a feature is a group of keys, such as {name: age, type: scale}");
    else if (++r->specs > SPECS_MAX)
        fail_line(r, value, "more than 100,000 features in total: use fewer");
    else if (r->depth > ET_FEATURE_DEPTH_MAX)
        r->status = et_fail(r->error, ET_ECONFIG, "%s:%d: features are nested more than %d deep",
                            r->name, value->line, ET_FEATURE_DEPTH_MAX);
    if (r->status)
        return;
    *spec = (et_feature_spec){ .line = value->line };
    r->depth++;
    for (const et_value *key = value->first; !r->status && key; key = key->next)
        read_key(r, key, spec);
    r->depth--;
    /* Both 0 in a spec means that no range is given. */
    const et_value *options = et_value_get(value, "transform");
    const bool given = options && (et_value_get(options, "min") || et_value_get(options, "max"));
    if (!r->status && given && spec->minimum == 0 && spec->maximum == 0)
        r->status =
            et_fail(r->error, ET_ECONFIG,
                    "%s:%d: feature %.60s: min and max are both 0; min must be less than max",
                    r->name, value->line, spec->name ? spec->name : "without a name");
}

/* ---- the file ---- */

static void find_list(reading *r, const et_value *root)
{
    const et_value *features = et_value_get(root, "features");
    if (!features || features->kind != ET_VALUE_LIST || !features->count)
        r->status = et_fail(r->error, ET_ECONFIG,
                            "%s:%d: expected a list `features:` of at least one {name, type}",
                            r->name, features && features->line ? features->line : 1);
    for (const et_value *key = root->first; !r->status && key; key = key->next)
        if (key != features)
            r->status = et_fail(r->error, ET_ECONFIG,
                                "%s:%d: unknown key \"%.60s\"; the only key is features", r->name,
                                key->line, key->key);
    r->list = r->status ? NULL : new_array(r, features->count, sizeof *r->list);
    for (const et_value *item = r->list ? features->first : NULL; item; item = item->next) {
        const et_value *name = et_value_get(item, "name");
        r->list[r->count++] =
            (listed){ .value = item,
                      .name = name && is_scalar(name) && name->text ? name->text : NULL };
    }
}

/* Reads all features; features that a concat names are left out of the set. */
static int read_tree(et_feature_set **out, const et_value *root, reading *r)
{
    int count = 0;
    find_list(r, root);
    et_feature_spec *specs = r->status ? NULL : new_array(r, (size_t)r->count, sizeof *specs);
    for (int i = 0; !r->status && i < r->count; i++) {
        r->list[i].open = true;
        read_feature(r, r->list[i].value, &specs[i]);
        r->list[i].open = false;
    }
    for (int i = 0; !r->status && i < r->count; i++)
        if (!r->list[i].named)
            specs[count++] = specs[i];
    et_assert(r->status || count > 0); /* without a cycle, some feature is named by no other */
    return r->status ? r->status : et_feature_set_make(out, specs, count, r->name, r->error);
}

int et_feature_set_parse(et_feature_set **out, const char *text, size_t length, const char *name,
                         et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    reading r = { .name = name, .arena = &arena, .error = error };
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

static void add_texts(et_value *dict, const char *key, const char *const *texts, int count)
{
    et_value *list = count ? et_value_set_list(dict, key) : NULL;
    for (int i = 0; i < count; i++)
        et_value_add_string(list, texts[i]);
}

/* Adds only options that differ from their defaults. */
static void add_options(et_value *dict, const et_feature_spec *spec)
{
    bool range = spec->minimum != 0 || spec->maximum != 0;
    if (!range && !spec->boundary_count && !spec->buckets && !spec->part_count && !spec->order &&
        !spec->classes && !spec->minimum_count && !spec->words)
        return;
    et_value *options = et_value_set_dict(dict, "transform");
    if (range) {
        et_value_set_float(options, "min", spec->minimum);
        et_value_set_float(options, "max", spec->maximum);
    }
    et_value *list = spec->boundary_count ? et_value_set_list(options, "boundaries") : NULL;
    for (int i = 0; i < spec->boundary_count; i++)
        et_value_add_float(list, spec->boundaries[i]);
    if (spec->buckets)
        et_value_set_int(options, "buckets", spec->buckets);
    add_texts(options, "parts", spec->parts, spec->part_count);
    if (spec->order)
        et_value_set_string(options, "order", et_date_order_name(spec->order));
    if (spec->classes)
        et_value_set_bool(options, "classes", true);
    if (spec->words)
        et_value_set_int(options, "words", spec->words);
    if (spec->minimum_count)
        et_value_set_int(options, "minimum_count", spec->minimum_count);
}

static void add_spec(et_value *list, const et_feature_spec *spec)
{
    et_value *dict = et_value_add_dict(list);
    et_value_set_string(dict, "name", spec->name);
    et_value_set_string(dict, "type", et_transform_name(spec->type));
    add_texts(dict, "fields", spec->fields, spec->field_count);
    add_options(dict, spec);
    et_value *inner = spec->feature_count ? et_value_set_list(dict, "features") : NULL;
    for (int i = 0; i < spec->feature_count; i++)
        add_spec(inner, &spec->features[i]);
}

int et_feature_set_format(const et_feature_set *set, char **text, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strbuf out = ET_STRBUF_INIT;
    et_value *root = et_value_dict(&arena);
    et_value *list = et_value_set_list(root, "features");
    for (int i = 0; i < et_feature_set_count(set); i++)
        add_spec(list, et_feature_set_at(set, i));
    *text = NULL;
    if (!et_value_failed(root)) {
        et_yaml_print(&out, root);
        *text = et_strbuf_detach(&out);
    }
    et_arena_release(&arena);
    return *text ? ET_OK : et_alloc_failed(error, arena.used, "the text of features");
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
