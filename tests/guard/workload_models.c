/* Graphs, plans, steps and decoding of small models. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <etude/layers.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "data/text/pairs.h"
#include "engine/optim/options.h"
#include "formats/events/progress.h"
#include "guard/guard.h"
#include "systems/modelgarden/task_trainer.h"
#include "systems/orbit/controller.h"
#include "tasks/translation/decoding/decoder.h"
#include "train/step/step.h"

/* ---- trained models ---- */

enum { TOKENS = 128, SEGMENTS = 16, PIECES = 300, WIDTH = 32, BATCH = 128, FEATURES = 105 };

static const et_transformer_stack stack = {
    .num_layers = 2,
    .num_attention_heads = 2,
    .intermediate_size = 64,
    .activation = ET_ACTIVATION_RELU,
    .dropout_rate = 0.1f,
    .attention_dropout_rate = 0.1f,
    .intermediate_dropout = 0.1f,
    .use_bias = true,
    .norm_first = true,
    .final_norm = true,
    .norm_epsilon = 1e-6f,
};

static et_transformer small_transformer(void)
{
    return (et_transformer){ .encoder = stack,
                             .decoder = stack,
                             .source = { "embedding", PIECES },
                             .target = { "embedding", PIECES },
                             .output = { "embedding", PIECES },
                             .width = WIDTH,
                             .max_positions = 64,
                             .dropout_rate = 0.1f };
}

/* Sentences of 1 to 11 pieces, the last tokens empty. */
static void fill_pairs(et_batch *b)
{
    int32_t *ids[] = { b->data[ET_PAIR_SOURCE_IDS], b->data[ET_PAIR_TARGET_IDS] };
    int32_t *positions[] = { b->data[ET_PAIR_SOURCE_POSITIONS], b->data[ET_PAIR_TARGET_POSITIONS] };
    int32_t *offsets[] = { b->data[ET_PAIR_SOURCE_OFFSETS], b->data[ET_PAIR_TARGET_OFFSETS] };
    int32_t *labels = b->data[ET_PAIR_TARGET_LABELS];
    for (int side = 0; side < 2; side++) {
        int at = 0;
        for (int s = 0; s < SEGMENTS; s++) {
            offsets[side][s] = at;
            for (int i = 0; i <= 7 * s % 11; i++, at++)
                positions[side][at] = i;
        }
        for (int i = 0; i < at; i++)
            ids[side][i] = 7 * i % PIECES;
        b->filled[ET_PAIR_SOURCE + side] = at;
    }
    for (int i = 0; i < b->filled[ET_PAIR_TARGET]; i++)
        labels[i] = 11 * i % PIECES;
    b->filled[ET_PAIR_SEGMENTS] = SEGMENTS;
}

/* Rows of a table. */
enum { ROWS, CLASSES };

static const et_layout_field row_fields[] = {
    [ROWS] = { .name = "rows", .dtype = ET_F32, .item = { 1, { FEATURES } } },
    [CLASSES] = { .name = "classes", .dtype = ET_I32 },
};

static void fill_rows(et_batch *b)
{
    float *rows = guard_numbers((size_t)BATCH * FEATURES, ET_F32, 1);
    memcpy(b->data[ROWS], rows, (size_t)BATCH * FEATURES * sizeof *rows);
    et_free(rows);
    for (int i = 0; i < BATCH; i++)
        ((int32_t *)b->data[CLASSES])[i] = i * 7 % 3 == 0;
    b->filled[0] = BATCH;
}

static const et_layout_field label_field = { .name = "label", .dtype = ET_I32 };

static void fill_label(et_batch *b)
{
    b->filled[0] = 1;
}

static void transformer_loss(et_scope *s, int layers)
{
    et_transformer model = small_transformer();
    model.encoder.num_layers = model.decoder.num_layers = layers;
    et_node *h = et_transformer_train(s, &model, TOKENS, TOKENS, SEGMENTS);
    et_node *labels = et_batch_input(s, "target_labels");
    et_loss(s, "loss", et_vocabulary_loss(h, et_transformer_table(s, &model), labels, 0.1f), 1);
}

static void translation_loss(et_scope *s, void *payload)
{
    (void)payload;
    transformer_loss(s, 2);
}

