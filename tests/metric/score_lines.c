#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <etude/score.h>

#include "metric/score.h"
#include "metric/score_lines.h"

void score_pairs_add(score_pairs *pairs, const char *hypothesis, const char *reference)
{
    size_t count = pairs->count + 1;
    pairs->hypotheses = realloc(pairs->hypotheses, count * sizeof(char *));
    pairs->references = realloc(pairs->references, count * sizeof(char *));
    assert_non_null(pairs->hypotheses);
    assert_non_null(pairs->references);
    pairs->hypotheses[pairs->count] = strdup(hypothesis);
    pairs->references[pairs->count] = strdup(reference);
    pairs->count = count;
}

void score_pairs_read(score_pairs *pairs, const char *path)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *line = NULL;
    size_t capacity = 0;
    while (getline(&line, &capacity, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        char *tab = strchr(line, '\t');
        assert_non_null(tab);
        *tab = 0;
        score_pairs_add(pairs, line, tab + 1);
    }
    free(line);
    fclose(file);
}

void score_pairs_free(score_pairs *pairs)
{
    for (size_t i = 0; i < pairs->count; i++) {
        free(pairs->hypotheses[i]);
        free(pairs->references[i]);
    }
    free(pairs->hypotheses);
    free(pairs->references);
    *pairs = (score_pairs){ 0 };
}

/* Prints one line, with its signature's version replaced by "-", so that it does not depend on the
 * program. */
static void put_line(FILE *out, const char *line)
{
    const char *version = strstr(line, "version:");
    if (!version) {
        fprintf(out, "%s\n", line);
        return;
    }
    version += strlen("version:");
    fprintf(out, "%.*s-%s\n", (int)(version - line), line, version + strcspn(version, " "));
}

static const int widths[] = { 1, 4, 10 };

static void put_bleu(FILE *out, const score_pairs *pairs, const et_bleu_options *options)
{
    et_score *bleu;
    et_score_result result;
    char signature[ET_SCORE_TEXT_MAX], text[ET_SCORE_TEXT_MAX];
    assert_int_equal(et_bleu_new(&bleu, options, NULL), 0);
    assert_int_equal(et_score_add_corpus(bleu, (const char *const *)pairs->hypotheses, pairs->count,
                                         (const char *const *)pairs->references, pairs->count,
                                         NULL),
                     0);
    assert_int_equal(et_score_value(bleu, &result, NULL), 0);
    et_score_signature(bleu, signature);
    put_line(out, et_score_print(bleu, &result, 2, NULL, text));
    for (size_t i = 0; i < 3; i++)
        put_line(out, et_score_print(bleu, &result, widths[i], signature, text));
    et_score_free(bleu);
}

static void put_chrf(FILE *out, const score_pairs *pairs, const et_chrf_options *options)
{
    et_score *chrf;
    et_score_result score;
    char signature[ET_SCORE_TEXT_MAX], text[ET_SCORE_TEXT_MAX];
    assert_int_equal(et_chrf_new(&chrf, options, NULL), 0);
    assert_int_equal(et_score_add_corpus(chrf, (const char *const *)pairs->hypotheses, pairs->count,
                                         (const char *const *)pairs->references, pairs->count,
                                         NULL),
                     0);
    assert_int_equal(et_score_value(chrf, &score, NULL), 0);
    et_score_signature(chrf, signature);
    put_line(out, et_score_print(chrf, &score, 2, NULL, text));
    for (size_t i = 0; i < 3; i++)
        put_line(out, et_score_print(chrf, &score, widths[i], signature, text));
    et_score_free(chrf);
}

static void put_sentences(FILE *out, const score_pairs *pairs, size_t sentences)
{
    static const et_bleu_options options[] = {
        { .effective_order = true },
        { .tokens = ET_BLEU_TOKENS_NONE, .lowercase = true, .effective_order = true },
        { .smooth = ET_BLEU_SMOOTH_NONE, .effective_order = true },
    };
    et_score *bleu[3];
    et_score *chrf;
    et_chrf_options chrf_options = ET_CHRF_OPTIONS_INIT;
    char signature[ET_SCORE_TEXT_MAX], text[ET_SCORE_TEXT_MAX];
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(et_bleu_new(&bleu[k], &options[k], NULL), 0);
    assert_int_equal(et_chrf_new(&chrf, &chrf_options, NULL), 0);
    for (size_t i = 0; i < sentences && i < pairs->count; i++) {
        const char *hypothesis = pairs->hypotheses[i], *reference = pairs->references[i];
        for (size_t k = 0; k < 3; k++) {
            et_score_result result;
            assert_int_equal(et_score_sentence(bleu[k], &result, hypothesis, reference, NULL), 0);
            et_score_signature(bleu[k], signature);
            put_line(out, et_score_print(bleu[k], &result, 6, signature, text));
        }
        et_score_result score;
        assert_int_equal(et_score_sentence(chrf, &score, hypothesis, reference, NULL), 0);
        et_score_signature(chrf, signature);
        put_line(out, et_score_print(chrf, &score, 6, signature, text));
    }
    for (size_t k = 0; k < 3; k++)
        et_score_free(bleu[k]);
    et_score_free(chrf);
}

char *score_lines(const score_pairs *pairs, size_t sentences)
{
    static const et_bleu_tokens tokens[] = { ET_BLEU_TOKENS_13A, ET_BLEU_TOKENS_NONE,
                                             ET_BLEU_TOKENS_CHAR };
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    for (size_t i = 0; i < 3; i++)
        for (int lower = 0; lower < 2; lower++)
            put_bleu(out, pairs, &(et_bleu_options){ .tokens = tokens[i], .lowercase = lower });
    for (int lower = 0; lower < 2; lower++)
        put_chrf(out, pairs, &(et_chrf_options){ .lowercase = lower });
    put_sentences(out, pairs, sentences);
    fclose(out);
    return text;
}

void assert_lines_equal(const char *ours, const char *theirs)
{
    for (int line = 1; *ours || *theirs; line++) {
        size_t mine = strcspn(ours, "\n"), other = strcspn(theirs, "\n");
        if (mine != other || memcmp(ours, theirs, mine))
            fail_msg("line %d\n  ours:   %.*s\n  theirs: %.*s", line, (int)mine, ours, (int)other,
                     theirs);
        ours += mine + (ours[mine] == '\n');
        theirs += other + (theirs[other] == '\n');
    }
}
