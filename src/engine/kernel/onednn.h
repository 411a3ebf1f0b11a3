/* oneDNN, for the files of this folder that run its primitives: one header for versions 2 and 3.
 * Version 3 made memory descriptors handles; here they are layouts. Everything is static. */
#ifndef ETUDE_ENGINE_KERNEL_ONEDNN_H
#define ETUDE_ENGINE_KERNEL_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include <etude/dtype.h>
#include <etude/error.h>

#include "base/alloc.h"
#include "base/assert.h"

#if DNNL_VERSION_MAJOR >= 3
/* Version 3: a handle that must be freed, and const handles to borrow. */
typedef dnnl_memory_desc_t layout;
typedef const_dnnl_memory_desc_t layout_ref;

static inline layout_ref ref(const layout *from)
{
    return *from;
}

static inline void layout_free(layout *from)
{
    if (*from)
        dnnl_memory_desc_destroy(*from);
    *from = NULL;
}

static inline dnnl_status_t layout_tagged(layout *out, int rank, const dnnl_dims_t dims,
                                          dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_create_with_tag(out, rank, dims, type, tag);
}

static inline dnnl_status_t layout_copy(layout *out, layout_ref from)
{
    return dnnl_memory_desc_clone(out, from);
}
#else
/* Version 2: a struct that is copied, and pointers to borrow. */
typedef dnnl_memory_desc_t layout;
typedef const dnnl_memory_desc_t *layout_ref;

static inline layout_ref ref(const layout *from)
{
    return from;
}

static inline void layout_free(layout *from)
{
    (void)from;
}

static inline dnnl_status_t layout_tagged(layout *out, int rank, const dnnl_dims_t dims,
                                          dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(out, rank, dims, type, tag);
}

static inline dnnl_status_t layout_copy(layout *out, layout_ref from)
{
    *out = *from;
    return dnnl_success;
}

#endif

/* Address space that must be free when oneDNN (2.6) makes a primitive: a code generator has at most
 * 256 KiB, and a product uses several generators, one at a time. */
#define ONEDNN_MAKING_ROOM ((size_t)8 << 20)

/* ET_F32 and ET_BF16 are all that primitives are made of. */
static inline dnnl_data_type_t type_of(int64_t dtype)
{
    return dtype == ET_BF16 ? dnnl_bf16 : dnnl_f32;
}

/* A primitive of one shape: A is read first, B second, OUT is written. Bias and scratch are not
 * always there; the scratch is the caller's (dnnl_scratchpad_mode_user). layouts[i], and memory
 * objects i of each thread, are set where has[i] is true. Memory objects have no memory: every run
 * sets their pointers. Each thread has its own, so that this is no race. */
enum { A, B, OUT, BIAS, SCRATCH, MEMORIES };

typedef struct primitive {
    dnnl_engine_t engine; /* borrowed */
    int threads;
    layout layouts[MEMORIES];
    bool has[MEMORIES];
    dnnl_primitive_desc_t description; /* owned; asked for scratch and implementation */
    dnnl_primitive_t op;               /* owned; run by any thread */
    dnnl_memory_t (*memory)[MEMORIES]; /* [threads], owned; zeroed by the caller before make */
} primitive;

/* From its description and all layouts but the scratch's, which is known only now. */
static inline dnnl_status_t primitive_make(primitive *p, bool bias)
{
    layout_ref scratch = dnnl_primitive_desc_query_md(p->description, dnnl_query_scratchpad_md, 0);
    p->has[A] = p->has[B] = p->has[OUT] = true;
    p->has[BIAS] = bias;
    p->has[SCRATCH] = scratch && dnnl_memory_desc_get_size(scratch) > 0;
    dnnl_status_t done = dnnl_success;
    if (p->has[SCRATCH])
        done = layout_copy(&p->layouts[SCRATCH], scratch);
    if (done == dnnl_success)
        done = dnnl_primitive_create(&p->op, p->description);
    for (int thread = 0; thread < p->threads; thread++)
        for (int i = 0; done == dnnl_success && i < MEMORIES; i++)
            if (p->has[i])
                done = dnnl_memory_create(&p->memory[thread][i], ref(&p->layouts[i]), p->engine,
                                          DNNL_MEMORY_NONE);
    return done;
}

