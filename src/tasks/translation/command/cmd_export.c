/* etude export: a trained model as a directory that `translate` and et_translator_open take alone:
 * weights without what only training needs, vocabulary, settings. */
#include <stdio.h>

#include <etude/translator.h>

#include "command/args.h"
#include "tasks/translation/kind.h"

static int write_export(const char *model_dir, const char *output,
                        const et_translator_options *options, et_error *error)
{
    et_translator *translator;
    int status = et_translator_open(&translator, model_dir, options, error);
    if (status)
        return status;
    status = et_translator_export(translator, output, error);
    if (!status)
        fprintf(stderr, "exported %s, step %lld: %s\n", et_translator_checkpoint(translator),
                (long long)et_translator_step(translator), output);
    et_translator_close(translator);
    return status;
}

int et_cmd_export(const et_call *call, et_error *error)
{
    const char *model_dir = NULL, *output = NULL;
    et_translator_options options = { 0 };
    const et_arg table[] = {
        { "model-dir", "DIR", "the run that trained the model", ET_ARG_TEXT, &model_dir, NULL },
        { "output", "DIR", "where the model goes", ET_ARG_TEXT, &output, NULL },
        { "checkpoint", "best|newest|STEP|FILE", "which one; else the best, or the newest",
          ET_ARG_TEXT, &options.checkpoint, NULL },
        { "live-weights", NULL, "not the averaged ones", ET_ARG_FLAG, &options.live_weights, NULL },
        ET_ARG_RUN(model_dir),
        ET_ARG_END
    };
    bool help;
    int status = et_args_parse(table, call, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, call,
                     "Writes what translating needs, and no more, to a directory: --model-dir of "
                     "translate.",
                     "--model-dir runs/a --output models/a");
        return ET_OK;
    }
    if (!model_dir)
        return et_fail(error, ET_EUSAGE, "export: --model-dir is missing: which run");
    if (!output)
        return et_fail(error, ET_EUSAGE, "export: --output is missing: which directory to make");
    return write_export(model_dir, output, &options, error);
}
