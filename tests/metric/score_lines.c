#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <etude/score.h>

#include "metric/bootstrap.h"
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

/* Knuth's MMIX generator, its upper half. */
static unsigned draw(uint64_t *random, unsigned below)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((*random >> 33) % below);
}

enum { WORDS_MAX = 250 };

/* A block of up to 12 words goes elsewhere. */
static void move_block(uint64_t *random, unsigned *words, unsigned count)
{
    unsigned moved[WORDS_MAX], at = 0;
    const unsigned start = draw(random, count), left = count - start;
    const unsigned length = 1 + draw(random, left < 12 ? left : 12);
    const unsigned to = draw(random, count - length + 1);
    for (unsigned i = 0, k = 0; i < count - length || k < 1; i++) {
        if (i == to && k++ == 0)
            for (unsigned b = 0; b < length; b++)
                moved[at++] = words[start + b];
        if (i < count - length)
            moved[at++] = words[i < start ? i : i + length];
    }
    assert_int_equal(at, count);
    memcpy(words, moved, count * sizeof *words);
}

/* Drops, adds and replaces some words; returns how many there are. */
static unsigned change_words(uint64_t *random, unsigned *words, unsigned count, unsigned kinds)
{
    unsigned changed[WORDS_MAX], at = 0;
    for (unsigned i = 0; i < count; i++) {
        const unsigned what = draw(random, 30);
        if (what != 0)
            changed[at++] = what == 1 ? draw(random, kinds + 3) : words[i];
        if (what == 2)
            changed[at++] = draw(random, kinds);
    }
    memcpy(words, changed, at * sizeof *words);
    return at;
}

static void print_words(char *text, const unsigned *words, unsigned count)
{
    *text = 0;
    for (unsigned i = 0; i < count; i++)
        text += sprintf(text, i ? " w%u" : "W%u", words[i]);
}

void score_pairs_move(score_pairs *pairs, size_t count)
{
    uint64_t random = 7;
    for (size_t i = 0; i < count; i++) {
        unsigned words[WORDS_MAX];
        char reference[WORDS_MAX * 8], hypothesis[WORDS_MAX * 8];
        const unsigned kinds = 2 + draw(&random, i % 3 ? 60 : 8);
        unsigned length = draw(&random, i % 10 ? 30 : i % 20 ? 91 : WORDS_MAX - 80);
        for (unsigned k = 0; k < length; k++)
            words[k] = draw(&random, kinds);
        print_words(reference, words, length);
        for (unsigned moves = draw(&random, 4); length && moves; moves--)
            move_block(&random, words, length);
        length = change_words(&random, words, length, kinds);
        /* A few are much too short. */
        print_words(hypothesis, words, i % 40 == 20 ? (length + 99) / 100 : length);
        score_pairs_add(pairs, hypothesis, reference);
    }
}

void score_pairs_write(const score_pairs *pairs, const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < pairs->count; i++)
        fprintf(file, "%s\t%s\n", pairs->hypotheses[i], pairs->references[i]);
    assert_int_equal(fclose(file), 0);
}

char *score_edits(const score_pairs *pairs)
{
    et_score *ter;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(et_ter_new(&ter, NULL, NULL), 0);
    for (size_t i = 0; i < pairs->count; i++) {
        et_score_clear(ter);
        assert_int_equal(et_score_add(ter, pairs->hypotheses[i], pairs->references[i], NULL), 0);
        const et_ter_counts *counts = &et_score_total(ter)->ter;
        fprintf(out, "%d %d\n", (int)counts->edits, (int)counts->ref_len);
    }
    et_score_free(ter);
    fclose(out);
    return text;
}

/* The last word is missing from every third line of the second output, and every seventh line of
 * the third is the reference. */
void score_outputs_make(score_outputs *outputs, const score_pairs *pairs)
{
    for (size_t o = 0; o < SCORE_OUTPUTS; o++) {
        outputs->lines[o] = malloc(pairs->count * sizeof(char *));
        assert_non_null(outputs->lines[o]);
        for (size_t i = 0; i < pairs->count; i++) {
            char *line =
                strdup(o == 1 && i % 41 == 7 ? pairs->references[i] : pairs->hypotheses[i]);
            assert_non_null(line);
            char *last = strrchr(line, ' ');
            if (last && ((o == 1 && i % 5 == 0) || (o == 2 && i % 50 == 0)))
                *last = 0;
            outputs->lines[o][i] = line;
        }
    }
}

void score_outputs_write(const score_outputs *outputs, const score_pairs *pairs, const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < pairs->count; i++)
        fprintf(file, "%s\t%s\t%s\t%s\n", pairs->references[i], outputs->lines[0][i],
                outputs->lines[1][i], outputs->lines[2][i]);
    assert_int_equal(fclose(file), 0);
}

void score_outputs_free(score_outputs *outputs, const score_pairs *pairs)
{
    for (size_t o = 0; o < SCORE_OUTPUTS; o++) {
        for (size_t i = 0; i < pairs->count; i++)
            free(outputs->lines[o][i]);
        free(outputs->lines[o]);
    }
}

