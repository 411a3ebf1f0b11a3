#include "command/options/ensemble.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/numbers/decimal.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/artifact/artifact.h"

bool et_word_is_run(const char *word)
{
    et_assert(word);
    return et_path_ends(word, ET_SAFETENSORS_SUFFIX) || et_path_ends(word, ".zip") ||
           et_directory_exists(word);
}

static int take_word(et_ensemble_runs *out, const char *word, const char **const *files, int count,
                     et_error *error)
{
    if (!et_word_is_run(word)) {
        /* The first of files that has no name yet gets it. */
        if (!count)
            return et_fail(error, ET_EUSAGE, "%s is neither a run nor an export", word);
        for (int i = 0; i < count; i++) {
            if (!*files[i]) {
                *files[i] = word;
                return ET_OK;
            }
        }
        const char *last = *files[count - 1];
        if (!et_file_exists(word) || !et_file_exists(last))
            return et_fail(error, ET_EUSAGE, "%s: no such run or file",
                           et_file_exists(last) ? word : last);
        return count == 1
                   ? et_fail(error, ET_EUSAGE, "two files to read, %s and %s; give one", last, word)
                   : et_fail(error, ET_EUSAGE, "more than two files to read; leave out %s", word);
    }
    if (out->count == ET_ENSEMBLE_OTHERS_MAX)
        return et_fail(error, ET_EUSAGE, "%s: an ensemble has at most %d models", word,
                       ET_ENSEMBLE_OTHERS_MAX + 1);
    out->others[out->count++] = word;
    return ET_OK;
}

static int read_weights(et_ensemble_runs *out, const char *text, et_error *error)
{
    const char *at = text;
    int count = 0;
    for (bool more = true; more && count <= out->count; count++) {
        double *number = &out->numbers[count];
        const size_t length = et_decimal_parse(number, at, strlen(at));
        at += length;
        more = *at == ',';
        if (!length || (*at && !more) || !(*number > 0 && *number <= 1e6))
            return et_fail(error, ET_EUSAGE,
                           "--ensemble-weights %s: expected numbers above 0, up to 1e6, with "
                           "commas between them",
                           text);
        at += more;
    }
    if (*at || count <= out->count)
        return et_fail(error, ET_EUSAGE, "--ensemble-weights %s: give %d numbers, one for each run",
                       text, out->count + 1);
    out->weights = out->numbers;
    return ET_OK;
}

int et_ensemble_runs_take(et_ensemble_runs *out, const et_ensemble_args *args,
                          const char **const *files, int count, const char *checkpoint,
                          const char *task, et_error *error)
{
    et_assert(count >= 0 && count <= ET_ENSEMBLE_FILES_MAX);
    int status = ET_OK;
    *out = (et_ensemble_runs){ .count = 0 };
    for (size_t i = 0; i < args->words.count && !status; i++)
        status = take_word(out, args->words.items[i], files, count, error);
    if (!status && args->weights && !out->count)
        status = et_fail(error, ET_EUSAGE, "--ensemble-weights: only with several runs");
    else if (!status && args->weights)
        status = read_weights(out, args->weights, error);
    if (!status && out->count && checkpoint && et_file_exists(checkpoint))
        status = et_fail(error, ET_EUSAGE,
                         "--checkpoint %s: a file belongs to one run; with several runs give best, "
                         "newest or a step",
                         checkpoint);
    if (status || !task)
        return status;
    for (int i = 0; i < out->count && !status; i++) {
        status = et_artifact_find_member(&out->folders[i], out->others[i], task, error);
        if (!status)
            out->others[i] = out->folders[i];
    }
    return status ? et_fail_while(error, status, "--task") : ET_OK;
}

void et_ensemble_runs_release(et_ensemble_runs *words)
{
    for (int i = 0; i < ET_ENSEMBLE_OTHERS_MAX; i++)
        et_free(words->folders[i]);
    *words = (et_ensemble_runs){ .count = 0 };
}
