/* Sampled tokens: they give the same text, and the frequency of each segmentation is that of the
 * papers' algorithms, computed here for one word by enumerating all segmentations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "data/made_model.h"
#include "data/pairs_fixture.h"
#include "data/text/vocabulary/subwords.h"
#include "data/text/vocabulary/vocabulary_check.h"

#define ROOM  512
#define DRAWS 40000

typedef struct trained {
    et_vocabulary *vocabulary;
    et_subwords *subwords;
    parallel text;
} trained;

static void open_trained(trained *t, fixture *f, int kind, int size, double rate)
{
    et_error error = ET_ERROR_INIT;
    parallel_write(&t->text, f, 400, 9);
    t->vocabulary = train_vocabulary(&t->text.paths, kind, size);
    if (et_subwords_open(&t->subwords, t->vocabulary, rate, &error))
        fail_msg("%s", error.text);
}

static void close_trained(trained *t)
{
    et_subwords_close(t->subwords);
    et_vocabulary_close(t->vocabulary);
}

static et_random sentence(uint64_t number)
{
    return (et_random){ .seed = 5, .step = number, .site = 11 };
}

/* ---- the same text ---- */

typedef struct counts {
    int64_t encoded, drawn, other; /* tokens, tokens, lines that were cut otherwise */
} counts;

static void check_line(const trained *t, const et_tokens *tokens, uint64_t line, counts *counted)
{
    int32_t drawn[ROOM], again[ROOM];
    et_strbuf before = ET_STRBUF_INIT, after = ET_STRBUF_INIT;
    size_t count =
        et_subwords_draw(t->subwords, sentence(line), tokens->ids, tokens->count, drawn, ROOM);
    assert_in_range(count, 1, ROOM);
    assert_int_equal(et_vocabulary_decode(t->vocabulary, tokens->ids, tokens->count, &before, NULL),
                     ET_OK);
    assert_int_equal(et_vocabulary_decode(t->vocabulary, drawn, count, &after, NULL), ET_OK);
    assert_string_equal(after.data, before.data);
    et_strbuf_release(&before);
    et_strbuf_release(&after);
    /* Exactly enough room is enough, less is not. */
    assert_int_equal(
        et_subwords_draw(t->subwords, sentence(line), tokens->ids, tokens->count, again, count),
        count);
    assert_memory_equal(again, drawn, count * sizeof *drawn);
    assert_int_equal(
        et_subwords_draw(t->subwords, sentence(line), tokens->ids, tokens->count, again, count - 1),
        0);
    counted->encoded += (int64_t)tokens->count;
    counted->drawn += (int64_t)count;
    counted->other += count != tokens->count || memcmp(drawn, tokens->ids, count * sizeof *drawn);
}

static counts check_lines(const trained *t)
{
    et_corpus *corpus;
    et_tokens tokens = ET_TOKENS_INIT;
    const char *text;
    size_t length;
    counts counted = { 0, 0, 0 };
    assert_int_equal(et_corpus_open(&corpus, &t->text.paths, NULL), ET_OK);
    for (uint64_t line = 0; !et_corpus_next_line(corpus, &text, &length, NULL) && text; line++) {
        assert_int_equal(et_vocabulary_encode(t->vocabulary, text, length, &tokens, NULL), ET_OK);
        check_line(t, &tokens, line, &counted);
    }
    et_corpus_close(corpus);
    et_tokens_release(&tokens);
    return counted;
}

static void test_subwords__same_text(void **state)
{
    const struct {
        int kind;
        double rate;
    } rows[] = { { ET_VOCABULARY_BPE, 0.1 },
                 { ET_VOCABULARY_BPE, 0.9 },
                 { ET_VOCABULARY_UNIGRAM, 0.1 },
                 { ET_VOCABULARY_UNIGRAM, 0.5 } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        trained t;
        open_trained(&t, *state, rows[i].kind, 200, rows[i].rate);
        counts counted = check_lines(&t);
        assert_in_range(counted.other, 100, 800); /* of 800 lines */
        assert_true(counted.drawn > counted.encoded);
        close_trained(&t);
    }
}

/* With no skipped merges, the tokens are SentencePiece's; so they are with a power that leaves only
 * the likeliest segmentation. */
