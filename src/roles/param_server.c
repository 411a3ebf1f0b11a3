/* A parameter server's protocol. After each message:
 *
 *   (1) sequence belongs to the master's last question that was done; if the question is repeated,
 *       `answer` is sent again. Older questions are not answered, and a refused question does not
 *       count;
 *   (2) sum, if begun, has gradients of update version + 1; none of them is still staged;
 *   (3) a staged gradient belongs to its worker's session: a new session (ADMIT) has none;
 *   (4) last has the weights of version - 1, or of version before the first update. */
#include "roles/param_server.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "roles/cluster_private.h"

#define PREDICTED_MAX 8.0 /* updates: further no straight line leads */

static void sane(const et_param_server *s)
{
    et_assert(s->index >= 0 && s->index < s->servers);
    et_assert(s->version >= 0 && s->store.state >= s->store.weights);
    et_assert(s->run || (!s->sequence && !s->begun && !s->ended));
    et_assert(!s->answer.kind || s->answer.sequence <= s->sequence);
    et_assert((s->last != NULL) == s->store.predicts);
    for (int i = 0; i < s->workers; i++) {
        const et_param_server_worker *w = &s->worker[i];
        et_assert(!w->staged || (w->session && w->gradient && w->ticket > 0));
        et_assert(!w->session || s->run);
    }
}

int et_param_server_open(et_param_server *server, et_link *link, int index, int servers,
                         int workers, uint64_t fingerprint, const et_param_server_store *store,
                         et_error *error)
{
    *server = (et_param_server){ .link = link,
                                 .store = *store,
                                 .index = index,
                                 .servers = servers,
                                 .workers = workers,
                                 .fingerprint = fingerprint };
    const size_t state = (size_t)store->state, weights = (size_t)store->weights;
    et_arena *arena = &server->arena;
    server->worker = et_arena_array(arena, workers, sizeof *server->worker);
    server->buffer = et_arena_array(arena, state, sizeof *server->buffer);
    server->sum = et_arena_array(arena, weights, sizeof *server->sum);
    if (store->predicts)
        server->last = et_arena_array(arena, weights, sizeof *server->last);
    return arena->failed ? et_alloc_failed(error, "a server's slice") : ET_OK;
}

void et_param_server_release(et_param_server *server)
{
    et_arena_release(&server->arena);
    *server = (et_param_server){ 0 };
}

static void refuse(et_param_server *s, const et_message *message, int status, const char *why)
{
    et_link_refuse(s->link, message, 1 + s->index, status, why);
}

static et_message answer_of(const et_param_server *s, const et_message *message,
                            et_message_kind kind)
{
    return (et_message){ .kind = kind,
                         .from = 1 + s->index,
                         .run = s->run,
                         .session = message->session,
                         .sequence = message->sequence,
                         .number = s->version };
}

/* ---- workers ---- */

/* Weights move on as they did in the last update: momentum makes most of the next one. */
static void predict(et_param_server *s, double updates)
{
    if (!s->last || !(updates > 0))
        return;
    const float by = (float)fmin(updates, PREDICTED_MAX);
    for (int64_t i = 0; i < s->store.weights; i++)
        s->buffer[i] += by * (s->buffer[i] - s->last[i]);
}

static double squares_of(const float *values, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += (double)values[i] * (double)values[i];
    return sum;
}

static void push(et_param_server *s, et_param_server_worker *w, const et_message *message)
{
    size_t bytes = s->store.weights * sizeof(float);
    if (message->size != bytes || message->number < w->ticket)
        return;
    et_message answer = answer_of(s, message, ET_MESSAGE_STAGED);
    if (message->number > w->ticket) {
        if (!w->gradient)
            w->gradient = et_arena_array(&s->arena, s->store.weights, sizeof *w->gradient);
        if (!w->gradient) {
            refuse(s, message, ET_ENOMEM, "the server has no memory for a gradient");
            return;
        }
        memcpy(w->gradient, message->bytes, bytes);
        w->squares = squares_of(w->gradient, s->store.weights);
        w->ticket = message->number;
        w->staged = true;
    }
    answer.number = w->ticket;
    answer.value[0] = w->squares;
    et_link_answer(s->link, message, answer);
}

