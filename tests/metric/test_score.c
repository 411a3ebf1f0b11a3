#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <etude/score.h>
#include <etude/version.h>

#include "base/scarce.h"
#include "metric/score.h"
#include "metric/score_lines.h"

#define DATA ET_TEST_SOURCE "/tests/metric/data/"

#define assert_near(value, expected, tolerance)                                                    \
    do {                                                                                           \
        if (!(fabs((value) - (expected)) <= (tolerance)))                                          \
            fail_msg("%s = %.17g, expected %.17g", #value, (double)(value), (double)(expected));   \
    } while (0)

static et_score *new_bleu(et_bleu_options options)
{
    et_score *bleu;
    assert_int_equal(et_bleu_new(&bleu, &options, NULL), 0);
    return bleu;
}

static et_score *new_chrf(void)
{
    et_score *chrf;
    et_chrf_options options = ET_CHRF_OPTIONS_INIT;
    assert_int_equal(et_chrf_new(&chrf, &options, NULL), 0);
    return chrf;
}

/* ours: freed. */
static void assert_file_equal(char *ours, const char *path, size_t least)
{
    char *theirs = NULL;
    size_t length;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    FILE *copy = open_memstream(&theirs, &length);
    for (int c; (c = fgetc(file)) != EOF;)
        fputc(c, copy);
    fclose(file);
    fclose(copy);
    assert_true(length > least);
    assert_lines_equal(ours, theirs);
    free(ours);
    free(theirs);
}

/* The expected lines were printed by sacrebleu 2.5.1 (score_lines.py). */
static void test_score__sacrebleu_golden(void **state)
{
    (void)state;
    score_pairs pairs = { 0 };
    score_pairs_read(&pairs, DATA "score_pairs.tsv");
    assert_file_equal(score_lines(&pairs, 40), DATA "score_lines.txt", 20000);
    score_pairs_free(&pairs);
}

/* The same with score_lines.py --edits. */
static void test_score__moved_blocks(void **state)
{
    (void)state;
    score_pairs pairs = { 0 };
    score_pairs_move(&pairs, 1200);
    assert_file_equal(score_edits(&pairs), DATA "score_edits.txt", 5000);
    score_pairs_free(&pairs);
}

/* Small pairs, whose edits can be counted by hand. */
static void test_score__edits(void **state)
{
    (void)state;
    static const struct {
        const char *hypothesis, *reference;
        bool cased;
        int edits, length;
    } cases[] = {
        { "", "", false, 0, 0 },
        { "a b", "", false, 2, 0 },
        { "", "a b c", false, 3, 3 },
        { "a b c", "a b c", false, 0, 3 },
        { "A b C", "a B c", false, 0, 3 },
        { "A b C", "a B c", true, 3, 3 },
        { "d e f a b c", "a b c d e f", false, 1, 6 },
        { "a c", "a b c", false, 1, 3 },
        { "a b x c", "a b c", false, 1, 3 },
        { "a\u00a0x\u3000c", "a b c", false, 1, 3 },
        { "x y", "a b", false, 2, 2 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_score *ter;
        const et_ter_options options = { .case_sensitive = cases[i].cased };
        assert_int_equal(et_ter_new(&ter, &options, NULL), 0);
        assert_int_equal(et_score_add(ter, cases[i].hypothesis, cases[i].reference, NULL), 0);
        assert_int_equal(et_score_total(ter)->ter.edits, cases[i].edits);
        assert_int_equal(et_score_total(ter)->ter.ref_len, cases[i].length);
        et_score_free(ter);
    }
}

/* Expected: what Model Garden's metrics/bleu.py computes, in double precision. */
static void test_score__model_garden_golden(void **state)
{
    (void)state;
    static const struct {
        bool lowercase;
        int64_t sys_len, ref_len;
        double score, bp, precisions[4];
    } cases[] = {
        { true,
          1897,
          2134,
          56.5136409967,
          0.882555,
          { 90.458619, 68.504832, 56.923077, 47.663551 } },
        { false,
          1897,
          2134,
          52.1360555898,
          0.882555,
          { 87.190300, 63.843093, 51.692308, 42.323097 } },
    };
    score_pairs pairs = { 0 };
    score_pairs_read(&pairs, DATA "score_pairs.tsv");
    for (size_t i = 0; i < 2; i++) {
        et_bleu_options options = ET_BLEU_OPTIONS_MODEL_GARDEN;
        options.lowercase = cases[i].lowercase;
        et_score *bleu = new_bleu(options);
        et_score_result result;
        for (size_t k = 0; k < pairs.count; k++)
            assert_int_equal(et_score_add(bleu, pairs.hypotheses[k], pairs.references[k], NULL), 0);
        assert_int_equal(et_score_value(bleu, &result, NULL), 0);
        assert_near(result.score, cases[i].score, 5e-11);
        assert_near(result.bp, cases[i].bp, 5e-7);
        for (int n = 0; n < 4; n++)
            assert_near(result.precisions[n], cases[i].precisions[n], 5e-7);
        assert_int_equal(result.sys_len, cases[i].sys_len);
        assert_int_equal(result.ref_len, cases[i].ref_len);
        et_score_free(bleu);
    }
    score_pairs_free(&pairs);
}

/* The formula's values for short and empty text. Model Garden's own test vectors are in
 * references/translation/test_bleu_test.c. */
static void test_score__model_garden_cases(void **state)
{
    (void)state;
    static const struct {
        const char *references[2], *hypotheses[2];
        double uncased, cased;
    } cases[] = {
        { { "a b c d e f" }, { "a b c" }, 36.7879441171, 36.7879441171 },
        { { "a b c d e f" }, { "x y z w v u" }, 4.0583489434, 4.0583489434 },
        { { "a" }, { "a" }, 100, 100 },
        { { "a b" }, { "c d" }, 50, 50 },
        { { "a b c d" }, { "" }, 0, 0 },
        { { "" }, { "a" }, 0, 0 },
        { { "" }, { "" }, 0, 0 },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
        for (int cased = 0; cased < 2; cased++) {
            et_bleu_options options = ET_BLEU_OPTIONS_MODEL_GARDEN;
            options.lowercase = !cased;
            et_score *bleu = new_bleu(options);
            et_score_result result;
            for (size_t k = 0; k < 2 && cases[i].references[k]; k++)
                assert_int_equal(
                    et_score_add(bleu, cases[i].hypotheses[k], cases[i].references[k], NULL), 0);
            assert_int_equal(et_score_value(bleu, &result, NULL), 0);
            assert_near(result.score, cased ? cases[i].cased : cases[i].uncased, 1e-9);
            et_score_free(bleu);
        }
}

/* The words of line, one space between them. */
static void print_words(char *out, const et_codes *line)
{
    size_t at = 0, first, end;
    while (et_word_next(line, &at, &first, &end)) {
        for (size_t i = first; i < end; i++)
            out += et_utf8_encode(out, line->items[i]);
        *out++ = ' ';
    }
    *(out - 1) = 0;
}

static void test_tokenize__words(void **state)
{
    (void)state;
    static const struct {
        et_bleu_tokens tokens;
        const char *text, *words;
    } cases[] = {
        { ET_BLEU_TOKENS_13A, "It costs $3.50, i.e. 1,234.5 in 2011.",
          "It costs $ 3.50 , i . e . 1,234.5 in 2011 ." },
        { ET_BLEU_TOKENS_13A, "&quot;ka&quot; &amp;lt; &lt;b&gt; &amp;quot; <skipped>x",
          "\" ka \" < < b > & quot ; x" },
        { ET_BLEU_TOKENS_13A, "10-12 1990- a-b -5", "10 - 12 1990 - a-b -5" },
        { ET_BLEU_TOKENS_13A, "l'eau U.S.A. .,.,", "l'eau U . S . A . . , . ," },
        { ET_BLEU_TOKENS_13A, "-\nend a-\nb\nc", "end ab c" },
        { ET_BLEU_TOKENS_13A, "a-\n", "a-" },
        { ET_BLEU_TOKENS_13A, "x{y}~[z]|`\\^_/:;<=>?@#%&*()+!\"",
          "x { y } ~ [ z ] | ` \\ ^ _ / : ; < = > ? @ # % & * ( ) + ! \"" },
        { ET_BLEU_TOKENS_13A, "日本.。5", "日本 . 。5" },
        { ET_BLEU_TOKENS_13A, ". 5. .5 , ,", ". 5 . . 5 , ," },
        { ET_BLEU_TOKENS_NONE, " a,b\u00a0c\u3000 d. ", "a,b c d." },
        { ET_BLEU_TOKENS_CHAR, "a é日 .", "a é 日 ." },
        { ET_BLEU_TOKENS_V14, "It costs $3.50, i.e. 1,234.5 € in 2011.",
          "It costs $ 3.50 , i . e . 1,234.5 € in 2011." },
        { ET_BLEU_TOKENS_V14, "C:\\dir\\x [a] (b)--c", "C : \\dir\\x [ a ] ( b ) - - c" },
        { ET_BLEU_TOKENS_V14, "«ja» „so“… 你好，世界。", "« ja » „ so “ … 你好 ， 世界 。" },
        { ET_BLEU_TOKENS_V14, "x=y+1 ^a~b|c`", "x = y + 1 ^ a ~ b | c `" },
        { ET_BLEU_TOKENS_V14, "١٢.٣ १,२ ½.5", "١٢.٣ १,२ ½ . 5" },
        { ET_BLEU_TOKENS_V14, "a.5 5.a ..5,,6 ", "a . 5 5 . a . .5 , , 6" },
        { ET_BLEU_TOKENS_V14, "2011. ", "2011 ." },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        et_tokenizer tokenizer = ET_TOKENIZER_INIT;
        char words[256];
        assert_int_equal(et_tokenizer_run(&tokenizer, cases[i].tokens, false, cases[i].text, NULL),
                         0);
        print_words(words, &tokenizer.line);
        assert_string_equal(words, cases[i].words);
        et_tokenizer_release(&tokenizer);
    }
}

static void test_score__signature(void **state)
{
    (void)state;
    static const struct {
        et_bleu_options options;
        const char *signature;
    } cases[] = {
        { ET_BLEU_OPTIONS_INIT,
          "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:etude-" ET_VERSION },
        { ET_BLEU_OPTIONS_TOKENIZED,
          "nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:etude-" ET_VERSION },
        { ET_BLEU_OPTIONS_MODEL_GARDEN,
          "nrefs:1|case:lc|eff:no|tok:mteval-v14|smooth:model-garden|version:etude-" ET_VERSION },
        { { ET_BLEU_TOKENS_CHAR, ET_BLEU_SMOOTH_NONE, true, true },
          "nrefs:1|case:lc|eff:yes|tok:char|smooth:none|version:etude-" ET_VERSION },
    };
    char text[ET_SCORE_TEXT_MAX];
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        et_score *bleu = new_bleu(cases[i].options);
        assert_string_equal(et_score_signature(bleu, text), cases[i].signature);
        et_score_free(bleu);
    }
    et_score *chrf = new_chrf();
    assert_string_equal(et_score_signature(chrf, text),
                        "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:etude-" ET_VERSION);
    et_score_free(chrf);
}

/* The longest line that numbers can make fits its buffer. */
static void test_score__print_limits(void **state)
{
    (void)state;
    et_score *bleu = new_bleu((et_bleu_options)ET_BLEU_OPTIONS_MODEL_GARDEN);
    et_score_result result = { .score = 100,
                               .precisions = { 100, 100, 100, 100 },
                               .bp = 1,
                               .sys_len = INT64_MAX,
                               .ref_len = 1 };
    char signature[ET_SCORE_TEXT_MAX], text[ET_SCORE_TEXT_MAX];
    et_score_print(bleu, &result, 17, et_score_signature(bleu, signature), text);
    assert_int_equal(text[strlen(text) - 1], ')');
    et_score_free(bleu);
}

/* Values that no text gives and no caller can mean are refused, and change nothing. */
static void test_score__refuses_values(void **state)
{
    (void)state;
    static const et_bleu_options wrong[] = {
        { .tokens = (et_bleu_tokens)4 },
        { .tokens = (et_bleu_tokens)-1 },
        { .smooth = (et_bleu_smooth)3 },
        { .smooth = (et_bleu_smooth)-7 },
    };
    static const char *const holes[] = { "a b", NULL }, *const whole[] = { "a b", "c" };
    static const et_score_counts bleu_counts[] = {
        { .bleu = { .pairs = -1 } },
        { .bleu = { .sys_len = INT64_MIN } },
        { .bleu = { .correct = { 0, 2 }, .total = { 5, 1 } } },
        { .bleu = { .pairs = INT64_MAX } },
    };
    static const et_score_counts chrf_counts[] = {
        { .chrf = { .pairs = -1 } },
        { .chrf = { .match = { 2 }, .reference = { 1 }, .hypothesis = { 3 } } },
        { .chrf = { .match = { 2 }, .reference = { 3 }, .hypothesis = { 1 } } },
        { .chrf = { .hypothesis = { -1 }, .match = { -1 } } },
        { .chrf = { .pairs = INT64_MAX } },
    };
    et_error error = ET_ERROR_INIT;
    et_score *bleu;
    et_score *chrf;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(et_bleu_new(&bleu, &wrong[i], &error), ET_ECONFIG);
        assert_null(bleu);
    }
    assert_int_equal(et_bleu_new(&bleu, NULL, &error), ET_OK);
    assert_int_equal(et_chrf_new(&chrf, NULL, &error), ET_OK);
    assert_int_equal(et_score_add(bleu, NULL, "a", &error), ET_EDATA);
    assert_string_equal(error.text, "hypothesis line 1: the text is NULL; an empty line is \"\"");
    assert_int_equal(et_score_add(chrf, "a", NULL, &error), ET_EDATA);
    assert_string_equal(error.text, "reference line 1: the text is NULL; an empty line is \"\"");
    assert_int_equal(et_score_add_corpus(bleu, NULL, 2, whole, 2, &error), ET_EDATA);
    assert_int_equal(et_score_add_corpus(chrf, whole, 2, NULL, 2, &error), ET_EDATA);
    assert_int_equal(et_score_total(bleu)->bleu.pairs + et_score_total(chrf)->chrf.pairs, 0);
    assert_int_equal(et_score_add_corpus(bleu, holes, 2, whole, 2, &error), ET_EDATA);
    assert_memory_equal(error.text, "hypothesis line 2: the t", 23);
    assert_int_equal(et_score_add_corpus(chrf, whole, 2, holes, 2, &error), ET_EDATA);
    et_score_counts bleu_before = *et_score_total(bleu);
    et_score_counts chrf_before = *et_score_total(chrf);
    for (size_t i = 0; i < sizeof bleu_counts / sizeof bleu_counts[0]; i++)
        assert_int_equal(et_score_merge(bleu, &bleu_counts[i], &error), ET_EDATA);
    for (size_t i = 0; i < sizeof chrf_counts / sizeof chrf_counts[0]; i++)
        assert_int_equal(et_score_merge(chrf, &chrf_counts[i], &error), ET_EDATA);
    assert_memory_equal(et_score_total(bleu), &bleu_before, sizeof bleu_before);
    assert_memory_equal(et_score_total(chrf), &chrf_before, sizeof chrf_before);
    et_score_result result = { .score = 50.25 }, other_result = { .score = 67.4 };
    char one[ET_SCORE_TEXT_MAX], other[ET_SCORE_TEXT_MAX];
    assert_string_equal(et_score_print(bleu, &result, 2000000000, NULL, one),
                        et_score_print(bleu, &result, 17, NULL, other));
    assert_string_equal(et_score_print(chrf, &other_result, -5, NULL, one), "chrF2 = 67");
    et_score_free(bleu);
    et_score_free(chrf);
}

/* Any grouping of the pairs gives the same bits. */
static void test_score__merge(void **state)
{
    (void)state;
    score_pairs pairs = { 0 };
    score_pairs_read(&pairs, DATA "score_pairs.tsv");
    et_bleu_options options = ET_BLEU_OPTIONS_INIT;
    et_score *bleu[4];
    et_score *chrf[4];
    for (size_t k = 0; k < 4; k++) {
        bleu[k] = new_bleu(options);
        chrf[k] = new_chrf();
    }
    for (size_t i = pairs.count; i-- > 0;) {
        for (size_t k = 0; k < 4; k += 3) {
            et_score_add(bleu[k ? i % 3 : 3], pairs.hypotheses[i], pairs.references[i], NULL);
            et_score_add(chrf[k ? i % 3 : 3], pairs.hypotheses[i], pairs.references[i], NULL);
        }
    }
    for (size_t k = 1; k < 3; k++) {
        assert_int_equal(et_score_merge(bleu[0], et_score_total(bleu[k]), NULL), ET_OK);
        assert_int_equal(et_score_merge(chrf[0], et_score_total(chrf[k]), NULL), ET_OK);
    }
    et_score_result merged, whole, merged_chrf, whole_chrf;
    assert_int_equal(et_score_value(bleu[0], &merged, NULL), 0);
    assert_int_equal(et_score_value(bleu[3], &whole, NULL), 0);
    assert_memory_equal(&merged, &whole, sizeof(whole));
    assert_int_equal(et_score_value(chrf[0], &merged_chrf, NULL), 0);
    assert_int_equal(et_score_value(chrf[3], &whole_chrf, NULL), 0);
    assert_memory_equal(&merged_chrf, &whole_chrf, sizeof whole_chrf);
    assert_int_equal(et_score_total(bleu[0])->bleu.pairs, pairs.count);
    et_score_clear(bleu[0]);
    et_score_clear(chrf[0]);
    assert_int_equal(et_score_value(bleu[0], &merged, NULL), ET_EDATA);
    assert_int_equal(et_score_value(chrf[0], &merged_chrf, NULL), ET_EDATA);
    for (size_t k = 0; k < 4; k++) {
        et_score_free(bleu[k]);
        et_score_free(chrf[k]);
    }
    score_pairs_free(&pairs);
}

static void test_score__refuses_counts(void **state)
{
    (void)state;
    static const char *const lines[] = { "a", "b", "c" };
    static const struct {
        size_t hypotheses, references;
        const char *text;
    } cases[] = {
        { 3, 2,
          "3 hypotheses but 2 references: give equal numbers of lines (an empty translation is an "
          "empty line)" },
        { 0, 2,
          "0 hypotheses but 2 references: give equal numbers of lines (an empty translation is an "
          "empty line)" },
        { 0, 0, "nothing to score" },
    };
    et_score *bleu = new_bleu((et_bleu_options)ET_BLEU_OPTIONS_INIT);
    et_score *chrf = new_chrf();
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_score_add_corpus(bleu, lines, cases[i].hypotheses, lines,
                                             cases[i].references, &error),
                         ET_EDATA);
        assert_ptr_equal(strstr(error.text, cases[i].text), error.text);
        error = (et_error)ET_ERROR_INIT;
        assert_int_equal(et_score_add_corpus(chrf, lines, cases[i].hypotheses, lines,
                                             cases[i].references, &error),
                         ET_EDATA);
        assert_ptr_equal(strstr(error.text, cases[i].text), error.text);
    }
    assert_int_equal(et_score_total(bleu)->bleu.pairs, 0);
    et_score_free(bleu);
    et_score_free(chrf);
}

