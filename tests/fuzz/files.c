/* Readers of files. */
#include "fuzz/fuzz.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/model_export.h>
#include <etude/ready_actions.h>
#include <etude/translator.h>

#include "base/alloc.h"
#include "base/text/unicode.h"
#include "base/values/value.h"
#include "command/translation/augment_journal.h"
#include "data/table/analysis/analyze.h"
#include "data/table/rows/rows.h"
#include "data/table_fixture.h"
#include "formats/numpy/npz.h"
#include "formats/torch/torch_file.h"
#include "tasks/bergamot_folder.h"
#include "tasks/import_samples.h"
#include "tasks/translation/decoding/glossary.h"

static char *directory;

const char *fuzz_path(const char *name)
{
    return below(directory, name);
}

/* ---- tables ---- */

static const char schema[] = "fields:\n"
                             "  - {name: size, type: real, notation: comma, unit: kg}\n"
                             "  - {name: town, type: discrete}\n"
                             "  - {name: pair, type: integer, length: 2}\n";
static const char metadata[] = "{\"town\": {\"entries\": [\"True\", \"ulm\"]},"
                               " \"pair\": {\"min\": 0, \"max\": 9, \"mean\": 4, \"std\": 1},"
                               " \"size\": {\"min\": 0, \"max\": 9, \"mean\": 4, \"std\": 1}}";
static const char features[] = "features:\n"
                               "  - {name: s, type: identity, fields: size}\n"
                               "  - {name: t, type: one-hot, fields: town}\n"
                               "  - {name: p, type: identity, fields: pair}\n";

static void encode(const et_encoder *encoder, const et_row *row, const et_json_columns *columns)
{
    float size, town[8], pair[2];
    void *const to[] = { &size, town, pair };
    et_cell cells[4];
    et_arena arena = ET_ARENA_INIT;
    if (!et_row_parse(cells, columns, &row->json, &arena, NULL, NULL))
        (void)et_encoder_row(encoder, cells, to, "a:1", NULL);
    et_arena_release(&arena);
}

/* A wrong line is an error of its own; reading goes on after it. */
static int read_rows(const fuzz_target *self, const char *text, size_t length, et_error *failure)
{
    const char *path = fuzz_path(self->file);
    three t;
    et_encoder *encoder;
    et_rows *rows;
    et_row row = { .number = 1 };
    put_file(path, text, length);
    assert_ok(three_parse(&t, schema, metadata, features, error));
    assert_ok(et_encoder_new(&encoder, t.schema, t.metadata, t.features, error));
    const et_json_columns columns = { et_encoder_row_layout(encoder), t.metadata, NULL };
    int status = et_rows_open_jsonl(&rows, et_encoder_row_layout(encoder),
                                    &(et_strings){ &path, 1 }, -1, failure);
    const bool open = !status;
    while (open && !row.end && (!status || (status == ET_EDATA && row.number)))
        if (!(status = et_rows_next(rows, &row, failure)) && !row.end)
            encode(encoder, &row, &columns);
    if (open)
        et_rows_close(rows);
    et_encoder_free(encoder);
    three_free(&t);
    return status;
}

static int read_analysis(const fuzz_target *self, const char *text, size_t length,
                         et_error *failure)
{
    const char *path = fuzz_path(self->file);
    et_analysis analysis;
    put_file(path, text, length);
    int status = et_analyze(&analysis, &(et_strings){ &path, 1 },
                            &(et_analyze_options){ .threads = 1 }, failure);
    if (!status)
        et_analysis_release(&analysis);
    return status;
}

/* ---- translation ---- */

/* The terms are searched in the text of the file. */
static int read_glossary(const fuzz_target *self, const char *text, size_t length,
                         et_error *failure)
{
    const et_term *found[4];
    et_glossary *glossary;
    size_t count;
    put_file(fuzz_path(self->file), text, length);
    int status = et_glossary_open(&glossary, fuzz_path(self->file), failure);
    if (status)
        return status;
    status = et_glossary_find(glossary, text, length, found, 4, &count, failure);
    for (size_t i = 0; !status && i < count && i < 4; i++) {
        bool is;
        status = et_glossary_is_in(found[i]->target, found[i]->source, &is, failure);
    }
    et_glossary_close(glossary);
    return status;
}

static int use_line(void *self, const et_augment_line *line, et_error *failure)
{
    size_t *all = self;
    (void)failure;
    *all += line->length;
    return ET_OK;
}

