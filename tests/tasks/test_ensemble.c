/* Decoding with several models: the search is that of one model whose probabilities are the mean of
 * theirs. The reference computes the mean from the single models' scores of given targets. */
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
#include "engine/graph/build.h"
#include "engine/tensor/params.h"
#include "tasks/translation/decoding/decoder.h"

enum { TOKENS = 12, SENTENCES = 11, LONGEST = 9, LONGER = 2, EOS = 1, EXTRA = 5, MOST = 24 };

/* Models with equal vocabularies and nothing else in common. */
typedef struct model {
    et_params *params;
    et_transformer transformer;
} model;

static et_transformer model_of(int layers, int width)
{
    et_transformer_stack stack = { .num_layers = layers,
                                   .num_attention_heads = 2,
                                   .intermediate_size = width + 8,
                                   .activation = ET_ACTIVATION_RELU,
                                   .use_bias = true,
                                   .norm_first = true,
                                   .final_norm = true,
                                   .norm_epsilon = 1e-6f };
    return (et_transformer){ .encoder = stack,
                             .decoder = stack,
                             .source = { "embedding", TOKENS },
                             .target = { "embedding", TOKENS },
                             .output = { "embedding", TOKENS },
                             .width = width,
                             .max_positions = 64 };
}

static void open_model(model *m, int layers, int width, int seed)
{
    et_error error = ET_ERROR_INIT;
    et_graph *graph;
    m->transformer = model_of(layers, width);
    assert_int_equal(et_params_new(&m->params, &error), ET_OK);
    assert_int_equal(et_graph_new(&graph, m->params, NULL, &error), ET_OK);
    et_transformer_train(et_graph_scope(graph), &m->transformer, 64, 64, 4);
    assert_int_equal(et_graph_finish(graph, &error), ET_OK);
    et_graph_free(graph);
    assert_int_equal(et_params_materialize(m->params, true, &error), ET_OK);
    et_init_draw(m->params, (uint64_t)seed);
    et_params_begin_change(m->params);
    for (int64_t i = 0; i < et_params_flat_size(m->params); i++)
        et_params_values(m->params)[i] *= 1.7f;
    et_params_changed(m->params, true);
}

typedef struct fixture {
    et_device *device;
    model models[3];
    int32_t source[SENTENCES][LONGEST + 1], longer[SENTENCES][LONGEST + LONGER + 1];
} fixture;

static void open_fixture(fixture *f)
{
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_device_open(&f->device, &error), ET_OK);
    open_model(&f->models[0], 2, 32, 3);
    open_model(&f->models[1], 1, 48, 4);
    open_model(&f->models[2], 3, 16, 5);
}

static void close_fixture(fixture *f)
{
    for (int i = 0; i < 3; i++)
        et_params_free(f->models[i].params);
    et_device_close(f->device);
}

/* Sentence s. Another vocabulary would cut it into more tokens, though not all sentences alike. */
static et_decoder_source source_of(fixture *f, int s, bool longer)
{
    const int length = 1 + (5 * s) % LONGEST, more = longer ? 1 + s % LONGER : 0;
    int32_t *ids = longer ? f->longer[s] : f->source[s];
    for (int i = 0; i < length + more; i++)
        ids[i] = 2 + (s * 31 + i * (longer ? 13 : 17)) % (TOKENS - 2);
    ids[length + more] = EOS;
    return (et_decoder_source){ .ids = ids, .length = length + more + 1 };
}

/* How to decode: models, all but the first with longer sources if `longer`. */
typedef struct way {
    int models[3], count;
    const double *weights;
    et_beam_options beam;
    bool longer;
    et_dtype act[3];
    bool int8[3];
    et_sampling_options choice;
} way;

typedef struct outcome {
    et_arena arena;
    et_decoder_sentence sentences[SENTENCES];
} outcome;

