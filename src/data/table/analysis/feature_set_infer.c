/* Chooses features from metadata alone, by the verdict of column_use.h for each column: numbers go
 * together, and ids go together. */
#include <float.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/text/strbuf.h"
#include "data/table/analysis/column_use.h"
#include "data/table/features/transforms.h"
#include "data/table/rows/csv.h"
#include "data/table/schema/notation.h"
#include "data/table/schema/schema.h"

/* From this number of rows on, different texts show that a target has no classes. With fewer rows,
 * only if all texts differ. */
#define CLASS_ROWS 20
/* Columns that a message names. */
#define NAMES_SHOWN 5
/* Buckets for texts whose entries are unknown. */
#define HASH_BUCKETS 1024
/* For words and pairs of free text. */
#define WORD_BUCKETS 16384

typedef struct choosing {
    const et_schema *schema;
    const et_metadata *metadata;
    et_feature_choice choice;
    et_feature_spec *numbers, *ids; /* [2 fields, fields]: the arena's */
    int number_count, id_count;
    et_feature_spec *also; /* [2 fields]: the numbers again, with the second transform */
    int also_count;
    et_feature_spec *texts; /* [fields + 6]: of words, and all others after them */
    int text_count;
    et_arena arena;
    et_error *error;
} choosing;

/* ---- features of a column ---- */

/* Memory that is out is the arena's to remember. */
static void add(choosing *c, const char *field, et_transform type, int64_t minimum_count)
{
    const bool ids = et_transform_rows[type].gives == ET_GIVES_IDS;
    et_feature_spec *to = ids ? &c->ids[c->id_count++] : &c->numbers[c->number_count++];
    *to = (et_feature_spec){ .name = field, .type = type };
    if (et_transform_rows[type].takes & ET_TAKES_MINIMUM_COUNT)
        to->minimum_count = minimum_count;
    if (type == ET_TRANSFORM_HASH)
        to->buckets = HASH_BUCKETS;
}

static void add_text(choosing *c, const et_schema_field *f, int64_t words)
{
    const char **field = et_arena_alloc(&c->arena, sizeof *field);
    if (!field)
        return;
    *field = f->name;
    c->texts[c->text_count] = (et_feature_spec){ .type = ET_TRANSFORM_WORDS,
                                                 .fields = field,
                                                 .field_count = 1,
                                                 .buckets = WORD_BUCKETS,
                                                 .words = words };
    c->texts[c->text_count].name = et_arena_printf(&c->arena, "T%d", c->text_count + 1);
    c->text_count++;
}

static void add_column(choosing *c, const et_schema_field *f)
{
    et_column_use use = et_column_use_infer(f, et_metadata_find(c->metadata, f->name), &c->choice);
    if (use.transforms >> ET_TRANSFORM_WORDS & 1)
        add_text(c, f, use.words);
    for (int type = 0; type < ET_TRANSFORM_COUNT; type++)
        if (type != ET_TRANSFORM_TARGET && type != ET_TRANSFORM_KEY &&
            type != ET_TRANSFORM_WEIGHT && type != ET_TRANSFORM_WORDS &&
            (use.transforms >> type & 1))
            add(c, f->name, (et_transform)type, use.minimum_count);
}

/* ---- the target ---- */

/* what: the use of the column, "target", "ID" or "weight". */
static int no_such_column(const choosing *c, const char *name, const char *what)
{
    int count = et_schema_count(c->schema);
    et_strbuf names = ET_STRBUF_INIT;
    const char **list;
    if (ET_ALLOC(list, (size_t)count + 1, "names", c->error))
        return ET_ENOMEM;
    for (int i = 0; i < count; i++) {
        list[i] = et_schema_at(c->schema, i)->name;
        et_strbuf_printf(&names, "%s%.60s", i ? ", " : "", list[i]);
    }
    list[count] = NULL;
    int status =
        et_fail(c->error, ET_ECONFIG, "the table has no column %.60s for the %s%s. Columns: %s",
                name, what, et_nearest_hint(name, list, "").text, et_strbuf_text(&names));
    et_strbuf_release(&names);
    et_free(list);
    return status;
}

