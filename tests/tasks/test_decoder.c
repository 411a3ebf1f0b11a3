/* Batched decoding: a sentence's result does not depend on its company. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <string.h>

#include <etude/layers.h>

#include "base/arena.h"
#include "engine/exec/plan.h"
#include "engine/graph/build.h"
#include "engine/tensor/params.h"
#include "formats/files.h"
#include "formats/marian_samples.h"
#include "tasks/translation/decoding/decoder.h"

static const et_beam_options at_06 = { .alpha = 0.6 };

#define TOKENS    12
#define SENTENCES 23
#define LONGEST   9
#define EOS       1

typedef struct fixture {
    et_params *params;
    et_device *device;
    et_transformer model;
    et_dtype act;
    bool int8;
    double alpha;
    int64_t max_length;         /* 0: source + 6 */
    double length_factor;       /* 0: not used */
    et_sampling_options choice; /* how tokens are chosen */
    int results;                /* of a sentence; 0: 1 */
    et_lexicon *lexicon;        /* NULL: all tokens */
} fixture;

static et_transformer small_model(bool norm_first, bool ssru)
{
    et_transformer_stack decoder;
    et_transformer_stack stack = { .num_layers = 2,
                                   .num_attention_heads = 2,
                                   .intermediate_size = 40,
                                   .activation = ET_ACTIVATION_RELU,
                                   .use_bias = true,
                                   .norm_first = norm_first,
                                   .final_norm = norm_first,
                                   .norm_epsilon = 1e-6f };
    decoder = stack;
    decoder.ssru = ssru;
    return (et_transformer){ .encoder = stack,
                             .decoder = decoder,
                             .source = { "embedding", TOKENS },
                             .target = { "embedding", TOKENS },
                             .output = { "embedding", TOKENS },
                             .width = 32,
                             .max_positions = 64 };
}

static void open_fixture_of(fixture *f, bool norm_first, bool ssru, et_dtype act, bool int8)
{
    et_error error = ET_ERROR_INIT;
    et_graph *graph;
    f->model = small_model(norm_first, ssru);
    f->act = act;
    f->int8 = int8;
    f->alpha = 0.6;
    f->max_length = 0;
    f->length_factor = 0;
    f->choice = (et_sampling_options){ 0 };
    f->results = 0;
    f->lexicon = NULL;
    assert_int_equal(et_params_new(&f->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, f->params, NULL, &error), ET_OK);
    et_transformer_train(et_graph_scope(graph), &f->model, 64, 64, 4);
    if (et_graph_finish(graph, &error))
        fail_msg("%s", error.text);
    et_graph_free(graph);
    assert_int_equal(et_params_materialize(f->params, act == ET_BF16, &error), ET_OK);
    et_init_draw(f->params, 3);
    assert_int_equal(et_device_open(&f->device, &error), ET_OK);
    /* larger weights make distributions that differ from sentence to sentence */
    float *values = et_params_values(f->params);
    for (int64_t i = 0; i < et_params_flat_size(f->params); i++)
        values[i] *= 1.7f;
    et_params_begin_change(f->params);
    et_params_changed(f->params, true);
}

static void open_fixture(fixture *f, bool norm_first, et_dtype act, bool int8)
{
    open_fixture_of(f, norm_first, false, act, int8);
}

static void close_fixture(fixture *f)
{
    et_lexicon_close(f->lexicon);
    et_params_free(f->params);
    et_device_close(f->device);
}

/* Sentence s: 1 to LONGEST tokens and EOS. */
static int64_t source_of(int s, int32_t *ids)
{
    int length = 1 + (5 * s) % LONGEST;
    for (int i = 0; i < length; i++)
        ids[i] = 2 + (s * 31 + i * 17) % (TOKENS - 2);
    ids[length] = EOS;
    return length + 1;
}

typedef struct outcome {
    int32_t ids[SENTENCES][256];
    int count[SENTENCES], results[SENTENCES], tokens[SENTENCES]; /* of the best; of all together */
    float score[SENTENCES], log_p[SENTENCES], sum[SENTENCES];
    int each[SENTENCES][8]; /* of each result: tokens and log p */
    float each_log_p[SENTENCES][8];
} outcome;

