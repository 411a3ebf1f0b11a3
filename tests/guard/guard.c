#include "guard/guard.h"

#include <ftw.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/numbers/philox.h"
#include "engine/kernel/kernels.h"

/* Without valgrind's header there is nothing to mark for. */
#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_START_INSTRUMENTATION ((void)0)
#define CALLGRIND_STOP_INSTRUMENTATION  ((void)0)
#endif

void guard_check(int status, const et_error *error)
{
    if (!status)
        return;
    fprintf(stderr, "guard: %s\n", error->text);
    exit(1);
}

void *guard_memory(size_t bytes)
{
    et_error error = ET_ERROR_INIT;
    void *memory = et_alloc_aligned(bytes, 64);
    if (!memory)
        guard_check(et_alloc_failed(&error, "a workload"), &error);
    memset(memory, 0, bytes);
    return memory;
}

void *guard_numbers(size_t count, et_dtype dtype, uint32_t use)
{
    et_random random = { 1, 0, use };
    void *numbers = guard_memory(count * et_dtype_size(dtype));
    for (size_t i = 0; i < count; i++) {
        float x = 2 * et_random_uniform(random, i) - 1;
        if (dtype == ET_BF16)
            ((et_bf16 *)numbers)[i] = et_bf16_from_float(x);
        else
            ((float *)numbers)[i] = x;
    }
    return numbers;
}

void guard_make_directory(char *name, size_t size)
{
    snprintf(name, size, "guard-XXXXXX");
    if (!mkdtemp(name)) {
        perror(name);
        exit(1);
    }
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

void guard_remove(const char *directory)
{
    if (nftw(directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS))
        perror(directory);
}

static void print_compiler(void)
{
#if defined(__clang__)
    printf("# compiled by clang %d for ", __clang_major__);
#else
    printf("# compiled by gcc %d for ", __GNUC__);
#endif
#if defined(__x86_64__)
    printf("x86-64\n");
#else
    printf("another processor\n");
#endif
}

static void measure(const guard_workload *workload)
{
    void *work = workload->open();
    if (!workload->cold)
        workload->run(work);
    guard_counts before = guard_count_so_far();
    CALLGRIND_START_INSTRUMENTATION;
    workload->run(work);
    CALLGRIND_STOP_INSTRUMENTATION;
    guard_counts after = guard_count_so_far();
    workload->close(work);
    const char *name = workload->name;
    print_compiler();
    printf("%s.allocations %zu\n", name, after.allocations - before.allocations);
    printf("%s.planned_bytes %zu\n", name, after.planned - before.planned);
    printf("%s.plans %zu\n", name, after.plans - before.plans);
    printf("%s.primitives %zu\n", name, after.primitives - before.primitives);
    printf("%s.products %zu\n", name, after.products - before.products);
}

static const guard_workload *workload_at(size_t i)
{
    const size_t kernels = sizeof guard_kernels / sizeof guard_kernels[0];
    const size_t models = sizeof guard_models / sizeof guard_models[0];
    const size_t data = sizeof guard_data / sizeof guard_data[0];
    if (i < kernels)
        return &guard_kernels[i];
    if (i < kernels + models)
        return &guard_models[i - kernels];
    return i < kernels + models + data ? &guard_data[i - kernels - models] : NULL;
}

int main(int argc, char **argv)
{
    const guard_workload *workload;
    omp_set_num_threads(1);
    for (size_t i = 0; (workload = workload_at(i)); i++) {
        if (argc < 2) {
            puts(workload->name);
        } else if (!strcmp(workload->name, argv[1])) {
            if (!et_kernels_named("avx2")) {
                puts("# no AVX2 here");
                return 77;
            }
            measure(workload);
            return 0;
        }
    }
    if (argc < 2)
        return 0;
    fprintf(stderr, "guard: there is no workload %s\n", argv[1]);
    return 2;
}