static void test_score__refuses_bad_text(void **state)
{
    (void)state;
    static const struct {
        const char *hypothesis, *reference, *text;
    } cases[] = {
        { "ab\xff", "x", "hypothesis line 2: byte 3 (0xFF) is not UTF-8; save the text as UTF-8" },
        { "x", "\xc3", "reference line 2: byte 1 (0xC3) is not UTF-8; save the text as UTF-8" },
        { "\xed\xa0\x80", "x",
          "hypothesis line 2: byte 1 (0xED) is not UTF-8; save the text as UTF-8" },
        { "x", "a\xc0\xaf",
          "reference line 2: byte 2 (0xC0) is not UTF-8; save the text as UTF-8" },
        { "\xf4\x90\x80\x80", "x",
          "hypothesis line 2: byte 1 (0xF4) is not UTF-8; save the text as UTF-8" },
    };
    et_score *bleu = new_bleu((et_bleu_options)ET_BLEU_OPTIONS_INIT);
    et_score *chrf = new_chrf();
    assert_int_equal(et_score_add(bleu, "a b", "a b", NULL), 0);
    assert_int_equal(et_score_add(chrf, "a b", "a b", NULL), 0);
    et_score_counts bleu_before = *et_score_total(bleu);
    et_score_counts chrf_before = *et_score_total(chrf);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        et_error error = ET_ERROR_INIT;
        assert_int_equal(et_score_add(bleu, cases[i].hypothesis, cases[i].reference, &error),
                         ET_EDATA);
        assert_string_equal(error.text, cases[i].text);
        error = (et_error)ET_ERROR_INIT;
        assert_int_equal(et_score_add(chrf, cases[i].hypothesis, cases[i].reference, &error),
                         ET_EDATA);
        assert_string_equal(error.text, cases[i].text);
    }
    assert_memory_equal(et_score_total(bleu), &bleu_before, sizeof(bleu_before));
    assert_memory_equal(et_score_total(chrf), &chrf_before, sizeof(chrf_before));
    et_score_free(bleu);
    et_score_free(chrf);
}

