
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <etude/log.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/main.h"
#include "base/scarce.h"
#include "base/set_field.h"
#include "base/values/yaml.h"

/* Options as a translation task has them: groups in groups, every kind of member. */
typedef struct encoder {
    int64_t num_layers, num_attention_heads, intermediate_size;
    int activation;
    double dropout_rate;
    bool use_bias;
} encoder;

typedef struct model {
    encoder encoder, decoder;
    double alpha;
} model;

typedef struct part {
    et_strings path;
    double weight;
} part;

typedef struct options {
    model model;
    et_structs mix;
    et_strings source_path;
    const char *init_checkpoint;
    int64_t seed;
    double limit;
} options;

static const char *const activations[] = { "relu", "gelu", "swish", NULL };

static const et_field encoder_members[] = {
    ET_FIELD_INT(encoder, num_layers, 6, 1, 100, "layers"),
    ET_FIELD_INT(encoder, num_attention_heads, 8, 1, INT64_MAX, "heads that share a layer's width"),
    ET_FIELD_INT(encoder, intermediate_size, 2048, 1, 4503599627370496.0, "width inside a layer"),
    ET_FIELD_CHOICE(encoder, activation, 1, activations, "of the inner layer"),
    ET_FIELD_FLOAT(encoder, dropout_rate, 0.1, 0, 1, "of each layer's output"),
    ET_FIELD_BOOL(encoder, use_bias, false, "whether dense layers add one"),
    ET_FIELD_END,
};
static const et_fields encoder_table = { "encoder", encoder_members };

static const et_field model_members[] = {
    ET_FIELD_STRUCT(model, encoder, &encoder_table, "the encoder"),
    ET_FIELD_STRUCT(model, decoder, &encoder_table, "the decoder"),
    ET_FIELD_FLOAT(model, alpha, 0.6, 0, INFINITY, "length penalty"),
    ET_FIELD_END,
};
static const et_fields model_table = { "model", model_members };

static const et_field part_members[] = {
    ET_FIELD_STRINGS(part, path, "files"),
    ET_FIELD_FLOAT(part, weight, 1, 1e-9, 1e9, "its share"),
    ET_FIELD_END,
};
static const et_fields part_table = { "mix", part_members };

static const et_field members[] = {
    ET_FIELD_STRUCT(options, model, &model_table, "the model"),
    ET_FIELD_STRUCTS(options, mix, part, &part_table, "several sources"),
    ET_FIELD_STRINGS(options, source_path, "files with a sentence a line"),
    ET_FIELD_STRING(options, init_checkpoint, NULL, "where to start from; null: from nothing"),
    ET_FIELD_INT(options, seed, 1, INT64_MIN, INT64_MAX, "of all random numbers"),
    ET_FIELD_FLOAT(options, limit, 2.5, -INFINITY, INFINITY, "any number"),
    ET_FIELD_END,
};
static const et_fields table = { "translation", members };

static et_arena arena;
static et_error error;
static options given;

static int enter(void **state)
{
    (void)state;
    error = (et_error)ET_ERROR_INIT;
    memset(&given, 0xee, sizeof given);
    et_fields_defaults(&table, &given);
    return 0;
}

static int leave(void **state)
{
    (void)state;
    et_arena_release(&arena);
    return 0;
}

static int read_by(const et_fields *fields, const char *text, const char *path)
{
    et_value *value = NULL;
    if (et_yaml_parse(&value, &arena, text, strlen(text), "f.yaml", &error))
        fail_msg("%s", error.text);
    return et_fields_read(fields, &given, value, &arena, "f.yaml", path, &error);
}

static int read_text(const char *text, const char *path)
{
    return read_by(&table, text, path);
}

static int set(const char *path, const char *text)
{
    return set_field(&table, &given, path, text, &arena, &error);
}

/* A line for each row: "path  type  default (range)  help". */
static void print_rows(const et_fields *of, et_strbuf *out, const char *path)
{
    for (const et_field *field = of->fields; field->kind != ET_FIELD_KIND_END; field++) {
        et_strbuf whole = ET_STRBUF_INIT, range = ET_STRBUF_INIT;
        et_strbuf_printf(&whole, "%s%s%s", path, *path ? "." : "", field->name);
        et_field_range(field, &range);
        if (field->kind != ET_FIELD_KIND_STRUCT) {
            et_strbuf_printf(out, "%-40s  %-8s  ", et_strbuf_text(&whole), et_field_type(field));
            et_field_default(field, out);
            et_strbuf_printf(out, range.length ? " (%s)  " : "%s  ", et_strbuf_text(&range));
            et_strbuf_printf(out, "%s\n", field->help);
        }
        if (field->kind == ET_FIELD_KIND_STRUCTS)
            et_strbuf_append(&whole, "[]");
        out->failed |= whole.failed || range.failed;
        if (field->kind == ET_FIELD_KIND_STRUCT || field->kind == ET_FIELD_KIND_STRUCTS)
            print_rows(field->nested, out, et_strbuf_text(&whole));
        et_strbuf_release(&range);
        et_strbuf_release(&whole);
    }
}

