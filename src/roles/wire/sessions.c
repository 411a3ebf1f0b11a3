#include "roles/wire/sessions.h"

#include <linux/tcp.h>

#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"

#define DESCRIPTORS_MAX 65536
#define TRICKLE         1000.0 /* bytes a second: more than heartbeats take */

typedef struct session {
    bool open;
    double since;
    int64_t before;              /* of `taken`, when it came */
    int64_t held;                /* when last looked at */
    _Atomic int64_t taken;       /* bytes, of all that had this descriptor */
    _Atomic(const char *) wrong; /* why the session is refused; NULL: not refused */
    _Atomic int role;            /* role whose key the session has, plus 1; 0: unknown */
} session;

struct et_sessions {
    et_sessions_setup setup;
    int count; /* descriptors */
    int end;   /* no connection is open from this index on */
    double showed[ET_JOB_ROLES];
    bool named[1 << ET_JOB_ROLES];
    int64_t shut;
    session *session; /* [count] */
};

/* The open descriptors, between calls. */
static void sane(const et_sessions *s)
{
    et_assert(s->end >= 0 && s->end <= s->count);
    et_assert(s->setup.keyed_most > 0 && s->setup.most > 0 && s->setup.all >= s->setup.most);
    et_assert(s->shut >= 0);
    et_assert(s->end == s->count || !s->session[s->end].open);
}

int et_sessions_open(et_sessions **out, const et_sessions_setup *setup, et_error *error)
{
    struct rlimit limit;
    et_sessions *s = et_alloc_zero(1, sizeof *s);
    *out = s;
    if (!s)
        return et_alloc_failed(error, "connections");
    bool known = !getrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur < DESCRIPTORS_MAX;
    s->setup = *setup;
    s->count = known ? (int)limit.rlim_cur : DESCRIPTORS_MAX;
    for (int role = 0; role < ET_JOB_ROLES; role++)
        s->showed[role] = -1;
    return ET_ALLOC_ZERO(s->session, s->count, "connections", error);
}

void et_sessions_close(et_sessions *s)
{
    if (!s)
        return;
    if (s->shut > 0)
        et_log(ET_LOG_WARNING,
               "%s: %lld connection%s closed: the key is right, but the tasks of this cluster need "
               "fewer connections",
               s->setup.address, (long long)s->shut, s->shut == 1 ? " was" : "s were");
    et_free(s->session);
    et_free(s);
}

/* With this option, closing the descriptor removes the connection from the kernel at once (RST). */
static void end(int descriptor)
{
    const struct linger at_once = { .l_onoff = 1 };
    setsockopt(descriptor, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    shutdown(descriptor, SHUT_RDWR);
}

/* ---- arrivals and departures ---- */

void et_sessions_came(et_sessions *s, int descriptor, double now)
{
    sane(s);
    if (descriptor < 0)
        return;
    if (descriptor >= s->count) {
        end(descriptor);
        return;
    }
    session *one = &s->session[descriptor];
    one->open = true;
    one->since = now;
    one->held = 0;
    one->before = one->taken;
    one->wrong = NULL;
    one->role = 0;
    s->end = descriptor < s->end ? s->end : descriptor + 1;
}

void et_sessions_left(et_sessions *s, int descriptor)
{
    sane(s);
    if (descriptor >= 0 && descriptor < s->count)
        s->session[descriptor].open = false;
    while (s->end > 0 && !s->session[s->end - 1].open)
        s->end--;
}

void et_sessions_showed(et_sessions *s, et_job_role role, double now)
{
    s->showed[role] = now;
}

void et_sessions_took(et_sessions *s, int descriptor, et_job_role role, size_t bytes)
{
    if (descriptor < 0 || descriptor >= s->count)
        return;
    s->session[descriptor].taken += (int64_t)bytes;
    s->session[descriptor].role = (int)role + 1;
}

void et_sessions_refuse(et_sessions *s, int descriptor, const char *why)
{
    if (descriptor >= 0 && descriptor < s->count)
        s->session[descriptor].wrong = why;
}

/* ---- shutting connections ---- */

/* Bytes that the kernel has delivered and the task has not read. */
static int64_t held_by(const et_sessions *s, int descriptor)
{
    const session *one = &s->session[descriptor];
    struct tcp_info info = { 0 };
    socklen_t size = sizeof info;
    int waiting = 0;
    if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &size))
        return 0;
    int64_t held = (int64_t)info.tcpi_bytes_received - (one->taken - one->before);
    /* The kernel's waiting bytes are requested only if they matter. */
    return held <= s->setup.most || ioctl(descriptor, FIONREAD, &waiting) ? held : held - waiting;
}

