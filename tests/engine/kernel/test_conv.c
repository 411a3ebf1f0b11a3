/* Convolutions against their reference, and equal bits for any number of threads. */
#include "engine/kernel/conv.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "engine/kernel/gemm/gemm.h"
#include "engine/kernel/harness.h"
#include "sanitized.h"
#include "skip.h"

/* Batches that divide into blocks and such that do not; one channel, few, and whole vectors. */
static const struct {
    int64_t batch, height, width, channels, filters, kernel_h, kernel_w;
    int stride, dilation;
    bool same;
} cases[] = {
    { 1, 5, 4, 1, 1, 1, 1, 1, 1, false },    { 3, 6, 5, 2, 3, 3, 2, 1, 1, false },
    { 7, 9, 8, 3, 5, 3, 3, 2, 1, true },     { 64, 6, 6, 1, 16, 5, 5, 1, 1, true },
    { 37, 4, 4, 8, 4, 3, 3, 1, 1, true },    { 4, 11, 9, 16, 32, 3, 3, 1, 1, true },
    { 2, 12, 12, 17, 33, 3, 5, 1, 2, true }, { 5, 8, 8, 32, 16, 2, 2, 2, 1, false },
    { 96, 7, 7, 64, 64, 3, 3, 1, 1, true },  { 6, 10, 7, 4, 64, 4, 1, 3, 1, false },
    { 2, 3, 3, 5, 7, 3, 3, 1, 1, false },    { 33, 8, 8, 16, 16, 3, 3, 2, 1, true },
};

static et_conv_shape shape_of(size_t i, et_conv_kind kind, et_dtype dtype, bool finish)
{
    return (et_conv_shape){
        .batch = cases[i].batch,
        .channels = cases[i].channels,
        .filters = cases[i].filters,
        .down = et_window_of(cases[i].height, cases[i].kernel_h, cases[i].stride, cases[i].dilation,
                             cases[i].same),
        .across = et_window_of(cases[i].width, cases[i].kernel_w, cases[i].stride,
                               cases[i].dilation, cases[i].same),
        .dtype = dtype,
        .bias = finish && kind == ET_CONV_FORWARD,
        .relu = finish && kind == ET_CONV_FORWARD,
    };
}

/* Elements of x, w and y. */
typedef struct sizes {
    size_t x, w, y;
} sizes;

static sizes sizes_of(const et_conv_shape *s)
{
    return (sizes){
        (size_t)(s->batch * s->down.in * s->across.in * s->channels),
        (size_t)(s->down.kernel * s->across.kernel * s->channels * s->filters),
        (size_t)(s->batch * s->down.out * s->across.out * s->filters),
    };
}

/* Operands, w as float32 with values that bfloat16 has as well. */
typedef struct operands {
    void *a, *b, *w16;
    float *bias;
    size_t out;
    et_dtype type; /* of the result */
} operands;

static operands make_operands(et_conv_kind kind, const et_conv_shape *s)
{
    const sizes n = sizes_of(s);
    operands o = { .bias = s->bias ? make_floats((size_t)s->filters, 1, 3) : NULL };
    o.type = kind == ET_CONV_WEIGHT ? ET_F32 : s->dtype;
    o.out = kind == ET_CONV_FORWARD ? n.y : kind == ET_CONV_DATA ? n.x : n.w;
    o.a = make_act(kind == ET_CONV_DATA ? n.y : n.x, 1, 1, s->dtype);
    if (kind == ET_CONV_WEIGHT) {
        o.b = make_act(n.y, 1, 2, s->dtype);
        return o;
    }
    o.w16 = make_act(n.w, 0.5f, 2, ET_BF16);
    o.b = make(n.w, sizeof(float));
    widen(o.b, o.w16, n.w, ET_BF16);
    return o;
}

static void free_operands(operands *o)
{
    free(o->a);
    free(o->b);
    free(o->w16);
    free(o->bias);
}

static void run(et_conv_kind kind, const et_conv_shape *s, et_dtype as, int threads,
                const operands *o, void *out)
{
    et_error error = ET_ERROR_INIT;
    et_conv *conv;
    omp_set_num_threads(threads);
    if (et_conv_new(&conv, kind, s, as, threads, et_kernels_best(), &error))
        fail_msg("%s", error.text);
    char *scratch = et_alloc_aligned(et_conv_scratch(conv), 64);
    memset(scratch, 0xff, et_conv_scratch(conv)); /* NaN: nothing may be read before */
    const bool narrow = kind != ET_CONV_WEIGHT && et_conv_weight_type(conv) == ET_BF16;
    et_conv_run(conv, scratch, out, o->a, narrow ? o->w16 : o->b, o->bias);
    if (getenv("ETUDE_TEST_VERBOSE"))
        print_message("%d %d: %s\n", (int)kind, (int)s->dtype, et_conv_implementation(conv));
    et_free(scratch);
    et_conv_free(conv);
}

