#include "metric/score.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

/* ---- shift edits ---- */

/* The fewest edits from a hypothesis to a reference, where an edit inserts, deletes or replaces a
 * word, or moves a block of words (Snover et al. 2006, "A study of translation edit rate with
 * targeted human annotation", https://aclanthology.org/2006.amta-papers.25). Moves are searched
 * greedily: among all moves of a block to its place in the reference, the move that saves most is
 * made, until no move saves anything. Limits are Tercom's, and results equal sacrebleu 2:
 *
 *   - a block has at most 10 words and moves to a place at most 50 words away;
 *   - the distance between two lines is computed in a band of 25 words around the diagonal;
 *   - at most 1,000 moves of a pair are tried. */

/* Distances by dynamic programming, cost[i][j] from the first i words of the hypothesis to the
 * first j of the reference. Rows only depend on the words before them, so a move leaves the rows
 * before its block as they are. Among equal costs a match or replacement wins over a deletion, and
 * a deletion over an insertion. This determines the alignment, and thus the moves that are tried.
 */
enum { BLOCK_MAX = 10, DISTANCE_MAX = 50, BEAM = 25, TRIALS_MAX = 1000 };

/* More than any cost, and no overflow by a few more. */
#define NEVER (INT32_MAX / 2)

enum { MATCH, REPLACE, DELETE, INSERT };

/* The lines of a pair, and the numbers of their words. */
typedef struct pair {
    et_shift_edits *e;
    const uint32_t *reference;
    size_t columns, words;
    int trials;
} pair;

/* A block and the target in front of which it goes. */
typedef struct move {
    size_t start, length, to;
    int32_t gain;
} move;

/* ---- distance ---- */

/* The arrays of a pair follow each other in one block, the widest elements first. */
static int reserve(et_shift_edits *e, size_t rows, size_t cells, size_t columns, et_error *error)
{
    const size_t wanted = (2 * rows + 1) * sizeof *e->begin + columns * sizeof *e->align +
                          2 * cells * sizeof *e->cost + rows + cells + columns;
    if (wanted > e->capacity) {
        et_free(e->begin);
        e->begin = et_alloc(wanted, 1);
        e->capacity = e->begin ? wanted : 0;
        if (!e->begin)
            return et_alloc_failed(error, "an edit distance");
    }
    e->first = e->begin + rows + 1;
    e->align = (int64_t *)(void *)(e->first + rows);
    e->cost = (int32_t *)(void *)(e->align + columns);
    e->trial = e->cost + cells;
    e->step = (char *)(e->trial + cells);
    e->wrong = e->step + cells;
    e->reference_wrong = e->wrong + rows;
    return ET_OK;
}

/* The columns of a row: [*low, *high). The band follows the ratio of the lengths, and is wider if
 * one line is so much longer that bands of two rows would not meet. */
static void band(const pair *p, size_t row, size_t *low, size_t *high)
{
    const double ratio = (double)p->columns / (double)p->words;
    const size_t beam = BEAM < ratio / 2 ? (size_t)ceil(ratio / 2 + BEAM) : BEAM;
    const size_t middle = (size_t)floor((double)row * ratio);
    *low = middle > beam ? middle - beam : 0;
    *high = middle + beam < p->columns + 1 ? middle + beam : p->columns + 1;
    if (row == p->words)
        *high = p->columns + 1;
}

static int lay_out(pair *p, et_error *error)
{
    et_shift_edits *e = p->e;
    size_t cells = p->columns + 1, low, high;
    for (size_t i = 1; i <= p->words; i++) {
        band(p, i, &low, &high);
        cells += high - low;
    }
    int status = reserve(e, p->words + 1, cells, p->columns + 1, error);
    if (status)
        return status;
    e->begin[0] = e->first[0] = 0;
    e->begin[1] = p->columns + 1;
    for (size_t i = 1; i <= p->words; i++) {
        band(p, i, &low, &high);
        e->first[i] = low;
        e->begin[i + 1] = e->begin[i] + high - low;
    }
    for (size_t j = 0; j <= p->columns; j++) {
        e->cost[j] = (int32_t)j;
        e->step[j] = INSERT;
    }
    return ET_OK;
}

