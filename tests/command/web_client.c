#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "web_client.h"

enum { WORDS_MAX = 48 };

static void execute(const char *line, int port, int out)
{
    static char program[] = ET_TEST_BUILD "/etude";
    char text[2048], number[16], *words[WORDS_MAX] = { program };
    int count = 1;
    snprintf(text, sizeof text, "%s", line);
    snprintf(number, sizeof number, "%d", port);
    for (char *word = strtok(text, " "); word && count < WORDS_MAX - 3; word = strtok(NULL, " "))
        words[count++] = word;
    static char option[] = "--port";
    words[count++] = option;
    words[count++] = number;
    int err = open("web.err", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    alarm(600);
    execv(program, words);
    _exit(127);
}

web_server web_start(const char *line, int port)
{
    web_server server = { .port = 0 };
    int out[2];
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    server.pid = fork();
    assert_true(server.pid >= 0);
    if (!server.pid)
        execute(line, port, out[1]);
    close(out[1]);
    FILE *from = fdopen(out[0], "r");
    if (!fgets(server.url, sizeof server.url, from)) {
        int status;
        waitpid(server.pid, &status, 0);
        fail_msg("%s: no address; see web.err", line);
    }
    fclose(from);
    const char *colon = strrchr(server.url, ':');
    assert_non_null(colon);
    server.port = atoi(colon + 1);
    assert_true(server.port > 0);
    return server;
}

int web_stop(web_server *server, int number)
{
    int status;
    assert_int_equal(kill(server->pid, number), 0);
    while (waitpid(server->pid, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int web_connect(int port)
{
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    const struct timeval most = { .tv_sec = 60 };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
    if (!connect(fd, (const struct sockaddr *)&to, sizeof to))
        return fd;
    close(fd);
    return -1;
}

void web_send(int fd, const void *bytes, size_t length)
{
    for (const char *at = bytes; length;) {
        ssize_t sent = send(fd, at, length, MSG_NOSIGNAL);
        if (sent < 0) /* the answer says why */
            return;
        at += sent;
        length -= (size_t)sent;
    }
}

char *web_read(int fd)
{
    size_t length = 0, capacity = 1 << 16;
    char *text = malloc(capacity + 1);
    for (;;) {
        assert_non_null(text);
        ssize_t got = recv(fd, text + length, capacity - length, 0);
        if (got <= 0)
            break;
        length += (size_t)got;
        if (length == capacity)
            text = realloc(text, (capacity *= 2) + 1);
    }
    text[length] = 0;
    close(fd);
    return text;
}

char *web_ask(int port, const char *path, const char *headers, const char *body)
{
    size_t length = body ? strlen(body) : 0;
    size_t room = length + strlen(path) + strlen(headers) + 256;
    char *text = malloc(room);
    assert_non_null(text);
    int used = snprintf(text, room, "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n%s",
                        body ? "POST" : "GET", path, headers);
    if (body)
        used += snprintf(text + used, room - (size_t)used, "Content-Length: %zu\r\n", length);
    used += snprintf(text + used, room - (size_t)used, "\r\n%s", body ? body : "");
    int fd = web_connect(port);
    web_send(fd, text, (size_t)used);
    free(text);
    return web_read(fd);
}

char *web_post(int port, const char *path, const char *body)
{
    return web_ask(port, path, "Content-Type: application/json\r\n", body);
}

int web_status(const char *answer)
{
    return strncmp(answer, "HTTP/1.1 ", 9) ? 0 : atoi(answer + 9);
}

const char *web_body(const char *answer)
{
    const char *end = strstr(answer, "\r\n\r\n");
    return end ? end + 4 : "";
}

bool web_has(const char *answer, const char *name, const char *value)
{
    const char *end = strstr(answer, "\r\n\r\n");
    for (const char *line = answer; end && line < end; line = strstr(line, "\r\n") + 2) {
        size_t length = strlen(name);
        if (strncasecmp(line, name, length) != 0 || line[length] != ':')
            continue;
        line += length + 1;
        line += strspn(line, " ");
        length = strlen(value);
        return !strncmp(line, value, length) && line[length] == '\r';
    }
    return false;
}
