#include "engine/optim/options.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/arena.h"
#include "engine/optim/optim.h"

typedef struct vector {
    int64_t step;
    double rate;
} vector;

static void check(const et_optimization_options *options, const vector *vectors, size_t count)
{
    et_schedule schedule;
    assert_ok(et_schedule_init(&schedule, &options->learning_rate, &options->warmup, error));
    for (size_t i = 0; i < count; i++) {
        double rate = et_schedule_rate(&schedule, vectors[i].step);
        if (!(fabs(rate - vectors[i].rate) <= 1e-12 * fmax(1, fabs(vectors[i].rate))))
            fail_msg("step %lld: %.17g, expected %.17g", (long long)vectors[i].step, rate,
                     vectors[i].rate);
    }
}

#define CHECK(options, ...)                                                                        \
    check(&(options), (const vector[]){ __VA_ARGS__ },                                             \
          sizeof((const vector[]){ __VA_ARGS__ }) / sizeof(vector))

static void test_schedule__constant_with_linear_warmup(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_CONSTANT;
    CHECK(o, { 0, 0.1 }, { 1000000, 0.1 });
    o.warmup.type = ET_WARMUP_LINEAR;
    o.warmup.linear = (et_warmup_linear){ .warmup_learning_rate = 0.01, .warmup_steps = 500 };
    CHECK(o, { 0, 0.01 }, { 250, 0.055 }, { 499, 0.01 + 0.998 * 0.09 }, { 500, 0.1 });
}

/* Model Garden's own vectors. */
static void test_schedule__stepwise_with_polynomial_warmup(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_STEPWISE;
    o.learning_rate.stepwise.boundaries = LIST("10000", "20000");
    o.learning_rate.stepwise.values = LIST("0.1", "0.01", "0.001");
    o.warmup.type = ET_WARMUP_POLYNOMIAL;
    o.warmup.polynomial = (et_warmup_polynomial){ .power = 2, .warmup_steps = 500 };
    CHECK(o, { 0, 4e-7 }, { 250, 0.025 }, { 500, 0.1 }, { 5500, 0.1 }, { 10000, 0.1 },
          { 10001, 0.01 }, { 20000, 0.01 }, { 20001, 0.001 }, { 30000, 0.001 });
    o.learning_rate.stepwise.offset = 100;
    CHECK(o, { 10100, 0.1 }, { 10101, 0.01 });
}

static void test_schedule__power_linear(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_POWER_LINEAR;
    o.learning_rate.power_linear = (et_schedule_power_linear){
        .initial_learning_rate = 1,
        .power = -1,
        .linear_decay_fraction = 0.5,
        .total_decay_steps = 100,
    };
    CHECK(o, { 0, 1 }, { 40, 1.0 / 40 }, { 60, 1.0 / 60 * 0.8 }, { 100, 0 }, { 200, 0 });
}

static void test_schedule__power_with_offset(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_POWER_WITH_OFFSET;
    o.learning_rate.power_with_offset = (et_schedule_power_with_offset){
        .initial_learning_rate = 1, .power = -0.5, .offset = 10, .pre_offset_learning_rate = 0.5
    };
    CHECK(o, { 0, 0.5 }, { 10, 0.5 }, { 11, 0.5 }, { 14, 0.5 }, { 26, 0.25 });
}

static void test_schedule__exponential(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_EXPONENTIAL;
    o.learning_rate.exponential = (et_schedule_exponential){ .initial_learning_rate = 0.1,
                                                             .decay_rate = 0.5,
                                                             .decay_steps = 10 };
    CHECK(o, { 0, 0.1 }, { 10, 0.05 }, { 15, 0.1 * 0.353553390593273762 });
    o.learning_rate.exponential.staircase = true;
    CHECK(o, { 9, 0.1 }, { 15, 0.05 }, { 20, 0.025 });
}

static void test_schedule__polynomial(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_POLYNOMIAL;
    o.learning_rate.polynomial.initial_learning_rate = 0.1;
    o.learning_rate.polynomial.decay_steps = 100;
    CHECK(o, { 0, 0.1 }, { 50, 0.05005 }, { 100, 1e-4 }, { 500, 1e-4 });
    o.learning_rate.polynomial.cycle = true;
    CHECK(o, { 0, 0.1 }, { 100, 1e-4 }, { 150, 0.0999 * 0.25 + 1e-4 }, { 200, 1e-4 });
}

