/* A graph, its store, device and plan for tests, made from a function that adds nodes. */
#ifndef ETUDE_TESTS_EXEC_MODEL_H
#define ETUDE_TESTS_EXEC_MODEL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/layers.h>

#include "engine/exec/plan.h"
#include "engine/graph/differentiate.h"

typedef struct test_model {
    et_params *params;
    et_graph *graph;
    et_device *device;
    et_plan *plan;
} test_model;

/* Adds the nodes of a loss to a scope. */
typedef et_node *test_build_fn(et_scope *scope);

static inline void test_model_open_as(test_model *model, test_build_fn *build, et_dtype act,
                                      et_recompute recompute, bool gradients,
                                      const et_plan_options *options)
{
    et_error error = ET_ERROR_INIT;
    et_graph_options graph_options = { .training = true, .act = act, .recompute = recompute };
    assert_int_equal(et_params_new(&model->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&model->graph, model->params, &graph_options, &error), ET_OK);
    et_node *loss = build(et_graph_scope(model->graph));
    if (et_graph_finish(model->graph, &error))
        fail_msg("%s", error.text);
    if (gradients && differentiate(model->graph, loss, &error))
        fail_msg("%s", error.text);
    assert_int_equal(et_params_materialize(model->params, act == ET_BF16, &error), ET_OK);
    et_init_draw(model->params, 7);
    assert_int_equal(et_device_open(&model->device, &error), ET_OK);
    if (et_plan_new(&model->plan, model->graph, model->device, &loss, 1, options, &error))
        fail_msg("%s", error.text);
}

static inline void test_model_open_with(test_model *model, test_build_fn *build, et_dtype act,
                                        bool gradients, const et_plan_options *options)
{
    test_model_open_as(model, build, act, ET_RECOMPUTE_CHEAP, gradients, options);
}

static inline void test_model_open(test_model *model, test_build_fn *build)
{
    test_model_open_with(model, build, ET_F32, true, NULL);
}

static inline void test_model_close(test_model *model)
{
    et_plan_free(model->plan);
    et_graph_free(model->graph);
    et_params_free(model->params);
    et_device_close(model->device);
}

#endif