/* before: the row above. step NULL: not wanted. */
static void fill_row(const pair *p, size_t i, uint32_t word, const int32_t *before, int32_t *row,
                     char *step)
{
    const et_shift_edits *e = p->e;
    const size_t low = e->first[i], high = low + e->begin[i + 1] - e->begin[i];
    const size_t above = e->first[i - 1], above_end = above + e->begin[i] - e->begin[i - 1];
    int32_t left = NEVER;
    for (size_t j = low; j < high; j++) {
        int32_t best = NEVER;
        char how = MATCH;
        if (j > above && j - 1 < above_end) {
            const bool equal = word == p->reference[j - 1];
            best = before[j - 1 - above] + !equal;
            how = equal ? MATCH : REPLACE;
        }
        if (j >= above && j < above_end && before[j - above] + 1 < best) {
            best = before[j - above] + 1;
            how = DELETE;
        }
        if (left + 1 < best) {
            best = left + 1;
            how = INSERT;
        }
        row[j - low] = left = best;
        if (step)
            step[j - low] = how;
    }
}

/* The distance of e->words, whose rows after `from` have changed; trial: of e->moved, whose rows up
 * to `from` are those of e->words. */
static int32_t measure(const pair *p, size_t from, bool trial)
{
    et_shift_edits *e = p->e;
    const uint32_t *words = trial ? e->moved.items : e->words.items;
    int32_t *cost = trial ? e->trial : e->cost;
    for (size_t i = from + 1; i <= p->words; i++)
        fill_row(p, i, words[i - 1], (i == from + 1 ? e->cost : cost) + e->begin[i - 1],
                 cost + e->begin[i], trial ? NULL : e->step + e->begin[i]);
    return (from < p->words ? cost : e->cost)[e->begin[p->words + 1] - 1];
}

/* Follows the steps back from the last cell. */
static void align(const pair *p)
{
    et_shift_edits *e = p->e;
    size_t i = p->words, j = p->columns;
    while (i || j) {
        const char how = e->step[e->begin[i] + j - e->first[i]];
        if (how == INSERT) {
            e->align[--j] = (int64_t)i - 1;
            e->reference_wrong[j] = 1;
        } else if (how == DELETE) {
            e->wrong[--i] = 1;
        } else {
            e->align[--j] = (int64_t)--i;
            e->reference_wrong[j] = e->wrong[i] = how == REPLACE;
        }
    }
}

/* ---- moves ---- */

/* Writes e->moved. Returns the number of words before the first that may differ. */
static size_t make_move(const pair *p, const move *m)
{
    et_shift_edits *e = p->e;
    const uint32_t *from = e->words.items;
    uint32_t *to = e->moved.items;
    const size_t end = m->start + m->length, inside = m->to >= m->start && m->to <= end;
    /* Within the block it goes so many words on. */
    size_t target = inside ? m->to + m->length : m->to;
    target = target < p->words ? target : p->words;
    const size_t low = target < m->start ? target : m->start;
    memcpy(to, from, low * sizeof *to);
    to += low;
    if (target < m->start) {
        memcpy(to, from + m->start, m->length * sizeof *to);
        memcpy(to + m->length, from + target, (m->start - target) * sizeof *to);
        memcpy(to + m->length + m->start - target, from + end, (p->words - end) * sizeof *to);
    } else {
        memcpy(to, from + end, (target - end) * sizeof *to);
        memcpy(to + target - end, from + m->start, m->length * sizeof *to);
        memcpy(to + target - end + m->length, from + target, (p->words - target) * sizeof *to);
    }
    return low;
}

/* Larger gain, longer block, earlier block, earlier target. */
static bool is_better(const move *a, const move *b)
{
    if (a->gain != b->gain)
        return a->gain > b->gain;
    if (a->length != b->length)
        return a->length > b->length;
    if (a->start != b->start)
        return a->start < b->start;
    return a->to < b->to;
}

/* A block only moves if some of its words are wrong, some of the reference there are unmatched, and
 * it does not go into itself. */
static bool is_worth_trying(const pair *p, const move *m, size_t at)
{
    const et_shift_edits *e = p->e;
    const int64_t to = e->align[at], start = (int64_t)m->start;
    return memchr(e->wrong + m->start, 1, m->length) &&
           memchr(e->reference_wrong + at, 1, m->length) &&
           !(start <= to && to < start + (int64_t)m->length);
}

/* Tries the places for a block that the reference has at `at`: before it, and after each of its
 * words. */
