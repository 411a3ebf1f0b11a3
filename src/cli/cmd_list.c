#include <stdio.h>

#include "cli/args.h"
#include "cli/command.h"
#include "tasks/experiment.h"

static int list_settings(const char *name, et_error *error)
{
    et_experiment experiment;
    et_strbuf text = ET_STRBUF_INIT;
    int status = et_experiment_begin(&experiment, name, error);
    if (status)
        return status;
    et_fields_help(&et_experiment_fields, &text, "");
    fputs(et_strbuf_text(&text), stdout);
    et_strbuf_release(&text);
    return ET_OK;
}

int et_cmd_list(int argc, char **argv, et_error *error)
{
    const char *experiment = NULL;
    const et_arg table[] = { { "experiment", "NAME", "show the settings of this experiment",
                               ET_ARG_TEXT, &experiment, NULL },
                             ET_ARG_END };
    bool help;
    int status = et_args_parse(table, "list", argc, argv, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, "list", "Lists experiments, or all settings of one.",
                     "etude list --experiment translation/tiny");
        return ET_OK;
    }
    if (experiment)
        return list_settings(experiment, error);
    size_t count;
    const et_experiment_kind *kinds = et_experiment_kinds(&count);
    for (size_t i = 0; i < count; i++)
        printf("%-20s %s\n", kinds[i].name, kinds[i].help);
    return ET_OK;
}