/* A sum of n products rounds by the square root of n or so; bfloat16 results once more. */
static void check_case(size_t i, et_conv_kind kind, et_dtype dtype, et_dtype as, bool finish)
{
    const et_conv_shape s = shape_of(i, kind, dtype, finish);
    operands o = make_operands(kind, &s);
    const size_t bytes = o.out * et_dtype_size(o.type);
    void *expected = make(bytes, 1), *found = make(bytes, 1), *other = make(bytes, 1);
    float *wanted = make(o.out, sizeof(float)), *got = make(o.out, sizeof(float));
    et_conv_reference(kind, &s, expected, o.a, o.b, o.bias);
    run(kind, &s, as, 1, &o, found);
    widen(wanted, expected, o.out, o.type);
    widen(got, found, o.out, o.type);
    for (size_t k = 0; k < o.out; k++)
        if (!(fabsf(got[k] - wanted[k]) <=
              2e-4 + (o.type == ET_BF16 ? 1e-2 : 2e-5) * fabsf(wanted[k])))
            fail_msg("case %zu, kind %d, type %d as %d: element %zu is %g, not %g", i, (int)kind,
                     (int)dtype, (int)as, k, (double)got[k], (double)wanted[k]);
    for (int threads = 2; threads <= 3; threads++) {
        run(kind, &s, as, threads, &o, other);
        assert_memory_equal(other, found, bytes);
    }
    free(expected);
    free(found);
    free(other);
    free(wanted);
    free(got);
    free_operands(&o);
}

static void check_all(et_dtype dtype, et_dtype as)
{
    const int threads = omp_get_max_threads();
    for (size_t i = 0; i < COUNT(cases); i++)
        for (int kind = ET_CONV_FORWARD; kind <= ET_CONV_WEIGHT; kind++)
            for (int finish = 0; finish <= (kind == ET_CONV_FORWARD); finish++)
                check_case(i, (et_conv_kind)kind, dtype, as, finish);
    omp_set_num_threads(threads);
}

static void test_conv__float(void **state)
{
    (void)state;
    check_all(ET_F32, ET_F32);
}

/* Native bfloat16 if the CPU has it; skipped if the library only has plain loops. */
static void test_conv__bfloat16(void **state)
{
    (void)state;
    if (!et_gemm_has_bf16())
        test_skip("this CPU multiplies no bfloat16");
    check_all(ET_BF16, ET_BF16);
}

static void test_conv__bfloat16_widened(void **state)
{
    (void)state;
    check_all(ET_BF16, ET_F32);
}

/* A NaN in an image gives a NaN in the result, also with relu. */
static void test_conv__nan_stays(void **state)
{
    (void)state;
    const et_conv_shape s = shape_of(5, ET_CONV_FORWARD, ET_F32, true);
    operands o = make_operands(ET_CONV_FORWARD, &s);
    float *y = make(o.out, sizeof *y);
    ((float *)o.a)[0] = NAN;
    run(ET_CONV_FORWARD, &s, ET_F32, 1, &o, y);
    assert_true(isnan(y[0]));
    free(y);
    free_operands(&o);
}

/* Typical layers use special kernels, not the library's plain loops. */
static void test_conv__is_fast(void **state)
{
    (void)state;
    for (int kind = ET_CONV_FORWARD; kind <= ET_CONV_WEIGHT; kind++) {
        const et_conv_shape s = shape_of(8, (et_conv_kind)kind, ET_F32, false);
        et_error error = ET_ERROR_INIT;
        et_conv *conv;
        assert_int_equal(
            et_conv_new(&conv, (et_conv_kind)kind, &s, ET_F32, 1, et_kernels_best(), &error),
            ET_OK);
        assert_true(strncmp(et_conv_implementation(conv), "ref", 3) != 0);
        et_conv_free(conv);
    }
}

/* Runs in a separate process, whose address space is limited to its current size: oneDNN must not
 * be called if it would crash for lack of memory. */
static void test_conv__out_of_memory(void **state)
{
    (void)state;
    if (SANITIZED)
        test_skip("a sanitizer needs addresses of its own");
    pid_t child = fork();
    if (child == 0) {
        const et_conv_shape s = shape_of(8, ET_CONV_FORWARD, ET_F32, false);
        struct rlimit limit = { 1, 1 };
        et_error error = ET_ERROR_INIT;
        et_conv *conv;
        setrlimit(RLIMIT_AS, &limit);
        int status = et_conv_new(&conv, ET_CONV_FORWARD, &s, ET_F32, 1, et_kernels_best(), &error);
        _exit(status == ET_ENOMEM && strstr(error.text, "making a convolution") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conv__float),
        cmocka_unit_test(test_conv__bfloat16),
        cmocka_unit_test(test_conv__bfloat16_widened),
        cmocka_unit_test(test_conv__nan_stays),
        cmocka_unit_test(test_conv__is_fast),
        cmocka_unit_test(test_conv__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
