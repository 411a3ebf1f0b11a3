/* The arrays of an optimizer, and their owners: for each slot the rule gives the shape for a
 * tensor, and a rank keeps the slots that it updates. Slots are packed arrays over the group. The
 * average is an array over the whole store, which can then point to it. */

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/optim/optimizer_private.h"
#include "engine/tensor/align.h"
#include "engine/tensor/params.h"

/* Whether this rank updates a tensor's first element: all of it, of a rule that has them whole. */
static bool owns(const et_optimizer *o, size_t tensor)
{
    const et_range own = et_optim_own(&o->owners);
    int64_t at = o->layout.tensors[tensor].packed;
    return at >= own.begin && at < own.end;
}

void et_optimizer_fill_slot(et_optimizer *optimizer, int s)
{
    for (int64_t at = 0; at < optimizer->slots[s].size; at++)
        optimizer->slots[s].data[at] = optimizer->initial[s];
}

/* Zeros, which is right for moments and momentum; what begins otherwise is set later. */
static int add_slot(et_optimizer *optimizer, const char *name, int64_t size, et_error *error)
{
    size_t bytes = (size_t)size * sizeof(float);
    float *data = et_alloc_array(bytes ? bytes : sizeof(float)); /* a rank may own no element */
    if (!data)
        return et_alloc_failed(error, bytes, "an optimizer's slot");
    et_assert(optimizer->slot_count <= ET_RULE_SLOTS_MAX);
    optimizer->slots[optimizer->slot_count++] = (et_slot){ name, data, size };
    return ET_OK;
}

/* False: a tensor has no such slot. */
static bool slot_shape(const et_rule_slot *slot, const et_optim_tensor *tensor, et_shape *shape)
{
    *shape = tensor->shape;
    return !slot || !slot->shape || slot->shape(tensor->shape, tensor->adapts, shape);
}

/* Offsets of the tensors' parts in a slot of another shape. */
static int lay_out_slot(et_optimizer *optimizer, const et_rule_slot *slot, int64_t **at,
                        int64_t *size, et_error *error)
{
    size_t count = optimizer->layout.tensor_count;
    et_assert(optimizer->rule->cut == ET_RULE_WHOLE);
    *at = et_alloc(count + 1, sizeof **at);
    *size = 0;
    if (!*at)
        return et_alloc_failed(error, count * sizeof **at, "an optimizer's slot");
    for (size_t i = 0; i < count; i++) {
        et_shape shape;
        (*at)[i] = -1;
        if (!slot_shape(slot, &optimizer->layout.tensors[i], &shape) || !owns(optimizer, i))
            continue;
        (*at)[i] = *size;
        *size += et_flat_up(et_shape_count(shape));
    }
    return ET_OK;
}

/* The elements of a part, of a tensor's slot, that each rank keeps. A slot of another shape is kept
 * whole by the tensor's owner. NULL: there is one rank. */
static const int64_t *cut_part(et_optimizer *o, const et_optim_tensor *tensor, int64_t count,
                               bool placed)
{
    const et_optim_owners *owners = &o->owners;
    int64_t *cut = o->cuts ? o->cuts + (size_t)o->part_count * ((size_t)owners->ranks + 1) : NULL;
    for (int r = 0; cut && r <= owners->ranks; r++) {
        int64_t at = owners->cut[r] - tensor->packed;
        at = placed && at > 0 ? count : at;
        cut[r] = at < 0 ? 0 : at < count ? at : count;
    }
    return cut;
}

/* The begin of this rank's elements of a part; any number if it has none. */
static int64_t part_begin(const et_optimizer *o, size_t tensor, const int64_t *at)
{
    if (at)
        return at[tensor] < 0 ? 0 : at[tensor];
    return owns(o, tensor) ? o->layout.tensors[tensor].packed - et_optim_own(&o->owners).begin : 0;
}

/* Adds the parts of slot s that a checkpoint saves; the average is complete on every rank. */
static void add_parts(et_optimizer *optimizer, int s, const et_rule_slot *slot, const int64_t *at)
{
    bool average = !slot;
    for (size_t i = 0; i < optimizer->layout.tensor_count; i++) {
        const et_optim_tensor *tensor = &optimizer->layout.tensors[i];
        et_shape shape;
        if (!slot_shape(slot, tensor, &shape))
            continue;
        const int64_t *cut =
            average ? NULL : cut_part(optimizer, tensor, et_shape_count(shape), at != NULL);
        int64_t begin = average ? tensor->begin : part_begin(optimizer, i, at);
        optimizer->parts[optimizer->part_count++] =
            (et_slot_part){ optimizer->slots[s].name, tensor->param,
                            optimizer->slots[s].data + begin, shape, cut };
    }
}

