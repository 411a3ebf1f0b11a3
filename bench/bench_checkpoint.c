/* Saves and restores the whole state of a model, and measures the cost of a save for simultaneous
 * steps.
 *
 *     bench_checkpoint tiny|base [ROUNDS]
 *
 * Works in a new folder below the current one, and measures the disk of this folder. The roof of a
 * save is a plain write and fsync of the same bytes from the same arrays. The roof of restoring,
 * which also compares checksums, is a plain read of a file in memory. Roofs and measurements
 * alternate. The delay is the additional time of the longest step after the beginning of a save, in
 * steps. */
#include <fcntl.h>
#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/files/file.h"
#include "bench.h"
#include "engine/kernel/gemm/gemm.h"
#include "model.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"

#define ROUNDS_MAX 100
#define OTHER_FILE "plain" /* in the folder */

/* A model's state and the directory for its checkpoints. */
typedef struct bench_state {
    const char *name;
    bench_model model;
    et_state *state;
    et_checkpoints *checkpoints;
    char directory[32], other[64];
    char *path; /* of the checkpoint; NULL before the first */
    double megabytes;
    int rounds;
} bench_state;

static void open_state(bench_state *s, const char *name, int rounds)
{
    et_error error = ET_ERROR_INIT;
    et_checkpoint_options options = { 0 };
    options.max_to_keep = 1;
    *s = (bench_state){ .name = name, .rounds = rounds, .directory = "bench-checkpoint-XXXXXX" };
    if (!mkdtemp(s->directory)) {
        perror(s->directory);
        exit(1);
    }
    snprintf(s->other, sizeof s->other, "%s/" OTHER_FILE, s->directory);
    bench_model_options model = BENCH_MODEL_OPTIONS_INIT;
    model.name = name;
    model.act = et_gemm_has_bf16() ? ET_BF16 : ET_F32;
    bench_model_open(&s->model, &model);
    bench_check(et_state_new(&s->state, &error), &error);
    bench_check(et_state_add_params(s->state, s->model.params, &error), &error);
    bench_check(et_state_add_optimizer(s->state, "optimizer", s->model.optimizer, &error), &error);
    bench_check(et_checkpoints_open(&s->checkpoints, s->directory, s->state, &options, &error),
                &error);
    for (size_t i = 0; i < et_state_tensor_count(s->state); i++)
        s->megabytes += 4e-6 * (double)et_shape_count(et_state_tensor_at(s->state, i)->shape);
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *where)
{
    (void)info, (void)type, (void)where;
    return remove(path);
}

