#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "engine/onnx/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "engine/onnx/onnx.pb-c.h"

typedef Etude__Onnx__Node node;
typedef Etude__Onnx__Tensor tensor;

enum { VALUES_MAX = 8192, INPUTS_MAX = 8 };

typedef struct values {
    evaluated all[VALUES_MAX];
    size_t count;
} values;

/* ---- arrays ---- */

static int64_t count_of(const evaluated *x)
{
    int64_t count = 1;
    for (int i = 0; i < x->rank; i++)
        count *= x->size[i];
    return count;
}

static evaluated make(int rank, const int64_t *size)
{
    evaluated x = { .rank = rank };
    assert_in_range(rank, 0, EVALUATED_RANK);
    for (int i = 0; i < rank; i++)
        x.size[i] = size[i];
    x.data = calloc((size_t)count_of(&x) + 1, sizeof *x.data);
    assert_non_null(x.data);
    return x;
}

static evaluated copy(const evaluated *x)
{
    evaluated to = make(x->rank, x->size);
    memcpy(to.data, x->data, (size_t)count_of(x) * sizeof *x->data);
    return to;
}

/* The common shape to which two arrays are broadcast. */
static evaluated make_broadcast(const evaluated *a, const evaluated *b)
{
    int64_t size[EVALUATED_RANK];
    int rank = a->rank > b->rank ? a->rank : b->rank;
    for (int i = 0; i < rank; i++) {
        int64_t x = i < rank - a->rank ? 1 : a->size[i - rank + a->rank];
        int64_t y = i < rank - b->rank ? 1 : b->size[i - rank + b->rank];
        assert_true(x == y || x == 1 || y == 1);
        size[i] = x > y ? x : y;
    }
    return make(rank, size);
}

/* The element of x for element `at` of a larger array. */
static double broadcast(const evaluated *x, const evaluated *to, int64_t at)
{
    int64_t place = 0, step = 1;
    for (int i = x->rank - 1, k = to->rank - 1; k >= 0; i--, k--) {
        int64_t index = at % to->size[k];
        at /= to->size[k];
        if (i < 0)
            continue;
        place += x->size[i] == 1 ? 0 : index * step;
        step *= x->size[i];
    }
    return x->data[place];
}

/* ---- operators ---- */

static int64_t attribute(const node *n, const char *name, int64_t usual)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (!strcmp(n->attribute[i]->name, name))
            return n->attribute[i]->i;
    return usual;
}

typedef double pair_fn(double, double);

static double add(double a, double b)
{
    return a + b;
}
static double subtract(double a, double b)
{
    return a - b;
}
static double multiply(double a, double b)
{
    return a * b;
}
static double is_less(double a, double b)
{
    return a < b;
}
static double is_greater(double a, double b)
{
    return a > b;
}
static double is_not_less(double a, double b)
{
    return a >= b;
}
static double is_equal(double a, double b)
{
    return a == b;
}
static double either(double a, double b)
{
    return a != 0 || b != 0;
}
/* A NaN goes through, as in the format. */
static double larger(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b;
}
static double smaller(double a, double b)
{
    return isnan(a) || isnan(b) ? (double)NAN : a < b ? a : b;
}

static const struct {
    const char *op;
    pair_fn *fn;
} pairs[] = {
    { "Add", add },
    { "Sub", subtract },
    { "Mul", multiply },
    { "Less", is_less },
    { "Equal", is_equal },
    { "Greater", is_greater },
    { "GreaterOrEqual", is_not_less },
    { "Or", either },
    { "Max", larger },
    { "Min", smaller },
};

static evaluated of_pair(pair_fn *fn, const evaluated *a, const evaluated *b)
{
    evaluated to = make_broadcast(a, b);
    for (int64_t i = 0; i < count_of(&to); i++)
        to.data[i] = fn(broadcast(a, &to, i), broadcast(b, &to, i));
    return to;
}

static evaluated where(const evaluated *condition, const evaluated *a, const evaluated *b)
{
    evaluated both = make_broadcast(a, b), to = make_broadcast(condition, &both);
    for (int64_t i = 0; i < count_of(&to); i++)
        to.data[i] =
            broadcast(condition, &to, i) != 0 ? broadcast(a, &to, i) : broadcast(b, &to, i);
    free(both.data);
    return to;
}

