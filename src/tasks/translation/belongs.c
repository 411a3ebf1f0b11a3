/* What a run's checkpoints belong to besides its settings: a vocabulary and an encoded text, known
 * by their checksums. */
#include <string.h>

#include "base/alloc.h"
#include "base/checksum.h"
#include "base/file.h"
#include "tasks/translation/input.h"
#include "tasks/translation/task.h"
#include "train/identity.h"

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
    et_vocabulary *vocabulary;
    char *path = et_path_join(model_dir, ET_TRANSLATION_VOCABULARY);
    (void)options;
    int status = path ? et_vocabulary_open(&vocabulary, path, error)
                      : et_alloc_failed(error, strlen(model_dir), "a path");
    if (!status) {
        uint64_t checksum = et_vocabulary_checksum(vocabulary);
        et_vocabulary_close(vocabulary);
        status = et_translation_check_vocabulary(checksum, identity, path, error);
    }
    et_free(path);
    return status;
}