static void test_schedule__cosine(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_COSINE;
    o.learning_rate.cosine =
        (et_schedule_cosine){ .initial_learning_rate = 2, .alpha = 0.1, .decay_steps = 100 };
    CHECK(o, { 0, 2 }, { 50, 1.1 }, { 100, 0.2 }, { 1000, 0.2 });
}

static void test_schedule__cosine_restarts(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_COSINE_RESTARTS;
    o.learning_rate.cosine_restarts.initial_learning_rate = 1;
    o.learning_rate.cosine_restarts.first_decay_steps = 10;
    o.learning_rate.cosine_restarts.m_mul = 0.5;
    /* Periods of 10, 20, 40 steps, each half as high. */
    CHECK(o, { 0, 1 }, { 5, 0.5 }, { 10, 0.5 }, { 20, 0.25 }, { 30, 0.25 }, { 50, 0.125 });
    o.learning_rate.cosine_restarts.t_mul = 1;
    CHECK(o, { 5, 0.5 }, { 10, 0.5 }, { 15, 0.25 }, { 20, 0.25 });
    /* Restarts for which log(t_mul^n) / log(t_mul) is not n in double precision. */
    o.learning_rate.cosine_restarts.m_mul = 1;
    o.learning_rate.cosine_restarts.first_decay_steps = 100;
    o.learning_rate.cosine_restarts.t_mul = 3;
    CHECK(o, { 12099, 0.5 * (1 + cos(3.14159265358979323846 * 8099 / 8100)) }, { 12100, 1 });
    o.learning_rate.cosine_restarts.t_mul = 1.2;
    CHECK(o, { 364, 1 });
    o.learning_rate.cosine_restarts.first_decay_steps = 1000;
    o.learning_rate.cosine_restarts.t_mul = 10;
    CHECK(o, { 111000, 1 }, { 1111000, 1 });
}

/* Before its offset a schedule's formula continues with s = step - offset below 0. */
static void test_schedule__before_the_offset(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    et_rate_options *r = &o.learning_rate;
    r->type = ET_RATE_EXPONENTIAL;
    r->exponential = (et_schedule_exponential){
        .initial_learning_rate = 1, .decay_rate = 0.25, .decay_steps = 10, .offset = 15
    };
    CHECK(o, { 0, 8 }, { 10, 2 }, { 15, 1 });
    r->exponential.staircase = true;
    CHECK(o, { 0, 16 }, { 5, 4 }, { 14, 4 }, { 15, 1 });
    r->type = ET_RATE_COSINE;
    r->cosine =
        (et_schedule_cosine){ .initial_learning_rate = 2, .decay_steps = 100, .offset = 150 };
    CHECK(o, { 0, 1 }, { 50, 0 }, { 100, 1 }, { 150, 2 }, { 200, 1 });
    r->type = ET_RATE_POLYNOMIAL;
    r->polynomial = (et_schedule_polynomial){ .initial_learning_rate = 1,
                                              .end_learning_rate = 0.5,
                                              .power = 1,
                                              .decay_steps = 10,
                                              .offset = 5 };
    CHECK(o, { 0, 1.25 }, { 5, 1 }, { 10, 0.75 });
    r->type = ET_RATE_POWER_LINEAR;
    r->power_linear = (et_schedule_power_linear){ .initial_learning_rate = 1,
                                                  .power = -1,
                                                  .linear_decay_fraction = 0.5,
                                                  .total_decay_steps = 100,
                                                  .offset = 10 };
    CHECK(o, { 0, 1 }, { 11, 1 }, { 50, 1.0 / 40 }, { 70, 0.8 / 60 });
    r->type = ET_RATE_STEPWISE;
    r->stepwise = (et_schedule_stepwise){ LIST("5"), LIST("1", "0.5"), .offset = 10 };
    CHECK(o, { 0, 1 }, { 15, 1 }, { 16, 0.5 });
}

/* Periods before the offset are the shorter and the higher ones, where m_mul makes later ones
 * lower. With t_mul 2 all of them together are as long as the first after it; before that the
 * formula has no value. */
