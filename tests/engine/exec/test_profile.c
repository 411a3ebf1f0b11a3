/* A plan with a trace: contents of its trace and its table; tracing must not change results. */
#include "engine/exec/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/exec/model.h"
#include "engine/exec/plan_private.h"
#include "engine/graph/build.h"
#include "engine/tensor/params.h"
#include "skip.h"

#define ROWS    40
#define CLASSES 6

static int32_t labels[ROWS];

/* A classifier with a product, a chain, a norm and a loss. */
static et_node *classifier(et_scope *s)
{
    et_init init = { ET_INIT_NORMAL, 1 }, ones = { ET_INIT_ONES, 0 };
    et_node *x = et_param(s, "x", et_shape_2(ROWS, 16), init);
    et_node *h = et_matmul(x, et_param(s, "in", et_shape_2(16, 24), init), NULL, NULL);
    h = et_layer_norm(et_dropout(s, et_relu(h), 0.1f), et_param(s, "gamma", et_shape_1(24), ones),
                      et_param(s, "beta", et_shape_1(24), init), 1e-6f);
    h = et_matmul(h, et_param(s, "out", et_shape_2(24, CLASSES), init), NULL, NULL);
    return et_softmax_loss(h, et_input(s, "labels", ET_I32, et_shape_1(ROWS)), 0.1f);
}

typedef struct traced {
    test_model model;
    et_trace *trace; /* NULL: nobody watches */
} traced;

/* As test_model_open_with, the device watched before the plan is made. */
static void open_traced(traced *w, et_dtype act)
{
    et_error error = ET_ERROR_INIT;
    et_trace_options options = ET_TRACE_OPTIONS_INIT;
    options.unit = "run"; /* name of a plan's runs unless it has another */
    assert_int_equal(et_trace_new(&w->trace, &options, NULL), ET_OK);
    test_model_open_with(&w->model, classifier, act, true, NULL);
    et_plan_free(w->model.plan);
    et_device_record(w->model.device, w->trace);
    et_node *loss = w->model.graph->nodes[w->model.graph->count - 1];
    for (int i = 0; i < w->model.graph->count; i++)
        if (w->model.graph->nodes[i]->op == ET_OP_SOFTMAX_LOSS)
            loss = w->model.graph->nodes[i];
    if (et_plan_new(&w->model.plan, w->model.graph, w->model.device, &loss, 1, NULL, &error))
        fail_msg("%s", error.text);
}

static void close_traced(traced *w)
{
    test_model_close(&w->model);
    et_trace_free(w->trace);
}

static void run_plan(traced *w, int64_t runs)
{
    for (int i = 0; i < ROWS; i++)
        labels[i] = i % CLASSES;
    et_plan_bind(w->model.plan, "labels", labels);
    for (int64_t i = 1; i <= runs; i++)
        et_plan_run(w->model.plan, (et_random){ 3, (uint64_t)i, 0 });
}

/* Runs 2 and 3 of 4. */
static void record(traced *w)
{
    et_trace_window(w->trace, 2, 3);
    run_plan(w, 4);
    et_trace_stop(w->trace);
}

/* Each step of the plan is a span of the run, in order, under its name; the weights were packed
 * in the first run, which is not recorded. */
static void test_profile__every_step(void **state)
{
    (void)state;
    traced w;
    open_traced(&w, ET_F32);
    record(&w);
    const et_plan *plan = w.model.plan;
    size_t spans, at = 0;
    et_trace_track(w.trace, 0, &spans);
    for (int run = 0; run < 2; run++) {
        assert_string_equal(et_trace_span(w.trace, 0, at).activity->name, "run");
        assert_int_equal(et_trace_span(w.trace, 0, at++).number, run + 2);
        for (int i = 0; i < plan->call_count; at++) {
            assert_true(at < spans);
            et_span span = et_trace_span(w.trace, 0, at);
            if (!span.activity->kind) /* a tile */
                continue;
            assert_string_equal(span.activity->name, plan->calls[i].node->name);
            assert_string_equal(span.activity->kind, et_plan_call_kind(&plan->calls[i]));
            assert_true(span.cost.bytes == et_plan_call_cost(plan, &plan->calls[i]).bytes);
            assert_int_equal(span.depth, 1);
            i++;
        }
        while (at < spans && !et_trace_span(w.trace, 0, at).activity->kind)
            at++;
    }
    assert_int_equal(at, spans);
    close_traced(&w);
}

