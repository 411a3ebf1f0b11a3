#include "train/run/run_messages.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files/file.h"

/* Bytes of warnings that wait for the next step. */
#define KEPT_MAX ((size_t)64 << 10)

/* ---- train.log ---- */

/* Local time, since people look for when they were away. */
void et_run_messages_print(et_strbuf *out, const char *text, time_t when)
{
    char day[32];
    struct tm now;
    localtime_r(&when, &now);
    strftime(day, sizeof day, "%Y-%m-%d %H:%M:%S", &now);
    for (const char *end; *text; text = *end ? end + 1 : end) {
        end = strchrnul(text, '\n');
        et_strbuf_printf(out, "%s  %.*s\n", day, (int)(end - text), text);
    }
}

/* Not blocking, lest a pipe of that name hold us up. */
int et_run_messages_write(const char *path, const et_strbuf *lines, bool first)
{
    struct stat info;
    char last = '\n';
    errno = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
    bool fine = fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode) && !lines->failed;
    if (fine && first && info.st_size > 0)
        fine = pread(fd, &last, 1, info.st_size - 1) == 1;
    if (fine && last != '\n')
        fine = !et_fd_write(fd, "\n", 1, path, NULL);
    if (fine)
        fine = !et_fd_write(fd, lines->data, lines->length, path, NULL);
    int failed = fine ? 0 : errno ? errno : EIO;
    if (fd >= 0)
        close(fd);
    return failed;
}

/* ---- warnings ---- */

/* By any thread. */
static void take(void *payload, et_log_level level, const char *text)
{
    et_run_warnings *w = payload;
    if (level < ET_LOG_WARNING)
        return;
    pthread_mutex_lock(&w->mutex);
    if (w->texts.length + strlen(text) < KEPT_MAX)
        et_strbuf_append_bytes(&w->texts, text, strlen(text) + 1);
    else
        w->dropped++;
    __atomic_store_n(&w->waiting, true, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&w->mutex);
}

void et_run_warnings_open(et_run_warnings *warnings)
{
    *warnings =
        (et_run_warnings){ .tap = { .take = take, .payload = warnings }, .texts = ET_STRBUF_INIT };
    pthread_mutex_init(&warnings->mutex, NULL);
    et_log_tap_add(&warnings->tap);
}

void et_run_warnings_close(et_run_warnings *warnings)
{
    et_log_tap_remove(&warnings->tap);
    pthread_mutex_destroy(&warnings->mutex);
    et_strbuf_release(&warnings->texts);
}

void et_run_warnings_take(et_run_warnings *warnings, et_strbuf *texts, size_t *dropped)
{
    pthread_mutex_lock(&warnings->mutex);
    *texts = warnings->texts;
    *dropped = warnings->dropped;
    warnings->texts = (et_strbuf)ET_STRBUF_INIT;
    warnings->dropped = 0;
    __atomic_store_n(&warnings->waiting, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&warnings->mutex);
}
