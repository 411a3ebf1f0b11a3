/* The weights of a model: the program prints their names, changes values, and handles parts of the
 * model as groups and modules.
 *
 *     cc weights.c -o weights $(pkg-config --cflags --libs etude)
 *     ./weights [FILE]
 *
 * FILE has weights, such as runs/a/checkpoints/ckpt-500.safetensors. Without a file the weights are
 * the initial ones. Prints each weight with its norm. */
#include <etude/etude.h>

#include <math.h>
#include <stdio.h>

typedef struct model {
    et_params *params;
    et_group *hidden;
    et_module *mlp, *dense;
} model;

static int declare(et_params *params, et_error *error)
{
    static const char *const layers[] = { "mlp/hidden", "mlp/logits" };
    const int64_t in[] = { 4, 8 }, out[] = { 8, 3 };
    int index;
    int status = ET_OK;
    for (int i = 0; i < 2 && !status; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s/weight", layers[i]);
        status = et_params_declare(params, name, et_shape_2(in[i], out[i]),
                                   et_init_glorot_uniform(in[i], out[i]), &index, error);
        snprintf(name, sizeof name, "%s/bias", layers[i]);
        if (!status)
            status = et_params_declare(params, name, et_shape_1(out[i]),
                                       (et_init){ ET_INIT_ZEROS, 0 }, &index, error);
    }
    if (!status)
        status = et_params_declare_variable(params, "mlp/rate", et_shape_scalar(),
                                            (et_init){ ET_INIT_ONES, 0 }, &index, error);
    if (!status)
        status = et_params_materialize(params, false, error);
    if (!status)
        et_init_draw(params, 1);
    return status;
}

static double norm(et_params *params, int index)
{
    const float *values = et_params_values(params) + et_params_offset(params, index);
    double sum = 0;
    for (int64_t i = 0; i < et_shape_count(et_params_shape(params, index)); i++)
        sum += (double)values[i] * values[i];
    return sqrt(sum);
}

static void list(et_params *params)
{
    for (int i = 0; i < et_params_count(params); i++) {
        char shape[ET_SHAPE_TEXT_MAX];
        printf("%s %s: norm %.3f%s\n", et_params_name(params, i),
               et_shape_print(et_params_shape(params, i), shape), norm(params, i),
               et_params_is_trained(params, i) ? "" : ", a variable");
    }
    printf("%d numbers in all, %d of them trained\n", (int)et_params_elements(params),
           (int)et_run_files_count_params(params, true));
}

/* Halves one matrix. Nobody reads weights meanwhile: a save in progress is waited for. */
static void halve(et_params *params, const char *name)
{
    int index = et_params_find(params, name);
    float *values = et_params_values(params) + et_params_offset(params, index);
    et_params_begin_change(params);
    for (int64_t i = 0; i < et_shape_count(et_params_shape(params, index)); i++)
        values[i] /= 2;
    et_params_changed(params, true);
    printf("%s, halved: norm %.3f\n", name, norm(params, index));
}

/* A part of the model by an expression, as an optimizer takes it. */
static int show_group(model *m, et_error *error)
{
    int status = et_group_match(&m->hidden, m->params, "^mlp/hidden/", error);
    for (int i = 0; !status && i < et_group_count(m->hidden); i++)
        printf("group: %s\n", et_params_name(m->params, et_group_param(m->hidden, i)));
    return status;
}

/* The same as modules: names in a tree. */
static int show_modules(model *m, et_error *error)
{
    const et_module_variable *variables;
    size_t count;
    int status = et_module_new(&m->mlp, "Mlp", NULL, NULL, error);
    if (!status)
        status = et_module_new(&m->dense, "Dense", "hidden", m->mlp, error);
    if (!status)
        status = et_module_add_module(m->mlp, "layers", m->dense, error);
    if (!status)
        status = et_module_add_params(m->dense, "weights", m->params, "mlp/hidden/", error);
    if (!status)
        status = et_module_variables(m->mlp, &variables, &count, error);
    if (status)
        return status;
    printf("module %s has %zu variables", et_module_scope_name(m->dense), count);

    et_module_remove(m->dense, "weights");
    status = et_module_variables(m->mlp, &variables, &count, error);
    printf(", and %zu without its weights\n", count);
    return status;
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    model m = { 0 };
    et_log_to_stderr();
    int status = et_params_new(&m.params, &error);
    if (!status)
        status = declare(m.params, &error);
    if (!status && argc > 1)
        status = et_checkpoint_load_weights(m.params, argv[1], true, NULL, &error);

    if (!status) {
        list(m.params);
        halve(m.params, "mlp/hidden/weight");
        status = show_group(&m, &error);
    }
    if (!status)
        status = show_modules(&m, &error);
    if (status)
        fprintf(stderr, "%s\n", error.text);

    et_module_free(m.mlp);
    et_module_free(m.dense);
    et_group_free(m.hidden);
    et_params_free(m.params);
    return status ? 1 : 0;
}
