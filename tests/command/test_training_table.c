#include "systems/modelgarden/training_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <fcntl.h>
#include <math.h>
#include <pty.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/text/strbuf.h"
#include "formats/events/progress.h"
#include "formats/files.h"
#include "skip.h"

static void keep_line(void *self, const char *text)
{
    et_strbuf_printf(self, "%s\n", text);
}

/* A table on a terminal with so many columns, 0: not on a terminal; its output is kept. */
typedef struct shown {
    et_progress *progress;
    et_strbuf text;
    et_showing now;
    et_sink *sink;
    int master, slave;
} shown;

static void begin(shown *s, int columns, et_training_table_options options)
{
    et_progress_options on = ET_PROGRESS_OPTIONS_INIT;
    struct winsize size = { .ws_row = 24, .ws_col = (unsigned short)columns };
    *s = (shown){ .text = ET_STRBUF_INIT, .now = { .loss = NAN }, .master = -1, .slave = -1 };
    if (columns && openpty(&s->master, &s->slave, NULL, NULL, &size))
        test_skip("no pseudo-terminals here: is /dev/pts mounted?");
    on.fd = s->slave;
    assert_ok(et_progress_open(&s->progress, &on, error));
    et_progress_copy_to(s->progress, keep_line, &s->text);
    options.progress = s->progress;
    options.log = "a/metrics.jsonl";
    options.now = &s->now;
    options.began = et_clock_monotonic();
    assert_ok(et_training_table_open(&s->sink, &options, error));
}

static void end(shown *s, const char *expected)
{
    assert_ok(et_sink_close(s->sink, error));
    assert_string_equal(et_strbuf_text(&s->text), expected);
    et_progress_close(s->progress);
    et_strbuf_release(&s->text);
    if (s->slave >= 0)
        assert_int_equal(close(s->slave) | close(s->master), 0);
}

static void write_values(shown *s, int64_t step, const char *dict, int64_t best,
                         const char *const *names, const double *values)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena), *in = et_value_set_dict(logs, dict);
    for (int i = 0; names[i]; i++)
        et_value_set_float(in, names[i], values[i]);
    if (best)
        et_value_set_int(in, "best_step", best);
    s->now.step = step;
    assert_ok(et_sink_write(s->sink, step, logs, error));
    et_arena_release(&arena);
}

static void train_log(shown *s, int64_t step, double loss)
{
    write_values(s, step, "train", 0, (const char *const[]){ "training_loss", NULL }, &loss);
}

static const char *const names[] = { "validation_loss", "validation_log_likelihood",
                                     "validation_accuracy", NULL };

static void validate(shown *s, int64_t step, int64_t best, double likelihood, double accuracy)
{
    const double values[] = { -likelihood, likelihood, accuracy };
    write_values(s, step, "validation", best, names, values);
}

static et_training_table_options options_of(int64_t steps)
{
    return (et_training_table_options){
        .best = "validation_log_likelihood",
        .metrics = { 3, { "validation_log_likelihood", "validation_auc", "validation_accuracy" } },
        .most = 2,
        .validated = true,
        .steps = steps,
    };
}

#define EXPLAINED "table        * = new best log_likelihood; all values: a/metrics.jsonl\n"

/* A metric that the validation does not have gets no column; the loss is the log's at that step,
 * else the bar's. */
static void test_training_table__rows(void **state)
{
    (void)state;
    shown s;
    begin(&s, 0, options_of(12000));
    s.now.epoch = 1;
    train_log(&s, 100, 12.346);
    validate(&s, 100, 100, -0.25, 0.5);
    s.now.epoch = 12;
    s.now.loss = 0.00012;
    train_log(&s, 9900, 3);
    validate(&s, 10000, 100, -123.4, 1);
    train_log(&s, 12000, NAN);
    validate(&s, 12000, 12000, -23456.7, 0.00001);
    end(&s, EXPLAINED "  step  epoch       loss  log_likelihood   accuracy      time\n"
                      "   100      1    12.35           -0.2500     0.5000      0:00  *\n"
                      "10,000     12    0.00012       -123.4        1.000       0:00\n"
                      "12,000     12        nan         -23,457      1e-05      0:00  *\n");
}

/* If there is no room, columns are dropped, then the epoch; last, the name of a metric's set. */
static void test_training_table__narrow(void **state)
{
    (void)state;
    static const struct {
        int columns;
        const char *text;
    } cases[] = {
        { 69, EXPLAINED "step  epoch       loss  log_likelihood   accuracy      time\n"
                        "   5      1     0.7000         -0.2500     0.5000      0:00  *\n" },
        { 60, EXPLAINED "step  epoch       loss  log_likelihood      time\n"
                        "   5      1     0.7000         -0.2500      0:00  *\n" },
        { 50, EXPLAINED "step       loss  log_likelihood      time\n"
                        "   5     0.7000         -0.2500      0:00  *\n" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        shown s;
        begin(&s, cases[i].columns, options_of(5));
        s.now.epoch = 1;
        s.now.loss = 0.7;
        validate(&s, 5, 5, -0.25, 0.5);
        end(&s, cases[i].text);
    }
}

/* Without validations on the way: the first log of each epoch, and the end unless it is validated.
 */
static void test_training_table__epochs(void **state)
{
    (void)state;
    for (int validated = 0; validated < 2; validated++) {
        shown s;
        et_training_table_options options = options_of(50);
        options.epochs = true;
        options.validated = validated;
        options.best = NULL;
        options.metrics.count = 0;
        begin(&s, 0, options);
        for (int step = 10; step <= 50; step += 10) {
            s.now.epoch = 1 + step / 25;
            train_log(&s, step, 1);
        }
        if (validated)
            validate(&s, 50, 0, -1, 1);
        end(&s, "table        all values: a/metrics.jsonl\n"
                "step  epoch       loss      time\n"
                "  10      1     1.000       0:00\n"
                "  30      2     1.000       0:00\n"
                "  50      3     1.000       0:00\n");
    }
}

/* Values of sets have their names; with epochs that nobody counts there is no such column. */
static void test_training_table__sets(void **state)
{
    (void)state;
    shown s;
    et_arena arena = ET_ARENA_INIT;
    et_value *logs = et_value_dict(&arena), *in = et_value_set_dict(logs, "validation");
    et_value_set_float(et_value_set_dict(in, "news"), "sacrebleu_score", 31.2);
    et_value_set_float(et_value_set_dict(in, "S\u00e4tze"), "validation_loss", 2.5);
    et_training_table_options options = options_of(5);
    options.best = "news|sacrebleu_score";
    options.metrics = (et_main_metrics){ 2, { options.best, "S\u00e4tze/validation_loss" } };
    begin(&s, 0, options);
    s.now.loss = 2;
    assert_ok(et_sink_write(s.sink, 5, logs, error));
    end(&s, "table        * = new best news|sacrebleu_score; all values: a/metrics.jsonl\n"
            "step       loss  news|sacrebleu_score  S\u00e4tze/validation_loss      time\n"
            "   5     2.000                31.20                   2.500       0:00\n");
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training_table__rows),
        cmocka_unit_test(test_training_table__narrow),
        cmocka_unit_test(test_training_table__epochs),
        cmocka_unit_test(test_training_table__sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
