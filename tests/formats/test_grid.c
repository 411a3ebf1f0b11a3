#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/scarce.h"
#include "formats/grid.h"

static void add_all(et_grid *grid, const char *const *cells)
{
    for (; *cells; cells++)
        et_grid_add(grid, *cells);
}

static void assert_prints(const et_grid *grid, et_grid_form form, const char *wanted)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_grid_append(grid, form, &out);
    assert_false(out.failed);
    assert_string_equal(et_strbuf_text(&out), wanted);
    et_strbuf_release(&out);
}

/* Heads do not count; "-" and nothing are numbers that are not known. Characters count, not bytes.
 */
static void test_grid__numbers_to_the_right(void **state)
{
    (void)state;
    et_grid grid = { .columns = 4 };
    static const char *const cells[] = { "run", "step", "loss", "note", "caf\xc3\xa9", "10", "-",
                                         "",    "a",    "9",    "+0.5", "new",         NULL };
    add_all(&grid, cells);
    assert_prints(&grid, ET_GRID_TEXT,
                  "run   step  loss  note\n"
                  "caf\xc3\xa9    10     -\n"
                  "a        9  +0.5  new\n");
    assert_int_equal(et_grid_width(&grid), 22);
    et_grid_release(&grid);
}

static void test_grid__headless_left_and_width(void **state)
{
    (void)state;
    static const char *const cells[] = { "1", "2", "30", "20", "3", "4", NULL };
    et_grid grid = { .columns = 3, .headless = true, .left = 2, .width = 12 };
    add_all(&grid, cells);
    assert_int_equal(et_grid_width(&grid), 2 + 2 + 1 + 2 + 2);
    assert_prints(&grid, ET_GRID_TEXT, "1      2  30\n20     3   4\n");
    et_grid_release(&grid);
    /* The first row of one with heads decides nothing. */
    et_grid headed = { .columns = 1 };
    et_grid_add(&headed, "long");
    et_grid_add(&headed, "1");
    assert_prints(&headed, ET_GRID_TEXT, "long\n   1\n");
    et_grid_release(&headed);
    et_grid texts = { .columns = 1, .headless = true };
    et_grid_add(&texts, "long");
    et_grid_add(&texts, "1");
    assert_prints(&texts, ET_GRID_TEXT, "long\n1\n");
    et_grid_release(&texts);
}

/* All but the first column; not within a character. */
static void test_grid__cut_cells(void **state)
{
    (void)state;
    static const char *const cells[] = { "run", "value", "a/long/name",
                                         "\xc3\xa4\xc3\xb6\xc3\xbc"
                                         "abcdef",
                                         NULL };
    et_grid grid = { .columns = 2, .most = 6 };
    add_all(&grid, cells);
    assert_prints(&grid, ET_GRID_TEXT,
                  "run          value\n"
                  "a/long/name  \xc3\xa4\xc3\xb6\xc3\xbc...\n");
    assert_prints(&grid, ET_GRID_CSV,
                  "run,value\na/long/name,\xc3\xa4\xc3\xb6\xc3\xbc"
                  "abcdef\n");
    grid.shown = 1;
    assert_prints(&grid, ET_GRID_TEXT, "run\na/long/name\n");
    assert_int_equal(et_grid_fitting(&grid, 19), 2);
    assert_int_equal(et_grid_fitting(&grid, 18), 1);
    assert_int_equal(et_grid_fitting(&grid, 1), 1);
    et_grid_release(&grid);
}

/* A wide character has two columns of a terminal; if it no longer fits, it is replaced by a blank.
 */
static void test_grid__wide_characters(void **state)
{
    (void)state;
    static const char *const cells[] = { "\xe5\xb9\xb4\xe9\xbe\x84",
                                         "n",
                                         "x",
                                         "a",
                                         "\xe5\xb9\xb4\xe9\xbe\x84\xe5\xb9\xb4\xe9\xbe\x84",
                                         "y",
                                         NULL };
    et_grid grid = { .columns = 3, .headless = true, .most = 6 };
    add_all(&grid, cells);
    assert_prints(&grid, ET_GRID_TEXT,
                  "\xe5\xb9\xb4\xe9\xbe\x84  n       x\n"
                  "a     \xe5\xb9\xb4...   y\n");
    assert_int_equal(et_grid_width(&grid), 15);
    et_grid_release(&grid);
}

