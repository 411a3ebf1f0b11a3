/* A loop, a store with untrained variables, and batches of counted numbers, "x" in float32. Include
 * after cmocka.h. */
#ifndef ETUDE_TESTS_REFERENCES_TFSNIPPET_NUMBERS_H
#define ETUDE_TESTS_REFERENCES_TFSNIPPET_NUMBERS_H

#include <etude/layers.h>
#include <etude/loop_trainer.h>
#include <etude/ops.h>
#include <etude/ops_elementwise.h>

#include "systems/tfsnippet/looped.h"

/* Adds untrained variables of one element to the store, which gets its memory. */
static inline void numbers_init(looped *l, const char *const *names, int count)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    int index;
    looped_init(l);
    et_params_free(l->params);
    assert_ok(et_params_new(&l->params, error));
    assert_ok(et_params_declare(l->params, "w", et_shape_1(1), zeros, &index, error));
    for (int i = 0; i < count; i++)
        assert_ok(et_params_declare_variable(l->params, names[i], et_shape_scalar(), zeros, &index,
                                             error));
    assert_ok(et_params_materialize(l->params, false, error));
    l->options.max_epoch = 1;
    l->options.no_eta = true;
}

/* first, first + 1, ..., count numbers in batches of size. */
static inline et_source *numbers_source(int first, int count, int64_t size)
{
    static float numbers[16];
    const et_array arrays[] = { { "x", ET_F32, numbers, et_shape_scalar() } };
    const et_batches_options options = { .capacity = { size } };
    et_samples *samples;
    et_source *source;
    for (int i = 0; i < count; i++)
        numbers[i] = (float)(first + i);
    assert_ok(et_arrays_open(&samples, arrays, 1, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

#endif
