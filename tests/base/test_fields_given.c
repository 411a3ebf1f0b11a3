
#include <string.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/main.h"
#include "base/set_field.h"
#include "base/values/yaml.h"

typedef struct cosine {
    double rate;
    int64_t steps;
} cosine;

typedef struct rate {
    int type;
    double peak;
    cosine cosine, constant;
} rate;

typedef struct average {
    bool enabled;
    double decay;
} average;

typedef struct options {
    rate rate;
    average average;
    int loss;
    double delta;
    const char *path;
    int64_t counted;
    const char *pattern;
    et_structs parts; /* of rate */
    et_strings weights, names;
} options;

static const char *const types[] = { "constant", "cosine", NULL };
static const char *const losses[] = { "squared", "huber", NULL };

static const et_field cosine_members[] = {
    ET_FIELD_FLOAT(cosine, rate, 1, 0, 10, "rate"),
    ET_FIELD_INT(cosine, steps, 1, 0, 10, "steps"),
    ET_FIELD_END,
};
static const et_fields cosine_table = { "cosine", cosine_members };
static const et_field rate_members[] = {
    ET_FIELD_CHOICE(rate, type, 0, types, "which", .selects = true),
    ET_FIELD_FLOAT(rate, peak, -1, 0, 10, "peak", .passing = true),
    ET_FIELD_STRUCT(rate, cosine, &cosine_table, "falls"),
    ET_FIELD_STRUCT(rate, constant, &cosine_table, "stays"),
    ET_FIELD_END,
};
static const et_fields rate_table = { "rate", rate_members };
static const et_field average_members[] = {
    ET_FIELD_BOOL(average, enabled, false, "there", .selects = true),
    ET_FIELD_FLOAT(average, decay, 0.5, 0, 1, "decay"),
    ET_FIELD_END,
};
static const et_fields average_table = { "average", average_members };
static const et_field members[] = {
    ET_FIELD_STRUCT(options, rate, &rate_table, "the rate", .number = "peak", .word = "type"),
    ET_FIELD_STRUCT(options, average, &average_table, "the average"),
    ET_FIELD_CHOICE(options, loss, 0, losses, "loss"),
    ET_FIELD_FLOAT(options, delta, 1, 0, 10, "of huber", .with = "loss=huber"),
    ET_FIELD_STRING(options, path, NULL, "a file"),
    ET_FIELD_INT(options, counted, 7, 0, 10, "without a file", .with = "path=null"),
    ET_FIELD_STRING(options, pattern, NULL, "lines of the file", .with = "path=*"),
    ET_FIELD_STRUCTS(options, parts, rate, &rate_table, "parts"),
    ET_FIELD_STRINGS(options, weights, "weights", .pairs = true),
    ET_FIELD_STRINGS(options, names, "names", .single = true),
    ET_FIELD_END,
};
static const et_fields table = { "options", members };

typedef struct world {
    options options;
    et_arena arena;
    et_fields_given given;
} world;

static void open_world(world *w)
{
    memset(w, 0, sizeof *w);
    w->arena = (et_arena)ET_ARENA_INIT;
    w->given = (et_fields_given){ .arena = &w->arena };
    et_fields_defaults(&table, &w->options);
}

static void set(world *w, const char *path, const char *text)
{
    const et_fields_origin from = {
        .name = "--set", .arena = &w->arena, .given = &w->given, .option = true
    };
    et_error error = ET_ERROR_INIT;
    if (et_fields_set_from(&from, &table, &w->options, path, NULL, text, &error))
        fail_msg("%s", error.text);
}

static void read_file(world *w, const char *text)
{
    const et_fields_origin from = { .name = "a.yaml", .arena = &w->arena, .given = &w->given };
    et_value *dict;
    assert_int_equal(et_yaml_parse(&dict, &w->arena, text, strlen(text), "a.yaml", NULL), ET_OK);
    assert_int_equal(et_fields_read_from(&from, &table, &w->options, dict, "", NULL), ET_OK);
    et_fields_given_settle(&w->given, &table, &w->options);
}

/* And closes it. message NULL: all count. */
static void check(world *w, const char *message)
{
    et_error error = ET_ERROR_INIT;
    int status = et_fields_given_check(&w->given, &table, &w->options, &error);
    if (message && (status != ET_ECONFIG || strcmp(error.text, message) != 0))
        fail_msg("%d %s", status, error.text);
    if (!message && status)
        fail_msg("%s", error.text);
    et_arena_release(&w->arena);
}

/* The first setting without effect is named, with the choice that would enable it, in any order of
 * settings. */
static void test_fields_given__branches(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    set(&w, "rate.cosine.steps", "3");
    set(&w, "rate.cosine.rate", "3");
    check(&w, "--set rate.cosine.steps: has no effect while rate.type is constant; set "
              "rate.type=cosine as well, or leave it out");
    open_world(&w);
    set(&w, "rate.cosine.steps", "3");
    set(&w, "rate", "{type: cosine, cosine: {rate: 2}}");
    check(&w, NULL);
    open_world(&w);
    set(&w, "rate", "{type: cosine, constant: {rate: 2}}");
    check(&w, "--set rate.constant.rate: has no effect while rate.type is cosine; set "
              "rate.type=constant as well, or leave it out");
    open_world(&w);
    set(&w, "delta", "2");
    check(&w, "--set delta: has no effect while loss is squared; set loss=huber as well, or leave "
              "it out");
    open_world(&w);
    set(&w, "delta", "2");
    set(&w, "loss", "huber");
    check(&w, NULL);
}

/* Settings that a named file contains. A setting that names a file and keeps its default is not
 * reported. */
