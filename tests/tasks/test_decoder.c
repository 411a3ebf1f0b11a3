/* Batched decoding: a sentence's result does not depend on its company. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <omp.h>
#include <string.h>

#include <etude/nn.h>

#include "exec/plan.h"
#include "base/arena.h"
#include "tasks/translation/decoder.h"

#define PIECES    12
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
    int64_t max_length; /* 0: source + 6 */
} fixture;

static et_transformer small_model(bool norm_first)
{
    et_transformer_stack stack = { .num_layers = 2,
                                   .num_attention_heads = 2,
                                   .intermediate_size = 40,
                                   .activation = ET_ACTIVATION_RELU,
                                   .use_bias = true,
                                   .norm_first = norm_first,
                                   .final_norm = norm_first,
                                   .norm_epsilon = 1e-6f };
    return (et_transformer){
        .encoder = stack, .decoder = stack, .vocabulary = PIECES, .width = 32, .max_positions = 64
    };
}

static void open_fixture(fixture *f, bool norm_first, et_dtype act, bool int8)
{
    et_error error = ET_ERROR_INIT;
    et_graph *graph;
    f->model = small_model(norm_first);
    f->act = act;
    f->int8 = int8;
    f->alpha = 0.6;
    f->max_length = 0;
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

static void close_fixture(fixture *f)
{
    et_params_free(f->params);
    et_device_close(f->device);
}

/* Sentence s: 1 to LONGEST pieces and EOS. */
static int64_t source_of(int s, int32_t *ids)
{
    int length = 1 + (5 * s) % LONGEST;
    for (int i = 0; i < length; i++)
        ids[i] = 2 + (s * 31 + i * 17) % (PIECES - 2);
    ids[length] = EOS;
    return length + 1;
}

typedef struct outcome {
    int32_t ids[SENTENCES][64];
    int count[SENTENCES];
    float score[SENTENCES];
} outcome;

/* Decodes sentences first, first + step, ... in groups of `group`. */
static void decode(const fixture *f, int beam, int group, int first, int step, outcome *out)
{
    et_error error = ET_ERROR_INIT;
    et_decoder *decoder;
    et_arena arena = ET_ARENA_INIT;
    static int32_t ids[SENTENCES][LONGEST + 1];
    et_decoder_sentence sentences[SENTENCES];
    int64_t count = 0;
    et_decoder_options options = { .beam = { beam, f->alpha, EOS },
                                   .start = 0,
                                   .max_length = f->max_length,
                                   .extra_length = 6,
                                   .sentences = group,
                                   .act = f->act,
                                   .int8 = f->int8 };
    for (int s = first; s < SENTENCES; s += step)
        sentences[count++] =
            (et_decoder_sentence){ .source = ids[s], .length = source_of(s, ids[s]) };
    assert_int_equal(et_decoder_new(&decoder, f->params, f->device, &f->model, &options, &error),
                     ET_OK);
    if (et_decoder_run(decoder, sentences, count, &arena, NULL, NULL, &error))
        fail_msg("%s", error.text);
    count = 0;
    for (int s = first; s < SENTENCES; s += step, count++) {
        assert_true(sentences[count].count < 64);
        memcpy(out->ids[s], sentences[count].result,
               (size_t)sentences[count].count * sizeof(int32_t));
        out->count[s] = sentences[count].count;
        out->score[s] = sentences[count].score;
    }
    et_decoder_free(decoder);
    et_arena_release(&arena);
}

static void assert_same(const outcome *a, const outcome *b)
{
    for (int s = 0; s < SENTENCES; s++) {
        assert_int_equal(a->count[s], b->count[s]);
        assert_memory_equal(a->ids[s], b->ids[s], (size_t)a->count[s] * sizeof(int32_t));
        assert_memory_equal(&a->score[s], &b->score[s], sizeof(float));
    }
}

static void check_company(et_dtype act, bool int8, int beam)
{
    fixture f;
    static outcome all, alone;
    open_fixture(&f, true, act, int8);
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
        open_fixture(&g, true, act, int8);
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
    check_company(ET_F32, false, 4);
    check_company(ET_F32, false, 1);
    check_company(ET_F32, true, 4);
    check_company(ET_F32, true, 1);
    check_company(ET_BF16, false, 5);
}

/* Lengths that are given and other penalties: as long as asked for at most, a larger alpha makes
 * targets longer on the whole, and company changes nothing here either. */
static void test_decoder__lengths_and_alpha(void **state)
{
    (void)state;
    static const struct {
        double alpha;
        int64_t max_length;
    } cases[] = { { 0, 0 }, { 2, 0 }, { 0, 3 }, { 0.6, 1 }, { 2, 40 } };
    int pieces[sizeof cases / sizeof cases[0]] = { 0 };
    fixture f;
    open_fixture(&f, true, ET_F32, false);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        static outcome all, other;
        f.alpha = cases[i].alpha;
        f.max_length = cases[i].max_length;
        decode(&f, 4, 8, 0, 1, &all);
        decode(&f, 4, 3, 0, 1, &other);
        assert_same(&all, &other);
        for (int s = 0; s < SENTENCES; s++) {
            int32_t source[64];
            int64_t most = f.max_length ? f.max_length : source_of(s, source) + 6;
            assert_in_range(all.count[s], 0, most);
            pieces[i] += all.count[s];
        }
    }
    assert_true(pieces[1] > pieces[0]);
    assert_true(pieces[3] > 0 && pieces[2] > pieces[3]);
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

/* The cache gives what the whole model gives: a finished hypothesis's score is its log p by
 * teacher forcing over the length norm. */
static void test_decoder__cache_agrees_with_the_whole_model(void **state)
{
    (void)state;
    for (int norm_first = 0; norm_first < 2; norm_first++) {
        fixture f;
        static outcome all;
        int finished = 0;
        open_fixture(&f, norm_first, ET_F32, false);
        decode(&f, 4, 8, 0, 1, &all);
        for (int s = 0; s < SENTENCES; s++) {
            int32_t source[64];
            int64_t most = source_of(s, source) + 6;
            if (all.count[s] >= most)
                continue;
            double expected = teacher_score(&f, s, all.ids[s], all.count[s]) /
                              et_beam_length_norm(all.count[s] + 1, 0.6);
            assert_true(fabs(expected - (double)all.score[s]) < 1e-3 * (1 + fabs(expected)));
            finished++;
        }
        assert_true(finished >= 3);
        close_fixture(&f);
    }
}

/* Bytes in products move scores by little: what they say of a target is near to its log p in
 * float32 by teacher forcing, and most targets are the same, though no piece of an untrained model
 * is much likelier than the next. */
static void test_decoder__bytes_are_near(void **state)
{
    (void)state;
    fixture f;
    static outcome exact, bytes;
    int finished = 0, same = 0;
    double off = 0;
    open_fixture(&f, true, ET_F32, false);
    decode(&f, 4, 8, 0, 1, &exact);
    f.int8 = true;
    decode(&f, 4, 8, 0, 1, &bytes);
    for (int s = 0; s < SENTENCES; s++) {
        int32_t source[64];
        same += exact.count[s] == bytes.count[s] &&
                !memcmp(exact.ids[s], bytes.ids[s], (size_t)exact.count[s] * sizeof(int32_t));
        if (bytes.count[s] >= source_of(s, source) + 6)
            continue;
        double expected = teacher_score(&f, s, bytes.ids[s], bytes.count[s]) /
                          et_beam_length_norm(bytes.count[s] + 1, 0.6);
        off = fmax(off, fabs(expected - (double)bytes.score[s]) / (1 + fabs(expected)));
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
        cmocka_unit_test(test_decoder__lengths_and_alpha),
        cmocka_unit_test(test_decoder__cache_agrees_with_the_whole_model),
        cmocka_unit_test(test_decoder__bytes_are_near),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
