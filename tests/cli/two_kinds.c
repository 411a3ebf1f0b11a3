/* A program with two kinds of task, for test_two_kinds.sh: translation, and one that says where it
 * was opened and has a command of its own. WRONG names a third one that is refused. */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct plain_options {
    int64_t size, most;
} plain_options;

static const et_field rows[] = { ET_FIELD_INT(plain_options, size, 3, 1, 9, "of it"),
                                 ET_FIELD_INT(plain_options, most, 9, 1, 9, "that it may be"),
                                 ET_FIELD_END };
static const et_fields fields = { "task", rows };

static int open_plain(et_task **out, const void *options, const et_task_context *context,
                      et_error *error)
{
    (void)out;
    return et_fail(error, ET_EDATA, "plain of size %lld opened in %s",
                   (long long)((const plain_options *)options)->size, context->model_dir);
}

static void close_plain(et_task *task)
{
    (void)task;
}

static int greet(const et_call *call, et_error *error)
{
    if (call->argc != 1)
        return et_fail(error, ET_EUSAGE, "%s: whom?", call->command);
    if (!strcmp(call->argv[0], "--help")) {
        printf("usage: %s greet NAME\n\nSays hello.\n", call->program->name);
        return ET_OK;
    }
    printf("%s of %s: hello, %s\n", call->command, call->program->name, call->argv[0]);
    return ET_OK;
}

static const et_experiment_row experiments[] = { { "plain/five", "five", "task.size=5" },
                                                 { "plain/none", "as it is", NULL },
                                                 { "plain/bad", "bad", "task.size=50" },
                                                 { NULL, NULL, NULL } };
static const et_restriction restrictions[] = { { NULL, "task.size <= task.most" },
                                               { "plain/five", "task.size == 5" },
                                               { NULL, NULL } };
static const et_command commands[] = { { "greet", greet, "say hello" }, { NULL, NULL, NULL } };
static const et_task_kind plain = { .name = "plain",
                                    .fields = &fields,
                                    .size = sizeof(plain_options),
                                    .experiments = experiments,
                                    .restrictions = restrictions,
                                    .open = open_plain,
                                    .close = close_plain,
                                    .commands = commands };

/* Kinds that a program may not have, by what is wrong with them. */
static et_task_kind make_wrong(const char *what, et_experiment_row *row)
{
    et_task_kind kind = plain;
    kind.name = "wrong";
    kind.experiments = row;
    if (!strcmp(what, "open"))
        kind.open = NULL;
    else if (!strcmp(what, "kind"))
        kind.name = "plain";
    else
        row->name = what;
    return kind;
}

int main(int argc, char **argv)
{
    const char *what = getenv("WRONG");
    et_experiment_row row[] = { { "wrong/one", "wrong", NULL }, { NULL, NULL, NULL } };
    const et_task_kind wrong = make_wrong(what ? what : "", row);
    const et_task_kind *const kinds[] = { &et_translation_kind, &plain, &wrong };
    return et_command_main(argc, argv, kinds, what ? 3 : 2);
}
