/* The translation task: parallel text in, a trained Transformer out.
 *
 * Opening reads what training needs: the vocabulary (given, kept with the run, or trained on
 * the training text and kept), the encoded corpus (from its cache if text and vocabulary are
 * the same), and validation's lines. The model is that of the options; validation gives the scores
 * of beam search beside the loss. */
#ifndef ETUDE_TASKS_TRANSLATION_TASK_H
#define ETUDE_TASKS_TRANSLATION_TASK_H

#include <signal.h>

#include <etude/task.h>

#include "data/encoded.h"
#include "exec/device.h"
#include "io/progress.h"
#include "tasks/translation/options.h"
#include "train/identity.h"

/* Files of a run that this task keeps. */
#define ET_TRANSLATION_VOCABULARY "vocabulary.model"
#define ET_TRANSLATION_CACHE      "cache"
#define ET_TRANSLATION_OUTPUT     "translations"

typedef struct et_translation_context {
    const char *model_dir; /* where the run's files go */
    et_params *params;     /* the store that the model declares into */
    et_device *device;
    et_dtype act;                      /* type of activations: ET_F32 or ET_BF16 */
    uint64_t seed;                     /* of the order of the data */
    int prefetch;                      /* batches ahead; 0: none */
    const et_identity *identity;       /* of the run's newest checkpoint; NULL: not known */
    et_progress *progress;             /* where people look; may be NULL */
    const volatile sig_atomic_t *stop; /* not 0: validation ends with ET_EINTERRUPTED; or NULL */
} et_translation_context;

/* What opening found, for the lines before step 1. Borrowed from the task. */
typedef struct et_translation_facts {
    const et_encoded *train;
    const et_encoded *validation; /* NULL: none */
    const et_vocabulary *vocabulary;
    double vocabulary_seconds;   /* that training it took; 0: it was there */
    const char *vocabulary_path; /* the run's own copy */
} et_translation_facts;

/* Options and context are copied; what they point to must outlive the task. */
int et_translation_task_open(et_task **out, const et_translation_options *options,
                             const et_translation_context *context, et_error *error);
void et_translation_task_close(et_task *task); /* NULL allowed */

et_translation_facts et_translation_task_facts(const et_task *task);

#endif
