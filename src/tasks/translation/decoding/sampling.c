/* Choosing tokens. Sums are double, in the order of the tokens, on one thread, so equal logits give
 * equal bits.
 *
 * A random number's element is position, hypothesis and token side by side in 64 bits; its step is
 * the sentence, its site the use. Gumbel noise: -log(-log u), u uniform in (0, 1) (Gumbel 1954).
 *
 * Filters need tokens ordered by probability. They are sorted only as far as top_k or top_p needs:
 * tokens are taken from a heap until the filter is reached. */
#include "tasks/translation/decoding/sampling.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers/philox.h"
#include "engine/kernel/kernels.h"

bool et_sampling_reads_logits(const et_sampling_options *options)
{
    return options->sampling || options->noise > 0 || options->first || options->never_count;
}

int et_sampling_init(et_sampling *choice, const et_sampling_options *options, int64_t vocabulary,
                     et_error *error)
{
    et_assert(options && vocabulary > 0);
    *choice = (et_sampling){ .options = *options, .vocabulary = vocabulary, .count = vocabulary };
    size_t count = (size_t)vocabulary;
    choice->log_p = et_alloc(count, sizeof *choice->log_p);
    choice->order = et_alloc(count, sizeof *choice->order);
    const size_t models = options->model_count > 1 ? (size_t)options->model_count : 0;
    if (models)
        choice->each = et_alloc((models + 1) * count, sizeof *choice->each);
    int status = choice->log_p && choice->order && (choice->each || !models)
                     ? ET_OK
                     : et_alloc_failed(error, "a choice");
    if (!status && options->first) {
        const size_t words = (count + 63) / 64;
        choice->allowed = et_alloc_zero(words, sizeof *choice->allowed);
        if (!choice->allowed)
            status = et_alloc_failed(error, "a choice");
        for (int i = 0; i < options->first_count && !status; i++) {
            et_assert(options->first[i] >= 0 && options->first[i] < choice->vocabulary);
            choice->allowed[options->first[i] / 64] |= (uint64_t)1 << (options->first[i] % 64);
        }
    }
    if (status)
        et_sampling_release(choice);
    return status;
}

void et_sampling_release(et_sampling *choice)
{
    et_free(choice->log_p);
    et_free(choice->each);
    et_free(choice->order);
    et_free(choice->allowed);
    *choice = (et_sampling){ 0 };
}

void et_sampling_set_words(et_sampling *choice, const int32_t *words, int64_t count)
{
    et_assert(!words || (count >= 1 && count <= choice->vocabulary));
    et_assert(!words || choice->options.model_count < 2);
    choice->words = words;
    choice->count = words ? count : choice->vocabulary;
}

/* The token at an index of the row. */
static int32_t token_of(const et_sampling *choice, int64_t index)
{
    return choice->words ? choice->words[index] : (int32_t)index;
}

float et_sampling_log_p(const et_sampling *choice, int32_t token)
{
    et_assert(token >= 0 && token < choice->vocabulary);
    int64_t low = 0, high = choice->count;
    if (!choice->words)
        return choice->log_p[token];
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (choice->words[middle] < token)
            low = middle + 1;
        else
            high = middle;
    }
    return low < choice->count && choice->words[low] == token ? choice->log_p[low] : -INFINITY;
}

/* ---- reading ---- */

static uint64_t element_at(et_sampling_position which, int64_t token)
{
    et_assert(which.hypothesis >= 0 && which.hypothesis < 64);
    return ((uint64_t)which.position * 64 + (uint64_t)which.hypothesis) << 32 | (uint64_t)token;
}

/* In (0, 1): a word's 32 bits, in the middle of its interval. */
static double uniform(uint32_t word)
{
    return ((double)word + 0.5) * 0x1p-32;
}

/* False: no result, since an x is not finite. */
static bool log_softmax(float *x, int64_t count)
{
    float most = x[0];
    double sum = 0;
    for (int64_t i = 1; i < count; i++)
        most = x[i] > most ? x[i] : most;
    for (int64_t i = 0; i < count; i++)
        sum += (double)expf(x[i] - most);
    const float log_sum = most + (float)log(sum);
    for (int64_t i = 0; i < count; i++)
        x[i] -= log_sum;
    return isfinite(log_sum);
}

static void suppress(const et_sampling *choice, float *row)
{
    for (int i = 0; i < choice->options.never_count && !choice->words; i++)
        row[choice->options.never[i]] = -INFINITY;
}

