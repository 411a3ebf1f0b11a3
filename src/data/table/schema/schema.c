/* A schema is a list of fields and a map from their names. All schemas, from programs and files, go
 * through check; messages for a file also have the line.
 *
 * A file must give the type of a field, because a number may be a class. */
#include "data/table/schema/schema.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/map.h"
#include "base/text/unicode.h"
#include "base/values/yaml.h"
#include "data/table/schema/notation.h"

/* Largest accepted file, in bytes; the limit of the YAML reader. */
#define FILE_MAX ((size_t)16 << 20)

#define LENGTH_MAX INT32_MAX
#define UNIT_MAX   64 /* bytes */

struct et_schema {
    et_schema_field *fields; /* [count], in the arena as all they point to */
    int count;
    et_map indices; /* of names */
    et_arena arena;
};

static const char *const type_names[] = { "integer", "real", "discrete", NULL };
const char *et_schema_type_name(et_schema_type type)
{
    return (unsigned)type <= ET_SCHEMA_DISCRETE ? type_names[type] : NULL;
}

bool et_schema_numeric(const et_schema_field *field)
{
    return field->type != ET_SCHEMA_DISCRETE;
}

/* ---- checks ---- */

/* The origin of fields: a text by its name, with the line of each field; or a program. */
typedef struct origin {
    const char *name; /* NULL: a program */
    const int *line;  /* [count] */
} origin;

typedef struct origin_text {
    char text[256];
} origin_text;

/* "schema.yaml:7: ", or "field 3: ". */
static origin_text origin_of(const origin *from, int field)
{
    origin_text p;
    if (from->name)
        snprintf(p.text, sizeof p.text, "%s:%d: ", from->name, from->line[field]);
    else
        snprintf(p.text, sizeof p.text, "field %d: ", field + 1);
    return p;
}

static int check_name(const et_schema_field *field, origin_text where, et_error *error)
{
    const char *name = field->name;
    if (!name || !*name)
        return et_fail(error, ET_ECONFIG, "%sa field has no name: give it one", where.text);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return et_fail(error, ET_ECONFIG,
                           "%sbyte %td of a field's name is a control character (0x%02X)",
                           where.text, c - name + 1, (unsigned)(unsigned char)*c);
    if (!et_utf8_valid(name, strlen(name), NULL))
        return et_fail(error, ET_ECONFIG, "%sthe name of a field is not UTF-8", where.text);
    return ET_OK;
}

static int check_field(const et_schema_field *field, origin_text where, et_error *error)
{
    double number;
    int status = check_name(field, where, error);
    if (status)
        return status;
    if ((unsigned)field->type > ET_SCHEMA_DISCRETE)
        return et_fail(error, ET_ECONFIG, "%sthe type of %s, %d, is not an et_schema_type",
                       where.text, field->name, (int)field->type);
    if (field->length < ET_SCHEMA_VARIABLE || field->length > LENGTH_MAX)
        return et_fail(error, ET_ECONFIG,
                       "%sthe length of %s is %lld: give at least 1, or 0 for any number of values",
                       where.text, field->name, (long long)field->length);
    if (field->fractions && field->type != ET_SCHEMA_INTEGER)
        return et_fail(error, ET_ECONFIG,
                       "%sfractions of %s, which is %s: only an integer field can allow fractions",
                       where.text, field->name, type_names[field->type]);
    if (!status) {
        const size_t length = field->unit ? strlen(field->unit) : 0;
        if ((unsigned)field->notation > ET_NOTATION_COMMA)
            status = et_fail(error, ET_ECONFIG, "%sthe notation of %s, %d, is not an et_notation",
                             where.text, field->name, (int)field->notation);
        else if ((field->notation || field->unit) && !et_schema_numeric(field))
            status =
                et_fail(error, ET_ECONFIG,
                        "%s%s of %s, which is discrete: only a real or integer field has numbers",
                        where.text, field->notation ? "notation" : "unit", field->name);
        else if (field->unit && !field->notation)
            status =
                et_fail(error, ET_ECONFIG,
                        "%sunit of %s without a notation: add notation: point or notation: comma",
                        where.text, field->name);
        else if (field->unit &&
                 (!length || length > UNIT_MAX || !et_utf8_valid(field->unit, length, NULL)))
            status = et_fail(error, ET_ECONFIG,
                             "%sthe unit of %s: give 1 to %d bytes of UTF-8, or leave it out",
                             where.text, field->name, UNIT_MAX);
    }
    if (status)
        return status;
    if (field->missing && !et_utf8_valid(field->missing, strlen(field->missing), NULL))
        return et_fail(error, ET_ECONFIG, "%sthe default of %s is not UTF-8", where.text,
                       field->name);
    if (field->missing && et_schema_numeric(field) &&
        !et_number_is(et_number_parse(&number, field->missing, strlen(field->missing))))
        return et_fail(error, ET_ECONFIG,
                       "%sthe default of %s is \"%.60s\", not a number: %s is %s", where.text,
                       field->name, field->missing, field->name, type_names[field->type]);
    if (field->missing && field->type == ET_SCHEMA_INTEGER && !field->fractions &&
        number != floor(number))
        return et_fail(error, ET_ECONFIG,
                       "%sthe default of %s is \"%.60s\", not an integer: correct it, set "
                       "fractions: true, or make the field real",
                       where.text, field->name, field->missing);
    return ET_OK;
}

