#include "base/text/pattern.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/malloc_fails.h"
#include "engine/optim/optim.h"
#include "skip.h"

static void test_pattern__searches_anywhere(void **state)
{
    (void)state;
    et_patterns *patterns;
    assert_ok(et_patterns_new(&patterns, LIST("norm", "bias$", "^embedding/"), "x", error));
    static const struct {
        const char *name;
        bool matches;
    } cases[] = {
        { "encoder/layer_0/norm_1/scale", true }, { "encoder/layer_0/ffn/bias", true },
        { "encoder/layer_0/bias/weight", false }, { "embedding/weight", true },
        { "decoder/embedding/weight", false },    { "", false },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_int_equal(et_patterns_match(patterns, cases[i].name), cases[i].matches);
    et_patterns_free(patterns);
}

static void test_pattern__empty_list_matches_nothing(void **state)
{
    (void)state;
    et_patterns *patterns;
    assert_ok(et_patterns_new(&patterns, (et_strings){ NULL, 0 }, "x", error));
    assert_false(et_patterns_match(patterns, "anything"));
    et_patterns_free(patterns);
    et_patterns_free(NULL);
}

static void test_pattern__names_the_fault(void **state)
{
    (void)state;
    et_patterns *patterns;
    assert_fails(et_patterns_new(&patterns, LIST("good", "a(b"), "adamw.exclude", error),
                 ET_ECONFIG, "adamw.exclude: 'a(b'");
    assert_null(patterns);
    assert_fails(et_patterns_new(&patterns, LIST("\xff"), "x", error), ET_ECONFIG, "UTF-8");
}

/* Places are characters counted from 1, whatever bytes they take. */
static void test_pattern__names_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *expression, *words;
    } cases[] = {
        { "*x", "item at character 1" },      { "a[z-a]", "class at character 5" },
        { "äö)b", "at character 3" },         { "日本語[z-a]", "at character 7" },
        { "a(b", "parenthesis at its end" },  { "äö(b", "parenthesis at its end" },
        { "\xc3\xa4\xff", "at character 2" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_patterns *patterns;
        assert_fails(et_patterns_new(&patterns, LIST(cases[i].expression), "x", error), ET_ECONFIG,
                     cases[i].words);
    }
}

/* Would take for ever without a limit. */
static void test_pattern__runaway_expression_ends(void **state)
{
    (void)state;
    et_patterns *patterns;
    assert_ok(et_patterns_new(&patterns, LIST("(x+x+)+[yz]"), "x", error));
    assert_false(et_patterns_match(patterns, "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"));
    et_patterns_free(patterns);
}

/* An expression that could not be compiled for lack of memory is no wrong one, and a search takes
 * none that could be lacking. */
static void test_pattern__out_of_memory(void **state)
{
    (void)state;
    bool failed = malloc_fails_works();
    if (!failed)
        test_skip("malloc is the sanitizer's");
    for (long n = 1; failed; n++) {
        et_patterns *patterns;
        et_error reason = ET_ERROR_INIT;
        malloc_fails_begin(n);
        int status = et_patterns_new(&patterns, LIST("^a.*(b|c)+$", "(x)\\1"), "x", &reason);
        failed = malloc_fails_end();
        assert_int_equal(status, failed ? ET_ENOMEM : ET_OK);
        if (status)
            continue;
        malloc_fails_begin(1);
        bool matched =
            et_patterns_match(patterns, "an item that is searched from end to end: abcb") &&
            et_patterns_match(patterns, "oxx") && !et_patterns_match(patterns, "ox");
        assert_false(malloc_fails_end());
        assert_true(matched);
        et_patterns_free(patterns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pattern__searches_anywhere),
        cmocka_unit_test(test_pattern__empty_list_matches_nothing),
        cmocka_unit_test(test_pattern__names_the_fault),
        cmocka_unit_test(test_pattern__out_of_memory),
        cmocka_unit_test(test_pattern__names_the_place),
        cmocka_unit_test(test_pattern__runaway_expression_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
