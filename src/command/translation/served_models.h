/* The models of a translation service. Runs of equal languages are one model, an ensemble; runs of
 * other languages are models of their own. Each model has a translator with the run's beam size,
 * and keeps the decoders of the beam sizes and numbers of results that were last asked for. */
#ifndef ETUDE_COMMAND_TRANSLATION_SERVED_MODELS_H
#define ETUDE_COMMAND_TRANSLATION_SERVED_MODELS_H

#include <etude/service.h>
#include <etude/translator.h>

#include "command/translation/libre_languages.h"

typedef struct et_served_model et_served_model;

typedef struct et_served_models {
    et_served_model *items;    /* [count], owned */
    et_libre_models languages; /* [count] of the models */
} et_served_models;

/* model_dir is the first run, options.others the further ones. ET_EUSAGE: the languages of a run
 * are wrong, or not known where another run has other ones; or an option is for one model alone. */
int et_served_models_open(et_served_models *models, const char *model_dir,
                          const et_service_options *options, et_error *error);
void et_served_models_close(et_served_models *models); /* one of zeros, too */

/* With the run's beam size. Borrowed. */
et_translator *et_served_model_translator(const et_served_models *models, size_t model);
int et_served_model_beam(const et_served_models *models, size_t model);
int et_served_model_beam_max(const et_served_models *models, size_t model);
/* Facts for GET /. */
void et_served_models_describe(const et_served_models *models, et_value *facts);

/* The translator for a beam size and a number of results; opens it where it is not kept. Borrowed
 * until the next call. */
int et_served_model_find(et_served_models *models, size_t model, int beam, int results,
                         et_translator **out, et_error *error);

#endif