static void close_state(bench_state *s)
{
    et_error error = ET_ERROR_INIT;
    bench_check(et_checkpoints_close(s->checkpoints, &error), &error);
    et_state_free(s->state);
    bench_model_close(&s->model);
    et_free(s->path);
    nftw(s->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- bytes a second ---- */

static void save(bench_state *s)
{
    et_error error = ET_ERROR_INIT;
    bench_check(et_checkpoints_save(s->checkpoints, s->model.step.count, &error), &error);
    bench_check(et_checkpoints_wait(s->checkpoints, &error), &error);
}

static void restore(bench_state *s)
{
    et_error error = ET_ERROR_INIT;
    int64_t step;
    bench_check(et_checkpoint_restore_file(s->state, s->path, ET_RESTORE_STRICT, &step, &error),
                &error);
}

/* Gives each array of the state to read or write. */
static void move_plainly(bench_state *s, int fd, bool writing)
{
    for (size_t i = 0; fd >= 0 && i < et_state_tensor_count(s->state); i++) {
        const et_state_tensor *tensor = et_state_tensor_at(s->state, i);
        size_t left = (size_t)et_shape_count(tensor->shape) * sizeof(float);
        for (char *at = (char *)tensor->data; left;) {
            ssize_t moved = writing ? write(fd, at, left) : read(fd, at, left);
            if (moved <= 0)
                break;
            at += moved;
            left -= (size_t)moved;
        }
        if (left) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0 || (writing && fsync(fd)) || close(fd)) {
        perror(s->other);
        exit(1);
    }
}

static void write_plainly(bench_state *s)
{
    move_plainly(s, open(s->other, O_WRONLY | O_CREAT | O_EXCL, 0666), true);
}

static void read_plainly(bench_state *s)
{
    move_plainly(s, open(s->other, O_RDONLY), false);
    unlink(s->other);
}

/* The two in turn; median rates. */
static void time_moves(bench_state *s)
{
    enum { SAVE, WRITE, RESTORE, READ, MOVES };
    static void (*const moves[MOVES])(bench_state * s) = { save, write_plainly, restore,
                                                           read_plainly };
    double rates[MOVES][ROUNDS_MAX], rate[MOVES], since = 0;
    et_error error = ET_ERROR_INIT;
    save(s);
    bench_check(et_checkpoint_newest(&s->path, s->directory, &error), &error);
    for (int i = 0; i < s->rounds; i++)
        for (int m = 0; m < MOVES; m++) {
            bench_lap(&since);
            moves[m](s);
            rates[m][i] = s->megabytes / bench_lap(&since);
        }
    for (int m = 0; m < MOVES; m++)
        rate[m] = bench_median(rates[m], s->rounds);
    printf("%s: %.1f MB: saved at %.0f MB/s, written plainly at %.0f; restored at %.0f MB/s, read "
           "plainly at %.0f\n",
           s->name, s->megabytes, rate[SAVE], rate[WRITE], rate[RESTORE], rate[READ]);
    bench_figure(rate[SAVE], "MB/s", rate[WRITE], "save.%s.mb_s", s->name);
    bench_figure(rate[SAVE] / rate[WRITE], "share", 1, "save.%s.roof_share", s->name);
    bench_figure(rate[RESTORE], "MB/s", rate[READ], "restore.%s.mb_s", s->name);
    bench_figure(rate[RESTORE] / rate[READ], "share", 1, "restore.%s.roof_share", s->name);
}

/* ---- steps during a save ---- */

/* The longest of some steps; a save begins with the first. */
static double longest_step(bench_state *s, int steps, bool saving)
{
    et_error error = ET_ERROR_INIT;
    double longest = 0, since = 0;
    bench_lap(&since);
    for (int i = 0; i < steps; i++) {
        if (saving && i == 0)
            bench_check(et_checkpoints_save(s->checkpoints, s->model.step.count, &error), &error);
        bench_model_step(&s->model);
        longest = fmax(longest, bench_lap(&since));
    }
    bench_check(et_checkpoints_wait(s->checkpoints, &error), &error);
    return longest;
}

static void time_delay(bench_state *s, int steps)
{
    double alone[ROUNDS_MAX], beside[ROUNDS_MAX], delay[ROUNDS_MAX];
    longest_step(s, 1, false);
    for (int i = 0; i < s->rounds; i++) {
        alone[i] = longest_step(s, steps, false);
        beside[i] = longest_step(s, steps, true);
        delay[i] = beside[i] / alone[i] - 1;
    }
    double median = bench_median(delay, s->rounds), most = delay[s->rounds - 1];
    printf("%s: the longest of %d steps takes %.1f ms, %.1f ms beside a save: a delay of %.2f "
           "steps, at most %.2f\n",
           s->name, steps, 1e3 * bench_median(alone, s->rounds),
           1e3 * bench_median(beside, s->rounds), median, most);
    bench_figure(fmax(median, 0), "steps", NAN, "save.%s.delay_steps", s->name);
}

int main(int argc, char **argv)
{
    bool base = argc > 1 && !strcmp(argv[1], "base");
    int rounds = argc > 2 ? atoi(argv[2]) : 3;
    if (argc < 2 || (!base && strcmp(argv[1], "tiny")) || rounds < 1 || rounds > ROUNDS_MAX) {
        fprintf(stderr, "usage: bench_checkpoint tiny|base [ROUNDS]\n");
        return 2;
    }
    static bench_state state;
    bench_print_machine();
    open_state(&state, argv[1], rounds);
    time_delay(&state, base ? 2 : 8);
    time_moves(&state);
    close_state(&state);
    return 0;
}
