/* Graphs, plans, steps and decoding of small models. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/nn.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "guard/guard.h"
#include "tasks/translation/decoder.h"
#include "train/run.h"
#include "train/step.h"

/* ---- what is trained -------------------------------------------------------------------- */

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
                             .vocabulary = PIECES,
                             .width = WIDTH,
                             .max_positions = 64,
                             .dropout_rate = 0.1f };
}

/* A batch of sentences of 1 to 11 pieces, the last tokens empty, or of rows of a table. */
typedef struct batch {
    int32_t ids[TOKENS], positions[TOKENS], offsets[SEGMENTS + 1], labels[TOKENS];
    int32_t classes[BATCH];
    float *rows; /* [BATCH, FEATURES] */
} batch;

static void fill(batch *b)
{
    int at = 0;
    for (int s = 0; s < SEGMENTS; s++) {
        b->offsets[s] = at;
        for (int i = 0; i <= 7 * s % 11; i++, at++)
            b->positions[at] = i;
    }
    b->offsets[SEGMENTS] = at;
    for (int i = 0; i < TOKENS; i++) {
        b->ids[i] = i < at ? 7 * i % PIECES : -1;
        b->labels[i] = i < at ? 11 * i % PIECES : -1;
    }
    for (int i = 0; i < BATCH; i++)
        b->classes[i] = i * 7 % 3 == 0;
    b->rows = guard_numbers((size_t)BATCH * FEATURES, ET_F32, 1);
}

static et_node *loss_of(et_scope *s, int layers)
{
    et_transformer model = small_transformer();
    model.encoder.num_layers = model.decoder.num_layers = layers;
    et_node *h = et_transformer_train(s, &model, TOKENS, TOKENS, SEGMENTS);
    et_node *labels = et_input(s, "labels", ET_I32, et_shape_1(TOKENS));
    return et_vocabulary_loss(h, et_transformer_table(s, &model), labels, 0.1f);
}

static et_node *translation_loss(et_scope *s)
{
    return loss_of(s, 2);
}

/* Twelve times as deep: what grows with the square of the depth would show. */
static et_node *deep_loss(et_scope *s)
{
    return loss_of(s, 24);
}

/* As bench/bench_mlp.c has it. */
static et_node *classifier_loss(et_scope *s)
{
    et_dense_options hidden = { .activation = ET_ACTIVATION_RELU };
    et_node *h = et_input(s, "rows", ET_F32, et_shape_2(BATCH, FEATURES));
    h = et_dense_with(et_in(s, "first"), h, 64, &hidden);
    h = et_dense_with(et_in(s, "second"), h, 32, &hidden);
    h = et_dense(et_in(s, "third"), h, 2);
    return et_softmax_loss(h, et_input(s, "classes", ET_I32, et_shape_1(BATCH)), 0);
}

/* Two weights: the trainer's own cost is all there is. */
static et_node *empty_loss(et_scope *s)
{
    et_node *logits = et_param(s, "w", et_shape_2(1, 2), (et_init){ ET_INIT_ZEROS, 0 });
    return et_softmax_loss(logits, et_input(s, "label", ET_I32, et_shape_1(1)), 0);
}

/* ---- a task whose batches are always the same ------------------------------------------- */

typedef et_node *loss_fn(et_scope *scope);

typedef struct fixed_task {
    et_task task; /* first member */
    loss_fn *loss;
    batch batch;
} fixed_task;

static et_node *build_loss(et_task *self, et_scope *scope)
{
    return ((fixed_task *)(void *)self)->loss(scope);
}

static int attach(et_task *self, et_state *state, et_error *error)
{
    (void)self, (void)state, (void)error;
    return ET_OK;
}

static int next(et_task *self, et_plan *plan, et_error *error)
{
    (void)self, (void)plan, (void)error;
    return ET_OK;
}

static int64_t epoch(const et_task *self)
{
    (void)self;
    return 1;
}

static void describe_batch(const et_task *self, et_strbuf *out)
{
    (void)self;
    et_strbuf_printf(out, "a made one");
}

static const et_task_class fixed_class = {
    .name = "fixed",
    .build_loss = build_loss,
    .attach = attach,
    .next = next,
    .epoch = epoch,
    .describe_batch = describe_batch,
};

static void bind(et_plan *plan, const batch *b)
{
    static const char *const sides[] = { "source", "target" };
    char name[64];
    for (int i = 0; i < 2; i++) {
        et_plan_bind(plan, strcat(strcpy(name, sides[i]), "_ids"), b->ids);
        et_plan_bind(plan, strcat(strcpy(name, sides[i]), "_positions"), b->positions);
        et_plan_bind(plan, strcat(strcpy(name, sides[i]), "_offsets"), b->offsets);
    }
    et_plan_bind(plan, "labels", b->labels);
    et_plan_bind(plan, "rows", b->rows);
    et_plan_bind(plan, "classes", b->classes);
}

/* ---- plan: from a model's function to something that runs ------------------------------- */

typedef struct model {
    fixed_task task;
    et_params *params;
    et_device *device;
    et_graph *graph;
    et_plan *plan;
    et_optimizer *optimizer;
    et_metrics *metrics;
    et_step step;
} model;

