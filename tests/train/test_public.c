/* Training in a program that only uses public headers. */
#include <etude/etude.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "engine/tensor/params.h"
#include "train/run/run.h"

static int save_count(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    return et_value_set_int(dict, "count", *(const int64_t *)self) ? ET_OK : ET_ENOMEM;
}

static int restore_count(void *self, const et_value *dict, et_error *error)
{
    return et_value_read_int(dict, "count", self, error);
}

static const et_part_class count_part = { "count", save_count, restore_count };

static char *directory(char *text)
{
    snprintf(text, 64, "public.XXXXXX");
    assert_non_null(mkdtemp(text));
    return text;
}

static et_params *make_params(void)
{
    et_error error = ET_ERROR_INIT;
    et_init init = { ET_INIT_NORMAL, 1 };
    et_params *params;
    int index;
    assert_int_equal(et_params_new(&params, &error), ET_OK);
    assert_int_equal(et_params_declare(params, "w", et_shape_2(3, 5), init, &index, &error), ET_OK);
    assert_int_equal(et_params_materialize(params, false, &error), ET_OK);
    return params;
}

/* A state is saved in a directory without a run, and restored; then only its weights. */
static void test_public__checkpoints(void **state)
{
    (void)state;
    char where[64], *path = NULL;
    et_error error = ET_ERROR_INIT;
    int64_t counts[2] = { 17, 0 }, step = 0;
    et_params *params[3];
    directory(where);
    for (int i = 0; i < 2; i++) {
        et_state *tree;
        et_checkpoints *checkpoints;
        params[i] = make_params();
        et_init_draw(params[i], 1 + (uint64_t)i);
        assert_int_equal(et_state_new(&tree, &error), ET_OK);
        assert_int_equal(et_state_add_params(tree, params[i], &error), ET_OK);
        assert_int_equal(et_state_add(tree, "count", &count_part, &counts[i], &error), ET_OK);
        assert_int_equal(et_checkpoints_open(&checkpoints, where, tree, NULL, &error), ET_OK);
        assert_int_equal(et_checkpoints_restore(checkpoints, &step, &error), ET_OK);
        assert_int_equal(step, i ? 5 : -1);
        assert_int_equal(et_checkpoints_save(checkpoints, 5, &error), ET_OK);
        assert_int_equal(et_checkpoints_close(checkpoints, &error), ET_OK);
        et_state_free(tree);
    }
    assert_int_equal(counts[1], 17);
    params[2] = make_params();
    et_checkpoint_facts facts = { 0 };
    assert_int_equal(et_checkpoint_load(&path, params[2], where, NULL, true, &facts, &error),
                     ET_OK);
    assert_int_equal(facts.step, 5);
    et_checkpoint_free_path(path);
    for (int i = 1; i < 3; i++)
        assert_memory_equal(et_params_values(params[i]), et_params_values(params[0]),
                            (size_t)et_params_flat_size(params[0]) * sizeof(float));
    assert_true(et_params_values(params[0])[0] != 0);
    for (int i = 0; i < 3; i++)
        et_params_free(params[i]);
}

/* Logs of a program that owns its loop. */
static void test_public__summaries(void **state)
{
    (void)state;
    char where[64], path[80], line[200];
    et_error error = ET_ERROR_INIT;
    et_sink *sinks[2], *sink;
    et_metrics *metrics;
    et_arena *arena = et_arena_new();
    et_value *logs = et_value_dict(arena);
    directory(where);
    snprintf(path, sizeof path, "%s/metrics.jsonl", where);
    assert_int_equal(et_metrics_new(&metrics, &error), ET_OK);
    assert_int_equal(et_metrics_define(metrics, "loss", &et_metric_mean, &error), ET_OK);
    et_metrics_add(metrics, "loss", 1, 1);
    et_metrics_add(metrics, "loss", 3, 3);
    assert_int_equal(et_metrics_results(metrics, et_value_set_dict(logs, "train"), &error), ET_OK);
    assert_int_equal(et_sink_jsonl_open(&sinks[0], path, NULL, &error), ET_OK);
    assert_int_equal(et_sink_events_open(&sinks[1], where, NULL, &error), ET_OK);
    assert_int_equal(et_sink_multi_open(&sink, sinks, 2, &error), ET_OK);
    assert_int_equal(et_sink_write(sink, 200, logs, &error), ET_OK);
    assert_int_equal(et_sink_close(sink, &error), ET_OK);
    et_arena_free(arena);
    et_arena_free(NULL);
    et_metrics_free(metrics);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    assert_memory_equal(line, "{\"step\":200,\"train\":{\"loss\":2.5}", 32);
}

/* Functions that require options refuse NULL. */
static void test_public__missing_options(void **state)
{
    (void)state;
    et_error error = ET_ERROR_INIT;
    et_controller *controller;
    et_run *run;
    assert_int_equal(et_controller_open(&controller, NULL, &error), ET_EUSAGE);
    assert_non_null(strstr(error.text, "et_controller_options: NULL; pass a struct"));
    assert_int_equal(et_run_open(&run, NULL, &error), ET_EUSAGE);
    assert_non_null(strstr(error.text, "et_run_options: NULL; pass a struct"));
}

static void test_public__version(void **state)
{
    (void)state;
    int major, minor, patch;
    assert_int_equal(sscanf(ET_VERSION, "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(ET_VERSION_NUMBER, major * 10000 + minor * 100 + patch);
    assert_int_equal(et_version_number(), ET_VERSION_NUMBER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_public__checkpoints),
        cmocka_unit_test(test_public__summaries),
        cmocka_unit_test(test_public__missing_options),
        cmocka_unit_test(test_public__version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