static void receive_worker(et_param_server *s, const et_message *message)
{
    int index = message->from - 1 - s->servers;
    if (index < 0 || index >= s->workers || !s->run || message->run != s->run)
        return;
    et_param_server_worker *w = &s->worker[index];
    if (!w->session || message->session != w->session)
        return;
    /* Masters name versions that all servers have. */
    if (message->kind == ET_MESSAGE_PULL && message->number <= s->version) {
        et_message answer = answer_of(s, message, ET_MESSAGE_VALUES);
        s->store.weigh(s->store.self, s->buffer);
        predict(s, message->value[0] - ((double)s->version - (double)message->number));
        answer.bytes = s->buffer;
        answer.size = s->store.weights * sizeof(float);
        et_link_answer(s->link, message, answer);
    } else if (message->kind == ET_MESSAGE_PUSH) {
        push(s, w, message);
    }
}

/* ---- the master ---- */

static void answer_master(et_param_server *s, const et_message *message, et_message answer)
{
    s->sequence = message->sequence;
    s->answer = answer;
    et_link_answer(s->link, message, answer);
}

static void done(et_param_server *s, const et_message *message, double value)
{
    et_message answer = answer_of(s, message, ET_MESSAGE_DONE);
    answer.value[0] = value;
    answer_master(s, message, answer);
}

/* A server serves one run: it begins with the first master that comes. */
static void open_run(et_param_server *s, const et_message *message)
{
    size_t bytes = s->store.state * sizeof(float);
    if (s->run || !message->run) {
        refuse(s, message, ET_EIO, "the server belongs to another run");
        return;
    }
    int64_t fingerprint = (int64_t)s->fingerprint;
    if (message->extra != fingerprint || message->size != bytes || message->number < 0 ||
        !(message->value[0] >= 0 && message->value[0] <= (double)message->number)) {
        refuse(s, message, ET_ECONFIG,
               "model or settings of master and server differ: start all tasks with "
               "the same command");
        return;
    }
    memcpy(s->buffer, message->bytes, bytes);
    s->run = message->run;
    s->version = message->number;
    s->store.write(s->store.self, s->buffer, s->version, (int64_t)message->value[0]);
    if (s->last)
        s->store.weigh(s->store.self, s->last);
    done(s, message, 0);
}

static void admit(et_param_server *s, const et_message *message)
{
    if (message->number < 0 || message->number >= s->workers || !message->extra)
        return;
    et_param_server_worker *w = &s->worker[message->number];
    w->session = (uint64_t)message->extra;
    w->staged = false;
    w->ticket = 0;
    done(s, message, 0);
}

/* NULL: the server has no such gradient. */
static et_param_server_worker *pushed(et_param_server *s, const et_param_server_push *part)
{
    if (part->worker < 0 || part->worker >= s->workers)
        return NULL;
    et_param_server_worker *w = &s->worker[part->worker];
    bool here = w->staged && w->session == part->session && w->ticket == part->ticket;
    return here ? w : NULL;
}

static bool lacks_gradients(et_param_server *s, const et_message *message)
{
    refuse(s, message, ET_EIO, "the server does not have the gradients of this update");
    return false;
}

/* Adds the message's gradients to the next update's, in its order. False: refused, which ends the
 * run, so earlier additions do not matter. The server judges a gradient itself, whatever its worker
 * has reported. */
static bool add_up(et_param_server *s, const et_message *message)
{
    et_param_server_push part;
    size_t count = message->size / sizeof part;
    if (message->size % sizeof part || count > (size_t)s->workers)
        return lacks_gradients(s, message);
    for (size_t k = 0; k < count; k++) {
        memcpy(&part, (const char *)message->bytes + k * sizeof part, sizeof part);
        et_param_server_worker *w = pushed(s, &part);
        if (!w)
            return lacks_gradients(s, message);
        if (!isfinite(w->squares)) {
            refuse(s, message, ET_EDIVERGED, "a gradient of this update is not finite");
            return false;
        }
        for (int64_t i = 0; i < s->store.weights; i++)
            s->sum[i] = s->begun ? s->sum[i] + w->gradient[i] : w->gradient[i];
        s->begun = true;
        w->staged = false;
    }
    return s->begun || lacks_gradients(s, message);
}