/* Whether more than half of the texts differ; in a small table, whether all do. */
static bool are_no_classes(const et_column_metadata *m)
{
    int64_t different = et_column_distinct(m);
    if (m->count >= CLASS_ROWS)
        return 2 * different > m->count;
    return different > 2 && different >= m->count && m->count;
}

/* Whether the differences of the numbers are so small that their squares, which the loss uses, are
 * 0. */
static bool underflow(const et_column_metadata *m)
{
    const double range = m->has_range ? m->max - m->min : 0;
    return range > 0 && !m->has_moments && range * range < DBL_MIN;
}

static int check_target(const choosing *c, const char *name)
{
    const et_schema_field *f = et_schema_find(c->schema, name);
    if (!f)
        return no_such_column(c, name, "target");
    const et_column_metadata *m = et_metadata_find(c->metadata, name);
    if (!m->count && m->missing > 0)
        return et_fail(c->error, ET_ECONFIG,
                       "the target %s has no value in any row: " ET_CSV_MISSING_HINT, name);
    if ((f->type == ET_SCHEMA_DISCRETE || c->choice.classes) && m->entry_count == 1 && m->missing)
        return et_fail(c->error, ET_ECONFIG,
                       "the target %s has only one class, \"%.40s\", and %lld rows have no "
                       "value: " ET_CSV_MISSING_HINT,
                       name, m->entries[0], (long long)m->missing);
    if ((f->type == ET_SCHEMA_DISCRETE || c->choice.classes) && m->entry_count == 1)
        return et_fail(c->error, ET_ECONFIG,
                       "the target %s has only one class, \"%.40s\": there is nothing to learn",
                       name, m->entries[0]);
    if ((f->type == ET_SCHEMA_DISCRETE || c->choice.classes) && are_no_classes(m)) {
        double number;
        const bool numbers =
            !m->entry_count ||
            et_number_is(et_number_parse(&number, m->entries[0], strlen(m->entries[0])));
        return et_fail(c->error, ET_ECONFIG,
                       "the target %s has %lld different values in %lld rows, too many for "
                       "classes; name another column%s",
                       name, (long long)et_column_distinct(m), (long long)m->count,
                       numbers                ? ", or make it real in the schema"
                       : m->dates == m->count ? ", or write its dates as numbers"
                                              : "");
    }
    if (f->type != ET_SCHEMA_DISCRETE && !c->choice.classes && underflow(m))
        return et_fail(c->error, ET_EDATA,
                       "the target %s has values from %g to %g, whose squared errors are too small "
                       "for a double: use a unit that makes the values larger",
                       name, m->min, m->max);
    return ET_OK;
}

/* The target and all more of them, in the arena. */
static const char *const *targets_of(choosing *c, int *count)
{
    const et_feature_choice *choice = &c->choice;
    const char **all =
        et_arena_array(&c->arena, (size_t)choice->more_target_count + 1, sizeof *all);
    *count = 0;
    for (int i = -1; all && i < choice->more_target_count; i++)
        all[(*count)++] = i < 0 ? choice->target : choice->more_targets[i];
    return all;
}

static int check_targets(choosing *c)
{
    int count, status = ET_OK;
    const char *const *all = targets_of(c, &count);
    if (!all)
        return et_alloc_failed(c->error, "targets");
    for (int i = 0; i < count && !status; i++) {
        for (int k = 0; k < i && !status; k++)
            if (!strcmp(all[i], all[k]))
                status =
                    et_fail(c->error, ET_ECONFIG,
                            "the column %.60s is named as a target twice: name it once", all[i]);
        if (!status)
            status = check_target(c, all[i]);
    }
    return status;
}

/* ---- the weight ---- */

static int check_weight(const choosing *c)
{
    const char *name = c->choice.weight;
    const et_schema_field *f = et_schema_find(c->schema, name);
    if (!f)
        return no_such_column(c, name, "weight");
    const et_column_metadata *m = et_metadata_find(c->metadata, name);
    if (et_column_is_target(&c->choice, name))
        return et_fail(c->error, ET_ECONFIG, "%s is both target and weight: name two columns",
                       name);
    if (!et_schema_numeric(f))
        return et_fail(c->error, ET_ECONFIG,
                       "the weight %s has texts, not numbers: name another column", name);
    if (m->missing)
        return et_fail(c->error, ET_EDATA,
                       "the weight %s is missing in %lld rows: fill it in, 0 to leave a row out",
                       name, (long long)m->missing);
    if (m->has_range && (m->min < 0 || m->max <= 0))
        return et_fail(
            c->error, ET_EDATA,
            "the weight %s has values from %g to %g: give weights of at least 0, some of "
            "them above",
            name, m->min, m->max);
    return ET_OK;
}

