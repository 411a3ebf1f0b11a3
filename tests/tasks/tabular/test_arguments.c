#include "base/main.h"

#include <etude/arguments.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/scarce.h"
#include "tasks/tabular/builders/builders.h"

/* ---- classes of a program's own ---- */

typedef struct wide_arguments {
    et_arguments base;
    double learning_rate;
    et_integer_list hidden_layers;
    bool shuffle;
    int64_t units; /* made by process */
} wide_arguments;

static int base_threshold; /* what the base's hook had made when the own one was called */

static int process_wide(et_arguments *self, et_error *error)
{
    wide_arguments *wide = (wide_arguments *)self;
    base_threshold = self->log_threshold;
    wide->units = 0;
    for (size_t i = 0; i < wide->hidden_layers.count; i++) {
        if (wide->hidden_layers.items[i] == ET_UNITS_NONE)
            return et_fail(error, ET_EUSAGE, "--hidden-layers:%zu is missing", i + 1);
        wide->units += wide->hidden_layers.items[i];
    }
    return ET_OK;
}

static const et_option wide_flags[] = {
    { .field = ET_FIELD_FLOAT(wide_arguments, learning_rate, 0.01, 0, 10, "of each step"),
      .group = "Model" },
    { .field = ET_FIELD_INT(wide_arguments, hidden_layers, ET_UNITS_NONE, 1, 4096, "units"),
      .form = ET_OPTION_FORM_INDEXED,
      .value = "units" },
    { .field = ET_FIELD_BOOL(wide_arguments, shuffle, true, "in another order each time") },
    ET_OPTION_END,
};
static const et_arguments_class wide = {
    .name = "wide", .size = sizeof(wide_arguments), .flags = wide_flags, .process = process_wide
};

typedef struct deep_arguments {
    wide_arguments wide;
    const char *note;
    int64_t trials;
} deep_arguments;

static const et_option deep_flags[] = {
    { .field = ET_FIELD_STRING(deep_arguments, note, "none", "of people") },
    ET_OPTION_END,
};

/* Rows that are in no table. */
static int more_flags(et_argument_parser *parser, et_error *error)
{
    const et_option rows[] = {
        { .field = ET_FIELD_INT(deep_arguments, trials, 3, 1, 9, "in a row"), .alias = "tries" },
        ET_OPTION_END,
    };
    return et_argument_parser_add(parser, rows, error);
}

static const et_arguments_class deep = { .name = "deep",
                                         .base = &wide,
                                         .size = sizeof(deep_arguments),
                                         .flags = deep_flags,
                                         .init_parser = more_flags };

#define ARGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static et_arguments *parsed(const et_arguments_class *kind, const char *const *args)
{
    et_arguments *arguments;
    et_error error = ET_ERROR_INIT;
    if (et_arguments_parse(&arguments, kind, args, true, &error))
        fail_msg("%s", error.text);
    return arguments;
}

/* ---- cases ---- */

/* D2 of the reference: every flag with its default. */
static void test_arguments__defaults(void **state)
{
    (void)state;
    et_arguments *a;
    assert_int_equal(et_arguments_default(&a, NULL, NULL), ET_OK);
    assert_true(!a->data_schema && !a->data_metadata && !a->data_features);
    assert_true(!a->data_train && !a->data_eval && !a->output && !a->help);
    assert_int_equal(a->max_steps, 1000);
    assert_int_equal(a->batch_size, 128);
    assert_int_equal(a->epochs, 0);
    assert_int_equal(a->checkpoint_interval_secs, 300);
    assert_int_equal(a->log_level_tensorflow, ET_LEVEL_ERROR);
    assert_false(a->log_device_placement);
    assert_int_equal(a->log_level, ET_LEVEL_INFO);
    assert_int_equal(a->log_interval_steps, 100);
    assert_int_equal(a->log_threshold, 20);
    assert_int_equal(a->log_threshold_tensorflow, 40);
    assert_int_equal(a->raw.count, 0);
    assert_true(et_arguments_is(a, NULL) && et_arguments_is(a, &et_model_arguments));
    assert_false(et_arguments_is(a, &wide) || et_arguments_is(NULL, NULL));
    et_arguments_free(a);
    et_arguments_free(NULL);
}

