// A program's own operator new: small blocks that come back are kept per thread and given out
// again. oneDNN's dnnl_primitive_execute makes a map of its arguments in every call, by 6 or 7
// news of at most 104 bytes; with this, a step that has run once asks malloc for nothing.
// C++ lets a program, not a library, replace these functions. It needs no header: nothing is
// called by name. Left out under sanitizers, which check new and delete themselves.
#include <cstddef>
#include <cstdlib>
#include <new>

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ET_PLAIN_NEW
#endif
#endif
#ifndef ET_PLAIN_NEW

namespace
{
constexpr std::size_t unit = 16;    // also the alignment that new promises
constexpr std::size_t classes = 16; // blocks of up to 256 bytes are kept
constexpr int kept_most = 64;       // of a class: blocks that another thread made pile up here

// Stands before every block.
struct alignas(unit) header {
    std::size_t kind; // size in units; 0: not kept
    header *next;
};

struct shelf {
    header *first[classes + 1];
    int count[classes + 1];
    bool closed; // the thread is ending

    ~shelf()
    {
        closed = true;
        for (header *&list : first)
            while (list) {
                header *next = list->next;
                std::free(list);
                list = next;
            }
    }
};

thread_local shelf kept = {};

header *take(std::size_t kind)
{
    header *found = kind ? kept.first[kind] : nullptr;
    if (found) {
        kept.first[kind] = found->next;
        kept.count[kind]--;
    }
    return found;
}

void *make(std::size_t size, std::size_t kind)
{
    std::size_t body = kind ? kind * unit : size;
    if (body > static_cast<std::size_t>(-1) - sizeof(header))
        return nullptr;
    void *memory = std::malloc(sizeof(header) + body);
    return memory ? new (memory) header{ kind, nullptr } : nullptr;
}
} // namespace

void *operator new(std::size_t size)
{
    std::size_t kind = size <= classes * unit ? (size + unit - 1) / unit : 0;
    void *found = take(kind);
    while (!found && !(found = make(size, kind))) {
        std::new_handler handler = std::get_new_handler();
        if (!handler)
            throw std::bad_alloc();
        handler();
    }
    return static_cast<header *>(found) + 1;
}

void operator delete(void *memory) noexcept
{
    if (!memory)
        return;
    header *block = static_cast<header *>(memory) - 1;
    std::size_t kind = block->kind;
    if (kind == 0 || kept.closed || kept.count[kind] >= kept_most) {
        std::free(block);
        return;
    }
    block->next = kept.first[kind];
    kept.first[kind] = block;
    kept.count[kind]++;
}

void operator delete(void *memory, std::size_t) noexcept
{
    operator delete(memory);
}

#endif
#endif
