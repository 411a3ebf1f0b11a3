/* etude export for runs of translation: writes a trained model in a form that `translate` and
 * et_translator_open read. */
#include <etude/translator.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "command/exporting.h"
#include "command/translation/translation_commands.h"

static const char *const formats[] = { "onnx",   "ctranslate2", "huggingface",
                                       "marian", "bergamot",    NULL };

/* float16 only for huggingface. */
static const char *const precisions[] = { "float32", "bfloat16", "int8", "float16", NULL };

static const et_option options[] = {
    ET_OPTION_ROW(et_exporting_args, text, et_option_words, STRING, WORDS, "data", "SOURCE TARGET",
                  "parallel files on which --format bergamot measures the factors of int8 and the "
                  "shortlist (default: those of the import)"),
    ET_EXPORTING_OPTIONS(formats, "for other programs: a directory", precisions)
};

const et_usage et_usage_export = { options, sizeof(et_exporting_args),
                                   ET_EXPORTING_ABOUT("translating", "translate"),
                                   ET_EXPORTING_EXAMPLE };

static int write_export(const et_exporting_args *args, et_exported *exported, et_error *error)
{
    et_translator *translator;
    const et_translator_options how = { .checkpoint = args->checkpoint,
                                        .live_weights = args->live_weights };
    et_export_options what = args->options;
    if (args->text.times) {
        const et_option_given *last = &args->text.given[args->text.times - 1];
        what.source_text = last->items[0];
        what.target_text = last->count > 1 ? last->items[1] : NULL;
    }
    int status = et_translator_open(&translator, args->model_dir, &how, error);
    if (status)
        return status;
    status = et_translator_export(translator, args->output, &what, error);
    exported->step = et_translator_step(translator);
    exported->checkpoint = et_strdup(et_translator_checkpoint(translator));
    et_translator_close(translator);
    return status || exported->checkpoint ? status : et_alloc_failed(error, 0, "a path");
}

int et_cmd_export(const et_call *call, et_error *error)
{
    et_assert(call && call->options);
    static const et_exporting kind = { formats, false, write_export };
    return et_exporting_run(&kind, call, error);
}
