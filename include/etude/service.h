/* Services: they answer the requests of `etude serve RUN` for a kind of task. The command does
 * HTTP, queueing, batching and waiting. A service reads a request, and answers several at once. A
 * kind's row names its class (experiment.h):
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
 * This class answers POST /classify. Three threads call a class at the same time: one calls open,
 * answer and close; one calls read and answers paths with a body; one calls describe and count and
 * answers other paths, and must never wait. A request is in one thread at a time. The answer to a
 * request must not depend on the other requests of the call, also if one of these ends early
 * (et_service_ended). */
#ifndef ETUDE_SERVICE_H
#define ETUDE_SERVICE_H

#include <etude/value.h>

typedef struct et_service_options {
    const char *checkpoint; /* a file, "best", "newest" or a step of the run; NULL: the best, or the
                               newest if there is no best */
    const char *precision;  /* "float32", "bfloat16", "int8"; NULL: the run's */
    bool live_weights;      /* use the trained weights even if there are averaged weights */
    int64_t items_max;      /* most items of a request, and of requests answered together */
    const char *const *languages; /* [language_count] of 0, 1 or one for each model: "en,de", codes
                                     of the source and target language; none: the languages in the
                                     settings. Only for classes with `languages` */
    size_t language_count;
    const char *const *tags; /* [tag_count] of target languages of a multilingual model, each as
                                ">>fra<<" or "fr=TAG"; none: all of the model. As languages */
    size_t tag_count;
    bool keyed;        /* clients need a token */
    const char *terms; /* a file of terms that answers must have (et_decoding_options.terms);
                          NULL: none. Only for classes with `terms` */
    /* How a class is chosen from its probabilities, as for `predict`; only for classes with
     * `decides`. */
    double threshold;         /* least probability of a positive prediction; 0: none */
    const char *const *costs; /* [cost_count] "CLASS:PREDICTION=COST" */
    size_t cost_count;
    /* Runs or exports of more models; only for classes with `ensembles`. Models of the same
     * languages give one answer together. */
    const char *const *others; /* [other_count] */
    int other_count;
    const double *weights; /* [1 + other_count] of the model and the others; NULL: equal ones */
} et_service_options;

/* Types of bodies that the server reads as forms. */
#define ET_SERVICE_FORM  "application/x-www-form-urlencoded"
#define ET_SERVICE_PARTS "multipart/form-data"

/* A request. The server owns it; a service may allocate from its arena, which lives as long as the
 * request. */
typedef struct et_service_request {
    const char *type;     /* "application/json", or one of the class's types */
    const char *accept;   /* value of the header Accept; "": none */
    char *text;           /* the body, [length] bytes and a 0; you may write to it */
    size_t length;        /* in bytes */
    const et_value *json; /* the body, a dict; its numbers also have their texts. A form's values
                             are texts. NULL for other types */
    et_arena *arena;

    /* set by read */
    int64_t items;  /* number of items; 0: none, and read has already written the answer */
    uint64_t group; /* only requests of equal groups are answered together */
    void *payload;  /* for the service */

    /* set by answer */
    const char *answer_type; /* static; NULL: "application/json" */
    int status;              /* an et_status */
    et_error error;          /* its text, if status is not 0 */
} et_service_request;

typedef struct et_service_class et_service_class;
typedef struct et_service et_service;

/* A further path of a service, whose answer needs no batch. */
typedef struct et_service_path {
    const char *path; /* "/languages"; NULL ends a list */
    bool asks;        /* only POST, with a body; false: GET or POST, and a body is ignored */
    bool open;        /* no token is required */
    /* Writes the answer. Fails like read. */
    int (*answer)(et_service *self, et_service_request *request, et_error *error);
} et_service_path;

/* The first member of the struct of a class; open sets ET_CLASS. */
struct et_service {
    const et_service_class *ET_CLASS;
};

struct et_service_class {
    const char *name;         /* name in the path */
    const char *items;        /* the unit of items: "lines", "rows" */
    const char *example;      /* an example of a body, for GET /, unless describe adds one */
    const char *const *types; /* further content types of requests, ended by NULL; NULL: none.
                                 The server reads forms itself */
    const char *key; /* member of a body that may have the server's token, for clients without the
                        header Authorization; NULL: none */
    bool languages;  /* it uses et_service_options.languages and tags */
    bool terms;      /* it uses et_service_options.terms */
    bool decides;    /* it uses et_service_options.threshold and costs */
    bool ensembles;  /* it uses et_service_options.others */
    const et_service_path *paths; /* NULL: none */

    int (*open)(et_service **out, const char *model_dir, const et_service_options *options,
                et_error *error);
    void (*close)(et_service *self); /* NULL allowed */
    /* Adds facts about the model to a dict: step, labels. Optional. */
    void (*describe)(const et_service *self, et_value *facts);
    /* Checks and reads a request; stops early if it has ended. ET_EDATA, ET_ECONFIG: the error says
     * what is wrong and the cure; the server refuses the request with it. */
    int (*read)(et_service *self, et_service_request *request, et_error *error);
    /* Frees the payload of a request, when the server frees the request. Optional. */
    void (*release)(et_service_request *request);
    /* Answers all requests, each with et_service_answer or a status, except ended ones. */
    void (*answer)(et_service *self, et_service_request *const *requests, size_t count);
    /* Adds the service's counters since open to a list, for GET /metrics. A counter is a dict of
     * "name" ("unknown_values_total"), "help", "label" ("column") and "values", a dict of integers
     * by the label's value. Optional. */
    void (*count)(const et_service *self, et_value *counters);
};

/* Appends bytes to the answer. A failure is kept and reported when the answer is sent. */
ET_API void et_service_answer(et_service_request *request, const char *bytes, size_t length);

/* Whether nobody waits for the answer: the deadline has passed, or the client has disconnected.
 * answer should ask often, and skip the rest of such a request. Any thread may ask; once true, it
 * stays true. */
ET_API bool et_service_ended(const et_service_request *request);

/* Reads the number named key of a request's JSON, from least to most. *out is `otherwise` if the
 * key is missing. ET_EDATA: the value is no number in this range. */
ET_API int et_service_number(const et_service_request *request, const char *key, int64_t least,
                             int64_t most, int64_t otherwise, int64_t *out, et_error *error);
/* Checks the keys of a request's JSON against keys, ended by NULL. ET_EDATA: an unknown key; the
 * error suggests the nearest. */
ET_API int et_service_keys(const et_service_request *request, const char *const *keys,
                           et_error *error);

#endif
