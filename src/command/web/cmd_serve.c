/* etude serve: answers HTTP requests with a trained model of any kind of task; the kind's row has
 * the service (etude/service.h). When it can answer, it prints its address on standard output, one
 * line. From then on a stop signal is handled, and requests accepted before it are answered. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "base/text/format.h"
#include "command/command.h"
#include "command/options/ensemble.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/web/serving.h"
#include "command/web/web.h"
#include "systems/modelgarden/experiment.h"
#include "train/checkpoint/artifact/artifact.h"

#define PORT        8080
#define BATCH       1024
#define QUEUE       4096
#define CONNECTIONS 256
#define BODY_MAX    ((size_t)1 << 20)
#define DEADLINE    10

typedef struct serve_options {
    const char *model_dir;
    double deadline; /* seconds */
    et_option_task task;
    et_web_args web;
    int64_t batch, queue;
    et_service_options service;
    et_decision_args decision;
    et_strings languages, tags;
    et_strings origins; /* origins whose pages may send requests */
    et_ensemble_args ensemble;
    et_ensemble_runs others;
} serve_options;

static const et_option options[] = {
    ET_OPTION_TEXT(serve_options, model_dir, "model-dir", "DIR",
                   "the run, export or published model", .missing = "the run"),
    ET_OPTION_TASK(serve_options, task),
    ET_WEB_PORT(serve_options, web.port, PORT),
    ET_OPTION_GROUP(serve_options, web, et_web_options),
    ET_OPTION_PROCESSORS,
    ET_OPTION_COUNT(serve_options, batch, "batch", "N", 1, 65536,
                    "maximal number of lines or rows in a request and in a computed batch "
                    "(default: 1024)",
                    .field.default_number = BATCH),
    ET_OPTION_COUNT(serve_options, queue, "queue", "N", 1, ET_OPTION_COUNT_MAX,
                    "maximal number of lines or rows that wait; further requests get 503 "
                    "(default: 4096, or --batch if larger)"),
    ET_OPTION_TIME(serve_options, deadline, "deadline", "TIME",
                   "a request that takes longer gets 504 (default: 10s)",
                   .field.default_number = DEADLINE),
    ET_OPTION_LIST(serve_options, languages, "languages", "SOURCE,TARGET",
                   "language codes of the model's input and output: en,de; only en if the model "
                   "has tags; with several runs: once for all runs, or once for each run"),
    ET_OPTION_LIST(serve_options, tags, "tag", "TAG",
                   "tag of a target language of a multilingual model: >>fra<<, or fr=TAG; may be "
                   "given again (default: all tags of the model)"),
    ET_OPTION_TEXT(serve_options, service.terms, "terms", "FILE",
                   "terms that answers keep: a line for each, source term, TAB, target term"),
    ET_OPTION_GROUP(serve_options, decision, et_decision_options),
    ET_OPTION_LIST(serve_options, origins, "cors", "ORIGIN",
                   "answer pages of this origin, such as https://example.org; *: of all "
                   "origins; may be given again"),
    ET_OPTION_ENSEMBLE_WEIGHTS(serve_options, ensemble.weights),
    ET_OPTION_CHECKPOINT(serve_options, service.checkpoint),
    ET_OPTION_PRECISION(serve_options, service.precision),
    ET_OPTION_LIVE_WEIGHTS(serve_options, service.live_weights),
    ET_OPTION_RUN(serve_options, model_dir),
    ET_OPTION_REST(serve_options, ensemble.words, "[RUN]..."),
    ET_OPTION_END
};

const et_usage et_usage_serve = {
    options, sizeof(serve_options),
    "Serves a trained model over HTTP: POST JSON to the path that GET / names. A run\nmay be "
    "the folder of a published model (see import); several make one server.\nPrints the "
    "address. Ctrl-C or SIGTERM stops the server after it has answered\nall accepted requests.",
    "runs/a --port 8080"
};

static int check(serve_options *args, et_error *error)
{
    if (!args->queue)
        args->queue = args->batch > QUEUE ? args->batch : QUEUE;
    if (args->queue < args->batch)
        return et_fail(error, ET_EUSAGE,
                       "--queue %lld is smaller than the largest request, --batch %lld; give at "
                       "least the number of --batch, or leave --queue out",
                       (long long)args->queue, (long long)args->batch);
    args->service.items_max = args->batch;
    args->service.threshold = args->decision.threshold;
    args->service.costs = args->decision.costs.items;
    args->service.cost_count = args->decision.costs.count;
    args->service.languages = args->languages.items;
    args->service.language_count = args->languages.count;
    args->service.tags = args->tags.items;
    args->service.tag_count = args->tags.count;
    for (size_t i = 0; i < args->origins.count; i++)
        if (!et_http_is_origin(args->origins.items[i]))
            return et_fail(error, ET_EUSAGE,
                           "--cors %s: expected scheme, host and port as browsers send them, such "
                           "as https://example.org or http://localhost:3000, or *",
                           args->origins.items[i]);
    return ET_OK;
}

