/* Shared decoding: each rank decodes some of the sentences, by their positions in the list, and
 * gets the results of the others, so all have those of one process. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_DECODE_SHARE_H
#define ETUDE_TASKS_TRANSLATION_DECODING_DECODE_SHARE_H

#include <etude/comm.h>

#include "tasks/translation/decoding/decoder.h"

/* As et_decoder_run, by all ranks with the same sentences. comm NULL: alone. progress assumes that
 * the other ranks are as far as this one. */
int et_decoder_run_on_ranks(et_decoder *decoder, et_comm *comm, et_decoder_sentence *sentences,
                            int64_t count, et_arena *arena, et_decoder_progress_fn *progress,
                            void *payload, et_error *error);

#endif
