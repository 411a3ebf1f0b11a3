/* The parameter store: an array of declarations in the order of first declaration, a map from name
 * to index, and flat arrays with all parameters. It has two phases: while it is open, graphs
 * declare and there are no arrays; materialize makes the arrays with their final size, and
 * afterwards no name is added and no array moves. Trained parameters and variables are counted
 * separately; the begin of the variables is known at materialize.
 *
 * Invariants:
 *
 *   (1) offsets are multiples of ET_FLAT_ALIGN; they ascend with the index among trained
 *       parameters, and among variables, all of which come after;
 *   (2) parameter i has et_shape_count(shape) elements from its offset; the rest up to the next
 *       offset is padding, always zero;
 *   (3) by_name's keys are the items' own names, so both live equally long;
 *   (4) in_use is values or a borrowed array of the same layout, never NULL after a successful
 *       materialize;
 *   (5) values, gradients and slots of optimizers change only while `changing`;
 *   (6) of a mapped store only (3) holds: its values are where the file has them, an offset is the
 *       distance to the first of them, and only unlocked parameters change.
 *
 * With flat arrays instead of an allocation for each parameter, the optimizer, clipping, averages
 * and checkpoints are loops over one array that threads can divide anywhere, and a sum over all
 * gradients has one order for any division into tensors. Memory: 8 bytes per element, 10 with the
 * bfloat16 shadow. */
#include "engine/tensor/params.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/dtype.h"
#include "base/map.h"
#include "base/threads/team.h"
#include "base/vector.h"
#include "engine/tensor/tensor.h"
#include "formats/safetensors/safetensors.h"

/* Elements: with 10 bytes of each and all padding, no size of memory overflows. */
#define FLAT_MAX (INT64_MAX / 64)

typedef struct param {
    char *name;     /* owned */
    et_shape shape; /* fixed by the first declaration */
    et_init init;   /* how et_init_draw fills it */
    bool trained;   /* else a variable */
    int64_t offset; /* in the flat arrays; of a variable, before they are made: among variables */
    const et_safetensors_tensor *mapped; /* in the store's file, locked; NULL: it may change */
    int64_t held;                        /* 1 + the row of zeros that stays; 0: none */
} param;

struct et_params {
    param *items; /* owned; [count], in order of first declaration */
    int count;
    size_t capacity;                     /* of items */
    et_map by_name;                      /* name to index */
    int64_t elements;                    /* of all, without padding */
    int64_t trained_size, variable_size; /* with padding */
    int *placed;               /* [count]: indices by offset; owned, NULL before materialize */
    float *values, *gradients; /* NULL before materialize */
    et_bf16 *shadow;           /* NULL: not kept */
    et_safetensors *file;      /* owned; values points to its mapping. NULL: values is owned */
    /* The array that runs read: the average during an evaluation with it, else the values. Only the
     * values are trained. */
    float *in_use;             /* values, or what et_params_use gave */
    uint64_t version;          /* counts changes, for holders of packed copies */
    et_params_reader *readers; /* a list, each borrowed */
    bool changing;             /* between begin_change and changed */
    /* A view has these, names in items, by_name with the store's indices, and a count of elements.
     */
    et_params *of; /* whose it is; borrowed, no view itself. NULL: a store */
    et_params_naming naming;
};

/* The store of a view, or the store itself. */
static et_params *whole(const et_params *params)
{
    return params->of ? params->of : (et_params *)params;
}

/* In double, rounded once: the same bits on every machine. */
et_init et_init_glorot_uniform(int64_t fan_in, int64_t fan_out)
{
    return (et_init){ ET_INIT_UNIFORM, (float)sqrt(6.0 / ((double)fan_in + (double)fan_out)) };
}

int et_params_new(et_params **out, et_error *error)
{
    return ET_ALLOC_ZERO(*out, 1, "a parameter store", error);
}

/* The borrowed in_use is not freed, it is values or somebody else's. */
static void drop_arrays(et_params *params)
{
    if (!params->file)
        et_free_array(params->values);
    et_safetensors_close(params->file);
    et_free_array(params->gradients);
    et_free_array(params->shadow);
    params->values = params->gradients = NULL;
    params->shadow = NULL;
    params->file = NULL;
}

void et_params_free(et_params *params)
{
    if (!params)
        return;
    for (int i = 0; i < params->count; i++)
        et_free(params->items[i].name);
    et_free(params->items);
    et_free(params->placed);
    et_map_release(&params->by_name);
    drop_arrays(params);
    et_free(params);
}

/* Makes room for one more declaration and copies the name; the map finds value by it. The caller
 * then raises the count. NULL: no memory, and nothing has changed. Items may move, so nothing
 * outside holds a pointer to one. */