static int find_service(const serve_options *args, const et_call *call,
                        const et_service_class **class, et_error *error)
{
    const et_task_kind *kind;
    int status = et_experiment_find_kind(&kind, call->program, args->model_dir, error);
    if (status)
        return status;
    const et_service_class *found = *class = kind->service;
    if (!found)
        return et_artifact_check_single(args->model_dir, error)
                   ? et_fail_while(error, ET_ECONFIG, "serve")
                   : et_fail(error, ET_ECONFIG,
                             "%s: etude serve does not support tasks of the kind %s",
                             args->model_dir, kind->name);
    if ((args->languages.count || args->tags.count) && !found->languages)
        return et_fail(error, ET_EUSAGE,
                       "--%s: the model in %s has no languages; leave the option out",
                       args->languages.count ? "languages" : "tag", args->model_dir);
    if (args->service.terms && !found->terms)
        return et_fail(error, ET_EUSAGE,
                       "--terms: the model in %s has no terms; leave the option out",
                       args->model_dir);
    if (et_decision_is_given(&args->decision) && !found->decides)
        return et_fail(error, ET_EUSAGE,
                       "--%s: the model in %s predicts no class; leave the option out",
                       args->decision.costs.count ? "costs" : "threshold", args->model_dir);
    if (args->service.other_count && !found->ensembles)
        return et_fail(error, ET_EUSAGE,
                       "%s: several models of this kind cannot answer together; name one run",
                       args->service.others[0]);
    return ET_OK;
}

static int run(et_serving *serving, const et_service_class *class, const et_web *web,
               et_error *error)
{
    et_signals_catch_stops_of_server(
        "stopping     answering accepted requests; Ctrl-C or SIGTERM again "
        "(after a second) quits at once");
    int status = et_web_tell(web, class->name, error);
    if (status)
        return status;
    int left = et_serving_run(serving, &et_stop_requested);
    const et_serving_counts counts = et_serving_count(serving);
    fprintf(stderr, "stopped      %s answered, %s %s",
            et_format_many(counts.requests, "request").text, et_format_count(counts.items).text,
            class->items);
    if (counts.refused)
        fprintf(stderr, "; %s refused", et_format_count(counts.refused).text);
    if (counts.busy)
        fprintf(stderr, "; %s while busy", et_format_count(counts.busy).text);
    if (counts.late)
        fprintf(stderr, "; %s timed out", et_format_count(counts.late).text);
    if (counts.gone)
        fprintf(stderr, "; %s closed by the client", et_format_count(counts.gone).text);
    if (counts.failed)
        fprintf(stderr, "; %s failed", et_format_count(counts.failed).text);
    if (left)
        fprintf(stderr, "; %d closed unanswered", left);
    fputc('\n', stderr);
    return left ? et_fail(error, ET_EFAIL, "%s closed before an answer",
                          et_format_many(left, "request").text)
                : ET_OK;
}

static int serve(serve_options *args, const et_call *call, et_error *error)
{
    const et_service_class *class;
    et_serving *serving = NULL;
    et_web web;
    int status = find_service(args, call, &class, error);
    if (!status)
        status = et_web_open(&web, &args->web, error);
    if (status)
        return status;
    et_http_guard guard = web.guard;
    args->service.keyed = guard.token != NULL;
    guard.origins = args->origins.items;
    guard.origin_count = (int)args->origins.count;
    et_leave_on_signals("interrupted before the model was open; no request was served");
    const et_serving_options how = {
        .batcher = { .class = class,
                     .model_dir = args->model_dir,
                     .service = args->service,
                     .queue = args->queue,
                     .threads = omp_get_max_threads(),
                     .patience = args->deadline },
        .guard = guard,
        .connections_max = CONNECTIONS,
        .body_max = BODY_MAX,
        .run = args->model_dir,
    };
    status = et_serving_open(&serving, &web.listener, &how, error);
    if (!status)
        status = run(serving, class, &web, error);
    et_serving_close(serving);
    et_web_close(&web);
    return status;
}

int et_cmd_serve(const et_call *call, et_error *error)
{
    serve_options *args = call->options;
    int status = check(args, error);
    /* Standard output gets only the address, but it may be a file that the command reads. */
    et_outputs outputs = { .program = call->program };
    et_outputs_read(&outputs, args->service.checkpoint);
    et_outputs_read(&outputs, args->web.token_file);
    et_outputs_read(&outputs, args->service.terms);
    if (!status)
        status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    if (!status &&
        !(status = et_ensemble_runs_take(&args->others, &args->ensemble, NULL, 0,
                                         args->service.checkpoint, args->task.name, error)))
        status = et_runs_check_kinds(call->program, args->model_dir, args->others.others,
                                     args->others.count, error);
    args->service.others = args->others.others;
    args->service.other_count = args->others.count;
    args->service.weights = args->others.weights;
    if (!status)
        status = serve(args, call, error);
    et_ensemble_runs_release(&args->others);
    return status;
}
