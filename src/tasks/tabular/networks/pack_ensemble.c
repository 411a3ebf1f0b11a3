#include "tasks/tabular/networks/networks_private.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/text/strbuf.h"
#include "formats/events/log_names.h"
#include "tasks/tabular/members.h"

/* A probability of 0 counts as the smallest normal float. */
static double loss_of(double prediction, const double *target, int64_t i)
{
    if (!target)
        return -log(fmax(prediction, (double)FLT_MIN));
    return (prediction - target[i]) * (prediction - target[i]);
}

double et_pack_loss(const float *prediction, const double *target, int64_t items)
{
    double sum = 0;
    for (int64_t i = 0; i < items; i++)
        sum += loss_of((double)prediction[i], target, i);
    return sum / (double)items;
}

static void add_prediction(const void *from, double *sum, int64_t candidate)
{
    const et_pack_choice *choice = from;
    for (int64_t i = 0; i < choice->items; i++)
        sum[i] += (double)choice->prediction[candidate * choice->items + i];
}

static double loss_of_mean(const void *from, const double *sum, int64_t count)
{
    const et_pack_choice *choice = from;
    double loss = 0;
    for (int64_t i = 0; i < choice->items; i++)
        loss += loss_of(sum[i] / (double)count, choice->target, i);
    return loss / (double)choice->items;
}

et_greedy et_pack_greedy(const et_pack_choice *choice, int64_t candidates, int64_t rounds)
{
    return (et_greedy){ candidates, rounds,         (size_t)choice->items,
                        choice,     add_prediction, loss_of_mean };
}

int et_greedy_choose(const et_greedy *g, double *share, et_error *error)
{
    et_assert(g->candidates >= 1 && g->rounds >= 1 && g->cells >= 1);
    const size_t size = 2 * g->cells + (size_t)g->candidates;
    double *sum = et_alloc_zero(size, sizeof *sum), least = INFINITY;
    if (!sum)
        return et_alloc_failed(error, "an ensemble");
    double *tried = sum + g->cells, *times = tried + g->cells;
    for (int64_t round = 1; round <= g->rounds; round++) {
        int64_t best = 0;
        double loss = INFINITY;
        for (int64_t c = 0; c < g->candidates; c++) {
            memcpy(tried, sum, g->cells * sizeof *sum);
            g->add(g->from, tried, c);
            const double with = g->loss(g->from, tried, round);
            if (!c || with < loss) {
                loss = with;
                best = c;
            }
        }
        g->add(g->from, sum, best);
        times[best]++;
        if (round > 1 && !(loss < least))
            continue;
        least = loss;
        for (int64_t c = 0; c < g->candidates; c++)
            share[c] = times[c] / (double)round;
    }
    et_free(sum);
    return ET_OK;
}

#define LOGGED_MEMBERS ET_LOGGED_OF_VALIDATION "ensemble_members"
#define LOGGED_TRAINED ET_LOGGED_OF_VALIDATION "trained_members"

/* ---- the variables ---- */

typedef struct variables {
    float *share, *loss, *since; /* [members], in the store */
} variables;

static float *find(et_params *params, const char *name)
{
    const int index = et_params_find_printf(params, ET_PACK_ENSEMBLE "/%s", name);
    return index < 0 ? NULL : et_params_values_of(params, index);
}

static int find_all(variables *v, et_params *params, et_error *error)
{
    *v = (variables){ find(params, ET_PACK_SHARE), find(params, ET_PACK_LOSS),
                      find(params, ET_PACK_SINCE) };
    return v->share && v->loss && v->since ? ET_OK : et_pack_refuse(error);
}

/* Whether a member's best weights stay, whatever comes. */
static bool is_done(const variables *v, const et_tabular_pack *pack, int64_t member)
{
    return (int64_t)v->since[member] > pack->patience;
}