/* Records with right checksums, one of each line. */
static void put_records(const char *path, const char *text, size_t length)
{
    et_record_log log;
    remove(path);
    assert_ok(et_record_log_open(&log, path, 0, error));
    for (const char *at = text, *end = text + length, *next; at < end; at = next + 1) {
        next = memchr(at, '\n', (size_t)(end - at));
        next = next ? next : end;
        assert_ok(et_record_log_write(&log, at, (size_t)(next - at), error));
    }
    assert_ok(et_record_log_close(&log, error));
}

/* As the value of a program, and as a new best. */
static int read_persisted(const fuzz_target *self, const char *text, size_t length,
                          et_error *failure)
{
    const char *path = fuzz_path(self->file);
    et_persisted_value *kept;
    et_new_best *best;
    et_arena arena = ET_ARENA_INIT;
    put_file(path, text, length);
    int status = et_persisted_value_open(&kept, et_value_dict(&arena), path, true, failure);
    if (!status)
        assert_ok(et_persisted_value_write(kept, et_persisted_value_read(kept), error));
    et_persisted_value_close(kept);
    et_arena_release(&arena);
    if (status)
        return status;
    status = et_new_best_open(
        &best, &(et_new_best_options){ .metric = "a", .filename = path, .read_only = true },
        failure);
    et_new_best_close(best);
    return status;
}

/* What begins as its first record does is made records, other bytes are the file. */
static int read_journal(const fuzz_target *self, const char *text, size_t length, et_error *failure)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *work = et_value_dict(&arena);
    et_augment_journal journal;
    size_t all = 0;
    const bool whole = length && *text == '{';
    et_value_set_string(work, et_augment_key, "a");
    if (whole)
        put_records(fuzz_path(self->file), text, length);
    else
        put_file(fuzz_path(self->file), text, length);
    int status = et_augment_journal_open(&journal, fuzz_path("journal"), work, failure);
    if (!status) {
        const et_augment_line line = { -1, 2, 3, "x", 1 };
        status = et_augment_journal_read(&journal, use_line, &all, failure);
        assert_ok(et_augment_journal_add(&journal, &line, error));
        et_augment_journal_close(&journal);
    }
    et_arena_release(&arena);
    return status;
}

/* ---- models ---- */

static int read_torch(const fuzz_target *self, const char *text, size_t length, et_error *failure)
{
    et_torch_file *file;
    char elements[256];
    put_file(fuzz_path(self->file), text, length);
    int status = et_torch_file_open(&file, fuzz_path(self->file), failure);
    if (status)
        return status;
    for (size_t i = 0; i < et_torch_file_count(file); i++) {
        const et_pickle_tensor *t = et_torch_file_at(file, i);
        if ((uint64_t)et_shape_count(t->shape) * t->storage->width <= sizeof elements)
            (void)et_torch_file_read(file, t, elements, failure);
    }
    et_torch_file_close(file);
    return ET_OK;
}

static int read_npz(const fuzz_target *self, const char *text, size_t length, et_error *failure)
{
    et_npz *npz;
    char elements[256], *copy = et_alloc(length + 1, 1);
    memcpy(copy, text, length);
    int status = et_npz_open_memory(&npz, copy, length, self->name, failure);
    if (status)
        return status;
    for (size_t i = 0; i < et_npz_count(npz); i++)
        if (et_npz_at(npz, i)->bytes <= sizeof elements)
            (void)et_npz_read(npz, et_npz_at(npz, i), elements, failure);
    et_npz_close(npz);
    return ET_OK;
}

static int read_marian(const fuzz_target *self, const char *text, size_t length, et_error *failure)
{
    et_marian_model *model;
    float elements[256];
    char *copy = et_alloc(length + 1, 1);
    memcpy(copy, text, length);
    int status = et_marian_model_open(&model, copy, length, self->name, failure);
    if (status)
        return status;
    for (size_t i = 0; i < et_marian_model_count(model); i++) {
        const et_marian_item *item = et_marian_model_at(model, i);
        const bool numbers =
            item->type != ET_MARIAN_TYPE_OTHER && item->type != ET_MARIAN_TYPE_BYTE;
        if (numbers && et_shape_count(item->shape) <= 256)
            (void)et_marian_model_read(model, item, elements, failure);
    }
    et_marian_model_close(model);
    return ET_OK;
}

