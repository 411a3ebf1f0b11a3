/* etude import: makes an export of a model of another program, which commands take as a run. */
#include <stdio.h>

#include "base/assert.h"
#include "command/outputs.h"
#include "command/print.h"
#include "command/translation/translation_commands.h"
#include "data/text/sentences.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/translation/import/import.h"

typedef struct import_args {
    const char *output, *languages, *folder;
} import_args;

static const et_option options[] = {
    ET_OPTION_TEXT(import_args, output, "output", "PATH",
                   "directory to make, or file to write, NAME" ET_SAFETENSORS_SUFFIX),
    ET_OPTION_TEXT(import_args, languages, "languages", "SOURCE,TARGET",
                   "languages whose punctuation is normalized, if the folder does not name them: "
                   "en,de"),
    ET_OPTION_WORD(import_args, folder, "FOLDER", "folder"), ET_OPTION_END
};

const et_usage et_usage_import = {
    options, sizeof(import_args),
    "Makes a run from a published model of OPUS-MT, Firefox or Bergamot. Commands that use a run\n"
    "accept the model itself, too; a run starts faster. The model is a folder\n"
    "of transformers (config.json, vocab.json, source.spm, target.spm, and model.safetensors or\n"
    "pytorch_model.bin); or a release of Marian (decoder.yml, *.npz, *vocab.yml, source.spm,\n"
    "target.spm) as a folder or as NAME.zip; or a folder of Firefox or Bergamot (model*.bin,\n"
    "vocab*.spm, lex*.bin, plain or .gz).",
    "opus-mt-en-de/ --output runs/en-de"
};

static int name_languages(et_import *from, const char *given, et_error *error)
{
    char source[ET_LANGUAGE_MAX], target[ET_LANGUAGE_MAX];
    if (!given)
        return ET_OK;
    return et_language_read_pair(given, source, target)
               ? et_import_name_languages(from, source, target, error)
               : et_fail(error, ET_EUSAGE,
                         "--languages %s: expected the codes of two languages, such as en,de",
                         given);
}

static const char *language_of(const et_import *from, const char *path)
{
    const et_value *v = et_value_path(et_import_settings(from), path);
    return v && v->kind == ET_VALUE_STRING ? v->string : NULL;
}

static void say(const import_args *args, const et_import *from)
{
    const char *source = language_of(from, "vocabulary.source_punctuation");
    const char *target = language_of(from, "vocabulary.target_punctuation");
    size_t length;
    et_print(stderr, "imported %s: %s\n", args->folder, args->output);
    if (et_import_lexicon(from, &length))
        et_print(stderr, "translations consider the likely tokens of each sentence (lexicon); "
                         "translate --shortlist off considers all tokens\n");
    if (!et_import_normalizes(from))
        return;
    if (source)
        et_print(stderr, "punctuation is normalized as Moses does for %s%s%s\n", source,
                 target ? " and " : "", target ? target : "");
    else
        et_print(stderr,
                 "punctuation is not normalized, because %s does not name its languages; "
                 "--languages en,de names them\n",
                 args->folder);
}

int et_cmd_import(const et_call *call, et_error *error)
{
    et_assert(call && call->options);
    const import_args *args = call->options;
    et_import *from;
    et_outputs outputs = { .program = call->program };
    int status = args->folder ? et_import_check_folder(args->folder, error) : ET_OK;
    if (!status && !args->output)
        status = et_fail(error, ET_EUSAGE,
                         "import: --output is missing; name the directory or file to write");
    if (!status && et_safetensors_is_name(args->output)) {
        et_outputs_read(&outputs, args->folder);
        status = et_outputs_check(&outputs, "--output", args->output, error);
    } else if (!status) {
        status = et_outputs_check_directory(args->output, error);
    }
    et_outputs_release(&outputs);
    if (!status)
        status = et_import_open(&from, args->folder, error);
    if (status)
        return status;
    if (!(status = name_languages(from, args->languages, error)) &&
        !(status = et_import_write(from, args->output, error)))
        say(args, from);
    et_import_close(from);
    return status;
}
