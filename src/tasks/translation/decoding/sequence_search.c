/* A search over a program's own function of logits: one beam for each sequence, and one shared
 * et_sampling, which reads the rows one after another. */
#include <etude/sequence_search.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/options.h"
#include "tasks/translation/decoding/beam.h"
#include "tasks/translation/decoding/sampling.h"

struct et_sequence_search {
    et_arena arena; /* of all arrays */
    et_sequence_options options;
    int64_t count;
    et_beam *beams; /* [count] */
    et_sampling choice;
    /* of a step */
    int32_t *ids;               /* [2][rows, max_length]: of this step, and of the next */
    int64_t *parent;            /* [rows] */
    float *logits;              /* [rows, vocabulary] */
    float *log_p;               /* [size, 2 size] */
    int32_t *token;             /* the same */
    int from[ET_BEAM_SIZE_MAX]; /* of one beam: et_beam_advance's parent and next */
    int32_t next[ET_BEAM_SIZE_MAX];
};

static bool are_tokens(const int32_t *tokens, int64_t count, int64_t vocabulary)
{
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] < 0 || tokens[i] >= vocabulary)
            return false;
    return true;
}

static int check_options(const et_sequence_options *o, int64_t count, et_error *error)
{
    if (o->vocabulary < 1 || o->vocabulary > INT32_MAX)
        return et_fail(error, ET_ECONFIG, "vocabulary: %lld is not between 1 and %d",
                       (long long)o->vocabulary, INT32_MAX);
    if (o->max_length < 1 || o->max_length >= INT32_MAX)
        return et_fail(error, ET_ECONFIG, "max_length: %lld is not between 1 and %d",
                       (long long)o->max_length, INT32_MAX - 1);
    if (o->size < 0 || o->size > ET_BEAM_SIZE_MAX || o->results < 0 ||
        o->results > (o->size ? o->size : 1))
        return et_fail(error, ET_ECONFIG,
                       "size %d and results %d: size is at most %d, results at most size", o->size,
                       o->results, ET_BEAM_SIZE_MAX);
    const int64_t row = o->vocabulary > o->max_length ? o->vocabulary : o->max_length + 1;
    if (count < 0 || count > INT64_MAX / 16 / ET_BEAM_SIZE_MAX / row)
        return et_fail(error, ET_ECONFIG, "%lld sequences of %lld tokens are too many",
                       (long long)count, (long long)o->max_length);
    if (!(o->alpha >= 0) || !(o->noise >= 0) || !(o->temperature >= 0) || o->top_k < 0 ||
        !(o->top_p >= 0 && o->top_p <= 1) || !isfinite(o->alpha + o->noise + o->temperature))
        return et_fail(error, ET_ECONFIG,
                       "alpha %g, noise %g, temperature %g, top_k %lld and top_p %g must not be "
                       "negative, and top_p at most 1",
                       o->alpha, o->noise, o->temperature, (long long)o->top_k, o->top_p);
    if (o->end_count < 0 || o->first_count < 0 || (o->first && !o->first_count))
        return et_fail(error, ET_ECONFIG, "%d end tokens and %d first ones", o->end_count,
                       o->first_count);
    if (o->first && !are_tokens(o->first, o->first_count, o->vocabulary))
        return et_fail(error, ET_ECONFIG, "first: a token is not below the vocabulary's %lld",
                       (long long)o->vocabulary);
    return ET_OK;
}

static int64_t rows_of(const et_sequence_search *s)
{
    return s->count * s->options.size;
}

static int open_all(et_sequence_search *s, et_error *error)
{
    const et_sequence_options *o = &s->options;
    const size_t rows = (size_t)rows_of(s), size = (size_t)o->size;
    const et_beam_options beam = { .size = o->size,
                                   .alpha = o->alpha,
                                   .eos = o->end_count ? o->ends[0] : -1,
                                   .ends = o->ends,
                                   .end_count = o->end_count,
                                   .results = o->results ? o->results : o->size };
    const et_sampling_options choice = { .sampling = o->sampling,
                                         .top_k = o->top_k,
                                         .top_p = o->top_p,
                                         .temperature = o->temperature,
                                         .noise = o->noise,
                                         .seed = o->seed,
                                         .first = o->first,
                                         .first_count = o->first_count };
    s->beams = et_arena_array(&s->arena, s->count, sizeof *s->beams);
    s->ids = et_arena_array(&s->arena, 2 * rows * (size_t)(o->max_length + 1), sizeof *s->ids);
    s->parent = et_arena_array(&s->arena, rows, sizeof *s->parent);
    s->logits = et_arena_array_raw(&s->arena, rows * (size_t)o->vocabulary, sizeof *s->logits);
    s->log_p = et_arena_array(&s->arena, 2 * size * size, sizeof *s->log_p);
    s->token = et_arena_array(&s->arena, 2 * size * size, sizeof *s->token);
    if (s->arena.failed)
        return et_alloc_failed(error, "a search");
    int status = et_sampling_init(&s->choice, &choice, o->vocabulary, error);
    for (int64_t i = 0; i < s->count && !status; i++) {
        status = et_beam_init(&s->beams[i], &beam, (int)o->max_length, error);
        if (!status)
            et_beam_begin(&s->beams[i], (int)o->max_length);
    }
    return status;
}

/* The next tokens of the living hypotheses of a sequence, into from and next. If the vocabulary has
 * fewer tokens than the beam wants, or a row only fills the beam, the remaining entries have a
 * log-probability of minus infinity. */