int et_pack_refuse(et_error *error)
{
    return et_fail(error, ET_ECONFIG,
                   "a pack (task.model.type: pack) is trained alone, because each member has its "
                   "own rate. It needs validation, which chooses the ensemble. Leave out the other "
                   "tasks, or choose another model");
}

int et_pack_begin(et_params *params, const et_tabular_pack *pack, bool rated, et_error *error)
{
    const size_t size = et_pack_count(pack) * sizeof(float);
    variables v = { NULL, NULL, NULL };
    int status = rated ? find_all(&v, params, error) : et_pack_refuse(error);
    if (status)
        return status;
    et_params_begin_change(params);
    memset(v.share, 0, size);
    memset(v.loss, 0, size);
    memset(v.since, 0, size);
    et_params_changed(params, true);
    return ET_OK;
}

/* Parameters of a member are copied to its best ones. */
static void keep_best(et_params *params, int64_t number)
{
    et_assert(number >= 0);
    char prefix[64];
    const int length = snprintf(prefix, sizeof prefix, ET_PACK_MEMBER "_%lld/", (long long)number);
    for (int i = 0; i < et_params_count(params); i++) {
        const char *name = et_params_name(params, i);
        if (!et_params_is_trained(params, i) || strncmp(name, prefix, (size_t)length) != 0)
            continue;
        const int to = et_params_find_printf(params, ET_PACK_BEST "/%s", name);
        et_assert(to >= 0);
        memcpy(et_params_values_of(params, to), et_params_values_of(params, i),
               et_shape_count(et_params_shape(params, i)) * sizeof(float));
    }
}

/* ---- predictions ---- */

/* A validation under way. */
typedef struct following {
    et_arena arena; /* of all arrays */
    et_params *params;
    const et_tabular_pack *pack;
    const et_pack_rows *rows;
    variables v;
    int64_t members, items; /* items: predictions of a member that count in its loss */
    float *prediction;      /* [candidates, items] */
    double *share;          /* [members], of candidates first */
    float *mixed;           /* [members] the same by member, for rows that did not choose */
    double *target;         /* [items]; NULL: classes */
    float *loss;            /* [members], new */
    bool *better;           /* [members]: as they are, they are the best so far */
    int64_t *candidate;     /* [candidates]: a member */
    int64_t candidates;
    int64_t apart; /* rows of this part do not choose; -1: all rows choose */
} following;

/* Row r is in part r % PARTS. */
#define PARTS 5

static bool counts(const following *f, int64_t row)
{
    const et_pack_rows *r = f->rows;
    return r->weight[row] > 0 && (!r->class || r->class[row] >= 0) && row % PARTS != f->apart;
}

/* A member's prediction of a row, [width]. best: with its best weights. */
static const float *predicted(const following *f, int64_t row, int64_t member, bool best)
{
    const et_pack_rows *r = f->rows;
    return r->members + ((row * 2 + best) * f->members + member) * r->width;
}

static void put_items(const following *f, float *to, int64_t member, bool best)
{
    const et_pack_rows *r = f->rows;
    int64_t at = 0;
    for (int64_t row = 0; row < r->count; row++) {
        const float *p = predicted(f, row, member, best);
        if (!counts(f, row))
            continue;
        if (!r->class)
            for (int64_t k = 0; k < r->width; k++)
                to[at++] = p[k];
        else
            to[at++] = r->width > 1 ? p[r->class[row]] : r->class[row] ? p[0] : 1 - p[0];
    }
    et_assert(at == f->items);
}

static void count_items(following *f)
{
    const et_pack_rows *r = f->rows;
    f->items = 0;
    for (int64_t row = 0; row < r->count; row++)
        f->items += counts(f, row) ? (r->class ? 1 : r->width) : 0;
}

static void put_targets(const following *f)
{
    const et_pack_rows *r = f->rows;
    int64_t at = 0;
    for (int64_t row = 0; f->target && row < r->count; row++)
        for (int64_t k = 0; counts(f, row) && k < r->width; k++)
            f->target[at++] = r->target[row * r->width + k];
}

/* ---- members ---- */

