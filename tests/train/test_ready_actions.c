/* Conditions, bests and exports, and epochs. */
#include <etude/ready_actions.h>

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <etude/checkpoint.h>
#include <etude/epochs.h>

#include "base/arena.h"
#include "base/values/json.h"
#include "base/values/value.h"
#include "formats/files.h"
#include "train/checkpoint/state.h"

/* ---- conditions ---- */

typedef struct counter {
    et_action action;
    int acted, breaks;
    int64_t every;
} counter;

static int64_t count_due(const et_action *self, int64_t step)
{
    int64_t every = ((const counter *)self)->every;
    return (step / every + 1) * every;
}

static int count_act(et_action *self, const et_action_context *now, et_error *error)
{
    counter *c = (counter *)self;
    (void)now;
    if (c->breaks)
        return et_fail(error, ET_EIO, "broken");
    c->acted++;
    return ET_OK;
}

static const et_action_class due_class = { "due", count_due, count_act };
static const et_action_class free_class = { .name = "free", .act = count_act };

static int is_even(void *payload, const et_action_context *now, bool *holds, et_error *error)
{
    ++*(int *)payload;
    *holds = now->step % 2 == 0;
    return now->step == 99 ? et_fail(error, ET_EDATA, "no 99") : ET_OK;
}

static void test_ready_actions__conditional(void **state)
{
    (void)state;
    int asked = 0;
    counter one = { .action = { &due_class }, .every = 5 }, two = { .action = { &free_class } };
    counter three = { .action = { &due_class }, .every = 7 };
    et_action *all[] = { &one.action, &two.action, &three.action };
    et_conditional c, none;
    et_conditional_init(&c, "when_even", is_even, &asked, all, 3);
    et_conditional_init(&none, "none", is_even, &asked, all + 1, 1);
    assert_string_equal(c.action.class->name, "when_even");
    assert_int_equal(c.action.class->due(&c.action, 0), 5);
    assert_int_equal(c.action.class->due(&c.action, 5), 7);
    assert_true(none.action.class->due(&none.action, 5) == ET_ACTION_NEVER);
    for (int step = 1; step <= 4; step++) {
        et_action_context now = { .step = step };
        assert_ok(c.action.class->act(&c.action, &now, error));
    }
    assert_int_equal(asked, 4);
    assert_int_equal(one.acted, 2);
    assert_int_equal(three.acted, 2);
    et_action_context even = { .step = 2 }, wrong = { .step = 99 };
    two.breaks = 1;
    assert_fails(c.action.class->act(&c.action, &even, error), ET_EIO, "broken");
    assert_int_equal(one.acted, 3);
    assert_int_equal(three.acted, 2);
    assert_fails(c.action.class->act(&c.action, &wrong, error), ET_EDATA, "no 99");
}

/* As one of the program's actions, and in loops that end between two multiples. */
static void test_ready_actions__periodic(void **state)
{
    static const struct {
        int64_t step, due;
    } next[] = { { 0, 10 }, { 9, 10 }, { 10, 20 }, { 25, 30 }, { INT64_MAX - 9, ET_ACTION_NEVER } };
    (void)state;
    counter one = { .action = { &free_class } }, two = { .action = { &due_class }, .every = 7 };
    et_action *all[] = { &one.action, &two.action };
    et_conditional p;
    assert_fails(et_periodic_init(&p, "often", 0, all, 2, error), ET_ECONFIG,
                 "action often: the interval is 0 steps; give at least 1");
    assert_fails(et_periodic_init(&p, "often", -3, all, 2, error), ET_ECONFIG, "is -3 steps");
    assert_ok(et_periodic_init(&p, "often", 10, all, 2, error));
    assert_string_equal(p.action.class->name, "often");
    for (size_t i = 0; i < sizeof next / sizeof *next; i++)
        assert_true(p.action.class->due(&p.action, next[i].step) == next[i].due);
    for (int64_t step = 0; step <= 40; step += 4) { /* 0, 20 and 40 */
        et_action_context now = { .step = step };
        assert_ok(p.action.class->act(&p.action, &now, error));
    }
    assert_int_equal(one.acted, 3);
    assert_int_equal(two.acted, 3);
    one.breaks = 1;
    assert_fails(p.action.class->act(&p.action, &(et_action_context){ .step = 50 }, error), ET_EIO,
                 "broken");
    assert_int_equal(two.acted, 3);
}

