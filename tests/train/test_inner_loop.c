/* The rows of an inner loop's list: when each acts, where loops of steps end, what a stop means,
 * and which part of it is in the state. An action writes a word:
 *
 *     p4   action p after step 4      p9!  at the end */
#include "train/run/inner_loop.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/values/value.h"
#include "train/train.h"

static char words[512];

typedef struct player {
    et_action action;
    et_action_class kind;
    int64_t every, stops_at; /* 0: never */
    int fails;               /* with this status, once; 0: it does not */
    et_inner_loop *evaluates;
} player;

static int64_t due(const et_action *action, int64_t step)
{
    int64_t every = ((const player *)action)->every;
    return every ? (step / every + 1) * every : ET_ACTION_NEVER;
}

static int act(et_action *action, const et_action_context *now, et_error *failure)
{
    player *p = (player *)action;
    size_t used = strlen(words);
    int status = p->fails;
    p->fails = ET_OK;
    if (status)
        return et_fail(failure, status, "%s failed", p->kind.name);
    snprintf(words + used, sizeof words - used, "%s%lld%s ", p->kind.name, (long long)now->step,
             now->end ? "!" : "");
    *now->stop = now->step == p->stops_at;
    if (p->evaluates)
        p->evaluates->evaluation.values = et_value_dict(&p->evaluates->evaluation.arena);
    return ET_OK;
}

static int step(et_trainer *trainer, et_error *failure)
{
    (void)trainer, (void)failure;
    return ET_OK;
}

static const et_trainer_class trainer_class = { .name = "toy", .step = step };
static const et_activity activity = { .name = "action", .kind = "action" };

enum { LOG, EVALUATE, TELL, PLAY, SAVE, PLAYERS };

typedef struct game {
    et_trainer trainer;
    et_state *state;
    et_run *run;
    et_inner_loop loop;
    player players[PLAYERS];
} game;

static void list(game *g, int number, et_listed_action row)
{
    row.action = &g->players[number].action;
    row.sees = &g->loop.evaluation;
    row.activity = &activity;
    et_inner_loop_list(&g->loop, row);
}

/* Logs each loop; evaluates every 4 steps, which ends loops; reports evaluations; plays every 3
 * steps, at the end of a loop; saves evaluated steps. */
static void begin(game *g)
{
    static const char *const names[PLAYERS] = { "l", "e", "t", "p", "s" };
    *g = (game){ .trainer = { .ET_CLASS = &trainer_class } };
    g->loop = (et_inner_loop){ .trainer = &g->trainer,
                               .track = et_track_off(),
                               .length = { .constant = 5 } };
    for (int i = 0; i < PLAYERS; i++) {
        g->players[i] = (player){ .kind = { names[i], due, act } };
        g->players[i].action.ET_CLASS = &g->players[i].kind;
    }
    g->players[EVALUATE].every = 4;
    g->players[EVALUATE].evaluates = &g->loop;
    g->players[PLAY].every = 3;
    const et_action *evaluation = &g->players[EVALUATE].action;
    assert_ok(et_inner_loop_init(&g->loop, PLAYERS, error));
    list(g, LOG, (et_listed_action){ .acts = ET_ACTS_EACH_LOOP });
    list(g, EVALUATE,
         (et_listed_action){
             .acts = ET_ACTS_WHEN_DUE | ET_ACTS_AT_END, .asked = evaluation, .ends_loop = true });
    list(g, TELL,
         (et_listed_action){ .acts = ET_ACTS_WHEN_EVALUATED, .asked = evaluation, .needs = true });
    list(g, PLAY,
         (et_listed_action){ .acts = ET_ACTS_WHEN_DUE, .asked = &g->players[PLAY].action });
    list(g, SAVE,
         (et_listed_action){ .acts = ET_ACTS_WHEN_EVALUATED, .asked = &g->players[SAVE].action });
    assert_ok(et_state_new(&g->state, error));
    assert_ok(et_run_open(&g->run, &(et_run_options){ .state = g->state }, error));
    g->loop.run = g->run;
    words[0] = 0;
}

static void end(game *g)
{
    et_inner_loop_release(&g->loop);
    assert_ok(et_run_close(g->run, error));
    et_state_free(g->state);
}

static int run(game *g, int64_t target, bool call, et_error *failure)
{
    return et_inner_loop_run(&g->loop, &(et_goal){ .target = target, .call = call }, failure);
}