/* ---- the set ---- */

/* The first columns and why they are ignored. */
static int no_column(const choosing *c)
{
    et_strbuf why = ET_STRBUF_INIT;
    int said = 0, count = et_schema_count(c->schema);
    for (int i = 0; i < count; i++) {
        const et_schema_field *f = et_schema_at(c->schema, i);
        const et_column_metadata *m = et_metadata_find(c->metadata, f->name);
        et_column_use use = et_column_use_infer(f, m, &c->choice);
        if (!use.ignored || said++ >= NAMES_SHOWN)
            continue;
        et_strbuf_printf(&why, "%s%.60s (", said > 1 ? ", " : "", f->name);
        et_column_use_print(&why, &use, m);
        et_strbuf_append(&why, ")");
    }
    const char *target = c->choice.target;
    int status = et_fail(
        c->error, ET_ECONFIG, "no column is useful%s%s: %s%s; %s (doc/features.md)",
        target ? " about " : "", target ? target : "",
        said ? et_strbuf_text(&why) : "there is no other column", said > NAMES_SHOWN ? ", ..." : "",
        c->choice.dropped_count || c->choice.only_count
            ? "name other columns with --features, or write a features file"
            : "choose columns in a features file");
    et_strbuf_release(&why);
    return status;
}

/* The key's feature is called as its column, if no other feature is. */
static const char *key_name(const char *id)
{
    const bool taken =
        !strcmp(id, "X") || !strncmp(id, "X_", 2) || !strcmp(id, "ids") || !strcmp(id, "Y");
    return taken ? "key" : id;
}

static int make(et_feature_set **out, choosing *c)
{
    et_feature_spec *specs = c->texts;
    char also[40];
    int count = c->text_count;
    if (c->number_count)
        specs[count++] = (et_feature_spec){ .name = "X",
                                            .type = ET_TRANSFORM_CONCAT,
                                            .features = c->numbers,
                                            .feature_count = c->number_count };
    snprintf(also, sizeof also, "X_%s", et_transform_name(c->choice.also));
    if (c->also_count)
        specs[count++] = (et_feature_spec){ .name = also,
                                            .type = ET_TRANSFORM_CONCAT,
                                            .features = c->also,
                                            .feature_count = c->also_count };
    if (c->id_count)
        specs[count++] = (et_feature_spec){ .name = "ids",
                                            .type = ET_TRANSFORM_CONCAT,
                                            .features = c->ids,
                                            .feature_count = c->id_count };
    if (!count)
        return no_column(c);
    if (c->choice.id)
        specs[count++] = (et_feature_spec){ .name = key_name(c->choice.id),
                                            .type = ET_TRANSFORM_KEY,
                                            .fields = &c->choice.id,
                                            .field_count = 1 };
    int targets = 0;
    const char *const *all = c->choice.target ? targets_of(c, &targets) : NULL;
    if (c->choice.target && !all)
        return et_alloc_failed(c->error, "targets");
    if (targets)
        specs[count++] = (et_feature_spec){ .name = "Y",
                                            .type = ET_TRANSFORM_TARGET,
                                            .fields = all,
                                            .field_count = targets,
                                            .classes = c->choice.classes };
    if (c->choice.weight)
        specs[count++] = (et_feature_spec){
            .name = "W", .type = ET_TRANSFORM_WEIGHT, .fields = &c->choice.weight, .field_count = 1
        };
    return et_feature_set_make(out, specs, count, NULL, c->error);
}

static int check_id(const choosing *c)
{
    const char *id = c->choice.id;
    const et_schema_field *field = et_schema_find(c->schema, id);
    if (!field)
        return no_such_column(c, id, "ID");
    if (et_column_is_target(&c->choice, id))
        return et_fail(c->error, ET_ECONFIG,
                       "the column %.60s is both the target and the ID: name another ID", id);
    if (field->length != 1)
        return et_fail(c->error, ET_ECONFIG, "the column %.60s has several values: an ID has one",
                       id);
    return ET_OK;
}

