/* The identity of a run's checkpoints, in addition to its settings: checksums of vocabularies and
 * of the encoded text. */

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "tasks/translation/settings/input.h"
#include "tasks/translation/translation_task.h"
#include "train/checkpoint/identity.h"

int et_translation_identify(const et_task *task, et_value *identity, et_error *error)
{
    et_translation_facts facts = et_translation_task_facts(task);
    et_vocabularies_identify(facts.vocabularies, identity);
    return et_value_set_string(identity, ET_IDENTITY_DATA,
                               et_checksum_print(et_translation_input_key(facts.train)).digits)
               ? ET_OK
               : et_alloc_failed(error, 0, "settings");
}

int et_translation_belongs(const void *options, const char *model_dir, const et_identity *identity,
                           et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_vocabularies v;
    et_artifact artifact;
    et_vocabularies_init(&v, &((const et_translation_options *)options)->vocabulary);
    int status = et_artifact_open(&artifact, model_dir, error);
    if (!status)
        status = et_vocabularies_check_files(&v, identity, &artifact, &arena, error);
    et_artifact_close(&artifact);
    et_arena_release(&arena);
    return status;
}
