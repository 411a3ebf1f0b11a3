/* Compares `etude serve` under load with `etude translate` on the same lines: lines per second of
 * each, measured in turn, and the ratio. Connections send a few lines each and send again once they
 * have an answer; the command gets all lines at once. The start of both is not counted.
 *
 *     bench_serve build/etude RUN TEXT [CONNECTIONS [LINES [ROUNDS]]] */
#include <arpa/inet.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/values/json.h"
#include "bench.h"

enum { ROUNDS_MAX = 64, CONNECTIONS_MAX = 256, LINES_MAX = 1 << 20 };

typedef struct load {
    const char *etude, *run, *text;
    char **line; /* [count] */
    size_t count, each;
    _Atomic size_t next;
    _Atomic int failed;
    int port, connections;
} load;

static void stop(const char *what)
{
    fprintf(stderr, "bench_serve: %s\n", what);
    exit(1);
}

static void read_lines(load *l)
{
    char *line = NULL;
    size_t room = 0;
    FILE *file = fopen(l->text, "r");
    if (!file)
        stop("the text cannot be read");
    l->line = malloc(LINES_MAX * sizeof *l->line);
    while (l->line && l->count < LINES_MAX && getline(&line, &room, file) > 0) {
        line[strcspn(line, "\n")] = 0;
        l->line[l->count++] = strdup(line);
    }
    free(line);
    fclose(file);
    if (!l->count)
        stop("the text is empty");
}

static pid_t start(const load *l, const char *command, const char *in, int out)
{
    pid_t pid = fork();
    if (pid)
        return pid;
    int from = open(in, O_RDONLY);
    dup2(from, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    if (!strcmp(command, "serve"))
        execl(l->etude, l->etude, command, l->run, "--port", "0", "--deadline", "10m",
              (char *)NULL);
    execl(l->etude, l->etude, command, l->run, (char *)NULL);
    _exit(127);
}

/* Seconds of the command. */
static double translate(const load *l, const char *text)
{
    int out = open("/dev/null", O_WRONLY), status;
    double since = et_clock_monotonic();
    pid_t pid = start(l, "translate", text, out);
    waitpid(pid, &status, 0);
    close(out);
    if (status)
        stop("etude translate fails");
    return et_clock_monotonic() - since;
}

static pid_t start_server(load *l)
{
    char url[256] = "";
    int out[2];
    if (pipe2(out, O_CLOEXEC))
        stop("no pipe");
    pid_t pid = start(l, "serve", "/dev/null", out[1]);
    close(out[1]);
    FILE *from = fdopen(out[0], "r");
    if (!from || !fgets(url, sizeof url, from))
        stop("etude serve does not start");
    fclose(from);
    l->port = atoi(strrchr(url, ':') + 1);
    return pid;
}

/* One request on a connection that stays; false: it was not answered with 200. */
static bool ask(int fd, const load *l, size_t first, size_t count, et_strbuf *text, char *answer,
                size_t room)
{
    et_strbuf body = ET_STRBUF_INIT;
    size_t length = 0, whole = 0;
    et_strbuf_append(&body, "{\"lines\": [");
    for (size_t i = 0; i < count; i++) {
        et_strbuf_append(&body, i ? ", " : "");
        et_json_print_string(&body, l->line[first + i]);
    }
    et_strbuf_append(&body, "]}");
    et_strbuf_reset(text);
    et_strbuf_printf(text,
                     "POST /translate HTTP/1.1\r\nHost: localhost\r\nContent-Type: "
                     "application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     body.length, et_strbuf_text(&body));
    et_strbuf_release(&body);
    if (send(fd, text->data, text->length, MSG_NOSIGNAL) != (ssize_t)text->length)
        return false;
    while (!whole || length < whole) {
        ssize_t got = recv(fd, answer + length, room - 1 - length, 0);
        if (got <= 0)
            return false;
        answer[length += (size_t)got] = 0;
        const char *end = strstr(answer, "\r\n\r\n"), *said = strstr(answer, "Content-Length: ");
        if (end && said)
            whole = (size_t)(end + 4 - answer) + (size_t)atol(said + 16);
    }
    return !strncmp(answer, "HTTP/1.1 200", 12);
}

static void *ask_all(void *payload)
{
    load *l = payload;
    struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)l->port) };
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    et_strbuf text = ET_STRBUF_INIT;
    const size_t room = (size_t)1 << 20;
    char *answer = malloc(room);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool good = answer && !connect(fd, (const struct sockaddr *)&to, sizeof to);
    for (size_t first; good && (first = atomic_fetch_add(&l->next, l->each)) < l->count;) {
        size_t count = l->count - first < l->each ? l->count - first : l->each;
        good = ask(fd, l, first, count, &text, answer, room);
    }
    atomic_fetch_add(&l->failed, !good);
    close(fd);
    free(answer);
    et_strbuf_release(&text);
    return NULL;
}

/* Seconds of all lines. */
static double serve(load *l)
{
    pthread_t thread[CONNECTIONS_MAX];
    l->next = 0;
    double since = et_clock_monotonic();
    for (int i = 0; i < l->connections; i++)
        pthread_create(&thread[i], NULL, ask_all, l);
    for (int i = 0; i < l->connections; i++)
        pthread_join(thread[i], NULL);
    if (l->failed)
        stop("a request was not answered");
    return et_clock_monotonic() - since;
}

int main(int argc, char **argv)
{
    double command[ROUNDS_MAX], server[ROUNDS_MAX], ratio[ROUNDS_MAX];
    int status;
    if (argc < 4)
        stop("usage: bench_serve ETUDE RUN TEXT [CONNECTIONS [LINES [ROUNDS]]]");
    load l = { .etude = argv[1], .run = argv[2], .text = argv[3] };
    l.connections = argc > 4 ? atoi(argv[4]) : 32;
    l.each = argc > 5 ? (size_t)atoi(argv[5]) : 8;
    int rounds = argc > 6 ? atoi(argv[6]) : 3;
    if (l.connections < 1 || l.connections > CONNECTIONS_MAX || l.each < 1 || rounds < 1 ||
        rounds > ROUNDS_MAX)
        stop("1 to 256 connections, 1 line or more, 1 to 64 rounds");
    read_lines(&l);
    bench_print_machine();
    pid_t pid = start_server(&l);
    serve(&l);
    for (int i = 0; i < rounds; i++) {
        double alone = translate(&l, "/dev/null");
        command[i] = (double)l.count / (translate(&l, l.text) - alone);
        server[i] = (double)l.count / serve(&l);
        ratio[i] = server[i] / command[i];
    }
    kill(pid, SIGTERM);
    waitpid(pid, &status, 0);
    printf("%zu lines, %d connections with %zu a request: served %.1f lines/s, command %.1f, "
           "ratio %.2f\n",
           l.count, l.connections, l.each, bench_median(server, rounds),
           bench_median(command, rounds), bench_median(ratio, rounds));
    bench_figure(bench_median(server, rounds), "lines/s", (double)NAN, "serve.lines");
    bench_figure(bench_median(ratio, rounds), "x", (double)NAN, "serve.of.command");
    return status != 0;
}
