#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <pty.h>

#include "files.h"
#include "formats/events/progress.h"
#include "skip.h"

static const et_progress_field fields[] = { { "loss", 3.1269, true }, { "lr", 0.0041, false } };

static et_progress_state make_state(int64_t step)
{
    return (et_progress_state){ .step = step,
                                .steps = 6000,
                                .fields = fields,
                                .field_count = 2,
                                .rate = 34100,
                                .unit = "tok/s",
                                .epoch = 9,
                                .seconds_left = 124 };
}

#define TAIL "  loss 3.127  lr 0.0041  34.1k tok/s  epoch 9  2:04 left"

static void test_progress__line(void **state)
{
    (void)state;
    static const struct {
        int64_t step;
        et_progress_style style;
        const char *line;
    } cases[] = {
        { 1840,
          { 120, false, false },
          "step  1,840/6,000 ━━━━━━━━━                       30%" TAIL },
        { 1930,
          { 120, false, false },
          "step  1,930/6,000 ━━━━━━━━━╸                      32%" TAIL },
        { 0, { 120, false, false }, "step      0/6,000                                  0%" TAIL },
        { 5999,
          { 120, false, false },
          "step  5,999/6,000 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╸  99%" TAIL },
        { 6000,
          { 120, false, false },
          "step  6,000/6,000 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━ 100%" TAIL },
        { 1840,
          { 120, false, true },
          "step  1,840/6,000 =========                       30%" TAIL },
        { 3000, { 95, true, true }, "step  3,000/6,000 \033[36m========        \033[0m  50%" TAIL },
        { 1840, { 0, false, true }, "step  1,840/6,000  30%" TAIL },
        { 3000, { 89, false, true }, "step  3,000/6,000 =====       50%" TAIL },
        { 3000,
          { 80, false, true },
          "step  3,000/6,000 =====       50%  loss 3.127  lr 0.0041  34.1k tok/s  2:04 left" },
        { 3000,
          { 79, false, true },
          "step  3,000/6,000 ==========            50%  loss 3.127  34.1k tok/s  2:04 left" },
        { 3000,
          { 60, false, true },
          "step  3,000/6,000 =======         50%  loss 3.127  2:04 left" },
        { 3000, { 55, false, true }, "step  3,000/6,000 ==========            50%  loss 3.127" },
        { 3000, { 40, false, true }, "step  3,000/6,000 ========>          50%" },
        { 3000, { 33, false, true }, "step  3,000/6,000 =====       50%" },
        { 3000, { 32, false, true }, "step  3,000/6,000  50%" },
        { 3000, { 5, false, true }, "step  3,000/6,000  50%" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_strbuf line = ET_STRBUF_INIT;
        const et_progress_state now = make_state(cases[i].step);
        et_progress_line(&line, &now, cases[i].style);
        assert_string_equal(et_strbuf_text(&line), cases[i].line);
        et_strbuf_release(&line);
    }
}

/* As long for 6.3 as for 6.312. */
static void test_progress__fixed_decimals(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *line;
    } cases[] = {
        { 6.3, "step  7  loss 6.300" },      { 0.0124, "step  7  loss 0.012" },
        { 12.3456, "step  7  loss 12.346" }, { 1234567, "step  7  loss 1,234,567" },
        { NAN, "step  7  loss nan" },        { -INFINITY, "step  7  loss -inf" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_strbuf line = ET_STRBUF_INIT;
        const et_progress_field loss = { "loss", cases[i].value, true };
        const et_progress_state now = {
            .step = 7, .fields = &loss, .field_count = 1, .rate = NAN, .seconds_left = NAN
        };
        et_progress_line(&line, &now, (et_progress_style){ 0, false, true });
        assert_string_equal(et_strbuf_text(&line), cases[i].line);
        et_strbuf_release(&line);
    }
}

static void test_progress__unknown(void **state)
{
    (void)state;
    et_strbuf line = ET_STRBUF_INIT;
    const et_progress_state now = { .step = 12345, .rate = NAN, .seconds_left = NAN };
    et_progress_line(&line, &now, (et_progress_style){ 80, false, true });
    assert_string_equal(et_strbuf_text(&line), "step  12,345");
    et_strbuf_release(&line);
}

/* Other things than steps are counted too. */
static void test_progress__lines(void **state)
{
    (void)state;
    et_strbuf line = ET_STRBUF_INIT;
    const et_progress_style plain = { 0, false, true };
    et_progress_state now = {
        .what = "lines", .step = 1840, .rate = 52, .unit = "lines/s", .seconds_left = NAN
    };
    et_progress_line(&line, &now, plain);
    assert_string_equal(et_strbuf_text(&line), "lines  1,840  52 lines/s");
    et_strbuf_reset(&line);
    now.steps = 6000;
    et_progress_line(&line, &now, plain);
    assert_string_equal(et_strbuf_text(&line), "lines  1,840/6,000  30%  52 lines/s");
    et_strbuf_release(&line);
}

/* Reads what was written to a terminal or file. */
static size_t drain(int fd, char *out, size_t size)
{
    size_t length = 0;
    ssize_t got;
    while (length < size - 1 && (got = read(fd, out + length, size - 1 - length)) > 0)
        length += (size_t)got;
    out[length] = '\0';
    return length;
}

/* A pseudo-terminal of a width; master does not wait. */
static void open_terminal(int *master, int *slave, unsigned short columns)
{
    struct winsize size = { .ws_row = 24, .ws_col = columns };
    if (openpty(master, slave, NULL, NULL, &size))
        test_skip("no pseudo-terminals here: is /dev/pts mounted?");
    assert_int_equal(fcntl(*master, F_SETFL, O_NONBLOCK), 0);
}

static size_t count(const char *text, const char *part)
{
    size_t found = 0;
    for (; (text = strstr(text, part)) != NULL; text += strlen(part))
        found++;
    return found;
}

/* A thousand steps in no time draw the bar at the start and at the end. */
static void test_progress__terminal(void **state)
{
    (void)state;
    int master, slave;
    char screen[20000];
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    open_terminal(&master, &slave, 101);
    options.fd = slave;
    assert_ok(et_progress_open(&progress, &options, error));
    for (int64_t step = 5001; step <= 6000; step++) {
        const et_progress_state now = make_state(step);
        et_progress_update(progress, &now);
    }
    drain(master, screen, sizeof screen);
    assert_true(count(screen, "\r") >= 2 && count(screen, "\r") <= 4);
    assert_non_null(strstr(screen, "step  5,001/6,000 ━"));
    assert_non_null(strstr(screen, "step  6,000/6,000 ━"));
    assert_null(strstr(screen, "\033[36m"));

    et_progress_message(progress, "a\033[2Jb\xc2\x9b\n\u202e");
    drain(master, screen, sizeof screen);
    assert_non_null(strstr(screen, "a\\u001b[2Jb\\u009b\r\n\\u202e\r\n"));
    et_progress_message(progress, "validation  loss 2.71");
    drain(master, screen, sizeof screen);
    static const char message[] = "\r\033[Kvalidation  loss 2.71\r\n\rstep  6,000/6,000";
    assert_memory_equal(screen, message, sizeof message - 1);
    et_progress_close(progress);
    drain(master, screen, sizeof screen);
    assert_int_equal(screen[strlen(screen) - 1], '\n');
    close(slave);
    close(master);
}

static void copy_line(void *self, const char *text)
{
    et_strbuf_printf(self, "%s\n", text);
}

/* Muted: messages reach the copy alone, an alert also the screen, and the bar goes at the end. */
static void test_progress__mute(void **state)
{
    (void)state;
    int master, slave;
    char screen[20000];
    et_strbuf copy = ET_STRBUF_INIT;
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    setenv("TERM", "xterm", 1);
    setenv("NO_COLOR", "1", 1);
    open_terminal(&master, &slave, 101);
    options.fd = slave;
    options.mute = true;
    assert_ok(et_progress_open(&progress, &options, error));
    et_progress_copy_to(progress, copy_line, &copy);
    et_progress_state now = make_state(6000);
    now.what = "mlp 1/5  step";
    et_progress_message(progress, "data 12 rows");
    et_progress_update(progress, &now);
    drain(master, screen, sizeof screen);
    assert_int_equal(count(screen, "data"), 0);
    assert_int_equal(count(screen, "\rmlp 1/5  step  6,000/6,000 "), 1);
    et_progress_alert(progress, "warning: odd");
    drain(master, screen, sizeof screen);
    static const char alert[] = "\r\033[Kwarning: odd\r\n\rmlp 1/5  step  6,000/6,000";
    assert_memory_equal(screen, alert, sizeof alert - 1);
    et_progress_close(progress);
    drain(master, screen, sizeof screen);
    assert_string_equal(screen, "\r\033[K");
    assert_string_equal(et_strbuf_text(&copy), "data 12 rows\nwarning: odd\n");
    et_strbuf_release(&copy);
    close(slave);
    close(master);
}

static void test_progress__colour_and_width(void **state)
{
    (void)state;
    int master, slave;
    char screen[20000];
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    setenv("LC_ALL", "C", 1);
    open_terminal(&master, &slave, 60);
    options.fd = slave;
    assert_ok(et_progress_open(&progress, &options, error));
    const et_progress_state now = make_state(3000);
    et_progress_update(progress, &now);
    drain(master, screen, sizeof screen);
    assert_string_equal(screen,
                        "\rstep  3,000/6,000 \033[36m======>      \033[0m  50%  loss 3.127  "
                        "2:04 left\033[K");
    et_progress_message(progress, "memory       so many bytes: parameters 1 MB, activations of a "
                                  "step 2 MB\nand words that have no label, 1 2 3 4 5 6 7 8 9 10");
    drain(master, screen, sizeof screen);
    assert_non_null(strstr(screen,
                           "\r\033[Kmemory       so many bytes: parameters 1 MB, activations of\r\n"
                           "             a step 2 MB\r\n"
                           "and words that have no label, 1 2 3 4 5 6 7 8 9 10\r\n"));
    const struct winsize wide = { .ws_row = 24, .ws_col = 120 };
    assert_int_equal(ioctl(slave, TIOCSWINSZ, &wide), 0);
    et_progress_message(progress, "x");
    drain(master, screen, sizeof screen);
    assert_non_null(strstr(screen, "\033[36m===============               \033[0m  50%"));
    et_progress_finish(progress, false);
    drain(master, screen, sizeof screen);
    assert_string_equal(screen, "\r\033[K");
    et_progress_close(progress);
    close(slave);
    close(master);
}

/* TERM=dumb on a terminal, and files: whole lines without escapes, at their interval. */
static void test_progress__plain(void **state)
{
    int master, slave;
    char screen[20000];
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    setenv("TERM", "dumb", 1);
    open_terminal(&master, &slave, 80);
    options.fd = slave;
    for (int i = 0; i < 2; i++) {
        assert_ok(et_progress_open(&progress, &options, error));
        for (int64_t step = 5001; step <= 6000; step++) {
            const et_progress_state now = make_state(step);
            et_progress_update(progress, &now);
        }
        et_progress_message(progress, "done");
        et_progress_close(progress);
        if (i == 0) {
            drain(master, screen, sizeof screen);
            assert_string_equal(screen, "step  5,001/6,000  83%" TAIL "\r\n"
                                        "step  6,000/6,000 100%" TAIL "\r\ndone\r\n");
            setenv("TERM", "xterm", 1);
            options.fd = open(in(state, "screen"), O_CREAT | O_RDWR | O_TRUNC, 0666);
        }
    }
    lseek(options.fd, 0, SEEK_SET);
    drain(options.fd, screen, sizeof screen);
    assert_string_equal(screen, "step  5,001/6,000  83%" TAIL "\n"
                                "step  6,000/6,000 100%" TAIL "\ndone\n");
    close(options.fd);
    close(slave);
    close(master);
}

/* If a message reports the last step, no line is printed for it, however long ago the last line
 * was. */
static void test_progress__rows(void **state)
{
    char screen[400];
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    options.fd = open(in(state, "rows"), O_CREAT | O_RDWR | O_TRUNC, 0666);
    options.rows = true;
    assert_ok(et_progress_open(&progress, &options, error));
    for (int i = 1; i <= 3; i++) {
        const et_progress_state now = {
            .step = i, .steps = 3, .rate = NAN, .seconds_left = NAN, .time = 1000 * i
        };
        et_progress_update(progress, &now);
    }
    et_progress_message(progress,
                        "   3  0.25  of a message that is not on a terminal, and so has as "
                        "many columns as it likes");
    et_progress_close(progress);
    lseek(options.fd, 0, SEEK_SET);
    drain(options.fd, screen, sizeof screen);
    assert_string_equal(screen, "step  1/3  33%\nstep  2/3  66%  16:40 left\n"
                                "   3  0.25  of a message that is not on a terminal, and so has as "
                                "many columns as it likes\n");
    close(options.fd);
}

/* A caller may give the time of a state: the remaining time, and when a line is due, depend on it.
 */
static void test_progress__time(void **state)
{
    static const double times[] = { 1000, 1009.5, 1010 };
    char screen[200];
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    options.fd = open(in(state, "times"), O_CREAT | O_RDWR | O_TRUNC, 0666);
    options.plain_interval = 10;
    assert_ok(et_progress_open(&progress, &options, error));
    for (int i = 0; i < 3; i++) {
        const et_progress_state now = {
            .step = i + 1, .steps = 5, .rate = NAN, .seconds_left = NAN, .time = times[i]
        };
        et_progress_update(progress, &now);
    }
    et_progress_close(progress);
    lseek(options.fd, 0, SEEK_SET);
    drain(options.fd, screen, sizeof screen);
    assert_string_equal(screen, "step  1/5  20%\nstep  3/5  60%  0:10 left\n");
    close(options.fd);
}

/* Nothing to write on, or a disk that is full, stops nothing. */
static void test_progress__nowhere(void **state)
{
    (void)state;
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    const et_progress_state now = make_state(1);
    for (int i = 0; i < 2; i++) {
        options.fd = i == 0 ? -1 : open("/dev/full", O_WRONLY);
        assert_ok(et_progress_open(&progress, &options, error));
        et_progress_update(progress, &now);
        et_progress_message(progress, "x");
        et_progress_close(progress);
        if (i > 0)
            close(options.fd);
    }
}

static void *send_messages(void *payload)
{
    for (int i = 0; i < 200; i++)
        et_progress_message(payload, "a message of some length that must stay in one piece");
    return NULL;
}

/* Messages from a second thread while the first one updates: no line is torn. */
static void test_progress__threads(void **state)
{
    enum { SIZE = 1 << 18 };
    et_progress *progress;
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    pthread_t thread;
    char *screen = malloc(SIZE);
    assert_non_null(screen);
    options.fd = open(in(state, "threads"), O_CREAT | O_RDWR | O_TRUNC | O_APPEND, 0666);
    options.mode = ET_PROGRESS_BAR;
    assert_ok(et_progress_open(&progress, &options, error));
    const et_progress_state first = make_state(1);
    et_progress_update(progress, &first);
    assert_int_equal(pthread_create(&thread, NULL, send_messages, progress), 0);
    for (int64_t step = 2; step <= 3000; step++) {
        const et_progress_state now = make_state(step);
        et_progress_update(progress, &now);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    et_progress_close(progress);
    lseek(options.fd, 0, SEEK_SET);
    drain(options.fd, screen, SIZE);
    assert_int_equal(
        count(screen, "\r\033[Ka message of some length that must stay in one piece\n\rstep"), 200);
    close(options.fd);
    free(screen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_progress__line),
        cmocka_unit_test(test_progress__fixed_decimals),
        cmocka_unit_test(test_progress__unknown),
        cmocka_unit_test(test_progress__lines),
        cmocka_unit_test(test_progress__terminal),
        cmocka_unit_test(test_progress__mute),
        cmocka_unit_test(test_progress__colour_and_width),
        cmocka_unit_test(test_progress__plain),
        cmocka_unit_test(test_progress__rows),
        cmocka_unit_test(test_progress__time),
        cmocka_unit_test(test_progress__nowhere),
        cmocka_unit_test(test_progress__threads),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
