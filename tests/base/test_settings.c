/* Settings from texts, files and trees; restrictions; locks; the written settings. */
#include "base/fields/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/log.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/main.h"
#include "base/scarce.h"
#include "base/values/yaml.h"

/* A one-of block, lists, null, numbers: each kind of member that an override may meet. */
typedef struct block {
    int type;
    struct sgd {
        double momentum;
    } sgd;
    struct adam {
        double beta;
        int64_t steps;
    } adam;
} block;

typedef struct options {
    block optimizer;
    int64_t a, b;
    double rate;
    bool flag;
    et_strings c;
    const char *text;
    int flag_or_none;
} options;

static const et_field sgd_rows[] = { ET_FIELD_FLOAT(struct sgd, momentum, 0, 0, 1, "m"),
                                     ET_FIELD_END };
static const et_fields sgd_table = { "sgd", sgd_rows };
static const et_field adam_rows[] = { ET_FIELD_FLOAT(struct adam, beta, 0.9, 0, 1, "b"),
                                      ET_FIELD_INT(struct adam, steps, 0, 0, 100, "s"),
                                      ET_FIELD_END };
static const et_fields adam_table = { "adam", adam_rows };
static const char *const types[] = { "none", "sgd", "adam", NULL };
static const et_field block_rows[] = {
    ET_FIELD_CHOICE(block, type, 0, types, "which", .nullable = true, .selects = true),
    ET_FIELD_STRUCT(block, sgd, &sgd_table, "sgd"),
    ET_FIELD_STRUCT(block, adam, &adam_table, "adam"),
    ET_FIELD_ONLY("xla", "false", "there is no XLA"),
    ET_FIELD_END,
};
static const et_fields block_table = { "optimizer", block_rows };
static const et_field rows[] = {
    ET_FIELD_STRUCT(options, optimizer, &block_table, "one of"),
    ET_FIELD_INT(options, a, 1, INT64_MIN, INT64_MAX, "a"),
    ET_FIELD_INT(options, b, 2, INT64_MIN, INT64_MAX, "b"),
    ET_FIELD_FLOAT(options, rate, 0.5, -1e300, 1e300, "rate"),
    ET_FIELD_BOOL(options, flag, false, "flag"),
    ET_FIELD_STRINGS(options, c, "list"),
    ET_FIELD_STRING(options, text, NULL, "text"),
    ET_FIELD_ONLY("tpu", "null", "there is no TPU"),
    ET_FIELD_ONLY("hosts", "-1", "there is one process"),
    ET_FIELD_ONLY("share", "0.5", "it is half"),
    ET_FIELD_ONLY("folder", "validation", "it is named so"),
    ET_FIELD_END,
};
static const et_fields table = { "all", rows };

static et_arena arena;
static et_error error;
static options given;
static et_settings settings;

static int enter(void **state)
{
    (void)state;
    error = (et_error)ET_ERROR_INIT;
    et_fields_defaults(&table, &given);
    settings =
        (et_settings){ .table = &table, .options = &given, .arena = &arena, .source = "--set" };
    return 0;
}

static int leave(void **state)
{
    (void)state;
    et_arena_release(&arena);
    return 0;
}

