/* The replacement for SentencePiece is linked before the library's own: the facts that a vocabulary
 * still has, and the results of all other calls. */
#include "data/text/vocabulary/vocabulary_sentencepiece.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "data/made_model.h"

static et_vocabulary *made(void)
{
    static const token tokens[] = {
        { "<pad>", CONTROL }, { "</s>", CONTROL }, { "<unk>", UNKNOWN }, { "a", NORMAL }, { 0 }
    };
    et_vocabulary *vocabulary;
    et_strbuf model = ET_STRBUF_INIT;
    put_model(&model, tokens, NULL, NULL, NULL);
    assert_int_equal(
        et_vocabulary_parse(&vocabulary, et_strbuf_text(&model), model.length, "it", NULL), ET_OK);
    et_strbuf_release(&model);
    return vocabulary;
}

static void test_vocabulary_none__facts(void **state)
{
    (void)state;
    et_vocabulary *vocabulary = made();
    assert_int_equal(et_vocabulary_size(vocabulary), 4);
    assert_int_equal(et_vocabulary_eos(vocabulary), 1);
    assert_int_equal(et_vocabulary_start(vocabulary), 0);
    assert_string_equal(et_vocabulary_kind(vocabulary), "bpe");
    assert_string_equal(et_vocabulary_token(vocabulary, 3), "");
    et_vocabulary_close(vocabulary);
}

static void expect_cure(int status, const et_error *error)
{
    assert_int_equal(status, ET_ECONFIG);
    assert_non_null(strstr(error->text, "built without: install libsentencepiece-dev"));
    assert_non_null(strstr(error->text, "-DETUDE_SENTENCEPIECE=ON"));
}

static int no_lines(void *payload, const char **text, size_t *length, et_error *error)
{
    (void)payload, (void)length, (void)error;
    *text = NULL;
    return ET_OK;
}

static void test_vocabulary_none__says_the_cure(void **state)
{
    (void)state;
    et_vocabulary *vocabulary = made();
    et_tokens tokens = ET_TOKENS_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_vocabulary_options options = ET_VOCABULARY_OPTIONS_INIT;
    et_error error = ET_ERROR_INIT;
    char *bytes;
    size_t length;
    const int32_t id = 3;
    expect_cure(et_vocabulary_load(vocabulary, &error), &error);
    expect_cure(et_vocabulary_encode(vocabulary, "a", 1, &tokens, &error), &error);
    expect_cure(et_vocabulary_decode(vocabulary, &id, 1, &text, &error), &error);
    expect_cure(et_vocabulary_train(&bytes, &length, &options, no_lines, NULL, &error), &error);
    assert_null(bytes);
    et_vocabulary_close(vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary_none__facts),
        cmocka_unit_test(test_vocabulary_none__says_the_cure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
