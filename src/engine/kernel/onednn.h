/* oneDNN, for the files of this folder that run its primitives: one header for versions 2 and 3.
 * Version 3 made memory descriptors handles; here they are layouts. Everything is static. */
#ifndef ETUDE_ENGINE_KERNEL_ONEDNN_H
#define ETUDE_ENGINE_KERNEL_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>
#include <signal.h>
#include <stddef.h>

#include <etude/dtype.h>
#include <etude/error.h>

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

/* Removes const in one place and without a cast: oneDNN takes non-const pointers to memory that it
 * only reads. */
typedef union handle {
    const void *given;
    void *taken;
} handle;

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