static void test_arguments__parse(void **state)
{
    (void)state;
    et_arguments *a = parsed(
        NULL, ARGS("--data-schema", "s.yaml", "--data_metadata=m.json", "--data-features", "f.yaml",
                   "--data-train", "*.csv,[a]{b", "--data-eval=e=1.csv", "--max-steps", "2e3",
                   "--batch-size=64", "--epochs", "5", "--checkpoint-interval-secs", "0",
                   "--log-level-tensorflow", "WARN", "--log-device-placement", "--log-level=DEBUG",
                   "--log-interval-steps", "7", "--output", "a", "--job-dir", "null"));
    assert_string_equal(a->data_schema, "s.yaml");
    assert_string_equal(a->data_metadata, "m.json");
    assert_string_equal(a->data_features, "f.yaml");
    assert_string_equal(a->data_train, "*.csv,[a]{b");
    assert_string_equal(a->data_eval, "e=1.csv");
    assert_int_equal(a->max_steps, 2000);
    assert_int_equal(a->batch_size, 64);
    assert_int_equal(a->epochs, 5);
    assert_int_equal(a->checkpoint_interval_secs, 0);
    assert_int_equal(a->log_threshold_tensorflow, 30);
    assert_true(a->log_device_placement);
    assert_int_equal(a->log_threshold, 10);
    assert_int_equal(a->log_interval_steps, 7);
    assert_string_equal(a->output, "null"); /* both names are one; the later one counts */
    assert_int_equal(a->raw.count, 25);
    assert_string_equal(a->raw.items[1], "s.yaml");
    assert_string_equal(a->raw.items[24], "null");
    et_arguments_free(a);
    a = parsed(&wide, ARGS("--shuffle=false", "--learning-rate", "1e-3"));
    assert_false(((wide_arguments *)a)->shuffle);
    assert_float_equal(((wide_arguments *)a)->learning_rate, 0.001, 0);
    et_arguments_free(a);
}

static void check_layers(const char *const *args, const int64_t *expected, size_t count)
{
    et_argument_parser *parser;
    wide_arguments *w;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_arguments_create((et_arguments **)&w, &wide, NULL, NULL), ET_OK);
    assert_int_equal(et_arguments_build_parser(&parser, &wide, NULL), ET_OK);
    if (et_argument_parser_parse(parser, &w->base, args, true, &error))
        fail_msg("%s", error.text);
    assert_int_equal(w->hidden_layers.count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(w->hidden_layers.items[i], expected[i]);
    et_argument_parser_free(parser);
    et_arguments_free(&w->base);
}

/* 1-based; gaps are the default; without a number, or with none, it is the first. */
static void test_arguments__indexed(void **state)
{
    (void)state;
    enum { NONE = ET_UNITS_NONE };
    check_layers(ARGS("--shuffle"), NULL, 0);
    check_layers(ARGS("--hidden-layers:1", "20", "--hidden-layers:2=10"), (int64_t[]){ 20, 10 }, 2);
    check_layers(ARGS("--hidden-layers:3", "5"), (int64_t[]){ NONE, NONE, 5 }, 3);
    check_layers(ARGS("--hidden_layers:2", "5", "--hidden-layers:1", "7"), (int64_t[]){ 7, 5 }, 2);
    check_layers(ARGS("--hidden-layers", "9"), (int64_t[]){ 9 }, 1);
    check_layers(ARGS("--hidden-layers:first", "9", "--hidden-layers:1x", "8"), (int64_t[]){ 8 },
                 1);
    et_arguments *a = parsed(&wide, ARGS("--hidden-layers:2", "10", "--hidden-layers:1", "20"));
    assert_int_equal(((wide_arguments *)a)->units, 30);
    assert_int_equal(base_threshold, 20);
    et_arguments_free(a);
}

static void test_arguments__subclass(void **state)
{
    (void)state;
    et_arguments *a = parsed(
        &deep, ARGS("--note", "a b", "--tries", "4", "--batch-size", "2", "--hidden-layers", "6"));
    deep_arguments *d = (deep_arguments *)a;
    assert_string_equal(d->note, "a b");
    assert_int_equal(d->trials, 4);
    assert_int_equal(d->wide.units, 6);
    assert_int_equal(a->batch_size, 2);
    assert_int_equal(a->log_threshold, 20);
    assert_true(et_arguments_is(a, &deep) && et_arguments_is(a, &wide) && et_arguments_is(a, NULL));
    et_arguments_free(a);
}

