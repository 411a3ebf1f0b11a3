/* Packs: what members draw, their part of an optimizer, the greedy choice against a search by hand,
 * and what follows a validation. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <etude/params.h>

#include "base/text/pattern.h"
#include "base/values/value.h"
#include "calls.h"
#include "tasks/tabular/members.h"
#include "tasks/tabular/networks/networks_private.h"

static et_tabular_pack default_pack(void)
{
    et_tabular_options o;
    et_fields_defaults(&et_tabular_fields, &o);
    return o.model.pack;
}

/* ---- members ---- */

static void assert_same_member(const et_pack_member *a, const et_pack_member *b)
{
    assert_int_equal(a->number, b->number);
    assert_int_equal(a->num_layers, b->num_layers);
    assert_int_equal(a->columns.frequencies, b->columns.frequencies);
    assert_true(a->dropout == b->dropout && a->matrix_rate == b->matrix_rate &&
                a->rate == b->rate && a->weight_decay == b->weight_decay &&
                a->columns.frequency_scale == b->columns.frequency_scale);
}

/* A member is the same in packs of any size, of any order, and of some. */
static void test_pack__members_are_their_own(void **state)
{
    (void)state;
    static const char *const some[] = { "17", "3" };
    et_tabular_pack all = default_pack(), few = all, other = all;
    few.only = (et_strings){ .items = some, .count = 2 };
    other.settings_seed = 1;
    assert_int_equal(et_pack_count(&all), 64);
    assert_int_equal(et_pack_count(&few), 2);
    for (int i = 0; i < 2; i++) {
        const et_pack_member a = et_pack_member_at(&all, i ? 3 : 17);
        const et_pack_member b = et_pack_member_at(&few, i);
        const et_pack_member c = et_pack_member_at(&other, i ? 3 : 17);
        assert_same_member(&a, &b);
        assert_true(a.rate != c.rate && a.weight_decay != c.weight_decay);
    }
}

/* The ranges, and that their ends are come near to. */
static void test_pack__ranges(void **state)
{
    (void)state;
    enum { MANY = 2000 };
    et_tabular_pack pack = default_pack();
    int dropping = 0, layers[4] = { 0 }, frequencies[32] = { 0 };
    double least[3] = { 1e9, 1e9, 1e9 }, most[3] = { 0 };
    pack.members = MANY;
    for (int i = 0; i < MANY; i++) {
        const et_pack_member m = et_pack_member_at(&pack, i);
        const double drawn[3] = { m.matrix_rate, m.rate, m.weight_decay };
        assert_true(m.num_layers >= 1 && m.num_layers <= 3);
        assert_true(m.columns.frequencies >= 7 && m.columns.frequencies <= 31);
        assert_true(m.columns.frequencies % 4 == 3);
        assert_true(m.columns.frequency_scale >= 0.01 && m.columns.frequency_scale <= 10);
        assert_true(m.dropout >= 0 && m.dropout <= 0.5);
        layers[m.num_layers]++;
        frequencies[m.columns.frequencies]++;
        dropping += m.dropout > 0;
        for (int k = 0; k < 3; k++) {
            least[k] = fmin(least[k], drawn[k]);
            most[k] = fmax(most[k], drawn[k]);
        }
    }
    for (int i = 1; i <= 3; i++)
        assert_true(layers[i] > MANY / 4);
    for (int i = 7; i <= 31; i += 4)
        assert_true(frequencies[i] > MANY / 12);
    assert_true(dropping > MANY * 2 / 5 && dropping < MANY * 3 / 5);
    static const double ends[3][2] = { { 1e-3, 0.1 }, { 1e-4, 5e-3 }, { 1e-3, 1 } };
    for (int k = 0; k < 3; k++) {
        assert_true(least[k] >= ends[k][0] * 0.9999 && least[k] < ends[k][0] * 1.1);
        assert_true(most[k] <= ends[k][1] * 1.0001 && most[k] > ends[k][1] * 0.9);
    }
}