/* ---- a new best ---- */

/* {"accuracy": value, "sets": {"one": {"loss": value}}} */
static const et_value *logs_of(et_arena *arena, double value)
{
    et_value *logs = et_value_dict(arena);
    et_value_set_float(logs, "accuracy", value);
    et_value_set_float(et_value_set_dict(et_value_set_dict(logs, "sets"), "one"), "loss", value);
    et_value_set_string(logs, "word", "seven");
    return logs;
}

static void test_ready_actions__new_best(void **state)
{
    static const struct {
        double value;
        int higher, lower; /* whether it is a new best */
    } cases[] = { { 0.5, 1, 1 }, { 0.5, 0, 0 },      { NAN, 0, 0 },      { 0.75, 1, 0 },
                  { 0.6, 0, 0 }, { 0.25, 0, 1 },     { INFINITY, 1, 0 }, { -INFINITY, 0, 1 },
                  { NAN, 0, 0 }, { INFINITY, 0, 0 }, { -INFINITY, 0, 0 } };
    for (int lower = 0; lower < 2; lower++) {
        et_arena arena = ET_ARENA_INIT;
        char path[700];
        snprintf(path, sizeof path, "%s-%d/best/value.json", in(state, "new"), lower);
        et_new_best_options options = { .metric = lower ? "sets.one.loss" : "accuracy",
                                        .lower_is_better = lower,
                                        .filename = path };
        double best = lower ? DBL_MAX : -DBL_MAX;
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            et_new_best *b; /* a process for each */
            bool tested, committed;
            const et_value *logs = logs_of(&arena, cases[i].value);
            et_action_context now = { .logs = logs };
            assert_ok(et_new_best_open(&b, &options, error));
            assert_true(et_new_best_value(b) == best);
            assert_ok(et_new_best_test(b, logs, &tested, error));
            assert_true(et_new_best_value(b) == best);
            assert_ok(i % 2 ? et_new_best_holds(b, &now, &committed, error)
                            : et_new_best_commit(b, logs, &committed, error));
            assert_int_equal(tested, lower ? cases[i].lower : cases[i].higher);
            assert_int_equal(committed, tested);
            best = tested ? cases[i].value : best;
            assert_true(et_new_best_value(b) == best);
            et_new_best_close(b);
        }
        et_arena_release(&arena);
    }
    et_new_best_close(NULL);
}

/* A value by its whole name, or by the names around it, with any separators between them. */
static void test_ready_actions__new_best_named(void **state)
{
    static const struct {
        const char *metric;
        double value; /* 0: the log has none */
    } cases[] = { { "top.1", 1 },   { "a|b", 2 },   { "a/b", 2 }, { "a.b", 2 }, { "a.top.1", 3 },
                  { "a|top.1", 3 }, { "a.b.c", 0 }, { "a", 0 },   { "b", 0 },   { "", 0 },
                  { "a|", 0 },      { "top", 0 },   { "x/y", 4 }, { ".", 0 } };
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena);
    (void)state;
    et_value_set_float(logs, "top.1", 1);
    et_value *a = et_value_set_dict(logs, "a");
    et_value_set_int(a, "b", 2);
    et_value_set_float(a, "top.1", 3);
    et_value_set_float(logs, "x/y", 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const et_new_best_options options = { .metric = cases[i].metric };
        et_new_best *b;
        double value = 0;
        assert_ok(et_new_best_open(&b, &options, error));
        int status = et_new_best_metric(b, logs, &value, NULL);
        if (status != (cases[i].value ? ET_OK : ET_ECONFIG) || value != cases[i].value)
            fail_msg("%s: status %d, value %g", cases[i].metric, status, value);
        et_new_best_close(b);
    }
    et_arena_release(&arena);
}

static int half_of(void *payload, const et_value *logs, double *out, et_error *error)
{
    int status = et_value_read_float(logs, payload, out, error);
    *out /= 2;
    return status;
}