/* All results of a sentence in one array, so that any difference is seen. */
static void keep(const et_decoder_sentence *sentence, int s, outcome *out)
{
    out->count[s] = sentence->results[0].count;
    out->score[s] = sentence->results[0].score;
    out->log_p[s] = sentence->results[0].log_p;
    out->results[s] = sentence->count;
    for (int i = 0, at = 0; i < sentence->count; i++) {
        const et_decoder_result *result = &sentence->results[i];
        assert_true(at + result->count < 256);
        memcpy(out->ids[s] + at, result->ids, (size_t)result->count * sizeof(int32_t));
        at += result->count;
        out->tokens[s] = at;
        out->each[s][i] = result->count;
        out->each_log_p[s][i] = result->log_p;
        out->sum[s] += result->score;
        if (i)
            assert_true(result->score <= sentence->results[i - 1].score);
    }
}

static et_decoder_options options_of(const fixture *f, int beam, int group)
{
    return (et_decoder_options){
        .beam = { .size = beam, .alpha = f->alpha, .eos = EOS, .results = f->results },
        .choice = f->choice,
        .lexicon = f->lexicon,
        .start = 0,
        .max_length = f->max_length,
        .length_factor = f->length_factor,
        .extra_length = 6,
        .sentences = group,
        .act = f->act,
        .int8 = f->int8
    };
}

/* Decodes sentences first, first + step, ... in groups of `group`. */
static void decode(const fixture *f, int beam, int group, int first, int step, outcome *out)
{
    et_error error = ET_ERROR_INIT;
    et_decoder *decoder;
    et_arena arena = ET_ARENA_INIT;
    static int32_t ids[SENTENCES][LONGEST + 1];
    et_decoder_sentence sentences[SENTENCES];
    int64_t count = 0;
    for (int s = first; s < SENTENCES; s += step)
        out->sum[s] = 0;
    const et_decoder_options options = options_of(f, beam, group);
    for (int s = first; s < SENTENCES; s += step)
        sentences[count++] = (et_decoder_sentence){ .source = ids[s],
                                                    .length = source_of(s, ids[s]),
                                                    .number = (uint64_t)s };
    assert_int_equal(et_decoder_new(&decoder, f->params, f->device, &f->model, &options, &error),
                     ET_OK);
    if (et_decoder_run(decoder, sentences, count, &arena, NULL, NULL, &error))
        fail_msg("%s", error.text);
    count = 0;
    for (int s = first; s < SENTENCES; s += step, count++) {
        keep(&sentences[count], s, out);
    }
    et_decoder_free(decoder);
    et_arena_release(&arena);
}

static void assert_same(const outcome *a, const outcome *b)
{
    for (int s = 0; s < SENTENCES; s++) {
        assert_int_equal(a->count[s], b->count[s]);
        assert_int_equal(a->results[s], b->results[s]);
        assert_int_equal(a->tokens[s], b->tokens[s]);
        assert_memory_equal(a->ids[s], b->ids[s], (size_t)a->tokens[s] * sizeof(int32_t));
        assert_memory_equal(&a->score[s], &b->score[s], sizeof(float));
        assert_memory_equal(&a->log_p[s], &b->log_p[s], sizeof(float));
        assert_memory_equal(&a->sum[s], &b->sum[s], sizeof(float));
    }
}

/* How tokens are chosen, with how many results. */
typedef struct way {
    et_dtype act;
    bool int8;
    int beam, results;
    et_sampling_options choice;
    bool ssru, listed;
} way;

/* Tokens 0 to 2 may always come, and the others by fifths. */
static bool gives_some(int s, int t)
{
    return t > 2 && s % 5 == t % 5;
}

static bool gives_all(int s, int t)
{
    (void)s, (void)t;
    return true;
}

