#include "data/text/vocabulary/vocabulary_check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "data/made_model.h"
#include "data/text/vocabulary/vocabulary.h"
#include "skip.h"

#define WORDS                                                                                      \
    { "a", NORMAL },                                                                               \
    {                                                                                              \
        "b", NORMAL                                                                                \
    }

/* SentencePiece's own order, Model Garden's, symbols with other texts, a start symbol that is an
 * ordinary token, and models without an end or an unknown. */
static const struct {
    token tokens[8];
    const char *bos, *eos, *pad;
    et_vocabulary_facts facts;
} rows[] = {
    { { { "<unk>", UNKNOWN }, { "<s>", CONTROL }, { "</s>", CONTROL }, WORDS },
      NULL,
      NULL,
      NULL,
      { 2, 5, 5, false, 2, 0, 1, -1 } },
    { { { "<pad>", CONTROL }, { "</s>", CONTROL }, { "<unk>", UNKNOWN }, WORDS },
      "",
      "",
      "",
      { 2, 5, 5, false, 1, 2, -1, 0 } },
    { { WORDS, { "end", CONTROL }, { "begin", CONTROL }, { "?", UNKNOWN }, { "</s>", CONTROL } },
      "begin",
      "end",
      "none",
      { 2, 6, 6, false, 2, 4, 3, -1 } },
    { { { "<unk>", UNKNOWN }, { "<s>", USER_DEFINED }, { "</s>", CONTROL }, WORDS },
      NULL,
      NULL,
      NULL,
      { 2, 5, 5, false, 2, 0, -1, -1 } },
    { { { "<unk>", UNKNOWN }, { "</s>", NORMAL }, WORDS },
      NULL,
      NULL,
      NULL,
      { 2, 4, 4, false, -1, 0, -1, -1 } },
    { { { "</s>", CONTROL }, WORDS }, NULL, NULL, NULL, { 2, 3, 3, false, 0, -1, -1, -1 } },
};

static void check_facts(const et_vocabulary_facts *is, const et_vocabulary_facts *expected)
{
    assert_int_equal(is->model_type, expected->model_type);
    assert_int_equal(is->pieces, expected->pieces);
    assert_int_equal(is->tokens, expected->tokens);
    assert_int_equal(is->tags, expected->tags);
    assert_int_equal(is->eos, expected->eos);
    assert_int_equal(is->unk, expected->unk);
    assert_int_equal(is->bos, expected->bos);
    assert_int_equal(is->pad, expected->pad);
}

/* What Etude adds: so many pieces have a number, and symbols are among them. */
static void test_vocabulary_check__numbered(void **state)
{
    static const char four[] = "\xc0\x3e\x04\xc8\x3e\x01", two[] = "\xc0\x3e\x02",
                      nine[] = "\xc0\x3e\x09";
    static const struct {
        const char *field;
        size_t length;
        int status;
    } cases[] = { { four, 6, ET_OK }, { two, 3, ET_EFORMAT }, { nine, 3, ET_EFORMAT } };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_vocabulary_facts facts;
        et_strbuf model = ET_STRBUF_INIT;
        put_model(&model, rows[0].tokens, NULL, NULL, NULL);
        et_strbuf_append_bytes(&model, cases[i].field, cases[i].length);
        assert_int_equal(
            et_vocabulary_check(&facts, et_strbuf_text(&model), model.length, "it", NULL),
            cases[i].status);
        if (!cases[i].status)
            check_facts(&facts, &(et_vocabulary_facts){ 2, 5, 4, true, 2, 0, 1, -1 });
        et_strbuf_release(&model);
    }
}

static void test_vocabulary_check__facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_vocabulary_facts facts;
        et_strbuf model = ET_STRBUF_INIT;
        put_model(&model, rows[i].tokens, rows[i].bos, rows[i].eos, rows[i].pad);
        assert_int_equal(
            et_vocabulary_check(&facts, et_strbuf_text(&model), model.length, "it", NULL), ET_OK);
        check_facts(&facts, &rows[i].facts);
        et_strbuf_release(&model);
    }
}

/* A model without a symbol is not called damaged. */
static void test_vocabulary_check__messages(void **state)
{
    static const struct {
        token tokens[6];
        const char *eos, *message;
    } cases[] = {
        { { { "<unk>", UNKNOWN }, { "<pad>", CONTROL }, WORDS },
          NULL,
          "it: EOS token not in tokenizer vocab: none of its 4 tokens is \"</s>\"; train the model "
          "again, with an eos_id of at least 0" },
        { { { "<unk>", UNKNOWN }, { "</s>", CONTROL }, WORDS },
          "<eos>",
          "it: EOS token not in tokenizer vocab: none of its 4 tokens is \"<eos>\"" },
        { { { "<unk>", UNKNOWN }, { "</s>", USER_DEFINED }, WORDS },
          NULL,
          "it: EOS token not in tokenizer vocab: token 1, \"</s>\", is not a control token" },
        { { { "</s>", CONTROL }, WORDS }, NULL, "it: none of its 3 tokens is for unknown text" },
        { { { NULL, 0 } },
          "</s>",
          "it: not a SentencePiece model, or an incomplete one: it has no" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        et_vocabulary *vocabulary;
        et_error error = ET_ERROR_INIT;
        et_strbuf model = ET_STRBUF_INIT;
        put_model(&model, cases[i].tokens, NULL, cases[i].eos, NULL);
        assert_int_equal(
            et_vocabulary_parse(&vocabulary, et_strbuf_text(&model), model.length, "it", &error),
            ET_EFORMAT);
        if (strncmp(error.text, cases[i].message, strlen(cases[i].message)) != 0)
            fail_msg("%s", error.text);
        et_strbuf_release(&model);
    }
    et_vocabulary_facts facts;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_vocabulary_check(&facts, "", 0, "it", &error), ET_EFORMAT);
    assert_string_equal(error.text, "it: the file is empty: copy it again");
}

/* SentencePiece reads the same in each model that it takes. */
static void test_vocabulary_check__as_the_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_vocabulary *vocabulary;
        et_error error = ET_ERROR_INIT;
        et_strbuf model = ET_STRBUF_INIT;
        put_model(&model, rows[i].tokens, rows[i].bos, rows[i].eos, rows[i].pad);
        int status =
            et_vocabulary_parse(&vocabulary, et_strbuf_text(&model), model.length, "it", &error);
        bool whole = rows[i].facts.eos >= 0 && rows[i].facts.unk >= 0;
        assert_int_equal(status, whole ? ET_OK : ET_EFORMAT);
        int loaded = whole ? et_vocabulary_load(vocabulary, &error) : ET_OK;
        et_vocabulary_close(vocabulary);
        et_strbuf_release(&model);
        if (loaded == ET_ECONFIG)
            test_skip("built without SentencePiece");
        if (loaded)
            fail_msg("%s", error.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary_check__facts),
        cmocka_unit_test(test_vocabulary_check__numbered),
        cmocka_unit_test(test_vocabulary_check__messages),
        cmocka_unit_test(test_vocabulary_check__as_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