static void test_schedule__restarts_before_the_offset(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    et_schedule_cosine_restarts *c = &o.learning_rate.cosine_restarts;
    o.learning_rate.type = ET_RATE_COSINE_RESTARTS;
    *c = (et_schedule_cosine_restarts){ .initial_learning_rate = 0.01,
                                        .t_mul = 1,
                                        .m_mul = 0.5,
                                        .first_decay_steps = 10,
                                        .offset = 5 };
    CHECK(o, { 0, 0.01 }, { 5, 0.01 }, { 10, 0.005 }, { 15, 0.005 });
    c->offset = 25;
    CHECK(o, { 0, 0.04 }, { 5, 0.04 }, { 15, 0.02 }, { 25, 0.01 });
    *c = (et_schedule_cosine_restarts){ .initial_learning_rate = 1,
                                        .t_mul = 2,
                                        .m_mul = 0.5,
                                        .alpha = 0.01,
                                        .first_decay_steps = 10,
                                        .offset = 5 };
    CHECK(o, { 0, 0.99 * 2 + 0.01 }, { 5, 1 }, { 10, 0.99 * 0.5 + 0.01 });
    c->offset = 9;
    CHECK(o, { 0, 0.99 * 0.5 * 16 * (1 + cos(3.14159265358979323846 * 0.6)) + 0.01 });
    c->offset = 30;
    CHECK(o, { 0, 1 }, { 20, 1 }, { 25, 0.99 * 2 + 0.01 }, { 30, 1 });
    /* 0^-1. */
    c->m_mul = 0;
    CHECK(o, { 0, 1 }, { 25, 1 }, { 30, 1 }, { 40, 0.01 });
}

/* A cycle of length 0 or less is before the offset; some of its rates are rates all the same. */
static void test_schedule__cycles_before_the_offset(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_POLYNOMIAL;
    o.learning_rate.polynomial = (et_schedule_polynomial){ .initial_learning_rate = 1,
                                                           .power = 2,
                                                           .end_learning_rate = 0.5,
                                                           .decay_steps = 10,
                                                           .cycle = true,
                                                           .offset = 15 };
    CHECK(o, { 0, 0.5 * 0.25 + 0.5 }, { 5, 0.5 }, { 10, 1 }, { 15, 1 }, { 25, 0.5 });
    o.learning_rate.polynomial.power = 0.5;
    CHECK(o, { 0, 1 }, { 5, 0.5 }, { 10, 1 }, { 15, 1 });
}

static void test_schedule__power_under_warmup(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_POWER;
    o.learning_rate.power = (et_schedule_power){ .initial_learning_rate = 2, .power = -0.5 };
    CHECK(o, { 0, 2 }, { 1, 2 }, { 100, 0.2 });
    o.warmup.type = ET_WARMUP_LINEAR;
    o.warmup.linear.warmup_steps = 100;
    /* The warm-up ends at the schedule's rate at step 100, and does not delay the schedule. */
    CHECK(o, { 0, 0 }, { 50, 0.1 }, { 100, 0.2 }, { 400, 0.1 });
}

static void test_schedule__inverse_sqrt(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_INVERSE_SQRT;
    o.learning_rate.inverse_sqrt = (et_schedule_inverse_sqrt){ .peak_learning_rate = 5e-4,
                                                               .warmup_init_learning_rate = 1e-7,
                                                               .warmup_steps = 4000 };
    CHECK(o, { 0, 1e-7 }, { 1, 1e-7 + 4.999e-4 / 4000 }, { 2000, 2.5005e-4 }, { 4000, 5e-4 },
          { 16000, 2.5e-4 });
    o.warmup.type = ET_WARMUP_LINEAR;
    o.warmup.linear.warmup_steps = 100;
    et_schedule schedule;
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG,
                 "warms up by itself");
}

