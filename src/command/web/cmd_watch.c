/* etude watch: a web page that follows the runs below a directory: curves, new samples, throughput,
 * warnings. Reads only, and only when the page asks, so it costs nothing while no page is open. The
 * page is built from the files in watch/ and is a part of the program; it loads nothing from
 * elsewhere.
 *
 *     GET /            the page             POST /api/points   new points
 *     GET /api/runs    all runs             GET /api/run?id=N, /api/sample?id=N&name=... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/flag.h"
#include "base/text/format.h"
#include "base/values/json.h"
#include "command/command.h"
#include "command/options/options.h"
#include "command/outputs.h"
#include "command/web/board.h"
#include "command/web/pages.h"
#include "command/web/server.h"
#include "command/web/web.h"

#define PORT        8090
#define CONNECTIONS 64
#define BODY_MAX    ((size_t)1 << 20)
#define TRANSFER    30
#define IDLE        0.5
#define LEAVING     5

typedef struct watch_options {
    const char *directory;
    et_web_args web;
} watch_options;

static const et_option options[] = { ET_OPTION_TEXT(watch_options, directory, "model-dir", "DIR",
                                                    "a run, or a directory with runs below it"),
                                     ET_WEB_PORT(watch_options, web.port, PORT),
                                     ET_OPTION_GROUP(watch_options, web, et_web_options),
                                     ET_OPTION_WORD(watch_options, directory, "[DIR]", "run"),
                                     ET_OPTION_END };

const et_usage et_usage_watch = {
    options, sizeof(watch_options),
    "Serves a page that follows the runs below a directory. Prints the address of\nthe page; "
    "Ctrl-C stops the server. Runs are not changed.",
    "runs --port 8090"
};

/* ---- requests ---- */

static void reply(et_http_request *to, const char *type, const et_strbuf *text)
{
    const et_http_answer answer = {
        .status = 200, .type = type, .bytes = et_strbuf_text(text), .length = text->length
    };
    if (text->failed)
        et_http_refuse(to, 503, "no memory for the answer");
    else
        et_http_reply(to, &answer);
}

static int http_status(int status)
{
    switch (status) {
    case ET_EFORMAT:
        return 400;
    case ET_EDATA: /* the run or metric does not exist */
        return 404;
    case ET_ENOMEM:
        return 503;
    default:
        return 500;
    }
}

/* Answers with text, or with what went wrong, and frees the text. */
static void finish(et_http_request *to, int status, const et_error *error, const char *type,
                   et_strbuf *text)
{
    if (!status)
        reply(to, type, text);
    else
        et_http_refuse(to, http_status(status), error->text);
    et_strbuf_release(text);
}

static void handle_page(void *payload, et_http_request *from)
{
    (void)payload;
    et_web_reply_page(from, et_watch_page, et_watch_page_length);
}

static void handle_runs(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_board_update(payload);
    et_board_runs(payload, &out);
    reply(from, "application/json", &out);
    et_strbuf_release(&out);
}

static void handle_points(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_arena arena = ET_ARENA_INIT;
    et_error error = ET_ERROR_INIT;
    et_value *asked;
    size_t length;
    const char *type;
    int refused = et_web_check_type(from, NULL, &type, &error);
    if (refused) {
        et_http_refuse(from, refused, error.text);
        return;
    }
    char *body = et_http_take_body(from, &length);
    int status = et_json_parse(&asked, &arena, body ? body : "", length, "the body", &error);
    if (!status)
        status = et_board_points(payload, asked, &out, &error);
    finish(from, status, &error, "application/json", &out);
    et_arena_release(&arena);
    et_free(body);
}

/* -1: not a number of this form. */
static int64_t run_asked(const et_http_request *from)
{
    const char *id = et_http_query(from, "id");
    size_t length = id ? strspn(id, "0123456789") : 0;
    return length && length < 10 && !id[length] ? strtoll(id, NULL, 10) : -1;
}

static void handle_run(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    int status = et_board_run(payload, run_asked(from), &out, &error);
    finish(from, status, &error, "application/json", &out);
}

static void handle_sample(void *payload, et_http_request *from)
{
    et_strbuf out = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    const char *name = et_http_query(from, "name");
    int status = et_board_sample(payload, run_asked(from), name ? name : "", &out, &error);
    finish(from, status, &error, "text/plain; charset=utf-8", &out);
}

static const et_http_route routes[] = {
    { "GET", "/", true, handle_page, NULL, false },
    { "GET", "/api/runs", false, handle_runs, NULL, false },
    { "POST", "/api/points", false, handle_points, NULL, false },
    { "GET", "/api/run", false, handle_run, NULL, false },
    { "GET", "/api/sample", false, handle_sample, NULL, false },
    { NULL, NULL, false, NULL, NULL, false },
};

/* ---- the command ---- */

/* The token follows #; browsers do not send that part. */
static int tell(const et_web *web, const et_board *board, et_error *error)
{
    char page[ET_TOKEN_MAX + 16] = "";
    fprintf(stderr, "watching     %s\n",
            et_format_many((int64_t)et_board_count(board), "run").text);
    if (web->made)
        snprintf(page, sizeof page, "#token=%s", web->token);
    return et_web_tell(web, page, error);
}

static void run(et_http *http)
{
    while (!et_flag_is_set(&et_stop_requested))
        et_http_run(http, IDLE);
    et_http_drain(http);
    for (int i = 0; et_http_busy(http) && i < (int)(LEAVING / IDLE); i++)
        et_http_run(http, IDLE);
}

static int watch(const watch_options *args, const et_call *call, et_error *error)
{
    et_board *board = NULL;
    et_http *http = NULL;
    et_web web;
    int status = et_web_open(&web, &args->web, error);
    if (status)
        return status;
    status = et_board_open(&board, call->program, args->directory, error);
    const et_http_options how = { .guard = web.guard,
                                  .routes = routes,
                                  .payload = board,
                                  .body_max = BODY_MAX,
                                  .connections_max = CONNECTIONS,
                                  .seconds_max = TRANSFER };
    if (!status)
        status = et_http_open(&http, &web.listener, &how, error);
    if (!status) {
        et_signals_catch_stops_of_server("");
        status = tell(&web, board, error);
    }
    if (!status)
        run(http);
    et_http_close(http);
    et_board_close(board);
    et_web_close(&web);
    return status;
}

int et_cmd_watch(const et_call *call, et_error *error)
{
    const watch_options *args = call->options;
    if (!args->directory)
        return et_fail(error, ET_EUSAGE,
                       "watch: no directory is given; for example `%s watch runs`",
                       call->program->name);
    et_outputs outputs = { .program = call->program };
    et_outputs_read(&outputs, args->web.token_file);
    int status = et_outputs_check_standard(&outputs, error);
    et_outputs_release(&outputs);
    return status ? status : watch(args, call, error);
}