/* Twelve times as deep: what grows with the square of the depth would show. */
static void deep_loss(et_scope *s, void *payload)
{
    (void)payload;
    transformer_loss(s, 24);
}

/* As bench/bench_mlp.c has it. */
static void classifier_loss(et_scope *s, void *payload)
{
    (void)payload;
    et_dense_options hidden = { .activation = ET_ACTIVATION_RELU };
    et_node *h = et_batch_input(s, "rows");
    h = et_dense_with(et_in(s, "first"), h, 64, &hidden);
    h = et_dense_with(et_in(s, "second"), h, 32, &hidden);
    h = et_dense(et_in(s, "third"), h, 2);
    et_loss(s, "loss", et_softmax_loss(h, et_batch_input(s, "classes"), 0), 1);
}

/* Two weights: the trainer's own cost is all there is. */
static void empty_loss(et_scope *s, void *payload)
{
    (void)payload;
    et_node *logits = et_param(s, "w", et_shape_2(1, 2), (et_init){ ET_INIT_ZEROS, 0 });
    et_loss(s, "loss", et_softmax_loss(logits, et_batch_input(s, "label"), 0), 1);
}

/* A model function, and the batch that it is always given. */
typedef struct made_model {
    et_build_fn *build;
    void (*fill)(et_batch *batch);
    et_layout layout;
} made_model;

#define PAIRS                                                                                      \
    {                                                                                              \
        .kinds = ET_PAIR_KINDS, .fields = ET_PAIR_FIELDS,                                          \
        .kind = { "pair", "source token", "target token" },                                        \
        .capacity = { SEGMENTS, TOKENS, TOKENS }, .unit = ET_PAIR_TARGET, .field = et_pair_fields  \
    }

static const made_model translation = { translation_loss, fill_pairs, PAIRS };
static const made_model deep = { deep_loss, fill_pairs, PAIRS };
static const made_model classifier = {
    classifier_loss,
    fill_rows,
    { .kinds = 1, .fields = 2, .kind = { "row" }, .capacity = { BATCH }, .field = row_fields },
};
static const made_model empty = {
    empty_loss,
    fill_label,
    { .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { 1 }, .field = &label_field },
};

/* ---- a source whose batches are always the same ---- */

typedef struct fixed_source {
    et_source source; /* first member */
    const made_model *model;
} fixed_source;

/* A batch that was filled once stays so. */
static int next(et_source *self, et_batch *batch, et_error *error)
{
    (void)error;
    if (batch->filled[0])
        return ET_OK;
    ((fixed_source *)(void *)self)->model->fill(batch);
    et_batch_finish(batch);
    return ET_OK;
}

static void position(const et_source *self, et_position *position)
{
    (void)self, (void)position;
}

static int seek(et_source *self, const et_position *position, et_error *error)
{
    (void)self, (void)position, (void)error;
    return ET_OK;
}

static void describe(const et_source *self, const et_batch *batch, char *text, size_t size)
{
    (void)self, (void)batch;
    snprintf(text, size, "a made one");
}

static void close_source(et_source *self)
{
    (void)self;
}

static const et_source_class fixed_class = {
    .name = "fixed",
    .next = next,
    .position = position,
    .seek = seek,
    .describe = describe,
    .close = close_source,
};

/* ---- plan: from a model's function to something that runs ---- */

typedef struct model {
    fixed_source source;
    et_params *params;
    et_device *device;
    et_pass *pass;
    et_optimizer *optimizer;
    et_overflow overflow;
    et_metrics *metrics;
    et_step step;
} model;

static void open_pass(model *m)
{
    et_error error = ET_ERROR_INIT;
    const et_layout *layout = &m->source.source.layout;
    const et_pass_options options = { .training = true, .recompute = ET_RECOMPUTE_CHEAP };
    guard_check(et_device_open(&m->device, &error), &error);
    guard_check(et_params_new(&m->params, &error), &error);
    guard_check(et_pass_open(&m->pass, m->device, m->params, layout, m->source.model->build, NULL,
                             &options, &error),
                &error);
    guard_check(et_params_materialize(m->params, false, &error), &error);
    et_init_draw(m->params, 1);
    guard_check(et_pass_prepare(m->pass, layout, &error), &error);
}

static void close_pass(model *m)
{
    et_pass_close(m->pass);
    et_params_free(m->params);
    et_device_close(m->device);
}

