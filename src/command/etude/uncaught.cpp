// std::terminate with words. It may be called by several threads at once and has no memory to work
// with: a static text, write and _exit, as in a handler of signals. What was begun is not half
// done: files appear by rename only, and the lock of a directory ends with the process.
#include "command/etude/uncaught.h"

#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include <unistd.h>

namespace
{
int exit_code;
void (*at_end)();
std::terminate_handler before;

// Whether what was thrown says that memory is out. Without an exception it was thrown where there
// was none left even for that.
bool is_memory()
{
    std::exception_ptr thrown = std::current_exception();
    if (!thrown)
        return std::uncaught_exceptions() > 0;
    try {
        std::rethrow_exception(thrown);
    } catch (const std::bad_alloc &) {
        return true;
    } catch (const std::system_error &problem) {
        return problem.code() == std::errc::resource_unavailable_try_again ||
               problem.code() == std::errc::not_enough_memory;
    } catch (...) {
        return false;
    }
}

void on_terminate()
{
    static const char text[] = "etude: out of memory (in a thread of a library)\n";
    if (!is_memory())
        before();
    ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
    (void)ignored;
    if (at_end)
        at_end();
    _exit(exit_code);
}
} // namespace

void et_say_uncaught(int code, void (*end)(void))
{
    exit_code = code;
    at_end = end;
    if (end)
        std::atexit(end); // GNU's OpenMP calls exit
    before = std::set_terminate(on_terminate);
}