/* The length of the warm-up, in whichever setting it is. */
static void test_schedule__length_of_the_warmup(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    et_schedule schedule;
    o.warmup.linear.warmup_steps = 7;
    o.warmup.polynomial.warmup_steps = 8;
    const int64_t steps[] = {
        [ET_WARMUP_NONE] = 0, [ET_WARMUP_LINEAR] = 7, [ET_WARMUP_POLYNOMIAL] = 8
    };
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.learning_rate.constant.learning_rate = 0.1;
    for (int type = 0; type < (int)(sizeof steps / sizeof *steps); type++) {
        o.warmup.type = type;
        assert_ok(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error));
        assert_int_equal(et_schedule_warmup(&schedule), steps[type]);
    }
    o.warmup.type = ET_WARMUP_NONE;
    o.learning_rate.type = ET_RATE_INVERSE_SQRT;
    o.learning_rate.inverse_sqrt =
        (et_schedule_inverse_sqrt){ .peak_learning_rate = 5e-4, .warmup_steps = 4000 };
    assert_ok(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error));
    assert_int_equal(et_schedule_warmup(&schedule), 4000);
}

/* Model Garden's example, with boundaries at which values begin. It leaves two cases undefined:
 * from the last boundary on the last value holds, before the first one the first. */
static void test_schedule__step_cosine_with_offset(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    et_schedule_step_cosine_with_offset *s = &o.learning_rate.step_cosine_with_offset;
    o.learning_rate.type = ET_RATE_STEP_COSINE_WITH_OFFSET;
    s->boundaries = LIST("0", "500000");
    s->values = LIST("1e-4", "5e-5");
    CHECK(o, { 0, 1e-4 }, { 250000, 7.5e-5 }, { 500000, 5e-5 }, { 500001, 5e-5 },
          { 100000000, 5e-5 });
    s->boundaries = LIST("10", "20", "40");
    s->values = LIST("1", "0.5", "2");
    s->offset = 5;
    CHECK(o, { 0, 0.75 }, { 5, 1 }, { 14, 1 }, { 15, 1 }, { 20, 0.75 }, { 25, 0.5 }, { 35, 1.25 },
          { 45, 2 }, { 46, 2 });
    s->boundaries = LIST("0", "100");
    s->values = LIST("0.3", "0.2");
    s->offset = 50;
    CHECK(o, { 0, 0.25 }, { 50, 0.3 }, { 100, 0.25 }, { 150, 0.2 });
    s->offset = 3;
    CHECK(o, { 0, 0.05 * (1 + cos(3.14159265358979323846 * 0.03)) + 0.2 }, { 3, 0.3 });
    s->boundaries = LIST("10", "20");
    s->offset = 5;
    CHECK(o, { 0, 0.25 }, { 5, 0.3 }, { 15, 0.3 }, { 20, 0.25 });
    s->boundaries = LIST("7");
    s->values = LIST("0.25");
    CHECK(o, { 0, 0.25 }, { 12, 0.25 }, { 13, 0.25 });
}

/* Settings give epochs; steps are known with the data: batches of a pass, batches of an update. */
static void test_schedule__epochs(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    et_rate_options *r = &o.learning_rate;
    const struct {
        int type;
        int64_t *steps;
    } lengths[] = { { ET_RATE_EXPONENTIAL, &r->exponential.decay_steps },
                    { ET_RATE_POLYNOMIAL, &r->polynomial.decay_steps },
                    { ET_RATE_COSINE, &r->cosine.decay_steps },
                    { ET_RATE_COSINE_RESTARTS, &r->cosine_restarts.first_decay_steps },
                    { ET_RATE_POWER_LINEAR, &r->power_linear.total_decay_steps } };
    for (int i = 0; i < 5; i++) {
        r->type = ET_RATE_CONSTANT;
        *lengths[i].steps = -2500;
        assert_false(et_optimization_counts_epochs(&o)); /* of a schedule that is not chosen */
        r->type = lengths[i].type;
        assert_true(et_optimization_counts_epochs(&o));
        et_optimization_resolve(&o, 101, 4);
        assert_int_equal(*lengths[i].steps, 63);
        assert_false(et_optimization_counts_epochs(&o));
        *lengths[i].steps = -1;
        et_optimization_resolve(&o, 101, 4);
        assert_int_equal(*lengths[i].steps, 1);
        *lengths[i].steps = -2500;
        r->run.gradients = 3; /* of roles */
        et_optimization_resolve(&o, 101, 4);
        assert_int_equal(*lengths[i].steps, 21);
        r->run.gradients = 0;
        et_optimization_resolve(&o, 1000, 1);
        assert_int_equal(*lengths[i].steps, 21);
    }
}

