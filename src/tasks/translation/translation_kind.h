/* The parts of the row of translation, et_translation_kind (<etude/translator.h>). */
#ifndef ETUDE_TASKS_TRANSLATION_TRANSLATION_KIND_H
#define ETUDE_TASKS_TRANSLATION_TRANSLATION_KIND_H

#include <etude/translator.h>

#include <etude/command.h>

/* Its experiments, ended by a row without a name. */
extern const et_experiment_row et_translation_experiments[];

/* For what reads settings and trains nothing: nothing that trains is linked for it. */
extern const et_program et_translation_program;

#endif
