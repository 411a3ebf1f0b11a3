#include "systems/modelgarden/trainable.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "formats/files.h"
#include "systems/modelgarden/task_trainer_private.h"

static const char *const own[] = { "validation_accuracy", "validation_loss", NULL };

/* The main metrics of a task of that class, whose validation data has so many sets. */
static et_main_metrics metrics_of(const et_task_class *class, int sets, const char *prefix,
                                  bool only_first, et_arena *arena)
{
    et_task task = { .class = class };
    et_source source = { .class = NULL };
    et_task_trainer *trainer = test_calloc(1, sizeof *trainer);
    et_main_metrics metrics = { .count = 0 };
    trainer->task = &task;
    trainer->validation.source = sets >= 0 ? &source : NULL;
    trainer->validation.sets = sets > 0 ? sets : 0;
    for (int i = 0; i < sets; i++)
        trainer->validation.set[i].name = (const char *const[]){ "news", "chat", "law" }[i];
    assert_ok(et_main_metrics_of_task(&metrics, trainer, prefix, only_first, arena, error));
    test_free(trainer);
    return metrics;
}

static void check(et_main_metrics metrics, const char *const *names)
{
    for (int i = 0; i < metrics.count || names[i]; i++) {
        assert_true(i < metrics.count && names[i]);
        assert_string_equal(metrics.name[i], names[i]);
    }
}

/* The same name twice, however it is written, and one too many. */
static void test_main_metrics__add(void **state)
{
    (void)state;
    et_main_metrics m = { .count = 0 };
    const char *const names[] = { "a|b", "a/b", "a", "a.b", "b", "a|b", "c", "d" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        et_main_metrics_add(&m, names[i]);
    const char *const kept[] = { "a|b", "a", "b", "c", NULL };
    check(m, kept);
}

/* A loss and its doubles are one metric, of each set. */
static void test_main_metrics__add_double(void **state)
{
    (void)state;
    et_main_metrics m = { .count = 0 };
    const char *const names[] = { "validation_log_loss",  "validation_log_likelihood",
                                  "validation_accuracy",  "validation_loss",
                                  "news|validation_loss", "news/validation_nll",
                                  "chat/validation_nll" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        et_main_metrics_add(&m, names[i]);
    const char *const kept[] = { "validation_log_loss", "validation_accuracy",
                                 "news|validation_loss", "chat/validation_nll", NULL };
    check(m, kept);
}

static void test_main_metrics__of_task(void **state)
{
    (void)state;
    static const et_task_class plain = { .name = "plain" };
    static const et_task_class best = { .name = "best", .best_metric = "bleu" };
    static const et_task_class both = { .name = "both",
                                        .best_metric = "bleu",
                                        .main_metrics = own };
    static const char *const loss[] = { "validation_loss", NULL };
    static const char *const bleu[] = { "bleu", "validation_loss", NULL };
    static const char *const sets[] = { "news/bleu", "chat/bleu", NULL };
    static const char *const first[] = { "prices/news/bleu", NULL };
    static const char *const alone[] = { "prices/validation_loss", NULL };
    static const char *const none[] = { NULL };
    et_arena arena = ET_ARENA_INIT;
    check(metrics_of(&plain, 0, "", false, &arena), loss);
    check(metrics_of(&best, 0, "", false, &arena), bleu);
    check(metrics_of(&both, 0, "", false, &arena), own);
    check(metrics_of(&both, 2, "", false, &arena), sets);
    check(metrics_of(&both, 3, "prices/", true, &arena), first);
    check(metrics_of(&plain, 0, "prices/", true, &arena), alone);
    check(metrics_of(&both, -1, "", false, &arena), none);
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_main_metrics__add),
        cmocka_unit_test(test_main_metrics__add_double),
        cmocka_unit_test(test_main_metrics__of_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
