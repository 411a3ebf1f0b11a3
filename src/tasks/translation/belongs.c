/* What a run's checkpoints belong to besides its settings: a vocabulary and an encoded text, known
 * by their checksums. */
#include <string.h>

#include "base/alloc.h"
#include "base/checksum.h"
#include "tasks/translation/input.h"
#include "tasks/translation/task.h"
#include "train/identity.h"
#include "train/model_place.h"

#define KEY "vocabulary" /* in an identity */

int et_translation_identify(const et_task *task, et_value *identity, et_error *error)
{
    et_translation_facts facts = et_translation_task_facts(task);
    uint64_t vocabulary = et_vocabulary_checksum(facts.vocabulary);
    et_value_set_string(identity, KEY, et_checksum_print(vocabulary).digits);
    return et_value_set_string(identity, ET_IDENTITY_DATA,
                               et_checksum_print(et_translation_input_key(facts.train)).digits)
               ? ET_OK
               : et_alloc_failed(error, 0, "settings");
}

int et_translation_check_vocabulary(uint64_t vocabulary, const et_identity *identity,
                                    const char *path, et_error *error)
{
    const char *was, *is;
    et_checksum_text text = et_checksum_print(vocabulary);
    is = text.digits;
    if (!identity || !identity->values || !et_value_get(identity->values, KEY))
        return ET_OK;
    int status = et_value_read_string(identity->values, KEY, &was, error);
    if (status)
        return et_fail_while(error, status, "%s", identity->checkpoint);
    if (!strcmp(was, is))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "%s does not belong to %s: its checksum is %s, that of the vocabulary it was "
                   "trained with %s; put that file back",
                   path, identity->checkpoint, is, was);
}

int et_translation_belongs(const void *options, const char *model_dir, const et_identity *identity,
                           et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_model_place place;
    char *bytes = NULL;
    size_t length;
    (void)options;
    int status = et_model_place_open(&place, model_dir, error);
    const char *path =
        status ? NULL : et_model_place_path(&place, ET_TRANSLATION_VOCABULARY, &arena);
    if (!status && !path)
        status = et_alloc_failed(error, strlen(model_dir), "a path");
    if (!status)
        status = et_model_place_read(&place, ET_TRANSLATION_VOCABULARY, ET_VOCABULARY_BYTES_MAX,
                                     &bytes, &length, error);
    if (!status)
        status = et_translation_check_vocabulary(et_checksum(bytes, length), identity, path, error);
    et_free(bytes);
    et_model_place_close(&place);
    et_arena_release(&arena);
    return status;
}