static et_lexicon *lexicon_of(sample_gives_fn *gives)
{
    et_lexicon *lexicon;
    size_t length;
    char *file = make_lexicon(3, TOKENS, TOKENS, gives, &length);
    assert_ok(et_lexicon_open(&lexicon, file, length, TOKENS, TOKENS, "lexicon", error));
    return lexicon;
}

static void open_way(fixture *f, const way *w)
{
    open_fixture_of(f, true, w->ssru, w->act, w->int8);
    f->choice = w->choice;
    if (w->listed)
        f->lexicon = lexicon_of(gives_some);
    f->results = w->results;
}

static void check_company(const way *w)
{
    fixture f;
    static outcome all, alone;
    const int beam = w->beam;
    open_way(&f, w);
    decode(&f, beam, 8, 0, 1, &all);
    const int groups[] = { 1, 3, SENTENCES, 40 };
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        decode(&f, beam, groups[i], 0, 1, &alone);
        assert_same(&all, &alone);
    }
    for (int first = 0; first < 4; first++) /* other company */
        decode(&f, beam, 8, first, 4, &alone);
    assert_same(&all, &alone);
    int most = omp_get_max_threads();
    for (int threads = 1; threads <= 3; threads++) {
        omp_set_num_threads(threads);
        fixture g;
        open_way(&g, w);
        decode(&g, beam, 8, 0, 1, &alone);
        assert_same(&all, &alone);
        close_fixture(&g);
    }
    omp_set_num_threads(most);
    close_fixture(&f);
}