/* ---- making ---- */

static const char *copy_text(et_schema *schema, const char *text)
{
    return text ? et_arena_strdup(&schema->arena, text) : NULL;
}

static int add_field(et_schema *schema, const et_schema_field *field, const origin *from,
                     et_error *error)
{
    int64_t before;
    et_schema_field *copy = &schema->fields[schema->count];
    int status = check_field(field, origin_of(from, schema->count), error);
    if (status)
        return status;
    if (et_map_get(&schema->indices, field->name, &before)) {
        char other[32];
        snprintf(other, sizeof other, "%s %d", from->name ? "line" : "field",
                 from->name ? from->line[before] : (int)before + 1);
        return et_fail(error, ET_ECONFIG,
                       "%sa second field is called %s (the first: %s): rename one",
                       origin_of(from, schema->count).text, field->name, other);
    }
    *copy = *field;
    copy->name = copy_text(schema, field->name);
    copy->missing = copy_text(schema, field->missing);
    copy->unit = copy_text(schema, field->unit);
    copy->length = field->length ? field->length : 1;
    if (schema->arena.failed || !et_map_put(&schema->indices, copy->name, schema->count))
        return et_alloc_failed(error, "a schema");
    schema->count++;
    return ET_OK;
}

static int make(et_schema **out, const et_schema_field *fields, int count, const origin *from,
                et_error *error)
{
    et_schema *schema;
    if (ET_ALLOC_ZERO(schema, 1, "a schema", error))
        return ET_ENOMEM;
    int status = ET_OK;
    schema->fields = et_arena_array(&schema->arena, count, sizeof *schema->fields);
    if (!schema->fields)
        status = et_alloc_failed(error, "a schema");
    for (int i = 0; i < count && !status; i++)
        status = add_field(schema, &fields[i], from, error);
    if (status) {
        et_schema_free(schema);
        return status;
    }
    *out = schema;
    return ET_OK;
}

int et_schema_create(et_schema **out, const et_schema_field *fields, int count, et_error *error)
{
    if (count < 1 || !fields)
        return et_fail(error, ET_ECONFIG, "a schema of %d fields: give at least one", count);
    return make(out, fields, count, &(origin){ NULL, NULL }, error);
}

void et_schema_free(et_schema *schema)
{
    if (!schema)
        return;
    et_map_release(&schema->indices);
    et_arena_release(&schema->arena);
    et_free(schema);
}

/* ---- YAML ---- */

/* "numeric" is another word for real. */
static const char *const type_words[] = { "integer", "real", "discrete", "numeric", NULL };
static const char *const notation_words[] = { "point", "comma", NULL };