static char *add_name(et_params *params, const char *name, int value, et_error *error)
{
    size_t wanted = (size_t)params->count + 1;
    if (!ET_VECTOR_GROW(params->items, params->capacity, wanted)) {
        et_alloc_failed(error, "parameters");
        return NULL;
    }
    char *copy = et_strdup(name);
    if (copy && et_map_put(&params->by_name, copy, value))
        return copy;
    et_free(copy);
    et_alloc_failed(error, "a parameter's name");
    return NULL;
}

/* A second declaration is how graphs share a store (training, scoring, decoding): it must
 * agree in shape. Its initial value is not looked at, the first one counts. */
static int declared_again(const et_params *params, int index, et_shape shape, bool trained,
                          et_error *error)
{
    const param *known = &params->items[index];
    if (known->trained != trained)
        return et_fail(error, ET_EGRAPH, "%s: declared as a %s before, now as a %s", known->name,
                       known->trained ? "parameter" : "variable",
                       trained ? "parameter" : "variable");
    if (et_shape_equal(known->shape, shape))
        return ET_OK;
    char was[ET_SHAPE_TEXT_MAX], now[ET_SHAPE_TEXT_MAX];
    return et_fail(error, ET_EGRAPH, "parameter %s: declared as %s before, now as %s", known->name,
                   et_shape_print(known->shape, was), et_shape_print(shape, now));
}

/* Refuses declarations without a valid initial value or array. The name is checked first, so that
 * the other messages can use it. */
static int check_declaration(const et_params *params, const char *name, et_shape shape,
                             et_init init, et_error *error)
{
    char text[ET_SHAPE_TEXT_MAX];
    if (!name || !*name)
        return et_fail(error, ET_EGRAPH, "a parameter without a name: give it one");
    const char *fault = et_tensor_name_fault(name);
    if (fault)
        return et_fail(error, ET_EGRAPH, "parameter %s: the name %s: a checkpoint cannot store it",
                       et_tensor_name_escaped(name).text, fault);
    if (!et_shape_valid(shape) || et_shape_count(shape) > FLAT_MAX - et_params_flat_size(params))
        return et_fail(
            error, ET_EGRAPH,
            "parameter %s: %s is not a shape: sizes are 0 or more, their product below 2^55", name,
            et_shape_print(shape, text));
    if ((unsigned)init.kind > ET_INIT_TRUNCATED_NORMAL)
        return et_fail(error, ET_EGRAPH, "parameter %s: %d is not a kind of initial values", name,
                       (int)init.kind);
    bool drawn = init.kind >= ET_INIT_UNIFORM;
    if (drawn && !(init.scale >= 0 && isfinite(init.scale)))
        return et_fail(
            error, ET_EGRAPH,
            "parameter %s: initial values with scale %g: give a finite number of at least 0", name,
            (double)init.scale);
    return ET_OK;
}

/* ---- views ---- */

int et_params_view_new(et_params **out, et_params *of, const et_params_naming *naming,
                       et_error *error)
{
    et_assert(!of->of && naming->prefix && naming->shares);
    int status = et_params_new(out, error);
    if (status)
        return status;
    (*out)->of = of;
    (*out)->naming = *naming;
    return ET_OK;
}

/* Owned; NULL: no memory. An empty name stays one, for the store to refuse. */
static char *own_name(const et_params *view, const char *name, et_error *error)
{
    const et_params_naming *n = &view->naming;
    bool plain = !name || !*name || n->shares(n->payload, name);
    size_t size = strlen(n->prefix) + (name ? strlen(name) : 0) + 1;
    char *own = et_alloc(size, 1);
    if (!own)
        et_alloc_failed(error, "a parameter's name");
    else
        snprintf(own, size, "%s%s", plain ? "" : n->prefix, name ? name : "");
    return own;
}

/* The order of the checks is part of the contract: a known name is looked up first, so a graph
 * built after materialize may still declare existing parameters. */
static int declare(et_params *params, const char *name, et_shape shape, et_init init, bool trained,
                   int *index, et_error *error)
{
    int64_t known;
    int status = check_declaration(params, name, shape, init, error);
    if (status)
        return status;
    if (et_map_get(&params->by_name, name, &known)) {
        *index = (int)known;
        return declared_again(params, *index, shape, trained, error);
    }
    /* Closed: graphs made later (scoring, decoding) may use a part of the set and add
     * nothing. */
    if (params->values)
        return et_fail(error, ET_EGRAPH, "parameter %s: not part of this model", name);
    char *copy = add_name(params, name, params->count, error);
    if (!copy)
        return ET_ENOMEM;
    /* Rounded up, so that the next parameter begins on a multiple again (invariant 1). */
    int64_t size = et_shape_count(shape);
    int64_t *part = trained ? &params->trained_size : &params->variable_size;
    params->items[params->count] = (param){ copy, shape, init, trained, *part, NULL, 0 };
    params->elements += size;
    *part += et_flat_up(size);
    *index = params->count++;
    return ET_OK;
}