static void open_plan(model *m)
{
    et_error error = ET_ERROR_INIT;
    et_graph_options options = { .training = true, .act = ET_F32, .recompute = ET_RECOMPUTE_CHEAP };
    guard_check(et_device_open(&m->device, &error), &error);
    guard_check(et_params_new(&m->params, &error), &error);
    guard_check(et_graph_new(&m->graph, m->params, &options, &error), &error);
    et_node *loss = m->task.loss(et_graph_scope(m->graph));
    guard_check(et_graph_finish(m->graph, &error), &error);
    guard_check(et_graph_differentiate(m->graph, loss, &error), &error);
    guard_check(et_params_materialize(m->params, false, &error), &error);
    et_init_draw(m->params, 1);
    et_plan_options plan = ET_PLAN_OPTIONS_INIT; /* as a training run has them */
    plan.keep_packed = false;
    guard_check(et_plan_new(&m->plan, m->graph, m->device, &loss, 1, &plan, &error), &error);
}

static void close_plan(model *m)
{
    et_plan_free(m->plan);
    et_graph_free(m->graph);
    et_params_free(m->params);
    et_device_close(m->device);
}

static void *open_model(loss_fn *loss)
{
    model *m = guard_memory(sizeof *m);
    m->task.task.class = &fixed_class;
    m->task.loss = loss;
    fill(&m->task.batch);
    return m;
}

static void close_model(void *work)
{
    model *m = work;
    et_free(m->task.batch.rows);
    et_free(m);
}

static void *open_planning(void)
{
    return open_model(translation_loss);
}

static void *open_deep(void)
{
    return open_model(deep_loss);
}

static void run_planning(void *work)
{
    open_plan(work);
    close_plan(work);
}

/* ---- step: batches in, one update out --------------------------------------------------- */

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

static model *open_steps(loss_fn *loss, int batches)
{
    et_error error = ET_ERROR_INIT;
    model *m = open_model(loss);
    et_optimization_options options = adamw();
    open_plan(m);
    bind(m->plan, &m->task.batch);
    const et_kernels *kernels = m->device->kernels;
    guard_check(et_optimizer_new(&m->optimizer, m->params, NULL, kernels, &options, &error),
                &error);
    guard_check(et_metrics_new(&m->metrics, &error), &error);
    guard_check(et_step_define_metrics(&m->step, m->metrics, &error), &error);
    guard_check(et_accumulator_init(&m->step.accumulator, m->params, kernels, batches, &error),
                &error);
    m->step.task = &m->task.task;
    m->step.plan = m->plan;
    m->step.optimizer = m->optimizer;
    return m;
}

static void *open_translation(void)
{
    return open_steps(translation_loss, 2);
}

static void *open_classifier(void)
{
    return open_steps(classifier_loss, 1);
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
    et_accumulator_release(&m->step.accumulator);
    et_metrics_free(m->metrics);
    et_optimizer_free(m->optimizer);
    close_plan(m);
    close_model(m);
}

/* ---- loop: the trainer around steps that compute nothing -------------------------------- */

enum { EMPTY_STEPS = 2000 };

typedef struct loop {
    fixed_task task;
    et_trainer_options trainer;
    et_progress *progress;
    et_device *device;
    et_params *params;
    et_run *run;
    int32_t label;
    char directory[32];
} loop;

static int bind_label(et_task *self, et_plan *plan, et_error *error)
{
    (void)error;
    et_plan_bind(plan, "label", ((fixed_task *)(void *)self)->batch.labels);
    return ET_OK;
}

static void *open_loop(void)
{
    static et_task_class class;
    et_error error = ET_ERROR_INIT;
    loop *l = guard_memory(sizeof *l);
    et_progress_options quiet = ET_PROGRESS_OPTIONS_INIT;
    class = fixed_class;
    class.next = bind_label;
    l->task.task.class = &class;
    l->task.loss = empty_loss;
    et_fields_defaults(&et_trainer_fields, &l->trainer);
    l->trainer.train_steps = EMPTY_STEPS;
    l->trainer.checkpoint_interval = l->trainer.validation_interval = 0;
    l->trainer.summary_interval = EMPTY_STEPS / 4;
    l->trainer.optimizer_config = adamw();
    guard_make_directory(l->directory, sizeof l->directory);
    guard_check(et_progress_open(&l->progress, &quiet, &error), &error);
    guard_check(et_device_open(&l->device, &error), &error);
    guard_check(et_params_new(&l->params, &error), &error);
    et_run_options options = { .model_dir = l->directory,
                               .trainer = &l->trainer,
                               .act = ET_F32,
                               .device = l->device,
                               .params = l->params,
                               .progress = l->progress };
    guard_check(et_run_open(&l->run, &l->task.task, &options, &error), &error);
    return l;
}

static void run_loop(void *work)
{
    et_error error = ET_ERROR_INIT;
    guard_check(et_run_train(((loop *)work)->run, &error), &error);
}

static void close_loop(void *work)
{
    et_error error = ET_ERROR_INIT;
    loop *l = work;
    guard_check(et_run_close(l->run, &error), &error);
    et_params_free(l->params);
    et_device_close(l->device);
    et_progress_close(l->progress);
    guard_remove(l->directory);
    et_free(l);
}

/* ---- decode: beam search, plans and all ------------------------------------------------- */

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
    et_decoder_options options = {
        .beam = { BEAM, 0.6, -1 }, .max_length = TARGET, .sentences = 8, .act = ET_F32
    };
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
    { "plan", open_planning, run_planning, close_model, true },
    { "deep", open_deep, run_planning, close_model, true },
    { "step", open_translation, run_step, close_steps, false },
    { "classifier", open_classifier, run_step, close_steps, false },
    { "loop", open_loop, run_loop, close_loop, true },
    { "decode", open_search, run_search, close_search, true },
};
