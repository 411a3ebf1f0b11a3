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

enum { VALUES_MAX = 8192, INPUTS_MAX = 64 };

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

static evaluated make_text(int rank, const int64_t *size)
{
    evaluated x = make(rank, size);
    x.text = calloc((size_t)count_of(&x) + 1, sizeof *x.text);
    assert_non_null(x.text);
    return x;
}

static evaluated make_like(bool text, int rank, const int64_t *size)
{
    return text ? make_text(rank, size) : make(rank, size);
}

static evaluated copy(const evaluated *x)
{
    evaluated to = make_like(x->text != NULL, x->rank, x->size);
    memcpy(to.data, x->data, (size_t)count_of(x) * sizeof *x->data);
    if (x->text)
        memcpy(to.text, x->text, (size_t)count_of(x) * sizeof *x->text);
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

/* The place in x of element `at` of a larger array. */
static int64_t broadcast_place(const evaluated *x, const evaluated *to, int64_t at)
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
    return place;
}

static double broadcast(const evaluated *x, const evaluated *to, int64_t at)
{
    return x->data[broadcast_place(x, to, at)];
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
static double divide(double a, double b)
{
    return a / b;
}
static double both(double a, double b)
{
    return a != 0 && b != 0;
}
static double is_not_greater(double a, double b)
{
    return a <= b;
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
    { "Div", divide },
    { "And", both },
    { "LessOrEqual", is_not_greater },
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
    evaluated pair = make_broadcast(a, b), to = make_broadcast(condition, &pair);
    assert_true(!a->text == !b->text);
    if (a->text)
        to.text = calloc((size_t)count_of(&to) + 1, sizeof *to.text);
    for (int64_t i = 0; i < count_of(&to); i++) {
        const evaluated *from = broadcast(condition, &to, i) != 0 ? a : b;
        to.data[i] = broadcast(from, &to, i);
        if (a->text)
            to.text[i] = from->text[broadcast_place(from, &to, i)];
    }
    free(pair.data);
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
    evaluated to = make_like(x->text != NULL, rank, size);
    for (int64_t o = 0; o < outer; o++)
        for (int64_t k = 0; k < many; k++) {
            int64_t id = (int64_t)ids->data[k];
            if (id < -all || id >= all)
                fail_msg("%s: index %lld of %lld", n->name, (long long)id, (long long)all);
            memcpy(to.data + (o * many + k) * inner,
                   x->data + (o * all + (id < 0 ? id + all : id)) * inner,
                   (size_t)inner * sizeof *to.data);
            for (int64_t i = 0; x->text && i < inner; i++)
                to.text[(o * many + k) * inner + i] =
                    x->text[(o * all + (id < 0 ? id + all : id)) * inner + i];
        }
    return to;
}

/* The last dimension, of one element. */
static evaluated squeeze(const evaluated *x, const evaluated *axes)
{
    assert_true(count_of(axes) == 1 && axes->data[0] == (double)(x->rank - 1));
    assert_int_equal(x->size[x->rank - 1], 1);
    evaluated to = make(x->rank - 1, x->size);
    memcpy(to.data, x->data, (size_t)count_of(x) * sizeof *x->data);
    return to;
}

static evaluated one_hot(const evaluated *index, const evaluated *depth, const evaluated *off_on)
{
    const int64_t size[] = { index->size[0], (int64_t)depth->data[0] };
    assert_int_equal(index->rank, 1);
    evaluated to = make(2, size);
    for (int64_t i = 0; i < count_of(&to); i++)
        to.data[i] = off_on->data[index->data[i / size[1]] == (double)(i % size[1])];
    return to;
}

/* Of the last dimension, which is then gone. */
static evaluated argmax(const node *n, const evaluated *x)
{
    const int64_t width = x->size[x->rank - 1];
    assert_true(attribute(n, "axis", 0) == x->rank - 1 && !attribute(n, "keepdims", 1));
    evaluated to = make(x->rank - 1, x->size);
    for (int64_t i = 0; i < count_of(&to); i++)
        for (int64_t k = 1; k < width; k++)
            if (x->data[i * width + k] > x->data[i * width + (int64_t)to.data[i]])
                to.data[i] = (double)k;
    return to;
}

static const Etude__Onnx__Attribute *find_attribute(const node *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (!strcmp(n->attribute[i]->name, name))
            return n->attribute[i];
    return NULL;
}

/* Whether key k of a LabelEncoder is element i. */
static bool is_key(const Etude__Onnx__Attribute *keys, size_t k, const evaluated *x, int64_t i)
{
    if (!x->text)
        return (double)keys->ints[k] == x->data[i];
    const size_t length = keys->strings[k].len;
    return length == strlen(x->text[i]) &&
           (!length || !memcmp(keys->strings[k].data, x->text[i], length));
}

static evaluated encode_labels(const node *n, const evaluated *x)
{
    const Etude__Onnx__Attribute *keys =
        find_attribute(n, x->text ? "keys_strings" : "keys_int64s");
    const Etude__Onnx__Attribute *places = find_attribute(n, "values_int64s");
    assert_non_null(keys);
    assert_non_null(places);
    assert_string_equal(n->domain, "ai.onnx.ml");
    const size_t count = x->text ? keys->n_strings : keys->n_ints;
    assert_int_equal(count, places->n_ints);
    evaluated to = make(x->rank, x->size);
    for (int64_t i = 0; i < count_of(x); i++) {
        size_t k = 0;
        while (k < count && !is_key(keys, k, x, i))
            k++;
        to.data[i] = (double)(k < count ? places->ints[k] : attribute(n, "default_int64", -1));
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
        else if (!strcmp(n->op_type, "IsInf"))
            to.data[i] = isinf(x->data[i]) != 0;
        else if (!strcmp(n->op_type, "Floor"))
            to.data[i] = floor(x->data[i]);
        else if (!strcmp(n->op_type, "Abs"))
            to.data[i] = fabs(x->data[i]);
        else if (!strcmp(n->op_type, "Neg"))
            to.data[i] = -x->data[i];
        else if (!strcmp(n->op_type, "Log"))
            to.data[i] = log(x->data[i]);
        else if (!strcmp(n->op_type, "Sqrt"))
            to.data[i] = sqrt(x->data[i]);
        else if (!strcmp(n->op_type, "Cast") && attribute(n, "to", 0) == 1)
            to.data[i] = (double)(float)x->data[i];
        else if (!strcmp(n->op_type, "Cast") && attribute(n, "to", 0) == 7)
            to.data[i] = trunc(x->data[i]);
        else if (!strcmp(n->op_type, "Cast") && attribute(n, "to", 0) == 9)
            to.data[i] = x->data[i] != 0;
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

static const char *const ones[] = { "Relu", "IsNaN", "IsInf",    "Floor",  "Abs",
                                    "Neg",  "Log",   "Sqrt",     "Cast",   "Identity",
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
    if (!strcmp(op, "Squeeze"))
        return squeeze(in[0], in[1]);
    if (!strcmp(op, "OneHot"))
        return one_hot(in[0], in[1], in[2]);
    if (!strcmp(op, "ArgMax"))
        return argmax(n, in[0]);
    if (!strcmp(op, "LabelEncoder"))
        return encode_labels(n, in[0]);
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

static evaluated constant_texts(const tensor *t)
{
    evaluated x = make_text((int)t->n_dims, t->dims);
    size_t all = 0;
    assert_int_equal(t->n_string_data, (size_t)count_of(&x));
    for (size_t i = 0; i < t->n_string_data; i++)
        all += t->string_data[i].len + 1;
    char *at = x.bytes = calloc(all + 1, 1);
    assert_non_null(at);
    for (size_t i = 0; i < t->n_string_data; i++) {
        if (t->string_data[i].len)
            memcpy(at, t->string_data[i].data, t->string_data[i].len);
        x.text[i] = at;
        at += t->string_data[i].len + 1;
    }
    return x;
}

/* float 1, int64 7, text 8, double 11 */
static evaluated constant(const tensor *t)
{
    if (t->data_type == 8)
        return constant_texts(t);
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

struct evaluated_model {
    values v;
    Etude__Onnx__Model *model;
};

evaluated_model *evaluated_open(const char *path, const evaluated *inputs, size_t count)
{
    char *bytes;
    size_t length;
    evaluated_model *self = calloc(1, sizeof *self);
    assert_non_null(self);
    assert_int_equal(et_file_read(&bytes, &length, path, 1 << 24, NULL), ET_OK);
    self->model = etude__onnx__model__unpack(NULL, length, (uint8_t *)bytes);
    et_free(bytes);
    assert_non_null(self->model);
    const Etude__Onnx__Graph *graph = self->model->graph;
    values *v = &self->v;
    assert_int_equal(graph->n_input, count);
    for (size_t i = 0; i < count; i++)
        put(v, inputs[i].name, copy(&inputs[i]));
    for (size_t i = 0; i < count; i++)
        find(v, graph->input[i]->name);
    for (size_t i = 0; i < graph->n_initializer; i++)
        put(v, graph->initializer[i]->name, constant(graph->initializer[i]));
    for (size_t i = 0; i < graph->n_node; i++) {
        const node *n = graph->node[i];
        const evaluated *in[INPUTS_MAX];
        assert_true(n->n_input <= INPUTS_MAX);
        for (size_t k = 0; k < n->n_input; k++)
            in[k] = find(v, n->input[k]);
        put(v, n->output[0], compute(n, in));
    }
    return self;
}

const evaluated *evaluated_output(const evaluated_model *model, const char *name)
{
    const Etude__Onnx__Graph *graph = model->model->graph;
    for (size_t i = 0; i < graph->n_output; i++)
        if (!strcmp(graph->output[i]->name, name))
            return find(&model->v, name);
    fail_msg("there is no output %s", name);
    return NULL;
}

const char *evaluated_note(const evaluated_model *model, const char *key)
{
    for (size_t i = 0; i < model->model->n_metadata_props; i++)
        if (!strcmp(model->model->metadata_props[i]->key, key))
            return model->model->metadata_props[i]->value;
    return NULL;
}

void evaluated_close(evaluated_model *model)
{
    for (size_t i = 0; i < model->v.count; i++) {
        free(model->v.all[i].data);
        free(model->v.all[i].text);
        free(model->v.all[i].bytes);
    }
    etude__onnx__model__free_unpacked(model->model, NULL);
    free(model);
}

evaluated evaluate(const char *path, const evaluated *inputs, size_t count)
{
    evaluated_model *model = evaluated_open(path, inputs, count);
    assert_int_equal(model->model->graph->n_output, 1);
    evaluated found = copy(find(&model->v, model->model->graph->output[0]->name));
    evaluated_close(model);
    return found;
}
