/* Servers of the command, and clients that use plain sockets, so they can send requests that no
 * library would send. Include after cmocka.h. */
#ifndef ETUDE_TESTS_CLI_WEB_CLIENT_H
#define ETUDE_TESTS_CLI_WEB_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

typedef struct web_server {
    pid_t pid;
    int port;
    char url[256]; /* the printed address */
} web_server;

/* Starts `etude` with the words of line and --port (0: any), and waits for its address. Standard
 * error goes to the file web.err. */
web_server web_start(const char *line, int port);
/* Sends a signal and waits: the exit code, or minus the signal that ended it. */
int web_stop(web_server *server, int number);

/* A connection; reads give up after a minute. -1: there is none. */
int web_connect(int port);
void web_send(int fd, const void *bytes, size_t length);
/* Reads everything until the other side closes, then closes the connection; free the text. */
char *web_read(int fd);

/* One request with Connection: close, and the whole answer; free it. headers: lines, each ended by
 * "\r\n", or "". body NULL: GET. */
char *web_ask(int port, const char *path, const char *headers, const char *body);
/* The same of JSON. */
char *web_post(int port, const char *path, const char *body);

int web_status(const char *answer); /* 0: it is no answer */
const char *web_body(const char *answer);
/* Whether a header is there with just this value. */
bool web_has(const char *answer, const char *name, const char *value);

#endif
