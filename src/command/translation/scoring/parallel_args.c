#include "command/translation/scoring/parallel_args.h"

#include "base/assert.h"
#include "base/files/file.h"

const et_option et_parallel_options[] = {
    ET_OPTION_ROW(et_parallel_args, data, et_option_words, STRING, FILES, "data", "SOURCE TARGET",
                  "text to evaluate on, one file per language, or one file of pairs, PAIRS.tsv "
                  "(default: the run's validation data)"),
    ET_OPTION_TEXT(et_parallel_args, source, "source", "FILE", "lines to translate, plain or .gz"),
    ET_OPTION_TEXT(et_parallel_args, reference, "reference", "FILE", "their translations"),
    ET_OPTION_END,
};

int et_parallel_take(et_parallel_args *args, const char *command, et_error *error)
{
    et_assert(command);
    const et_option_words *data = &args->data;
    if (data->times && (args->source || args->reference))
        return et_fail(error, ET_EUSAGE, "%s: --data and %s name the files twice; use one of them",
                       command, args->source ? args->source : args->reference);
    if (data->times) {
        const int last = data->times - 1;
        char *const *items = data->given[last].items;
        args->source = items[0];
        args->reference = data->given[last].count > 1 ? items[1] : NULL;
    }
    /* "PAIRS.tsv", "PAIRS.tsv.gz" */
    args->pairs = !args->reference && args->source &&
                  (et_path_ends(args->source, ".tsv") || et_path_ends(args->source, ".tsv.gz"));
    return ET_OK;
}

int et_parallel_check(const et_parallel_args *args, const char *command, et_error *error)
{
    et_assert(command);
    if (args->source && !args->reference && !args->pairs)
        return et_fail(error, ET_EUSAGE,
                       "%s: --reference is missing; name the translations in a second file, or "
                       "both in one file of pairs, PAIRS.tsv",
                       command);
    if (!args->source && args->reference)
        return et_fail(error, ET_EUSAGE, "%s: --source is missing; name the lines to translate",
                       command);
    return ET_OK;
}

int et_parallel_read(const et_parallel_args *args, et_lines *sources, et_lines *references,
                     struct et_comm *comm, et_error *error)
{
    et_assert(sources && references);
    int status = et_lines_read_file(sources, args->source, comm, error);
    if (!status && args->pairs)
        status = et_lines_split_pairs(sources, references, args->source, error);
    if (!status && !args->pairs)
        status = et_lines_read_file(references, args->reference, comm, error);
    if (!status)
        status = et_lines_check_pairs(sources, args->source, references,
                                      args->pairs ? args->source : args->reference, error);
    return status;
}
