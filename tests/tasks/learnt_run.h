/* A run whose model is trained on the lines of bad_set_up. Include after cmocka.h. */
#ifndef ETUDE_TESTS_TASKS_LEARNT_RUN_H
#define ETUDE_TESTS_TASKS_LEARNT_RUN_H

#include <stdio.h>

#include "command/bad_case.h"

/* In `run`, with a checkpoint at each multiple of interval. As a set-up returns. */
static inline int learnt_run(void **state, int steps, int interval)
{
    char line[1000];
    snprintf(line, sizeof line,
             "train --config tiny.yaml --model-dir run --set trainer.train_steps=%d "
             "--set trainer.checkpoint_interval=%d --set task.train_data.global_batch_size=512 "
             "--set '{task: {model: {embedding_width: 64, dropout_rate: 0, label_smoothing: 0, "
             "encoder: {dropout_rate: 0, intermediate_size: 128}, "
             "decoder: {dropout_rate: 0, intermediate_size: 128}}}}' "
             "--set trainer.optimizer_config.learning_rate.inverse_sqrt.warmup_steps=40",
             steps, interval);
    if (bad_set_up(state))
        return -1;
    bad_end end = bad_start(line, NULL, NULL);
    if (end.code)
        print_error("%s\n", end.err);
    int code = end.code;
    bad_release(&end);
    return code;
}

#endif