static void *open_model(const made_model *made)
{
    model *m = guard_memory(sizeof *m);
    m->source = (fixed_source){ { .class = &fixed_class, .layout = made->layout }, made };
    return m;
}

static void *open_planning(void)
{
    return open_model(&translation);
}

static void *open_deep(void)
{
    return open_model(&deep);
}

static void run_planning(void *work)
{
    open_pass(work);
    close_pass(work);
}

/* ---- step: batches in, one update out ---- */

static et_optimization_options adamw(void)
{
    et_optimization_options options;
    et_fields_defaults(&et_optimization_fields, &options);
    options.optimizer.type = ET_OPTIMIZER_ADAMW;
    options.optimizer.adamw.gradient_clip_norm = 1;
    options.learning_rate.type = ET_RATE_CONSTANT;
    options.learning_rate.constant.learning_rate = 1e-3;
    options.ema.enabled = true;
    return options;
}

static model *open_steps(const made_model *made, int shards)
{
    et_error error = ET_ERROR_INIT;
    model *m = open_model(made);
    et_optimization_options options = adamw();
    open_pass(m);
    guard_check(
        et_optimizer_new(&m->optimizer, m->params, NULL, m->device->kernels, &options, &error),
        &error);
    guard_check(et_metrics_new(&m->metrics, &error), &error);
    m->overflow = et_overflow_fail();
    et_reducer *reducer;
    guard_check(et_tree_open(&reducer, m->pass, shards, &error), &error);
    const et_step_parts parts = { .source = &m->source.source,
                                  .pass = m->pass,
                                  .optimizer = m->optimizer,
                                  .overflow = &m->overflow,
                                  .metrics = m->metrics,
                                  .prefix = "training_",
                                  .reducer = reducer };
    guard_check(et_step_open(&m->step, &parts, &error), &error);
    return m;
}

static void *open_translation(void)
{
    return open_steps(&translation, 2);
}

static void *open_classifier(void)
{
    return open_steps(&classifier, 1);
}

static void run_step(void *work)
{
    et_error error = ET_ERROR_INIT;
    model *m = work;
    guard_check(et_step_run(&m->step, &error), &error);
}

static void close_steps(void *work)
{
    model *m = work;
    et_step_release(&m->step);
    et_metrics_free(m->metrics);
    et_optimizer_free(m->optimizer);
    close_pass(m);
    et_free(m);
}

/* ---- loop: the trainer around steps that compute nothing ---- */

enum { EMPTY_STEPS = 2000 };

typedef struct loop {
    et_task task; /* first member */
    fixed_source source;
    et_progress *progress;
    et_device *device;
    et_params *params;
    et_task_trainer *trainer;
    et_controller *controller;
    char directory[32];
} loop;

static void build_empty(et_task *self, et_scope *scope, bool training)
{
    (void)self, (void)training;
    empty_loss(scope, NULL);
}

static int empty_data(et_task *self, bool training, et_source **out, et_error *error)
{
    (void)error;
    *out = training ? &((loop *)(void *)self)->source.source : NULL;
    return ET_OK;
}

static const et_task_class empty_class = { .name = "empty",
                                           .build = build_empty,
                                           .data = empty_data };

/* As the command does. */
static void show(void *self, const et_showing *showing)
{
    const et_progress_field fields[] = { { "loss", showing->loss, true },
                                         { "lr", showing->learning_rate, false } };
    const et_progress_state state = { .step = showing->step,
                                      .steps = showing->steps,
                                      .fields = fields,
                                      .field_count = sizeof fields / sizeof fields[0],
                                      .rate = showing->rate,
                                      .epoch = showing->epoch,
                                      .seconds_left = NAN,
                                      .time = showing->time };
    et_progress_update(self, &state);
}

static void tell(void *self, const char *text)
{
    et_progress_message(self, text);
}

static void open_controller(loop *l)
{
    et_error error = ET_ERROR_INIT;
    const et_controller_options options = {
        .trainer = et_task_trainer_trainer(l->trainer),
        .run = { .model_dir = l->directory,
                 .observer = { .self = l->progress, .show = show, .tell = tell } },
        .train_steps = EMPTY_STEPS,
        .steps_per_loop = EMPTY_STEPS / 2,
        .summary_interval = EMPTY_STEPS / 4,
    };
    guard_check(et_controller_open(&l->controller, &options, &error), &error);
}