static void test_subwords__as_encoded(void **state)
{
    trained t;
    open_trained(&t, *state, ET_VOCABULARY_BPE, 200, 0);
    assert_int_equal(check_lines(&t).other, 0);
    close_trained(&t);
    open_trained(&t, *state, ET_VOCABULARY_UNIGRAM, 200, 1e5);
    assert_true(check_lines(&t).other <= 8); /* of 800: ways that weigh the same */
    close_trained(&t);
}

/* ---- how often ---- */

typedef struct way {
    int32_t ids[16];
    int count;
    double probability;
    int seen;
} way;

typedef struct ways {
    const et_vocabulary *vocabulary;
    float score[1024];
    way items[4096];
    int count;
} ways;

static int32_t id_of(const ways *all, const char *text)
{
    for (int32_t id = 3; id < et_vocabulary_size(all->vocabulary); id++)
        if (!strcmp(et_vocabulary_token(all->vocabulary, id), text))
            return id;
    return -1;
}

static way *find_way(ways *all, const int32_t *ids, int count)
{
    for (int i = 0; i < all->count; i++)
        if (all->items[i].count == count &&
            !memcmp(all->items[i].ids, ids, (size_t)count * sizeof *ids))
            return &all->items[i];
    assert_in_range(all->count, 0, 4095);
    way *made = &all->items[all->count++];
    made->count = count;
    memcpy(made->ids, ids, (size_t)count * sizeof *ids);
    return made;
}

static int32_t joined(const ways *all, int32_t left, int32_t right)
{
    char text[128];
    snprintf(text, sizeof text, "%s%s", et_vocabulary_token(all->vocabulary, left),
             et_vocabulary_token(all->vocabulary, right));
    return id_of(all, text);
}

/* Algorithm 1: of the merges that there are, by score, the first that is not left out. */
static void add_merges(ways *all, const int32_t *ids, int count, double dropout, double probability)
{
    bool tried[16] = { false };
    if (probability < 1e-7)
        return;
    for (double left = probability;; left *= dropout) {
        int best = -1;
        int32_t best_id = -1;
        for (int i = 0; i + 1 < count; i++) {
            int32_t id = tried[i] ? -1 : joined(all, ids[i], ids[i + 1]);
            if (id >= 0 && (best < 0 || all->score[id] > all->score[best_id])) {
                best = i;
                best_id = id;
            }
        }
        if (best < 0) {
            find_way(all, ids, count)->probability += left;
            return;
        }
        int32_t next[16];
        memcpy(next, ids, (size_t)count * sizeof *ids);
        next[best] = best_id;
        memmove(next + best + 1, next + best + 2, (size_t)(count - best - 2) * sizeof *next);
        add_merges(all, next, count - 1, dropout, left * (1 - dropout));
        tried[best] = true;
    }
}

/* All ways to cut text, each by its probability to the power of alpha, not yet divided. */
static void add_cuts(ways *all, const char *text, int32_t *ids, int count, double alpha, double log)
{
    char start[128];
    if (!*text) {
        find_way(all, ids, count)->probability = exp(log);
        return;
    }
    for (size_t length = 1; length <= strlen(text) && count < 16; length++) {
        snprintf(start, sizeof start, "%.*s", (int)length, text);
        ids[count] = id_of(all, start);
        if (ids[count] >= 0)
            add_cuts(all, text + length, ids, count + 1, alpha,
                     log + alpha * (double)all->score[ids[count]]);
    }
}

static void open_ways(ways *all, const trained *t)
{
    size_t length, at = 0;
    const char *bytes = et_vocabulary_bytes(t->vocabulary, &length);
    et_vocabulary_piece piece;
    *all = (ways){ .vocabulary = t->vocabulary };
    for (int32_t id = 0; et_vocabulary_next_piece(bytes, length, &at, &piece); id++) {
        const char *text = et_vocabulary_token(t->vocabulary, id);
        assert_int_equal(piece.length, strlen(text));
        assert_memory_equal(piece.text, text, piece.length);
        assert_int_equal(piece.type, id == 2 ? UNKNOWN : id < 2 ? CONTROL : NORMAL);
        all->score[id] = piece.score;
    }
}

