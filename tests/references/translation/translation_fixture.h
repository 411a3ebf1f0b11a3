/* Data and tasks of the translation cases: the six lines of the reference's set-up as text and as
 * records, vocabularies of them, and a task that is opened by settings. Each program has a folder
 * of its own. */
#ifndef ETUDE_TESTS_REFERENCES_TRANSLATION_FIXTURE_H
#define ETUDE_TESTS_REFERENCES_TRANSLATION_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/controller.h>
#include <etude/layers.h>
#include <etude/records.h>
#include <etude/task_open.h>
#include <etude/translator.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The settings that the reference's cases give, in the notation of et_task_open. */
#define LANGUAGES "src_lang: en, tgt_lang: reverse_en"
#define RECORDS   "input_path: inputs.record, " LANGUAGES
#define ONE_LAYER "encoder: {num_layers: 1}, decoder: {num_layers: 1}"

static et_error error = ET_ERROR_INIT;

static inline void ok(int status)
{
    if (status)
        fail_msg("%s", error.text);
}

static const char *const source_lines[] = { "abc ede fg", "bbcd ef a g", "de f a a g" };
static const char *const target_lines[] = { "dd cc a ef  g", "bcd ef a g", "gef cd ba" };

static inline void write_lines(const char *path, const char *const *lines, int count)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (int i = 0; i < count; i++)
        fprintf(file, "%s\n", lines[i]);
    assert_int_equal(fclose(file), 0);
}

/* With numbers as "unique_id", or without. */
static inline void write_records(const char *path, bool numbered)
{
    et_example_builder *examples[3];
    for (int64_t i = 0; i < 3; i++) {
        ok(et_example_builder_new(&examples[i], NULL, &error));
        et_example_add_text(examples[i], "en", source_lines[i]);
        et_example_add_text(examples[i], "reverse_en", target_lines[i]);
        if (numbered)
            et_example_add_ints(examples[i], "unique_id", &i, 1);
    }
    ok(et_records_write(path, NULL, examples, 3, &error));
    for (int i = 0; i < 3; i++)
        et_example_builder_free(examples[i]);
}

static char own_folder[] = "translation.XXXXXX";

static inline int enter_folder(void **state)
{
    (void)state;
    if (!mkdtemp(own_folder) || chdir(own_folder))
        return -1;
    write_records("inputs.record", false);
    write_lines("inputs.en", source_lines, 3);
    write_lines("inputs.reverse_en", target_lines, 3);
    return 0;
}

static inline int remove_one(const char *path, const struct stat *facts, int flag, struct FTW *walk)
{
    (void)facts, (void)flag, (void)walk;
    return remove(path);
}

static inline int leave_folder(void **state)
{
    (void)state;
    return chdir("..") || nftw(own_folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

typedef struct opened {
    et_task_context context;
    et_task *task;
} opened;

static inline int open_task(opened *o, const char *folder, const char *settings)
{
    *o = (opened){ .context = { .model_dir = folder } };
    ok(et_device_open(&o->context.device, &error));
    ok(et_params_new(&o->context.params, &error));
    return et_task_open(&o->task, &et_translation_kind, "translation/tiny", settings, &o->context,
                        &error);
}

static inline void close_task(opened *o)
{
    et_task_close(o->task);
    et_params_free(o->context.params);
    et_device_close(o->context.device);
}

/* A SentencePiece model of so many tokens, as the reference trains it: BPE, with padding 0, end 1,
 * unknown 2 and no start. Etude trains one for a task without a model and keeps it in the run. */
static inline void train_vocabulary(const char *folder, int size)
{
    char settings[400];
    opened o;
    snprintf(settings, sizeof settings,
             "{task: {vocabulary: {size: %d, model_type: bpe, character_coverage: 0.995}, "
             "train_data: {" RECORDS "}}}",
             size);
    ok(open_task(&o, folder, settings));
    close_task(&o);
}

#endif