/* Every tile of every product is a span of the thread that did it. */
static void test_profile__tiles(void **state)
{
    (void)state;
    traced w;
    int64_t wanted = 0, found = 0;
    open_traced(&w, ET_F32);
    record(&w);
    for (int i = 0; i < w.model.plan->call_count; i++)
        if (w.model.plan->calls[i].gemm[0])
            wanted += 2 * et_gemm_tiles(w.model.plan->calls[i].gemm[0]);
    et_trace_facts facts = et_trace_facts_of(w.trace);
    assert_int_equal(facts.tracks, w.model.device->threads);
    for (int i = 0; i < facts.tracks; i++) {
        size_t spans;
        et_trace_track(w.trace, i, &spans);
        for (size_t k = 0; k < spans; k++)
            found += !strcmp(et_trace_span(w.trace, i, k).activity->name, "tile");
    }
    assert_true(wanted > 0);
    assert_int_equal(found, wanted);
    close_traced(&w);
}

/* The activity describes the call. */
static void test_profile__activities(void **state)
{
    (void)state;
    static const struct {
        const char *kind, *kernel, *shape;
        bool product;
        et_dtype act;
    } cases[] = {
        { "matrix product, forward", "onednn:", "[40, 16] [16, 24] -> [40, 24]", true, ET_BF16 },
        { "matrix product, forward", " float_product", "[40, 16] [16, 24] -> [40, 24]", true,
          ET_F32 },
        { "matrix product, weight gradient", " float_product", "[40, 16] [40, 24] -> [16, 24]",
          true, ET_F32 },
        { "element-wise", " relu+dropout", "[40, 24] -> [40, 24]", false, ET_F32 },
        { "layer_norm", " layer_norm", "[40, 24] [24] [24] -> [40, 24] [40, 2]", false, ET_F32 },
        { "softmax_loss", " softmax_loss", "[40, 6] [40] -> [4] [40, 6]", false, ET_F32 },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        traced w;
        bool found = false;
        open_traced(&w, cases[c].act);
        for (int i = 0; i < w.model.plan->call_count; i++) {
            const et_activity *activity = &w.model.plan->activities[i];
            found |= !strcmp(activity->kind, cases[c].kind) &&
                     strstr(activity->kernel, cases[c].kernel) &&
                     !strcmp(activity->shape, cases[c].shape) &&
                     activity->product == cases[c].product &&
                     !strcmp(activity->dtype, et_dtype_name(cases[c].act));
        }
        close_traced(&w);
        if (!found)
            fail_msg("no activity of case %zu: %s, %s", c, cases[c].kind, cases[c].shape);
    }
}

/* Losses and gradients have the bits of a plan without a trace, and recording spans allocates
 * nothing. */
static void test_profile__tracing_changes_nothing(void **state)
{
    (void)state;
    traced alone = { .trace = NULL }, w;
    test_model_open_with(&alone.model, classifier, ET_F32, true, NULL);
    run_plan(&alone, 3);
    open_traced(&w, ET_F32);
    et_trace_window(w.trace, 1, 2);
    size_t before = et_alloc_count();
    run_plan(&w, 3);
    assert_int_equal(et_alloc_count(), before);
    et_trace_stop(w.trace);
    assert_memory_equal(et_plan_output(w.model.plan, 0).data,
                        et_plan_output(alone.model.plan, 0).data,
                        ET_LOSS_SUM_COUNT * sizeof(float));
    assert_memory_equal(et_params_gradients(w.model.params),
                        et_params_gradients(alone.model.params),
                        (size_t)et_params_flat_size(w.model.params) * sizeof(float));
    close_traced(&w);
    test_model_close(&alone.model);
}

static const et_profile_row *row_named(const et_profile *profile, const char *kind)
{
    for (int i = 0; i < profile->count; i++)
        if (!strcmp(profile->rows[i].kind, kind))
            return &profile->rows[i];
    fail_msg("no row %s", kind);
    return NULL;
}