static void test_ready_actions__new_best_files(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    const char *path = in(state, "file.json");
    const et_value *logs = logs_of(&arena, 3);
    et_new_best *b;
    bool is_new;
    double value;
    et_new_best_options options = {
        .value = half_of, .payload = (void *)"accuracy", .filename = path, .read_only = true
    };
    assert_ok(et_new_best_open(&b, &options, error));
    assert_false(file_is_there(path));
    assert_ok(et_new_best_metric(b, logs, &value, error));
    assert_true(value == 1.5);
    assert_ok(et_new_best_commit(b, logs, &is_new, error));
    assert_true(is_new);
    assert_false(file_is_there(path));
    et_new_best_close(b);
    options.read_only = false;
    put_file(path, "", 0); /* empty counts as none */
    assert_ok(et_new_best_open(&b, &options, error));
    assert_true(et_new_best_value(b) == -DBL_MAX);
    et_new_best_close(b);
    put_file(path, "{\"best\": 2.5}", 13);
    options.read_only = true;
    assert_ok(et_new_best_open(&b, &options, error));
    assert_ok(et_new_best_commit(b, logs, &is_new, error));
    assert_false(is_new);
    et_new_best_close(b);

    static const char *const damaged[] = { "{\"best\": tr", "{}", "[1]", "{\"best\":\"x\"}" };
    for (int i = 0; i < 4; i++) {
        put_file(path, damaged[i], strlen(damaged[i]));
        assert_fails(et_new_best_open(&b, &options, error), ET_EFORMAT, "file.json");
        assert_null(b);
    }
    et_arena_release(&arena);
}

static void test_ready_actions__new_best_refused(void **state)
{
    et_arena arena = ET_ARENA_INIT;
    const et_value *logs = logs_of(&arena, 3);
    static const et_new_best_options wrong[] = { { .filename = "x" },
                                                 { .metric = "a", .value = half_of } };
    et_new_best *b;
    bool is_new;
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_fails(et_new_best_open(&b, &wrong[i], error), ET_EUSAGE, "a metric or a value");
    assert_fails(et_new_best_open(&b, NULL, error), ET_EUSAGE, "a metric or a value");
    static const char *const names[] = { "loss", "sets", "word", "sets.two.loss" };
    for (int i = 0; i < 4; i++) {
        et_new_best_options options = { .metric = names[i] };
        assert_ok(et_new_best_open(&b, &options, error));
        assert_fails(et_new_best_test(b, logs, &is_new, error), ET_ECONFIG, names[i]);
        assert_fails(et_new_best_commit(b, NULL, &is_new, error), ET_ECONFIG, names[i]);
        et_new_best_close(b);
    }
    et_arena_release(&arena);
}

/* ---- values in files ---- */

static et_persisted_value *open_kept(const char *path, const et_value *initial)
{
    et_persisted_value *kept;
    assert_ok(et_persisted_value_open(&kept, initial, path, false, error));
    return kept;
}

static const char *json_of(const et_value *value)
{
    static char text[600];
    et_strbuf json = ET_STRBUF_INIT;
    et_json_print(&json, value, 0);
    snprintf(text, sizeof text, "%s", et_strbuf_text(&json));
    et_strbuf_release(&json);
    return text;
}

/* Each kind of value comes back, from memory and from the file. */
static void test_ready_actions__persisted(void **state)
{
    static const char *const texts[] = { "{}",
                                         "[]",
                                         "0",
                                         "-7",
                                         "9223372036854775807",
                                         "0.1",
                                         "1e308",
                                         "true",
                                         "false",
                                         "\"\"",
                                         "\"\u00e4\\n\\u0001\"",
                                         "[1,[2,[3]],{\"a\":null}]",
                                         "{\"a\":{\"b\":[0.5,\"c\"]}}" };
    et_arena arena = ET_ARENA_INIT;
    const char *path = in(state, "persisted/deep/value.json");
    et_persisted_value *kept, *own;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        et_value *value;
        assert_ok(et_json_parse(&value, &arena, texts[i], strlen(texts[i]), "text", error));
        char expected[600];
        snprintf(expected, sizeof expected, "%s", json_of(value));
        kept = open_kept(path, value);
        assert_ok(et_persisted_value_write(kept, value, error));
        assert_string_equal(json_of(et_persisted_value_read(kept)), expected);
        et_persisted_value_close(kept);
        kept = open_kept(path, et_value_dict(&arena));
        assert_string_equal(json_of(et_persisted_value_read(kept)), expected);
        /* What was read may be written. */
        assert_ok(et_persisted_value_write(kept, et_persisted_value_read(kept), error));
        assert_string_equal(json_of(et_persisted_value_read(kept)), expected);
        et_persisted_value_close(kept);
        own = open_kept(NULL, value);
        assert_string_equal(json_of(et_persisted_value_read(own)), expected);
        et_persisted_value_close(own);
    }
    et_persisted_value_close(NULL);
    et_arena_release(&arena);
}