/* Each way is drawn as often as its probability says, within five deviations, and no other. */
static void compare_draws(ways *all, const trained *t, const et_tokens *tokens)
{
    double sum = 0;
    int likely = 0;
    for (int i = 0; i < all->count; i++)
        sum += all->items[i].probability;
    const int known = all->count;
    for (uint64_t n = 0; n < DRAWS; n++) {
        int32_t drawn[ROOM];
        size_t count =
            et_subwords_draw(t->subwords, sentence(n), tokens->ids, tokens->count, drawn, ROOM);
        find_way(all, drawn, (int)count)->seen++;
    }
    for (int i = 0; i < all->count; i++) {
        double p = all->items[i].probability / sum;
        double off = fabs(all->items[i].seen - p * DRAWS);
        if (off > 5 * sqrt(DRAWS * p * (1 - p)) + 3)
            fail_msg("way %d of %d: seen %d of %d, probability %g", i, all->count,
                     all->items[i].seen, DRAWS, p);
        likely += p > 0.01;
    }
    assert_true(all->count - known <= 3);
    assert_true(likely >= 3);
}

static void test_subwords__dropout_by_the_book(void **state)
{
    trained t;
    et_tokens tokens = ET_TOKENS_INIT;
    ways *all = calloc(1, sizeof *all);
    open_trained(&t, *state, ET_VOCABULARY_BPE, 150, 0.3);
    open_ways(all, &t);
    assert_int_equal(et_vocabulary_encode(t.vocabulary, "tamenka", 7, &tokens, NULL), ET_OK);
    const char *const characters[] = { "\xe2\x96\x81", "t", "a", "m", "e", "n", "k", "a" };
    int32_t ids[8];
    for (int i = 0; i < 8; i++)
        assert_true((ids[i] = id_of(all, characters[i])) >= 0);
    add_merges(all, ids, 8, 0.3, 1);
    compare_draws(all, &t, &tokens);
    free(all);
    et_tokens_release(&tokens);
    close_trained(&t);
}

static void test_subwords__unigram_by_the_book(void **state)
{
    trained t;
    et_tokens tokens = ET_TOKENS_INIT;
    ways *all = calloc(1, sizeof *all);
    int32_t ids[16];
    open_trained(&t, *state, ET_VOCABULARY_UNIGRAM, 150, 0.03);
    open_ways(all, &t);
    assert_int_equal(et_vocabulary_encode(t.vocabulary, "tamenka", 7, &tokens, NULL), ET_OK);
    add_cuts(all, "\xe2\x96\x81tamenka", ids, 0, 0.03, 0);
    compare_draws(all, &t, &tokens);
    free(all);
    et_tokens_release(&tokens);
    close_trained(&t);
}

/* ---- what stays ---- */

static const token made_tokens[] = { { "<unk>", UNKNOWN }, { "</s>", CONTROL },
                                     { "a", NORMAL },      { "b", NORMAL },
                                     { "ab", NORMAL },     { "<x>", USER_DEFINED },
                                     { "ac", NORMAL },     { NULL, 0 } };

/* A symbol is neither split nor merged, and neither is a word with a character that is not a token
 * ("c"). */
static void test_subwords__symbols_stay(void **state)
{
    (void)state;
    et_strbuf model = ET_STRBUF_INIT;
    et_vocabulary *vocabulary;
    et_subwords *subwords;
    const int32_t ids[] = { 0, 2, 5, 3, 6, 0, 3 };
    int32_t out[ROOM];
    put_model(&model, made_tokens, NULL, "</s>", NULL);
    assert_int_equal(et_vocabulary_parse(&vocabulary, model.data, model.length, "made", NULL),
                     ET_OK);
    assert_int_equal(et_subwords_open(&subwords, vocabulary, 0, NULL), ET_OK);
    assert_int_equal(et_subwords_draw(subwords, sentence(0), ids, 7, out, ROOM), 7);
    assert_memory_equal(out, ids, sizeof ids);
    const int32_t cut[] = { 2, 3, 0 }, whole[] = { 4, 0 };
    assert_int_equal(et_subwords_draw(subwords, sentence(0), cut, 3, out, ROOM), 2);
    assert_memory_equal(out, whole, sizeof whole);
    et_subwords_close(subwords);
    et_vocabulary_close(vocabulary);
    et_strbuf_release(&model);
}

