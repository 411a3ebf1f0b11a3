// The command's own operator new: each thread keeps small deleted blocks and reuses them. oneDNN
// (2.6) builds a map of its arguments in every product, with 6 or 7 news of at most 104 bytes. With
// this allocator, a repeated training step does not call malloc, and neither does a repeated
// request to a server. Steps are not faster (2,000 small steps take the same time). But oneDNN
// cannot report a failed new, so without this allocator a server without memory crashes in its next
// product. With it, the server refuses the request and continues
// (tests/command/test_serve_memory.c).
//
// C++ lets a program replace these two functions; all other forms (arrays, nothrow, sized) call
// them. A library must not replace them, so only the command and tests link this file. Blocks are
// malloc's own, without a header, so a block may be freed by either side. Aligned new does not use
// them. The file needs no header, because no function is called by name.
//
// It is disabled under sanitizers, which check new and delete themselves. Under valgrind, which
// checks malloc, every block is freed at once.
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <malloc.h>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ET_PLAIN_NEW
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ET_PLAIN_NEW
#endif
#endif

#if !defined(ET_PLAIN_NEW) && defined(__GLIBC__)

namespace
{
constexpr std::size_t unit = 16;   // what malloc aligns to
constexpr std::size_t classes = 8; // blocks of up to 128 bytes are kept
constexpr int kept_most = 64;      // per size class: blocks that other threads allocated would pile
                                   // up here

struct block {
    block *next;
};

bool under_valgrind()
{
    const char *preloaded = std::getenv("LD_PRELOAD");
    return preloaded && std::strstr(preloaded, "vgpreload");
}

// Deleted blocks of k * unit bytes or a little more are in first[k].
struct shelf {
    block *first[classes + 1] = {};
    int count[classes + 1] = {};
    bool closed = under_valgrind(); // or the thread is ending

    ~shelf()
    {
        closed = true;
        for (block *&list : first)
            while (list) {
                block *next = list->next;
                std::free(list);
                list = next;
            }
    }
};

thread_local shelf kept;

void *take(std::size_t kind)
{
    block *found = kept.first[kind];
    if (found) {
        kept.first[kind] = found->next;
        kept.count[kind]--;
    }
    return found;
}

void *make(std::size_t size)
{
    for (;;) {
        void *memory = std::malloc(size);
        if (memory)
            return memory;
        std::new_handler handler = std::get_new_handler();
        if (!handler)
            throw std::bad_alloc();
        handler();
    }
}
} // namespace

void *operator new(std::size_t size)
{
    if (size > classes * unit)
        return make(size);
    std::size_t kind = size ? (size + unit - 1) / unit : 1;
    void *found = take(kind);
    return found ? found : make(kind * unit);
}

void operator delete(void *memory) noexcept
{
    if (!memory)
        return;
    std::size_t kind = malloc_usable_size(memory) / unit;
    if (kind == 0 || kind > classes || kept.closed || kept.count[kind] >= kept_most) {
        std::free(memory);
        return;
    }
    kept.first[kind] = new (memory) block{ kept.first[kind] };
    kept.count[kind]++;
}

void operator delete(void *memory, std::size_t) noexcept
{
    operator delete(memory);
}

#endif