/* The set of roles whose key the session may have shown. */
static unsigned roles_of(const et_sessions *s, const session *one)
{
    unsigned roles = 0;
    int known = one->role;
    if (known)
        return 1u << (known - 1);
    for (int role = 0; role < ET_JOB_ROLES; role++)
        roles |= s->showed[role] >= one->since ? 1u << role : 0;
    return roles;
}

static void name_peer(char *text, size_t space, int descriptor)
{
    struct sockaddr_storage at = { 0 };
    char number[INET6_ADDRSTRLEN] = "?", port[8] = "?";
    socklen_t size = sizeof at;
    if (!getpeername(descriptor, (struct sockaddr *)&at, &size))
        getnameinfo((struct sockaddr *)&at, size, number, sizeof number, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    /* An address of IPv4 as a socket of IPv6 has it. */
    const char *four = strncmp(number, "::ffff:", 7) ? number : number + 7;
    snprintf(text, space, strchr(four, ':') ? "[%s]:%s" : "%s:%s", four, port);
}

static void shut(et_sessions *s, int descriptor, const char *why)
{
    session *one = &s->session[descriptor];
    unsigned roles = roles_of(s, one);
    char peer[100], names[100];
    s->shut++;
    if (!s->named[roles]) {
        name_peer(peer, sizeof peer, descriptor);
        snprintf(names, sizeof names, "%s", roles ? "" : "unknown");
        size_t at = 0;
        for (int role = 0; role < ET_JOB_ROLES && at < sizeof names; role++)
            if (roles & 1u << role)
                at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", at ? " or " : "",
                                       et_job_role_names[role]);
        et_log(ET_LOG_WARNING, "%s: %s, with the key of role %s, %s: Etude closed the connection",
               s->setup.address, peer, names, why);
        s->named[roles] = true;
    }
    one->open = false;
    end(descriptor);
}

/* Judges one connection alone. A connection that has shown no key holds at most one frame, so its
 * size is not checked. */
static void look_at(et_sessions *s, int descriptor, double now)
{
    session *one = &s->session[descriptor];
    const char *wrong = one->wrong;
    one->held = roles_of(s, one) ? held_by(s, descriptor) : 0;
    if (wrong) {
        shut(s, descriptor, wrong);
    } else if (one->held > s->setup.most) {
        if ((double)one->held > TRICKLE * (now - one->since)) {
            shut(s, descriptor, "sent more bytes at once than its messages may have");
        } else {
            one->open = false;
            end(descriptor);
        }
    }
}

/* The youngest connection that holds at least this much and is at least this old; -1: none. */
static int youngest(const et_sessions *s, int64_t held, double until)
{
    int found = -1;
    for (int i = 0; i < s->end; i++) {
        const session *one = &s->session[i];
        if (one->open && one->held >= held && one->since <= until &&
            (found < 0 || one->since > s->session[found].since))
            found = i;
    }
    return found;
}

void et_sessions_look(et_sessions *s, double now)
{
    sane(s);
    int64_t held;
    int stay, open;
    double until = now - s->setup.handshake;
    for (int i = 0; i < s->end; i++)
        if (s->session[i].open)
            look_at(s, i, now);
    held = stay = open = 0;
    for (int i = 0; i < s->end; i++)
        if (s->session[i].open) {
            held += s->session[i].held;
            stay += s->session[i].since <= until;
            open++;
        }
    while (held > s->setup.all) {
        et_assert(open > 0);
        int one = youngest(s, held / open, now);
        held -= s->session[one].held;
        stay -= s->session[one].since <= until;
        open--;
        shut(
            s, one,
            "together with others sent more bytes at once than the messages of all tasks may have");
    }
    for (; stay > s->setup.keyed_most; stay--)
        shut(s, youngest(s, INT64_MIN, until), "has more connections than all tasks together");
}