/* One of 256 bytes is cut, one of 257 is not. */
static void test_subwords__long_words(void **state)
{
    (void)state;
    et_strbuf model = ET_STRBUF_INIT;
    et_vocabulary *vocabulary;
    et_subwords *subwords;
    int32_t ids[257], out[ROOM];
    put_model(&model, made_tokens, NULL, "</s>", NULL);
    assert_int_equal(et_vocabulary_parse(&vocabulary, model.data, model.length, "made", NULL),
                     ET_OK);
    assert_int_equal(et_subwords_open(&subwords, vocabulary, 0, NULL), ET_OK);
    for (int i = 0; i < 257; i++)
        ids[i] = 2 + i % 2; /* a b a b, which is ab ab */
    assert_int_equal(et_subwords_draw(subwords, sentence(0), ids, 256, out, ROOM), 128);
    assert_int_equal(et_subwords_draw(subwords, sentence(0), ids, 257, out, ROOM), 257);
    assert_memory_equal(out, ids, sizeof ids);
    et_subwords_close(subwords);
    et_vocabulary_close(vocabulary);
    et_strbuf_release(&model);
}

static void test_subwords__refused(void **state)
{
    const struct {
        int kind;
        double rate;
        const char *says;
    } rows[] = { { ET_VOCABULARY_BPE, 1, "for BPE give at least 0 and less than 1" },
                 { ET_VOCABULARY_BPE, -0.1, "for BPE give at least 0 and less than 1" },
                 { ET_VOCABULARY_BPE, NAN, "for BPE give at least 0 and less than 1" },
                 { ET_VOCABULARY_UNIGRAM, 0, "for unigram give more than 0" },
                 { ET_VOCABULARY_UNIGRAM, INFINITY, "for unigram give more than 0" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        et_error error = ET_ERROR_INIT;
        et_subwords *none = (et_subwords *)&error;
        trained t;
        open_trained(&t, *state, rows[i].kind, 150, 0.5);
        assert_int_equal(et_subwords_open(&none, t.vocabulary, rows[i].rate, &error), ET_ECONFIG);
        assert_null(none);
        assert_contains(error.text, rows[i].says);
        close_trained(&t);
    }
}

/* ---- pairs ---- */

static et_source *open_drawn(const trained *t, const et_encoded *encoded, uint64_t seed,
                             int64_t most)
{
    et_error error = ET_ERROR_INIT;
    et_samples *samples;
    et_source *source = NULL;
    et_batches_options options = { .seed = 3, .shuffle = true, .bucket = true, .repeat = true };
    const et_pairs_drawing drawing = { t->subwords, t->subwords, seed, most };
    options.capacity[ET_PAIR_SEGMENTS] = 40;
    options.capacity[ET_PAIR_SOURCE] = options.capacity[ET_PAIR_TARGET] = 300;
    if (et_drawn_pairs_open(&samples, encoded, &drawing, &error) ||
        et_batches_open(&source, samples, &options, &error))
        fail_msg("%s", error.text);
    return source;
}

/* A batch's sentences, whatever their tokens, are the texts of their pairs. */
static void check_texts(const trained *t, const et_encoded *encoded, const et_batch *batch)
{
    for (int i = 0; i < batch->filled[0]; i++)
        for (int target = 0; target < 2; target++) {
            const int32_t *offsets =
                ints(batch, target ? ET_PAIR_TARGET_OFFSETS : ET_PAIR_SOURCE_OFFSETS) + i;
            const int32_t *ids = ints(batch, target ? ET_PAIR_TARGET_LABELS : ET_PAIR_SOURCE_IDS);
            et_strbuf got = ET_STRBUF_INIT, want = ET_STRBUF_INIT;
            int32_t own[ROOM];
            int64_t pair = batch->sample[i], length = target
                                                          ? et_encoded_target_length(encoded, pair)
                                                          : et_encoded_source_length(encoded, pair);
            et_encoded_ids(encoded, pair, target, own);
            assert_int_equal(ids[offsets[1] - 1], encoded->eos[target]);
            et_vocabulary_decode(t->vocabulary, ids + offsets[0], (size_t)(offsets[1] - offsets[0]),
                                 &got, NULL);
            et_vocabulary_decode(t->vocabulary, own, (size_t)length, &want, NULL);
            assert_string_equal(got.data, want.data);
            et_strbuf_release(&got);
            et_strbuf_release(&want);
        }
}

#define BATCHES 60

static void test_subwords__pairs(void **state)
{
    trained t;
    et_encoded *encoded;
    const et_encoded_options options = ET_ENCODED_OPTIONS_INIT;
    const pair_shape shape = { 300, 300, 40 };
    et_batch *batch;
    uint64_t digests[BATCHES];
    et_position middle = { 0 };
    open_trained(&t, *state, ET_VOCABULARY_BPE, 200, 0.2);
    const et_sides sides = { .source = t.vocabulary, .target = t.vocabulary };
    assert_int_equal(et_encoded_open(&encoded, &t.text.paths, sides, &options, NULL, NULL), ET_OK);
    et_source *source = open_drawn(&t, encoded, 1, 64);
    open_batch(&batch, &shape);
    for (int i = 0; i < BATCHES; i++) {
        if (i == BATCHES / 2)
            et_source_position(source, &middle);
        next_batch(source, batch);
        check_texts(&t, encoded, batch);
        digests[i] = batch_digest(batch);
    }
    assert_true(batch->epoch > 0); /* more than one pass was seen */
    et_source_close(source);
    source = open_drawn(&t, encoded, 1, 64);
    assert_int_equal(et_source_seek(source, &middle, NULL), ET_OK);
    for (int i = BATCHES / 2; i < BATCHES; i++) {
        next_batch(source, batch);
        assert_int_equal(batch_digest(batch), digests[i]);
    }
    et_source_close(source);
    source = open_drawn(&t, encoded, 2, 64);
    assert_int_equal(et_source_seek(source, &middle, NULL), ET_EDATA);
    et_source_close(source);
    et_batch_free(batch);
    et_encoded_close(encoded);
    close_trained(&t);
}

/* The same pair in two passes has other tokens; none is longer than most. */
static void test_subwords__passes(void **state)
{
    trained t;
    et_encoded *encoded;
    const et_encoded_options options = ET_ENCODED_OPTIONS_INIT;
    et_samples *samples;
    open_trained(&t, *state, ET_VOCABULARY_UNIGRAM, 200, 0.1);
    const et_sides sides = { .source = t.vocabulary, .target = t.vocabulary };
    assert_int_equal(et_encoded_open(&encoded, &t.text.paths, sides, &options, NULL, NULL), ET_OK);
    const int64_t longest = encoded->sizes.longest_source > encoded->sizes.longest_target
                                ? encoded->sizes.longest_source
                                : encoded->sizes.longest_target;
    const et_pairs_drawing drawing = { NULL, t.subwords, 1, longest };
    assert_int_equal(et_drawn_pairs_open(&samples, encoded, &drawing, NULL), ET_OK);
    int differ = 0, stay = 0;
    for (uint32_t pair = 0; pair < 300; pair++) {
        int32_t of[2][ET_PAIR_KINDS];
        for (int64_t pass = 0; pass < 2; pass++) {
            int32_t *sizes[] = { NULL, &of[pass][1], &of[pass][2] };
            samples->class->sizes(samples, (et_pick){ &pair, 1, pass }, sizes);
            assert_int_equal(of[pass][ET_PAIR_SOURCE], et_encoded_source_length(encoded, pair));
            assert_in_range(of[pass][ET_PAIR_TARGET], 2, longest);
        }
        differ += of[0][ET_PAIR_TARGET] != of[1][ET_PAIR_TARGET];
        stay += of[0][ET_PAIR_TARGET] == et_encoded_target_length(encoded, pair);
    }
    assert_true(differ > 100);
    assert_true(stay > 0);
    et_samples_close(samples);
    et_encoded_close(encoded);
    close_trained(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_subwords__same_text, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_subwords__as_encoded, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_subwords__dropout_by_the_book, fixture_open,
                                        fixture_close),
        cmocka_unit_test_setup_teardown(test_subwords__unigram_by_the_book, fixture_open,
                                        fixture_close),
        cmocka_unit_test(test_subwords__symbols_stay),
        cmocka_unit_test(test_subwords__long_words),
        cmocka_unit_test_setup_teardown(test_subwords__refused, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_subwords__pairs, fixture_open, fixture_close),
        cmocka_unit_test_setup_teardown(test_subwords__passes, fixture_open, fixture_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