/* In any state of making. Frees the primitive before its description. */
static inline void primitive_release(primitive *p)
{
    for (int thread = 0; p->memory && thread < p->threads; thread++)
        for (int i = 0; i < MEMORIES; i++)
            if (p->memory[thread][i])
                dnnl_memory_destroy(p->memory[thread][i]);
    if (p->op)
        dnnl_primitive_destroy(p->op);
    if (p->description)
        dnnl_primitive_desc_destroy(p->description);
    for (int i = 0; i < MEMORIES; i++)
        layout_free(&p->layouts[i]);
    et_free(p->memory);
}

/* Bytes that a thread needs. */
static inline size_t primitive_scratch(const primitive *p)
{
    return p->has[SCRATCH] ? dnnl_memory_desc_get_size(ref(&p->layouts[SCRATCH])) : 0;
}

/* Removes const in one place and without a cast: oneDNN takes non-const pointers to memory that it
 * only reads. */
typedef union handle {
    const void *given;
    void *taken;
} handle;

/* Points a memory object at the data of this run; name: oneDNN's number of the argument. */
static inline dnnl_exec_arg_t argument(dnnl_memory_t memory, int name, const void *data)
{
    handle from = { data };
    et_assert(memory);
    dnnl_memory_set_data_handle(memory, from.taken);
    return (dnnl_exec_arg_t){ name, memory };
}

/* The arguments of a run on this thread; returns how many. names: oneDNN's of A, B and OUT. */
static inline int primitive_arguments(const primitive *p, int thread, const int names[3],
                                      dnnl_exec_arg_t arguments[MEMORIES], const void *a,
                                      const void *b, const void *out, const float *bias,
                                      const void *scratch)
{
    et_assert(thread >= 0 && thread < p->threads);
    et_assert(p->has[BIAS] == (bias != NULL));
    const dnnl_memory_t *of = p->memory[thread];
    int count = 0;
    arguments[count++] = argument(of[A], names[A], a);
    arguments[count++] = argument(of[B], names[B], b);
    arguments[count++] = argument(of[OUT], names[OUT], out);
    if (bias)
        arguments[count++] = argument(of[BIAS], DNNL_ARG_BIAS, bias);
    if (p->has[SCRATCH])
        arguments[count++] = argument(of[SCRATCH], DNNL_ARG_SCRATCHPAD, scratch);
    return count;
}

/* out of memory is the only failure that a user can do something about. */
static inline int onednn_failed(et_error *error, dnnl_status_t status, const char *what)
{
    if (status == dnnl_out_of_memory)
        return et_fail(error, ET_ENOMEM, "out of memory (oneDNN, %s)", what);
    return et_fail(error, ET_EFAIL, "oneDNN %d.%d failed to make %s (its status %d)",
                   DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR, what, (int)status);
}

/* "" if the library does not say. Borrowed from the description. */
static inline const char *implementation_of(const_dnnl_primitive_desc_t description)
{
    const char *name = "";
    dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, (void *)&name);
    return name;
}

/* During a product, oneDNN's float32 kernels for AVX2 and SSE (2.6.3) point the stack pointer into
 * an array of the heap. A signal at that time would write its frame over the memory before it. So
 * between these two calls a thread takes only signals that it causes itself; others come
 * afterwards. */
static inline void et_onednn_hold_signals(sigset_t *before)
{
    static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT };
    sigset_t held;
    sigfillset(&held);
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
        sigdelset(&held, own[i]);
    pthread_sigmask(SIG_BLOCK, &held, before);
}

static inline void et_onednn_release_signals(const sigset_t *before)
{
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

#endif