/* Makes the best weights of a member, old or new, a candidate, unless its loss was never finite. */
static void compare(following *f, int64_t member)
{
    float *to = f->prediction + f->candidates * f->items;
    const bool has_best = f->v.since[member] > 0;
    put_items(f, to, member, false);
    const double now = et_pack_loss(to, f->target, f->items);
    f->loss[member] = (float)now;
    f->better[member] = isfinite((float)now) && !is_done(&f->v, f->pack, member) &&
                        (!has_best || f->loss[member] < f->v.loss[member]);
    if (!f->better[member] && has_best)
        put_items(f, to, member, true);
    if (f->better[member] || has_best)
        f->candidate[f->candidates++] = member;
}

static void keep_all(const following *f)
{
    et_params_begin_change(f->params);
    for (int64_t m = 0; m < f->members; m++) {
        if (f->better[m]) {
            keep_best(f->params, et_pack_member_at(f->pack, m).number);
            f->v.loss[m] = f->loss[m];
            f->v.since[m] = 1;
        } else if (f->v.since[m] > 0 && !is_done(&f->v, f->pack, m)) {
            f->v.since[m] += 1;
        }
        f->v.share[m] = 0;
    }
    for (int64_t c = 0; c < f->candidates; c++)
        f->v.share[f->candidate[c]] = (float)f->share[c];
    et_params_changed(f->params, true);
}

/* Sets the mean prediction of the rows that did not choose, or of all rows. share: [members]. */
static void put_mean(const following *f, const float *share)
{
    const et_pack_rows *r = f->rows;
    for (int64_t row = 0; row < r->count; row++) {
        if (f->apart >= 0 && row % PARTS != f->apart)
            continue;
        float *mean = r->mean + row * r->width;
        memset(mean, 0, r->width * sizeof *mean);
        for (int64_t m = 0; m < f->members; m++) {
            const float *p = predicted(f, row, m, !f->better[m]);
            for (int64_t k = 0; share[m] > 0 && k < r->width; k++)
                mean[k] += share[m] * p[k];
        }
    }
}

/* Chooses shares of the candidates by the rows that count. */
static int choose_share(following *f, et_error *error)
{
    const et_pack_choice choice = { f->prediction, f->target, f->items };
    const et_greedy greedy = et_pack_greedy(&choice, f->candidates, f->pack->ensemble_size);
    return et_greedy_choose(&greedy, f->share, error);
}

static int open_following(following *f, et_error *error)
{
    const size_t m = (size_t)f->members;
    int status = find_all(&f->v, f->params, error);
    if (status)
        return status;
    count_items(f);
    if (!f->items)
        return et_fail(error, ET_EDATA,
                       "no validation row has a label, so that no ensemble can be chosen; change "
                       "task.validation_data or task.held_out");
    const size_t items = (size_t)f->items;
    f->prediction = et_arena_array(&f->arena, m * items, sizeof *f->prediction);
    f->target = f->rows->class ? NULL : et_arena_array(&f->arena, items, sizeof *f->target);
    f->share = et_arena_array(&f->arena, m, sizeof *f->share);
    f->mixed = et_arena_array(&f->arena, m, sizeof *f->mixed);
    f->loss = et_arena_array(&f->arena, m, sizeof *f->loss);
    f->better = et_arena_array(&f->arena, m, sizeof *f->better);
    f->candidate = et_arena_array(&f->arena, m, sizeof *f->candidate);
    return f->arena.failed ? et_alloc_failed(error, "an ensemble") : ET_OK;
}