/* Everything as YAML in one text, to compare with; static. */
static const char *written(void)
{
    static char text[2000];
    et_strbuf out = ET_STRBUF_INIT;
    et_yaml_print(&out, et_fields_echo(&table, &given, &arena));
    snprintf(text, sizeof text, "%s", et_strbuf_text(&out));
    et_strbuf_release(&out);
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

/* The typed text, and the lines of the resulting settings. */
static void test_settings__override(void **state)
{
    (void)state;
    static const struct {
        const char *text, *lines[4];
    } cases[] = {
        /* assignments, as in Model Garden's CSV */
        { "a=5,b=7", { "\na: 5\n", "\nb: 7\n" } },
        { "a = 5, b= 7", { "\na: 5\n", "\nb: 7\n" } },
        { "a=1,b=1.,c=[1,2,3],text=\"hello, there\"",
          { "\nb: 1\n", "\nc: [\"1\", \"2\", \"3\"]\n", "\ntext: \"hello, there\"\n" } },
        { "text='Hi.',a=3", { "\ntext: Hi.\n", "\na: 3\n" } },
        { "text='it''s, a=4',a=3", { "\ntext: \"it's, a=4\"\n", "\na: 3\n" } },
        { "optimizer.adam.steps=4,optimizer.type=adam", { "steps: 4\n", "  type: adam\n" } },
        { "a=5,a=6", { "\na: 6\n" } },
        { "a=5,c[2]=3,c[0]=1,c[1]=2,b=6",
          { "\na: 5\n", "\nb: 6\n", "\nc: [\"1\", \"2\", \"3\"]\n" } },
        { "c[0]=x=1", { "\nc: [x=1]\n" } },
        { "text=gs://a/b,a=2", { "\ntext: \"gs://a/b\"\n", "\na: 2\n" } },
        { "text=a,b,a=2", { "\ntext: \"a,b\"\n", "\na: 2\n" } },
        { "c=[\"a,b=9\", 'it''s'],a=2", { "\nc: [\"a,b=9\", \"it's\"]\n", "\nb: 2\n" } },
        /* only PyYAML takes these numbers for text */
        { "rate=1e3", { "\nrate: 1000.0\n" } },
        { "rate=-1.e-3", { "\nrate: -0.001\n" } },
        { "rate=+0.001", { "\nrate: 0.001\n" } },
        { "{rate: 1e3}", { "\nrate: 1000.0\n" } },
        { "{\"rate\": -1.5E+2}", { "\nrate: -150.0\n" } },
        /* YAML and JSON */
        { "{a: 5, optimizer: {type: sgd, sgd: {momentum: 0.25}}}",
          { "\na: 5\n", "  type: sgd\n", "momentum: 0.25\n" } },
        { "a: 5\noptimizer:\n  type: sgd\n", { "\na: 5\n", "  type: sgd\n" } },
        { "a: 5", { "\na: 5\n" } },
        { "{\"a\": 5, \"text\": \"x\\/y\"}", { "\na: 5\n", "\ntext: x/y\n" } },
        { "{\n\t\"a\": 5,\n\t\"c\": [\"x\", \"y\"]\n}", { "\na: 5\n", "\nc: [x, \"y\"]\n" } },
        { "{\"a\": 5, \"text\": \"\\ud83d\\ude00\"}", { "\na: 5\n", "\xf0\x9f\x98\x80" } },
        /* files */
        { "over.yaml", { "\na: 11\n" } },
        { "over.json", { "\na: 12\n" } },
        { "./a=b.yaml", { "\na: 13\n" } },
        { "x=y.yaml", { "\na: 14\n" } }, /* no setting is named x */
        /* null, words of truth, one-of */
        { "optimizer.type=adam", { "  type: adam\n" } },
        { "optimizer.type=null", { "  type: none\n" } },
        { "flag=yes", { "\nflag: true\n" } },
        { "text=null,tpu=null,hosts=-1.0,share=0.5,folder=validation,optimizer.xla=off",
          { "\ntext: null\n" } },
        { "{tpu: \"\", optimizer: {xla: 0}}", { "\ntext: null\n" } },
    };
    write_file("over.yaml", "a: 11\n");
    write_file("over.json", "{\"a\": 12}\n");
    write_file("a=b.yaml", "a: 13\n");
    write_file("x=y.yaml", "a: 14\n");
    for (size_t i = 0; i < COUNT(cases); i++) {
        enter(NULL);
        if (et_settings_override(&settings, cases[i].text, &error))
            fail_msg("%s: %s", cases[i].text, error.text);
        for (int k = 0; k < 4 && cases[i].lines[k]; k++)
            if (!strstr(written(), cases[i].lines[k]))
                fail_msg("%s: no \"%s\" in\n%s", cases[i].text, cases[i].lines[k], written());
    }
}

static void test_settings__refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *said;
    } cases[] = {
        { "aa=5", ET_ECONFIG, "--set aa: no such setting" },
        { "optimizer.adam.step=5", ET_ECONFIG, "Nearest: steps (optimizer.adam has: beta, steps)" },
        { "a=5,optimizer.tipe=sgd", ET_ECONFIG, "--set optimizer.tipe: no such setting" },
        { "text=x,nothing.there=5", ET_ECONFIG, "--set nothing: no such setting" },
        { "{a: 5, optimizr: {}}", ET_ECONFIG, "--set optimizr: no such setting. Nearest: optimi" },
        { "c=[[1,2],[3]]", ET_ECONFIG, "--set c: item 1 is a list, not text" },
        { "c[0]=[1],c[1]=2", ET_ECONFIG, "--set c: item 1 is a list, not text" },
        { "c[2]=3,c[0]=1", ET_ECONFIG, "--set c[1] is missing; " },
        { "c[1]=3", ET_ECONFIG, "--set c[0] is missing; " },
        { "c[99999999999999999999]=3", ET_ECONFIG, "--set c: at most 10000 items" },
        { "c[0]=[", ET_ECONFIG, "--set c[0]: not YAML" },
        { "c[0].x=1", ET_ECONFIG,
          "--set c[0].x: c is a single setting, not a group; remove what follows it" },
        { "a[0]=1", ET_ECONFIG, "--set a: needs an integer, not a list" },
        { "a=5.5", ET_ECONFIG, "--set a: 5.5 is not an integer" },
        { "a=five", ET_ECONFIG, "--set a: \"five\" is not an integer" },
        { "a=true", ET_ECONFIG, "--set a: true is not an integer" },
        { "a=null", ET_ECONFIG, "--set a: null is not an integer" },
        { "flag=2", ET_ECONFIG, "--set flag: 2 is not true or false" },
        { "rate=fast", ET_ECONFIG, "--set rate: \"fast\" is not a number" },
        { "text=[a]", ET_ECONFIG, "--set text: needs text, not a list" },
        { "optimizer=5", ET_ECONFIG, "--set optimizer: a group of settings, not an integer" },
        { "optimizer.type=adamm", ET_ECONFIG, "no choice is called adamm. Nearest: adam" },
        { "a.b=5", ET_ECONFIG,
          "--set a.b: a is a single setting, not a group; remove what follows it" },
        { "{a: 5", ET_ECONFIG, "--set: not YAML" },
        { "a: 5\n b: 7", ET_ECONFIG, "--set" },
        { "a", ET_EUSAGE,
          "--set a: neither key=value (such as optimizer.name=value) nor the name of a file" },
        { "none.yaml", ET_EUSAGE, "--set none.yaml: neither key=value (such as" },
        { "=5", ET_EUSAGE, "--set =5: neither key=value (such as" },
        { ".a=5", ET_EUSAGE, "--set .a=5: neither key=value (such as" },
        { "a.=5", ET_EUSAGE, "--set a.=5: neither key=value (such as" },
        { "optimizer..type=sgd", ET_EUSAGE,
          "--set optimizer..type=sgd: neither key=value (such as" },
        { "c[0]x=5", ET_EUSAGE, "--set c[0]x=5: neither key=value (such as" },
        { "c[0].=5", ET_EUSAGE, "--set c[0].=5: neither key=value (such as" },
        { "c[0][1]=5", ET_EUSAGE, "--set c[0][1]=5: neither key=value (such as" },
        { "bad.yaml", ET_ECONFIG, "bad.yaml:2: aa: no such setting" },
        { "bad.json", ET_EFORMAT, "bad.json:1" },
        { "tpu=local", ET_ECONFIG, "--set tpu: local is not allowed here: there is no TPU" },
        { "hosts=2", ET_ECONFIG,
          "--set hosts: only -1 is allowed here, not 2: there is one process" },
        { "share=0.6", ET_ECONFIG, "--set share: only 0.5 is allowed here, not 0.6: it is half" },
        { "folder=x", ET_ECONFIG, "only validation is allowed here, not x: it is named so" },
        { "optimizer.xla=on", ET_ECONFIG, "optimizer.xla: only false is allowed here, not on" },
        { "{optimizer: {xla: [1]}}", ET_ECONFIG, ": only false is allowed here, not a list" },
    };
    write_file("bad.yaml", "b: 5\naa: 5\n");
    write_file("bad.json", "{\"a\": 5,}\n");
    for (size_t i = 0; i < COUNT(cases); i++) {
        enter(NULL);
        int status = et_settings_override(&settings, cases[i].text, &error);
        if (status != cases[i].status || !strstr(error.text, cases[i].said))
            fail_msg("%s: status %d: %s", cases[i].text, status, error.text);
    }
}