static evaluated reshape(const evaluated *x, const evaluated *shape)
{
    int64_t size[EVALUATED_RANK], known = 1;
    int open = -1, rank = (int)count_of(shape);
    for (int i = 0; i < rank; i++) {
        size[i] = (int64_t)shape->data[i];
        size[i] = size[i] ? size[i] : x->size[i];
        if (size[i] < 0)
            open = i;
        else
            known *= size[i];
    }
    if (open >= 0)
        size[open] = count_of(x) / known;
    evaluated to = make(rank, size);
    assert_int_equal(count_of(&to), count_of(x));
    memcpy(to.data, x->data, (size_t)count_of(x) * sizeof *x->data);
    return to;
}

/* Of one dimension. */
static evaluated slice(const evaluated *x, const evaluated *starts, const evaluated *ends, int axis)
{
    int64_t size[EVALUATED_RANK], begin = (int64_t)starts->data[0], end = (int64_t)ends->data[0];
    assert_int_equal(count_of(starts), 1);
    end = end < x->size[axis] ? end : x->size[axis];
    assert_true(begin >= 0 && begin <= end);
    memcpy(size, x->size, sizeof size);
    size[axis] = end - begin;
    evaluated to = make(x->rank, size);
    int64_t inner = 1, outer = 1;
    for (int i = 0; i < x->rank; i++)
        *(i < axis ? &outer : &inner) *= i == axis ? 1 : x->size[i];
    for (int64_t o = 0; o < outer; o++)
        memcpy(to.data + o * (end - begin) * inner, x->data + (o * x->size[axis] + begin) * inner,
               (size_t)((end - begin) * inner) * sizeof *to.data);
    return to;
}

/* The sum over the last dimension. */
static evaluated sum_rows(const node *n, const evaluated *x, const evaluated *axes)
{
    const bool keep = attribute(n, "keepdims", 1);
    int64_t size[EVALUATED_RANK], width = x->size[x->rank - 1];
    assert_true(count_of(axes) == 1 &&
                (axes->data[0] == -1 || axes->data[0] == (double)(x->rank - 1)));
    memcpy(size, x->size, sizeof size);
    size[x->rank - 1] = 1;
    evaluated to = make(keep ? x->rank : x->rank - 1, size);
    for (int64_t i = 0; i < count_of(&to); i++) {
        to.data[i] = 0;
        for (int64_t k = 0; k < width; k++)
            to.data[i] += x->data[i * width + k];
    }
    return to;
}

static evaluated concatenate(const node *n, const evaluated *const *in)
{
    const int axis = (int)attribute(n, "axis", 0);
    int64_t size[EVALUATED_RANK], outer = 1, at = 0;
    memcpy(size, in[0]->size, sizeof size);
    for (size_t i = 1; i < n->n_input; i++)
        size[axis] += in[i]->size[axis];
    for (int i = 0; i < axis; i++)
        outer *= size[i];
    evaluated to = make(in[0]->rank, size);
    for (int64_t row = 0; row < outer; row++)
        for (size_t i = 0; i < n->n_input; i++) {
            int64_t part = count_of(in[i]) / outer;
            memcpy(to.data + at, in[i]->data + row * part, (size_t)part * sizeof *to.data);
            at += part;
        }
    return to;
}

/* An index beyond the table is an error to programs that run the model, or worse. */
static evaluated gather(const node *n, const evaluated *x, const evaluated *ids)
{
    const int axis = (int)attribute(n, "axis", 0);
    int64_t size[EVALUATED_RANK], outer = 1, inner = 1, many = count_of(ids), all = x->size[axis];
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        outer *= i < axis ? x->size[i] : 1;
        inner *= i > axis ? x->size[i] : 1;
        for (int k = 0; i == axis && k < ids->rank; k++)
            size[rank++] = ids->size[k];
        if (i != axis)
            size[rank++] = x->size[i];
    }
    evaluated to = make(rank, size);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < many; k++) {
            int64_t id = (int64_t)ids->data[k];
            if (id < -all || id >= all)
                fail_msg("%s: index %lld of %lld", n->name, (long long)id, (long long)all);
            memcpy(to.data + (o * many + k) * inner,
                   x->data + (o * all + (id < 0 ? id + all : id)) * inner,
                   (size_t)inner * sizeof *to.data);
        }
    return to;
}