/* Rows share out the whole time, and have the calls and the work of two runs. */
static void test_profile__table(void **state)
{
    (void)state;
    static const et_peak peak = { ET_F32, 1e9, 2e9 };
    et_profile profile;
    traced w;
    open_traced(&w, ET_F32);
    record(&w);
    et_profile_make(&profile, w.trace, &peak);
    double seconds = 0, bytes = 0, flops = 0, product_flops = 0, recorded = 0;
    int64_t calls = 0;
    for (int i = 0; i < profile.count; i++) {
        const et_profile_row *row = &profile.rows[i];
        assert_true(row->seconds >= 0 && (i == 0 || row->seconds <= row[-1].seconds));
        seconds += row->seconds;
        recorded += row->cost.bytes;
        calls += row->calls;
    }
    for (int i = 0; i < w.model.plan->call_count; i++) {
        et_cost cost = et_plan_call_cost(w.model.plan, &w.model.plan->calls[i]);
        bytes += 2 * cost.bytes;
        flops += 2 * fmax(cost.flops / 1e9, cost.bytes / 2e9);
        product_flops += w.model.plan->activities[i].product ? 2 * cost.flops : 0;
    }
    assert_true(fabs(seconds - profile.seconds) < 1e-9 * profile.seconds + 1e-12);
    assert_true(bytes == recorded);
    assert_int_equal(calls, 2 * w.model.plan->call_count + 2);
    assert_int_equal(row_named(&profile, "between ops")->calls, 2);
    assert_int_equal(row_named(&profile, "layer_norm")->calls, 2);
    assert_int_equal(row_named(&profile, "other")->calls, 0);
    assert_true(fabs(profile.product_peak_seconds - product_flops / 1e9) < 1e-12);
    double peak_seconds = 0;
    for (int i = 0; i < profile.count; i++)
        peak_seconds += profile.rows[i].peak_seconds;
    assert_true(fabs(peak_seconds - flops) < 1e-9 * flops);
    close_traced(&w);
}

/* The shares that are printed add up to 100 %, rounding aside. */
static void test_profile__print(void **state)
{
    (void)state;
    static const et_peak peak = { ET_F32, 1e9, 2e9 };
    et_profile profile;
    et_strbuf text = ET_STRBUF_INIT;
    traced w;
    open_traced(&w, ET_F32);
    record(&w);
    et_profile_make(&profile, w.trace, &peak);
    et_profile_print(&profile, &text);
    double sum = 0;
    int rows = 0;
    char kind[64];
    long long calls;
    double ms, share;
    for (const char *line = strchr(et_strbuf_text(&text), '\n') + 1; line && *line;
         line = strchr(line, '\n') + 1) {
        if (sscanf(line, "%32c %lld %lf %lf%%", kind, &calls, &ms, &share) != 4)
            break;
        rows++;
        sum += share;
    }
    assert_int_equal(rows, profile.count + 1); /* and "all" */
    assert_true(fabs(sum - 200) < 0.05 * rows);
    assert_non_null(strstr(et_strbuf_text(&text), "roof: 1 GFLOP/s (float32, "));
    assert_non_null(strstr(et_strbuf_text(&text), "2.0 GB/s"));
    et_strbuf_release(&text);
    close_traced(&w);
}

/* The type for which the roof is measured. */
static void test_profile__dtype(void **state)
{
    (void)state;
    if (!et_gemm_has_bf16())
        test_skip("this CPU multiplies no bfloat16");
    for (int act = ET_F32; act <= ET_BF16; act++) {
        traced w;
        open_traced(&w, (et_dtype)act);
        record(&w);
        assert_int_equal(et_profile_dtype(w.trace), act);
        close_traced(&w);
    }
}

static void test_profile__peak(void **state)
{
    (void)state;
    et_device *device;
    et_peak peak;
    assert_int_equal(et_device_open(&device, NULL), ET_OK);
    assert_int_equal(et_peak_measure(&peak, device, ET_F32, NULL), ET_OK);
    assert_true(peak.flops > 1e7 && peak.flops < 1e16 && peak.bytes > 1e6 && peak.bytes < 1e14);
    assert_true(et_peak_seconds(&peak, (et_cost){ peak.flops, 2 * peak.bytes }) == 2);
    et_device_close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile__every_step),
        cmocka_unit_test(test_profile__tiles),
        cmocka_unit_test(test_profile__activities),
        cmocka_unit_test(test_profile__tracing_changes_nothing),
        cmocka_unit_test(test_profile__table),
        cmocka_unit_test(test_profile__print),
        cmocka_unit_test(test_profile__dtype),
        cmocka_unit_test(test_profile__peak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
