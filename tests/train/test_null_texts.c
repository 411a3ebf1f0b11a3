/* A NULL text, at every public function that takes one, and NULL options or functions where they
 * are required: a status, or the header's documented result, in every build; never a crash. Each
 * call runs in a separate process. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <etude/annealing.h>
#include <etude/arguments.h>
#include <etude/checkpoint.h>
#include <etude/class_scores.h>
#include <etude/controller.h>
#include <etude/events.h>
#include <etude/example.h>
#include <etude/feature_set.h>
#include <etude/fields.h>
#include <etude/flows.h>
#include <etude/group.h>
#include <etude/job_config.h>
#include <etude/loop.h>
#include <etude/loop_evaluator.h>
#include <etude/loop_log.h>
#include <etude/loop_trainer.h>
#include <etude/metadata.h>
#include <etude/metrics.h>
#include <etude/model_export.h>
#include <etude/module.h>
#include <etude/ops.h>
#include <etude/ops_random.h>
#include <etude/optimizer.h>
#include <etude/params.h>
#include <etude/predictor.h>
#include <etude/ready_actions.h>
#include <etude/records.h>
#include <etude/results.h>
#include <etude/run.h>
#include <etude/run_files.h>
#include <etude/schema.h>
#include <etude/score.h>
#include <etude/settings.h>
#include <etude/state.h>
#include <etude/summary.h>
#include <etude/table_set.h>
#include <etude/task.h>
#include <etude/translator.h>
#include <etude/value.h>

#include "base/fields/fields.h"
#include "base/values/value.h"
#include "calls.h"
#include "data/table/schema/schema.h"
#include "data/table/table_set.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/run/run.h"

typedef struct program {
    int64_t steps;
} program;

static const et_field rows[] = {
    ET_FIELD_INT(program, steps, 7, 1, 1000, "steps"),
    ET_FIELD_END,
};
static const et_fields table = { "program", rows };

/* The other arguments of the calls. */
typedef struct world {
    et_arena *arena;
    et_params *params;
    et_state *state;
    et_value *dict, *list;
    et_metrics *metrics;
    et_event_hub *events, *restricted;
    et_example_builder *builder;
    et_loop *loop;
    et_samples *samples;
    et_source *source;
    et_module *module;
    et_results *results;
    et_schema *schema;
    et_metadata *metadata;
    et_feature_set *features;
    et_score *bleu;
    et_score *chrf;
    et_job_config *job;
    et_device_setter *setter;
    et_settings settings;
} world;

static world w;
static program options;

static void make_world(void)
{
    static const float numbers[8] = { 0 };
    static const et_array x = { "x", ET_F32, (void *)numbers, { .rank = 1, .size = { 2 } } };
    static const et_schema_field fields[] = { { .name = "a", .type = ET_SCHEMA_DISCRETE } };
    static const char *const allowed[] = { "begin" };
    static const char metadata[] = "{\"a\": {\"entries\": [\"x\"]}}";
    static const char features[] = "features: [{name: a, type: one-hot}]";
    const et_init ones = { .kind = ET_INIT_ONES };
    int index;
    w.arena = et_arena_new();
    w.dict = et_value_dict(w.arena);
    w.list = et_value_list(w.arena);
    w.settings = (et_settings){ .table = &table, .options = &options, .arena = w.arena };
    assert_ok(et_params_new(&w.params, error));
    assert_ok(et_params_declare(w.params, "w", et_shape_1(2), ones, &index, error));
    assert_ok(et_params_materialize(w.params, false, error));
    assert_ok(et_state_new(&w.state, error));
    assert_ok(et_metrics_new(&w.metrics, error));
    assert_ok(et_metrics_define(w.metrics, "mean", &et_metric_mean, error));
    assert_ok(et_event_hub_new(&w.events, NULL, 0, error));
    assert_ok(et_event_hub_new(&w.restricted, allowed, 1, error));
    assert_ok(et_example_builder_new(&w.builder, NULL, error));
    assert_ok(et_loop_open(&w.loop, w.params, &(et_loop_options){ .max_epoch = 1 }, error));
    assert_ok(et_arrays_open(&w.samples, &x, 1, 4, error));
    assert_ok(
        et_batches_open(&w.source, w.samples, &(et_batches_options){ .capacity = { 2 } }, error));
    assert_ok(et_module_new(&w.module, "Layer", NULL, NULL, error));
    assert_ok(et_schema_create(&w.schema, fields, 1, error));
    assert_ok(et_metadata_parse(&w.metadata, metadata, sizeof metadata - 1, "metadata", error));
    assert_ok(et_feature_set_parse(&w.features, features, sizeof features - 1, "features", error));
    assert_ok(et_bleu_new(&w.bleu, NULL, error));
    assert_ok(et_chrf_new(&w.chrf, NULL, error));
    assert_ok(et_job_config_local(&w.job, error));
    assert_ok(et_job_config_create_device_setter(&w.setter, w.job, NULL, error));
}