/* A failure keeps the old value, in memory and in the file. */
static void test_ready_actions__persisted_refused(void **state)
{
    static const char *const damaged[] = { "{\"a\": tr", "nan", "{} {}", "\xff", "[1,]" };
    et_arena arena = ET_ARENA_INIT;
    const char *path = in(state, "refused.json");
    et_value *dict = et_value_dict(&arena), *number = et_value_set_int(dict, "number", 7);
    et_value *deep = et_value_set_list(dict, "deep"), *inner = deep;
    et_persisted_value *kept = open_kept(path, number), *other;
    et_value_add_float(et_value_set_list(dict, "list"), NAN);
    for (int i = 0; i < 5000; i++)
        inner = et_value_add_list(inner);
    assert_fails(et_persisted_value_write(kept, dict, error), ET_EDATA, "NaN and infinity");
    assert_fails(et_persisted_value_write(kept, deep, error), ET_EFORMAT, "refused.json");
    assert_fails(et_persisted_value_write(kept, NULL, error), ET_EUSAGE, "is NULL");
    et_value_set_float(dict, "list", -INFINITY);
    assert_fails(et_persisted_value_write(kept, et_value_get(dict, "list"), error), ET_EDATA,
                 "NaN and infinity");
    assert_int_equal(et_persisted_value_read(kept)->integer, 7);
    limit_files(0);
    int status = et_persisted_value_write(kept, et_value_set_int(dict, "number", 8), NULL);
    unlimit_files();
    assert_int_equal(status, ET_ENOSPACE);
    assert_int_equal(et_persisted_value_read(kept)->integer, 7);
    et_persisted_value_close(kept);
    kept = open_kept(path, dict);
    assert_int_equal(et_persisted_value_read(kept)->integer, 7);
    et_persisted_value_close(kept);
    put_file(path, "null", 4); /* no value */
    kept = open_kept(path, number);
    assert_int_equal(et_persisted_value_read(kept)->integer, 8);
    et_persisted_value_close(kept);
    for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
        put_file(path, damaged[i], strlen(damaged[i]));
        assert_fails(et_persisted_value_open(&other, number, path, false, error), ET_EFORMAT,
                     "refused.json");
        assert_null(other);
    }
    et_arena_release(&arena);
}

/* ---- exports ---- */

static const char *managed(const et_exports *e)
{
    static char text[1000];
    et_arena arena = ET_ARENA_INIT;
    et_value *list = et_value_list(&arena);
    text[0] = 0;
    assert_ok(et_exports_managed(e, list, error));
    for (const et_value *v = list->first; v; v = v->next) {
        const char *base = strstr(v->string, "out-");
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", base + 4);
    }
    et_arena_release(&arena);
    return text;
}

static int64_t given_id(void *payload)
{
    return *(int64_t *)payload;
}

/* Only whole numbers make an export; a number that was given is not given again. The cases of
 * Orbit's own tests are in tests/references/orbit. */
