/* The other models of an ensemble, opened for a translator: for `translate` and `serve`. */
#ifndef ETUDE_COMMAND_TRANSLATION_ENSEMBLE_MODELS_H
#define ETUDE_COMMAND_TRANSLATION_ENSEMBLE_MODELS_H

#include <etude/translator.h>

typedef struct et_ensemble_models {
    et_translator **items; /* [count] owned, as each of them */
    int count;
} et_ensemble_models;

/* Opens a translator for each run with the checkpoint, precision and live_weights of options, and
 * makes them the others of options. Close them after the translator that is opened with options. */
int et_ensemble_models_open(et_ensemble_models *models, const char *const *runs, int count,
                            et_translator_options *options, et_error *error);
void et_ensemble_models_close(et_ensemble_models *models); /* one of zeros, too */

#endif
