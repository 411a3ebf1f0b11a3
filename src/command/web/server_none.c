/* Replaces server.c in a build without libmicrohttpd: opening always fails, so the other functions
 * are never called. */
#include "command/web/server.h"

int et_http_open(et_http **out, et_listener *listener, const et_http_options *options,
                 et_error *error)
{
    (void)options;
    *out = NULL;
    et_listener_close(listener);
    return et_fail(
        error, ET_EFAIL,
        "this build has no HTTP server: install libmicrohttpd-dev, and build Etude again");
}

void et_http_close(et_http *http)
{
    (void)http;
}

void et_http_run(et_http *http, double seconds)
{
    (void)http;
    (void)seconds;
}

void et_http_wake(et_http *http)
{
    (void)http;
}

void et_http_drain(et_http *http)
{
    (void)http;
}

int et_http_busy(const et_http *http)
{
    (void)http;
    return 0;
}

int et_http_connections(const et_http *http)
{
    (void)http;
    return 0;
}

const char *et_http_path(const et_http_request *request)
{
    (void)request;
    return "";
}

const char *et_http_header(const et_http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return NULL;
}

const char *et_http_query(const et_http_request *request, const char *name)
{
    (void)request;
    (void)name;
    return NULL;
}

char *et_http_take_body(et_http_request *request, size_t *length)
{
    (void)request;
    *length = 0;
    return NULL;
}

void et_http_reply(et_http_request *request, const et_http_answer *answer)
{
    (void)request;
    (void)answer;
}

void et_http_refuse(et_http_request *request, int status, const char *text)
{
    (void)request;
    (void)status;
    (void)text;
}