static void test_pack__only_is_checked(void **state)
{
    (void)state;
    static const char *const wrong[][2] = { { "1", "x" }, { "1", "-1" }, { "1", "4096" },
                                            { "1", "1" }, { "1", "" },   { "1", "2.5" } };
    et_tabular_pack pack = default_pack();
    assert_ok(et_pack_check(&pack, error));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pack.only = (et_strings){ .items = wrong[i], .count = 2 };
        assert_fails(et_pack_check(&pack, error), ET_ECONFIG, "task.model.pack.only");
    }
    pack.only.count = 1;
    assert_ok(et_pack_check(&pack, error));
}

/* ---- the optimizer ---- */

static bool found(const char *pattern, const char *name)
{
    et_patterns *patterns;
    assert_ok(
        et_patterns_new(&patterns, (et_strings){ .items = &pattern, .count = 1 }, "x", error));
    const bool is = et_patterns_match(patterns, name);
    et_patterns_free(patterns);
    return is;
}

/* A name is of one group at most: its rate and decay are the member's. */
static void test_pack__groups(void **state)
{
    (void)state;
    static const char *const names[] = { "member_1/layer_0/weight", "member_1/layer_0/bias",
                                         "member_1/logits/weight", "member_11/layer_0/weight",
                                         "best/member_1/logits/bias" };
    static const int group_of[] = { 2, 3, 3, 0, 0 };
    et_arena arena = ET_ARENA_INIT;
    et_tabular_pack pack = default_pack();
    et_optimization_options from, to;
    et_fields_defaults(&et_optimization_fields, &from);
    et_parameter_group_options own = { .pattern = "other", .learning_rate_multiplier = 7 };
    from.parameter_groups.items = &own;
    from.parameter_groups.count = 1;
    from.optimizer.type = ET_OPTIMIZER_MUON;
    from.optimizer.muon.adam_rate = 0.5;
    pack.members = 2;
    assert_ok(et_pack_optimization(&to, &from, &pack, &arena, error));
    const et_parameter_group_options *g = to.parameter_groups.items;
    const et_pack_member m = et_pack_member_at(&pack, 1);
    assert_int_equal(to.parameter_groups.count, 5);
    assert_string_equal(g[0].pattern, "other");
    for (int i = 0; i < 5; i++)
        for (int k = 1; k < 5; k++)
            assert_true(found(g[k].pattern, names[i]) == (group_of[i] && k == group_of[i] + 1));
    assert_true(g[3].learning_rate_multiplier == m.matrix_rate);
    assert_true(g[4].learning_rate_multiplier == m.rate / 0.5);
    assert_true(g[3].weight_decay_rate == m.weight_decay);
    assert_true(g[4].weight_decay_rate == m.weight_decay);
    from.optimizer.type = ET_OPTIMIZER_ADAMW;
    assert_ok(et_pack_optimization(&to, &from, &pack, &arena, error));
    g = to.parameter_groups.items;
    assert_true(g[3].learning_rate_multiplier == m.rate);
    assert_true(g[4].learning_rate_multiplier == m.rate);
    et_arena_release(&arena);
}

/* ---- the greedy choice ---- */

enum { CANDIDATES = 3, ITEMS = 2 };

/* The loss of the chosen mean. */
static double choose(double *share, const et_pack_choice *choice, int candidates, int rounds)
{
    const et_greedy greedy = et_pack_greedy(choice, candidates, rounds);
    float mean[ITEMS] = { 0 };
    assert_ok(et_greedy_choose(&greedy, share, error));
    for (int c = 0; c < candidates; c++)
        for (int64_t i = 0; i < choice->items; i++)
            mean[i] += (float)share[c] * choice->prediction[c * choice->items + i];
    return et_pack_loss(mean, choice->target, choice->items);
}

