/* Text, batches, files. Everything is written below the current directory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "base/values/yaml.h"
#include "data/text/encoded.h"
#include "data/text/pairs.h"
#include "guard/guard.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/settings/translation_kind.h"
#include "train/checkpoint/checkpoint.h"

/* ---- a corpus ---- */

enum { LINES = 600, VOCABULARY = 120, BUDGET = 256, EPOCHS = 3 };

typedef struct corpus {
    char directory[32];
    char path[2][64];
    et_corpus_paths paths;
    et_vocabulary *vocabulary;
    et_encoded *encoded; /* NULL where encoding is the workload */
    et_source *source;
    et_batch *batch;
} corpus;

/* Lines of 1 to 12 words out of a few hundred. */
static void write_lines(const char *path, int side)
{
    et_error error = ET_ERROR_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    for (int i = 0; i < LINES; i++)
        for (int k = 0; k <= (i + side) % 12; k++) {
            int word = (i * 7 + k * 13 + side * 5) % 240;
            et_strbuf_printf(&text, "%c%c%c%c%s", 'a' + word % 26, 'a' + word / 26, 'a' + word % 3,
                             'k' + side, k < (i + side) % 12 ? " " : "\n");
        }
    guard_check(et_file_write(path, et_strbuf_text(&text), text.length, &error), &error);
    et_strbuf_release(&text);
}

static void train_vocabulary(corpus *c)
{
    et_error error = ET_ERROR_INIT;
    et_vocabulary_options options = { .kind = ET_VOCABULARY_BPE,
                                      .size = VOCABULARY,
                                      .character_coverage = 1 };
    et_corpus *reader;
    char *bytes;
    size_t length;
    guard_check(et_corpus_open(&reader, &c->paths, &error), &error);
    guard_check(et_vocabulary_train(&bytes, &length, &options, et_corpus_next_line, reader, &error),
                &error);
    et_corpus_close(reader);
    guard_check(et_vocabulary_parse(&c->vocabulary, bytes, length, "made", &error), &error);
    et_free(bytes);
}

static void *open_corpus(void)
{
    corpus *c = guard_memory(sizeof *c);
    static const char *source[1], *target[1];
    guard_make_directory(c->directory, sizeof c->directory);
    for (int i = 0; i < 2; i++) {
        snprintf(c->path[i], sizeof c->path[i], "%s/text.%d", c->directory, i);
        write_lines(c->path[i], i);
    }
    source[0] = c->path[0];
    target[0] = c->path[1];
    c->paths.source = (et_strings){ source, 1 };
    c->paths.target = (et_strings){ target, 1 };
    train_vocabulary(c);
    return c;
}

static void close_corpus(void *work)
{
    corpus *c = work;
    et_source_close(c->source);
    et_batch_free(c->batch);
    et_encoded_close(c->encoded);
    et_vocabulary_close(c->vocabulary);
    guard_remove(c->directory);
    et_free(c);
}

/* ---- encode: from text to ids ---- */

static void run_encode(void *work)
{
    et_error error = ET_ERROR_INIT;
    et_encoded_options options = ET_ENCODED_OPTIONS_INIT;
    corpus *c = work;
    const et_sides sides = { .source = c->vocabulary, .target = c->vocabulary };
    et_encoded *encoded;
    options.deduplicate = true;
    guard_check(et_encoded_open(&encoded, &c->paths, sides, &options, NULL, &error), &error);
    et_encoded_close(encoded);
}

/* ---- batches: epochs from the cache, packed ---- */

static void *open_batches(void)
{
    et_error error = ET_ERROR_INIT;
    et_encoded_options options = ET_ENCODED_OPTIONS_INIT;
    et_batches_options order = {
        .shuffle = true, .bucket = true, .repeat = true, .capacity = { BUDGET / 4, BUDGET, BUDGET }
    };
    corpus *c = open_corpus();
    const et_sides sides = { .source = c->vocabulary, .target = c->vocabulary };
    guard_check(et_encoded_open(&c->encoded, &c->paths, sides, &options, NULL, &error), &error);
    guard_check(et_pair_batches_open(&c->source, c->encoded, &order, &error), &error);
    guard_check(et_batch_new(&c->batch, &c->source->layout, &error), &error);
    return c;
}