/* Later settings win; settings that a source does not name stay. */
static void test_settings__order(void **state)
{
    (void)state;
    write_file("one.yaml", "a: 10\nb: 20\n");
    write_file("two.json", "{\"b\": 21}");
    assert_int_equal(et_settings_read_file(&settings, "one.yaml", &error), ET_OK);
    assert_int_equal(et_settings_read_file(&settings, "two.json", &error), ET_OK);
    assert_int_equal(given.a, 10);
    assert_int_equal(given.b, 21);
    assert_int_equal(et_settings_override(&settings, "b=22", &error), ET_OK);
    assert_int_equal(given.b, 22);
    assert_int_equal(et_settings_read_file(&settings, "gone.yaml", &error), ET_ENOTFOUND);
}

static int warnings;

static void count_warnings(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    (void)text;
    warnings += level == ET_LOG_WARNING;
}

/* Names that are not in the table, for a program that keeps them. */
static void test_settings__extra(void **state)
{
    (void)state;
    settings.extra = et_value_dict(&arena);
    warnings = 0;
    et_log_set(count_warnings, NULL);
    assert_int_equal(et_settings_override(&settings, "a=5,new.one=1,optimizer.other=x", &error), 0);
    assert_int_equal(et_settings_override(&settings, "{new: {two: [1, y]}, b: 6}", &error), 0);
    et_log_set(NULL, NULL);
    assert_int_equal(warnings, 3);
    assert_int_equal(given.a, 5);
    assert_int_equal(given.b, 6);
    assert_int_equal(et_value_path(settings.extra, "new.one")->integer, 1);
    assert_string_equal(et_value_path(settings.extra, "optimizer.other")->string, "x");
    assert_int_equal(et_value_path(settings.extra, "new.two")->count, 2);
    assert_int_equal(et_settings_override(&settings, "a=x", &error), ET_ECONFIG);
}

