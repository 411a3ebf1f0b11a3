/* Features from metadata alone, by rules that a person would give as reasons:
 *
 *   a column with one value, or none            says nothing
 *   texts that are dates                        date
 *   texts, more than half of them different     as good as a key: at most whether there is one
 *   whole numbers that count the rows           the same
 *   other texts                                 embed, one-hot, or hash where entries are not known
 *   other numbers                               what was chosen, or what the metadata is enough for
 *
 * and of numbers that are missing in some rows, that they are. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields.h"
#include "base/reserved.h"
#include "base/strbuf.h"
#include "data/feature_set.h"
#include "data/transforms.h"

/* Rows below which different texts are no sign of a key, unless all are. */
#define KEY_ROWS 20
/* For texts whose entries are not known. */
#define HASH_BUCKETS 1024

typedef struct choosing {
    const et_schema *schema;
    const et_metadata *metadata;
    et_feature_choice choice;
    et_feature_spec *numbers, *ids; /* [2 fields, fields]: the arena's */
    int number_count, id_count;
    et_arena arena;
    et_error *error;
} choosing;

/* ---- what a column is ---- */

static int64_t distinct(const et_column_metadata *m)
{
    return m->distinct ? m->distinct : m->cut ? (int64_t)m->entry_count + 1 : m->entry_count;
}

static bool is_empty(const et_column_metadata *m)
{
    return !m->count && m->missing > 0;
}

static bool is_constant(const et_schema_field *field, const et_column_metadata *m)
{
    if (et_schema_numeric(field))
        return m->has_range && m->min == m->max;
    return distinct(m) == 1 && !m->missing;
}

static bool is_dates(const et_column_metadata *m)
{
    for (int i = 0; i < m->entry_count; i++)
        if (!et_date_is(m->entries[i], strlen(m->entries[i])))
            return false;
    return m->entry_count > 0;
}

static bool is_text_key(const et_column_metadata *m)
{
    int64_t different = distinct(m);
    if (m->count >= KEY_ROWS)
        return 2 * different > m->count;
    return different > 2 && different >= m->count && m->count;
}

/* Each number of a range once has the range's deviation: (n * n - 1) / 12, its square. */
static bool is_running(const et_schema_field *field, const et_column_metadata *m)
{
    double n = m->max - m->min + 1, square = (n * n - 1) / 12;
    return field->type == ET_SCHEMA_INTEGER && m->has_range && m->has_moments && !m->missing &&
           m->count >= KEY_ROWS && n == (double)m->count &&
           fabs(m->std * m->std - square) <= 1e-6 * square;
}

/* ---- what becomes of it ---- */

/* Memory that is out is the arena's to remember. */
static void add(choosing *c, bool ids, const char *field, et_transform type)
{
    et_feature_spec *to = ids ? &c->ids[c->id_count++] : &c->numbers[c->number_count++];
    *to = (et_feature_spec){ .name = field, .type = type };
    if (type == ET_TRANSFORM_HASH)
        to->buckets = HASH_BUCKETS;
}

static et_transform numeric_transform(const choosing *c, const et_column_metadata *m)
{
    et_transform type = c->choice.numeric;
    if (type == ET_TRANSFORM_QUANTILE && m->quantile_count < 2)
        type = ET_TRANSFORM_STANDARDIZE;
    if (type == ET_TRANSFORM_STANDARDIZE && !m->has_moments)
        type = ET_TRANSFORM_SCALE;
    return type == ET_TRANSFORM_SCALE && !m->has_range ? ET_TRANSFORM_IDENTITY : type;
}

static void add_number(choosing *c, const et_schema_field *f, const et_column_metadata *m)
{
    if (is_running(f, m))
        return;
    if (!is_constant(f, m))
        add(c, false, f->name, numeric_transform(c, m));
    if (m->missing)
        add(c, false, f->name, ET_TRANSFORM_MISSING);
}

static void add_text(choosing *c, const et_schema_field *f, const et_column_metadata *m)
{
    bool hot = c->choice.discrete == ET_TRANSFORM_ONE_HOT;
    if (is_constant(f, m))
        return;
    if (is_dates(m)) {
        add(c, false, f->name, ET_TRANSFORM_DATE);
        if (m->missing)
            add(c, false, f->name, ET_TRANSFORM_MISSING);
    } else if (is_text_key(m)) {
        if (m->missing)
            add(c, false, f->name, ET_TRANSFORM_MISSING);
    } else if (!m->entry_count)
        add(c, true, f->name, ET_TRANSFORM_HASH);
    else
        add(c, !hot, f->name, hot ? ET_TRANSFORM_ONE_HOT : ET_TRANSFORM_EMBED);
}

static void add_column(choosing *c, const et_schema_field *f)
{
    const et_column_metadata *m = et_metadata_find(c->metadata, f->name);
    bool target = c->choice.target && !strcmp(f->name, c->choice.target);
    if (target || f->length == ET_SCHEMA_VARIABLE || is_empty(m))
        return;
    if (et_schema_numeric(f))
        add_number(c, f, m);
    else
        add_text(c, f, m);
}

/* ---- the target ---- */

