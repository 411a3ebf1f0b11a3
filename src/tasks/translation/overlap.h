/* Warnings about texts that make a model or its scores worthless: equal sides, test pairs that are
 * also training pairs, and a test text with swapped languages. Training checks its validation text;
 * an evaluation checks other files. Compares lines of files, so the vocabulary does not matter. */
#ifndef ETUDE_TASKS_TRANSLATION_OVERLAP_H
#define ETUDE_TASKS_TRANSLATION_OVERLAP_H

#include <signal.h>

#include "tasks/translation/settings/input.h"

typedef struct et_overlap_texts {
    const et_translation_data *train_data;
    const et_translation_input
        *training;                     /* NULL: a model is evaluated. Then the files of train_data
                                          are read if they exist and have at most 256 MiB */
    const et_translation_text *tested; /* [tested_count] */
    int tested_count;
    const volatile sig_atomic_t *stop; /* not 0: ends; may be NULL */
} et_overlap_texts;

/* Prints warnings (et_log). Ignores files that cannot be read. ET_ENOMEM. */
int et_translation_tell_overlap(const et_overlap_texts *texts, et_error *error);

#endif