static void run_batches(void *work)
{
    et_error error = ET_ERROR_INIT;
    corpus *c = work;
    int64_t pairs = 0;
    while (pairs < EPOCHS * c->encoded->pairs) {
        guard_check(et_source_next(c->source, c->batch, &error), &error);
        pairs += c->batch->filled[0];
    }
}

/* ---- checkpoint: a state saved, and read again ---- */

enum { TENSORS = 12, ELEMENTS = 20000 };

typedef struct saved {
    char directory[32];
    et_state *state;
    float *values; /* [TENSORS, ELEMENTS] */
    int64_t step;
} saved;

static int save_step(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    return et_value_set_int(dict, "step", ((const saved *)self)->step) ? ET_OK : ET_ENOMEM;
}

static int restore_step(void *self, const et_value *dict, et_error *error)
{
    return et_value_read_int(dict, "step", &((saved *)self)->step, error);
}

static const et_part_class step_class = { "step", save_step, restore_step };

static void *open_saved(void)
{
    et_error error = ET_ERROR_INIT;
    saved *s = guard_memory(sizeof *s);
    guard_make_directory(s->directory, sizeof s->directory);
    guard_check(et_state_new(&s->state, &error), &error);
    guard_check(et_state_add(s->state, "step", &step_class, s, &error), &error);
    s->values = guard_numbers((size_t)TENSORS * ELEMENTS, ET_F32, 1);
    for (int i = 0; i < TENSORS; i++) {
        char name[32];
        snprintf(name, sizeof name, "layer_%d/weight", i);
        guard_check(et_state_add_tensor(s->state, name, s->values + (ptrdiff_t)i * ELEMENTS,
                                        et_shape_1(ELEMENTS), &error),
                    &error);
    }
    return s;
}

static void run_checkpoint(void *work)
{
    et_error error = ET_ERROR_INIT;
    et_checkpoint_options options = { 0 };
    saved *s = work;
    et_checkpoints *checkpoints;
    int64_t step;
    options.max_to_keep = 2;
    guard_check(et_checkpoints_open(&checkpoints, s->directory, s->state, &options, &error),
                &error);
    for (int i = 0; i < 3; i++, s->step++) {
        guard_check(et_checkpoints_save(checkpoints, s->step, &error), &error);
        guard_check(et_checkpoints_wait(checkpoints, &error), &error);
    }
    guard_check(et_checkpoints_restore(checkpoints, &step, &error), &error);
    guard_check(et_checkpoints_close(checkpoints, &error), &error);
}

static void close_saved(void *work)
{
    saved *s = work;
    et_state_free(s->state);
    et_free(s->values);
    guard_remove(s->directory);
    et_free(s);
}

/* ---- settings: an experiment, YAML and JSON ---- */

static void *open_nothing(void)
{
    return guard_memory(1);
}

/* Every setting of an experiment to YAML, to values, to JSON and back. */
static void run_settings(void *work)
{
    (void)work;
    et_error error = ET_ERROR_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_experiment experiment;
    et_strbuf yaml = ET_STRBUF_INIT, json = ET_STRBUF_INIT;
    et_value *values, *again;
    guard_check(et_experiment_begin(&experiment, &et_translation_program, "translation/tiny",
                                    &arena, &error),
                &error);
    guard_check(
        et_experiment_set(&experiment, "trainer.train_steps=77,runtime.seed=5", &arena, &error),
        &error);
    et_yaml_print(&yaml, et_fields_echo(experiment.table, &experiment, &arena));
    guard_check(et_yaml_parse(&values, &arena, et_strbuf_text(&yaml), yaml.length, "made", &error),
                &error);
    guard_check(et_fields_read(experiment.table, &experiment, values, &arena, "made", "", &error),
                &error);
    et_json_print(&json, values, 2);
    guard_check(et_json_parse(&again, &arena, et_strbuf_text(&json), json.length, "made", &error),
                &error);
    et_strbuf_release(&yaml);
    et_strbuf_release(&json);
    et_arena_release(&arena);
}

const guard_workload guard_data[] = {
    { "encode", open_corpus, run_encode, close_corpus, false },
    { "batches", open_batches, run_batches, close_corpus, false },
    { "checkpoint", open_saved, run_checkpoint, close_saved, false },
    { "settings", open_nothing, run_settings, et_free, false },
};