static et_decoder *open_decoder(const fixture *f, const way *w, int group,
                                et_decoder_options options)
{
    et_error error = ET_ERROR_INIT;
    et_decoder *decoder;
    et_decoder_model others[2];
    for (int i = 1; i < w->count; i++)
        others[i - 1] =
            (et_decoder_model){ f->models[w->models[i]].params,
                                &f->models[w->models[i]].transformer, w->act[i], w->int8[i] };
    options.choice = w->choice;
    options.choice.weights = w->weights;
    options.choice.model_count = w->count;
    options.sentences = group;
    options.act = w->act[0];
    options.int8 = w->int8[0];
    options.others = others;
    options.other_count = w->count - 1;
    const model *first = &f->models[w->models[0]];
    assert_int_equal(
        et_decoder_new(&decoder, first->params, f->device, &first->transformer, &options, &error),
        ET_OK);
    return decoder;
}

static void decode(fixture *f, const way *w, int group, outcome *out)
{
    et_error error = ET_ERROR_INIT;
    et_decoder_source others[SENTENCES][2];
    et_decoder_options options = { .beam = w->beam, .extra_length = EXTRA };
    options.beam.eos = EOS;
    et_decoder *decoder = open_decoder(f, w, group, options);
    memset(out, 0, sizeof *out);
    for (int s = 0; s < SENTENCES; s++) {
        const et_decoder_source source = source_of(f, s, false);
        others[s][0] = others[s][1] = source_of(f, s, true);
        out->sentences[s] = (et_decoder_sentence){ .source = source.ids,
                                                   .length = source.length,
                                                   .others = others[s],
                                                   .other_count = w->longer ? w->count - 1 : 0,
                                                   .number = (uint64_t)s };
    }
    if (et_decoder_run(decoder, out->sentences, SENTENCES, &out->arena, NULL, NULL, &error))
        fail_msg("%s", error.text);
    et_decoder_free(decoder);
}

static void assert_near(const et_decoder_sentence *a, const et_decoder_sentence *b, double most)
{
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++) {
        const et_decoder_result *x = &a->results[i], *y = &b->results[i];
        assert_int_equal(x->count, y->count);
        assert_memory_equal(x->ids, y->ids, (size_t)x->count * sizeof *x->ids);
        assert_true(fabs((double)x->score - (double)y->score) <= most);
        assert_true(fabs((double)x->log_p - (double)y->log_p) <= most);
    }
}

static void assert_outcomes(const outcome *a, const outcome *b, double most)
{
    for (int s = 0; s < SENTENCES; s++)
        assert_near(&a->sentences[s], &b->sentences[s], most);
}

static const double equal[3] = { 1 / 3., 1 / 3., 1 / 3. }, half[2] = { 0.5, 0.5 },
                    uneven[3] = { 0.6, 0.3, 0.1 };

static const et_beam_options beams[] = {
    { .size = 1, .alpha = 0.6 },
    { .size = 4, .alpha = 0.6 },
    { .size = 3, .alpha = 1, .shrinks = true, .by_length = true },
    { .size = 4, .alpha = 1, .results = 3, .by_length = true, .force_end = true },
};

enum { BEAMS = sizeof beams / sizeof beams[0] };

/* Of itself, the mean is the model. */
static void test_ensemble__of_itself(void **state)
{
    (void)state;
    static fixture f;
    open_fixture(&f);
    for (int b = 0; b < BEAMS; b++) {
        static outcome one, three;
        way w = { .models = { 1 }, .count = 1, .beam = beams[b] };
        decode(&f, &w, 4, &one);
        w = (way){ .models = { 1, 1, 1 }, .count = 3, .weights = equal, .beam = beams[b] };
        decode(&f, &w, 4, &three);
        assert_outcomes(&one, &three, 1e-5);
        et_arena_release(&one.arena);
        et_arena_release(&three.arena);
    }
    close_fixture(&f);
}

/* log p of each next token after a prefix, by one model: log p of the prefix with the token, less
 * that of the prefix. */
static void single(et_decoder *forced, et_decoder_source source, const int32_t *prefix, int length,
                   double log_p[TOKENS])
{
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    int32_t target[TOKENS + 1][MOST + 1];
    et_decoder_sentence sentences[TOKENS + 1];
    for (int v = 0; v <= TOKENS; v++) {
        memcpy(target[v], prefix, (size_t)length * sizeof *prefix);
        target[v][length] = v;
        sentences[v] = (et_decoder_sentence){ .source = source.ids,
                                              .length = source.length,
                                              .forced = target[v],
                                              .forced_length = length + (v < TOKENS) };
    }
    const int64_t count = length ? TOKENS + 1 : TOKENS;
    assert_int_equal(et_decoder_run(forced, sentences, count, &arena, NULL, NULL, &error), ET_OK);
    for (int v = 0; v < TOKENS; v++)
        log_p[v] = (double)sentences[v].results[0].log_p -
                   (length ? (double)sentences[TOKENS].results[0].log_p : 0);
    et_arena_release(&arena);
}

