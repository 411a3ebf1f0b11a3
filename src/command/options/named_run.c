/* Examines the words one by one instead of parsing them, because the answer decides which table of
 * options parses them. An option counts as in command/options/parse.c: of several uses the last. */
#include "command/options/named_run.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/artifact/artifact.h"

/* Takes the run in a directory, or its named task. */
static bool take_run(et_named_run *named, const et_call *call, const char *model_dir)
{
    char *folder = NULL;
    named->run = model_dir;
    named->of_task = named->task && !et_artifact_find_member(&folder, model_dir, named->task, NULL);
    int status =
        et_experiment_find_kind(&named->kind, call->program, folder ? folder : model_dir, NULL);
    et_free(folder);
    return !status;
}

/* The value of option `name` (with dashes), if word i is that option. */
static const char *value_of(const et_call *call, int i, const char *name)
{
    const char *word = call->argv[i];
    const size_t length = strlen(name);
    et_assert(word);
    if (strncmp(word, name, length) != 0 || (word[length] && word[length] != '='))
        return NULL;
    return word[length] ? word + length + 1 : i + 1 < call->argc ? call->argv[i + 1] : NULL;
}

static int end_of_options(const et_call *call)
{
    int end = 0;
    while (end < call->argc && strcmp(call->argv[end], "--") != 0)
        end++;
    return end;
}

/* The value of an option; NULL: not given. */
static const char *given(const et_call *call, const char *name, const char *alias)
{
    const char *last = NULL;
    for (int i = 0, end = end_of_options(call); i < end; i++) {
        const char *value = value_of(call, i, name);
        value = value || !alias ? value : value_of(call, i, alias);
        last = value ? value : last;
    }
    return last;
}

et_named_run et_run_named(const et_call *call)
{
    et_named_run named = { .task = given(call, "--task", NULL) }, word = named;
    const char *model_dir = given(call, "--model-dir", "--model_dir");
    if (model_dir) {
        take_run(&named, call, model_dir);
        return named;
    }
    for (int i = 0, end = end_of_options(call); i < end; i++) {
        const char *text = call->argv[i];
        if (*text != '-' && take_run(&word, call, text))
            return word;
    }
    return named;
}

int et_runs_check_kinds(const et_program *program, const char *run, const char *const *others,
                        int count, et_error *error)
{
    et_assert(count >= 0 && (others || !count));
    const et_task_kind *kind = NULL, *other;
    if (run && count)
        (void)et_experiment_find_kind(&kind, program, run, NULL);
    for (int i = 0; kind && i < count; i++) {
        (void)et_experiment_find_kind(&other, program, others[i], NULL);
        if (other && other != kind)
            return et_fail(error, ET_ECONFIG,
                           "%s is a %s model, and %s a %s model: name models of one kind", run,
                           kind->name, others[i], other->name);
    }
    return ET_OK;
}

const et_task_kind *et_kind_named(const et_call *call)
{
    const char *name = given(call, "--experiment", NULL);
    int number;
    return name && et_experiment_find(call->program, name, &number) ? call->program->kinds[number]
                                                                    : NULL;
}