static void test_fields__defaults(void **state)
{
    (void)state;
    assert_int_equal(given.model.encoder.num_layers, 6);
    assert_int_equal(given.model.decoder.num_attention_heads, 8);
    assert_int_equal(given.model.decoder.activation, 1);
    assert_true(given.model.encoder.dropout_rate == 0.1);
    assert_false(given.model.encoder.use_bias);
    assert_null(given.source_path.items);
    assert_int_equal(given.source_path.count, 0);
    assert_null(given.init_checkpoint);
    assert_int_equal(given.seed, 1);
}

static void test_fields__reads(void **state)
{
    (void)state;
    assert_int_equal(read_text("model:\n"
                               "  encoder: {num_layers: 4, activation: swish, use_bias: yes}\n"
                               "  decoder:\n"
                               "  alpha: 1\n"
                               "source_path: [a.en, 2.0, true]\n"
                               "init_checkpoint: 1e3\n"
                               "seed: 4e3\n"
                               "limit: -.inf\n",
                               ""),
                     ET_OK);
    assert_int_equal(given.model.encoder.num_layers, 4);
    assert_int_equal(given.model.encoder.activation, 2);
    assert_true(given.model.encoder.use_bias);
    assert_int_equal(given.model.encoder.intermediate_size, 2048); /* not named: stays */
    assert_int_equal(given.model.decoder.num_layers, 6);
    assert_true(given.model.alpha == 1);
    assert_int_equal(given.source_path.count, 3);
    assert_string_equal(given.source_path.items[0], "a.en");
    assert_string_equal(given.source_path.items[1], "2.0"); /* as written */
    assert_string_equal(given.source_path.items[2], "true");
    assert_string_equal(given.init_checkpoint, "1e3");
    assert_int_equal(given.seed, 4000);
    assert_true(isinf(given.limit));
}

/* The forms that each kind takes, and what becomes of them. */
static void test_fields__set(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int expected;
    } bools[] = { { "true", 1 }, { "false", 0 }, { "yes", 1 }, { "NO", 0 },  { "on", 1 },
                  { "Off", 0 },  { "1", 1 },     { "0", 0 },   { "TRUE", 1 } };
    for (size_t i = 0; i < COUNT(bools); i++) {
        given.model.encoder.use_bias = !bools[i].expected;
        assert_int_equal(set("model.encoder.use_bias", bools[i].text), ET_OK);
        assert_int_equal(given.model.encoder.use_bias, bools[i].expected);
    }
    static const struct {
        const char *text;
        int64_t expected;
    } integers[] = { { "7", 7 },
                     { "4.0", 4 },
                     { "-4e3", -4000 },
                     { "0x10", 16 },
                     { "1e18", 1000000000000000000 },
                     { "9223372036854775807", INT64_MAX },
                     { "-9223372036854775808", INT64_MIN } };
    for (size_t i = 0; i < COUNT(integers); i++) {
        assert_int_equal(set("seed", integers[i].text), ET_OK);
        assert_true(given.seed == integers[i].expected);
    }
    assert_int_equal(set("limit", "1e-8"), ET_OK);
    assert_true(given.limit == 1e-8);
    assert_int_equal(set("limit", "3"), ET_OK);
    assert_true(given.limit == 3);
    assert_int_equal(set("init_checkpoint", "runs/a: b"), ET_OK);
    assert_string_equal(given.init_checkpoint, "runs/a: b");
    assert_int_equal(set("init_checkpoint", "'null'"), ET_OK);
    assert_string_equal(given.init_checkpoint, "null");
    assert_int_equal(set("init_checkpoint", "null"), ET_OK);
    assert_null(given.init_checkpoint);
    assert_int_equal(set("source_path", "help.en"), ET_OK);
    assert_int_equal(given.source_path.count, 1);
    assert_string_equal(given.source_path.items[0], "help.en");
    assert_int_equal(set("source_path", "[a, b]"), ET_OK);
    assert_int_equal(given.source_path.count, 2);
    assert_int_equal(set("source_path", "[]"), ET_OK);
    assert_int_equal(given.source_path.count, 0);
    assert_int_equal(set("mix", "[{path: a}, {weight: 2}]"), ET_OK);
    assert_int_equal(given.mix.count, 2);
    const part *mix = given.mix.items;
    assert_string_equal(mix[0].path.items[0], "a");
    assert_true(mix[0].weight == 1 && mix[1].weight == 2 && mix[1].path.count == 0);
    const et_structs shared = given.mix;
    assert_int_equal(set("mix[1].weight", "4"), ET_OK);
    assert_int_equal(set("mix[0]", "{weight: 3}"), ET_OK);
    mix = given.mix.items;
    assert_true(mix[0].weight == 3 && mix[1].weight == 4 && given.mix.count == 2);
    assert_string_equal(mix[0].path.items[0], "a");
    mix = shared.items; /* the struct from which it was shared is unchanged */
    assert_true(mix[0].weight == 1 && mix[1].weight == 2);
    assert_int_equal(set("mix", "{weight: 5}"), ET_OK); /* one counts as a list of one */
    assert_int_equal(given.mix.count, 1);
    assert_int_equal(set("mix", "null"), ET_OK);
    assert_int_equal(given.mix.count, 0);
    assert_int_equal(set("model.decoder", "{num_layers: 2, activation: relu}"), ET_OK);
    assert_int_equal(given.model.decoder.num_layers, 2);
    assert_int_equal(given.model.decoder.activation, 0);
}