int et_pack_follow(et_params *params, const et_tabular_pack *pack, const et_pack_rows *rows,
                   et_value *logs, et_error *error)
{
    et_assert(params && pack && rows->members && rows->mean && logs);
    following f = {
        .params = params, .pack = pack, .rows = rows, .members = et_pack_count(pack), .apart = -1
    };
    int64_t chosen = 0, trained = 0;
    int status = open_following(&f, error);
    if (!status) {
        put_targets(&f);
        for (int64_t m = 0; m < f.members; m++)
            compare(&f, m);
        status = f.candidates ? choose_share(&f, error)
                              : et_fail(error, ET_EDIVERGED,
                                        "the loss of all members of the pack on the validation "
                                        "rows is not finite");
    }
    if (!status) {
        keep_all(&f);
        put_mean(&f, f.v.share);
        for (int64_t m = 0; m < f.members; m++) {
            chosen += f.v.share[m] > 0;
            trained += !is_done(&f.v, pack, m);
        }
        et_value_set_int(logs, LOGGED_MEMBERS, chosen);
        et_value_set_int(logs, LOGGED_TRAINED, trained);
        if (et_value_failed(logs))
            status = et_alloc_failed(error, "values of a validation");
    }
    et_arena_release(&f.arena);
    return status;
}

int et_pack_cross_fit(et_params *params, const et_tabular_pack *pack, const et_pack_rows *rows,
                      et_error *error)
{
    et_assert(params && pack && rows->members && rows->mean);
    following f = {
        .params = params, .pack = pack, .rows = rows, .members = et_pack_count(pack), .apart = -1
    };
    int status = open_following(&f, error);
    for (f.apart = 0; !status && f.apart < PARTS; f.apart++) {
        f.candidates = 0;
        count_items(&f);
        put_targets(&f);
        for (int64_t m = 0; m < f.members; m++) {
            f.mixed[m] = 0;
            if (!(f.v.since[m] > 0))
                continue;
            put_items(&f, f.prediction + f.candidates * f.items, m, true);
            f.candidate[f.candidates++] = m;
        }
        et_assert(f.candidates);
        for (int64_t c = 0; c < f.candidates; c++)
            f.share[c] = 1 / (double)f.candidates;
        status = f.items ? choose_share(&f, error) : ET_OK;
        for (int64_t c = 0; c < f.candidates; c++)
            f.mixed[f.candidate[c]] = (float)f.share[c];
        put_mean(&f, f.mixed);
    }
    et_arena_release(&f.arena);
    return status;
}

/* ---- the part that is trained ---- */

static int choose_group(et_pack_part *part, et_params *params, const et_tabular_pack *pack,
                        et_error *error)
{
    et_strbuf expression = ET_STRBUF_INIT;
    const char *begin = "^" ET_PACK_MEMBER "_(";
    for (int64_t m = 0; m < et_pack_count(pack); m++)
        if (part->which[m]) {
            et_strbuf_printf(&expression, "%s%lld", begin,
                             (long long)et_pack_member_at(pack, m).number);
            begin = "|";
        }
    et_strbuf_printf(&expression, ")/");
    et_group_free(part->group);
    part->group = NULL;
    int status = expression.failed
                     ? et_alloc_failed(error, "the members of a pack")
                     : et_group_match(&part->group, params, et_strbuf_text(&expression), error);
    et_strbuf_release(&expression);
    return status;
}

int et_pack_part_follow(et_pack_part *part, et_params *params, const et_tabular_pack *pack,
                        bool *again, et_error *error)
{
    const int64_t members = et_pack_count(pack);
    int64_t left = 0, changed = 0;
    variables v;
    int status = find_all(&v, params, error);
    for (int64_t m = 0; !status && m < members; m++) {
        const bool trained = !is_done(&v, pack, m);
        left += trained;
        changed += trained != (!part->which || part->which[m]);
    }
    *again = left && changed;
    if (status || !*again)
        return status;
    if (!part->which && ET_ALLOC(part->which, members, "the members of a pack", error))
        return ET_ENOMEM;
    for (int64_t m = 0; m < members; m++)
        part->which[m] = !is_done(&v, pack, m);
    return choose_group(part, params, pack, error);
}

void et_pack_part_release(et_pack_part *part)
{
    et_free(part->which);
    et_group_free(part->group);
    *part = (et_pack_part){ NULL, NULL };
}