/* With a right checksum: without it nothing else would be read. */
static int read_lexicon(const fuzz_target *self, const char *text, size_t length, et_error *failure)
{
    et_lexicon *lexicon;
    char *copy = et_alloc(length + 1, 1);
    memcpy(copy, text, length);
    if (length >= ET_LEXICON_HEADER) {
        const uint64_t sum = et_lexicon_checksum(copy, length);
        memcpy(copy + sizeof sum, &sum, sizeof sum);
    }
    int status = et_lexicon_open(&lexicon, copy, length, PIECES, PIECES, self->name, failure);
    for (int32_t s = 0; s < PIECES && !status; s++) {
        size_t count;
        const uint32_t *list = et_lexicon_of(lexicon, s, &count);
        for (size_t i = 0; i < count; i++)
            assert_true(list[i] < PIECES);
    }
    if (!status)
        et_lexicon_close(lexicon);
    return status;
}

/* A file of a folder, whose other files are good, or an archive; put back as it was. */
static int read_import(const fuzz_target *self, const char *text, size_t length, et_error *failure)
{
    char folder_path[600], *good;
    size_t good_length;
    et_artifact artifact;
    const char *path = fuzz_path(self->file), *slash = strchr(self->file, '/');
    snprintf(folder_path, sizeof folder_path, "%s/%.*s", directory,
             (int)(slash ? (size_t)(slash - self->file) : strlen(self->file)), self->file);
    good = get_file(path, &good_length);
    put_file(path, text, length);
    int status = et_import_open_artifact(&artifact, folder_path, failure);
    et_artifact_close(&artifact);
    put_file(fuzz_path(self->file), good, good_length);
    free(good);
    return status;
}

/* ---- samples ---- */

static const char *const release_files[] = { "decoder.yml",      "model.npz",  "source.spm",
                                             "source.vocab.yml", "target.spm", "target.vocab.yml" };
enum { RELEASE_FILES = 6 };

static void put_sample(const char *name, const char *text)
{
    put_file(fuzz_path(name), text, strlen(text));
}

static void put_archive(void)
{
    static bytes archive, list;
    archive.length = list.length = 0;
    for (int i = 0; i < RELEASE_FILES; i++) {
        char inside[80];
        size_t length;
        snprintf(inside, sizeof inside, "marian/%s", release_files[i]);
        char *whole = get_file(fuzz_path(inside), &length);
        add_member(&archive, &list, inside, whole, length, length);
        free(whole);
    }
    end_archive(&archive, &list, RELEASE_FILES);
    put_file(fuzz_path("release.zip"), archive.data, archive.length);
}

static void put_models(void)
{
    static const float weights_[6];
    static bytes file;
    void *state = directory;
    const et_export_options options = { .format = "marian" };
    const sample_tensor tensors[] = {
        { "a.weight", "FloatStorage", "0", 0, 2, 3, 3, (const char *)weights_, sizeof weights_ },
    };
    const et_npz_item items[] = { { "a", ET_NPZ_FLOAT32, { 2, { 2, 3 } }, weights_ },
                                  { "b", ET_NPZ_BYTE, { 1, { 5 } }, "abcde" } };
    et_translator *t;
    make_archive(&file, tensors, 1);
    put_file(fuzz_path("new.bin"), file.data, file.length);
    make_old(&file, tensors, 1);
    put_file(fuzz_path("old.bin"), file.data, file.length);
    assert_ok(et_npz_write(fuzz_path("a.npz"), items, 2, NULL, NULL, error));
    write_fitting_folder(&state);
    put_sample(
        "hf/tokenizer_config.json",
        "{\"eos_token\": {\"content\": \"</s>\"}, \"unk_token\": \"<unk>\", "
        "\"source_lang\": \"en\", \"target_lang\": \"ROMANCE\", \"separate_vocabs\": false}");
    put_sample("hf/added_tokens.json", "{\"</s>\": 0, \"<pad>\": 29}");
    put_sample("hf/tokenizer.json", "{\"added_tokens\": [{\"id\": 0, \"content\": \"</s>\"}]}");
    assert_ok(import(&state, error));
    assert_ok(et_translator_open(&t, fuzz_path("model.safetensors"), NULL, error));
    assert_ok(et_translator_export(t, fuzz_path("marian"), &options, error));
    et_translator_close(t);
    put_archive();
}

