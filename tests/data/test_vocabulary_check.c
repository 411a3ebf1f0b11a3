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
      { 2, 5, 2, 0, 1, -1 } },
    { { { "<pad>", CONTROL }, { "</s>", CONTROL }, { "<unk>", UNKNOWN }, WORDS },
      "",
      "",
      "",
      { 2, 5, 1, 2, -1, 0 } },
    { { WORDS, { "end", CONTROL }, { "begin", CONTROL }, { "?", UNKNOWN }, { "</s>", CONTROL } },
      "begin",
      "end",
      "none",
      { 2, 6, 2, 4, 3, -1 } },
    { { { "<unk>", UNKNOWN }, { "<s>", USER_DEFINED }, { "</s>", CONTROL }, WORDS },
      NULL,
      NULL,
      NULL,
      { 2, 5, 2, 0, -1, -1 } },
    { { { "<unk>", UNKNOWN }, { "</s>", NORMAL }, WORDS },
      NULL,
      NULL,
      NULL,
      { 2, 4, -1, 0, -1, -1 } },
    { { { "</s>", CONTROL }, WORDS }, NULL, NULL, NULL, { 2, 3, 0, -1, -1, -1 } },
};

static void test_vocabulary_check__facts(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_vocabulary_facts facts;
        et_strbuf model = ET_STRBUF_INIT;
        put_model(&model, rows[i].tokens, rows[i].bos, rows[i].eos, rows[i].pad);
        assert_int_equal(
            et_vocabulary_check(&facts, et_strbuf_text(&model), model.length, "it", NULL), ET_OK);
        assert_memory_equal(&facts, &rows[i].facts, sizeof facts);
        et_strbuf_release(&model);
    }
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
        cmocka_unit_test(test_vocabulary_check__as_the_library),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