/* Of values: 0 alone is best, then 1 makes up for it; 2 is 0 again, and never chosen. */
static void test_pack__greedy_values(void **state)
{
    (void)state;
    static const float prediction[CANDIDATES * ITEMS] = { 1, 1, -3, -3, 1, 1 };
    static const double target[ITEMS] = { 0, 0 };
    const et_pack_choice choice = { prediction, target, ITEMS };
    double share[CANDIDATES];
    assert_true(et_pack_loss(prediction + ITEMS, target, ITEMS) == 9);
    assert_true(choose(share, &choice, CANDIDATES, 6) == 0);
    assert_true(share[0] == 0.75 && share[1] == 0.25 && share[2] == 0);
}

/* More choices that only make it worse do not count. */
static void test_pack__greedy_stops_at_the_best(void **state)
{
    (void)state;
    static const float prediction[2] = { 0, 8 };
    static const double target[1] = { 0 };
    const et_pack_choice choice = { prediction, target, 1 };
    double share[2];
    for (int most = 1; most < 4; most++) {
        assert_true(choose(share, &choice, 2, most) == 0);
        assert_true(share[0] == 1 && share[1] == 0);
    }
}

/* Of classes: two that are each wrong once are not as wrong together. A probability of 0 is no
 * infinity.
 */
static void test_pack__greedy_classes(void **state)
{
    (void)state;
    static const float prediction[CANDIDATES * ITEMS] = { 0.9f, 0.1f, 0.1f, 0.9f, 0, 1 };
    const et_pack_choice choice = { prediction, NULL, ITEMS };
    double share[CANDIDATES];
    assert_true(isfinite(et_pack_loss(prediction + 2 * ITEMS, NULL, ITEMS)));
    assert_true(fabs(choose(share, &choice, CANDIDATES, 2) - log(2)) < 1e-6);
    assert_true(share[0] == 0.5 && share[1] == 0.5 && share[2] == 0);
}

/* ---- what follows a validation ---- */

enum { MEMBERS = 2, ROWS = 2 };

typedef struct fixture {
    et_tabular_pack pack;
    et_params *params;
    et_arena arena;
    float member[ROWS * 2 * MEMBERS], mean[ROWS];
    double weight[ROWS], target[ROWS];
    et_pack_rows rows;
} fixture;

static float *at(fixture *f, const char *name)
{
    const int index = et_params_find(f->params, name);
    if (index < 0)
        fail_msg("no %s", name);
    return et_params_values(f->params) + et_params_offset(f->params, index);
}

static void open_pack(fixture *f)
{
    const et_init zeros = { ET_INIT_ZEROS, 0 };
    const et_shape one = et_shape_1(1), all = et_shape_1(MEMBERS);
    int index;
    *f = (fixture){ .pack = default_pack(), .arena = ET_ARENA_INIT, .weight = { 1, 1 } };
    f->pack.members = MEMBERS;
    f->pack.patience = 2;
    assert_ok(et_params_new(&f->params, error));
    assert_ok(et_params_declare(f->params, "member_0/w", one, zeros, &index, error));
    assert_ok(et_params_declare(f->params, "member_1/w", one, zeros, &index, error));
    assert_ok(et_params_declare_variable(f->params, "best/member_0/w", one, zeros, &index, error));
    assert_ok(et_params_declare_variable(f->params, "best/member_1/w", one, zeros, &index, error));
    assert_ok(et_params_declare_variable(f->params, "ensemble/share", all, zeros, &index, error));
    assert_ok(et_params_declare_variable(f->params, "ensemble/loss", all, zeros, &index, error));
    assert_ok(et_params_declare_variable(f->params, "ensemble/since", all, zeros, &index, error));
    assert_ok(et_params_materialize(f->params, false, error));
    f->rows = (et_pack_rows){ .count = ROWS,
                              .width = 1,
                              .weight = f->weight,
                              .target = f->target,
                              .members = f->member,
                              .mean = f->mean };
}

static void close_pack(fixture *f)
{
    et_params_free(f->params);
    et_arena_release(&f->arena);
}