static void test_grid__least_and_last(void **state)
{
    (void)state;
    static const char *const cells[] = { "a", "12", "7 of 9", "b", "-inf", "8", NULL };
    et_grid grid = { .columns = 3, .headless = true, .last_left = true, .least = 4 };
    add_all(&grid, cells);
    assert_prints(&grid, ET_GRID_TEXT, "a       12  7 of 9\nb     -inf  8\n");
    et_grid_release(&grid);
}

static void test_grid__quoted_and_escaped(void **state)
{
    (void)state;
    static const char *const cells[] = { "name",   "",     "a,b",   "say \"x\"", "a|b\\|c",
                                         "two\n2", "\x1b", "plain", NULL };
    et_grid grid = { .columns = 2 };
    add_all(&grid, cells);
    assert_prints(&grid, ET_GRID_CSV,
                  "name,\n\"a,b\",\"say \"\"x\"\"\"\na|b\\|c,two\\n2\n\\u001b,plain\n");
    assert_prints(&grid, ET_GRID_MARKDOWN,
                  "| name |  |\n|---|---|\n| a,b | say \"x\" |\n| a\\|b\\\\|c | two\\n2 |\n"
                  "| \\u001b | plain |\n");
    assert_prints(&grid, ET_GRID_HTML,
                  "<table>\n<tr><th>name</th><th></th></tr>\n"
                  "<tr><td>a,b</td><td>say &quot;x&quot;</td></tr>\n"
                  "<tr><td>a|b\\|c</td><td>two\\n2</td></tr>\n"
                  "<tr><td>\\u001b</td><td>plain</td></tr>\n</table>\n");
    et_grid_release(&grid);
}

static void test_grid__html(void **state)
{
    (void)state;
    static const char *const cells[] = { "a<b", "rows", "c & d", "12", "e", "-3.5", NULL };
    et_grid grid = { .columns = 2 };
    add_all(&grid, cells);
    assert_prints(&grid, ET_GRID_HTML,
                  "<table>\n<tr><th>a&lt;b</th><th class=\"number\">rows</th></tr>\n"
                  "<tr><td>c &amp; d</td><td class=\"number\">12</td></tr>\n"
                  "<tr><td>e</td><td class=\"number\">-3.5</td></tr>\n</table>\n");
    et_grid_release(&grid);
}

/* A table that lacks a cell is not printed. */
static void test_grid__out_of_memory(void **state)
{
    (void)state;
    for (long calls = 0; !calls || scarce_failed; calls++) {
        et_error error = ET_ERROR_INIT;
        et_grid grid = { .columns = 1 };
        et_strbuf out = ET_STRBUF_INIT;
        scarce_begin(calls);
        et_grid_add(&grid, "run");
        et_grid_addf(&grid, "%d", 1);
        et_grid_append(&grid, ET_GRID_TEXT, &out);
        const bool whole = !out.failed && !strcmp(et_strbuf_text(&out), "run\n  1\n");
        const int status = et_grid_print(&grid, stdout, ET_GRID_CSV, &error);
        et_strbuf_release(&out);
        et_grid_release(&grid);
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : ET_OK);
        assert_true(whole || scarce_failed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grid__numbers_to_the_right),
        cmocka_unit_test(test_grid__headless_left_and_width),
        cmocka_unit_test(test_grid__cut_cells),
        cmocka_unit_test(test_grid__wide_characters),
        cmocka_unit_test(test_grid__least_and_last),
        cmocka_unit_test(test_grid__quoted_and_escaped),
        cmocka_unit_test(test_grid__html),
        cmocka_unit_test(test_grid__out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