/* A loop ends after 5 steps, or when the evaluation is due. */
static void test_inner_loop__rows(void **state)
{
    (void)state;
    game g;
    begin(&g);
    assert_ok(run(&g, 10, false, error));
    assert_string_equal(words, "l4 e4 t4 p4 s4 l8 e8 t8 p8 s8 l10! e10! t10! p10! s10! ");
    end(&g);

    begin(&g); /* a row that does not act still ends loops */
    g.loop.actions[EVALUATE].acts = 0;
    assert_ok(run(&g, 9, false, error));
    assert_string_equal(words, "l4 p4 l8 p8 l9! p9! ");
    end(&g);
}

static int64_t growing(void *payload, int64_t step)
{
    (void)payload;
    return step == 7 ? 0 : step + 1;
}

static void test_inner_loop__length(void **state)
{
    (void)state;
    game g;
    begin(&g);
    g.loop.actions[EVALUATE].ends_loop = false;
    g.loop.length = (et_loop_length){ .steps = growing };
    assert_ok(run(&g, 7, false, error));
    assert_string_equal(words, "l1 l3 p3 l7! e7! t7! p7! s7! ");
    assert_fails(run(&g, 9, false, error), ET_ECONFIG, "gives 0 after step 7");
    g.loop.length = (et_loop_length){ .constant = 0 }; /* no limit */
    words[0] = 0;
    assert_ok(run(&g, 20, false, error));
    assert_string_equal(words, "l20! e20! t20! p20! s20! ");
    end(&g);
}

/* Rows that had not acted act as at an end. A stop of one call does not stop the next. */
static void test_inner_loop__stop(void **state)
{
    (void)state;
    for (int call = 0; call < 2; call++) {
        game g;
        begin(&g);
        g.loop.length.constant = 2;
        g.players[LOG].stops_at = 2;
        assert_ok(run(&g, 10, call, error));
        assert_string_equal(words, "l2 e2! t2! p2! s2! ");
        words[0] = 0;
        assert_ok(run(&g, 4, call, error));
        assert_string_equal(words, call ? "l4! e4! t4! p4! s4! " : "");
        end(&g);
    }
}

/* A loop that failed in an action, as the state records, resumes there in another process. */
static void test_inner_loop__progress(void **state)
{
    (void)state;
    game g, other;
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    const char *next;
    int64_t began = -1;
    begin(&g);
    g.players[PLAY].fails = ET_EIO;
    assert_fails(run(&g, 10, false, error), ET_EIO, "p failed");
    assert_string_equal(words, "l4 e4 t4 ");
    assert_ok(et_progress_part.save(&g.loop, dict, error));
    assert_ok(et_value_read_string(dict, "next", &next, error));
    assert_string_equal(next, "p");
    assert_ok(et_value_read_int(dict, "loop", &began, error));
    assert_int_equal(began, 0);
    end(&g);

    begin(&other);
    assert_ok(et_progress_part.restore(&other.loop, dict, error));
    assert_int_equal(other.trainer.step, 4);
    assert_ok(run(&other, 8, false, error));
    assert_string_equal(words, "p4 s4 l8! e8! t8! p8! s8! ");
    end(&other);

    begin(&other); /* without that action the next one is unknown */
    other.loop.count = other.loop.position.next = other.loop.position.stopper = PLAY;
    assert_fails(et_progress_part.restore(&other.loop, dict, error), ET_EFORMAT,
                 "no action is called p");
    end(&other);
    et_arena_release(&arena);
}

/* If all rows end loops, the begin of a loop is not needed, and not saved. */
static void test_inner_loop__begin(void **state)
{
    (void)state;
    game g;
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    begin(&g);
    g.loop.actions[PLAY].ends_loop = g.loop.actions[SAVE].ends_loop = true;
    g.loop.actions[TELL].ends_loop = true;
    g.players[PLAY].fails = ET_EIO;
    assert_fails(run(&g, 10, false, error), ET_EIO, "p failed");
    assert_string_equal(words, "l3 ");
    assert_ok(et_progress_part.save(&g.loop, dict, error));
    assert_null(et_value_get(dict, "loop"));
    assert_ok(et_progress_part.restore(&g.loop, dict, error));
    assert_ok(run(&g, 4, false, error));
    assert_string_equal(words, "l3 p3 l4! e4! t4! s4! ");
    end(&g);
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_inner_loop__rows),  cmocka_unit_test(test_inner_loop__length),
        cmocka_unit_test(test_inner_loop__stop),  cmocka_unit_test(test_inner_loop__progress),
        cmocka_unit_test(test_inner_loop__begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
