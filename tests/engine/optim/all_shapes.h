/* Parameters for every rule. Include after cmocka.h. */
#ifndef ETUDE_TESTS_OPTIM_ALL_SHAPES_H
#define ETUDE_TESTS_OPTIM_ALL_SHAPES_H

#include <etude/layers.h>
#include <etude/params.h>

#include "calls.h"

/* Of every rank and larger than chunks; wide, tall, and a matrix that names exclude. */
static const struct {
    const char *name;
    et_shape shape;
} parameters[] = {
    { "embedding", { 2, { 60, 33 } } },        { "wide/weight", { 2, { 70, 150 } } },
    { "wide/bias", { 1, { 150 } } },           { "tall/weight", { 2, { 301, 131 } } },
    { "kernel/weight", { 3, { 3, 150, 7 } } }, { "norm/scale", { 1, { 20000 } } },
    { "row/weight", { 2, { 1, 9 } } },
};
enum { COUNT = sizeof parameters / sizeof parameters[0] };

/* With a variable, and a bfloat16 shadow; drawn. */
static inline et_params *make_params(void)
{
    et_params *params;
    int index;
    et_init init = { ET_INIT_NORMAL, 0.5f };
    assert_ok(et_params_new(&params, error));
    for (int i = 0; i < COUNT; i++)
        assert_ok(et_params_declare(params, parameters[i].name, parameters[i].shape, init, &index,
                                    error));
    assert_ok(et_params_declare_variable(params, "norm/mean", et_shape_1(5), init, &index, error));
    assert_ok(et_params_materialize(params, true, error));
    et_init_draw(params, 7);
    return params;
}

#endif
