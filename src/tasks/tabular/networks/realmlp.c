/* RealMLP (Holzmueller, Grinsztajn and Steinwart 2024, "Better by Default: Strong Pre-Tuned MLPs
 * and Boosted Trees on Tabular Data"): layers whose rates do not depend on their widths.
 *
 *   x      columns side by side, each times a learned factor
 *   layer  drop(f(x W / sqrt(inputs) + b)), W standard normal (the neural tangent parametrization)
 *   f      selu for classes, mish for values; parametric: x + a (f(x) - x), a learned for each unit
 *
 * Rates of parameters, label smoothing and schedules are settings of the experiment. Biases begin
 * at 0; the paper initializes them from the data. */
#include "tasks/tabular/networks/networks_private.h"

#include <etude/layers.h>

static et_activation activation_of(const et_tabular_realmlp *model, bool values)
{
    if (model->activation != ET_TABULAR_ACTIVATION_AUTO)
        return (et_activation)(model->activation - ET_TABULAR_ACTIVATION_AUTO - 1);
    return values ? ET_ACTIVATION_MISH : ET_ACTIVATION_SELU;
}

static et_node *scaled(et_scope *scope, et_node *x)
{
    et_shape in = et_node_shape(x);
    et_shape width = et_shape_1(in.rank == 2 ? in.size[1] : 0);
    return et_mul(x, et_param(scope, "scale", width, (et_init){ ET_INIT_ONES, 0 }));
}

static et_node *activated(et_scope *layer, et_node *x, const et_tabular_realmlp *model,
                          et_activation activation)
{
    et_node *y = et_activate(x, activation);
    if (!model->parametric_activation)
        return y;
    et_node *share =
        et_param(layer, "activation", et_shape_1(model->width), (et_init){ ET_INIT_ONES, 0 });
    return et_add(x, et_mul(et_sub(y, x), share));
}

et_node *et_tabular_realmlp_build(et_scope *scope, const et_tabular_realmlp *model,
                                  const et_tabular_inputs *inputs, int64_t outputs)
{
    const et_dense_options tangent = { .tangent = true };
    const et_activation activation = activation_of(model, inputs->values);
    et_node *x = et_tabular_flatten(et_in(scope, "columns"), inputs, &model->columns);
    x = scaled(et_in(scope, "input"), x);
    for (int i = 0; i < model->num_layers; i++) {
        et_scope *layer = et_at(scope, "layer", i);
        x = activated(layer, et_dense_with(layer, x, model->width, &tangent), model, activation);
        x = et_dropout(layer, x, (float)model->dropout);
    }
    return et_dense_with(et_in(scope, "logits"), x, outputs, &tangent);
}