static void *open_loop(void)
{
    et_error error = ET_ERROR_INIT;
    et_optimization_options rule = adamw();
    et_progress_options quiet = ET_PROGRESS_OPTIONS_INIT;
    et_task_trainer_options options = { .optimization = &rule };
    loop *l = guard_memory(sizeof *l);
    l->task.class = &empty_class;
    l->source = (fixed_source){ { .class = &fixed_class, .layout = empty.layout }, &empty };
    guard_make_directory(l->directory, sizeof l->directory);
    guard_check(et_progress_open(&l->progress, &quiet, &error), &error);
    guard_check(et_device_open(&l->device, &error), &error);
    guard_check(et_params_new(&l->params, &error), &error);
    guard_check(et_task_trainer_open(&l->trainer, &l->task, l->device, l->params, &options, &error),
                &error);
    open_controller(l);
    return l;
}

static void run_loop(void *work)
{
    et_error error = ET_ERROR_INIT;
    guard_check(et_controller_train(((loop *)work)->controller, &error), &error);
}

static void close_loop(void *work)
{
    et_error error = ET_ERROR_INIT;
    loop *l = work;
    guard_check(et_controller_close(l->controller, &error), &error);
    et_task_trainer_close(l->trainer);
    et_params_free(l->params);
    et_device_close(l->device);
    et_progress_close(l->progress);
    guard_remove(l->directory);
    et_free(l);
}

/* ---- decode: beam search, plans and all ---- */

enum { SENTENCES = 20, SOURCE = 9, TARGET = 8, BEAM = 4 };

typedef struct search {
    et_params *params;
    et_device *device;
    int32_t pieces[SENTENCES][SOURCE];
    et_decoder_sentence sentences[SENTENCES];
} search;

static void *open_search(void)
{
    et_error error = ET_ERROR_INIT;
    et_transformer transformer = small_transformer();
    search *s = guard_memory(sizeof *s);
    et_graph *graph;
    guard_check(et_device_open(&s->device, &error), &error);
    guard_check(et_params_new(&s->params, &error), &error);
    guard_check(et_graph_new(&graph, s->params, NULL, &error), &error);
    et_transformer_train(et_graph_scope(graph), &transformer, SOURCE, TARGET, 1);
    guard_check(et_graph_finish(graph, &error), &error);
    guard_check(et_params_materialize(s->params, false, &error), &error);
    et_init_draw(s->params, 1);
    et_graph_free(graph);
    for (int i = 0; i < SENTENCES; i++) {
        for (int k = 0; k < SOURCE; k++)
            s->pieces[i][k] = (17 * i + 31 * k) % PIECES;
        s->sentences[i] = (et_decoder_sentence){ .source = s->pieces[i], .length = SOURCE - i % 3 };
    }
    return s;
}

/* No piece ends a sentence: every one takes the same steps. */
static void run_search(void *work)
{
    et_error error = ET_ERROR_INIT;
    search *s = work;
    et_arena arena = ET_ARENA_INIT;
    et_transformer transformer = small_transformer();
    et_decoder *decoder;
    et_decoder_options options = { .beam = { .size = BEAM, .alpha = 0.6, .eos = -1 },
                                   .max_length = TARGET,
                                   .sentences = 8,
                                   .act = ET_F32 };
    guard_check(et_decoder_new(&decoder, s->params, s->device, &transformer, &options, &error),
                &error);
    guard_check(et_decoder_run(decoder, s->sentences, SENTENCES, &arena, NULL, NULL, &error),
                &error);
    et_decoder_free(decoder);
    et_arena_release(&arena);
}

static void close_search(void *work)
{
    search *s = work;
    et_params_free(s->params);
    et_device_close(s->device);
    et_free(s);
}

const guard_workload guard_models[] = {
    { "plan", open_planning, run_planning, et_free, true },
    { "deep", open_deep, run_planning, et_free, true },
    { "step", open_translation, run_step, close_steps, false },
    { "classifier", open_classifier, run_step, close_steps, false },
    { "loop", open_loop, run_loop, close_loop, true },
    { "decode", open_search, run_search, close_search, true },
};
