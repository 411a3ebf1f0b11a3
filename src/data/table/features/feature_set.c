/* A set is a copy of specs in an arena, made after all specs were checked. Schema and metadata are
 * unknown here, so the encoder checks that fields exist and that their types fit. */

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/pass.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/map.h"
#include "base/text/unicode.h"
#include "data/table/features/transforms.h"

/* Most buckets: ids are int32, and one is for missing values. */
#define BUCKETS_MAX (INT32_MAX - 1)

struct et_feature_set {
    et_feature_spec *specs; /* [count], in the arena as all they point to */
    int count;
    const char *source; /* NULL: a program */
    et_map indices;     /* of names */
    et_arena arena;
};

/* ---- checks ---- */

/* The position of a spec in its file. */
typedef struct origin {
    const char *name;  /* of the text; NULL: a program */
    const char *outer; /* the feature of the set that contains this spec */
    int depth;
    et_error *error;
} origin;

/* Fails with "features.yaml:7: feature X: WHAT". what includes the cure. */
static int refuse(const et_feature_spec *spec, const origin *from, const char *what)
{
    const char *name = spec->name ? spec->name : from->outer ? from->outer : "";
    if (from->name)
        return et_fail(from->error, ET_ECONFIG, "%s:%d: feature %.60s: %s", from->name, spec->line,
                       name, what);
    return et_fail(from->error, ET_ECONFIG, "feature %.60s: %s", name, what);
}

static int check_text(const et_feature_spec *spec, const origin *from, const char *text,
                      const char *what)
{
    char message[100];
    bool sound = text && *text && et_utf8_valid(text, strlen(text), NULL);
    for (const char *c = text; sound && *c; c++)
        sound = (unsigned char)*c >= 0x20 && *c != 0x7f;
    if (sound)
        return ET_OK;
    snprintf(message, sizeof message, "%s is empty, not UTF-8 or has a control character", what);
    return refuse(spec, from, message);
}

static int check_fields(const et_feature_spec *spec, const origin *from)
{
    int status = ET_OK;
    if (spec->field_count < 0 || (spec->field_count && !spec->fields))
        return refuse(spec, from, "its fields are missing");
    if (spec->field_count && spec->type == ET_TRANSFORM_CONCAT)
        return refuse(spec, from, "concat needs features, not fields: give each field a transform");
    for (int i = 0; !status && i < spec->field_count; i++)
        status = check_text(spec, from, spec->fields[i], "the name of a field");
    if (!status && spec->type == ET_TRANSFORM_KEY && spec->field_count > 1)
        return refuse(spec, from, "a key has one field: name the field that identifies a row");
    if (!status && spec->type == ET_TRANSFORM_WEIGHT && spec->field_count > 1)
        return refuse(spec, from, "a weight has one field: name the column of weights");
    if (!status && spec->type == ET_TRANSFORM_WORDS && spec->field_count > 1)
        return refuse(spec, from, "words has one field: write a feature for each text");
    if (!status && spec->type == ET_TRANSFORM_CROSS && spec->field_count < 2)
        return refuse(spec, from, "cross needs two or more fields: name them in fields");
    return status;
}

/* A member that the type does not use is refused, because the user expected it to have an effect.
 */
static int check_taken(const et_feature_spec *spec, const origin *from)
{
    const struct {
        unsigned takes;
        bool there;
        const char *name;
    } members[] = {
        { ET_TAKES_RANGE, spec->minimum != 0 || spec->maximum != 0, "min and max" },
        { ET_TAKES_BOUNDARIES, spec->boundary_count != 0, "boundaries" },
        { ET_TAKES_BUCKETS, spec->buckets != 0, "buckets" },
        { ET_TAKES_WORDS, spec->words != 0, "words" },
        { ET_TAKES_PARTS, spec->part_count != 0, "parts" },
        { ET_TAKES_ORDER, spec->order != ET_DATE_ANY, "order" },
        { ET_TAKES_CLASSES, spec->classes, "classes" },
        { ET_TAKES_FEATURES, spec->feature_count != 0, "features" },
        { ET_TAKES_MINIMUM_COUNT, spec->minimum_count != 0, "minimum_count" },
    };
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        if (members[i].there && !(et_transform_rows[spec->type].takes & members[i].takes)) {
            char text[100];
            snprintf(text, sizeof text, "%s does not use %s: leave them out",
                     et_transform_name(spec->type), members[i].name);
            return refuse(spec, from, text);
        }
    return ET_OK;
}