/* score: freed here. */
static void put_bootstrap(FILE *out, et_score *score, const char *name,
                          const score_outputs *outputs, const score_pairs *pairs)
{
    const et_bootstrap bootstrap = { .samples = 1000, .seed = 12345 };
    et_bootstrap_result results[SCORE_OUTPUTS];
    et_score_counts *counts[SCORE_OUTPUTS];
    for (size_t o = 0; o < SCORE_OUTPUTS; o++) {
        counts[o] = malloc(pairs->count * sizeof *counts[o]);
        assert_non_null(counts[o]);
        for (size_t i = 0; i < pairs->count; i++)
            assert_int_equal(et_score_count(score, &counts[o][i], 1, outputs->lines[o][i],
                                            pairs->references[i], NULL),
                             0);
    }
    assert_int_equal(
        et_bootstrap_run(&bootstrap, score, counts, SCORE_OUTPUTS, pairs->count, results, NULL), 0);
    for (size_t o = 0; o < SCORE_OUTPUTS; o++) {
        fprintf(out, "%s %zu %.3f %.3f %.3f %.6f\n", name, o, results[o].real.score,
                results[o].mean, results[o].interval, results[o].p_value);
        free(counts[o]);
    }
    et_score_free(score);
}

char *score_bootstrap(const score_outputs *outputs, const score_pairs *pairs)
{
    et_score *score;
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    assert_int_equal(et_bleu_new(&score, NULL, NULL), 0);
    put_bootstrap(out, score, "BLEU", outputs, pairs);
    assert_int_equal(et_chrf_new(&score, NULL, NULL), 0);
    put_bootstrap(out, score, "chrF2", outputs, pairs);
    assert_int_equal(et_ter_new(&score, NULL, NULL), 0);
    put_bootstrap(out, score, "TER", outputs, pairs);
    fclose(out);
    return text;
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

/* score: freed here. */
static void put_corpus(FILE *out, const score_pairs *pairs, et_score *score)
{
    et_score_result result;
    char signature[ET_SCORE_TEXT_MAX], text[ET_SCORE_TEXT_MAX];
    assert_int_equal(et_score_add_corpus(score, (const char *const *)pairs->hypotheses,
                                         pairs->count, (const char *const *)pairs->references,
                                         pairs->count, NULL),
                     0);
    assert_int_equal(et_score_value(score, &result, NULL), 0);
    et_score_signature(score, signature);
    put_line(out, et_score_print(score, &result, 2, NULL, text));
    for (size_t i = 0; i < 3; i++)
        put_line(out, et_score_print(score, &result, widths[i], signature, text));
    et_score_free(score);
}

static void put_sentences(FILE *out, const score_pairs *pairs, size_t sentences)
{
    static const et_bleu_options options[] = {
        { .effective_order = true },
        { .tokens = ET_BLEU_TOKENS_NONE, .lowercase = true, .effective_order = true },
        { .smooth = ET_BLEU_SMOOTH_NONE, .effective_order = true },
    };
    enum { METRICS = 5 };
    et_score *metric[METRICS];
    char signature[ET_SCORE_TEXT_MAX], text[ET_SCORE_TEXT_MAX];
    for (size_t k = 0; k < 3; k++)
        assert_int_equal(et_bleu_new(&metric[k], &options[k], NULL), 0);
    assert_int_equal(et_chrf_new(&metric[3], NULL, NULL), 0);
    assert_int_equal(et_ter_new(&metric[4], NULL, NULL), 0);
    for (size_t i = 0; i < sentences && i < pairs->count; i++)
        for (size_t k = 0; k < METRICS; k++) {
            et_score_result result;
            assert_int_equal(et_score_sentence(metric[k], &result, pairs->hypotheses[i],
                                               pairs->references[i], NULL),
                             0);
            et_score_signature(metric[k], signature);
            put_line(out, et_score_print(metric[k], &result, 6, signature, text));
        }
    for (size_t k = 0; k < METRICS; k++)
        et_score_free(metric[k]);
}

char *score_lines(const score_pairs *pairs, size_t sentences)
{
    static const et_bleu_tokens tokens[] = { ET_BLEU_TOKENS_13A, ET_BLEU_TOKENS_NONE,
                                             ET_BLEU_TOKENS_CHAR };
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    et_score *score;
    for (size_t i = 0; i < 3; i++)
        for (int lower = 0; lower < 2; lower++) {
            const et_bleu_options options = { .tokens = tokens[i], .lowercase = lower };
            assert_int_equal(et_bleu_new(&score, &options, NULL), 0);
            put_corpus(out, pairs, score);
        }
    for (int lower = 0; lower < 2; lower++) {
        assert_int_equal(et_chrf_new(&score, &(et_chrf_options){ .lowercase = lower }, NULL), 0);
        put_corpus(out, pairs, score);
    }
    for (int cased = 0; cased < 2; cased++) {
        assert_int_equal(et_ter_new(&score, &(et_ter_options){ .case_sensitive = cased }, NULL), 0);
        put_corpus(out, pairs, score);
    }
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