/* Lines of 256 KiB, a pattern repeated (NULL: all words differ). Quadratic work would take
 * minutes for each. */
static void test_score__long_lines(void **state)
{
    (void)state;
    static const char *const patterns[] = { "a ", NULL, "a", ",.", "Σ.", "&amp;", "-", "\xcc\x81" };
    enum { LENGTH = 1 << 18 };
    char *line = malloc(LENGTH + 64);
    assert_non_null(line);
    et_score *bleu = new_bleu((et_bleu_options){ .lowercase = true });
    et_score *chrf = new_chrf(), *ter;
    assert_int_equal(et_ter_new(&ter, NULL, NULL), 0);
    clock_t start = clock();
    for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++) {
        size_t length = 0;
        for (size_t k = 0; length < LENGTH; k++)
            length +=
                (size_t)(patterns[i] ? sprintf(line + length, "%s", patterns[i])
                                     : sprintf(line + length, "%zu ", k * 2654435761u % 1000003));
        et_score_result result, score;
        assert_int_equal(et_score_sentence(bleu, &result, line, line, NULL), 0);
        assert_near(result.precisions[0], 100, 0);
        assert_int_equal(result.sys_len, result.ref_len);
        assert_int_equal(et_score_sentence(chrf, &score, line, line, NULL), 0);
        assert_near(score.score, 100, 1e-12);
        assert_int_equal(et_score_sentence(ter, &score, line, line, NULL), 0);
        assert_near(score.score, 0, 0);
    }
    assert_true((double)(clock() - start) / CLOCKS_PER_SEC < 60);
    et_score_free(bleu);
    et_score_free(chrf);
    et_score_free(ter);
    free(line);
}