static int check_boundaries(const et_feature_spec *spec, const origin *from)
{
    if (spec->boundary_count < 1 || !spec->boundaries)
        return refuse(spec, from, "bucketize needs boundaries: one or more numbers");
    for (int i = 0; i < spec->boundary_count; i++)
        if (!isfinite(spec->boundaries[i]) ||
            (i && !(spec->boundaries[i - 1] < spec->boundaries[i])))
            return refuse(spec, from, "its boundaries do not increase: sort them");
    return ET_OK;
}

static int check_values(const et_feature_spec *spec, const origin *from)
{
    unsigned takes = et_transform_rows[spec->type].takes;
    bool usual = spec->minimum == 0 && spec->maximum == 0;
    if ((takes & ET_TAKES_RANGE) && !usual && !(spec->minimum < spec->maximum))
        return refuse(spec, from, "its min is not less than its max");
    if ((takes & ET_TAKES_RANGE) && !isfinite(spec->maximum - spec->minimum))
        return refuse(spec, from, "its min and max are not finite");
    if ((takes & ET_TAKES_BUCKETS) && (spec->buckets < 1 || spec->buckets > BUCKETS_MAX))
        return refuse(spec, from, "set buckets to a number from 1 to 2147483646");
    if ((takes & ET_TAKES_WORDS) && (spec->words < 1 || spec->words > ET_WORDS_MAX))
        return refuse(spec, from, "set words to a number from 1 to 4096");
    if (spec->minimum_count < 0)
        return refuse(spec, from,
                      "its minimum_count is negative: give at least 1, or leave it out");
    int status = takes & ET_TAKES_BOUNDARIES ? check_boundaries(spec, from) : ET_OK;
    if (!status && takes & ET_TAKES_PARTS) {
        if (spec->part_count < 0 || (spec->part_count && !spec->parts))
            return refuse(spec, from, "its parts are missing");
        for (int i = 0; i < spec->part_count; i++) {
            bool known = false;
            for (int k = 0; spec->parts[i] && et_date_parts[k]; k++)
                known |= !strcmp(spec->parts[i], et_date_parts[k]);
            if (!known) {
                char text[160];
                snprintf(
                    text, sizeof text, "\"%.60s\" is not a part of a date%s",
                    spec->parts[i] ? spec->parts[i] : "",
                    et_nearest_hint(spec->parts[i] ? spec->parts[i] : "", et_date_parts, "").text);
                return refuse(spec, from, text);
            }
        }
    }
    return status;
}

static int check(const et_feature_spec *spec, origin from)
{
    int status = ET_OK;
    if (from.depth > ET_FEATURE_DEPTH_MAX)
        return refuse(spec, &from, "features are nested more than 16 deep: check for a cycle");
    if (spec->name || !from.depth)
        status = check_text(spec, &from, spec->name, "its name");
    if (status)
        return status;
    if ((unsigned)spec->type >= ET_TRANSFORM_COUNT)
        return refuse(spec, &from, "its type is not an et_transform");
    bool inner = from.depth > 0;
    if (inner && (spec->type == ET_TRANSFORM_TARGET || spec->type == ET_TRANSFORM_KEY ||
                  spec->type == ET_TRANSFORM_WEIGHT || spec->type == ET_TRANSFORM_WORDS))
        return refuse(spec, &from, "a target, key, weight or words cannot be part of a concat");
    if (!spec->name && !spec->field_count && spec->type != ET_TRANSFORM_CONCAT)
        return refuse(spec, &from, "a feature has neither name nor fields: give one of them");
    if (!inner && !strcmp(spec->name, ET_BATCH_MASK))
        return refuse(spec, &from, "this name is reserved for batches: choose another");
    status = check_taken(spec, &from);
    if (!status)
        status = check_fields(spec, &from);
    if (!status)
        status = check_values(spec, &from);
    if (!status && spec->type == ET_TRANSFORM_CONCAT &&
        (spec->feature_count < 1 || !spec->features))
        return refuse(spec, &from, "concat needs features: a list of at least one");
    if (!inner)
        from.outer = spec->name;
    from.depth++;
    for (int i = 0; !status && i < spec->feature_count; i++)
        status = check(&spec->features[i], from);
    return status;
}

/* ---- copies ---- */