/* Notes a declaration of a view's model: its own name for parameter `index` of the store. */
static int note(et_params *view, const char *name, int index, et_shape shape, et_error *error)
{
    int64_t known;
    if (et_map_get(&view->by_name, name, &known))
        return ET_OK;
    char *copy = add_name(view, name, index, error);
    if (!copy)
        return ET_ENOMEM;
    view->items[view->count++] = (param){ .name = copy };
    view->elements += et_shape_count(shape);
    return ET_OK;
}

/* By the name that the store has it under. */
static int declare_in(et_params *params, const char *name, et_shape shape, et_init init,
                      bool trained, int *index, et_error *error)
{
    if (!params->of)
        return declare(params, name, shape, init, trained, index, error);
    char *own = own_name(params, name, error);
    if (!own)
        return ET_ENOMEM;
    int status = declare(params->of, own, shape, init, trained, index, error);
    et_free(own);
    return status ? status : note(params, name, *index, shape, error);
}

int et_params_declare(et_params *params, const char *name, et_shape shape, et_init init, int *index,
                      et_error *error)
{
    return declare_in(params, name, shape, init, true, index, error);
}

int et_params_declare_variable(et_params *params, const char *name, et_shape shape, et_init init,
                               int *index, et_error *error)
{
    return declare_in(params, name, shape, init, false, index, error);
}

/* Trained parameters in order, then variables. */
static int lay_out(et_params *params, et_error *error)
{
    int nth = 0;
    int64_t at = 0;
    et_free(params->placed);
    if (ET_ALLOC(params->placed, params->count, "parameters", error))
        return ET_ENOMEM;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < params->count; i++) {
            param *p = &params->items[i];
            if (p->trained != !pass)
                continue;
            p->offset = at;
            p->mapped = NULL;
            at += et_flat_up(et_shape_count(p->shape));
            params->placed[nth++] = i;
        }
    return ET_OK;
}

/* Arrays are zeroed, which makes the padding zero; afterwards, writers of a parameter only write
 * its elements. After a failure the store can only be freed. */
int et_params_materialize(et_params *params, bool shadow, et_error *error)
{
    params = whole(params);
    if (params->values && !params->file)
        return et_fail(error, ET_EGRAPH, "the parameters already have memory");
    size_t size = et_params_flat_size(params);
    drop_arrays(params);
    if (lay_out(params, error))
        return ET_ENOMEM;
    params->values = et_alloc_array(size * sizeof(float));
    params->gradients = et_alloc_array(params->trained_size * sizeof(float));
    params->shadow = shadow ? et_alloc_array(size * sizeof(et_bf16)) : NULL;
    if (!params->values || !params->gradients || (shadow && !params->shadow))
        return et_alloc_failed(error, "parameters");
    params->in_use = params->values;
    /* All is zero, the shadow too: there is nothing to round. */
    params->version++;
    return ET_OK;
}

int et_params_map(et_params *params, et_safetensors *file,
                  const et_safetensors_tensor *const *found, et_error *error)
{
    params = whole(params);
    et_assert(params->count > 0);
    if (lay_out(params, error))
        return ET_ENOMEM;
    drop_arrays(params);
    const char *first = found[0]->data;
    for (int i = 1; i < params->count; i++)
        if ((const char *)found[i]->data < first)
            first = found[i]->data;
    for (int i = 0; i < params->count; i++) {
        params->items[i].mapped = found[i];
        params->items[i].offset = ((const char *)found[i]->data - first) / (int64_t)sizeof(float);
    }
    params->file = file;
    params->values = params->in_use = (float *)(void *)first;
    params->version++;
    return ET_OK;
}

bool et_params_mapped(const et_params *params)
{
    return whole(params)->file != NULL;
}

void et_params_forget(const et_params *params, int index)
{
    const param *p = &whole(params)->items[index];
    if (p->mapped)
        et_safetensors_forget(whole(params)->file, p->mapped);
}

int et_params_unlock(et_params *params, int index, et_error *error)
{
    params = whole(params);
    param *p = &params->items[index];
    const int status = p->mapped ? et_safetensors_unlock(params->file, p->mapped, error) : ET_OK;
    if (!status)
        p->mapped = NULL;
    return status;
}