static void test_fields_given__beside_path(void **state)
{
    (void)state;
    static const char shut[] = "--set counted: has no effect while path is a.txt; set path=null as "
                               "well, or leave it out";
    world w;
    open_world(&w);
    set(&w, "counted", "3");
    check(&w, NULL);
    open_world(&w);
    set(&w, "counted", "3");
    set(&w, "path", "a.txt");
    check(&w, shut);
    open_world(&w);
    set(&w, "path", "a.txt");
    set(&w, "path", "''");
    set(&w, "counted", "3");
    check(&w, NULL);
    open_world(&w);
    read_file(&w, "{path: a.txt, counted: 7}");
    check(&w, NULL);
    open_world(&w);
    read_file(&w, "{path: a.txt,\n counted: 3}");
    check(&w, "a.yaml:2: counted: has no effect while path is a.txt; set path=null as well, or "
              "leave it out");
    open_world(&w);
    set(&w, "pattern", "b.*");
    check(&w, "--set pattern: has no effect while path is null; set path as well, or leave it out");
    open_world(&w);
    set(&w, "pattern", "b.*");
    set(&w, "path", "a.txt");
    check(&w, NULL);
    open_world(&w);
    read_file(&w, "{path: null, pattern: null}");
    check(&w, NULL);
}

/* A dict says that its group is there, a single setting of it does not. */
static void test_fields_given__presence(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    set(&w, "average", "{decay: 0.1}");
    check(&w, NULL);
    open_world(&w);
    set(&w, "average.decay", "0.1");
    check(&w, "--set average.decay: has no effect while average.enabled is false; set "
              "average.enabled=true as well, or leave it out");
}

/* A later choice may disable settings of an earlier file, but not settings that never had an
 * effect. */
static void test_fields_given__files(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    read_file(&w, "rate: {type: cosine, cosine: {rate: 2}}");
    set(&w, "rate.type", "constant");
    check(&w, NULL);
    open_world(&w);
    read_file(&w, "{loss: squared, delta: 2, average: {enabled: false, decay: 0.3}}");
    check(&w, NULL);
    open_world(&w);
    read_file(&w, "loss: huber\nrate:\n  cosine: {rate: 2}\n");
    check(&w, "a.yaml:3: rate.cosine.rate: has no effect while rate.type is constant; set "
              "rate.type=cosine as well, or leave it out");
}

/* Items of lists have their own branches; an item that was removed does not matter. */
static void test_fields_given__lists(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    set(&w, "parts", "[{type: cosine, cosine: {rate: 2}}, {cosine: {rate: 2}}]");
    check(&w, "--set parts[1].cosine.rate: has no effect while parts[1].type is constant; set "
              "parts[1].type=cosine as well, or leave it out");
    open_world(&w);
    set(&w, "parts", "[{type: cosine}, {cosine: {rate: 2}}]");
    set(&w, "parts", "[{type: cosine}]");
    set(&w, "parts[0].cosine.rate", "3");
    check(&w, NULL);
}

/* A number or a word in place of a group, and pairs in place of a list: neither is a key of the
 * saved settings. */
static void test_fields_given__other_forms(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    set(&w, "rate", "0.25");
    assert_float_equal(w.options.rate.peak, 0.25, 0);
    set(&w, "rate", "cosine");
    assert_int_equal(w.options.rate.type, 1);
    set(&w, "weights", "{yes: 3, \"a: b\": 0.5}");
    assert_int_equal(w.options.weights.count, 2);
    assert_string_equal(w.options.weights.items[0], "yes: 3");
    assert_string_equal(w.options.weights.items[1], "a: b: 0.5");
    et_error error = ET_ERROR_INIT;
    assert_int_equal(set_field(&table, &w.options, "weights", "{yes: [3]}", &w.arena, &error),
                     ET_ECONFIG);
    assert_int_equal(set_field(&table, &w.options, "rate", "11", &w.arena, &error), ET_ECONFIG);
    assert_int_equal(set_field(&table, &w.options, "rate", "none", &w.arena, &error), ET_ECONFIG);
    et_value *kept = et_fields_effective(&table, &w.options, &w.arena);
    assert_non_null(kept);
    assert_null(et_value_path(kept, "rate.peak"));
    assert_int_equal(et_value_get(kept, "names")->kind, ET_VALUE_NULL);
    set(&w, "names", "one");
    kept = et_fields_effective(&table, &w.options, &w.arena);
    assert_string_equal(et_value_get(kept, "names")->string, "one");
    set(&w, "names", "[one, two]");
    kept = et_fields_effective(&table, &w.options, &w.arena);
    assert_string_equal(et_value_get(kept, "names")->first->next->string, "two");
    check(&w, NULL);
}

/* A setting that had an effect and lost it is forgotten, but still counts as given. */
static void test_fields_given__given(void **state)
{
    (void)state;
    world w;
    open_world(&w);
    read_file(&w, "rate: {type: cosine, cosine: {rate: 2}}");
    set(&w, "average.decay", "0.3");
    assert_false(et_fields_is_given(&w.given, "rate.cosine.rate"));
    assert_true(et_fields_was_given(&w.given, "rate.cosine.rate"));
    assert_true(et_fields_was_given(&w.given, "average.decay"));
    assert_false(et_fields_was_given(&w.given, "rate.cosine.steps"));
    assert_false(et_fields_was_given(&w.given, "rate.cosine"));
    et_arena_release(&w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields_given__branches),
        cmocka_unit_test(test_fields_given__beside_path),
        cmocka_unit_test(test_fields_given__presence),
        cmocka_unit_test(test_fields_given__files),
        cmocka_unit_test(test_fields_given__lists),
        cmocka_unit_test(test_fields_given__other_forms),
        cmocka_unit_test(test_fields_given__given),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