static void test_arguments__refused(void **state)
{
    (void)state;
    static const struct {
        const char *args[4], *says;
    } cases[] = {
        { { "--batch-sise", "3" },
          "wide: no option --batch-sise. Nearest: --batch-size; `wide --help` lists the options" },
        { { "--learning-rat=1" }, "Nearest: --learning-rate" },
        { { "--zzzzzzzzzzzz" }, "wide: no option --zzzzzzzzzzzz; `wide --help` lists the options" },
        { { "--batch-size" }, "wide: --batch-size needs a value: n" },
        { { "--batch-size", "--epochs" },
          "but found --epochs; write --batch-size=--epochs if this is the value" },
        { { "--batch-size", "0" }, "--batch-size: 0 is out of range" },
        { { "--batch-size", "many" }, "--batch-size: \"many\" is not an integer" },
        { { "--batch-size", "[1" }, "--batch-size: \"[1\" is not an integer" },
        { { "--batch-size=" }, "--batch-size: the value is empty" },
        { { "--max-steps", "5.0" }, "--max-steps: 5.0 is not an integer" },
        { { "--max-steps=0x10" }, "--max-steps: 0x10 is not an integer" },
        { { "--max-st", "5" }, "no option --max-st. Nearest: --max-steps;" },
        { { "--hidden-layers:1", "5." }, "--hidden-layers:1: 5. is not an integer" },
        { { "--learning-rate", "0x1" }, "--learning-rate: 0x1 is not a number" },
        { { "--data-train=" }, "--data-train: the value is empty" },
        { { "--learning-rate", "nan" }, "--learning-rate" },
        { { "--log-level", "INF" }, "--log-level: no choice is called INF. Nearest: INFO" },
        { { "--shuffle=maybe" }, "--shuffle: \"maybe\" is not true or false" },
        { { "--batch-size:1", "3" }, "no option --batch-size:1. Nearest: --batch-size" },
        { { "--hidden-layers:0", "3" }, "--hidden-layers:0: the number after \":\" must be 1" },
        { { "--hidden-layers:-1", "3" }, "must be 1 to 1024" },
        { { "--hidden-layers:99999999999999999999", "3" }, "must be 1 to 1024" },
        { { "--hidden-layers:1", "0" }, "--hidden-layers:1: 0 is out of range" },
        { { "--hidden-layers:2", "3" }, "--hidden-layers:1 is missing" },
        { { "train" }, "wide takes no argument, but found train; options begin with --" },
        { { "-x" }, "wide: no option -x; options are whole words" },
        { { "--", "x" }, "wide takes no argument, but found x" },
        { { "" }, "wide takes no argument, but found \"\"" },
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        et_arguments *a;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_arguments_parse(&a, &wide, cases[i].args, true, &error), ET_EUSAGE);
        assert_null(a);
        assert_contains(error.text, cases[i].says);
    }
}

/* Behind the NULL that ends them nothing is read: it is the last word before memory ends. */
static void test_arguments__end(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(pages != MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    const char **args = (const char **)(void *)(pages + page) - 2;
    et_arguments *a;
    et_error error = ET_ERROR_INIT;
    args[0] = "--batch-size";
    args[1] = NULL;
    assert_int_equal(et_arguments_parse(&a, &wide, args, true, &error), ET_EUSAGE);
    assert_contains(error.text, "wide: --batch-size needs a value: n");
    munmap(pages, 2 * page);
}

/* The documented generation: job arguments are taken only where they are asked for. */
static void test_arguments__job(void **state)
{
    (void)state;
    et_arguments *a;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_arguments_parse(&a, NULL, ARGS("--job-dir", "out"), false, &error),
                     ET_EUSAGE);
    assert_contains(error.text, "--job-dir: an argument of a job");
    assert_int_equal(et_arguments_parse(&a, NULL, ARGS("--epochs", "2"), false, NULL), ET_OK);
    assert_int_equal(a->epochs, 2);
    assert_null(a->output);
    et_arguments_free(a);
    a = parsed(NULL, ARGS("--job-dir", "out"));
    assert_string_equal(a->output, "out");
    et_arguments_free(a);
}