/* sum = w e^(log_p - most), or sum += this. */
static void add_weighted(const et_sampling *choice, float *sum, const float *log_p, float weight,
                         bool first)
{
    const et_ew_program program = {
        .inputs = first ? 2 : 3,
        .steps = first ? 3 : 4,
        .outputs = 1,
        .input_dtype = { ET_F32, ET_F32, ET_F32 },
        .step = { { .op = ET_EW_SUB, .a = 0, .b = 1, .to = 3 },
                  { .op = ET_EW_EXP, .a = 3, .to = 3 },
                  { .op = ET_EW_SCALE, .a = 3, .to = 3, .x = weight },
                  { .op = ET_EW_ADD, .a = 3, .b = 2, .to = 3 } },
        .output = { 3 },
        .output_dtype = { ET_F32 },
    };
    const void *const in[] = { log_p, choice->log_p, sum };
    void *const out[] = { sum };
    et_kernels_best()->elementwise(&program, out, in, 1, choice->vocabulary, (et_random){ 0 });
}

/* log of the sum over models of w p. The largest term is factored out, as in log_softmax. So a tiny
 * probability also has a logarithm, and equal models give their own log p. A token that no model
 * generates becomes NaN. */
static void average(et_sampling *choice)
{
    static const et_ew_program finish = {
        .inputs = 2,
        .steps = 2,
        .outputs = 1,
        .input_dtype = { ET_F32, ET_F32 },
        .step = { { .op = ET_EW_LOG, .a = 0, .to = 2 },
                  { .op = ET_EW_ADD, .a = 2, .b = 1, .to = 2 } },
        .output = { 2 },
        .output_dtype = { ET_F32 },
    };
    const int64_t count = choice->vocabulary, models = choice->options.model_count;
    float *most = choice->log_p, *sum = choice->each + models * count;
    memcpy(most, choice->each, count * sizeof *most);
    for (int64_t m = 1; m < models; m++)
        for (int64_t i = 0; i < count; i++) {
            const float other = choice->each[m * count + i];
            most[i] = most[i] > other ? most[i] : other;
        }
    for (int64_t m = 0; m < models; m++)
        add_weighted(choice, sum, choice->each + m * count, (float)choice->options.weights[m],
                     m == 0);
    const void *const in[] = { sum, most };
    void *const out[] = { most };
    et_kernels_best()->elementwise(&finish, out, in, 1, count, (et_random){ 0 });
}

/* Each model gives its probabilities to the tokens that can be generated. */
static bool read_models(et_sampling *choice, const float *const *logits)
{
    const size_t count = (size_t)choice->vocabulary;
    bool finite = true;
    for (int m = 0; m < choice->options.model_count; m++) {
        float *row = choice->each + (size_t)m * count;
        memcpy(row, logits[m], count * sizeof *row);
        suppress(choice, row);
        et_kernels_best()->log_softmax(row, row, 1, choice->vocabulary, ET_F32);
        finite = finite && !isnan(row[0]); /* one NaN makes the sum one, and so all */
    }
    average(choice);
    return finite;
}

bool et_sampling_read(et_sampling *choice, const float *const *logits, et_sampling_position which)
{
    et_assert(choice->log_p && logits);
    const bool several = choice->options.model_count > 1, noisy = choice->options.noise > 0;
    bool finite = true;
    if (several)
        finite = read_models(choice, logits);
    else
        memcpy(choice->log_p, logits[0], choice->count * sizeof **logits);
    if (noisy) {
        /* Four tokens share a block of random words. */
        et_random random = { choice->options.seed, which.sentence, et_random_site("decode/noise") };
        et_philox_block block = { { 0 } };
        int32_t made = -1;
        for (int64_t i = 0; i < choice->count; i++) {
            const int32_t token = token_of(choice, i);
            if (token / 4 != made)
                block = et_random_block(random, element_at(which, token) / 4);
            made = token / 4;
            double gumbel = -log(-log(uniform(block.word[token % 4])));
            choice->log_p[i] += (float)(choice->options.noise * gumbel);
        }
    }
    suppress(choice, choice->log_p);
    if (!several || noisy)
        finite = log_softmax(choice->log_p, choice->count) && finite;
    if (which.position || !choice->allowed)
        return finite;
    for (int64_t i = 0; i < choice->count; i++) {
        const int32_t token = token_of(choice, i);
        if (!(choice->allowed[token / 64] >> (token % 64) & 1))
            choice->log_p[i] = -INFINITY;
    }
    return finite;
}

/* ---- choosing ---- */

/* Inserts into a sorted list: lists are short, and most tokens are not better than the last one in
 * the list. */
void et_sampling_best(const et_sampling *choice, int count, float *log_p, int32_t *token)
{
    et_assert(count >= 1 && count <= choice->vocabulary);
    int have = 0;
    for (int64_t i = 0; i < choice->count; i++) {
        float value = choice->log_p[i];
        if (have == count && !(value > log_p[count - 1]))
            continue;
        int at = have < count ? have++ : count - 1;
        for (; at > 0 && log_p[at - 1] < value; at--) {
            log_p[at] = log_p[at - 1];
            token[at] = token[at - 1];
        }
        log_p[at] = value;
        token[at] = token_of(choice, i);
    }
    for (; have < count; have++) {
        log_p[have] = -INFINITY;
        token[have] = token_of(choice, choice->count - 1);
    }
}

