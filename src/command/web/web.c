#include "command/web/web.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text/strbuf.h"
#include "command/print.h"
#include "command/web/form.h"

#define LOOPBACK "127.0.0.1"
#define JSON     "application/json"

const et_option et_web_options[] = {
    ET_OPTION_TEXT(et_web_args, listen, "listen", "ADDRESS",
                   "address for other machines, which need a token (default: 127.0.0.1)"),
    ET_OPTION_TEXT(et_web_args, token_file, "token-file", "FILE",
                   "file whose first line is the token, readable only by you (default: Etude makes "
                   "and prints a token)"),
    ET_OPTION_LIST(et_web_args, hosts, "host", "NAME",
                   "a host name of this server; may be given again"),
    ET_OPTION_END,
};

int et_web_open(et_web *web, const et_web_args *args, et_error *error)
{
    et_assert(args->port >= 0 && args->port <= 65535);
    const char *address = args->listen ? args->listen : LOOPBACK;
    *web = (et_web){ .listener = { .fd = -1 } };
    for (size_t i = 0; i < args->hosts.count; i++)
        if (strpbrk(args->hosts.items[i], ":/"))
            return et_fail(error, ET_EUSAGE,
                           "--host %s: expected a name alone, such as example.org, without scheme, "
                           "port and path",
                           args->hosts.items[i]);
    int status = et_listener_open(&web->listener, address, (int)args->port, error);
    if (!status && args->token_file)
        status = et_http_token_read(web->token, args->token_file, error);
    web->made = !status && !args->token_file && !et_address_is_loopback(address);
    if (web->made)
        status = et_http_token_make(web->token, error);
    if (status) {
        et_web_close(web);
        return status;
    }
    web->guard = (et_http_guard){ .token = *web->token ? web->token : NULL,
                                  .port = web->listener.port,
                                  .hosts = args->hosts.items,
                                  .host_count = (int)args->hosts.count };
    et_assert(web->guard.token || et_address_is_loopback(address));
    return ET_OK;
}

int et_web_tell(const et_web *web, const char *page, et_error *error)
{
    if (web->made)
        fprintf(stderr, "token        %s\n", web->token);
    printf("%s%s\n", web->listener.url, page);
    return et_print_end(ET_OK, error);
}

void et_web_close(et_web *web)
{
    et_listener_close(&web->listener);
    memset(web->token, 0, sizeof web->token);
}

int et_web_check_type(const et_http_request *from, const char *const *others, const char **type,
                      et_error *error)
{
    et_assert(from && type);
    char read[ET_HTTP_TYPE_MAX];
    const char *header = et_http_header(from, "Content-Type");
    et_strbuf all = ET_STRBUF_INIT;
    *type = NULL;
    if (!et_http_coding_is_identity(et_http_header(from, "Content-Encoding"))) {
        et_fail(error, ET_EDATA,
                "Content-Encoding %s: send the body as it is, without a Content-Encoding",
                et_http_header(from, "Content-Encoding"));
        return 415;
    }
    if (et_http_type_read(read, header)) {
        *type = !strcmp(read, JSON) ? JSON : NULL;
        for (const char *const *other = others; !*type && other && *other; other++)
            *type = !strcmp(read, *other) ? *other : NULL;
    }
    if (*type)
        return 0;
    for (; others && *others; others++)
        et_strbuf_printf(&all, " or %s", *others);
    et_fail(error, ET_EDATA, "Content-Type %s: " JSON "%s in UTF-8 is expected",
            header ? header : "is missing", et_strbuf_text(&all));
    et_strbuf_release(&all);
    return 415;
}

void et_web_reply_text(et_http_request *to, int status, const char *type, const et_strbuf *text)
{
    const et_http_answer answer = {
        .status = status, .type = type, .bytes = et_strbuf_text(text), .length = text->length
    };
    if (text->failed)
        et_http_refuse(to, 503, "no memory for the answer");
    else
        et_http_reply(to, &answer);
}

void et_web_reply_page(et_http_request *to, const unsigned char *page, size_t length)
{
    et_assert(to && page && length);
    const et_http_answer answer = { .status = 200,
                                    .type = "text/html; charset=utf-8",
                                    .bytes = page,
                                    .length = length,
                                    .lasting = true,
                                    .policy = ET_PAGE_POLICY };
    et_http_reply(to, &answer);
}