/* A validation in which the members have these weights and predict them, for targets 0. */
static void follow(fixture *f, float first, float second)
{
    *at(f, "member_0/w") = first;
    *at(f, "member_1/w") = second;
    for (int row = 0; row < ROWS; row++) {
        float *to = f->member + row * 2 * MEMBERS;
        to[0] = first;
        to[1] = second;
        to[2] = *at(f, "best/member_0/w");
        to[3] = *at(f, "best/member_1/w");
    }
    et_value *logs = et_value_dict(&f->arena);
    assert_ok(et_pack_follow(f->params, &f->pack, &f->rows, logs, error));
    assert_non_null(et_value_get(logs, "validation_ensemble_members"));
}

static void assert_best(fixture *f, float first, float second)
{
    assert_true(*at(f, "best/member_0/w") == first && *at(f, "best/member_1/w") == second);
}

/* The best weights stay until there are better ones, or for good when the patience is at its end;
 * the ensemble is of the best. */
static void test_pack__best_and_done(void **state)
{
    (void)state;
    fixture f;
    open_pack(&f);
    assert_ok(et_pack_begin(f.params, &f.pack, true, error));
    follow(&f, 2, -4);
    assert_best(&f, 2, -4);
    assert_true(fabsf(f.mean[0]) < 1e-6f); /* two of three choices are the first */
    assert_true(fabsf(at(&f, "ensemble/share")[0] - 2 / 3.0f) < 1e-6f);
    follow(&f, 3, -1);
    assert_best(&f, 2, -1);
    assert_true(fabsf(at(&f, "ensemble/share")[1] - 2 / 3.0f) < 1e-6f);
    follow(&f, 3, -2);
    assert_best(&f, 2, -1);
    assert_true(at(&f, "ensemble/since")[0] == 3 && at(&f, "ensemble/since")[1] == 2);
    follow(&f, 1, -0.5f); /* the first is done, the second is not */
    assert_best(&f, 2, -0.5f);
    assert_true(at(&f, "ensemble/since")[0] == 3 && at(&f, "ensemble/since")[1] == 1);
    follow(&f, NAN, -0.6f);
    assert_best(&f, 2, -0.5f);
    assert_ok(et_pack_begin(f.params, &f.pack, true, error));
    follow(&f, 5, -5);
    assert_best(&f, 5, -5);
    close_pack(&f);
}

/* The part that is trained: all, then those that are not done, in a restored store too; if none is
 * left, it stays as it was. */
static void test_pack__done_members_leave(void **state)
{
    (void)state;
    fixture f;
    et_pack_part part = { NULL, NULL }, restored = part;
    bool again;
    open_pack(&f);
    float *since = at(&f, "ensemble/since");
    assert_ok(et_pack_part_follow(&part, f.params, &f.pack, &again, error));
    assert_true(!again && !part.which && !part.group);
    since[0] = 3;
    since[1] = 2;
    assert_ok(et_pack_part_follow(&part, f.params, &f.pack, &again, error));
    assert_true(again && !part.which[0] && part.which[1]);
    assert_int_equal(et_group_count(part.group), 1);
    assert_int_equal(et_group_param(part.group, 0), et_params_find(f.params, "member_1/w"));
    assert_ok(et_pack_part_follow(&part, f.params, &f.pack, &again, error));
    assert_false(again);
    assert_ok(et_pack_part_follow(&restored, f.params, &f.pack, &again, error));
    assert_true(again && !restored.which[0] && restored.which[1]);
    since[1] = 3;
    assert_ok(et_pack_part_follow(&part, f.params, &f.pack, &again, error));
    assert_true(!again && part.which[1]);
    et_pack_part_release(&part);
    et_pack_part_release(&restored);
    close_pack(&f);
}