#define KEY(kind, member, ...) ET_TEXT_KEY(kind, et_schema_field, member, __VA_ARGS__)
static const et_text_key keys[] = {
    KEY(TEXT, name, "name"),
    KEY(WORD, type, "type", .words = type_words, .all = "Types: integer, real, discrete"),
    KEY(COUNT, length, "length", .usual = 1),
    KEY(TEXT, missing, "default", .nullable = true),
    KEY(FALSE, required, "nullable"),
    KEY(TRUTH, fractions, "fractions"),
    KEY(WORD, notation, "notation", .least = ET_NOTATION_POINT, .words = notation_words,
        .all = "Notations: point, comma"),
    KEY(TEXT, unit, "unit"),
    ET_TEXT_KEYS_END,
};

static const char *const wrong[ET_KEY_KINDS] = {
    [ET_KEY_TEXT] = " needs a text, not ",
    [ET_KEY_COUNT] = " is not a count: give at least 1, or 0 for any number of values",
    [ET_KEY_TRUTH] = " is not true or false: write true or false",
    [ET_KEY_FALSE] = " is not true or false: write true or false",
};

static int read_tree(et_schema **out, const et_value *root, et_text_reading *r)
{
    const et_value *list = et_text_keys_list(r, root, "fields", "of a schema ");
    et_schema_field *fields = list ? et_text_keys_array(r, list->count, sizeof *fields) : NULL;
    int *lines = fields ? et_text_keys_array(r, list->count, sizeof *lines) : NULL, count = 0;
    for (const et_value *value = lines ? list->first : NULL; value && !r->status;
         value = value->next) {
        et_schema_field *field = &fields[count];
        lines[count++] = value->line;
        field->length = 1;
        if (value->kind != ET_VALUE_DICT)
            et_text_keys_wrong(
                r, value, "a field must be a group of keys: write - {name: age, type: integer}");
        et_text_keys_read(r, keys, "a field", value, field);
        if (!et_value_get(value, "type"))
            et_text_keys_wrong(r, value, "a field has no type: give it integer, real or discrete");
        if (!field->length)
            field->length = ET_SCHEMA_VARIABLE;
        if (field->type > ET_SCHEMA_DISCRETE)
            field->type = ET_SCHEMA_REAL;
    }
    return r->status ? r->status : make(out, fields, count, &(origin){ r->name, lines }, r->error);
}

int et_schema_parse(et_schema **out, const char *text, size_t length, const char *name,
                    et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_text_reading r = { .name = name, .wrong = wrong, .arena = &arena, .error = error };
    et_value *root;
    int status = et_yaml_parse(&root, &arena, text, length, name, error);
    if (!status)
        status = read_tree(out, root, &r);
    et_arena_release(&arena);
    return status;
}

int et_schema_load(et_schema **out, const char *path, et_error *error)
{
    char *text;
    size_t length;
    int status = et_file_read(&text, &length, path, FILE_MAX, error);
    if (status)
        return status;
    status = et_schema_parse(out, text, length, path, error);
    et_free(text);
    return status;
}

int et_schema_format(const et_schema *schema, char **text, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *root = et_value_dict(&arena);
    et_value *list = et_value_set_list(root, "fields");
    for (int i = 0; i < schema->count; i++) {
        et_schema_field field = schema->fields[i];
        field.length = field.length == ET_SCHEMA_VARIABLE ? 0 : field.length;
        et_text_keys_write(et_value_add_dict(list), keys, &field);
    }
    *text = et_text_keys_print(root);
    et_arena_release(&arena);
    return *text ? ET_OK : et_alloc_failed(error, "a schema's text");
}

int et_schema_save(const et_schema *schema, const char *path, et_error *error)
{
    char *text;
    int status = et_schema_format(schema, &text, error);
    if (status)
        return status;
    status = et_file_write(path, text, strlen(text), error);
    et_free(text);
    return status;
}

/* ---- fields ---- */

int et_schema_count(const et_schema *schema)
{
    return schema->count;
}

const et_schema_field *et_schema_at(const et_schema *schema, int position)
{
    return position >= 0 && position < schema->count ? &schema->fields[position] : NULL;
}

int et_schema_position(const et_schema *schema, const char *name)
{
    int64_t position;
    return name && et_map_get(&schema->indices, name, &position) ? (int)position : -1;
}

const et_schema_field *et_schema_find(const et_schema *schema, const char *name)
{
    return et_schema_at(schema, et_schema_position(schema, name));
}