static int continue_beam(et_sequence_search *s, int64_t sequence, et_error *error)
{
    et_beam *beam = &s->beams[sequence];
    const et_sequence_options *o = &s->options;
    const int size = o->size, wide = o->sampling ? 1 : 2 * size;
    const int best = wide < o->vocabulary ? wide : (int)o->vocabulary;
    const bool begins = beam->length == 0;
    et_assert(!beam->over && best <= wide);
    const int rows = o->sampling && begins ? size : beam->living;
    for (int i = 0; i < rows; i++) {
        float *log_p = s->log_p + i * wide;
        int32_t *token = s->token + i * wide;
        const bool fills = !o->sampling && et_beam_row_fills(beam, i);
        const float *row = s->logits + (sequence * size + (begins ? 0 : i)) * o->vocabulary;
        const int hypothesis = o->sampling && !begins ? beam->sample[i] : i;
        const et_sampling_position which = { (uint64_t)sequence, beam->length, hypothesis };
        if (!fills && !et_sampling_read(&s->choice, &row, which))
            return et_fail(error, ET_EDIVERGED,
                           "sequence %lld, position %d: the logits are not finite",
                           (long long)sequence, beam->length);
        if (o->sampling) {
            *token = et_sampling_draw(&s->choice, which);
            *log_p = s->choice.log_p[*token];
            continue;
        }
        if (!fills)
            et_sampling_best(&s->choice, best, log_p, token);
        for (int k = fills ? 0 : best; k < wide; k++) {
            log_p[k] = -INFINITY;
            token[k] = 0;
        }
    }
    (o->sampling ? et_beam_extend : et_beam_advance)(beam, s->log_p, s->token, s->from, s->next);
    return ET_OK;
}

/* Writes the rows of a sequence for the next step: those of its hypotheses, each followed by its
 * new token. A row without a hypothesis is its own parent and repeats its last token. */
static void move_rows(et_sequence_search *s, int64_t sequence, const int32_t *ids, int32_t *to,
                      int64_t position, int lives)
{
    const int size = s->options.size;
    const int64_t stride = s->options.max_length + 1, first = sequence * size;
    et_assert(position + 1 < stride && lives <= size);
    for (int i = 0; i < size; i++) {
        const int64_t from = first + (i < lives ? s->from[i] : i), row = first + i;
        memcpy(to + row * stride, ids + from * stride, (size_t)(position + 1) * sizeof *to);
        to[row * stride + position + 1] = i < lives ? s->next[i] : ids[from * stride + position];
        s->parent[row] = from;
    }
}

static int search(et_sequence_search *s, const int32_t *initial, et_sequence_logits_fn *logits,
                  void *payload, et_error *error)
{
    const int64_t rows = rows_of(s), stride = s->options.max_length + 1;
    int32_t *ids = s->ids, *to = s->ids + rows * stride;
    int64_t left = s->count;
    for (int64_t row = 0; row < rows; row++) {
        ids[row * stride] = initial[row / s->options.size];
        s->parent[row] = row;
    }
    for (int64_t position = 0; left; position++) {
        const et_sequence_step step = { rows, position, stride, ids, s->parent };
        int status = logits(payload, &step, s->logits, error);
        for (int64_t i = 0; i < s->count && !status; i++) {
            et_beam *beam = &s->beams[i];
            const bool lived = !beam->over;
            if (lived)
                status = continue_beam(s, i, error);
            if (!status)
                move_rows(s, i, ids, to, position, beam->over ? 0 : beam->living);
            left -= lived && beam->over;
        }
        if (status)
            return status;
        int32_t *swap = ids;
        ids = to;
        to = swap;
    }
    return ET_OK;
}

int et_sequence_search_run(et_sequence_search **out, const int32_t *initial, int64_t count,
                           const et_sequence_options *options, et_sequence_logits_fn *logits,
                           void *payload, et_error *error)
{
    *out = NULL;
    int status = et_options_need(options, "et_sequence_options", error);
    if (status || (status = check_options(options, count, error)))
        return status;
    et_sequence_search *s;
    if (ET_ALLOC_ZERO(s, 1, "a search", error))
        return ET_ENOMEM;
    s->options = *options;
    s->options.size = options->size ? options->size : 1;
    s->count = count;
    status = open_all(s, error);
    if (!status)
        status = search(s, initial, logits, payload, error);
    if (status)
        et_sequence_search_free(s);
    else
        *out = s;
    return status;
}

int et_sequence_search_count(const et_sequence_search *s, int64_t sequence)
{
    return sequence >= 0 && sequence < s->count ? et_beam_results(&s->beams[sequence]) : 0;
}

et_sequence et_sequence_search_result(const et_sequence_search *s, int64_t sequence, int rank)
{
    if (rank < 0 || rank >= et_sequence_search_count(s, sequence))
        return (et_sequence){ NULL, 0, 0, 0, 0 };
    const et_beam_hypothesis h = et_beam_result(&s->beams[sequence], rank);
    return (et_sequence){ h.ids, h.count, h.length, h.score, h.log_p };
}

void et_sequence_search_free(et_sequence_search *s)
{
    if (!s)
        return;
    for (int64_t i = 0; s->beams && i < s->count; i++)
        et_beam_release(&s->beams[i]);
    et_sampling_release(&s->choice);
    et_arena_release(&s->arena);
    et_free(s);
}