/* Names that no table has; messages of a program begin with the path. */
static void test_settings__dict_alone(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said; /* said NULL: right */
    } cases[] = {
        { "a=2,b.c.x=5", NULL },
        { "l[1].x=3", NULL },
        { "{l: [{x: 8}, {x: 9}]}", NULL },
        { "{l: [{x: 8}]}", NULL },
        { "{b.c: {x: 1}, a: 3}", NULL },
        { "{}", NULL },
        { "z=1", "z: no such setting (settings has: a, b, l)" },
        { "b.d=1", "b.d: no such setting (b has: c)" },
        { "b.c.y.z=1", "b.c.y: no such setting (b.c has: x)" },
        { "l[0].y=1", "l[0].y: no such setting (l[0] has: x)" },
        { "l[2].x=1", "l[2].x: l[2] is not a group of settings; name an item" },
        { "b[0].x=1", "b[0].x: b[0] is not a group of settings; name an item" },
        { "{l: [{x: 1}, {y: 1}]}", "l[1].y: no such setting" },
        { "{l: [1, {x: 1}]}", "l: item 2 is a group of settings; a list has values or groups" },
        { "{b: {c: {x: [1, [2]]}}}", "b.c.x: item 2 is a list; a list has values or groups" },
        { "{b: {c: 1}, b.c: 2}", "b.c: set twice" },
        { "{'l[0]': 5}", "l[0]: needs a group of settings, not an integer" },
        { "{'l[0]': {x: 5}}", NULL },
        { "a=[", "a: not YAML" },
        { "{a: 1", "settings: not YAML" },
        { "a", "a: neither key=value (such as group.name=value) nor" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_settings alone = { .extra = et_value_dict(&arena), .arena = &arena };
        assert_int_equal(
            et_settings_override(&alone, "{a: 1, b: {c: {x: 1}}, l: [{x: 1}, {x: 2}]}", &error), 0);
        alone.strict = true;
        warnings = 0;
        et_log_set(count_warnings, NULL);
        int status = et_settings_override(&alone, cases[i].text, &error);
        et_log_set(NULL, NULL);
        const char *said = cases[i].said;
        if (!status != !said || (said && strncmp(error.text, said, strlen(said)) != 0) || warnings)
            fail_msg("%s: %s", cases[i].text, error.text);
    }
    assert_int_equal(et_settings_override(&(et_settings){ .arena = &arena }, "a=1", &error),
                     ET_ECONFIG);
    assert_string_equal(error.text, "a: no such setting (settings has: none)");
    char deep[2000];
    for (int i = 0; i < 998; i++)
        memcpy(deep + 2 * i, "a.", 2);
    strcpy(deep + 2 * 998, "a=1");
    et_settings alone = { .extra = et_value_dict(&arena), .arena = &arena };
    assert_int_equal(et_settings_override(&alone, deep, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "groups are nested more than 64 deep"));
    memset(deep, 'a', 200);
    strcpy(deep + 200, "=1");
    assert_int_equal(et_settings_override(&alone, deep, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "a name has at most 128 bytes"));
}