static int no_target(const choosing *c)
{
    int count = et_schema_count(c->schema);
    et_strbuf names = ET_STRBUF_INIT;
    const char **list = et_alloc((size_t)count + 1, sizeof *list);
    if (!list)
        return et_alloc_failed(c->error, (size_t)count * sizeof *list, "names");
    for (int i = 0; i < count; i++) {
        list[i] = et_schema_at(c->schema, i)->name;
        et_strbuf_printf(&names, "%s%.60s", i ? ", " : "", list[i]);
    }
    list[count] = NULL;
    int status = et_fail(
        c->error, ET_ECONFIG, "the target %.60s is no column of the table%s. Columns: %s",
        c->choice.target, et_nearest_hint(c->choice.target, list, "").text, et_strbuf_text(&names));
    et_strbuf_release(&names);
    et_free(list);
    return status;
}

static int check_target(const choosing *c)
{
    const char *name = c->choice.target;
    const et_schema_field *f = et_schema_find(c->schema, name);
    if (!f)
        return no_target(c);
    const et_column_metadata *m = et_metadata_find(c->metadata, name);
    if (is_empty(m))
        return et_fail(c->error, ET_ECONFIG, "the target %s has no value in any row", name);
    if ((f->type == ET_SCHEMA_DISCRETE || c->choice.classes) && m->entry_count == 1)
        return et_fail(c->error, ET_ECONFIG,
                       "the target %s has one class only, \"%.40s\": there is nothing to learn",
                       name, m->entries[0]);
    if ((f->type == ET_SCHEMA_DISCRETE || c->choice.classes) && is_text_key(m))
        return et_fail(
            c->error, ET_ECONFIG,
            "the target %s has %lld different values in %lld rows: these are no classes; "
            "name another column, or make it real in the schema",
            name, (long long)distinct(m), (long long)m->count);
    return ET_OK;
}

/* ---- the set ---- */

static int make(et_feature_set **out, choosing *c)
{
    et_feature_spec specs[3];
    int count = 0;
    if (c->number_count)
        specs[count++] = (et_feature_spec){ .name = "X",
                                            .type = ET_TRANSFORM_CONCAT,
                                            .features = c->numbers,
                                            .feature_count = c->number_count };
    if (c->id_count)
        specs[count++] = (et_feature_spec){ .name = "ids",
                                            .type = ET_TRANSFORM_CONCAT,
                                            .features = c->ids,
                                            .feature_count = c->id_count };
    if (!count)
        return et_fail(c->error, ET_ECONFIG,
                       "no column says anything%s%s: all are constant, empty or as good as keys; "
                       "write a features file that says what to use",
                       c->choice.target ? " about " : "", c->choice.target ? c->choice.target : "");
    if (c->choice.target)
        specs[count++] = (et_feature_spec){ .name = "Y",
                                            .type = ET_TRANSFORM_TARGET,
                                            .fields = &c->choice.target,
                                            .field_count = 1,
                                            .classes = c->choice.classes };
    return et_feature_set_make(out, specs, count, NULL, c->error);
}

static int check_choice(choosing *c)
{
    et_feature_choice *choice = &c->choice;
    int status = et_options_check(choice, "et_feature_choice", c->error);
    if (status)
        return status;
    if (choice->numeric == ET_TRANSFORM_IDENTITY)
        choice->numeric = ET_TRANSFORM_STANDARDIZE;
    if (choice->discrete == ET_TRANSFORM_IDENTITY)
        choice->discrete = ET_TRANSFORM_EMBED;
    if (choice->numeric != ET_TRANSFORM_STANDARDIZE && choice->numeric != ET_TRANSFORM_QUANTILE &&
        choice->numeric != ET_TRANSFORM_SCALE)
        return et_fail(c->error, ET_ECONFIG, "numbers by %s: choose standardize, quantile or scale",
                       et_transform_name(choice->numeric));
    if (choice->discrete != ET_TRANSFORM_EMBED && choice->discrete != ET_TRANSFORM_ONE_HOT)
        return et_fail(c->error, ET_ECONFIG, "texts by %s: choose embed or one-hot",
                       et_transform_name(choice->discrete));
    return choice->target ? check_target(c) : ET_OK;
}

int et_feature_set_infer(et_feature_set **out, const et_schema *schema, const et_metadata *metadata,
                         const et_feature_choice *choice, et_error *error)
{
    static const et_feature_choice usual;
    choosing c = {
        .schema = schema, .metadata = metadata, .choice = choice ? *choice : usual, .error = error
    };
    size_t count = (size_t)et_schema_count(schema);
    int status = check_choice(&c);
    if (status)
        return status;
    c.numbers = et_arena_array(&c.arena, 2 * count, sizeof *c.numbers);
    c.ids = et_arena_array(&c.arena, count, sizeof *c.ids);
    if (c.arena.failed)
        status = et_alloc_failed(error, count * sizeof *c.ids, "features");
    for (size_t i = 0; !status && i < count; i++)
        add_column(&c, et_schema_at(schema, (int)i));
    if (!status)
        status = make(out, &c);
    et_arena_release(&c.arena);
    return status;
}