static void test_ready_actions__export_names(void **state)
{
    static const char *const made[] = { "out-9", "out-x", "out-", "output-3", "out-11b", "out" };
    et_exports *e;
    const char *name;
    char base[700];
    snprintf(base, sizeof base, "%s/names/out", (const char *)*state);
    assert_ok(et_exports_open(&e, base, 1, NULL, error));
    assert_string_equal(managed(e), "");
    assert_int_equal(mkdir(in(state, "names"), 0777), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(mkdir(below(in(state, "names"), made[i]), 0777), 0);
    for (int i = 10; i < 12; i++) {
        assert_ok(et_exports_next_name(e, &name, error));
        assert_int_equal(atoi(strstr(name, "out-") + 4), i);
    }
    put_file(name, "x", 1); /* a program's own may be a file */
    assert_string_equal(managed(e), "9 11 ");
    assert_ok(et_exports_clean_up(e, error));
    assert_string_equal(managed(e), "11 ");
    for (int i = 1; i < 6; i++)
        assert_true(file_is_there(below(in(state, "names"), made[i])));
    et_exports_close(e);

    int64_t id = -90;
    const et_exports_options options = { .next_id = given_id, .payload = &id };
    assert_ok(et_exports_open(&e, base, -1, &options, error));
    assert_fails(et_exports_next_name(e, &name, error), ET_ECONFIG, "-90; give at least 0");
    et_exports_close(e);
    et_exports_close(NULL);
    assert_int_equal(mkdir(in(state, "names/out-9223372036854775807"), 0777), 0);
    assert_ok(et_exports_open(&e, base, 2, NULL, error));
    assert_fails(et_exports_next_name(e, &name, error), ET_EUSAGE,
                 "exists: no higher number is possible");
    et_exports_close(e);
    assert_fails(et_exports_open(&e, base, 0, NULL, error), ET_ECONFIG, "would keep no export");
}

/* A base name and a subdirectory in paths. */
static void test_ready_actions__export_paths(void **state)
{
    static const struct {
        const char *base, *subdirectory, *expected; /* NULL: refused */
    } cases[] = {
        { "a//b", NULL, "a/b-0" },
        { "./a/./b", NULL, "a/b-0" },
        { "a/b/", NULL, "a/b-0" },
        { "no/../a/b", NULL, "a/b-0" },
        { "a///b//", "c//d/", "a/b-0/c/d" },
        { "b", "./c", "b-0/c" },
        { "../b", NULL, "../b-0" },
        { "", NULL, NULL },
        { ".", NULL, NULL },
        { "./", NULL, NULL },
        { "a/..", NULL, NULL },
        { "..", NULL, NULL },
        { "/", NULL, NULL },
        { "//", NULL, NULL },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const et_exports_options options = { .subdirectory = cases[i].subdirectory };
        et_exports *e;
        const char *name;
        if (!cases[i].expected) {
            assert_fails(et_exports_open(&e, cases[i].base, 1, &options, error), ET_EUSAGE,
                         "a base name");
            continue;
        }
        assert_ok(et_exports_open(&e, cases[i].base, 1, &options, error));
        assert_ok(et_exports_next_name(e, &name, error));
        assert_string_equal(name, cases[i].expected);
        et_exports_close(e);
    }
}

/* Only the export's own files are removed. */
static void test_ready_actions__export_stays_inside(void **state)
{
    static const char *const outside[] = { "",        "/",    "/data",        ".",      "./.", "..",
                                           "../data", "a/..", "a/../../data", "./..//x" };
    static const char *const inside[] = { "a", "a/b/", "./a", "..a", "a/...", "a//b" };
    et_exports *e;
    for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++) {
        const et_exports_options options = { .subdirectory = outside[i] };
        assert_fails(et_exports_open(&e, in(state, "inside"), 1, &options, error), ET_ECONFIG,
                     "\" of exports: name a path below inside-N, without \"..\"");
        assert_null(e);
    }
    for (size_t i = 0; i < sizeof inside / sizeof inside[0]; i++) {
        const et_exports_options options = { .subdirectory = inside[i] };
        assert_ok(et_exports_open(&e, in(state, "inside"), 1, &options, error));
        et_exports_close(e);
    }
}

