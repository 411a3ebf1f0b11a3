/* Model Garden, official/nlp/modeling/models/seq2seq_transformer_test.py: four sources of ten
 * tokens, or of ten embedded rows with a mask, and four targets of eight. The reference also runs
 * its cases on TPUs. Batches are packed, so [4, 8, 100] is [32, 100]. */
#include "references/translation/translation_fixture.h"

#include <etude/hypotheses.h>

enum { BATCH = 4, LENGTH = 10, TARGETS = 8, WIDTH = 16, TOKENS = 100 };

#define STACK                                                                                      \
    "{num_layers: 1, num_attention_heads: 2, intermediate_size: 32, activation: relu, "            \
    "dropout_rate: 0.01, attention_dropout_rate: 0.01, use_bias: false, norm_first: true, "        \
    "final_norm: true, norm_epsilon: 1e-6, intermediate_dropout: 0.01}"
#define SETTINGS(padded)                                                                           \
    "{task: {model: {encoder: " STACK ", decoder: " STACK ", embedding_width: 16, "                \
    "dropout_rate: 0.01, padded_decode: " padded ", decode_max_length: 10, beam_size: 4, "         \
    "alpha: 0.6}, vocabulary: {size: 100}, train_data: {source_path: words.en, "                   \
    "target_path: words.de, global_batch_size: 64, max_seq_length: 32}}, "                         \
    "trainer: {train_steps: 1}, runtime: {mixed_precision_dtype: float32}}"

/* Enough text for a vocabulary of 100. */
static void write_words(const char *path, int first)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < 400; i++)
        fprintf(file, "%c%c%c%c %c%c\n", 'a' + (i + first) % 26, 'a' + i * 7 % 26,
                'a' + i / 26 % 26, 'a' + i * 3 % 26, 'a' + i * 11 % 26, 'a' + i / 7 % 26);
    assert_int_equal(fclose(file), 0);
}

/* ---- batches of a program ---- */

/* The batch's fields are those of the task, with rows in place of the sources' ids for embedded
 * ones. */
static et_layout layout_of(const et_source *source, bool embedded, et_layout_field *fields)
{
    et_layout layout = source->layout;
    memcpy(fields, layout.field, (size_t)layout.fields * sizeof *fields);
    const int ids = et_layout_find(&layout, "source_ids");
    if (embedded)
        fields[ids] = (et_layout_field){ .name = "source_embedded",
                                         .dtype = ET_F32,
                                         .item = et_shape_1(WIDTH),
                                         .kind = fields[ids].kind };
    layout.field = fields;
    layout.capacity[0] = BATCH;
    layout.capacity[1] = BATCH * LENGTH;
    layout.capacity[2] = BATCH * TARGETS;
    return layout;
}

static int32_t *field_of(et_batch *batch, const char *name)
{
    return batch->data[et_layout_find(batch->layout, name)];
}

/* All ids and rows are zeros, and no row is masked. */
static et_batch *zeros(const et_layout *layout, bool targets)
{
    et_batch *batch;
    ok(et_batch_new(&batch, layout, &error));
    const int rows = et_layout_find(layout, "source_embedded");
    memset(batch->data[rows < 0 ? et_layout_find(layout, "source_ids") : rows], 0,
           BATCH * LENGTH * (rows < 0 ? sizeof(int32_t) : WIDTH * sizeof(float)));
    for (int i = 0; i < BATCH * LENGTH; i++)
        field_of(batch, "source_positions")[i] = i % LENGTH;
    for (int i = 0; i < BATCH * TARGETS; i++) {
        field_of(batch, "target_ids")[i] = field_of(batch, "target_labels")[i] = 0;
        field_of(batch, "target_positions")[i] = i % TARGETS;
    }
    for (int i = 0; i <= BATCH; i++) {
        field_of(batch, "source_offsets")[i] = i * LENGTH;
        field_of(batch, "target_offsets")[i] = i * TARGETS;
    }
    batch->filled[0] = BATCH;
    batch->filled[1] = BATCH * LENGTH;
    batch->filled[2] = targets ? BATCH * TARGETS : 0;
    return batch;
}

static void build(et_scope *scope, void *payload)
{
    et_nodes outputs = { 0 }, aux_losses = { 0 };
    const et_matmul_options options = { .transpose_b = true, .f32 = true };
    et_task_build_model(payload, scope, false, &outputs, &aux_losses);
    et_output(scope, "logits",
              et_matmul(et_nodes_get(&outputs, "decoded"), et_nodes_get(&outputs, "table"), NULL,
                        &options));
    et_task_build_losses(payload, scope, NULL, &outputs, &aux_losses);
}

/* Gives token 1, the end, a logit of -1600. Outputs are then as long as the reference's, which are
 * padded. */
static void exclude_end(et_params *params)
{
    float *values = et_params_values(params);
    float *end =
        values + et_params_offset(params, et_params_find(params, "embedding/table")) + WIDTH;
    float *offset =
        values + et_params_offset(params, et_params_find(params, "decoder/final_norm/offset"));
    et_params_begin_change(params);
    for (int i = 0; i < WIDTH; i++) {
        end[i] = -100;
        offset[i] = 1;
    }
    et_params_changed(params, true);
}