/* Rows that were not seen, and rows without a label, are not counted. */
static void test_pack__rows_that_count(void **state)
{
    (void)state;
    static const int32_t class[ROWS] = { 1, -1 };
    static const double weight[ROWS] = { 1, 0 };
    fixture f;
    open_pack(&f);
    f.rows.weight = weight;
    follow(&f, 1, 1);
    f.member[4] = f.member[5] = 100;
    follow(&f, 1, 1);
    assert_true(at(&f, "ensemble/loss")[0] == 1);
    assert_ok(et_pack_begin(f.params, &f.pack, true, error));
    f.rows.weight = f.weight;
    f.rows.class = class;
    f.rows.target = NULL;
    follow(&f, 0.5f, 0.25f);
    assert_true(fabs((double)at(&f, "ensemble/loss")[0] - log(2)) < 1e-6);
    assert_true(fabs((double)at(&f, "ensemble/loss")[1] - log(4)) < 1e-6);
    close_pack(&f);
}

/* Two of ten rows, those of the first part, are 0, and the others are 1. All rows choose 0.8 of the
 * member that predicts 1. The first part has no part in its own choice; each other part chooses
 * with six rows of 1 and two of 0. */
static void test_pack__cross_fit(void **state)
{
    (void)state;
    enum { COUNT = 10 };
    fixture f;
    float member[COUNT * 2 * MEMBERS], mean[COUNT];
    double weight[COUNT], target[COUNT];
    open_pack(&f);
    for (int row = 0; row < COUNT; row++) {
        float *to = member + row * 2 * MEMBERS;
        to[0] = to[1] = NAN; /* members as they are do not count */
        to[2] = 0;
        to[3] = 1;
        target[row] = row % 5 > 0;
        weight[row] = 1;
    }
    f.rows = (et_pack_rows){ .count = COUNT,
                             .width = 1,
                             .weight = weight,
                             .target = target,
                             .members = member,
                             .mean = mean };
    at(&f, "ensemble/since")[0] = at(&f, "ensemble/since")[1] = 1;
    at(&f, "ensemble/share")[1] = 1;
    assert_ok(et_pack_cross_fit(f.params, &f.pack, &f.rows, error));
    for (int row = 0; row < COUNT; row++)
        assert_true(mean[row] == (row % 5 ? 0.75f : 1));
    assert_true(at(&f, "ensemble/share")[1] == 1);
    f.rows.count = 1; /* no other row: the plain mean */
    assert_ok(et_pack_cross_fit(f.params, &f.pack, &f.rows, error));
    assert_true(mean[0] == 0.5f);
    close_pack(&f);
}

static void test_pack__refused(void **state)
{
    (void)state;
    fixture f;
    et_params *other;
    et_value *logs;
    open_pack(&f);
    logs = et_value_dict(&f.arena);
    assert_ok(et_params_new(&other, error));
    assert_ok(et_params_materialize(other, false, error));
    assert_fails(et_pack_begin(f.params, &f.pack, false, error), ET_ECONFIG, "own rate");
    assert_fails(et_pack_begin(other, &f.pack, true, error), ET_ECONFIG, "It needs validation");
    f.weight[0] = f.weight[1] = 0;
    assert_fails(et_pack_follow(f.params, &f.pack, &f.rows, logs, error), ET_EDATA,
                 "no validation row");
    f.weight[0] = 1;
    f.member[0] = f.member[1] = NAN;
    assert_fails(et_pack_follow(f.params, &f.pack, &f.rows, logs, error), ET_EDIVERGED,
                 "not finite");
    et_params_free(other);
    close_pack(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pack__members_are_their_own),
        cmocka_unit_test(test_pack__ranges),
        cmocka_unit_test(test_pack__only_is_checked),
        cmocka_unit_test(test_pack__groups),
        cmocka_unit_test(test_pack__greedy_values),
        cmocka_unit_test(test_pack__greedy_stops_at_the_best),
        cmocka_unit_test(test_pack__greedy_classes),
        cmocka_unit_test(test_pack__best_and_done),
        cmocka_unit_test(test_pack__done_members_leave),
        cmocka_unit_test(test_pack__rows_that_count),
        cmocka_unit_test(test_pack__cross_fit),
        cmocka_unit_test(test_pack__refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