static int score_once(void)
{
    et_score *bleu = NULL;
    et_score *chrf = NULL, *ter = NULL;
    et_bleu_options options = { .lowercase = true };
    et_chrf_options chrf_options = { .lowercase = true };
    int status = et_bleu_new(&bleu, &options, NULL);
    if (!status)
        status = et_score_add(bleu, "\u0130, a.", "A b", NULL);
    if (!status)
        status = et_score_add(bleu, "A much longer line than the first", "And another one", NULL);
    if (!status)
        status = et_chrf_new(&chrf, &chrf_options, NULL);
    if (!status)
        status = et_score_add(chrf, "some characters", "other characters", NULL);
    if (!status)
        status = et_ter_new(&ter, NULL, NULL);
    if (!status)
        status = et_score_add(ter, "c a b", "a b", NULL);
    if (!status)
        status = et_score_add(ter, "f g h a b c d e i", "a b c d e f g h", NULL);
    et_score_free(bleu);
    et_score_free(chrf);
    et_score_free(ter);
    return status;
}

static void test_score__allocation_fails(void **state)
{
    (void)state;
    int status = ET_ENOMEM;
    long calls = 0;
    for (scarce_failed = true; scarce_failed; calls++) {
        scarce_begin(calls);
        status = score_once();
        scarce_end();
        assert_int_equal(status, scarce_failed ? ET_ENOMEM : 0);
    }
    assert_true(calls > 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score__sacrebleu_golden),
        cmocka_unit_test(test_score__moved_blocks),
        cmocka_unit_test(test_score__edits),
        cmocka_unit_test(test_score__model_garden_golden),
        cmocka_unit_test(test_score__model_garden_cases),
        cmocka_unit_test(test_tokenize__words),
        cmocka_unit_test(test_score__signature),
        cmocka_unit_test(test_score__print_limits),
        cmocka_unit_test(test_score__merge),
        cmocka_unit_test(test_score__refuses_counts),
        cmocka_unit_test(test_score__refuses_bad_text),
        cmocka_unit_test(test_score__refuses_values),
        cmocka_unit_test(test_score__long_lines),
        cmocka_unit_test(test_score__allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