static void test_schedule__boundaries_in_epochs(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    et_schedule schedule;
    o.learning_rate.type = ET_RATE_STEPWISE;
    o.learning_rate.stepwise.boundaries = LIST("150", "2ep");
    o.learning_rate.stepwise.values = LIST("3", "2", "1");
    assert_true(et_optimization_counts_epochs(&o));
    assert_ok(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error));
    et_optimization_resolve(&o, 200, 2);
    assert_false(et_optimization_counts_epochs(&o));
    CHECK(o, { 0, 3 }, { 150, 3 }, { 151, 2 }, { 200, 2 }, { 201, 1 });
    et_optimization_resolve(&o, 100, 2);
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG,
                 ".boundaries: 100 follows 150; sort them");
    o.learning_rate.stepwise.values = LIST("3ep", "2", "1");
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG,
                 "values: '3ep' is not a number of at least 0");
}

/* Each with its own settings, and a run of 1,100 steps, 100 of them before. */
static void test_schedule__ends_with_the_run(void **state)
{
    (void)state;
    static const struct {
        const char *settings;
        vector rates[4];
    } cases[] = {
        { "{type: cosine, cosine: {initial_learning_rate: 2, alpha: 0.1, offset: 100}}",
          { { 100, 2 }, { 600, 1.1 }, { 1100, 0.2 }, { 5000, 0.2 } } },
        { "{type: cosine, cosine: {initial_learning_rate: 2, decay_steps: auto}}",
          { { 0, 2 }, { 275, 1 + 0.70710678118654752 }, { 550, 1 }, { 1100, 0 } } },
        { "{type: polynomial, polynomial: {initial_learning_rate: 0.1, end_learning_rate: 0, "
          "decay_steps: null}}",
          { { 0, 0.1 }, { 110, 0.09 }, { 550, 0.05 }, { 1100, 0 } } },
        { "{type: exponential, exponential: {initial_learning_rate: 8, decay_rate: 0.25, "
          "decay_steps: 0}}",
          { { 0, 8 }, { 550, 4 }, { 1100, 2 }, { 2200, 0.5 } } },
        { "{type: power_linear, power_linear: {initial_learning_rate: 1, power: 0, "
          "linear_decay_fraction: 0.5, offset: 100}}",
          { { 100, 1 }, { 600, 1 }, { 850, 0.5 }, { 1100, 0 } } },
        { "{type: stepwise, stepwise: {values: [3, 2, 1, 0.5], offset: 100}}",
          { { 350, 3 }, { 351, 2 }, { 850, 1 }, { 851, 0.5 } } },
        { "{type: step_cosine_with_offset, step_cosine_with_offset: {values: [4, 2, 1], "
          "offset: 100}}",
          { { 100, 4 }, { 350, 3 }, { 850, 1.5 }, { 1100, 1 } } },
        { "{type: step_cosine_with_offset, step_cosine_with_offset: {values: 4}}",
          { { 0, 4 }, { 1, 4 }, { 1000, 4 }, { 1100, 4 } } },
        { "{type: cosine, cosine: {initial_learning_rate: 2, decay_steps: 100}}",
          { { 0, 2 }, { 50, 1 }, { 100, 0 }, { 1100, 0 } } },
        { "{type: constant}", { { 0, 0.1 }, { 1, 0.1 }, { 2, 0.1 }, { 1100, 0.1 } } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_arena arena = ET_ARENA_INIT;
        et_optimization_options o = default_options();
        char text[400];
        snprintf(text, sizeof text, "{learning_rate: %s}", cases[i].settings);
        assert_ok(read_options(&o, text, &arena, error));
        assert_ok(et_optimization_end_with_run(&o, 1100, &arena, error));
        check(&o, cases[i].rates, 4);
        et_arena_release(&arena);
    }
}

/* The same in epochs, which become steps with the data. */
static void test_schedule__ends_with_epochs(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_COSINE;
    o.learning_rate.cosine.initial_learning_rate = 2;
    assert_ok(et_optimization_end_with_run(&o, -2500, &arena, error));
    assert_true(et_optimization_counts_epochs(&o));
    et_optimization_resolve(&o, 80, 2);
    CHECK(o, { 0, 2 }, { 50, 1 }, { 100, 0 });
    o.learning_rate.type = ET_RATE_STEPWISE;
    o.learning_rate.stepwise.values = LIST("3", "2", "1");
    assert_ok(et_optimization_end_with_run(&o, -3000, &arena, error));
    assert_string_equal(o.learning_rate.stepwise.boundaries.items[1], "2.000ep");
    et_optimization_resolve(&o, 80, 2);
    CHECK(o, { 40, 3 }, { 41, 2 }, { 80, 2 }, { 81, 1 });
    et_arena_release(&arena);
}

static void test_schedule__no_room_for_a_decay(void **state)
{
    (void)state;
    et_arena arena = ET_ARENA_INIT;
    et_schedule schedule;
    et_optimization_options o = default_options();
    et_schedule_cosine *cosine = &o.learning_rate.cosine;
    o.learning_rate.type = ET_RATE_COSINE;
    *cosine = (et_schedule_cosine){ .initial_learning_rate = 1, .offset = 100 };
    assert_fails(
        et_optimization_end_with_run(&o, 100, &arena, error), ET_ECONFIG,
        "cosine.offset: 100 steps leave no step of 100 for the decay; give a smaller offset");
    assert_fails(
        et_optimization_end_with_run(&o, -100000, &arena, error), ET_ECONFIG,
        "cosine.offset: 100 steps cannot be combined with a run length in epochs; set decay_steps");
    assert_ok(et_optimization_end_with_run(&o, 101, &arena, error));
    assert_int_equal(cosine->decay_steps, 1);
    /* Of a run that nobody knows, and of periods, a length has to be given. */
    cosine->decay_steps = 0;
    assert_ok(et_optimization_end_with_run(&o, 0, &arena, error));
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG,
                 "cosine.decay_steps: give a number greater than 0");
    o.learning_rate.type = ET_RATE_COSINE_RESTARTS;
    o.learning_rate.cosine_restarts.initial_learning_rate = 1;
    assert_ok(et_optimization_end_with_run(&o, 100, &arena, error));
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG,
                 "cosine_restarts.first_decay_steps: give a number greater than 0");
    /* More values than steps: the first boundaries would be one. */
    o.learning_rate.type = ET_RATE_STEPWISE;
    o.learning_rate.stepwise.values = LIST("4", "3", "2", "1", "0.5");
    assert_ok(et_optimization_end_with_run(&o, 2, &arena, error));
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG,
                 "sort them");
    et_arena_release(&arena);
}

