/* Models as folders of Bergamot: what was imported comes out byte for byte; what text says about
 * the factors of rows and the shortlist; models that cannot be such a folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tasks/import_samples.h"

#include <etude/model_export.h>
#include <etude/translator.h>

#include "data/text/vocabulary/vocabulary_check.h"
#include "tasks/bergamot_folder.h"

static int import_folder(void **state, const char *folder, et_error *failure)
{
    et_import *from;
    char path[800];
    snprintf(path, sizeof path, "%s/%s/", (const char *)*state, folder);
    remove(in(state, "model.safetensors"));
    int status = et_import_open(&from, path, failure);
    if (!status)
        status = et_import_write(from, in(state, "model.safetensors"), failure);
    et_import_close(from);
    return status;
}

static int export_folder(void **state, const char *folder, const char *source, const char *target,
                         et_error *failure)
{
    et_translator *t;
    char path[800], texts[2][800];
    snprintf(path, sizeof path, "%s/%s", (const char *)*state, folder);
    snprintf(texts[0], sizeof texts[0], "%s/%s", (const char *)*state, source ? source : "");
    snprintf(texts[1], sizeof texts[1], "%s/%s", (const char *)*state, target ? target : "");
    const et_export_options options = { .format = "bergamot",
                                        .source_text = source ? texts[0] : NULL,
                                        .target_text = target ? texts[1] : NULL };
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
    int status = et_translator_export(t, path, &options, failure);
    et_translator_close(t);
    return status;
}

/* A file of a folder; free it. */
static char *file_of(void **state, const char *folder, const char *name, size_t *length)
{
    char path[800];
    snprintf(path, sizeof path, "%s/%s/%s", (const char *)*state, folder, name);
    return get_file(path, length);
}

static et_marian_model *model_of(void **state, const char *folder, const char *name)
{
    et_marian_model *model;
    size_t length;
    char *read = file_of(state, folder, name, &length), *own = et_alloc(length, 1);
    memcpy(own, read, length);
    free(read);
    assert_ok(et_marian_model_open(&model, own, length, name, error));
    return model;
}

static void check_equal(void **state, const char *a, const char *name, const char *b,
                        const char *other)
{
    size_t x_length, y_length;
    char *x = file_of(state, a, name, &x_length), *y = file_of(state, b, other, &y_length);
    assert_int_equal(x_length, y_length);
    assert_memory_equal(x, y, x_length);
    free(x);
    free(y);
}

/* Tokens with their scores and types; how they are written may differ. */
static void check_equal_pieces(void **state, const char *folder)
{
    size_t lengths[2], at[2] = { 0, 0 };
    et_vocabulary_piece pieces[2];
    char *is = file_of(state, folder, "vocab.xxyy.spm", &lengths[0]);
    char *was = file_of(state, "bergamot", "vocab.xxyy.spm", &lengths[1]);
    while (et_vocabulary_next_piece(was, lengths[1], &at[1], &pieces[1])) {
        assert_true(et_vocabulary_next_piece(is, lengths[0], &at[0], &pieces[0]));
        assert_int_equal(pieces[0].length, pieces[1].length);
        assert_memory_equal(pieces[0].text, pieces[1].text, pieces[0].length);
        assert_true(pieces[0].score == pieces[1].score && pieces[0].type == pieces[1].type);
    }
    assert_false(et_vocabulary_next_piece(is, lengths[0], &at[0], &pieces[0]));
    free(is);
    free(was);
}

/* Without text, all bytes of weights, multipliers and shortlist are those of the import. */
static void test_export_bergamot__same(void **state)
{
    write_bergamot(state, bergamot_settings, false);
    assert_ok(import_folder(state, "bergamot", error));
    assert_ok(export_folder(state, "out", NULL, NULL, error));
    check_equal(state, "out", "lex.50.50.xxyy.s2t.bin", "bergamot", "lex.50.50.xxyy.s2t.bin");
    check_equal_pieces(state, "out");
    et_marian_model *model = model_of(state, "out", "model.xxyy.intgemm.alphas.bin");
    for (int i = 0; i < bergamot_count; i++) {
        const sample_item *of = &bergamot_items[i];
        float read[PIECES * WIDTH + WIDTH * INNER];
        const et_marian_item *item = et_marian_model_find(model, of->name);
        if (!item)
            fail_msg("no item %s", of->name);
        if (of->text)
            continue;
        const int64_t count = et_shape_count(item->shape);
        assert_int_equal(count, of->rows * of->columns);
        assert_ok(et_marian_model_read(model, item, read, error));
        for (int64_t k = 0; k < count; k++) /* m is 127 / the largest value here, 64 there */
            assert_true(
                fabsf(read[k] - of->values[k]) <=
                (of->type == ET_MARIAN_NUMBER_INTGEMM8 ? 0.5f / 64 : 1e-5f * fabsf(of->values[k])));
    }
    assert_non_null(et_marian_model_find(model, "none_QuantMultA"));
    et_marian_model_close(model);
    /* What came out goes in, and out again the same. */
    assert_ok(import_folder(state, "out", error));
    assert_ok(export_folder(state, "again", NULL, NULL, error));
    check_equal(state, "out", "model.xxyy.intgemm.alphas.bin", "again",
                "model.xxyy.intgemm.alphas.bin");
    check_equal(state, "out", "config.intgemm8bitalpha.yml", "again",
                "config.intgemm8bitalpha.yml");
    check_equal_pieces(state, "again");
}

