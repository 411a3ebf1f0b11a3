#include <string.h>

#include "base/fields/fields.h"
#include "base/main.h"

static const char *const names[] = {
    "num_layers",           "num_attention_heads",
    "intermediate_size",    "activation",
    "dropout_rate",         "attention_dropout_rate",
    "intermediate_dropout", "use_bias",
    "norm_first",           "norm_epsilon",
    "global_batch_size",    "learning_rate",
    "warmup_steps",         "source_path",
    "target_path",          NULL,
};

static void test_nearest__found(void **state)
{
    (void)state;
    static const struct {
        const char *word, *expected;
    } rows[] = {
        { "num_layers", "num_layers" },
        { "num_layer", "num_layers" },
        { "NumLayers", "num_layers" },
        { "num-layers", "num_layers" },
        { "num_lyaers", "num_layers" },
        { "nmulayers", "num_layers" },
        { "n_layers", "num_layers" },
        { "encoder_num_layers", "num_layers" },
        { "num_heads", "num_attention_heads" },
        { "heads", "num_attention_heads" },
        { "attention_head", "num_attention_heads" },
        { "num_attn_heads", "num_attention_heads" },
        { "dropout", "dropout_rate" },
        { "drop_out_rate", "dropout_rate" },
        { "attention_dropout", "attention_dropout_rate" },
        { "batch_size", "global_batch_size" },
        { "lr", "learning_rate" },
        { "learning_rte", "learning_rate" },
        { "warmup", "warmup_steps" },
        { "bias", "use_bias" },
        { "epsilon", "norm_epsilon" },
        { "targetpath", "target_path" },
        { "activations", "activation" },
        { "act", "activation" },
        { "num-att", "num_attention_heads" },
        { "learning_r", "learning_rate" },
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const char *nearest = et_nearest(rows[i].word, names);
        if (!nearest || strcmp(nearest, rows[i].expected) != 0)
            fail_msg("%s: %s, not %s", rows[i].word, nearest ? nearest : "none", rows[i].expected);
    }
}

static void test_nearest__none(void **state)
{
    (void)state;
    static const char *const words[] = { "",           "_",    "--",           "x",
                                         "vocabulary", "beam", "zzzzzzzzzzzz", "seed" };
    for (size_t i = 0; i < COUNT(words); i++)
        if (et_nearest(words[i], names))
            fail_msg("\"%s\": %s", words[i], et_nearest(words[i], names));
    static const char *const nothing[] = { NULL };
    assert_null(et_nearest("num_layers", nothing));
}

/* Words that share letters with a name that means something else. */
static void test_nearest__other(void **state)
{
    (void)state;
    static const char *const options[] = { "weight", "tf-data-service", "layers", "test", "time",
                                           "list",   "trials",          NULL };
    static const char *const words[] = { "weight-decay", "src", "label", "tgt", "fit", "ls" };
    for (size_t i = 0; i < COUNT(words); i++)
        if (et_nearest(words[i], options))
            fail_msg("\"%s\": %s", words[i], et_nearest(words[i], options));
    static const char *const metrics[] = { "auc", "validation_accuracy", "accuracy", NULL };
    assert_string_equal(et_nearest("acc", metrics), "accuracy");
}

static void test_nearest__hint(void **state)
{
    (void)state;
    static const char *const options[] = { "model-dir", "learning_rate", NULL };
    assert_string_equal(et_nearest_hint("lr", options, "").text, ". Nearest: learning_rate");
    assert_string_equal(et_nearest_hint("modeldir", options, "--").text, ". Nearest: --model-dir");
    assert_string_equal(et_nearest_hint("zzz", options, "--").text, "");
}

/* Hostile lengths: a word of 10,000 letters, one of 10,000 parts, bytes that are no letters. */
static void test_nearest__long(void **state)
{
    (void)state;
    static char word[10001];
    memset(word, 'a', 10000);
    et_nearest(word, names);
    for (int i = 0; i < 10000; i += 2)
        word[i] = '_';
    et_nearest(word, names);
    memset(word, '\xff', 10000);
    assert_null(et_nearest(word, names));
    const char *const same[] = { word, "", NULL };
    assert_ptr_equal(et_nearest(word, same), word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest__found), cmocka_unit_test(test_nearest__none),
        cmocka_unit_test(test_nearest__other), cmocka_unit_test(test_nearest__hint),
        cmocka_unit_test(test_nearest__long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