static void combine(et_param_server *s, const et_message *message)
{
    if (message->number != s->version + 1 || !add_up(s, message))
        return;
    if (message->kind == ET_MESSAGE_ADD) {
        double squares = squares_of(s->sum, s->store.weights);
        if (isfinite(squares))
            done(s, message, squares);
        else
            refuse(s, message, ET_EDIVERGED, "the sum of this update's gradients is not finite");
        return;
    }
    if (s->last)
        s->store.weigh(s->store.self, s->last);
    s->store.update(s->store.self, s->sum, message->value[0], message->value[1]);
    s->begun = false;
    s->version++;
    done(s, message, 0);
}

static void give_state(et_param_server *s, const et_message *message)
{
    et_message answer = answer_of(s, message, ET_MESSAGE_STATE);
    s->store.read(s->store.self, s->buffer);
    answer.bytes = s->buffer;
    answer.size = s->store.state * sizeof(float);
    answer_master(s, message, answer);
}

static void receive_master(et_param_server *s, const et_message *message)
{
    bool ours = s->run && message->run == s->run;
    if (ours && message->sequence <= s->sequence) {
        if (message->sequence == s->sequence) {
            /* Repeats the answer to a question that was done. An answer with the state is made
             * again, because the buffer may hold weights now. */
            if (message->kind == ET_MESSAGE_READ)
                give_state(s, message);
            else if (s->answer.kind)
                et_link_answer(s->link, message, s->answer);
        }
        return;
    }
    if (message->kind == ET_MESSAGE_OPEN)
        open_run(s, message);
    else if (!ours)
        return;
    else if (message->kind == ET_MESSAGE_ADMIT)
        admit(s, message);
    else if (message->kind == ET_MESSAGE_ADD || message->kind == ET_MESSAGE_APPLY)
        combine(s, message);
    else if (message->kind == ET_MESSAGE_READ)
        give_state(s, message);
    else if (message->kind == ET_MESSAGE_END) {
        s->ended = true;
        done(s, message, 0);
    }
}

void et_param_server_receive(et_param_server *server, const et_message *message)
{
    sane(server);
    if (message->from == ET_TASK_MASTER)
        receive_master(server, message);
    else
        receive_worker(server, message);
}

/* ---- the task ---- */

/* A parameter server: a store of the pieces of this server, with the task's optimizer. */

#define LINGER 1.0 /* seconds in which a master may repeat a question */

typedef struct server {
    et_task_trainer *trainer; /* borrowed */
    const et_cluster_options *options;
    int index;
    et_cluster_plan plan;
    et_params *params; /* of the pieces */
    et_optimizer *optimizer;
    et_param_server param_server;
    et_wire *wire;
} server;

/* Copies pieces: piece i is parameter number i - first of the server's own store. */
static void copy_weights(server *s, float *out, const float *in)
{
    const et_placement *p = &s->plan.placement;
    float *values = et_params_values(s->params);
    for (int i = p->first[s->index]; i < p->first[s->index + 1]; i++) {
        float *at = values + et_params_offset(s->params, i - p->first[s->index]);
        int64_t count = p->shards[i].count;
        memcpy(out ? out : at, out ? at : in, count * sizeof *at);
        out = out ? out + count : NULL;
        in = in ? in + count : NULL;
    }
}

static void copy_slots(server *s, float *out, const float *in)
{
    const et_slot *slots;
    int count = et_optimizer_slots(s->optimizer, &slots);
    for (int k = 0; k < count; k++)
        for (int i = 0; i < et_params_count(s->params); i++) {
            const et_slot_part *part = et_cluster_slot(s->optimizer, slots[k].name, i);
            int64_t floats = part ? et_shape_count(part->shape) : 0;
            if (!floats)
                continue;
            memcpy(out ? out : part->data, out ? part->data : in, floats * sizeof *in);
            out = out ? out + floats : NULL;
            in = in ? in + floats : NULL;
        }
}