static void test_arguments__kwargs(void **state)
{
    (void)state;
    et_arena *arena = et_arena_new();
    et_value *kwargs = et_value_dict(arena);
    et_arguments *a;
    et_error error = ET_ERROR_INIT;
    et_value_set_int(kwargs, "batch_size", 32);
    et_value_set_string(kwargs, "data_train", "a.csv");
    et_value *layers = et_value_set_list(kwargs, "hidden_layers");
    et_value_add_int(layers, 8);
    et_value_add_int(layers, 4);
    assert_int_equal(et_arguments_create(&a, &wide, kwargs, NULL), ET_OK);
    wide_arguments *w = (wide_arguments *)a;
    assert_int_equal(a->batch_size, 32);
    assert_string_equal(a->data_train, "a.csv");
    assert_int_equal(w->hidden_layers.items[1], 4);
    assert_int_equal(w->units, 0); /* not before it is asked for */
    assert_int_equal(et_arguments_process(a, NULL), ET_OK);
    assert_int_equal(w->units, 12);

    et_value *echo = et_arguments_echo(a, arena);
    int64_t size;
    const char *level;
    assert_int_equal(et_value_read_int(echo, "batch_size", &size, NULL), ET_OK);
    assert_int_equal(size, 32);
    assert_int_equal(et_value_read_string(echo, "log_level", &level, NULL), ET_OK);
    assert_string_equal(level, "INFO");
    assert_int_equal(et_value_get(echo, "hidden_layers")->count, 2);
    et_arguments_free(a);
    /* What was echoed makes the same arguments again. */
    assert_int_equal(et_arguments_create(&a, &wide, echo, NULL), ET_OK);
    assert_int_equal(((wide_arguments *)a)->hidden_layers.items[0], 8);
    et_arguments_free(a);

    et_value_set_int(kwargs, "batch_siz", 32);
    assert_int_equal(et_arguments_create(&a, &wide, kwargs, &error), ET_ECONFIG);
    assert_contains(error.text, "batch_siz: not an argument of wide. Nearest: batch_size");
    kwargs = et_value_dict(arena);
    et_value_set_int(kwargs, "hidden_layers", 3);
    assert_int_equal(et_arguments_create(&a, &wide, kwargs, &error), ET_ECONFIG);
    assert_contains(error.text, "hidden_layers: give a list");
    assert_int_equal(et_arguments_create(&a, &wide, layers, &error), ET_ECONFIG);
    et_arena_free(arena);
}

/* Both generations: a parser of its own, and flags added to one that is there. */
static void test_arguments__parsers(void **state)
{
    (void)state;
    et_argument_parser *parser;
    et_arguments *a;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_arguments_build_parser(&parser, &deep, NULL), ET_OK);
    bool layers = false;
    for (size_t i = 0; i < parser->count; i++)
        layers |= !strcmp(parser->flags[i].field.name, "hidden_layers") &&
                  parser->flags[i].form == ET_OPTION_FORM_INDEXED;
    assert_true(layers && parser->count >= 18 + 3 + 2);
    et_argument_parser_free(parser);

    assert_int_equal(et_argument_parser_new(&parser, "mine", NULL), ET_OK);
    assert_int_equal(et_argument_parser_add(parser, deep_flags, NULL), ET_OK);
    assert_int_equal(et_arguments_init_parser(&wide, parser, NULL), ET_OK);
    assert_int_equal(et_arguments_init_parser(NULL, parser, &error), ET_EUSAGE);
    assert_contains(error.text, "two flags are called --data_schema");
    assert_int_equal(et_arguments_create(&a, &deep, NULL, NULL), ET_OK);
    assert_int_equal(
        et_argument_parser_parse(parser, a, ARGS("--note", "x", "--epochs=3"), true, &error),
        ET_OK);
    assert_string_equal(((deep_arguments *)a)->note, "x");
    assert_int_equal(a->epochs, 3);
    et_arguments_free(a);
    et_argument_parser_free(parser);
    et_argument_parser_free(NULL);
}