/* option: "--drop" or "--features". */
static int check_inputs(const choosing *c, const char *const *names, int count, const char *option)
{
    for (int i = 0; i < count; i++)
        if (!et_schema_find(c->schema, names[i]))
            return no_such_column(c, names[i], option);
    return ET_OK;
}

static bool may_be_numeric(et_transform type)
{
    return type == ET_TRANSFORM_CLIP || type == ET_TRANSFORM_STANDARDIZE ||
           type == ET_TRANSFORM_QUANTILE || type == ET_TRANSFORM_SCALE ||
           type == ET_TRANSFORM_ROBUST;
}

static int check_choice(choosing *c)
{
    et_feature_choice *choice = &c->choice;
    const et_feature_choice usual = et_column_choice(NULL, NULL);
    if (choice->discrete == ET_TRANSFORM_IDENTITY)
        choice->discrete = usual.discrete;
    if (choice->numeric && (choice->unchanged || !may_be_numeric(choice->numeric)))
        return et_fail(
            c->error, ET_ECONFIG,
            "%s is not a transform for numbers: use clip, standardize, quantile, scale or robust",
            et_transform_name(choice->numeric));
    if (choice->also && !may_be_numeric(choice->also))
        return et_fail(c->error, ET_ECONFIG,
                       "%s is not a second transform for numbers: use clip, standardize, quantile, "
                       "scale or robust",
                       et_transform_name(choice->also));
    if (choice->discrete != ET_TRANSFORM_EMBED && choice->discrete != ET_TRANSFORM_ONE_HOT)
        return et_fail(c->error, ET_ECONFIG,
                       "%s is not a transform for texts: use embed or one-hot",
                       et_transform_name(choice->discrete));
    int status = choice->id ? check_id(c) : ET_OK;
    if (!status && choice->target)
        status = check_targets(c);
    if (!status && choice->weight)
        status = check_weight(c);
    if (!status)
        status = et_column_choice_check(choice, c->error);
    if (!status)
        status = check_inputs(c, choice->dropped, choice->dropped_count, "--drop");
    return status ? status : check_inputs(c, choice->only, choice->only_count, "--features");
}

int et_feature_set_infer(et_feature_set **out, const et_schema *schema, const et_metadata *metadata,
                         const et_feature_choice *choice, et_error *error)
{
    static const et_feature_choice usual;
    choosing c = {
        .schema = schema, .metadata = metadata, .choice = choice ? *choice : usual, .error = error
    };
    size_t count = (size_t)et_schema_count(schema);
    c.arena = (et_arena)ET_ARENA_INIT;
    int status = check_choice(&c);
    if (status) {
        et_arena_release(&c.arena);
        return status;
    }
    c.numbers = et_arena_array(&c.arena, 2 * count, sizeof *c.numbers);
    c.ids = et_arena_array(&c.arena, count, sizeof *c.ids);
    c.texts = et_arena_array(&c.arena, count + 6, sizeof *c.texts);
    if (c.arena.failed)
        status = et_alloc_failed(error, "features");
    for (size_t i = 0; !status && i < count; i++)
        add_column(&c, et_schema_at(schema, (int)i));
    if (!status && c.choice.also) {
        /* All numbers once more. */
        choosing other = c;
        other.choice.numeric = c.choice.also;
        other.choice.unchanged = false;
        other.number_count = other.id_count = 0;
        other.numbers = et_arena_array(&c.arena, 2 * count, sizeof *other.numbers);
        other.ids = et_arena_array(&c.arena, count, sizeof *other.ids);
        if (!other.numbers || !other.ids)
            status = et_alloc_failed(c.error, "features");
        else {
            for (size_t i = 0; i < count; i++)
                add_column(&other, et_schema_at(c.schema, (int)i));
            c.also = other.numbers;
            c.also_count = other.number_count;
        }
    }
    if (!status && c.arena.failed)
        status = et_alloc_failed(error, "features");
    if (!status)
        status = make(out, &c);
    et_arena_release(&c.arena);
    return status;
}