/* Memory that is out is the arena's to remember. */
static const char *const *copy_texts(et_arena *arena, const char *const *texts, int count)
{
    const char **copy = count ? et_arena_array(arena, count, sizeof *copy) : NULL;
    for (int i = 0; copy && i < count; i++)
        copy[i] = et_arena_strdup(arena, texts[i]);
    return copy;
}

static void copy_spec(et_arena *arena, et_feature_spec *to, const et_feature_spec *from)
{
    size_t boundaries = (size_t)from->boundary_count, features = (size_t)from->feature_count;
    const char *first = from->field_count ? from->fields[0] : "concat";
    *to = *from;
    to->name = et_arena_strdup(arena, from->name ? from->name : first);
    to->fields = copy_texts(arena, from->fields, from->field_count);
    to->parts = copy_texts(arena, from->parts, from->part_count);
    double *points = boundaries ? et_arena_array(arena, boundaries, sizeof *points) : NULL;
    if (points)
        memcpy(points, from->boundaries, boundaries * sizeof *points);
    to->boundaries = points;
    et_feature_spec *inner = features ? et_arena_array(arena, features, sizeof *inner) : NULL;
    to->features = inner;
    for (size_t i = 0; inner && i < features; i++)
        copy_spec(arena, &inner[i], &from->features[i]);
}

static int add(et_feature_set *set, const et_feature_spec *spec, et_error *error)
{
    const origin from = { set->source, NULL, 0, error };
    int64_t before;
    int status = check(spec, from);
    if (status)
        return status;
    if (et_map_get(&set->indices, spec->name, &before))
        return refuse(spec, &from, "another feature has this name: rename one of them");
    et_feature_spec *copy = &set->specs[set->count];
    copy_spec(&set->arena, copy, spec);
    if (set->arena.failed || !et_map_put(&set->indices, copy->name, set->count))
        return et_alloc_failed(error, "features");
    /* TensorFX has no type for a key: its models pass on the feature named "key" without reading
     * it. */
    if (copy->type == ET_TRANSFORM_IDENTITY && copy->field_count <= 1 && !strcmp(copy->name, "key"))
        copy->type = ET_TRANSFORM_KEY;
    set->count++;
    return ET_OK;
}

int et_feature_set_make(et_feature_set **out, const et_feature_spec *specs, int count,
                        const char *name, et_error *error)
{
    if (count < 1 || !specs)
        return et_fail(error, ET_ECONFIG, "%s%sa set of %d features: give at least one",
                       name ? name : "", name ? ": " : "", count);
    et_feature_set *set;
    if (ET_ALLOC_ZERO(set, 1, "features", error))
        return ET_ENOMEM;
    int status = ET_OK;
    set->source = name ? et_arena_strdup(&set->arena, name) : NULL;
    set->specs = et_arena_array(&set->arena, count, sizeof *set->specs);
    if (set->arena.failed)
        status = et_alloc_failed(error, "features");
    for (int i = 0; !status && i < count; i++)
        status = add(set, &specs[i], error);
    if (status) {
        et_feature_set_free(set);
        return status;
    }
    *out = set;
    return ET_OK;
}

int et_feature_set_create(et_feature_set **out, const et_feature_spec *specs, int count,
                          et_error *error)
{
    return et_feature_set_make(out, specs, count, NULL, error);
}

void et_feature_set_free(et_feature_set *set)
{
    if (!set)
        return;
    et_map_release(&set->indices);
    et_arena_release(&set->arena);
    et_free(set);
}

/* ---- getters ---- */

const char *et_feature_set_source(const et_feature_set *set)
{
    return set->source;
}

int et_feature_set_count(const et_feature_set *set)
{
    return set->count;
}

const et_feature_spec *et_feature_set_at(const et_feature_set *set, int position)
{
    return position >= 0 && position < set->count ? &set->specs[position] : NULL;
}

const et_feature_spec *et_feature_set_find(const et_feature_set *set, const char *name)
{
    int64_t index;
    return name && et_map_get(&set->indices, name, &index) ? &set->specs[index] : NULL;
}

int et_feature_fields(const et_feature_spec *spec, const char *const **fields)
{
    if (spec->type == ET_TRANSFORM_CONCAT)
        return 0;
    *fields = spec->field_count ? spec->fields : (const char *const *)&spec->name;
    return spec->field_count ? spec->field_count : 1;
}