static void test_schedule__wrong_settings(void **state)
{
    (void)state;
    et_schedule schedule;
    et_optimization_options o = default_options();
#define FAILS(part)                                                                                \
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG, part)
    FAILS("learning_rate.type is not set");
    o.learning_rate.type = ET_RATE_COSINE;
    FAILS("cosine.initial_learning_rate: give a number greater than 0");
    o.learning_rate.cosine.initial_learning_rate = 1;
    FAILS("cosine.decay_steps: give a number greater than 0");
    o.learning_rate.cosine.decay_steps = -2500; /* 2.5ep */
    assert_ok(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error));
    o.learning_rate.type = ET_RATE_STEPWISE;
    FAILS("0 boundaries and 0 values");
    o.learning_rate.stepwise.boundaries = LIST("10", "x");
    o.learning_rate.stepwise.values = LIST("1", "2", "3");
    FAILS(": 'x' is not a number of at least 0");
    o.learning_rate.stepwise.boundaries = LIST("10", "10");
    FAILS("sort them");
    et_schedule_step_cosine_with_offset *s = &o.learning_rate.step_cosine_with_offset;
    o.learning_rate.type = ET_RATE_STEP_COSINE_WITH_OFFSET;
    FAILS("step_cosine_with_offset.values: give at least one number");
    s->values = LIST("1", "0.5");
    s->boundaries = LIST("0");
    FAILS("1 boundaries and 2 values; give equal numbers of both");
    s->boundaries = LIST("5", "5");
    FAILS("step_cosine_with_offset.boundaries: 5 follows 5");
    s->boundaries = LIST("0", "-5");
    FAILS("step_cosine_with_offset.boundaries: '-5' is not a number of at least 0");
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.warmup.type = ET_WARMUP_POLYNOMIAL;
    FAILS("warmup.polynomial.warmup_steps: give a number greater than 0");
#undef FAILS
}

