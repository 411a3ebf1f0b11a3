/* Model Garden, official/nlp/data/wmt_dataloader_test.py. Batches are packed, not padded: a batch
 * of the reference's shape [pairs, length] has as many pairs, and its longest sentence as many
 * tokens; with a static batch, the layout has room for pairs * length tokens. */
#include "references/translation/translation_fixture.h"

#define VOCABULARY "sentencepiece_model_path: v20/vocabulary.model"
#define NUMBERED   "input_path: test.record, " LANGUAGES

/* Tokens of the longest sentence of a side. */
static int longest(const et_batch *batch, const char *offsets)
{
    const int field = et_layout_find(batch->layout, offsets);
    assert_true(field >= 0);
    const int32_t *at = batch->data[field];
    int most = 0;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        most = at[i + 1] - at[i] > most ? at[i + 1] - at[i] : most;
    return most;
}

/* Each case: the first batch of an epoch. room: tokens that the layout has for it; 0: any. */
static const struct {
    bool training, fixed;
    int batch_size, pairs, length, room;
} cases[] = {
    { true, true, 100, 2, 0, 2 * 35 },
    { true, false, 100, 2, 7, 0 },
    { false, true, 3, 3, 0, 3 * 35 },
    { false, false, 50, 2, 7, 0 },
};

/* Differs: a batch without static_batch is packed unless batching is bucketed. A batch has pairs of
 * one epoch; the reference fills a training batch of 12 with copies of two pairs. */
static void test_wmt_dataloader_test__load_dataset(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        char settings[600], folder[16];
        opened o;
        et_source *source;
        et_batch *batch;
        const char *way = cases[i].fixed ? "static_batch: true" : "batching: bucketed";
        const et_data_config config = { .training = cases[i].training };
        snprintf(folder, sizeof folder, "load%zu", i);
        snprintf(settings, sizeof settings,
                 "{task: {" VOCABULARY ", %s, max_seq_length: 35, global_batch_size: %d, %s}%s}}",
                 cases[i].training ? "train_data: {" RECORDS : "validation_data: {" NUMBERED,
                 cases[i].batch_size, way, cases[i].training ? "" : ", train_data: {" RECORDS "}");
        ok(open_task(&o, folder, settings));
        ok(et_task_build_inputs(o.task, &config, NULL, &source, &error));
        ok(et_batch_new(&batch, &source->layout, &error));
        ok(et_source_next(source, batch, &error));
        assert_int_equal(batch->filled[0], cases[i].pairs);
        if (cases[i].length) {
            assert_int_equal(longest(batch, "source_offsets"), cases[i].length);
            assert_int_equal(longest(batch, "target_offsets"), cases[i].length);
        } else {
            assert_int_equal(source->layout.capacity[0], cases[i].pairs);
            assert_int_equal(source->layout.capacity[1], cases[i].room);
            assert_int_equal(source->layout.capacity[2], cases[i].room);
        }
        et_batch_free(batch);
        et_source_close(source);
        close_task(&o);
    }
}

/* A batch of 10 tokens has no room for a sentence of 100. */
static void test_wmt_dataloader_test__load_dataset_raise_invalid_window(void **state)
{
    (void)state;
    opened o;
    assert_int_equal(open_task(&o, "window",
                               "{task: {" VOCABULARY ", train_data: {" RECORDS
                               ", max_seq_length: 100, global_batch_size: 10}}}"),
                     ET_ECONFIG);
    assert_non_null(strstr(error.text, "task.train_data.global_batch_size: 10 tokens are fewer"));
    close_task(&o);
}

static int set_up(void **state)
{
    const int status = enter_folder(state);
    if (!status) {
        write_records("test.record", true);
        train_vocabulary("v20", 20);
    }
    return status;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wmt_dataloader_test__load_dataset),
        cmocka_unit_test(test_wmt_dataloader_test__load_dataset_raise_invalid_window),
    };
    return cmocka_run_group_tests(tests, set_up, leave_folder);
}