/* The exported files are read as weights; a subdirectory is removed by itself. */
static void test_ready_actions__export(void **state)
{
    for (int nested = 0; nested < 2; nested++) {
        et_arena arena = ET_ARENA_INIT;
        et_exports *e;
        et_params *params[2];
        et_value *settings = et_value_dict(&arena);
        char base[700], path[900];
        et_init init = { ET_INIT_ZEROS, 0 };
        et_value_set_int(settings, "width", 3);
        snprintf(base, sizeof base, "%s-%d/deep/out", in(state, "export"), nested);
        for (int i = 0; i < 2; i++) {
            int index;
            assert_ok(et_params_new(&params[i], error));
            assert_ok(et_params_declare(params[i], "w", et_shape_1(3), init, &index, error));
            assert_ok(et_params_materialize(params[i], false, error));
        }
        et_exports_options options = { .subdirectory = nested ? "sub" : NULL };
        et_export_action action;
        assert_ok(et_exports_open(&e, base, 2, &options, error));
        et_export_action_init(&action, "export", e, params[0], settings);
        assert_string_equal(action.action.class->name, "export");
        for (int i = 1; i <= 4; i++) {
            et_action_context now = { .step = i };
            et_params_values(params[0])[0] = (float)i;
            assert_ok(action.action.class->act(&action.action, &now, error));
        }
        assert_string_equal(managed(e), nested ? "2/sub 3/sub " : "2 3 ");
        snprintf(path, sizeof path, "%s-0", base);
        assert_int_equal(file_is_there(path), nested); /* the folder around it stays */
        et_checkpoint_facts facts = { 0 };
        snprintf(path, sizeof path, "%s-3%s/weights.safetensors", base, nested ? "/sub" : "");
        assert_ok(et_checkpoint_load_weights(params[1], path, true, &facts, error));
        assert_int_equal(facts.step, 4);
        assert_true(et_params_values(params[1])[0] == 4);
        snprintf(path, sizeof path, "%s-3%s/settings.json", base, nested ? "/sub" : "");
        size_t length;
        char *text = get_file(path, &length);
        assert_non_null(strstr(text, "\"width\": 3"));
        free(text);
        et_exports_close(e);
        et_params_free(params[0]);
        et_params_free(params[1]);
        et_arena_release(&arena);
    }
}

/* A failure leaves no name and no temporary file. */
static void test_ready_actions__export_fails(void **state)
{
    et_exports *e;
    et_params *params;
    et_init init = { ET_INIT_ZEROS, 0 };
    int index;
    char base[700];
    snprintf(base, sizeof base, "%s/out", in(state, "full"));
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "w", et_shape_1(100000), init, &index, error));
    assert_ok(et_params_materialize(params, false, error));
    et_export_action action;
    et_action_context now = { .step = 7 };
    assert_ok(et_exports_open(&e, base, 2, NULL, error));
    et_export_action_init(&action, "export", e, params, NULL);
    limit_files(1000);
    int status = action.action.class->act(&action.action, &now, NULL);
    unlimit_files();
    assert_int_equal(status, ET_ENOSPACE);
    assert_string_equal(managed(e), "");
    assert_int_equal(rmdir(in(state, "full")), 0); /* no file is left in it */
    et_exports_close(e);
    et_params_free(params);
}

static int64_t always_1(void *unused)
{
    (void)unused;
    return 1;
}

/* A file or a directory of another program with an export's name: another number is used, or, if
 * the number is fixed, there is no export. An empty directory may be used. */
static void test_ready_actions__export_beside_others(void **state)
{
    et_exports *e;
    et_params *params;
    char base[700], path[800], inner[900];
    int index;
    const et_exports_options numbered = { .next_id = always_1 };
    const et_action_context now = { .step = 7 };
    et_export_action action;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "w", et_shape_1(3), (et_init){ ET_INIT_ZEROS, 0 }, &index,
                                error));
    assert_ok(et_params_materialize(params, false, error));
    snprintf(base, sizeof base, "%s/out", in(state, "beside"));
    snprintf(path, sizeof path, "%s-1", base);
    snprintf(inner, sizeof inner, "%s/mine.txt", path);
    assert_int_equal(mkdir(in(state, "beside"), 0777), 0);
    for (int is_directory = 0; is_directory < 2; is_directory++) {
        const char *file = is_directory ? inner : path;
        if (is_directory)
            assert_int_equal(mkdir(path, 0777), 0);
        put_file(file, "precious", 8);
        assert_ok(et_exports_open(&e, base, -1, NULL, error));
        et_export_action_init(&action, "export", e, params, NULL);
        assert_ok(action.action.class->act(&action.action, &now, error));
        assert_string_equal(managed(e), is_directory ? "1 2 3 " : "1 2 ");
        et_exports_close(e);
        assert_ok(et_exports_open(&e, base, -1, &numbered, error));
        et_export_action_init(&action, "export", e, params, NULL);
        assert_fails(
            action.action.class->act(&action.action, &now, error), ET_EUSAGE,
            "out-1 exists and is not an export: choose another base name, or move it away");
        assert_true(file_is_there(file));
        assert_int_equal(unlink(file), 0);
        for (int again = 0; again < 2; again++) /* nothing, or an empty directory; then its own */
            assert_ok(action.action.class->act(&action.action, &now, error));
        assert_true(file_is_there(path));
        snprintf(inner, sizeof inner, "%s/weights.safetensors", path);
        assert_int_equal(unlink(inner), 0);
        assert_int_equal(rmdir(path), 0);
        snprintf(inner, sizeof inner, "%s/mine.txt", path);
        et_exports_close(e);
    }
    et_params_free(params);
}

