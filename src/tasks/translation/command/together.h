/* A translator that several ranks open for one piece of work. */
#ifndef ETUDE_TASKS_TRANSLATION_COMMAND_TOGETHER_H
#define ETUDE_TASKS_TRANSLATION_COMMAND_TOGETHER_H

#include <etude/translator.h>

/* et_translator_open by all ranks of options->comm: whether each has found the same checkpoint and
 * computes with the same kernels. ET_EBUSY, ET_ECONFIG: one has not. *out is to be closed in any
 * case. */
int et_translator_open_together(et_translator **out, const char *model_dir,
                                const et_translator_options *options, et_error *error);

#endif
