/* The parts of the row of translation, et_translation_kind (<etude/translator.h>). */
#ifndef ETUDE_TASKS_TRANSLATION_SETTINGS_TRANSLATION_KIND_H
#define ETUDE_TASKS_TRANSLATION_SETTINGS_TRANSLATION_KIND_H

#include <etude/translator.h>

#include <etude/command.h>

/* Its experiments, ended by a row without a name. */
extern const et_experiment_row et_translation_experiments[];

/* For programs that read settings and train nothing: no training code is linked. */
extern const et_program et_translation_program;

#endif