static int on_event(void *payload, const char *event, const void *what, et_error *error)
{
    (void)payload, (void)event, (void)what, (void)error;
    return ET_OK;
}

static int save_nothing(const void *self, et_value *to, et_error *error)
{
    (void)self, (void)to, (void)error;
    return ET_OK;
}

static int restore_nothing(void *self, const et_value *from, et_error *error)
{
    (void)self, (void)from, (void)error;
    return ET_OK;
}

static const et_part_class part = { "nothing", save_nothing, restore_nothing };

/* FAILS: a status other than ET_OK. LEFT: no call that can fail, or a text that may be NULL. The
 * call number wanted is made, if it is to be; false: there are not so many. */
static bool visit(int wanted, bool make, bool *right, const char **text)
{
    et_error reason = ET_ERROR_INIT, *error = &reason;
    int at = 0;
    et_scheduled_variable scheduled;
    et_annealing_scalar scalar;
    et_annealing_variable annealing;
    et_loop_trainer *trainer;
    et_loop_evaluator *evaluator;
    et_controller *controller;
    et_run *run;
    et_argument_parser *parser;
    et_checkpoints *checkpoints;
    et_conditional conditional;
    et_table_columns *data;
    et_example_builder *builder;
    et_exports *exported;
    et_persisted_value *kept;
    et_feature_set *features;
    et_group *group;
    et_job_config *job;
    et_metadata *metadata;
    et_module *module;
    et_nodes nodes = { 0 };
    et_predictor *predictor;
    et_record_reader *reader;
    et_record_writer *writer;
    et_results *results;
    et_samples *samples;
    et_schema *schema;
    et_sink *sink;
    et_source *source;
    et_statistics *statistics;
    et_translator *translator;
    et_score_result bleu = { 0 };
    float floats[2] = { 0 };
    char *path, score[ET_SCORE_TEXT_MAX];
    const char *constant;
    int64_t number = 0;
    double real;
    bool truth;
    int place;
    *right = true;
#define FAILS(...)                                                                                 \
    if (at++ == wanted) {                                                                          \
        *text = #__VA_ARGS__;                                                                      \
        if (make)                                                                                  \
            *right = (__VA_ARGS__) != ET_OK;                                                       \
        return true;                                                                               \
    }
#define LEFT(...)                                                                                  \
    if (at++ == wanted) {                                                                          \
        *text = #__VA_ARGS__;                                                                      \
        if (make)                                                                                  \
            (void)(__VA_ARGS__);                                                                   \
        return true;                                                                               \
    }
    FAILS(et_scheduled_variable_init(&scheduled, w.params, NULL, 1, error))
    FAILS(et_annealing_variable_init(&annealing, w.params, NULL, 1, 0.5, 0, error))
    LEFT(et_argument_parser_new(&parser, NULL, error))
    FAILS(et_checkpoint_load_weights(w.params, NULL, false, NULL, error))
    FAILS((path = score,
           et_checkpoint_load(&path, w.params, NULL, NULL, false, NULL, error) && !path))
    FAILS((path = score,
           et_checkpoint_load(&path, w.params, NULL, "best", false, NULL, error) && !path))
    FAILS(et_checkpoint_initialize(w.params, NULL, NULL, error))
    FAILS(et_checkpoint_restore_file(w.state, NULL, ET_RESTORE_STRICT, &number, error))
    FAILS(et_checkpoints_open(&checkpoints, NULL, w.state, NULL, error))
    FAILS(et_position_get(&(et_position){ .count = 0 }, NULL, &number, error))
    FAILS(et_csv_columns_open(&data, NULL, NULL, error))
    FAILS(et_examples_columns_open(&data, NULL, error))
    FAILS(et_event_hub_on(w.events, NULL, on_event, NULL, error))
    FAILS(et_event_hub_off(w.events, NULL, on_event, NULL, error))
    FAILS(et_event_hub_fire(w.restricted, NULL, NULL, error))
    FAILS(et_event_hub_reverse_fire(w.restricted, NULL, NULL, error))
    FAILS(et_feature_set_parse(&features, NULL, 3, "f", error))
    FAILS(et_feature_set_load(&features, NULL, error))
    FAILS(et_feature_set_save(w.features, NULL, error))
    FAILS(et_sequence_open(&samples, NULL, 0, 9, 1, error))
    FAILS(et_bernoulli_open(&source, w.source, NULL, ET_F32, 1, error))
    FAILS(et_noise_open(&source, w.source, NULL, 0, 1, 1, error))
    FAILS(et_group_match(&group, w.params, NULL, error))
    FAILS(et_job_config_parse(&job, NULL, 3, "j", error))
    FAILS(et_loop_add_object(w.loop, NULL, &part, &number, error))
    FAILS(et_loop_add_source(w.loop, NULL, w.source, error))
    FAILS(et_loop_collect(w.loop, NULL, 1))
    FAILS(et_loop_collector_begin(w.loop, NULL, &statistics))
    FAILS(et_loop_collector_end(w.loop, NULL))
    FAILS(et_loop_time_begin(w.loop, NULL))
    FAILS(et_loop_time_end(w.loop, NULL))
    LEFT(et_loop_println(w.loop, NULL, false))
    FAILS(et_metadata_parse(&metadata, NULL, 3, "m", error))
    FAILS(et_metadata_load(&metadata, NULL, error))
    FAILS(et_metadata_save(w.metadata, NULL, error))
    FAILS(et_metrics_define(w.metrics, NULL, &et_metric_mean, error))
    FAILS(et_module_new(&module, NULL, NULL, NULL, error))
    FAILS(et_module_add_param(w.module, NULL, w.params, 0, error))
    FAILS(et_module_add_params(w.module, NULL, w.params, "", error))
    FAILS(et_module_add_params(w.module, "a", w.params, NULL, error))
    FAILS(et_module_add_module(w.module, NULL, w.module, error))
    FAILS(et_params_declare(w.params, NULL, et_shape_1(2), (et_init){ 0 }, &place, error))
    FAILS(et_params_declare_variable(w.params, NULL, et_shape_1(2), (et_init){ 0 }, &place, error))
    FAILS(et_predictor_open(&predictor, NULL, NULL, error))
    FAILS(et_translator_open(&translator, NULL, NULL, error))
    FAILS(et_exports_open(&exported, NULL, 3, NULL, error))
    FAILS(et_persisted_value_open(&kept, NULL, NULL, false, error))
    FAILS(et_record_writer_open(&writer, NULL, NULL, error))
    FAILS(et_records_write(NULL, NULL, NULL, 0, error))
    FAILS(et_record_reader_open(&reader, NULL, error))
    FAILS(et_results_open(&results, NULL, NULL, error))
    FAILS(et_results_set(w.results, NULL, 1, error))
    FAILS(et_results_update(w.results, NULL, error))
    FAILS(et_results_make_directory(w.results, NULL, error))
    FAILS(et_run_files_step(NULL, &number, error))
    FAILS(et_run_files_remove_checkpoints(NULL, error))
    FAILS(et_run_files_write_metrics(NULL, 3, w.dict, error))
    FAILS(et_run_files_write_params(NULL, w.params, error))
    FAILS(et_schema_parse(&schema, NULL, 3, "s", error))
    FAILS(et_schema_load(&schema, NULL, error))
    FAILS(et_schema_save(w.schema, NULL, error))
    FAILS(et_score_add(w.bleu, NULL, "a", error))
    FAILS(et_score_add(w.bleu, "a", NULL, error))
    FAILS(et_score_sentence(w.bleu, &bleu, NULL, "a", error))
    FAILS(et_score_sentence(w.bleu, &bleu, "a", NULL, error))
    FAILS(et_score_add(w.chrf, NULL, "a", error))
    FAILS(et_score_sentence(w.chrf, &bleu, "a", NULL, error))
    FAILS(et_settings_override(&w.settings, NULL, error))
    FAILS(et_settings_read_file(&w.settings, NULL, error))
    FAILS(et_settings_write(&w.settings, NULL, error))
    FAILS(et_state_add(w.state, NULL, &part, &number, error))
    FAILS(et_state_add_tensor(w.state, NULL, floats, et_shape_1(2), error))
    FAILS(et_part_read_real(w.dict, NULL, &real, error))
    FAILS(et_sink_jsonl_open(&sink, NULL, NULL, error))
    FAILS(et_sink_events_open(&sink, NULL, NULL, error))
    FAILS(et_value_read_int(w.dict, NULL, &number, error))
    FAILS(et_value_read_float(w.dict, NULL, &real, error))
    FAILS(et_value_read_bool(w.dict, NULL, &truth, error))
    FAILS(et_value_read_string(w.dict, NULL, &constant, error))
    FAILS(et_state_add_optimizer(w.state, NULL, NULL, error))
    FAILS(et_split_size(&number, 9, NULL, error))
    FAILS(et_split_open(&samples, &samples, NULL, 0, 9, NULL, error))
    FAILS(et_annealing_scalar_init(&scalar, w.loop, NULL, error))
    FAILS(et_loop_trainer_open(&trainer, w.loop, NULL, error))
    FAILS(et_loop_evaluator_open(&evaluator, w.loop, NULL, error))
    FAILS(et_controller_open(&controller, NULL, error))
    FAILS(et_run_open(&run, NULL, error))
    FAILS(et_map_open(&source, w.source, NULL, NULL, error))
    LEFT(et_position_put(&(et_position){ .count = 0 }, NULL, 3))
    LEFT(et_layout_find(&w.source->layout, NULL))
    LEFT(et_event_hub_clear(w.events, NULL, error))
    LEFT(et_event_hub_fire(w.events, NULL, NULL, error))
    LEFT(et_example_find(et_example_built(w.builder), NULL))
    LEFT(et_example_builder_new(&builder, NULL, error))
    LEFT(et_example_add_text(w.builder, NULL, "a"))
    LEFT(et_example_add_text(w.builder, "a", NULL))
    LEFT(et_example_add_ints(w.builder, NULL, &number, 1))
    LEFT(et_feature_set_find(w.features, NULL))
    LEFT(et_samples_array(w.samples, NULL))
    LEFT(et_group_new(&group, w.params, NULL, error))
    LEFT(et_device_setter_variable(w.setter, NULL))
    LEFT(et_metadata_find(w.metadata, NULL))
    LEFT(et_metadata_position(w.metadata, NULL))
    LEFT(et_metadata_entry(w.metadata, NULL, "a", 1))
    LEFT(et_metadata_entry(w.metadata, "a", NULL, 1))
    LEFT(et_metrics_add(w.metrics, NULL, 1, 1))
    LEFT(et_metrics_index(w.metrics, NULL))
    LEFT(et_metrics_value(w.metrics, NULL))
    LEFT(et_module_remove(w.module, NULL))
    LEFT(et_params_find(w.params, NULL))
    LEFT(et_conditional_init(&conditional, NULL, NULL, NULL, NULL, 0))
    LEFT(et_periodic_init(&conditional, NULL, 0, NULL, 0, error))
    LEFT(et_schema_find(w.schema, NULL))
    LEFT(et_schema_position(w.schema, NULL))
    LEFT(et_nodes_put(&nodes, NULL, NULL))
    LEFT(et_nodes_get(&nodes, NULL))
    LEFT(et_value_get(w.dict, NULL))
    LEFT(et_value_path(w.dict, NULL))
    LEFT(et_value_leaf(w.dict, NULL, error))
    LEFT(et_value_set_null(w.dict, NULL))
    LEFT(et_value_set_bool(w.dict, NULL, true))
    LEFT(et_value_set_int(w.dict, NULL, 1))
    LEFT(et_value_set_float(w.dict, NULL, 1))
    LEFT(et_value_set_string(w.dict, NULL, "a"))
    LEFT(et_value_set_string(w.dict, "a", NULL))
    LEFT(et_value_set_dict(w.dict, NULL))
    LEFT(et_value_set_list(w.dict, NULL))
    LEFT(et_value_add_string(w.list, NULL))
    LEFT(et_part_set_real(w.dict, NULL, 1))
    LEFT(et_score_print(w.bleu, &bleu, 2, NULL, score))
    LEFT(et_score_print(w.chrf, &bleu, 2, NULL, score))
    return false;
}

/* Runs a call in a separate process; the parent reports how it ended. */
static bool holds(int i)
{
    bool right;
    const char *text;
    pid_t child = fork();
    if (!child) {
        signal(SIGSEGV, SIG_DFL); /* not cmocka's */
        signal(SIGABRT, SIG_DFL);
        visit(i, true, &right, &text);
        _exit(right ? 0 : 1);
    }
    int how = 0;
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WIFEXITED(how) && !WEXITSTATUS(how))
        return true;
    visit(i, false, &right, &text);
    print_error("%s: %s\n", text, WIFSIGNALED(how) ? "crashed" : "is no mistake");
    return false;
}

static void test_null_texts(void **state)
{
    (void)state;
    bool right;
    const char *text;
    int count = 0, failed = 0;
    make_world();
    for (; visit(count, false, &right, &text); count++)
        failed += !holds(count);
    print_message("%d calls\n", count);
    assert_true(count > 100);
    assert_int_equal(failed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_null_texts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