static evaluated unsqueeze(const evaluated *x, const evaluated *axes)
{
    int64_t size[EVALUATED_RANK];
    int axis = (int)axes->data[0];
    assert_true(count_of(axes) == 1 && x->rank < EVALUATED_RANK);
    axis = axis < 0 ? axis + x->rank + 1 : axis;
    for (int i = 0; i <= x->rank; i++)
        size[i] = i == axis ? 1 : x->size[i - (i > axis)];
    evaluated to = make(x->rank + 1, size);
    memcpy(to.data, x->data, (size_t)count_of(x) * sizeof *x->data);
    return to;
}

static evaluated multiply_matrices(const node *n, const evaluated *a, const evaluated *b,
                                   const evaluated *bias)
{
    const bool turned = attribute(n, "transB", 0);
    assert_int_equal(attribute(n, "transA", 0), 0);
    int64_t inner = a->size[1], size[] = { a->size[0], turned ? b->size[0] : b->size[1] };
    assert_int_equal(turned ? b->size[1] : b->size[0], inner);
    evaluated to = make(2, size);
    for (int64_t i = 0; i < size[0]; i++)
        for (int64_t k = 0; k < size[1]; k++) {
            double sum = bias ? broadcast(bias, &to, i * size[1] + k) : 0;
            for (int64_t m = 0; m < inner; m++)
                sum += a->data[i * inner + m] * b->data[turned ? k * inner + m : m * size[1] + k];
            to.data[i * size[1] + k] = sum;
        }
    return to;
}

static evaluated softmax(const evaluated *x)
{
    evaluated to = copy(x);
    const int64_t width = x->size[x->rank - 1];
    for (int64_t row = 0; row < count_of(x); row += width) {
        double sum = 0, most = -(double)INFINITY;
        for (int64_t i = row; i < row + width; i++)
            most = fmax(most, x->data[i]);
        for (int64_t i = row; i < row + width; i++)
            sum += to.data[i] = exp(x->data[i] - most);
        for (int64_t i = row; i < row + width; i++)
            to.data[i] /= sum;
    }
    return to;
}

static evaluated shape_of(const evaluated *x)
{
    const int64_t rank = x->rank;
    evaluated to = make(1, &rank);
    for (int i = 0; i < x->rank; i++)
        to.data[i] = (double)x->size[i];
    return to;
}

static evaluated expand(const evaluated *x, const evaluated *shape)
{
    int64_t size[EVALUATED_RANK];
    for (int i = 0; i < count_of(shape); i++)
        size[i] = (int64_t)shape->data[i];
    evaluated wide = make((int)count_of(shape), size), to = make_broadcast(x, &wide);
    for (int64_t i = 0; i < count_of(&to); i++)
        to.data[i] = broadcast(x, &to, i);
    free(wide.data);
    return to;
}

static evaluated of_each(const node *n, const evaluated *x)
{
    evaluated to = copy(x);
    for (int64_t i = 0; i < count_of(x); i++)
        if (!strcmp(n->op_type, "Relu"))
            to.data[i] = larger(x->data[i], 0);
        else if (!strcmp(n->op_type, "IsNaN"))
            to.data[i] = isnan(x->data[i]);
        else if (!strcmp(n->op_type, "Cos"))
            to.data[i] = cos(x->data[i]);
        else if (!strcmp(n->op_type, "Tanh"))
            to.data[i] = tanh(x->data[i]);
        else if (!strcmp(n->op_type, "Softplus"))
            to.data[i] = log1p(exp(x->data[i]));
        else if (!strcmp(n->op_type, "Sigmoid"))
            to.data[i] = 1 / (1 + exp(-x->data[i]));
    return to;
}

static const char *const ones[] = { "Relu", "IsNaN", "Identity", "Cast",
                                    "Cos",  "Tanh",  "Softplus", "Sigmoid" };