/* Steps given in epochs are kept as given, and converted once the steps of an epoch are known. */
static void test_fields__epochs(void **state)
{
    (void)state;
    static const et_field rows[] = {
        ET_FIELD_INT(options, seed, 100, 0, 1e6, "steps between", .epochs = true),
        ET_FIELD_EPOCHS("passes", options, seed, "in passes"), ET_FIELD_END
    };
    static const et_fields steps = { "steps", rows };
    static const struct {
        const char *text, *echo;
        int64_t steps; /* of an epoch of 250 */
    } right[] = { { "2ep", "2ep", 500 },
                  { "0.5ep", "0.5ep", 125 },
                  { "1.250ep", "1.25ep", 313 },
                  { "0.001ep", "0.001ep", 1 },
                  { "1e3ep", "1000ep", 250000 } };
    for (size_t i = 0; i < COUNT(right); i++) {
        assert_int_equal(set_field(&steps, &given, "seed", right[i].text, &arena, &error), ET_OK);
        assert_true(et_field_steps(given.seed, 250) == right[i].steps);
        const et_value *echo = et_fields_echo(&steps, &given, &arena);
        assert_string_equal(et_value_get(echo, "seed")->string, right[i].echo);
    }
    assert_int_equal(set_field(&steps, &given, "seed", "7", &arena, &error), ET_OK);
    assert_true(et_field_steps(given.seed, 250) == 7);
    assert_true(et_field_steps(INT64_MIN, 1) == INT64_MAX / 1000 + 1);
    /* A setting by its alias; the later one wins, and the member's own name is saved. */
    assert_int_equal(set_field(&steps, &given, "passes", "2.5", &arena, &error), ET_OK);
    assert_true(et_field_steps(given.seed, 100) == 250);
    assert_int_equal(set_field(&steps, &given, "passes", "null", &arena, &error), ET_OK);
    assert_true(et_field_steps(given.seed, 100) == 250);
    const et_value *saved = et_fields_effective(&steps, &given, &arena);
    assert_string_equal(et_value_get(saved, "seed")->string, "2.5ep");
    assert_null(et_value_get(saved, "passes"));
    assert_int_equal(set_field(&steps, &given, "passes", "-1", &arena, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "a positive number of epochs"));
    assert_int_equal(set_field(&steps, &given, "seed", "7", &arena, &error), ET_OK);
    static const char *const wrong[] = { "ep",    "0ep", "-1ep",   "nanep",
                                         "2 eps", "ep2", "1e30ep", ".infep" };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(set_field(&steps, &given, "seed", wrong[i], &arena, &error), ET_ECONFIG);
        assert_non_null(strstr(error.text, "is not an integer, or epochs such as 2ep"));
        assert_true(given.seed == 7);
    }
    assert_int_equal(set("seed", "2ep"), ET_ECONFIG);
    /* One dict may use one of the names. */
    assert_int_equal(read_by(&steps, "passes: 2\nseed: 5", ""), ET_ECONFIG);
    assert_string_equal(error.text, "f.yaml:1: passes: seed is set as well; remove one of them");
    assert_int_equal(read_by(&steps, "{seed: 5, passes: null}", ""), ET_OK);
    assert_true(given.seed == 5);
}

