/* Jobs of points (points.h), each in a directory of its own. */
#ifndef ETUDE_TESTS_TASKS_TABULAR_JOBS_H
#define ETUDE_TESTS_TASKS_TABULAR_JOBS_H

#include "tasks/tabular/points.h"

#include <sys/stat.h>

/* A job in a directory of its own. */
typedef struct fixture {
    char output[64];
    et_table_set *dataset;
    et_model_trainer *trainer;
    char lines[16384]; /* what was told */
    volatile sig_atomic_t stop;
    int stop_at; /* a line with this step asks to stop; 0: none does */
    int sleeps;  /* milliseconds at each evaluation */
} fixture;

static inline int set_up(void **state)
{
    et_error error = ET_ERROR_INIT;
    fixture *f = calloc(1, sizeof *f);
    strcpy(f->output, "job.XXXXXX");
    assert_non_null(mkdtemp(f->output));
    f->dataset = open_points(POINTS_FEATURES, 2);
    unsetenv("TF_CONFIG");
    ok(et_model_trainer_new(&f->trainer, NULL, &error), &error);
    *state = f;
    return 0;
}

static inline int tear_down(void **state)
{
    fixture *f = *state;
    et_model_trainer_free(f->trainer);
    et_table_set_close(f->dataset);
    remove_tree(f->output);
    free(f);
    return 0;
}

static inline void tell(void *listener, const char *line)
{
    fixture *f = listener;
    int step;
    size_t length = strlen(f->lines);
    snprintf(f->lines + length, sizeof f->lines - length, "%s\n", line);
    if (f->stop_at && sscanf(line, "Global steps: %d", &step) == 1 && step >= f->stop_at)
        f->stop = 1;
    if (f->sleeps && strstr(line, "Evaluation metric"))
        usleep((unsigned)f->sleeps * 1000);
}

/* Trains with a class of builder; NULL where that fails, as status and error say. */
static inline et_predictor *train(fixture *f, const et_model_builder_class *kind,
                                  const et_arguments_class *arguments, const char *const *args,
                                  int *status, et_error *error)
{
    const et_training_job job = {
        .output = f->output, .listener = f, .tell = tell, .stop = &f->stop
    };
    et_arguments *parsed = parse_arguments(arguments, args);
    et_model_builder *builder = calloc(1, kind->size ? kind->size : sizeof *builder);
    et_predictor *out = NULL;
    f->lines[0] = 0;
    f->stop = 0;
    *status = et_model_builder_init(builder, kind, parsed, f->dataset, error);
    if (!*status)
        *status = et_model_trainer_train(f->trainer, builder, &job, &out, error);
    assert_int_equal(out == NULL, *status != ET_OK);
    et_model_builder_release(builder);
    free(builder);
    et_arguments_free(parsed);
    return out;
}

#define SETTINGS                                                                                   \
    "--hidden-layers:1", "16", "--learning-rate", "0.2", "--batch-size", "32",                     \
        "--eval-interval-steps", "100", "--log-interval-steps", "50"

static inline et_predictor *trained(fixture *f, const char *const *args)
{
    et_error error = ET_ERROR_INIT;
    int status;
    et_predictor *out =
        train(f, &et_feed_forward_builder, &et_feed_forward_arguments_class, args, &status, &error);
    ok(status, &error);
    return out;
}

static inline char *read_text(const fixture *f, const char *name)
{
    char path[256];
    static char text[8192];
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("no %s", path);
    text[fread(text, 1, sizeof text - 1, file)] = 0;
    fclose(file);
    return text;
}

static inline bool is_there(const fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    return access(path, F_OK) == 0;
}

static inline void put_file(const fixture *f, const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", f->output, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
}

#endif
