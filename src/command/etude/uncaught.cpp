// std::terminate with a message. Several threads may call it at the same time, and it must not
// allocate. So it writes a static text and calls _exit, as a signal handler does. All files stay
// complete: files appear by rename only, and a directory's lock ends with the process.
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

// Whether the exception means that memory is out. An exception that was thrown but cannot be read
// means so too: there was no memory for it.
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