/* The best tokens after a prefix, best first, by the mean of all models. */
static void best_of_mean(fixture *f, et_decoder *const *forced, const way *w, int s,
                         const int32_t *prefix, int length, float *best, int32_t *token)
{
    double p[TOKENS] = { 0 }, log_p[TOKENS];
    for (int m = 0; m < w->count; m++) {
        single(forced[m], source_of(f, s, m && w->longer), prefix, length, log_p);
        for (int v = 0; v < TOKENS; v++)
            p[v] += w->weights[m] * exp(log_p[v]);
    }
    for (int i = 0; i < 2 * w->beam.size; i++) {
        int most = 0;
        for (int v = 1; v < TOKENS; v++)
            most = p[v] > p[most] ? v : most;
        token[i] = most;
        best[i] = (float)log(p[most]);
        p[most] = -1;
    }
}

/* A plain beam search of one sentence; results are those of et_decoder_run. */
static void reference(fixture *f, et_decoder *const *forced, const way *w, int s, et_beam *beam)
{
    int32_t prefix[8][MOST] = { { 0 } }, before[8][MOST], next[8], token[8 * 16];
    float best[8 * 16];
    int parent[8];
    const int64_t length = source_of(f, s, w->longer).length;
    et_beam_begin(beam, (int)length + EXTRA);
    for (int t = 0; !beam->over; t++) {
        for (int i = 0; i < beam->living; i++)
            best_of_mean(f, forced, w, s, prefix[i], t, best + i * 2 * w->beam.size,
                         token + i * 2 * w->beam.size);
        et_beam_advance(beam, best, token, parent, next);
        memcpy(before, prefix, sizeof before);
        for (int i = 0; i < beam->living; i++) {
            memcpy(prefix[i], before[parent[i]], sizeof prefix[i]);
            prefix[i][t] = next[i];
        }
    }
}

static void check_reference(fixture *f, const way *w)
{
    static outcome out;
    et_error error = ET_ERROR_INIT;
    et_decoder *forced[3];
    et_beam beam;
    et_beam_options options = w->beam;
    options.eos = EOS;
    decode(f, w, 4, &out);
    for (int m = 0; m < w->count; m++) {
        const way one = { .models = { w->models[m] }, .count = 1 };
        forced[m] = open_decoder(f, &one, TOKENS,
                                 (et_decoder_options){ .beam = { .size = 1, .eos = -1 },
                                                       .forced = true,
                                                       .max_length = MOST });
    }
    assert_int_equal(et_beam_init(&beam, &options, MOST, &error), ET_OK);
    for (int s = 0; s < SENTENCES; s++) {
        reference(f, forced, w, s, &beam);
        et_decoder_result results[8];
        const int count = et_beam_results(&beam);
        for (int i = 0; i < count; i++)
            results[i] = et_beam_result(&beam, i);
        const et_decoder_sentence expected = { .count = count, .results = results };
        assert_near(&out.sentences[s], &expected, 1e-4);
    }
    et_beam_release(&beam);
    for (int m = 0; m < w->count; m++)
        et_decoder_free(forced[m]);
    et_arena_release(&out.arena);
}

/* Two and three models, with equal sources and with their own. */
static void test_ensemble__is_the_mean(void **state)
{
    (void)state;
    static fixture f;
    open_fixture(&f);
    for (int b = 0; b < BEAMS; b++) {
        check_reference(
            &f, &(way){ .models = { 0, 1 }, .count = 2, .weights = half, .beam = beams[b] });
        check_reference(&f, &(way){ .models = { 2, 0, 1 },
                                    .count = 3,
                                    .weights = uneven,
                                    .beam = beams[b],
                                    .longer = true });
    }
    close_fixture(&f);
}

