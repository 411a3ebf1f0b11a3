// The command's own operator new: small blocks that are deleted are kept, per thread, and given
// out again. oneDNN (2.6) makes a map of its arguments in every product, by 6 or 7 news of at most
// 104 bytes; with this, a step of training that has run once asks malloc for nothing, and neither
// does a request to a server. No step is faster by it (2,000 small steps take the same time), but
// oneDNN cannot report a failed new: without this, a server whose memory is used up ends in its
// next product. With it the server refuses the request and lives
// (tests/command/test_serve_memory.c).
//
// C++ lets a program replace these two functions, and all others (arrays, nothrow, sized) come
// down to them; a library must not, so this is linked into the command alone, and into tests.
// Blocks are malloc's own, without anything put in front: what one side makes the other may free.
// Aligned new goes its own way to malloc and back. It needs no header: nothing is called by name.
//
// Left out under sanitizers, which watch new and delete themselves; valgrind, which watches
// malloc, gets every block back.
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
constexpr int kept_most = 64;      // of a class: what other threads made would pile up here

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