/* A changed type is logged; a number stays one, and nothing has no type. */
static void test_settings__changed_type(void **state)
{
    (void)state;
    static const char *const quiet[] = { "a=2.5", "n=1", "a=null", "b.x=null", "b={x: 2}" };
    static const char *const logged[] = { "a=x", "a=[1]", "a={x: 1}", "b=1", "b.x=x", "a=true" };
    for (size_t i = 0; i < COUNT(quiet) + COUNT(logged); i++) {
        const bool is_quiet = i < COUNT(quiet);
        et_settings alone = { .extra = et_value_dict(&arena), .arena = &arena };
        assert_int_equal(et_settings_override(&alone, "a=1,n=null,b.x=1", &error), ET_OK);
        warnings = 0;
        et_log_set(count_warnings, NULL);
        assert_int_equal(
            et_settings_override(&alone, is_quiet ? quiet[i] : logged[i - COUNT(quiet)], &error),
            ET_OK);
        et_log_set(NULL, NULL);
        assert_int_equal(warnings, !is_quiet);
    }
}

/* Texts of a program are no option's values. */
static void test_settings__of_a_program(void **state)
{
    (void)state;
    static const struct {
        const char *text, *said;
    } cases[] = {
        { "aa=5", "aa: no such setting" },
        { "a=five", "a: \"five\" is not an integer" },
        { "c[1]=3", "c[0] is missing; set all items" },
        { "c[0]=[", "c[0]: not YAML" },
        { "a: 5\n b: 7", "settings" },
        { "a", "a: neither key=value (such as optimizer.name=value)" },
    };
    settings.source = NULL;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_not_equal(et_settings_override(&settings, cases[i].text, &error), ET_OK);
        assert_int_equal(strncmp(error.text, cases[i].said, strlen(cases[i].said)), 0);
        assert_null(strstr(error.text, "--"));
    }
    et_settings_lock(&settings);
    assert_int_equal(et_settings_override(&settings, "a=1", &error), ET_ECONFIG);
    assert_string_equal(error.text, "the settings are locked; set it before the lock");
}

/* At any depth, by any way; a name that is wrong is not looked at any more. */
static void test_settings__locked(void **state)
{
    (void)state;
    write_file("one.yaml", "a: 10\n");
    et_value *dict = et_value_dict(&arena);
    et_value_set_int(et_value_set_dict(et_value_set_dict(dict, "optimizer"), "adam"), "steps", 5);
    et_settings_lock(&settings);
    assert_int_equal(et_settings_override(&settings, "optimizer.adam.steps=5", &error), ET_ECONFIG);
    assert_string_equal(error.text, "--set: the settings are locked; set it before the lock");
    assert_int_equal(et_settings_read_file(&settings, "one.yaml", &error), ET_ECONFIG);
    assert_int_equal(et_settings_read(&settings, dict, "made", &error), ET_ECONFIG);
    assert_string_equal(error.text, "made: the settings are locked; set it before the lock");
    assert_int_equal(given.optimizer.adam.steps, 0);
    assert_int_equal(given.a, 1);
}