static void weigh(void *self, float *weights)
{
    copy_weights(self, weights, NULL);
}

static void read_state(void *self, float *state)
{
    server *s = self;
    copy_weights(s, state, NULL);
    copy_slots(s, state + s->plan.placement.floats[s->index], NULL);
}

static void write_state(void *self, const float *state, int64_t iterations, int64_t slots_from)
{
    server *s = self;
    et_params_begin_change(s->params);
    copy_weights(s, NULL, state);
    copy_slots(s, NULL, state + s->plan.placement.floats[s->index]);
    et_optimizer_set_progress(s->optimizer, iterations, slots_from);
    et_params_changed(s->params, true);
}

/* Padding of the store's gradients is zero and stays so. */
static void update(void *self, float *gradient, double scale, double norm)
{
    server *s = self;
    const et_placement *p = &s->plan.placement;
    float *flat = et_params_gradients(s->params);
    for (int i = p->first[s->index]; i < p->first[s->index + 1]; i++) {
        memcpy(flat + et_params_offset(s->params, i - p->first[s->index]), gradient,
               p->shards[i].count * sizeof *flat);
        gradient += p->shards[i].count;
    }
    et_optimizer_apply_part(s->optimizer, flat, scale, norm);
}

static int make_store(server *s, et_error *error)
{
    const et_task_trainer *t = s->trainer;
    const et_placement *p = &s->plan.placement;
    int index, status = et_params_new(&s->params, error);
    for (int i = p->first[s->index]; !status && i < p->first[s->index + 1]; i++)
        status =
            et_params_declare(s->params, et_params_name(t->params, p->shards[i].param),
                              p->shards[i].shape, (et_init){ ET_INIT_ZEROS, 0 }, &index, error);
    if (!status)
        status = et_params_materialize(s->params, false, error);
    et_optimizer_request request = { .device = t->device,
                                     .params = s->params,
                                     .setup = t->options.optimizer,
                                     .optimization = t->options.optimization };
    return status ? status : et_task_create_optimizer(t->task, &request, &s->optimizer, error);
}

static int open_server(server *s, et_error *error)
{
    s->index = (int)et_job_config_task(s->options->config)->index;
    int status;
    if ((status = et_cluster_plan_make(&s->plan, s->trainer, s->options, error)) ||
        (status = make_store(s, error)) ||
        (status = et_cluster_connect(&s->wire, s->options, &s->plan, error)))
        return status;
    et_param_server_store store = { .self = s,
                                    .weights = s->plan.placement.floats[s->index],
                                    .state = s->plan.state[s->index],
                                    .weigh = weigh,
                                    .read = read_state,
                                    .write = write_state,
                                    .update = update,
                                    .predicts = s->options->predicts };
    return et_param_server_open(&s->param_server, et_wire_link(s->wire), s->index, s->plan.servers,
                                s->plan.workers, s->plan.fingerprint, &store, error);
}

static int serve(server *s, et_error *error)
{
    double ended = 0;
    while (!ended || et_clock_monotonic() - ended < LINGER) {
        et_message message;
        bool got;
        int status = et_wire_receive(s->wire, 0.2, &message, &got, error);
        if (status)
            return status;
        if (got)
            et_param_server_receive(&s->param_server, &message);
        if (s->param_server.ended && !ended)
            ended = et_clock_monotonic();
        double alone = et_wire_alone(s->wire, 0);
        if (s->param_server.ended && alone > 0)
            break;
        if (alone > s->options->patience)
            return et_fail(error, ET_EIO, "the master has not answered for %.0f seconds",
                           s->options->patience);
    }
    return ET_OK;
}

int et_cluster_serve(et_task_trainer *trainer, const et_cluster_options *options, et_error *error)
{
    server s = { .trainer = trainer, .options = options };
    int status = open_server(&s, error);
    if (!status)
        status = serve(&s, error);
    et_param_server_release(&s.param_server);
    et_wire_close(s.wire);
    et_optimizer_free(s.optimizer);
    et_params_free(s.params);
    et_cluster_plan_release(&s.plan);
    return status;
}
