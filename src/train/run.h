/* What <etude/run.h> leaves to drivers: lines for people, and going back. */
#ifndef ETUDE_TRAIN_RUN_H
#define ETUDE_TRAIN_RUN_H

#include <etude/run.h>

#include "train/checkpoint.h"
#include "train/recent.h"

/* Tells people a line. */
void et_run_tell(const et_run *run, const char *format, ...) __attribute__((format(printf, 2, 3)));
void et_run_show(const et_run *run, const et_showing *showing);

/* Back to the newest checkpoint, logs and all; ET_ENOTFOUND: there is none. */
int et_run_rewind(et_run *run, int64_t *step, et_error *error);

#endif