static void test_settings__restrictions(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int status;
        const char *said; /* NULL: nothing */
    } cases[] = {
        { "a < b", 0, NULL },
        { "a<=b", 0, NULL },
        { "a == 1", 0, NULL },
        { "a == 1.0", 0, NULL },
        { "a != b", 0, NULL },
        { "b >= a", 0, NULL },
        { "b > -3", 0, NULL },
        { "rate == 5e-1", 0, NULL },
        { "text == None", 0, NULL },
        { "c == None", 0, NULL },
        { "optimizer.type == None", 0, NULL },
        { "optimizer.sgd.momentum < optimizer.adam.beta", 0, NULL },
        { "flag == false", 0, NULL },
        { "optimizer == optimizer", 0, NULL },
        { "optimizer.sgd == optimizer.sgd", 0, NULL },
        { "optimizer.sgd != optimizer.adam", 0, NULL },
        { "c == c", 0, NULL },
        { "optimizer.sgd == optimizer.adam", ET_ECONFIG,
          "optimizer.sgd is {\"momentum\":0.0}, optimizer.adam is {\"beta\":0.9" },
        { "optimizer.sgd == 5", ET_ECONFIG, "must hold" },
        { "a <= 1", 0, NULL },
        { "b >= 2", 0, NULL },
        { "a < 1", ET_ECONFIG, "a < 1 must hold" },
        { "b > 2", ET_ECONFIG, "b > 2 must hold" },
        { "b <= 1", ET_ECONFIG, "b <= 1 must hold" },
        { "1 >= b", ET_ECONFIG, "1 >= b must hold" },
        { "a > b", ET_ECONFIG, "a > b must hold, and a is 1, b is 2; change one" },
        { "a == b", ET_ECONFIG, "a == b must hold, and a is 1, b is 2" },
        { "a != 1", ET_ECONFIG, "a != 1 must hold, and a is 1; change" },
        { "3 <= b", ET_ECONFIG, "3 <= b must hold, and b is 2" },
        { "text != None", ET_ECONFIG, "text != None must hold, and text is null" },
        { "optimizer.type != None", ET_ECONFIG, "optimizer.type is none" },
        { "optimizer.adam.beta <= rate", ET_ECONFIG, "optimizer.adam.beta is 0.9, rate is 0.5" },
        { "text < b", ET_ECONFIG, "text < b must hold for numbers, and text is null, b is 2" },
        { "c >= 1", ET_ECONFIG, "c >= 1 must hold for numbers, and c is []" },
        { "text == a", ET_ECONFIG, "text is null, a is 1" },
        { "a", ET_EUSAGE,
          "the restriction \"a\" is not of the form A op B, op being one of == != <= < >= >" },
        { "a ~ b", ET_EUSAGE,
          "the restriction \"a ~ b\" is not of the form A op B, op being one of == != <= < >= >" },
        { "a < ", ET_EUSAGE, "\" is not of the form A op B, op being one of == != <= < >= >" },
        { "a < b < 5", ET_EUSAGE, "\" is not of the form A op B, op being one of == != <= < >= >" },
        { "a = b", ET_EUSAGE, "\" is not of the form A op B, op being one of == != <= < >= >" },
        { "a < bb", ET_EUSAGE, "\": no setting is called bb" },
        { "a < 5x", ET_EUSAGE, "5x is not a number" },
        { "", ET_EUSAGE, "\" is not of the form A op B, op being one of == != <= < >= >" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *const one[] = { "a >= 1", cases[i].text, NULL };
        int status = et_settings_check(&settings, one, &error);
        if (status != cases[i].status || (cases[i].said && !strstr(error.text, cases[i].said)))
            fail_msg("%s: status %d: %s", cases[i].text, status, error.text);
    }
    assert_int_equal(et_settings_check(&settings, NULL, &error), ET_OK);
    /* Texts. */
    static const char *const same[] = { "text == text", "text != optimizer.type", NULL };
    assert_int_equal(et_settings_override(&settings, "text=x", &error), ET_OK);
    assert_int_equal(et_settings_override(&settings, "", &error), ET_OK);
    assert_int_equal(et_settings_check(&settings, same, &error), ET_OK);
}

/* A dict of all settings makes a second struct equal; an unknown member is refused by its name. */
static void test_settings__dict(void **state)
{
    (void)state;
    assert_int_equal(et_settings_override(&settings, "a=5, optimizer.type=sgd, c=[1, 2]", &error),
                     ET_OK);
    et_value *dict = et_settings_dict(&settings, settings.arena);
    assert_int_equal(et_value_get(dict, "a")->integer, 5);
    assert_int_equal(et_settings_override(&settings, "a=7, optimizer.type=adam, c=[3]", &error),
                     ET_OK);
    assert_int_equal(et_settings_read(&settings, dict, "kept", &error), ET_OK);
    assert_int_equal(
        et_settings_check(&settings, (const char *const[]){ "a == 5", "c != None", NULL }, &error),
        ET_OK);
    et_value_set_int(dict, "none", 1);
    assert_int_equal(et_settings_read(&settings, dict, "kept", &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "kept: none"));
}