/* The formula of the paper, and its zeros: cosine i ends at (2^i - 1) / 15 of the run. */
static void test_schedule__cosine_log(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_COSINE_LOG;
    o.learning_rate.cosine_log =
        (et_schedule_cosine_log){ .peak_learning_rate = 2, .cycles = 4, .decay_steps = 150 };
    CHECK(o, { 0, 0 }, { 10, 0 }, { 30, 0 }, { 70, 0 }, { 150, 0 }, { 1000, 0 });
    for (int step = 0; step <= 150; step++) {
        const double turns = log(1 + 15 * step / 150.0) / log(2);
        CHECK(o, { step, 1 - cos(turns * 2 * acos(-1)) });
    }
    o.learning_rate.cosine_log.cycles = 1;
    CHECK(o, { 150, 0 }, { 62, 1 - cos(2 * acos(-1) * log(1 + 62 / 150.0) / log(2)) });
    o.learning_rate.cosine_log.offset = 50;
    CHECK(o, { 112, 1 - cos(2 * acos(-1) * log(1 + 62 / 150.0) / log(2)) });
    et_schedule schedule;
    o.learning_rate.cosine_log.peak_learning_rate = 0;
    assert_fails(et_schedule_init(&schedule, &o.learning_rate, &o.warmup, error), ET_ECONFIG,
                 "learning_rate.cosine_log.peak_learning_rate");
}

/* A schedule that ends with the run follows the run's length; one of another length does not. */
static void test_schedule__follows_the_length(void **state)
{
    (void)state;
    et_optimization_options o = default_options();
    o.learning_rate.type = ET_RATE_COSINE;
    o.learning_rate.cosine = (et_schedule_cosine){ .initial_learning_rate = 2, .decay_steps = 100 };
    et_rate_follow_length(&o.learning_rate, 100, 60);
    CHECK(o, { 0, 2 }, { 30, 1 }, { 60, 0 });
    et_rate_follow_length(&o.learning_rate, 100, 40);
    CHECK(o, { 30, 1 }, { 60, 0 });
    o.learning_rate.type = ET_RATE_POLYNOMIAL;
    o.learning_rate.polynomial = (et_schedule_polynomial){
        .initial_learning_rate = 2, .power = 1, .decay_steps = 90, .offset = 10
    };
    et_rate_follow_length(&o.learning_rate, 100, 60);
    CHECK(o, { 10, 2 }, { 35, 1 }, { 60, 0 });
    et_rate_follow_length(&o.learning_rate, 60, 10);
    CHECK(o, { 35, 1 });
    o.learning_rate.type = ET_RATE_CONSTANT;
    o.learning_rate.constant.learning_rate = 2;
    et_rate_follow_length(&o.learning_rate, 100, 60);
    CHECK(o, { 80, 2 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_schedule__follows_the_length),
        cmocka_unit_test(test_schedule__constant_with_linear_warmup),
        cmocka_unit_test(test_schedule__stepwise_with_polynomial_warmup),
        cmocka_unit_test(test_schedule__power_linear),
        cmocka_unit_test(test_schedule__power_with_offset),
        cmocka_unit_test(test_schedule__exponential),
        cmocka_unit_test(test_schedule__polynomial),
        cmocka_unit_test(test_schedule__cosine),
        cmocka_unit_test(test_schedule__cosine_restarts),
        cmocka_unit_test(test_schedule__before_the_offset),
        cmocka_unit_test(test_schedule__restarts_before_the_offset),
        cmocka_unit_test(test_schedule__cycles_before_the_offset),
        cmocka_unit_test(test_schedule__power_under_warmup),
        cmocka_unit_test(test_schedule__inverse_sqrt),
        cmocka_unit_test(test_schedule__length_of_the_warmup),
        cmocka_unit_test(test_schedule__step_cosine_with_offset),
        cmocka_unit_test(test_schedule__epochs),
        cmocka_unit_test(test_schedule__boundaries_in_epochs),
        cmocka_unit_test(test_schedule__ends_with_the_run),
        cmocka_unit_test(test_schedule__ends_with_epochs),
        cmocka_unit_test(test_schedule__no_room_for_a_decay),
        cmocka_unit_test(test_schedule__wrong_settings),
        cmocka_unit_test(test_schedule__cosine_log),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