static void check_model(bool embedded, bool targets)
{
    opened o;
    et_source *source;
    ok(open_task(&o, "model", SETTINGS("false")));
    ok(et_task_build_inputs(o.task, &(et_data_config){ .training = true }, NULL, &source, &error));
    const et_pass_options options = { .training = false };
    et_layout_field fields[16];
    const et_layout layout = layout_of(source, embedded, fields);
    et_pass *pass;
    ok(et_pass_open(&pass, o.context.device, o.context.params, &layout, build, o.task, &options,
                    &error));
    ok(et_params_materialize(o.context.params, false, &error));
    et_init_draw(o.context.params, 1);
    if (!targets)
        exclude_end(o.context.params);
    et_batch *batch = zeros(&layout, targets);
    et_arena *arena = et_arena_new();
    et_value *found = et_value_dict(arena);
    et_task_step now = { .inputs = batch, .model = pass };
    ok(et_task_inference_step(o.task, &now, found, &error));
    if (targets) {
        const et_tensor logits = et_pass_output(pass, "logits");
        assert_int_equal(logits.shape.size[0], BATCH * TARGETS);
        assert_int_equal(logits.shape.size[1], TOKENS);
    } else {
        const et_value *outputs = et_value_get(found, "outputs");
        assert_int_equal(outputs->count, BATCH);
        for (const et_value *one = outputs->first; one; one = one->next)
            assert_int_equal(one->count, LENGTH);
        assert_int_equal(et_value_get(found, "scores")->count, BATCH);
    }
    et_arena_free(arena);
    et_batch_free(batch);
    et_pass_close(pass);
    et_source_close(source);
    close_task(&o);
}

static void test_seq2seq_transformer_test__create_model_with_ds(void **state)
{
    (void)state;
    for (int embedded = 0; embedded < 2; embedded++)
        for (int targets = 0; targets < 2; targets++)
            check_model(embedded, targets);
}

/* ---- a saved model ---- */

/* Trains one step, which saves weights, and exports them. */
static void export_model(const char *run, const char *settings, const char *path)
{
    opened o;
    et_task_trainer *trainer;
    et_controller *controller;
    et_controller_options options = { 0 };
    et_translator *translator;
    ok(open_task(&o, run, settings));
    ok(et_task_trainer_open(&trainer, o.task, o.context.device, o.context.params,
                            et_task_trainer_config(o.task), &error));
    ok(et_task_controller_config(o.task, trainer, &options, &error));
    ok(et_controller_open(&controller, &options, &error));
    ok(et_controller_train(controller, &error));
    ok(et_controller_close(controller, &error));
    et_task_trainer_close(trainer);
    close_task(&o);
    ok(et_translator_open(&translator, run, NULL, &error));
    ok(et_translator_export(translator, path, NULL, &error));
    et_translator_close(translator);
}

/* Differs: an export has Etude's format instead of TensorFlow's SavedModel. */
static void test_seq2seq_transformer_test__create_savedmodel(void **state)
{
    (void)state;
    static const char *const settings[] = { SETTINGS("false"), SETTINGS("true") };
    static const char *const runs[] = { "plain", "padded" };
    static const char *const paths[] = { "plain.safetensors", "padded.safetensors" };
    static const char *const lines[BATCH] = { "abcd ef", "xyzz ab", "a", "hello" };
    static const float rows[LENGTH * WIDTH];
    bool mask[LENGTH];
    et_embedded sources[BATCH];
    memset(mask, true, sizeof mask);
    for (int i = 0; i < BATCH; i++)
        sources[i] = (et_embedded){ rows, LENGTH, WIDTH, mask };
    for (int padded = 0; padded < 2; padded++) {
        et_translator *translator;
        et_hypotheses *served[2];
        export_model(runs[padded], settings[padded], paths[padded]);
        ok(et_translator_open(&translator, paths[padded], NULL, &error));
        /* The two signatures: sources of a text, and embedded ones with a mask. */
        ok(et_translator_search(translator, lines, BATCH, &served[0], &error));
        ok(et_translator_search_embedded(translator, sources, BATCH, &served[1], &error));
        for (int way = 0; way < 2; way++) {
            for (size_t i = 0; i < BATCH; i++) {
                assert_int_equal(et_hypotheses_count(served[way], i), 1);
                assert_in_range(et_hypotheses_at(served[way], i, 0)->tokens, 1, LENGTH);
            }
            et_hypotheses_free(served[way]);
        }
        et_translator_close(translator);
    }
}

static int set_up(void **state)
{
    const int status = enter_folder(state);
    write_words("words.en", 0);
    write_words("words.de", 13);
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seq2seq_transformer_test__create_model_with_ds),
        cmocka_unit_test(test_seq2seq_transformer_test__create_savedmodel),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