/* An export of another process, of the number that is given out again. */
static void test_ready_actions__export_of_earlier_work(void **state)
{
    char base[600], weights[700];
    const et_exports_options options = { .next_id = always_1 };
    const et_action_context now = { .step = 7 };
    et_params *params;
    int index;
    snprintf(base, sizeof base, "%s/out", in(state, "of_earlier"));
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "w", et_shape_1(3), (et_init){ ET_INIT_ZEROS, 0 }, &index,
                                error));
    assert_ok(et_params_materialize(params, false, error));
    for (int process = 0; process < 3; process++) {
        et_exports *e;
        et_export_action action;
        assert_ok(et_exports_open(&e, base, -1, &options, error));
        et_export_action_init(&action, "export", e, params, NULL);
        /* The second makes the same once more, as after a kill. */
        for (int again = 0; again < 2; again++) {
            et_params_begin_change(params);
            et_params_values(params)[0] = process == 2;
            et_params_values(params)[1] = process || again;
            et_params_changed(params, true);
            assert_ok(action.action.class->act(&action.action, &now, error));
        }
        et_exports_close(e);
        snprintf(weights, sizeof weights, "%s/earlier-1/out-1/weights.safetensors",
                 in(state, "of_earlier"));
        assert_int_equal(file_is_there(weights), process == 2);
    }
    et_params_free(params);
}

/* ---- epochs ---- */

static void test_ready_actions__epochs(void **state)
{
    (void)state;
    int64_t step = 5, other_step = 7;
    bool ended;
    et_epochs e = { .epoch_steps = 4, .step = &step },
              other = { .epoch_steps = 4, .step = &other_step };
    assert_fails(et_epochs_end(&e, &ended, error), ET_EUSAGE,
                 "the end of an epoch can only be requested within an epoch");
    assert_true(et_epochs_begin(&e));
    assert_false(et_epochs_begin(&e));
    assert_int_equal(et_epochs_current(&e), 1);
    assert_int_equal(et_epochs_batch_index(&e), 0);
    step = 7;
    assert_int_equal(et_epochs_batch_index(&e), 2);
    assert_ok(et_epochs_end(&e, &ended, error));
    assert_false(ended);

    et_arena arena = ET_ARENA_INIT; /* in the middle of it: the index continues */
    et_value *dict = et_value_dict(&arena);
    assert_ok(et_epochs_part.save(&e, dict, error));
    assert_ok(et_epochs_part.restore(&other, dict, error));
    assert_false(et_epochs_begin(&other));
    assert_int_equal(et_epochs_batch_index(&other), 2);
    et_arena_release(&arena);

    step = 8;
    assert_ok(et_epochs_end(&e, &ended, error));
    assert_true(ended);
    assert_fails(et_epochs_end(&e, &ended, error), ET_EUSAGE,
                 "the end of an epoch can only be requested within an epoch");
    assert_true(et_epochs_begin(&e));
    assert_int_equal(et_epochs_current(&e), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready_actions__conditional),
        cmocka_unit_test(test_ready_actions__periodic),
        cmocka_unit_test(test_ready_actions__new_best),
        cmocka_unit_test(test_ready_actions__new_best_named),
        cmocka_unit_test(test_ready_actions__new_best_files),
        cmocka_unit_test(test_ready_actions__new_best_refused),
        cmocka_unit_test(test_ready_actions__persisted),
        cmocka_unit_test(test_ready_actions__persisted_refused),
        cmocka_unit_test(test_ready_actions__export_names),
        cmocka_unit_test(test_ready_actions__export_paths),
        cmocka_unit_test(test_ready_actions__export_stays_inside),
        cmocka_unit_test(test_ready_actions__export),
        cmocka_unit_test(test_ready_actions__export_fails),
        cmocka_unit_test(test_ready_actions__export_beside_others),
        cmocka_unit_test(test_ready_actions__export_of_earlier_work),
        cmocka_unit_test(test_ready_actions__epochs),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