static bool same(const outcome *a, const outcome *b)
{
    for (int s = 0; s < SENTENCES; s++) {
        const et_decoder_result *x = a->sentences[s].results, *y = b->sentences[s].results;
        if (x->count != y->count || memcmp(x->ids, y->ids, (size_t)x->count * sizeof *x->ids))
            return false;
    }
    return true;
}

/* The other models are read: with them the translations are others. */
static void test_ensemble__differs_from_each(void **state)
{
    (void)state;
    static fixture f;
    static outcome both, one;
    open_fixture(&f);
    way w = { .models = { 0, 1 }, .count = 2, .weights = half, .beam = beams[1] };
    decode(&f, &w, 4, &both);
    for (int m = 0; m < 2; m++) {
        w = (way){ .models = { m }, .count = 1, .beam = beams[1] };
        decode(&f, &w, 4, &one);
        assert_false(same(&both, &one));
        et_arena_release(&one.arena);
    }
    et_arena_release(&both.arena);
    close_fixture(&f);
}

/* Equal bits with any other sentences and any number of threads, however tokens are chosen and
 * whatever the types of the models. */
static void test_ensemble__company_changes_nothing(void **state)
{
    (void)state;
    static const int32_t never[] = { 3 };
    static const way ways[] = {
        { .models = { 0, 1, 2 }, .count = 3, .weights = uneven, .beam = { 4, .alpha = 0.6 } },
        { .models = { 0, 1 },
          .count = 2,
          .weights = half,
          .beam = { 4, .alpha = 0.6 },
          .longer = true,
          .act = { ET_F32, ET_BF16 },
          .int8 = { true, false } },
        { .models = { 2, 1 },
          .count = 2,
          .weights = half,
          .beam = { 3, .alpha = 0.6, .results = 3 },
          .choice = { .sampling = true, .seed = 3, .never = never, .never_count = 1 } },
        { .models = { 2, 1 },
          .count = 2,
          .weights = half,
          .beam = { 3, .alpha = 0.6, .results = 2 },
          .longer = true,
          .choice = { .noise = 0.5, .seed = 3, .never = never, .never_count = 1 } },
    };
    const int most = omp_get_max_threads();
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++)
        for (int threads = 1; threads <= 3; threads++) {
            static const int groups[] = { 5, 1, SENTENCES, 40 };
            static fixture f;
            static outcome first, other;
            omp_set_num_threads(threads);
            open_fixture(&f);
            for (int g = 0; g < 4; g++) {
                outcome *out = threads == 1 && g == 0 ? &first : &other;
                decode(&f, &ways[i], groups[g], out);
                assert_outcomes(&first, out, 0);
                for (int s = 0; s < SENTENCES && ways[i].choice.never; s++)
                    for (int k = 0; k < out->sentences[s].results[0].count; k++)
                        assert_int_not_equal(out->sentences[s].results[0].ids[k], never[0]);
                if (out == &other)
                    et_arena_release(&other.arena);
            }
            if (threads == 3)
                et_arena_release(&first.arena);
            close_fixture(&f);
        }
    omp_set_num_threads(most);
}

/* A model with numbers that are not finite is an error, not left out. */
static void test_ensemble__not_finite(void **state)
{
    (void)state;
    static fixture f;
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    open_fixture(&f);
    et_params_begin_change(f.models[1].params);
    et_params_values(f.models[1].params)[0] = NAN;
    et_params_changed(f.models[1].params, true);
    const way w = { .models = { 0, 1 }, .count = 2, .weights = half };
    et_decoder *decoder = open_decoder(
        &f, &w, 4,
        (et_decoder_options){ .beam = { .size = 2, .eos = EOS }, .extra_length = EXTRA });
    int32_t all[TOKENS + 1];
    for (int i = 0; i < TOKENS; i++)
        all[i] = TOKENS - 1 - i;
    et_decoder_sentence sentence = { .source = all, .length = TOKENS };
    assert_int_equal(et_decoder_run(decoder, &sentence, 1, &arena, NULL, NULL, &error),
                     ET_EDIVERGED);
    et_decoder_free(decoder);
    et_arena_release(&arena);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ensemble__of_itself),
        cmocka_unit_test(test_ensemble__is_the_mean),
        cmocka_unit_test(test_ensemble__differs_from_each),
        cmocka_unit_test(test_ensemble__company_changes_nothing),
        cmocka_unit_test(test_ensemble__not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
