/* Shape rules as tables: functions that add nodes to a graph, and the expected results. Include
 * after cmocka.h. */
#ifndef ETUDE_TESTS_GRAPH_SHAPE_CASES_H
#define ETUDE_TESTS_GRAPH_SHAPE_CASES_H

#include <string.h>

#include <etude/layers.h>

#include "engine/graph/build.h"
#include "engine/graph/differentiate.h"
#include "engine/graph/graph.h"

enum { ACT = -1 }; /* the graph's own type */

typedef struct fitting {
    et_node *(*build)(et_scope *);
    int dtype; /* or ACT */
    et_shape shape;
} fitting;

typedef struct misfit {
    et_node *(*build)(et_scope *);
    const char *words[3]; /* of the message; NULL: no more */
} misfit;

/* In a graph of float32 and in one of bfloat16. */
static inline void assert_fit(const fitting *cases, size_t count)
{
    for (size_t i = 0; i < 2 * count; i++) {
        et_error error = ET_ERROR_INIT;
        et_graph_options options = { .training = true, .act = i % 2 ? ET_BF16 : ET_F32 };
        et_params *params;
        et_graph *graph;
        assert_int_equal(et_params_new(&params, &error), ET_OK);
        assert_int_equal(et_graph_new(&graph, params, &options, &error), ET_OK);
        et_node *node = cases[i / 2].build(et_graph_scope(graph));
        if (et_graph_finish(graph, &error))
            fail_msg("case %zu: %s", i / 2, error.text);
        int dtype = cases[i / 2].dtype == ACT ? (int)options.act : cases[i / 2].dtype;
        assert_int_equal(et_node_dtype(node), dtype);
        if (!et_shape_equal(et_node_shape(node), cases[i / 2].shape)) {
            char text[ET_SHAPE_TEXT_MAX];
            fail_msg("case %zu: %s", i / 2, et_shape_print(et_node_shape(node), text));
        }
        et_graph_free(graph);
        et_params_free(params);
    }
}

/* Below a scope "m". A node made from poison is poison, and the first mistake is reported. */
static inline void assert_refused(const misfit *cases, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        et_error error = ET_ERROR_INIT;
        et_graph_options options = { .training = true, .act = ET_BF16 };
        et_params *params;
        et_graph *graph;
        assert_int_equal(et_params_new(&params, &error), ET_OK);
        assert_int_equal(et_graph_new(&graph, params, &options, &error), ET_OK);
        et_scope *s = et_in(et_graph_scope(graph), "m");
        et_node *node = cases[i].build(s);
        if (!et_node_is_poison(node))
            fail_msg("case %zu: %s is taken", i, node->name);
        et_node *second = et_input(s, "second mistake", ET_F32, et_shape_1(-1));
        et_node *later = et_sum(et_add(et_tanh(node), second));
        assert_true(et_node_is_poison(later));
        assert_int_equal(et_graph_finish(graph, &error), ET_EGRAPH);
        for (size_t k = 0; k < 3 && cases[i].words[k]; k++)
            if (!strstr(error.text, cases[i].words[k]))
                fail_msg("case %zu: no \"%s\" in: %s", i, cases[i].words[k], error.text);
        assert_int_equal(differentiate(graph, later, &error), ET_EGRAPH);
        et_graph_free(graph);
        et_params_free(params);
    }
}

#endif