static float multiplier_of(const et_marian_model *model, const char *name)
{
    char full[80];
    float value;
    snprintf(full, sizeof full, "%s" ET_MARIAN_MULTIPLIER, name);
    const et_marian_item *item = et_marian_model_find(model, full);
    if (!item)
        fail_msg("no item %s", full);
    assert_ok(et_marian_model_read(model, item, &value, error));
    return value;
}

/* The rows of the first product are embeddings times sqrt(WIDTH) plus sinusoids, of the letters and
 * the end. */
static float largest_row(const int *pieces, int count)
{
    const float *table = NULL;
    float most = 0;
    for (int i = 0; i < bergamot_count; i++)
        if (!strcmp(bergamot_items[i].name, "Wemb"))
            table = bergamot_items[i].values;
    for (int t = 0; t < count; t++)
        for (int k = 0; k < WIDTH; k++) {
            const int half = WIDTH / 2, i = k % half;
            const double angle = t * pow(10000, -(double)i / (half - 1));
            const double position = k < half ? sin(angle) : cos(angle);
            most = fmaxf(most, fabsf(table[pieces[t] * WIDTH + k] * 4 + (float)position));
        }
    return most;
}

/* One pair is one batch, whose largest value is the mean and has no deviation. The shortlist has
 * what the folder's had, what was aligned, and the token itself. */
static void test_export_bergamot__measures(void **state)
{
    static const int source[] = { 3, 9, 0 }; /* _a, _d, </s> */
    et_lexicon *before, *after;
    size_t length;
    write_bergamot(state, bergamot_settings, false);
    put_file(in(state, "a.x"), "a d\n", 4);
    put_file(in(state, "a.y"), "b c e\n", 6);
    assert_ok(import_folder(state, "bergamot", error));
    assert_ok(export_folder(state, "out", "a.x", "a.y", error));
    et_marian_model *model = model_of(state, "out", "model.xxyy.intgemm.alphas.bin");
    const float expected = 127 / largest_row(source, 3);
    assert_true(fabsf(multiplier_of(model, "encoder_l1_self_Wq") / expected - 1) < 1e-4f);
    assert_true(multiplier_of(model, "encoder_l1_self_Wk") ==
                multiplier_of(model, "encoder_l1_self_Wq"));
    assert_true(multiplier_of(model, "none") > 0);
    assert_true(fabsf(multiplier_of(model, "Wemb") / multiplier_of(model, "none") - 1) < 1e-5f);
    et_marian_model_close(model);
    char *read = file_of(state, "out", "lex.50.50.xxyy.s2t.bin", &length),
         *own = et_alloc(length, 1);
    memcpy(own, read, length);
    free(read);
    assert_ok(et_lexicon_open(&after, own, length, PIECES, PIECES, "after", error));
    own = make_lexicon(5, PIECES, PIECES, gives_every_third, &length);
    assert_ok(et_lexicon_open(&before, own, length, PIECES, PIECES, "before", error));
    int more = 0;
    for (int s = 0; s < PIECES; s++) {
        size_t old_count, count, at = 0;
        const uint32_t *old = et_lexicon_of(before, s, &old_count);
        const uint32_t *list = et_lexicon_of(after, s, &count);
        for (size_t i = 0; i < count; i++) { /* ascending, each once */
            assert_true(!i || list[i] > list[i - 1]);
            const bool known = at < old_count && old[at] == list[i];
            at += known;
            more += !known && list[i] != (uint32_t)s;
        }
        assert_int_equal(at, old_count);
    }
    assert_true(more <=
                3); /* three target tokens, aligned with one source token each, or its end */
    et_lexicon_close(before);
    et_lexicon_close(after);
}

static void test_export_bergamot__refuses(void **state)
{
    write_bergamot(state, bergamot_settings, true); /* float32 has no multipliers */
    assert_ok(import_folder(state, "bergamot", error));
    put_file(in(state, "a.x"), "a d\n", 4);
    put_file(in(state, "a.y"), "b\nc\n", 4);
    put_file(in(state, "empty"), "\n", 1);
    assert_fails(export_folder(state, "out", NULL, NULL, error), ET_EUSAGE,
                 "give --data SOURCE TARGET");
    assert_fails(export_folder(state, "out", "a.x", NULL, error), ET_ECONFIG, "both languages");
    assert_fails(export_folder(state, "out", "a.x", "a.y", error), ET_EDATA, "ends after 1 lines");
    assert_fails(export_folder(state, "out", "empty", "empty", error), ET_EDATA, "no pair");
    assert_fails(export_folder(state, "out", "a.x", "missing", error), ET_ENOTFOUND, "missing");
    et_translator *t;
    assert_ok(et_translator_open(&t, in(state, "model.safetensors"), NULL, error));
    const et_export_options marian = { .format = "marian", .source_text = "a", .target_text = "b" };
    assert_fails(et_translator_export(t, in(state, "out"), &marian, error), ET_ECONFIG,
                 "for the format bergamot");
    const et_export_options wide = { .format = "bergamot", .precision = "float32" };
    assert_fails(et_translator_export(t, in(state, "out"), &wide, error), ET_ECONFIG,
                 "only written in int8");
    et_translator_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_export_bergamot__same),
        cmocka_unit_test(test_export_bergamot__measures),
        cmocka_unit_test(test_export_bergamot__refuses),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
