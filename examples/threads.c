/* Predictions from several threads with one model, and the rules for threads.
 *
 *     cc threads.c -o threads -pthread $(pkg-config --cflags --libs etude)
 *     ./threads income.safetensors 4 <rows.csv
 *
 * prints the label or the value of each row, in the order of the rows, with any number of threads
 * (here 4).
 *
 * A predictor is for one thread at a time. Each thread opens its own predictor with `.shares`. All
 * share the weights of the first predictor; close them before it. et_translator has the same
 * option. An et_model is for one thread, too: for several threads, open a model in each and call
 * et_model_load in each. An et_error belongs to one thread.
 *
 * Each call also computes with OpenMP's threads. If you start many threads, set OMP_NUM_THREADS=1.
 * A prediction has the same bits with any number of either kind of threads. */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/etude.h>

enum { THREADS_MAX = 64, LONGEST_LINE = 1 << 16 };

typedef struct worker {
    pthread_t thread;
    et_predictor *predictor;
    const char *const *rows; /* borrowed: its part of all */
    size_t count;
    et_predictions *found;
    et_error error;
} worker;

/* ---- rows ---- */

typedef struct rows {
    char **items; /* [count], owned, as each of them is */
    size_t count;
} rows;

static int read_rows(rows *all, et_error *error)
{
    static char line[LONGEST_LINE];

    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\r\n")] = 0;
        char **items = realloc(all->items, (all->count + 1) * sizeof *items);
        if (!items)
            return et_fail(error, ET_ENOMEM, "no memory for row %zu", all->count + 1);
        all->items = items;
        all->items[all->count] = strdup(line);
        if (!all->items[all->count++])
            return et_fail(error, ET_ENOMEM, "no memory for row %zu", all->count);
    }
    return ET_OK;
}

static void free_rows(rows *all)
{
    for (size_t i = 0; i < all->count; i++)
        free(all->items[i]);
    free(all->items);
}

/* ---- threads ---- */

static void *work(void *of)
{
    worker *w = of;
    et_predictor_predict(w->predictor, w->rows, w->count, &w->found, &w->error);
    return NULL;
}

/* The first predictor has the weights, the others share them. */
static int open_workers(worker *workers, size_t count, const char *model, et_error *error)
{
    int status = et_predictor_open(&workers[0].predictor, model, NULL, error);
    const et_predictor_options shared = { .shares = workers[0].predictor };

    for (size_t i = 1; i < count && !status; i++)
        status = et_predictor_open(&workers[i].predictor, NULL, &shared, error);
    return status;
}

static int run_workers(worker *workers, size_t count, const rows *all, et_error *error)
{
    size_t begun = 0;
    int status = ET_OK;

    for (; begun < count && !status; begun++) {
        worker *w = &workers[begun];
        const size_t from = all->count * begun / count, to = all->count * (begun + 1) / count;
        w->rows = (const char *const *)all->items + from;
        w->count = to - from;
        if (pthread_create(&w->thread, NULL, work, w))
            status = et_fail(error, ET_EFAIL, "thread %zu cannot be started", begun);
    }

    for (size_t i = 0; i < begun - (status != 0); i++) {
        pthread_join(workers[i].thread, NULL);
        if (!status && workers[i].error.status)
            status = et_fail(error, workers[i].error.status, "%s", workers[i].error.text);
    }
    return status;
}

static void print(const worker *w)
{
    for (size_t i = 0; i < et_predictions_count(w->found); i++) {
        const et_prediction one = et_predictions_at(w->found, i);
        if (one.label)
            puts(one.label);
        else
            printf("%g\n", et_predictions_values(w->found, i, 0)[0]);
    }
}

int main(int argc, char **argv)
{
    static worker workers[THREADS_MAX];
    const int threads = argc == 3 ? atoi(argv[2]) : 0;
    et_error error = ET_ERROR_INIT;
    rows all = { NULL, 0 };

    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: %s MODEL THREADS      (1 to %d threads)\n", argv[0], THREADS_MAX);
        return 2;
    }
    et_log_to_stderr();
    const size_t count = (size_t)threads;

    if (read_rows(&all, &error) || open_workers(workers, count, argv[1], &error) ||
        run_workers(workers, count, &all, &error))
        fprintf(stderr, "%s\n", error.text);
    for (size_t i = 0; i < count && !error.status; i++)
        print(&workers[i]);

    for (size_t i = count; i--;) { /* the first one last */
        et_predictions_free(workers[i].found);
        et_predictor_close(workers[i].predictor);
    }
    free_rows(&all);
    return error.status != 0;
}
