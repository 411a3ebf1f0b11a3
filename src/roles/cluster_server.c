/* A parameter server: a store of the pieces of this server, with the task's optimizer. */
#include <string.h>

#include "base/clock.h"
#include "roles/cluster_private.h"
#include "roles/param_server.h"

#define LINGER 1.0 /* seconds in which a master that has not heard the answer may ask again */

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
        memcpy(out ? out : at, out ? at : in, (size_t)count * sizeof *at);
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
            memcpy(out ? out : part->data, out ? part->data : in, (size_t)floats * sizeof *in);
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
               (size_t)p->shards[i].count * sizeof *flat);
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