static void add_average_parts(et_optimizer *optimizer, int s)
{
    const et_optim_average *average = &optimizer->average;
    add_parts(optimizer, s, NULL, NULL);
    for (int i = 0; i < average->variable_count; i++) {
        int param = average->variables[i];
        optimizer->parts[optimizer->part_count++] =
            (et_slot_part){ optimizer->slots[s].name, param,
                            average->data + et_params_offset(optimizer->params, param),
                            et_params_shape(optimizer->params, param), NULL };
    }
}

/* One slot more, the last, if an average is wanted. */
static int make_average(et_optimizer *optimizer, et_error *error)
{
    if (!optimizer->average.options.enabled)
        return ET_OK;
    int at = optimizer->slot_count;
    int status = add_slot(optimizer, "average", et_params_flat_size(optimizer->params), error);
    if (status)
        return status;
    optimizer->average.data = optimizer->slots[at].data;
    add_average_parts(optimizer, at);
    et_optim_average_start(&optimizer->average, optimizer->weights);
    return ET_OK;
}

static int make_parts(et_optimizer *optimizer, size_t most, et_error *error)
{
    size_t each = (size_t)optimizer->owners.ranks + 1;
    optimizer->parts = et_alloc(most, sizeof *optimizer->parts);
    if (each > 2)
        optimizer->cuts = et_alloc(most * each, sizeof *optimizer->cuts);
    return optimizer->parts && (optimizer->cuts || each == 2)
               ? ET_OK
               : et_alloc_failed(error, most * sizeof *optimizer->parts, "an optimizer");
}

/* A checkpoint tells slots apart by their names, "average" among them. */
static int check_slots(const et_optimizer_rule *rule, const et_rule_slot *slots, int count,
                       et_error *error)
{
    if (count < 0 || count > ET_RULE_SLOTS_MAX)
        return et_fail(error, ET_EUSAGE, "update rule %s: %d slots; give 0 to %d", rule->name,
                       count, ET_RULE_SLOTS_MAX);
    for (int i = 0; i < count; i++) {
        bool bad = !slots[i].name || !*slots[i].name || !strcmp(slots[i].name, "average");
        for (int k = 0; !bad && k < i; k++)
            bad = !strcmp(slots[k].name, slots[i].name);
        if (bad || (slots[i].shape && rule->cut != ET_RULE_WHOLE))
            return et_fail(error, ET_EUSAGE, "update rule %s: slot %d: %s", rule->name, i,
                           bad ? "give a name that no other slot has, not \"average\""
                               : "its shape may differ only with ET_RULE_WHOLE");
    }
    return ET_OK;
}

/* The rule says which slots its options need. */
static int make_slots(et_optimizer *optimizer, et_error *error)
{
    /* Names are static strings of the rule; checkpoints identify slots by them. */
    et_rule_slot slots[ET_RULE_SLOTS_MAX] = { { .name = NULL } };
    int status = ET_OK, count = 0;
    if (optimizer->rule->slots)
        count = optimizer->rule->slots(optimizer->settings, slots);
    status = check_slots(optimizer->rule, slots, count, error);
    if (status)
        return status;
    size_t most = ((size_t)count + 1) * optimizer->layout.tensor_count +
                  (size_t)optimizer->average.variable_count + 1;
    optimizer->rule_slots = count;
    status = make_parts(optimizer, most, error);
    const et_range own = et_optim_own(&optimizer->owners);
    for (int i = 0; !status && i < count; i++) {
        int64_t **at = &optimizer->offsets[i].at, size = own.end - own.begin;
        optimizer->initial[i] = slots[i].initial;
        if (slots[i].shape)
            status = lay_out_slot(optimizer, &slots[i], at, &size, error);
        if (!status)
            status = add_slot(optimizer, slots[i].name, size, error);
        if (!status)
            add_parts(optimizer, i, &slots[i], *at);
        if (!status && slots[i].initial != 0)
            et_optimizer_fill_slot(optimizer, i);
    }
    return status ? status : make_average(optimizer, error);
}

void et_optimizer_free_slots(et_optimizer *optimizer)
{
    for (int i = 0; i < optimizer->slot_count; i++)
        et_free_array(optimizer->slots[i].data);
    for (int i = 0; i < ET_RULE_SLOTS_MAX; i++) {
        et_free(optimizer->offsets[i].at);
        optimizer->offsets[i].at = NULL;
    }
    et_optim_team_release(&optimizer->team);
    et_free(optimizer->parts);
    et_free(optimizer->cuts);
    optimizer->slot_count = optimizer->part_count = 0;
    optimizer->parts = NULL;
    optimizer->cuts = NULL;
}

int et_optimizer_make_slots(et_optimizer *optimizer, et_error *error)
{
    int status = ET_OK;
    if (optimizer->rule->scratch)
        status = et_optim_team_init(&optimizer->team, &optimizer->layout,
                                    et_optim_own(&optimizer->owners), error);
    return status ? status : make_slots(optimizer, error);
}