/* Only the chosen branch is written; settings without meaning are not written, extra ones are. */
static void test_settings__written(void **state)
{
    (void)state;
    FILE *file;
    char text[500] = "";
    settings.extra = et_value_dict(&arena);
    et_value_set_int(settings.extra, "mine", 3);
    assert_int_equal(
        et_settings_override(&settings, "optimizer.type=adam,optimizer.sgd.momentum=0.5", &error),
        0);
    assert_int_equal(et_settings_write(&settings, "params.yaml", &error), ET_OK);
    file = fopen("params.yaml", "r");
    assert_non_null(file);
    assert_true(fread(text, 1, sizeof text - 1, file) > 0);
    fclose(file);
    assert_string_equal(text, "optimizer:\n  type: adam\n  adam:\n    beta: 0.9\n    steps: 0\n"
                              "a: 1\nb: 2\nrate: 0.5\nflag: false\nc: []\ntext: null\nmine: 3\n");
    et_fields_defaults(&table, &given);
    assert_int_equal(et_settings_override(&settings, "params.yaml", &error), ET_OK);
    assert_int_equal(given.optimizer.type, 2);
    assert_true(given.optimizer.sgd.momentum == 0);
    /* none is chosen: none is written */
    assert_int_equal(et_settings_override(&settings, "optimizer.type=null", &error), ET_OK);
    et_value *effective = et_fields_effective(&table, &given, &arena);
    assert_int_equal(et_value_get(effective, "optimizer")->count, 1);
    assert_int_equal(et_value_get(et_fields_echo(&table, &given, &arena), "optimizer")->count, 4);
}

/* A choice with the value "none", by Model Garden's word. */
static void test_settings__choice_of_null(void **state)
{
    static const char *const words[] = { "null", "false", "true", NULL };
    static const et_field choice[] = {
        ET_FIELD_CHOICE(options, flag_or_none, 0, words, "yes, no or nothing"),
        ET_FIELD_END,
    };
    static const et_fields choices = { "choices", choice };
    static const char *const is[] = { "flag_or_none == None", NULL };
    static const char *const is_not[] = { "flag_or_none != None", NULL };
    et_settings s = { .table = &choices, .options = &given, .arena = &arena };
    (void)state;
    et_fields_defaults(&choices, &given);
    assert_int_equal(et_settings_check(&s, is, &error), ET_OK);
    assert_int_equal(et_settings_check(&s, is_not, &error), ET_ECONFIG);
    assert_int_equal(et_settings_override(&s, "flag_or_none=true", &error), ET_OK);
    assert_int_equal(et_settings_check(&s, is, &error), ET_ECONFIG);
    assert_int_equal(et_settings_check(&s, is_not, &error), ET_OK);
}

static int use_scarcely(et_arena *scarce)
{
    static const char *const restrictions[] = { "a < b", "text == None", NULL };
    et_settings s = { .table = &table, .options = &given, .arena = scarce };
    s.extra = et_value_dict(scarce);
    int status = s.extra ? ET_OK : ET_ENOMEM;
    if (!status)
        status = et_settings_override(&s, "c[1]=y,c[0]=x,a=1,n.m=1", &error);
    if (!status)
        status = et_settings_override(&s, "{b: 3, n: {k: {l: 5}}}", &error);
    if (!status)
        status = et_settings_check(&s, restrictions, &error);
    return status ? status : et_settings_write(&s, "scarce.yaml", &error);
}

static void quiet(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    (void)level;
    (void)text;
}

static void test_settings__out_of_memory(void **state)
{
    (void)state;
    et_log_set(quiet, NULL);
    long calls = 0;
    do {
        enter(NULL);
        unlink("scarce.yaml");
        scarce_begin(calls++);
        et_arena scarce = ET_ARENA_INIT;
        int status = use_scarcely(&scarce);
        et_arena_release(&scarce);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
        assert_int_equal(access("scarce.yaml", F_OK) == 0, !status);
    } while (scarce_failed);
    et_log_set(NULL, NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_settings__override),       CASE(test_settings__refused),
        CASE(test_settings__order),          CASE(test_settings__extra),
        CASE(test_settings__locked),         CASE(test_settings__restrictions),
        CASE(test_settings__choice_of_null), CASE(test_settings__written),
        CASE(test_settings__dict_alone),     CASE(test_settings__changed_type),
        CASE(test_settings__of_a_program),   CASE(test_settings__dict),
        CASE(test_settings__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