static evaluated compute(const node *n, const evaluated *const *in)
{
    const char *op = n->op_type;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (!strcmp(op, pairs[i].op) && n->n_input == 2)
            return of_pair(pairs[i].fn, in[0], in[1]);
    for (size_t i = 0; i < sizeof ones / sizeof *ones; i++)
        if (!strcmp(op, ones[i]))
            return of_each(n, in[0]);
    if (!strcmp(op, "Where"))
        return where(in[0], in[1], in[2]);
    if (!strcmp(op, "Shape"))
        return shape_of(in[0]);
    if (!strcmp(op, "Slice"))
        return slice(in[0], in[1], in[2], n->n_input > 3 ? (int)in[3]->data[0] : 0);
    if (!strcmp(op, "ReduceSum") && n->n_input == 2)
        return sum_rows(n, in[0], in[1]);
    if (!strcmp(op, "Concat"))
        return concatenate(n, in);
    if (!strcmp(op, "Expand"))
        return expand(in[0], in[1]);
    if (!strcmp(op, "Reshape"))
        return reshape(in[0], in[1]);
    if (!strcmp(op, "Gather"))
        return gather(n, in[0], in[1]);
    if (!strcmp(op, "Unsqueeze"))
        return unsqueeze(in[0], in[1]);
    if (!strcmp(op, "Gemm"))
        return multiply_matrices(n, in[0], in[1], n->n_input > 2 ? in[2] : NULL);
    if (!strcmp(op, "Softmax"))
        return softmax(in[0]);
    fail_msg("there is no operator %s here", op);
    return (evaluated){ .rank = 0 };
}

/* ---- the graph ---- */

static const evaluated *find(const values *v, const char *name)
{
    for (size_t i = 0; i < v->count; i++)
        if (!strcmp(v->all[i].name, name))
            return &v->all[i];
    fail_msg("there is no value %s", name);
    return NULL;
}

static void put(values *v, const char *name, evaluated x)
{
    assert_true(v->count < VALUES_MAX);
    x.name = name;
    v->all[v->count++] = x;
}

/* float 1, int64 7, double 11 */
static evaluated constant(const tensor *t)
{
    evaluated x = make((int)t->n_dims, t->dims);
    const size_t bytes = t->data_type == 1 ? 4 : 8;
    assert_true(t->data_type == 1 || t->data_type == 7 || t->data_type == 11);
    assert_int_equal(t->raw_data.len, (size_t)count_of(&x) * bytes);
    for (int64_t i = 0; i < count_of(&x); i++) {
        const uint8_t *from = t->raw_data.data + (size_t)i * bytes;
        float narrow;
        int64_t whole;
        if (t->data_type == 1) {
            memcpy(&narrow, from, sizeof narrow);
            x.data[i] = (double)narrow;
        } else if (t->data_type == 7) {
            memcpy(&whole, from, sizeof whole);
            x.data[i] = (double)whole;
        } else {
            memcpy(&x.data[i], from, sizeof x.data[i]);
        }
    }
    return x;
}

evaluated evaluate(const char *path, const evaluated *inputs, size_t count)
{
    static values v;
    char *bytes;
    size_t length;
    v.count = 0;
    assert_int_equal(et_file_read(&bytes, &length, path, 1 << 24, NULL), ET_OK);
    Etude__Onnx__Model *model = etude__onnx__model__unpack(NULL, length, (uint8_t *)bytes);
    assert_non_null(model);
    const Etude__Onnx__Graph *graph = model->graph;
    assert_int_equal(graph->n_input, count);
    assert_int_equal(graph->n_output, 1);
    for (size_t i = 0; i < count; i++)
        put(&v, inputs[i].name, copy(&inputs[i]));
    for (size_t i = 0; i < graph->n_initializer; i++)
        put(&v, graph->initializer[i]->name, constant(graph->initializer[i]));
    for (size_t i = 0; i < graph->n_node; i++) {
        const node *n = graph->node[i];
        const evaluated *in[INPUTS_MAX];
        assert_true(n->n_input <= INPUTS_MAX);
        for (size_t k = 0; k < n->n_input; k++)
            in[k] = find(&v, n->input[k]);
        put(&v, n->output[0], compute(n, in));
    }
    evaluated found = copy(find(&v, graph->output[0]->name));
    for (size_t i = 0; i < v.count; i++)
        free(v.all[i].data);
    etude__onnx__model__free_unpacked(model, NULL);
    et_free(bytes);
    return found;
}