/* Whether token a comes before b. */
static bool likelier(const float *log_p, int32_t a, int32_t b)
{
    return log_p[a] > log_p[b] || (log_p[a] == log_p[b] && a < b);
}

/* Restores a heap whose likeliest token is at its root, from place `at` down. */
static void sink(const float *log_p, int32_t *heap, int64_t count, int64_t at)
{
    int32_t token = heap[at];
    for (int64_t below = 2 * at + 1; below < count; below = 2 * at + 1) {
        if (below + 1 < count && likelier(log_p, heap[below + 1], heap[below]))
            below++;
        if (!likelier(log_p, heap[below], token))
            break;
        heap[at] = heap[below];
        at = below;
    }
    heap[at] = token;
}

static int32_t take_likeliest(et_sampling *choice, int64_t left)
{
    int32_t *order = choice->order, token = order[0];
    order[0] = order[left - 1];
    order[left - 1] = token;
    sink(choice->log_p, order, left - 1, 0);
    return token;
}

/* The weight of a token by its index in the row: its probability to the power of 1 / temperature,
 * relative to the likeliest. */
static double weight_of(const et_sampling *choice, int32_t token, float most)
{
    double temperature = choice->options.temperature > 0 ? choice->options.temperature : 1;
    return exp(((double)choice->log_p[token] - (double)most) / temperature);
}

static double sum_of(const et_sampling *choice, const int32_t *tokens, int64_t count, float most)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += weight_of(choice, tokens ? tokens[i] : (int32_t)i, most);
    return sum;
}

/* The index in the row at which the sum of weights passes `at`; if rounding leaves none, the last
 * index with a weight above 0. */
static int32_t token_at(const et_sampling *choice, const int32_t *tokens, int64_t count, float most,
                        double at)
{
    int32_t chosen = -1;
    for (int64_t i = 0; i < count; i++) {
        int32_t token = tokens ? tokens[i] : (int32_t)i;
        double weight = weight_of(choice, token, most);
        if (weight <= 0)
            continue;
        chosen = token;
        at -= weight;
        if (at < 0)
            break;
    }
    et_assert(chosen >= 0);
    return chosen;
}

/* Moves the tokens that pass the filters to the end of order and returns their number. top_p
 * applies to the tokens that top_k leaves, because their probabilities are normalized again. */
static int64_t keep(et_sampling *choice, float most)
{
    const et_sampling_options *o = &choice->options;
    int64_t count = choice->count, kept = 0;
    int64_t top = o->top_k && o->top_k < count ? o->top_k : count;
    /* order becomes a heap; removed items are after it, the likeliest last. */
    for (int64_t i = 0; i < choice->count; i++)
        choice->order[i] = (int32_t)i;
    for (int64_t at = choice->count / 2; at-- > 0;)
        sink(choice->log_p, choice->order, choice->count, at);
    if (!(o->top_p > 0 && o->top_p < 1)) {
        for (; kept < top; kept++)
            take_likeliest(choice, count - kept);
        return kept;
    }
    double whole = 0, sum = 0;
    if (top == count)
        whole = sum_of(choice, NULL, count, most);
    for (; top < count && kept < top; kept++)
        whole += weight_of(choice, take_likeliest(choice, count - kept), most);
    if (kept) { /* the kept tokens are in order already */
        int64_t n = 0;
        while (n < kept && sum < o->top_p * whole)
            sum += weight_of(choice, choice->order[count - 1 - n++], most);
        return n;
    }
    while (kept < count && sum < o->top_p * whole)
        sum += weight_of(choice, take_likeliest(choice, count - kept++), most);
    return kept;
}

int32_t et_sampling_draw(et_sampling *choice, et_sampling_position which)
{
    et_assert(choice->count > 0);
    const et_sampling_options *o = &choice->options;
    et_random random = { o->seed, which.sentence, et_random_site("decode/sample") };
    uint64_t element = element_at(which, 0);
    double u = uniform(et_random_block(random, element / 4).word[0]);
    float most;
    int32_t first;
    et_sampling_best(choice, 1, &most, &first);
    int64_t count = choice->count;
    const int32_t *tokens = NULL;
    if ((o->top_k && o->top_k < count) || (o->top_p > 0 && o->top_p < 1)) {
        int64_t kept = keep(choice, most);
        tokens = choice->order + count - kept;
        count = kept;
    }
    return token_of(choice,
                    token_at(choice, tokens, count, most, u * sum_of(choice, tokens, count, most)));
}