static void test_arguments__bad_tables(void **state)
{
    (void)state;
    static const et_option tables[][2] = {
        { { .field = ET_FIELD_STRINGS(et_arguments, raw, "a list") }, ET_OPTION_END },
        { { .field = ET_FIELD_FLOAT(wide_arguments, learning_rate, 0, 0, 1, ""),
            .form = ET_OPTION_FORM_INDEXED },
          ET_OPTION_END },
        { { .field = { .name = "a:b", .kind = ET_FIELD_KIND_INT } }, ET_OPTION_END },
        { { .field = { .name = "help", .kind = ET_FIELD_KIND_BOOL } }, ET_OPTION_END },
        { { .field = { .name = "a", .kind = ET_FIELD_KIND_CHOICE } }, ET_OPTION_END },
    };
    et_argument_parser *parser;
    for (size_t i = 0; i < COUNT(tables); i++) {
        assert_int_equal(et_argument_parser_new(&parser, NULL, NULL), ET_OK);
        assert_int_equal(et_argument_parser_add(parser, tables[i], NULL), ET_EUSAGE);
        et_argument_parser_free(parser);
    }
    static et_arguments_class circle = { .name = "circle", .size = sizeof(wide_arguments) };
    circle.base = &circle;
    et_arguments *a;
    assert_int_equal(et_arguments_default(&a, &circle, NULL), ET_EUSAGE);
    const et_arguments_class small = { .name = "small", .size = 8 };
    assert_int_equal(et_arguments_default(&a, &small, NULL), ET_EUSAGE);
}

static void test_arguments__help(void **state)
{
    (void)state;
    char *text;
    et_arguments *a = parsed(&wide, ARGS("--help", "--nonsense"));
    assert_true(a->help);
    et_arguments_free(a);
    assert_int_equal(et_arguments_help(&wide, &text, NULL), ET_OK);
    assert_contains(text, "usage: wide [OPTION]...\n\nData:\n    --data-schema path");
    assert_contains(text, "--job-dir");
    assert_contains(text, "    --batch-size n             instances per step (1 to 16,777,216; "
                          "default 128)\n");
    assert_contains(
        text, "    --log-level level          lowest level of messages about the job (FATAL,\n"
              "                               ERROR, WARN, INFO, DEBUG; default INFO)\n");
    assert_contains(text, "\nModel:\n    --learning-rate x");
    assert_contains(text, "    --hidden-layers:N units    units (1 to 4,096)\n");
    assert_contains(text, "    --shuffle                  in another order each time\n");
    et_arguments_free_text(text);
    et_arguments_free_text(NULL);
}

/* Without a list, the arguments of this process: none. */
static void test_arguments__of_the_process(void **state)
{
    (void)state;
    et_arguments *a = parsed(NULL, NULL);
    assert_int_equal(a->raw.count, 2);
    assert_string_equal(a->raw.items[0], "--batch-size");
    assert_int_equal(a->batch_size, 17);
    et_arguments_free(a);
}

static void test_arguments__out_of_memory(void **state)
{
    (void)state;
    bool failed = true;
    for (long n = 0; failed; n++) {
        et_arguments *a;
        char *text;
        scarce_begin(n);
        int status = et_arguments_parse(&a, &deep, ARGS("--hidden-layers:1", "4", "--note", "x"),
                                        true, NULL);
        if (!status) {
            status = et_arguments_help(&deep, &text, NULL);
            et_arguments_free_text(text);
        }
        et_arguments_free(a);
        failed = scarce_failed;
        scarce_end();
        assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
    }
}

int main(int argc, char **argv)
{
    /* A process with arguments of its own. */
    if (argc == 1) {
        execl("/proc/self/exe", argv[0], "--batch-size", "17", (char *)NULL);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arguments__defaults),
        cmocka_unit_test(test_arguments__parse),
        cmocka_unit_test(test_arguments__indexed),
        cmocka_unit_test(test_arguments__subclass),
        cmocka_unit_test(test_arguments__refused),
        cmocka_unit_test(test_arguments__end),
        cmocka_unit_test(test_arguments__job),
        cmocka_unit_test(test_arguments__kwargs),
        cmocka_unit_test(test_arguments__parsers),
        cmocka_unit_test(test_arguments__bad_tables),
        cmocka_unit_test(test_arguments__help),
        cmocka_unit_test(test_arguments__of_the_process),
        cmocka_unit_test(test_arguments__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
