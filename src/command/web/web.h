/* The common options of commands with a server: address and access, and the lines about them.
 * Without --listen only this machine can connect. With --listen a token is required; it is read
 * from a file, or made and shown once.
 *
 *     static const et_option options[] = { ET_WEB_PORT(own_options, web.port, PORT),
 *                                          ET_OPTION_GROUP(own_options, web, et_web_options),
 *                                          ET_OPTION_END };
 *     ...
 *     et_web_open(&web, &args, &error);       the port is ours; web.listener and web.guard are used
 *     et_web_tell(&web, "predict", &error);
 *     et_web_close(&web);
 */
#ifndef ETUDE_COMMAND_WEB_WEB_H
#define ETUDE_COMMAND_WEB_WEB_H

#include "base/text/strbuf.h"
#include "command/options/options.h"
#include "command/web/guard.h"
#include "command/web/server.h"

typedef struct et_web_args {
    int64_t port;
    const char *listen, *token_file;
    et_strings hosts;
} et_web_args;

/* The row of the port; usual: the default, a macro. */
#define ET_WEB_TEXT(number) #number
#define ET_WEB_PORT(type, member, usual)                                                           \
    ET_OPTION_COUNT(type, member, "port", "N", 0, 65535,                                           \
                    "port; 0: a free port, which is printed (default: " ET_WEB_TEXT(usual) ")",    \
                    .field.default_number = (usual))
/* The rows of all other members of et_web_args. */
extern const et_option et_web_options[];

typedef struct et_web {
    et_listener listener;
    et_http_guard guard;
    char token[ET_TOKEN_MAX + 1];
    bool made; /* the token is new, so it must be shown */
} et_web;

/* web must not move: its guard points into it and into args. */
int et_web_open(et_web *web, const et_web_args *args, et_error *error);
/* Prints the address to standard output as a line, and a generated token to standard error. page:
 * the part after the address. */
int et_web_tell(const et_web *web, const char *page, et_error *error);
void et_web_close(et_web *web);

/* Finds the type of a body: JSON, or an item of `others` (ended by NULL; NULL: none), borrowed from
 * there. Returns 0, or the HTTP status of a refusal: another type, a character set other than
 * UTF-8, or a compressed body. */
int et_web_check_type(const et_http_request *from, const char *const *others, const char **type,
                      et_error *error);

/* Answers with a text. If the text has no memory: 503. */
void et_web_reply_text(et_http_request *to, int status, const char *type, const et_strbuf *text);
/* Answers with a page. */
void et_web_reply_page(et_http_request *to, const unsigned char *page, size_t length);

/* The pages of `etude watch` and `etude serve`. CMake makes each page from the parts in its
 * folder. */

/* A page has its own style and script in it, and asks its server alone. */
#define ET_PAGE_POLICY                                                                             \
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "                  \
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'"

extern const unsigned char et_watch_page[], et_serve_page[];
extern const size_t et_watch_page_length, et_serve_page_length; /* bytes */

#endif
