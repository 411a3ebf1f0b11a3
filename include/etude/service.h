/* Services: what answers the requests of `etude serve RUN`, for a kind of task. HTTP, the queue,
 * what is answered together and for how long one waits are the command's; a service reads a request
 * and answers several at once. A kind's row names its class (experiment.h):
 *
 *     static int rings_read(et_service *self, et_service_request *r, et_error *error)
 *     {
 *         static const char *const keys[] = { "points", "top", NULL };
 *         int64_t top;
 *         int status = et_service_keys(r, keys, error);
 *         if (!status)
 *             status = et_service_number(r, "top", 1, 9, 1, &top, error);
 *         r->items = status ? 0 : 1;
 *         return status;
 *     }
 *     static void rings_answer(et_service *self, et_service_request *const *all, size_t count)
 *     {
 *         for (size_t i = 0; i < count; i++)
 *             if (!et_service_ended(all[i]))
 *                 et_service_answer(all[i], "{}", 2);
 *     }
 *     static const et_service_class rings_service = {
 *         .name = "classify", .items = "points", .example = "{\"points\": [[0.5, -1.0]]}",
 *         .open = rings_open, .close = rings_close, .read = rings_read, .answer = rings_answer,
 *     };
 *
 * POST /classify is then answered. Threads: open, answer and close are called by one thread, read
 * by another, at the same time; a request is with one of them. What a request is answered does not
 * depend on those beside it, nor on whether one of them ends early (et_service_ended). */
#ifndef ETUDE_SERVICE_H
#define ETUDE_SERVICE_H

#include <etude/value.h>

typedef struct et_service_options {
    const char *checkpoint; /* a file, "best", "newest" or a step of the run; NULL: the best one, or
                               else the newest */
    const char *precision;  /* "float32", "bfloat16", "int8"; NULL: the run's */
    bool live_weights;      /* not the averaged ones, where there are any */
    int64_t items_max;      /* of a request, and of those answered together */
} et_service_options;

/* What somebody asks. All is the server's; memory of a service's own is the arena's, which lives as
 * long as the request. */
typedef struct et_service_request {
    const char *type;     /* "application/json", or one of the class's other types */
    const char *accept;   /* what the header Accept says; "" where there is none */
    char *text;           /* the body, [length] bytes and a 0; may be written to */
    size_t length;        /* in bytes */
    const et_value *json; /* the body, a dict, whose numbers have the texts that they are written
                             as; NULL of other types */
    et_arena *arena;

    /* set by read */
    int64_t items;  /* how much is asked for; 0: nothing, the answer is written by then */
    uint64_t group; /* only requests of one group are answered together */
    void *payload;  /* the service's own */

    /* set by answer */
    const char *answer_type; /* static; NULL: "application/json" */
    int status;              /* an et_status */
    et_error error;          /* its text, where status is not 0 */
} et_service_request;

typedef struct et_service_class et_service_class;

/* The first member of a class's own struct; open sets its class. */
typedef struct et_service {
    const et_service_class *ET_CLASS;
} et_service;

struct et_service_class {
    const char *name;         /* of the path */
    const char *items;        /* what is counted: "lines", "rows" */
    const char *example;      /* a body, for GET / */
    const char *const *types; /* other content types that are read, ended by NULL; NULL: none */

    int (*open)(et_service **out, const char *model_dir, const et_service_options *options,
                et_error *error);
    void (*close)(et_service *self); /* NULL allowed */
    /* Adds facts of the model to a dict: its step, its labels. Optional. */
    void (*describe)(const et_service *self, et_value *facts);
    /* Checks what is asked. ET_EDATA, ET_ECONFIG: says what is wrong and the cure, and the request
     * is refused; no more is done for it. */
    int (*read)(et_service *self, et_service_request *request, et_error *error);
    /* Answers all of them, each by et_service_answer or a status; but for those that have ended. */
    void (*answer)(et_service *self, et_service_request *const *requests, size_t count);
    /* Adds what the service counts since it was opened to a list, for GET /metrics: for each
     * counter a dict of "name" ("unknown_values_total"), "help", "label" ("column") and "values",
     * a dict of integers by the label's value. Called by the thread that reads. Optional. */
    void (*count)(const et_service *self, et_value *counters);
};

/* Adds bytes to what is answered. A failure is kept, and told when the answer is sent. */
ET_API void et_service_answer(et_service_request *request, const char *bytes, size_t length);

/* Whether nobody waits for the answer any more: the deadline passed, or the client has gone. For
 * answer, which asks this as often as it can and leaves out the rest of such a request. From any
 * thread; once true it stays true. */
ET_API bool et_service_ended(const et_service_request *request);

/* The number named key of a request's JSON, from least to most, or otherwise where it is not there.
 * ET_EDATA: it is no such number. */
ET_API int et_service_number(const et_service_request *request, const char *key, int64_t least,
                             int64_t most, int64_t otherwise, int64_t *out, et_error *error);
/* ET_EDATA: the JSON has a key that is none of these, ended by NULL; the nearest is named. */
ET_API int et_service_keys(const et_service_request *request, const char *const *keys,
                           et_error *error);

#endif