static void try_targets(pair *p, move m, size_t at, int32_t now, move *best)
{
    const et_shift_edits *e = p->e;
    for (size_t k = 0; k <= m.length; k++) {
        const size_t target = at + k ? (size_t)(e->align[at + k - 1] + 1) : 0;
        if (k && target == m.to)
            continue;
        m.to = target;
        const size_t from = make_move(p, &m);
        m.gain = now - measure(p, from, true);
        p->trials++;
        if (!best->length || is_better(&m, best))
            *best = m;
    }
}

/* All blocks that hypothesis and reference share from these two words on. */
static void try_blocks(pair *p, size_t start, size_t at, int32_t now, move *best)
{
    const uint32_t *words = p->e->words.items;
    et_assert(start < p->words && at < p->columns);
    for (size_t length = 1;
         length <= BLOCK_MAX && start + length <= p->words && at + length <= p->columns &&
         p->trials < TRIALS_MAX && words[start + length - 1] == p->reference[at + length - 1];
         length++) {
        const move m = { .start = start, .length = length };
        if (is_worth_trying(p, &m, at))
            try_targets(p, m, at, now, best);
    }
}

/* length 0: no move was tried. */
static move find_move(pair *p, int32_t now)
{
    move best = { 0 };
    for (size_t start = 0; start < p->words; start++) {
        const size_t last = start + DISTANCE_MAX + 1;
        size_t at = start > DISTANCE_MAX ? start - DISTANCE_MAX : 0;
        for (; at < last && at < p->columns && p->trials < TRIALS_MAX; at++)
            try_blocks(p, start, at, now, &best);
    }
    return best;
}

/* Moves as long as that saves edits. */
static int64_t count_edits(pair *p)
{
    int64_t moves = 0;
    int32_t now = measure(p, 0, false);
    for (;;) {
        align(p);
        const move best = find_move(p, now);
        if (p->trials >= TRIALS_MAX || !best.length || best.gain <= 0)
            return moves + now;
        const size_t from = make_move(p, &best);
        const et_codes words = p->e->words;
        p->e->words = p->e->moved;
        p->e->moved = words;
        now = measure(p, from, false);
        moves++;
    }
}

static int count_pair(et_score *ter, et_score_counts *counts, et_error *error)
{
    const et_codes *hypothesis = &ter->hypothesis_words, *reference = &ter->reference_words;
    et_shift_edits *e = &ter->edits;
    pair p = { e, reference->items, reference->count, hypothesis->count, 0 };
    et_assert(hypothesis->count < NEVER && reference->count < NEVER);
    counts->ter = (et_ter_counts){ .pairs = 1,
                                   .edits = (int64_t)(p.words ? p.words : p.columns),
                                   .ref_len = (int64_t)p.columns };
    if (!p.words || !p.columns)
        return ET_OK;
    int status;
    if ((status = et_codes_reserve(&e->words, p.words, error)) ||
        (status = et_codes_reserve(&e->moved, p.words, error)) || (status = lay_out(&p, error)))
        return status;
    memcpy(e->words.items, hypothesis->items, p.words * sizeof(uint32_t));
    counts->ter.edits = count_edits(&p);
    return ET_OK;
}

/* TER: edits over words of the references, in percent; of empty references 100, or 0 if the
 * hypotheses are empty, too. Words are what white space separates, as in Tercom without its
 * normalization. */

static int check(const et_score_counts *counts, et_error *error)
{
    const et_ter_counts *ter = &counts->ter;
    if (!ter->pairs && (ter->edits || ter->ref_len))
        return et_fail(error, ET_EDATA, "counts to merge: %" PRId64 " edits, but no pair",
                       ter->edits);
    return ET_OK;
}

static void compute(const et_score *ter, et_score_result *result, const et_score_counts *counts)
{
    (void)ter;
    const et_ter_counts *c = &counts->ter;
    const double ratio = c->ref_len ? (double)c->edits / (double)c->ref_len : c->edits > 0;
    *result = (et_score_result){ .score = 100 * ratio, .ref_len = c->ref_len };
}

static const et_score_class class = { .title = "TER",
                                      .size = sizeof(et_ter_counts),
                                      .settings = "tok:tercom|norm:no|punct:yes|asian:no",
                                      .by_words = true,
                                      .count = count_pair,
                                      .check = check,
                                      .compute = compute };

int et_ter_new(et_score **out, const et_ter_options *options, et_error *error)
{
    const et_bleu_options own = { .tokens = ET_BLEU_TOKENS_NONE,
                                  .lowercase = !options || !options->case_sensitive };
    return et_score_new(out, &class, &own, error);
}
