// Ends as its argument says, in a thread that nobody can catch for: what command/etude/uncaught.cpp
// is for.
#include "command/etude/uncaught.h"

#include <cstring>
#include <new>
#include <stdexcept>
#include <system_error>
#include <thread>

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    et_say_uncaught(4, nullptr);
    std::thread thread([kind] {
        if (!std::strcmp(kind, "memory"))
            throw std::bad_alloc();
        if (!std::strcmp(kind, "threads"))
            throw std::system_error(EAGAIN, std::generic_category());
        if (!std::strcmp(kind, "other"))
            throw std::runtime_error("something else");
    });
    thread.join();
    return 0;
}