static void test_fields__set_messages(void **state)
{
    (void)state;
    static const struct {
        const char *path, *text, *expected;
    } rows[] = {
        { "model.encoder.num_heads", "4",
          "--set model.encoder.num_heads: no such setting. Nearest: num_attention_heads "
          "(model.encoder has: num_layers, num_attention_heads, intermediate_size, activation, "
          "...)" },
        { "modle.encoder.num_layers", "4",
          "--set modle: no such setting. Nearest: model (translation has: model, mix, source_path, "
          "init_checkpoint, seed, limit)" },
        { "model.zzz", "4",
          "--set model.zzz: no such setting (model has: encoder, decoder, alpha)" },
        { "num_layer", "4", "--set num_layer: no such setting. Nearest: model.encoder.num_layers" },
        { "seed_", "4", "--set seed_: no such setting. Nearest: seed (" },
        { "", "4", "--set : no such setting (translation has: model," },
        { "model.", "4", "--set model.: no such setting (model has: " },
        { "model..alpha", "4", "--set model.: no such setting (model has: " },
        { "seed.x", "4",
          "--set seed.x: seed is a single setting, not a group; remove what follows it" },
        { "model.encoder.num_layers", "0",
          "--set model.encoder.num_layers: 0 is out of range; allowed: 1 to 100" },
        { "model.encoder.num_layers", "1e3",
          "--set model.encoder.num_layers: 1e3 is out of range; allowed: 1 to 100" },
        { "model.encoder.num_attention_heads", "-1",
          "--set model.encoder.num_attention_heads: -1 is out of range; allowed: 1 or more" },
        { "model.encoder.num_layers", "2.5",
          "--set model.encoder.num_layers: 2.5 is not an integer" },
        { "model.encoder.num_layers", "four",
          "--set model.encoder.num_layers: \"four\" is not an integer" },
        { "model.encoder.num_layers", "'4'",
          "--set model.encoder.num_layers: \"4\" is not an integer" },
        { "model.encoder.num_layers", "",
          "--set model.encoder.num_layers: \"\" is not an integer" },
        { "model.encoder.num_layers", "[4]",
          "--set model.encoder.num_layers: needs an integer, not a list" },
        { "model.encoder.num_layers", "true",
          "--set model.encoder.num_layers: true is not an integer" },
        { "seed", "1e19", "--set seed: 1e19 is not an integer" },
        { "seed", "99999999999999999999", "--set seed: 99999999999999999999 does not fit in 64" },
        { "model.encoder.dropout_rate", "1.5",
          "--set model.encoder.dropout_rate: 1.5 is out of range; allowed: 0 to 1" },
        { "model.encoder.dropout_rate", ".nan",
          "--set model.encoder.dropout_rate: .nan is not a finite number" },
        { "limit", ".nan", "--set limit: .nan is not a finite number" },
        { "limit", "high", "--set limit: \"high\" is not a number" },
        { "model.encoder.use_bias", "2", "--set model.encoder.use_bias: 2 is not true or false" },
        { "model.encoder.use_bias", "ja",
          "--set model.encoder.use_bias: \"ja\" is not true or false" },
        { "model.encoder.activation", "gleu",
          "--set model.encoder.activation: no choice is called gleu. Nearest: gelu (allowed: relu, "
          "gelu, swish)" },
        { "model.encoder.activation", "7",
          "--set model.encoder.activation: no choice is called 7 (allowed: relu, gelu, swish)" },
        { "model.encoder.activation", "{a: b}",
          "--set model.encoder.activation: needs one name, not a group of settings" },
        { "model.encoder", "4",
          "--set model.encoder: a group of settings, not an integer; name one setting of the group "
          "(num_layers," },
        { "model.encoder", "{num_head: 4}",
          "--set model.encoder.num_head: no such setting. Nearest: num_attention_heads" },
        { "init_checkpoint", "[a]", "--set init_checkpoint: needs text, not a list" },
        { "mix", "4",
          "--set mix[0]: a group of settings, not an integer; name one setting of the group (" },
        { "mix", "[{path: a}, {weigth: 2}]",
          "--set mix[1].weigth: no such setting. Nearest: weight (mix[1] has: path, weight)" },
        { "mix", "[{weight: 0}]",
          "--set mix[0].weight: 0 is out of range; allowed: 1e-09 to 1,000,000,000" },
        { "mix.weight", "3",
          "--set mix.weight: mix is a single setting, not a group; remove what follows it" },
        { "mix[9].weight", "3", "--set mix[9].weight: mix has " },
        { "mix[x].weight", "3", "--set mix[x].weight: mix has " },
        { "seed[0].x", "3",
          "--set seed[0].x: seed is a single setting, not a group; remove what follows it" },
        { "source_path", "[a, [b]]", "--set source_path: item 2 is a list, not text" },
        { "source_path", "[null]", "--set source_path: item 1 is nothing, not text" },
        { "source_path", "{a: b}",
          "--set source_path: needs text or a list of texts, not a group of settings" },
        { "source_path", "[a", "--set source_path: not YAML: " },
        { "source_path", "a\xff", "--set source_path: the value is not UTF-8 text" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        options before = given;
        assert_int_equal(set(rows[i].path, rows[i].text), ET_ECONFIG);
        assert_int_equal(error.status, ET_ECONFIG);
        if (strncmp(error.text, rows[i].expected, strlen(rows[i].expected)) != 0)
            fail_msg("\"%s\", not \"%s\"", error.text, rows[i].expected);
        assert_memory_equal(&before, &given, sizeof given);
    }
}

/* Words of a command line are read and refused like values of a file, but without YAML's markup:
 * numbers as in YAML, texts unchanged. */
static void test_fields__words(void **state)
{
    (void)state;
    static const et_field only = ET_FIELD_ONLY("tpu", "null", "there is none");
    assert_int_equal(
        et_field_read_word(&encoder_members[0], &given.model.encoder, "1e1", "--n", &error), 0);
    assert_int_equal(given.model.encoder.num_layers, 10);
    assert_int_equal(
        et_field_read_word(&encoder_members[3], &given.model.encoder, "relu", "--a", &error), 0);
    assert_int_equal(given.model.encoder.activation, 0);
    assert_int_equal(
        et_field_read_word(&encoder_members[4], &given.model.encoder, ".5", "--d", &error), 0);
    assert_true(fabs(given.model.encoder.dropout_rate - 0.5) < 1e-12);
    assert_int_equal(
        et_field_read_word(&encoder_members[5], &given.model.encoder, "1", "--b", &error), 0);
    assert_true(given.model.encoder.use_bias);
    const char *const word = "[a: \xff";
    assert_int_equal(et_field_read_word(&members[3], &given, word, "--init", &error), 0);
    assert_ptr_equal(given.init_checkpoint, word);
    assert_int_equal(et_field_read_word(&only, NULL, "", "--tpu", &error), 0);
    static const struct {
        const et_field *field;
        const char *word, *says;
    } wrong[] = {
        { &encoder_members[0], "0", "--x: 0 is out of range; allowed: 1 to 100" },
        { &encoder_members[0], "1e300", "--x: 1e300 is out of range; allowed: 1 to 100" },
        { &encoder_members[0], "four", "--x: \"four\" is not an integer" },
        { &encoder_members[0], "99999999999999999999", "\" is not an integer" },
        { &encoder_members[3], "rleu",
          "--x: no choice is called rleu. Nearest: relu (allowed: relu," },
        { &encoder_members[4], "1e400", "--x: \"1e400\" is not a number" },
        { &encoder_members[4], ".nan", "--x: .nan is not a finite number" },
        { &encoder_members[5], "ja", "--x: \"ja\" is not true or false" },
        { &only, "local", "--x: local is not allowed here: there is none" },
    };
    const encoder before = given.model.encoder;
    for (size_t i = 0; i < COUNT(wrong); i++) {
        assert_int_equal(
            et_field_read_word(wrong[i].field, &given.model.encoder, wrong[i].word, "--x", &error),
            ET_EUSAGE);
        if (!strstr(error.text, wrong[i].says))
            fail_msg("%s: %s", wrong[i].word, error.text);
    }
    assert_memory_equal(&before, &given.model.encoder, sizeof before);
}

/* A text may be one of a few, and stays a text. */
static void test_fields__texts_of_choices(void **state)
{
    (void)state;
    typedef struct named {
        const char *name;
        et_strings names;
    } named;
    static const et_field rows[] = {
        ET_FIELD_STRING(named, name, "gelu", "one", .choices = activations),
        ET_FIELD_STRINGS(named, names, "several", .choices = activations),
        ET_FIELD_END,
    };
    static const et_fields of = { "named", rows };
    named n;
    et_fields_defaults(&of, &n);
    assert_string_equal(n.name, "gelu");
    assert_int_equal(set_field(&of, &n, "name", "swish", &arena, &error), ET_OK);
    assert_string_equal(n.name, "swish");
    assert_int_equal(set_field(&of, &n, "names", "[relu, gelu]", &arena, &error), ET_OK);
    assert_int_equal(n.names.count, 2);
    assert_int_equal(set_field(&of, &n, "name", "swich", &arena, &error), ET_ECONFIG);
    assert_string_equal(
        error.text,
        "--set name: no choice is called swich. Nearest: swish (allowed: relu, gelu, swish)");
    assert_int_equal(set_field(&of, &n, "names", "[relu, 7]", &arena, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "no choice is called 7 (allowed: relu,"));
    assert_string_equal(n.name, "swish");
    et_strbuf help = ET_STRBUF_INIT;
    print_rows(&of, &help, "");
    assert_non_null(strstr(et_strbuf_text(&help), "gelu (relu, gelu, swish)  one"));
    et_strbuf_release(&help);
}

/* In a file the message starts with file and line; the path that leads to the dict goes before. */
static void test_fields__file_messages(void **state)
{
    (void)state;
    static const struct {
        const char *text, *path, *expected;
    } rows[] = {
        { "seed: 2\nmodel:\n  encoder:\n    num_heads: 4\n", "task",
          "f.yaml:4: task.model.encoder.num_heads: no such setting. Nearest: num_attention_heads "
          "(task.model.encoder has: num_layers, num_attention_heads, intermediate_size, "
          "activation, ...)" },
        { "\nsed: 2\n", "", "f.yaml:2: sed: no such setting. Nearest: seed (translation has: " },
        { "seed: x", "task", "f.yaml:1: task.seed: \"x\" is not an integer" },
        { "[1]", "task",
          "f.yaml:1: task: a group of settings, not a list; name one setting of the group (" },
        { "[1]", "", "f.yaml:1: translation: a group of settings, not a list" },
        { "<<: {seed: 1}", "", "f.yaml:1: <<: no such setting (translation has: " },
        { "model.encoder.num_heads: 4", "task",
          "f.yaml:1: task.model.encoder.num_heads: no such setting. Nearest: num_attention_heads" },
        { "model: {alpha: 1}\nmodel.alpha: 2", "task",
          "f.yaml:2: task.model.alpha: set twice, as a group and by a dotted name; remove one" },
        { "model.alpha: 1\nmodel: 2", "",
          "f.yaml:2: model: set twice, as a group and by a dotted name; remove one" },
        { "model.alpha.x: 1", "", "f.yaml:1: model.alpha: needs a number, not a group" },
        { "seed.: 1", "", "f.yaml:1: seed: " },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        assert_int_equal(read_text(rows[i].text, rows[i].path), ET_ECONFIG);
        if (strncmp(error.text, rows[i].expected, strlen(rows[i].expected)) != 0)
            fail_msg("\"%s\", not \"%s\"", error.text, rows[i].expected);
    }
    et_value *made = et_value_dict(&arena); /* by program: no line to name */
    et_value_set_string(made, "seed", "x");
    assert_int_equal(et_fields_read(&table, &given, made, &arena, "defaults", "", &error),
                     ET_ECONFIG);
    assert_string_equal(error.text, "defaults: seed: \"x\" is not an integer");
    assert_int_equal(et_fields_read(&table, &given, made, &arena, "defaults", "", NULL),
                     ET_ECONFIG);
}

/* A value of any length is cut in the message, which stays one line with the place first. */
static void test_fields__long_value(void **state)
{
    (void)state;
    static char text[5001];
    memset(text, 'x', 5000);
    assert_int_equal(set("seed", text), ET_ECONFIG);
    assert_int_equal(strlen(error.text), strlen("--set seed: \"\" is not an integer") + 60);
    assert_int_equal(set(text, "1"), ET_ECONFIG);
    assert_memory_equal(error.text, "--set xxx", 9);
}

static void test_fields__echo_round_trip(void **state)
{
    (void)state;
    static const char *const settings[][2] = {
        { "model.encoder.num_layers", "3" },
        { "model.decoder.activation", "swish" },
        { "model.decoder.use_bias", "on" },
        { "model.alpha", ".inf" },
        { "source_path", "['1', 'a: b', ü]" },
        { "init_checkpoint", "'null'" },
        { "seed", "-9223372036854775808" },
        { "limit", "0.1" },
        { "mix", "[{path: [a, b], weight: 3}, {path: c}]" },
    };
    for (size_t i = 0; i < COUNT(settings); i++)
        assert_int_equal(set(settings[i][0], settings[i][1]), ET_OK);
    et_strbuf text = ET_STRBUF_INIT, again = ET_STRBUF_INIT;
    et_yaml_print(&text, et_fields_echo(&table, &given, &arena));
    assert_string_equal(et_strbuf_text(&text), "model:\n"
                                               "  encoder:\n"
                                               "    num_layers: 3\n"
                                               "    num_attention_heads: 8\n"
                                               "    intermediate_size: 2048\n"
                                               "    activation: gelu\n"
                                               "    dropout_rate: 0.1\n"
                                               "    use_bias: false\n"
                                               "  decoder:\n"
                                               "    num_layers: 6\n"
                                               "    num_attention_heads: 8\n"
                                               "    intermediate_size: 2048\n"
                                               "    activation: swish\n"
                                               "    dropout_rate: 0.1\n"
                                               "    use_bias: true\n"
                                               "  alpha: .inf\n"
                                               "mix:\n"
                                               "  - path: [a, b]\n"
                                               "    weight: 3.0\n"
                                               "  - path: [c]\n"
                                               "    weight: 1.0\n"
                                               "source_path: [\"1\", \"a: b\", \"ü\"]\n"
                                               "init_checkpoint: \"null\"\n"
                                               "seed: -9223372036854775808\n"
                                               "limit: 0.1\n");
    memset(&given, 0, sizeof given);
    assert_int_equal(read_text(et_strbuf_text(&text), ""), ET_OK);
    et_yaml_print(&again, et_fields_echo(&table, &given, &arena));
    assert_string_equal(et_strbuf_text(&again), et_strbuf_text(&text));
    et_strbuf_release(&text);
    et_strbuf_release(&again);
}

static void test_fields__help(void **state)
{
    (void)state;
    et_strbuf text = ET_STRBUF_INIT;
    print_rows(&table, &text, "task");
    static const char *const lines[] = {
        "task.model.encoder.num_layers             integer   6 (1 to 100)  layers\n",
        "encoder.intermediate_size      integer   2048 (1 to 4,503,599,627,370,496)  wid",
        "task.model.decoder.activation             choice    gelu (relu, gelu, swish)  of",
        "task.model.decoder.use_bias               bool      false  whether dense layers add one\n",
        "task.model.alpha                          number    0.6 (0 or more)  length penalty\n",
        "task.mix                                  groups    []  several sources\n",
        "task.mix[].weight                         number    1 (1e-09 to 1,000,000,000)  its share",
        "task.source_path                          texts     []  files with a sentence a line\n",
        "task.init_checkpoint                      text      null  where to start from",
        "task.seed                                 integer   1  of all random numbers\n",
        "task.limit                                number    2.5  any number\n",
    };
    for (size_t i = 0; i < COUNT(lines); i++)
        assert_contains(et_strbuf_text(&text), lines[i]);
    int count = 0;
    for (const char *c = et_strbuf_text(&text); *c; c++)
        count += *c == '\n';
    assert_int_equal(count, 20);
    et_strbuf_reset(&text);
    print_rows(&table, &text, "");
    assert_memory_equal(et_strbuf_text(&text), "model.encoder.num_layers  ", 26);
    et_strbuf_release(&text);
}

/* A tree with so many texts that the arena takes several blocks. */
static int read_scarcely(const et_value *dict, et_arena *scarce)
{
    int status = et_fields_read(&table, &given, dict, scarce, "f.yaml", "", &error);
    if (!status)
        status = set_field(&table, &given, "source_path", "[a, b]", scarce, &error);
    return status;
}

static void test_fields__out_of_memory(void **state)
{
    (void)state;
    et_value *dict = et_value_dict(&arena), *list = et_value_set_list(dict, "source_path");
    for (int i = 0; i < 10000; i++)
        et_value_add_string(list, "some/path/to/a/file.en");
    et_value_set_int(et_value_set_dict(et_value_set_dict(dict, "model"), "encoder"), "num_layers",
                     2);
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        scarce_begin(calls);
        et_arena scarce = ET_ARENA_INIT;
        status = read_scarcely(dict, &scarce);
        et_arena_release(&scarce);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

static void test_fields__echo_out_of_memory(void **state)
{
    (void)state;
    static const char *items[4000];
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = "some/path/to/a/file.en";
    given.source_path = (et_strings){ items, COUNT(items) };
    const et_value *dict = NULL;
    for (long calls = 0; !dict; calls++) {
        scarce_begin(calls);
        et_arena scarce = ET_ARENA_INIT;
        et_strbuf text = ET_STRBUF_INIT;
        dict = et_fields_echo(&table, &given, &scarce);
        assert_int_equal(dict == NULL, scarce_failed);
        print_rows(&table, &text, "");
        assert_true(text.failed == scarce_failed || dict);
        et_strbuf_release(&text);
        et_arena_release(&scarce);
        scarce_end();
    }
}

/* If there is no memory for the list of names, an unknown name is reported as a lack of memory. */
static void test_fields__message_out_of_memory(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    for (long calls = 0; status == ET_ENOMEM; calls++) {
        scarce_begin(calls);
        et_arena scarce = ET_ARENA_INIT;
        status = set_field(&table, &given, "model.encoder.num_heads", "4", &scarce, &error);
        et_arena_release(&scarce);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_ECONFIG);
    }
}

typedef struct extra {
    bool there;
    int64_t size;
} extra;

typedef struct with_extra {
    extra extra;
} with_extra;

static const et_field extra_members[] = {
    ET_FIELD_BOOL(extra, there, false, "whether there is one", .selects = true),
    ET_FIELD_INT(extra, size, 3, 0, 9, "of it"),
    ET_FIELD_ONLY("name", NULL, "what others call it"),
    ET_FIELD_END,
};
static const et_fields extra_table = { "extra", extra_members };
static const et_field with_extra_members[] = {
    ET_FIELD_STRUCT(with_extra, extra, &extra_table, "a group that may be missing"),
    ET_FIELD_END,
};
static const et_fields with_extra_table = { "with_extra", with_extra_members };

/* A group with a member for its own presence, and a setting that accepts any value. */
static void test_fields__group_that_may_be_missing(void **state)
{
    static const struct {
        const char *path, *text;
        bool there;
        int64_t size;
    } steps[] = {
        { "extra", "{}", true, 3 },
        { "extra", "null", false, 3 },
        { "extra.size", "4", false, 4 },
        { "extra", "{size: 5, name: x}", true, 5 },
        { "extra", "{there: false, size: 6}", false, 6 },
        { "extra.there", "true", true, 6 },
        { "extra", "{name: 1.5}", true, 6 },
        { "extra.name", "null", true, 6 },
        { "extra", "", false, 6 },
    };
    with_extra has;
    et_strbuf help = ET_STRBUF_INIT;
    (void)state;
    et_fields_defaults(&with_extra_table, &has);
    assert_false(has.extra.there);
    for (size_t i = 0; i < COUNT(steps); i++) {
        if (set_field(&with_extra_table, &has, steps[i].path, steps[i].text, &arena, &error))
            fail_msg("%s", error.text);
        if (has.extra.there != steps[i].there || has.extra.size != steps[i].size)
            fail_msg("%s=%s: there %d, size %d", steps[i].path, steps[i].text, has.extra.there,
                     (int)has.extra.size);
    }
    assert_int_equal(set_field(&with_extra_table, &has, "extra.name", "[x]", &arena, &error),
                     ET_ECONFIG);
    assert_int_equal(set_field(&with_extra_table, &has, "extra", "2", &arena, &error), ET_ECONFIG);
    assert_false(has.extra.there);
    assert_int_equal(set_field(&with_extra_table, &has, "name", "x", &arena, &error), ET_ECONFIG);
    assert_non_null(strstr(error.text, "There is extra.name"));
    const et_value *all = et_fields_echo(&with_extra_table, &has, &arena);
    assert_int_equal(et_value_path(all, "extra.name")->kind, ET_VALUE_NULL);
    assert_null(et_value_path(et_fields_effective(&with_extra_table, &has, &arena), "extra.name"));
    print_rows(&with_extra_table, &help, "");
    assert_non_null(strstr(et_strbuf_text(&help), "null (any value)  what others call it"));
    et_strbuf_release(&help);
}

static int warnings;

static void count_warning(void *unused, et_log_level level, const char *text)
{
    (void)unused;
    warnings +=
        level == ET_LOG_WARNING &&
        strstr(text, "null changes nothing in a group of settings; name the settings to change") !=
            NULL;
}

/* null in place of a group removes it if it may be missing; elsewhere it changes nothing, with a
 * warning if it was written. */
static void test_fields__null_for_a_group(void **state)
{
    typedef struct two {
        part always, maybe;
    } two;
    static const et_field rows[] = {
        ET_FIELD_STRUCT(two, always, &part_table, "there in any case"),
        ET_FIELD_STRUCT(two, maybe, &part_table, "there or not", .nullable = true),
        ET_FIELD_END,
    };
    static const et_fields two_table = { "two", rows };
    static const struct {
        const char *path, *text;
        double always, maybe;
        int warnings;
    } steps[] = {
        { "always", "null", 3, 4, 1 },       { "always", "", 3, 4, 1 },
        { "maybe.weight", "5", 3, 5, 1 },    { "maybe", "null", 3, 1, 1 },
        { "maybe", "{weight: 6}", 3, 6, 1 }, { "maybe", "", 3, 1, 1 },
    };
    two has;
    (void)state;
    warnings = 0;
    et_log_set(count_warning, NULL);
    et_fields_defaults(&two_table, &has);
    has.always.weight = 3;
    has.maybe.weight = 4;
    for (size_t i = 0; i < COUNT(steps); i++) {
        assert_int_equal(set_field(&two_table, &has, steps[i].path, steps[i].text, &arena, &error),
                         ET_OK);
        assert_true(has.always.weight == steps[i].always && has.maybe.weight == steps[i].maybe);
        assert_int_equal(warnings, steps[i].warnings);
    }
    et_log_set(NULL, NULL);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, enter, leave)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_fields__defaults),
        CASE(test_fields__null_for_a_group),
        CASE(test_fields__reads),
        CASE(test_fields__set),
        CASE(test_fields__epochs),
        CASE(test_fields__set_messages),
        CASE(test_fields__words),
        CASE(test_fields__texts_of_choices),
        CASE(test_fields__file_messages),
        CASE(test_fields__long_value),
        CASE(test_fields__echo_round_trip),
        CASE(test_fields__help),
        CASE(test_fields__group_that_may_be_missing),
        CASE(test_fields__out_of_memory),
        CASE(test_fields__echo_out_of_memory),
        CASE(test_fields__message_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