static void test_decoder__company_changes_nothing(void **state)
{
    (void)state;
    static const int32_t first[] = { 3, 5, 8 };
    static const way ways[] = {
        { ET_F32, false, 4, 0, { 0 }, false, false },
        { ET_F32, false, 1, 0, { 0 }, false, false },
        { ET_F32, true, 4, 0, { 0 }, false, false },
        { ET_F32, true, 1, 0, { 0 }, false, false },
        { ET_BF16, false, 5, 0, { 0 }, false, false },
        { ET_F32, false, 4, 4, { 0 }, false, false },
        { ET_F32, false, 4, 3, { .noise = 0.7, .seed = 3 }, false, false },
        { ET_BF16, false, 4, 2, { .noise = 0.7, .seed = 3 }, false, false },
        { ET_F32, false, 4, 0, { .first = first, .first_count = 3 }, false, false },
        { ET_F32, false, 3, 3, { .sampling = true, .seed = 1 }, false, false },
        { ET_F32,
          true,
          3,
          3,
          { .sampling = true, .seed = 1, .top_k = 5, .temperature = 2 },
          false,
          false },
        { ET_BF16, false, 2, 2, { .sampling = true, .seed = 1, .top_p = 0.8 }, false, false },
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        check_company(&ways[i]);
}

static void test_decoder__company_of_recurrences_and_lists(void **state)
{
    (void)state;
    static const way ways[] = {
        { .act = ET_F32, .beam = 4, .ssru = true },
        { .act = ET_BF16, .beam = 1, .ssru = true },
        { .act = ET_F32, .int8 = true, .beam = 4, .ssru = true, .listed = true },
        { .act = ET_BF16, .beam = 4, .results = 4, .ssru = true, .listed = true },
        { .act = ET_F32, .beam = 1, .listed = true },
        { .act = ET_F32,
          .beam = 3,
          .results = 3,
          .choice = { .sampling = true, .seed = 1, .top_k = 4 },
          .listed = true },
    };
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        check_company(&ways[i]);
}

/* Some sentences are not wanted any more after so many steps. */
typedef struct ending {
    atomic_bool ended;
    int steps, after;
} ending;

static bool end_some(void *payload, int64_t done)
{
    ending *e = payload;
    (void)done;
    if (++e->steps >= e->after)
        atomic_store(&e->ended, true);
    return false;
}

/* Sentences that ended have the usual result if they were decoded before, or none. Returns the
 * number without a result.
 */
static int check_ended(et_decoder *decoder, int after, const outcome *all)
{
    static int32_t ids[SENTENCES][LONGEST + 1];
    static outcome some;
    et_decoder_sentence sentences[SENTENCES];
    et_arena arena = ET_ARENA_INIT;
    et_error error = ET_ERROR_INIT;
    ending e = { .ended = after == 0, .after = after };
    int left = 0;
    some = *all;
    for (int s = 0; s < SENTENCES; s++)
        sentences[s] = (et_decoder_sentence){ .source = ids[s],
                                              .length = source_of(s, ids[s]),
                                              .number = (uint64_t)s,
                                              .ended = s % 3 ? &e.ended : NULL };
    if (et_decoder_run(decoder, sentences, SENTENCES, &arena, end_some, &e, &error))
        fail_msg("%s", error.text);
    for (int s = 0; s < SENTENCES; s++) {
        some.sum[s] = sentences[s].count ? 0 : all->sum[s];
        left += !sentences[s].count;
        if (s % 3 == 0)
            assert_true(sentences[s].count > 0);
        if (sentences[s].count)
            keep(&sentences[s], s, &some);
    }
    assert_same(&some, all);
    et_arena_release(&arena);
    return left;
}

static void test_decoder__ended(void **state)
{
    (void)state;
    static outcome all;
    et_error error = ET_ERROR_INIT;
    et_decoder *decoder;
    fixture f;
    const int threads = omp_get_max_threads();
    int left = 0;
    open_fixture(&f, true, ET_F32, false);
    for (int group = 1; group <= 24; group += 23) {
        const et_decoder_options options = options_of(&f, 3, group);
        decode(&f, 3, group, 0, 1, &all);
        assert_int_equal(et_decoder_new(&decoder, f.params, f.device, &f.model, &options, &error),
                         ET_OK);
        const int wanted = SENTENCES - (SENTENCES + 2) / 3;
        for (int many = 0; many < 2; many++) {
            omp_set_num_threads(many ? threads : 1);
            assert_int_equal(check_ended(decoder, 0, &all), wanted);
            for (int after = 1; after < 4; after++)
                left += check_ended(decoder, after, &all);
            assert_int_equal(check_ended(decoder, 100000, &all), 0);
        }
        assert_true(left > 0);
        et_decoder_free(decoder);
    }
    close_fixture(&f);
}

/* Logits that are not finite have no best token, and none can be sampled. */
static void test_decoder__not_finite(void **state)
{
    (void)state;
    static const int32_t first[] = { 3 }, target[] = { 3, EOS };
    static const way ways[] = {
        { ET_F32, false, 4, 0, { 0 }, false, false },
        { ET_BF16, false, 1, 0, { 0 }, false, false },
        { ET_F32, false, 4, 4, { .noise = 0.7 }, false, false },
        { ET_F32, false, 2, 0, { .first = first, .first_count = 1 }, false, false },
        { ET_F32, false, 3, 3, { .sampling = true, .top_p = 0.5 }, false, false },
        { ET_F32, false, 1, 1, { .sampling = true, .top_k = 2 }, false, false },
    };
    for (size_t i = 0; i < 2 * (sizeof ways / sizeof ways[0]); i++) {
        const way *w = &ways[i / 2];
        fixture f;
        et_error error = ET_ERROR_INIT;
        et_decoder *decoder;
        et_arena arena = ET_ARENA_INIT;
        int32_t ids[LONGEST + 1];
        et_decoder_sentence sentence = { .source = ids, .length = source_of(1, ids) };
        bool forced = i % 2 && w->beam == 1 && w->choice.sampling;
        if (forced) {
            sentence.forced = target;
            sentence.forced_length = 2;
        }
        open_way(&f, w);
        et_decoder_options options = {
            .beam = { .size = w->beam, .alpha = 0.6, .eos = EOS, .results = w->results },
            .choice = forced ? (et_sampling_options){ 0 } : w->choice,
            .forced = forced,
            .max_length = forced ? 2 : 0,
            .extra_length = 6,
            .sentences = 2,
            .act = w->act,
        };
        et_params_begin_change(f.params);
        for (int64_t k = 0; k < et_params_flat_size(f.params); k++)
            et_params_values(f.params)[k] = i % 2 ? INFINITY : NAN;
        et_params_changed(f.params, true);
        assert_int_equal(et_decoder_new(&decoder, f.params, f.device, &f.model, &options, &error),
                         ET_OK);
        assert_int_equal(et_decoder_run(decoder, &sentence, 1, &arena, NULL, NULL, &error),
                         ET_EDIVERGED);
        assert_non_null(strstr(error.text, "logits are not finite"));
        et_decoder_free(decoder);
        et_arena_release(&arena);
        close_fixture(&f);
    }
}

/* Several results: the first is the result of a search for one, all differ, and each has its log p.
 */
static void test_decoder__several_results(void **state)
{
    (void)state;
    fixture f;
    static outcome one, four;
    int several = 0;
    open_fixture(&f, true, ET_F32, false);
    decode(&f, 4, 8, 0, 1, &one);
    f.results = 4;
    decode(&f, 4, 8, 0, 1, &four);
    for (int s = 0; s < SENTENCES; s++) {
        assert_int_equal(one.count[s], four.count[s]);
        assert_memory_equal(one.ids[s], four.ids[s], (size_t)one.count[s] * sizeof(int32_t));
        assert_true(one.score[s] == four.score[s]);
        assert_in_range(four.results[s], 1, 4);
        several += four.results[s] > 1;
    }
    assert_true(several > SENTENCES / 2);
    close_fixture(&f);
}

/* Reading all logits gives the same as reading the likeliest tokens: a choice of one more token
 * than there are is no constraint. */
static void test_decoder__logits_agree(void **state)
{
    (void)state;
    int32_t any[TOKENS];
    fixture f;
    static outcome likeliest, all;
    open_fixture(&f, true, ET_F32, false);
    decode(&f, 4, 8, 0, 1, &likeliest);
    for (int i = 0; i < TOKENS; i++)
        any[i] = i;
    f.choice = (et_sampling_options){ .first = any, .first_count = TOKENS };
    decode(&f, 4, 8, 0, 1, &all);
    for (int s = 0; s < SENTENCES; s++) {
        assert_int_equal(likeliest.count[s], all.count[s]);
        assert_memory_equal(likeliest.ids[s], all.ids[s], (size_t)all.count[s] * sizeof(int32_t));
        assert_true(fabsf(likeliest.score[s] - all.score[s]) < 1e-3f);
    }
    close_fixture(&f);
}

/* A shortlist of all tokens changes nothing; of some, no translation has another token. Ends come
 * in any case. */
static void test_decoder__shortlist(void **state)
{
    (void)state;
    fixture f;
    static outcome all, listed;
    int fewer = 0;
    open_fixture_of(&f, true, true, ET_F32, false);
    decode(&f, 4, 8, 0, 1, &all);
    f.lexicon = lexicon_of(gives_all);
    decode(&f, 4, 8, 0, 1, &listed);
    for (int s = 0; s < SENTENCES; s++) {
        assert_int_equal(all.count[s], listed.count[s]);
        assert_memory_equal(all.ids[s], listed.ids[s], (size_t)all.count[s] * sizeof(int32_t));
        assert_true(fabsf(all.score[s] - listed.score[s]) < 1e-3f);
    }
    et_lexicon_close(f.lexicon);
    f.lexicon = lexicon_of(gives_some);
    decode(&f, 4, 8, 0, 1, &listed);
    for (int s = 0; s < SENTENCES; s++) {
        int32_t source[64];
        bool may[TOKENS] = { true, true, true };
        int count = 3;
        for (int64_t i = 0, n = source_of(s, source); i < n; i++)
            for (int t = 3; t < TOKENS; t++)
                may[t] = may[t] || gives_some(source[i], t);
        for (int t = 3; t < TOKENS; t++)
            count += may[t];
        for (int t = 3; t < TOKENS && count % 8; t++) /* as Marian fills a list */
            if (!may[t]) {
                may[t] = true;
                count++;
            }
        fewer += count < TOKENS;
        for (int i = 0; i < listed.count[s]; i++)
            assert_true(may[listed.ids[s][i]]);
    }
    assert_true(fewer > 3);
    close_fixture(&f);
}

/* Every target begins with one of the tokens that may come first. */
static void test_decoder__first(void **state)
{
    (void)state;
    static const int32_t first[] = { 7 };
    fixture f;
    static outcome out;
    open_fixture(&f, true, ET_F32, false);
    f.choice = (et_sampling_options){ .first = first, .first_count = 1 };
    f.max_length = 6;
    decode(&f, 4, 8, 0, 1, &out);
    for (int s = 0; s < SENTENCES; s++)
        assert_true(out.count[s] >= 1 && out.ids[s][0] == 7);
    close_fixture(&f);
}

static double teacher_score(const fixture *f, int s, const int32_t *target, int count);

/* Sampling from the single likeliest token is greedy search; another seed gives other samples; a
 * sample's log p is the model's. */
static void test_decoder__samples(void **state)
{
    (void)state;
    fixture f;
    static outcome greedy, one, other;
    int differ = 0, checked = 0;
    open_fixture(&f, true, ET_F32, false);
    decode(&f, 1, 8, 0, 1, &greedy);
    f.choice = (et_sampling_options){ .sampling = true, .top_k = 1 };
    decode(&f, 1, 8, 0, 1, &one);
    for (int s = 0; s < SENTENCES; s++) {
        assert_int_equal(greedy.count[s], one.count[s]);
        assert_memory_equal(greedy.ids[s], one.ids[s], (size_t)one.count[s] * sizeof(int32_t));
    }
    f.choice =
        (et_sampling_options){ .sampling = true, .seed = 1, .top_p = 0.9, .temperature = 1.5 };
    f.results = 3;
    decode(&f, 3, 8, 0, 1, &one);
    f.choice.seed = 2;
    decode(&f, 3, 8, 0, 1, &other);
    for (int s = 0; s < SENTENCES; s++) {
        int32_t source[64];
        assert_int_equal(one.results[s], 3);
        differ += one.tokens[s] != other.tokens[s] ||
                  memcmp(one.ids[s], other.ids[s], (size_t)one.tokens[s] * sizeof(int32_t)) != 0;
        for (int i = 0, at = 0; i < 3; at += one.each[s][i++]) {
            if (one.each[s][i] >= source_of(s, source) + 6)
                continue;
            double expected = teacher_score(&f, s, one.ids[s] + at, one.each[s][i]);
            assert_true(fabs(expected - (double)one.each_log_p[s][i]) <
                        1e-3 * (1 + fabs(expected)));
            checked++;
        }
    }
    assert_true(differ > SENTENCES / 2 && checked >= 9);
    close_fixture(&f);
}

/* Targets that are given, in any company: log p by teacher forcing. */
static void test_decoder__forced(void **state)
{
    (void)state;
    enum { MOST = 12 };
    et_error error = ET_ERROR_INIT;
    static int32_t source[SENTENCES][LONGEST + 1], target[SENTENCES][MOST];
    float log_p[SENTENCES];
    fixture f;
    open_fixture(&f, true, ET_F32, false);
    for (int group = 1; group <= 9; group += 4) {
        et_arena arena = ET_ARENA_INIT;
        et_decoder *decoder;
        et_decoder_sentence sentences[SENTENCES];
        et_decoder_options options = { .beam = { .size = 1, .alpha = 0.6, .eos = EOS },
                                       .forced = true,
                                       .max_length = MOST,
                                       .sentences = group,
                                       .act = ET_F32 };
        for (int s = 0; s < SENTENCES; s++) {
            int length = (7 * s) % MOST;
            for (int i = 0; i < length; i++)
                target[s][i] = 2 + (s * 13 + i * 5) % (TOKENS - 2);
            target[s][length] = EOS;
            sentences[s] = (et_decoder_sentence){ .source = source[s],
                                                  .length = source_of(s, source[s]),
                                                  .forced = target[s],
                                                  .forced_length = length + 1 };
        }
        assert_int_equal(et_decoder_new(&decoder, f.params, f.device, &f.model, &options, &error),
                         ET_OK);
        assert_int_equal(et_decoder_run(decoder, sentences, SENTENCES, &arena, NULL, NULL, &error),
                         ET_OK);
        for (int s = 0; s < SENTENCES; s++) {
            const et_decoder_result *result = sentences[s].results;
            assert_int_equal(sentences[s].count, 1);
            assert_int_equal(result->length, sentences[s].forced_length);
            assert_memory_equal(result->ids, target[s], (size_t)result->count * sizeof(int32_t));
            double expected = teacher_score(&f, s, target[s], result->count);
            assert_true(fabs(expected - (double)result->log_p) < 1e-3 * (1 + fabs(expected)));
            assert_true(fabs((double)result->log_p / et_beam_length_norm(result->length, &at_06) -
                             (double)result->score) < 1e-5);
            if (group == 1)
                log_p[s] = result->log_p;
            assert_memory_equal(&log_p[s], &result->log_p, sizeof(float));
        }
        et_decoder_free(decoder);
        et_arena_release(&arena);
    }
    close_fixture(&f);
}

/* Lengths that are given and other penalties: as long as asked for at most, a larger alpha makes
 * targets longer on the whole, and company changes nothing here either. */
static void test_decoder__lengths_and_alpha(void **state)
{
    (void)state;
    static const struct {
        double alpha;
        int64_t max_length;
        double factor;
    } cases[] = { { 0, 0, 0 },  { 2, 0, 0 },   { 0, 3, 0 },   { 0.6, 1, 0 },
                  { 2, 40, 0 }, { 2, 0, 0.3 }, { 2, 0, 1.5 }, { 2, 3, 9 } };
    int tokens[sizeof cases / sizeof cases[0]] = { 0 };
    fixture f;
    open_fixture(&f, true, ET_F32, false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static outcome all, other;
        f.alpha = cases[i].alpha;
        f.max_length = cases[i].max_length;
        f.length_factor = cases[i].factor;
        bool reached = false;
        decode(&f, 4, 8, 0, 1, &all);
        decode(&f, 4, 3, 0, 1, &other);
        assert_same(&all, &other);
        for (int s = 0; s < SENTENCES; s++) {
            int32_t source[64];
            const int64_t length = source_of(s, source);
            const int64_t most = f.max_length ? f.max_length
                                 : f.length_factor > 0
                                     ? (int64_t)ceil(f.length_factor * (double)length)
                                     : length + 6;
            assert_in_range(all.count[s], 0, most);
            reached |= all.count[s] == most;
            tokens[i] += all.count[s];
        }
        assert_true(reached || f.length_factor == 0);
    }
    assert_true(tokens[1] > tokens[0]);
    assert_true(tokens[3] > 0 && tokens[2] > tokens[3]);
    close_fixture(&f);
}

/* log p of a whole target by the training graph: teacher forcing, one sentence. */
static double teacher_score(const fixture *f, int s, const int32_t *target, int count)
{
    et_error error = ET_ERROR_INIT;
    et_graph *graph;
    et_plan *plan;
    int32_t source[64], positions[64], offsets[2], target_offsets[2], input[64], labels[64];
    int32_t target_positions[64];
    int64_t length = source_of(s, source);
    assert_int_equal(et_graph_new(&graph, f->params, NULL, &error), ET_OK);
    et_scope *root = et_graph_scope(graph);
    et_node *h = et_transformer_train(root, &f->model, length, count + 1, 1);
    et_node *at = et_input(root, "target_labels", ET_I32, et_shape_1(count + 1));
    et_node *loss = et_vocabulary_loss(h, et_transformer_table(root, &f->model), at, 0);
    if (et_plan_new(&plan, graph, f->device, &loss, 1, NULL, &error))
        fail_msg("%s", error.text);
    for (int i = 0; i < 64; i++)
        positions[i] = target_positions[i] = i;
    for (int i = 0; i <= count; i++) {
        input[i] = i ? target[i - 1] : 0;
        labels[i] = i < count ? target[i] : EOS;
    }
    offsets[0] = target_offsets[0] = 0;
    offsets[1] = (int32_t)length;
    target_offsets[1] = count + 1;
    et_plan_bind(plan, "source_ids", source);
    et_plan_bind(plan, "source_positions", positions);
    et_plan_bind(plan, "source_offsets", offsets);
    et_plan_bind(plan, "target_ids", input);
    et_plan_bind(plan, "target_positions", target_positions);
    et_plan_bind(plan, "target_offsets", target_offsets);
    et_plan_bind(plan, "target_labels", labels);
    et_plan_run(plan, (et_random){ 0 });
    double nll = ((const float *)et_plan_output(plan, 0).data)[ET_LOSS_SUM_NLL];
    et_plan_free(plan);
    et_graph_free(graph);
    return -nll;
}

/* The cache gives the results of the whole model: a finished hypothesis's score is its log p by
 * teacher forcing over the length norm. */
static void test_decoder__cache_agrees_with_the_whole_model(void **state)
{
    (void)state;
    for (int kind = 0; kind < 4; kind++) {
        fixture f;
        static outcome all;
        int finished = 0;
        open_fixture_of(&f, kind % 2, kind >= 2, ET_F32, false);
        decode(&f, 4, 8, 0, 1, &all);
        for (int s = 0; s < SENTENCES; s++) {
            int32_t source[64];
            int64_t most = source_of(s, source) + 6;
            if (all.count[s] >= most)
                continue;
            double expected = teacher_score(&f, s, all.ids[s], all.count[s]) /
                              et_beam_length_norm(all.count[s] + 1, &at_06);
            assert_true(fabs(expected - (double)all.score[s]) < 1e-3 * (1 + fabs(expected)));
            finished++;
        }
        assert_true(finished >= 3);
        close_fixture(&f);
    }
}

/* Bytes in products change scores little: a target's score is near its log p in float32 by teacher
 * forcing, and most targets are the same, though in an untrained model no token is much likelier
 * than the next. */
static void test_decoder__bytes_are_near(void **state)
{
    (void)state;
    fixture f;
    static outcome exact, narrow;
    int finished = 0, same = 0;
    double off = 0;
    open_fixture(&f, true, ET_F32, false);
    decode(&f, 4, 8, 0, 1, &exact);
    f.int8 = true;
    decode(&f, 4, 8, 0, 1, &narrow);
    for (int s = 0; s < SENTENCES; s++) {
        int32_t source[64];
        same += exact.count[s] == narrow.count[s] &&
                !memcmp(exact.ids[s], narrow.ids[s], (size_t)exact.count[s] * sizeof(int32_t));
        if (narrow.count[s] >= source_of(s, source) + 6)
            continue;
        double expected = teacher_score(&f, s, narrow.ids[s], narrow.count[s]) /
                          et_beam_length_norm(narrow.count[s] + 1, &at_06);
        off = fmax(off, fabs(expected - (double)narrow.score[s]) / (1 + fabs(expected)));
        finished++;
    }
    assert_true(finished >= 3);
    assert_true(off > 0 && off < 0.03);
    assert_true(2 * same > SENTENCES);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decoder__company_changes_nothing),
        cmocka_unit_test(test_decoder__company_of_recurrences_and_lists),
        cmocka_unit_test(test_decoder__lengths_and_alpha),
        cmocka_unit_test(test_decoder__cache_agrees_with_the_whole_model),
        cmocka_unit_test(test_decoder__bytes_are_near),
        cmocka_unit_test(test_decoder__ended),
        cmocka_unit_test(test_decoder__not_finite),
        cmocka_unit_test(test_decoder__several_results),
        cmocka_unit_test(test_decoder__logits_agree),
        cmocka_unit_test(test_decoder__shortlist),
        cmocka_unit_test(test_decoder__first),
        cmocka_unit_test(test_decoder__samples),
        cmocka_unit_test(test_decoder__forced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
