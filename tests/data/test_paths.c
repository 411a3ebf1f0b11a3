#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "base/scarce.h"
#include "data/fixture.h"
#include "data/text/paths.h"

/* Files of the fixture's directory, which cases run in. */
static int enter(void **state)
{
    static const char *const names[] = { "a.en", "b.en", "b.de", "a,b.en", "x[1].en", "B.en" };
    int status = fixture_open(state);
    fixture *f = *state;
    for (size_t i = 0; i < 6; i++)
        write_text(f, names[i], "x\n");
    mkdir(fixture_path(f, "empty"), 0777);
    return status || chdir(f->directory);
}

static int leave(void **state)
{
    return chdir("..") || fixture_close(state);
}

/* The paths that were found, each followed by a space. */
static int match(const char *const *given, size_t count, char *out, size_t size, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_strings found;
    int status = et_paths_match(&found, &(et_strings){ given, count }, "task.path", &arena, error);
    size_t used = 0;
    *out = 0;
    for (size_t i = 0; !status && i < found.count; i++)
        used += (size_t)snprintf(out + used, size - used, "%s ", found.items[i]);
    et_arena_release(&arena);
    return status;
}

static void test_paths__match(void **state)
{
    (void)state;
    static const struct {
        const char *given[3];
        const char *expected;
        int64_t count; /* -1: known only by looking */
    } cases[] = {
        { { "a.en" }, "a.en ", 1 },
        { { "b.en", "a.en" }, "b.en a.en ", 2 },
        { { "b.en, a.en" }, "b.en a.en ", 2 },
        { { "b.en ,\ta.en", "b.de" }, "b.en a.en b.de ", 3 },
        { { "?.en" }, "B.en a.en b.en ", -1 }, /* by bytes, whatever the locale */
        { { "b.*" }, "b.de b.en ", -1 },
        { { "b.d?,b.e*" }, "b.de b.en ", -1 },
        { { "[ab].e*" }, "a.en b.en ", -1 },
        { { "a.en", "a.*", "a.en" }, "a.en a.en a.en ", -1 }, /* as often as it is named */
        { { "a,b.en" }, "a,b.en ", 1 },                       /* exists under this very name */
        { { "a,b.en", "a.en,b.en" }, "a,b.en a.en b.en ", 3 },
        { { "x[1].en" }, "x[1].en ", 1 }, /* no * and no ?: a path */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[200];
        et_error error = ET_ERROR_INIT;
        size_t count = 0;
        while (count < 3 && cases[i].given[count])
            count++;
        if (match(cases[i].given, count, out, sizeof out, &error))
            fail_msg("%s: %s", cases[i].given[0], error.text);
        assert_string_equal(out, cases[i].expected);
        assert_int_equal(et_paths_count(&(et_strings){ cases[i].given, count }), cases[i].count);
    }
    char out[10];
    assert_int_equal(match(NULL, 0, out, sizeof out, NULL), ET_OK);
    assert_string_equal(out, "");
}

static void test_paths__errors(void **state)
{
    (void)state;
    static const struct {
        const char *given;
        int status;
        const char *error;
    } cases[] = {
        { "*.fr", ET_EDATA, "task.path: no file matches *.fr; name existing files" },
        { "a.en,*.fr", ET_EDATA, "no file matches *.fr" },
        { "empty/*", ET_EDATA, "no file matches empty/*" },
        { "c.en", ET_ENOTFOUND, "cannot open c.en" },
        { "a.en,c.en", ET_ENOTFOUND, "cannot open c.en" },
        { "a.en/b", ET_ENOTFOUND, "cannot open a.en/b" },
        { "a.en,", ET_EDATA, "task.path: a path is empty; name a file, or remove the comma" },
        { ",a.en", ET_EDATA, "a path is empty" },
        { " ", ET_EDATA, "a path is empty" },
        { "", ET_EDATA, "a path is empty" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[200];
        et_error error = ET_ERROR_INIT;
        assert_int_equal(match(&cases[i].given, 1, out, sizeof out, &error), cases[i].status);
        assert_contains(error.text, cases[i].error);
    }
}

static void test_paths__out_of_memory(void **state)
{
    (void)state;
    static const char *const given[] = { "?.en", "a.en,b.en" };
    int status = ET_ENOMEM;
    for (long calls = 0; status; calls++) {
        char out[200];
        scarce_begin(calls);
        status = match(given, 2, out, sizeof out, NULL);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths__match),
        cmocka_unit_test(test_paths__errors),
        cmocka_unit_test(test_paths__out_of_memory),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
