/* A program with two kinds of task, for test_two_kinds.sh: translation, and one that prints where
 * it was opened and has its own command. WRONG selects a third kind, which is refused; SEVERAL adds
 * a kind that consists of the others. */
#define _POSIX_C_SOURCE 200809L /* nanosleep */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

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

/* A command with a table of options: they are parsed, and help, pages and completion know them. */
typedef struct wave_options {
    const char *name;
    int64_t times;
    bool loud;
} wave_options;

static const et_option wave_rows[] = {
    ET_OPTION_COUNT(wave_options, times, "times", "N", 1, 9, "wave N times (default: 1)",
                    .field.default_number = 1),
    ET_OPTION_FLAG(wave_options, loud, "loud", "in capitals", .letter = 'l'),
    ET_OPTION_WORD(wave_options, name, "NAME|world", "name"),
    ET_OPTION_END,
};

static const et_usage wave_usage = { wave_rows, sizeof(wave_options), "Waves at somebody.",
                                     "you --times 2" };

static int wave(const et_call *call, et_error *error)
{
    const wave_options *o = call->options;
    if (!o->name)
        return et_fail(error, ET_EUSAGE, "%s: at whom?", call->command);
    for (int64_t i = 0; i < o->times; i++)
        printf("%s %s\n", o->loud ? "HELLO" : "hello", o->name);
    return ET_OK;
}

/* ---- a service: says words again ---- */

static const et_service_class echo;

static int open_echo(et_service **out, const char *model_dir, const et_service_options *options,
                     et_error *error)
{
    static et_service only;
    only.ET_CLASS = getenv("WRONG") ? NULL : &echo;
    (void)model_dir;
    *out = &only;
    return options->precision ? et_fail(error, ET_ECONFIG, "words have no precision") : ET_OK;
}

static void close_echo(et_service *self)
{
    (void)self;
}

/* Loud requests are not answered together with others. With "until", a file, reading a request
 * lasts until the file exists. */
static int read_echo(et_service *self, et_service_request *request, et_error *error)
{
    static const char *const keys[] = { "words", "loud", "until", NULL };
    const et_value *words = et_value_get(request->json, "words");
    int64_t loud;
    int status = et_service_keys(request, keys, error);
    (void)self;
    if (!status)
        status = et_service_number(request, "loud", 0, 1, 0, &loud, error);
    if (status)
        return status;
    if (!words || words->kind != ET_VALUE_LIST)
        return et_fail(error, ET_EDATA, "words are missing");
    const et_value *until = et_value_get(request->json, "until");
    while (until && access(until->string, F_OK) != 0 && !et_service_ended(request))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    request->items = (int64_t)words->count;
    request->group = (uint64_t)loud;
    return ET_OK;
}

static void answer_echo(et_service *self, et_service_request *const *requests, size_t count)
{
    (void)self;
    for (size_t i = 0; i < count; i++) {
        const et_value *word = et_value_get(requests[i]->json, "words")->first;
        for (; word && !requests[i]->status; word = word->next) {
            if (word->kind != ET_VALUE_STRING) {
                requests[i]->status = et_fail(&requests[i]->error, ET_EDATA, "no word");
                continue;
            }
            et_service_answer(requests[i], word->string, strlen(word->string));
            et_service_answer(requests[i], requests[i]->group ? "! " : " ",
                              requests[i]->group ? 2 : 1);
        }
        requests[i]->answer_type = "text/plain";
    }
}

static const et_service_class echo = { .name = "echo",
                                       .items = "words",
                                       .example = "{\"words\": [\"a\"]}",
                                       .open = open_echo,
                                       .close = close_echo,
                                       .read = read_echo,
                                       .answer = answer_echo };

static const et_experiment_row experiments[] = { { "plain/five", "five", "task.size=5" },
                                                 { "plain/none", "as it is", NULL },
                                                 { "plain/bad", "bad", "task.size=50" },
                                                 { NULL, NULL, NULL } };
static const et_restriction restrictions[] = { { NULL, "task.size <= task.most" },
                                               { "plain/five", "task.size == 5" },
                                               { NULL, NULL } };
static const et_command commands[] = { ET_COMMAND("greet", greet, "say hello", NULL),
                                       ET_COMMAND("wave", wave, "wave at somebody", &wave_usage),
                                       ET_COMMAND_END };
static const et_task_kind plain = { .name = "plain",
                                    .fields = &fields,
                                    .size = sizeof(plain_options),
                                    .experiments = experiments,
                                    .restrictions = restrictions,
                                    .open = open_plain,
                                    .close = close_plain,
                                    .commands = commands,
                                    .service = &echo };

static const et_option wrong_options[] = {
    ET_OPTION_COUNT(plain_options, size, "size", "N", 1, 9, "no settings"),
    ET_OPTION_END,
};

/* Invalid kinds, by their fault. */
static et_task_kind make_wrong(const char *what, et_experiment_row *row)
{
    et_task_kind kind = plain;
    kind.name = "wrong";
    kind.experiments = row;
    if (!strcmp(what, "open"))
        kind.open = NULL;
    else if (!strcmp(what, "kind"))
        kind.name = "plain";
    else if (!strcmp(what, "option"))
        kind.options = wrong_options;
    else
        row->name = what;
    return kind;
}

int main(int argc, char **argv)
{
    const char *what = getenv("WRONG");
    et_experiment_row row[] = { { "wrong/one", "wrong", NULL }, { NULL, NULL, NULL } };
    const et_task_kind wrong = make_wrong(what ? what : "", row);
    const et_task_kind *kinds[] = { &et_translation_kind, &plain, &wrong };
    et_multitask_kind *several = NULL;
    if (getenv("SEVERAL")) {
        et_error error = ET_ERROR_INIT;
        const et_task_kind *const singles[] = { &plain, strcmp(getenv("SEVERAL"), "broken")
                                                            ? &et_translation_kind
                                                            : NULL };
        if (et_multitask_kind_new(&several, singles, 2, &error)) {
            fprintf(stderr, "%s\n", error.text);
            return 1;
        }
        kinds[2] = et_multitask_kind_row(several);
    }
    int code = et_command_main(argc, argv, kinds, what || several ? 3 : 2);
    et_multitask_kind_free(several);
    return code;
}