/* A small file for each reader, too: few changes of a model reach its heads. */
static void put_bergamot(void)
{
    static const float numbers[6] = { 1, -2, 3, 4, 5, -6 };
    static const sample_item items[] = {
        { "a", ET_MARIAN_NUMBER_FLOAT32, 2, 3, numbers, NULL, 0 },
        { "b_Wq", ET_MARIAN_NUMBER_INTGEMM8, 3, 2, numbers, NULL, 2 },
        { "c", ET_MARIAN_NUMBER_BYTE, 0, 5, NULL, "text", 0 },
    };
    static bytes file;
    size_t length;
    void *state = directory;
    write_bergamot(&state, bergamot_settings, false);
    file.length = 0;
    add_marian_model(&file, items, 3);
    put_file(fuzz_path("small.bin"), file.data, file.length);
    char *lexicon = make_lexicon(5, PIECES, PIECES, gives_every_third, &length);
    put_file(fuzz_path("small.lex"), lexicon, length);
    et_free(lexicon);
}

void fuzz_open(char *empty)
{
    directory = empty;
    put_sample("terms.tsv", "cat\tKatze\nbig  Cat\tgro\xc3\x9f"
                            "e Katze\n\xe7\x8c\xab\tKatze\n");
    put_sample("rows.jsonl", "{\"size\": \"1.234,5 kg\", \"town\": \"ulm\", \"pair\": [1, 2]}\n"
                             "\n{\"size\": 2.5, \"town\": true, \"pair\": null}\n");
    put_sample("journal.part", "{\"augment\":\"a\"}\n0123456789abcdef01234567one\n"
                               "0123456789abcdef01234567\n");
    put_sample("best.json", "{\"best\": 0.912}");
    put_models();
    put_bergamot();
}

#define VALUES "{ } [ ] , : \" - null true -1 1e9 2147483648 0.5 'a' \\u0000"

const fuzz_target fuzz_files[] = {
    { .name = "glossary",
      .read = read_glossary,
      .file = "terms.tsv",
      .words = "\t cat Cat \xe7\x8c\xab" },
    { .name = "rows", .read = read_rows, .file = "rows.jsonl", .words = VALUES " size town pair" },
    { .name = "analysis", .read = read_analysis, .file = "rows.jsonl", .words = VALUES " size" },
    { .name = "journal",
      .read = read_journal,
      .file = "journal.part",
      .words = VALUES " augment a" },
    { .name = "persisted", .read = read_persisted, .file = "best.json", .words = VALUES " best" },
    { .name = "torch", .read = read_torch, .file = "new.bin" },
    { .name = "torch_old", .read = read_torch, .file = "old.bin" },
    { .name = "npz", .read = read_npz, .file = "a.npz" },
    { .name = "config", .read = read_import, .file = "hf/config.json", .words = VALUES },
    { .name = "generation",
      .read = read_import,
      .file = "hf/generation_config.json",
      .words = VALUES },
    { .name = "tokenizer",
      .read = read_import,
      .file = "hf/tokenizer_config.json",
      .words = VALUES },
    { .name = "added", .read = read_import, .file = "hf/added_tokens.json", .words = VALUES },
    { .name = "fast", .read = read_import, .file = "hf/tokenizer.json", .words = VALUES },
    { .name = "vocab", .read = read_import, .file = "hf/vocab.json", .words = VALUES },
    { .name = "sentencepiece", .read = read_import, .file = "hf/source.spm" },
    { .name = "decoder",
      .read = read_import,
      .file = "marian/decoder.yml",
      .words = VALUES " | > & *" },
    { .name = "vocab_yml",
      .read = read_import,
      .file = "marian/source.vocab.yml",
      .words = VALUES },
    { .name = "release", .read = read_import, .file = "release.zip" },
    { .name = "marian", .read = read_marian, .file = "small.bin" },
    { .name = "lexicon", .read = read_lexicon, .file = "small.lex" },
    { .name = "bergamot_model",
      .read = read_import,
      .file = "bergamot/model.xxyy.intgemm.alphas.bin",
      .words = VALUES " ssru rnn" },
    { .name = "bergamot_config",
      .read = read_import,
      .file = "bergamot/config.intgemm8bitalpha.yml",
      .words = VALUES " .. / .gz | > & *" },
    { .name = "bergamot_vocabulary", .read = read_import, .file = "bergamot/vocab.xxyy.spm" },
    { .name = "bergamot_lexicon", .read = read_import, .file = "bergamot/lex.50.50.xxyy.s2t.bin" },
    { .name = NULL },
};