/* Testing values is enough: materialize either makes all arrays or fails the run. */
bool et_params_ready(const et_params *params)
{
    return whole(params)->values != NULL;
}

int et_params_count(const et_params *params)
{
    return whole(params)->count;
}

int64_t et_params_elements(const et_params *params)
{
    return params->elements;
}

int64_t et_params_flat_size(const et_params *params)
{
    params = whole(params);
    return params->trained_size + params->variable_size;
}

int64_t et_params_trained_size(const et_params *params)
{
    return whole(params)->trained_size;
}

/* NULL: there is none. */
static const param *item(const et_params *params, int index)
{
    params = whole(params);
    return index >= 0 && index < params->count ? &params->items[index] : NULL;
}

const char *et_params_name(const et_params *params, int index)
{
    const param *p = item(params, index);
    return p ? p->name : NULL;
}

et_shape et_params_shape(const et_params *params, int index)
{
    const param *p = item(params, index);
    return p ? p->shape : et_shape_scalar();
}

et_init et_params_init(const et_params *params, int index)
{
    const param *p = item(params, index);
    return p ? p->init : (et_init){ ET_INIT_ZEROS, 0 };
}

int64_t et_params_offset(const et_params *params, int index)
{
    const param *p = item(params, index);
    return p ? p->offset : -1;
}

bool et_params_is_trained(const et_params *params, int index)
{
    const param *p = item(params, index);
    return p && p->trained;
}

int et_params_in_order(const et_params *params, int nth)
{
    params = whole(params);
    return item(params, nth) && params->placed ? params->placed[nth] : -1;
}

/* Hashed, for restoring by name; graphs keep the index that declare gave them. */
int et_params_find(const et_params *params, const char *name)
{
    int64_t index;
    return name && et_map_get(&params->by_name, name, &index) ? (int)index : -1;
}

int et_params_find_printf(const et_params *params, const char *format, ...)
{
    char name[512];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    et_assert(length >= 0);
    return (size_t)length < sizeof name ? et_params_find(params, name) : -1;
}

/* Values are those in use; gradients and shadow are the store's own, whatever is in use. */
float *et_params_values(et_params *params)
{
    return whole(params)->in_use;
}

float *et_params_gradients(et_params *params)
{
    return whole(params)->gradients;
}

et_bf16 *et_params_shadow(et_params *params)
{
    return whole(params)->shadow;
}

void et_params_add_reader(et_params *params, et_params_reader *reader)
{
    params = whole(params);
    reader->next = params->readers;
    params->readers = reader;
}

void et_params_remove_reader(et_params *params, et_params_reader *reader)
{
    params = whole(params);
    et_params_reader **at = &params->readers;
    while (*at && *at != reader)
        at = &(*at)->next;
    et_assert(*at);
    *at = reader->next;
}

void et_params_begin_change(et_params *params)
{
    params = whole(params);
    for (et_params_reader *at = params->readers; at && !params->changing; at = at->next)
        at->wait(at);
    params->changing = true;
}

/* Code that writes all values in pieces (optimizer, initial values) writes the shadow while they
 * are in cache; this is for all other code. Rounding an element depends on no other, so threads do
 * not change bits. */
static void refresh(et_params *params)
{
    int64_t size = params->shadow ? et_params_flat_size(params) : 0;
#pragma omp parallel for num_threads(et_team_now()) schedule(static)
    for (int64_t i = 0; i < size; i++)
        params->shadow[i] = et_bf16_from_float(params->in_use[i]);
}

void et_params_changed(et_params *params, bool refresh_shadow)
{
    params = whole(params);
    et_assert(params->changing);
    params->changing = false;
    params->version++;
    if (refresh_shadow)
        refresh(params);
}

uint64_t et_params_version(const et_params *params)
{
    return whole(params)->version;
}

/* The shadow follows: bfloat16 products must see the same weights as float32 ones. */
void et_params_use(et_params *params, float *values)
{
    params = whole(params);
    params->in_use = values ? values : params->values;
    params->version++;
    refresh(params);
}

void et_params_hold_zeros(et_params *params, int index, int64_t row)
{
    param *p = &whole(params)->items[index];
    et_assert(p->shape.rank == 2 && row >= 0 && row < p->shape.size[0]);
    p->held = row + 1;
}

void et_params_clear_held(const et_params *params, float *gradients)
{
    const et_params *store = whole(params);
    for (int i = 0; i < store->count; i++) {
        const param *p = &store->items[i];
        const int64_t width = p->held ? p->shape.size[1] : 0;
        if (p->held && p->trained)
            memset(gradients + p->offset + (p->held - 1) * width, 0, width * sizeof *gradients);
    }
}
