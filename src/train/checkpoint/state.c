/* The state tree: a registry of parts (an object and a class that writes and reads it as plain
 * values) and tensors (a name, a pointer, a shape). It owns its names and lists, nothing else.
 * Saving asks every part for its dict. The code that writes the file reads arrays directly from
 * their memory.
 *
 * Names of tensors, as in files:
 *
 *   logits/weight                 a weight
 *   optimizer/m/logits/weight     slot m of it
 *   average/logits/weight         its average
 *
 * Invariants:
 *
 *   (1) part names are unique, and so are names of tensors;
 *   (2) tensors keep their order, which is the order in the list that a save writes;
 *   (3) the saved bytes depend on the attached objects only: no time, no address, no thread.
 *
 * The tree is compared before anything is restored: the file must have exactly the parts of this
 * run, except optional ones, which files of earlier versions lack. */
#include "train/checkpoint/state.h"

#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/map.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "engine/comm/comm.h"
#include "engine/tensor/params.h"
#include "engine/tensor/tensor.h"
#include "formats/safetensors/safetensors.h"

typedef struct part {
    char *name;                 /* owned; its key in the tree */
    const et_part_class *class; /* static */
    void *self;                 /* borrowed; argument of the class's functions */
    bool optional;              /* a tree without it matches */
} part;

struct et_state {
    part *parts; /* [part_count], in order of adding */
    size_t part_count, part_capacity;
    et_state_tensor *tensors; /* [tensor_count], in order of adding; names owned */
    size_t tensor_count, tensor_capacity;
    et_map by_name;    /* of tensors, to their index; its names are borrowed */
    et_params *params; /* borrowed; NULL: no store is attached */
    et_comm *ranks;    /* borrowed: et_state_ranks */
    bool sealed;       /* et_state_seal */
};

int et_state_new(et_state **out, et_error *error)
{
    return ET_ALLOC_ZERO(*out, 1, "a state tree", error);
}

/* The map before the names that it refers to. */
void et_state_free(et_state *state)
{
    if (!state)
        return;
    for (size_t i = 0; i < state->part_count; i++)
        et_free(state->parts[i].name);
    for (size_t i = 0; i < state->tensor_count; i++)
        et_free((char *)state->tensors[i].name);
    et_map_release(&state->by_name);
    et_free(state->parts);
    et_free(state->tensors);
    et_free(state);
}

/* ---- attaching ---- */

/* At set-up only: lists grow, names are made. After the first save or restore nothing is added. */

/* Parts are about ten, so a list is enough; tensors are hundreds and have a map. NULL: none. */
static const part *find_part(const et_state *state, const char *name)
{
    for (size_t i = 0; i < state->part_count; i++)
        if (strcmp(state->parts[i].name, name) == 0)
            return &state->parts[i];
    return NULL;
}

bool et_state_has(const et_state *state, const void *self, const char *name)
{
    for (size_t i = 0; i < state->part_count; i++)
        if ((self && state->parts[i].self == self) || (name && !strcmp(state->parts[i].name, name)))
            return true;
    return false;
}

void et_state_seal(et_state *state)
{
    state->sealed = true;
}

static int check_name(const char *name, et_error *error)
{
    if (!name || !*name)
        return et_fail(error, ET_EUSAGE, "a part of a state has no name: give it one");
    return et_utf8_valid(name, strlen(name), NULL)
               ? ET_OK
               : et_fail(error, ET_EUSAGE, "%s: the name of a part of a state is not UTF-8",
                         et_tensor_name_escaped(name).text);
}

/* Two parts or arrays with one name would both read the data of one. */
static int check_new(const et_state *state, const char *name, bool taken, et_error *error)
{
    if (state->sealed)
        return et_fail(
            error, ET_EUSAGE,
            "%s: attach parts of the state before the run begins, because it restores them", name);
    return taken ? et_fail(error, ET_EUSAGE,
                           "%s: another part of the state has this name; choose another", name)
                 : ET_OK;
}

int et_state_add(et_state *state, const char *name, const et_part_class *class, void *self,
                 et_error *error)
{
    int status = check_name(name, error);
    if (status)
        return status;
    if (!class || !class->save || !class->restore)
        return et_fail(error, ET_EUSAGE, "%s: this part of the state cannot save and restore",
                       name);
    if ((status = check_new(state, name, find_part(state, name), error)))
        return status;
    size_t wanted = state->part_count + 1;
    if (!ET_VECTOR_GROW(state->parts, state->part_capacity, wanted))
        return et_alloc_failed(error, "a state tree");
    char *copy = et_strdup(name);
    if (!copy)
        return et_alloc_failed(error, "a state's name");
    state->parts[state->part_count++] = (part){ copy, class, self, false };
    return ET_OK;
}

int et_state_add_optional(et_state *state, const char *name, const et_part_class *class, void *self,
                          et_error *error)
{
    int status = et_state_add(state, name, class, self, error);
    if (!status)
        state->parts[state->part_count - 1].optional = true;
    return status;
}

/* Adopts name, on failure too. NULL is a name without memory, so a caller may pass a name that it
 * has just made. */
static int add_owned(et_state *state, char *name, float *data, et_shape shape, et_error *error)
{
    if (!name)
        return et_alloc_failed(error, "a state's name");
    et_assert(data);
    size_t wanted = state->tensor_count + 1;
    int status = check_new(state, name, et_state_tensor_find(state, name), error);
    if (!status && !ET_VECTOR_GROW(state->tensors, state->tensor_capacity, wanted))
        status = et_alloc_failed(error, "a state tree");
    if (!status && !et_map_put(&state->by_name, name, (int64_t)state->tensor_count))
        status = et_alloc_failed(error, "a state's name");
    if (status) {
        et_free(name);
        return status;
    }
    state->tensors[state->tensor_count++] =
        (et_state_tensor){ .name = name, .data = data, .shape = shape };
    return ET_OK;
}

int et_state_add_tensor(et_state *state, const char *name, float *data, et_shape shape,
                        et_error *error)
{
    char text[ET_SHAPE_TEXT_MAX];
    int status = check_name(name, error);
    if (status)
        return status;
    const char *fault = et_tensor_name_fault(name);
    if (fault)
        return et_fail(error, ET_EUSAGE, "array %s: the name %s: a checkpoint cannot store it",
                       et_tensor_name_escaped(name).text, fault);
    if (!data || !et_shape_valid(shape))
        return et_fail(error, ET_EUSAGE, "%s: %s%s is not an array", name, data ? "" : "NULL, ",
                       et_shape_print(shape, text));
    status = add_owned(state, et_strdup(name), data, shape, error);
    if (!status)
        state->tensors[state->tensor_count - 1].foreign = true;
    return status;
}

/* Part "params": the number of parameters, for people; the store is notified after a restore. */
static int save_params(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    et_value_set_int(dict, "count", et_params_count(self));
    et_value_set_int(dict, "elements", et_params_elements(self));
    return ET_OK;
}

/* The arrays were restored before any part; copies in other types and layouts are out of date. */
static int restore_params(void *self, const et_value *dict, et_error *error)
{
    (void)dict;
    (void)error;
    et_params_begin_change(self);
    et_params_changed(self, true);
    return ET_OK;
}

static const et_part_class params_class = { "parameters", save_params, restore_params };

/* By name alone, so it also works on files of other models. */
bool et_state_is_weight(const char *name)
{
    return strncmp(name, ET_STATE_AVERAGE, strlen(ET_STATE_AVERAGE)) != 0 &&
           strncmp(name, ET_STATE_OPTIMIZER, strlen(ET_STATE_OPTIMIZER)) != 0;
}

/* Adds a part with the tensors: restoring the part tells the store that tensors changed. */
int et_state_add_params(et_state *state, et_params *params, et_error *error)
{
    if (!params || !et_params_ready(params))
        return et_fail(error, ET_EUSAGE,
                       "parameters have no values yet; call et_params_materialize first");
    float *values = et_params_values(params);
    int status = ET_OK;
    for (int i = 0; !status && i < et_params_count(params); i++)
        if (!et_state_is_weight(et_params_name(params, i)))
            status = et_fail(error, ET_EUSAGE,
                             "parameter %s: names that start with " ET_STATE_AVERAGE
                             " or " ET_STATE_OPTIMIZER " are reserved; rename the scope",
                             et_params_name(params, i));
    if (!status)
        status = et_state_add(state, "params", &params_class, params, error);
    state->params = status ? state->params : params;
    for (int i = 0; !status && i < et_params_count(params); i++)
        status = add_owned(state, et_strdup(et_params_name(params, i)),
                           values + et_params_offset(params, i), et_params_shape(params, i), error);
    return status;
}

et_params *et_state_params(const et_state *state)
{
    return state->params;
}

#define SLOTS_FROM "slots_from" /* only where slots began anew */

/* Slots are tensors; the rest of an optimizer is its progress, and its beginning. */
static int save_optimizer(const void *self, et_value *dict, et_error *error)
{
    (void)error;
    const int64_t from = et_optimizer_slots_from(self);
    et_value_set_int(dict, "iterations", et_optimizer_iterations(self));
    if (from)
        et_value_set_int(dict, SLOTS_FROM, from);
    return ET_OK;
}

static int restore_optimizer(void *self, const et_value *dict, et_error *error)
{
    int64_t iterations, from = 0;
    int status = et_value_read_int(dict, "iterations", &iterations, error);
    if (!status && et_value_get(dict, SLOTS_FROM))
        status = et_value_read_int(dict, SLOTS_FROM, &from, error);
    if (!status && iterations < 0)
        status = et_fail(error, ET_EFORMAT, "iterations: %lld is negative", (long long)iterations);
    if (!status && (from < 0 || from > iterations))
        status = et_fail(error, ET_EFORMAT, SLOTS_FROM ": %lld is not within %lld iterations",
                         (long long)from, (long long)iterations);
    if (!status)
        et_optimizer_set_progress(self, iterations, from);
    return status;
}

static const et_part_class optimizer_class = { "optimizer", save_optimizer, restore_optimizer };

/* Whether a slot is the average of the optimizer with this name; averages are stored separately. */
static bool is_average(const char *name, const char *slot)
{
    return !strcmp(slot, "average") && !strcmp(name, "optimizer");
}

/* "average/<parameter>" or "<name>/<slot>/<parameter>", owned. */
static char *slot_name(const char *name, const char *slot, const char *parameter)
{
    size_t size = strlen(name) + strlen(slot) + strlen(parameter) + 3;
    char *full = et_alloc(size, 1);
    if (full && is_average(name, slot))
        stpcpy(stpcpy(full, ET_STATE_AVERAGE), parameter);
    else if (full)
        stpcpy(stpcpy(stpcpy(stpcpy(stpcpy(full, name), "/"), slot), "/"), parameter);
    return full;
}

/* Their values are restored as tensors, the iterations as a part. */
int et_state_add_optimizer(et_state *state, const char *name, et_optimizer *optimizer,
                           et_error *error)
{
    const et_slot_part *parts;
    if (!name || (strcmp(name, "optimizer") != 0 && et_state_is_weight(name)))
        return et_fail(
            error, ET_EUSAGE,
            "%s: the name of an optimizer must be \"optimizer\" or begin with \"optimizer/\"",
            name ? name : "NULL");
    const et_params *params = et_optimizer_params(optimizer);
    int count = et_optimizer_parts(optimizer, &parts);
    int status = et_state_add(state, name, &optimizer_class, optimizer, error);
    if (status)
        return status;
    et_optimizer_hold(optimizer);
    for (int i = 0; !status && i < count; i++) {
        status =
            add_owned(state, slot_name(name, parts[i].slot, et_params_name(params, parts[i].param)),
                      parts[i].data, parts[i].shape, error);
        if (!status)
            state->tensors[state->tensor_count - 1].cut = parts[i].cut;
    }
    et_comm *ranks = et_optimizer_ranks(optimizer);
    et_assert(!ranks || !state->ranks || ranks == state->ranks);
    state->ranks = ranks ? ranks : state->ranks;
    return status;
}

et_comm *et_state_ranks(const et_state *state)
{
    return state->ranks;
}

/* tensor: a name as slot_name makes it. */
static bool is_of_slot(const char *tensor, const char *name, const char *slot)
{
    const size_t before = strlen(name), own = strlen(slot);
    if (is_average(name, slot))
        return !strncmp(tensor, ET_STATE_AVERAGE, strlen(ET_STATE_AVERAGE));
    return !strncmp(tensor, name, before) && tensor[before] == '/' &&
           !strncmp(tensor + before + 1, slot, own) && tensor[before + 1 + own] == '/';
}

/* Whether any tensor of the slot was missing in the restored file. name: of the optimizer. */
static bool lacks(const et_state *state, const char *name, const char *slot)
{
    for (size_t i = 0; i < state->tensor_count; i++)
        if (state->tensors[i].missing && is_of_slot(state->tensors[i].name, name, slot))
            return true;
    return false;
}

void et_state_start_slots(const et_state *state, bool tells)
{
    for (size_t i = 0; i < state->part_count; i++) {
        const part *one = &state->parts[i];
        if (one->class != &optimizer_class)
            continue;
        et_optimizer *optimizer = one->self;
        const et_slot *slots;
        const int count = et_optimizer_slots(optimizer, &slots);
        bool restart = false;
        for (int k = 0; k < count; k++) {
            if (!lacks(state, one->name, slots[k].name))
                continue;
            bool average = slots[k].data == et_optimizer_average(optimizer);
            if (average) {
                et_optimizer_start(optimizer);
                if (tells)
                    et_log(ET_LOG_WARNING, "the moving average starts again from the weights");
            }
            restart |= !average;
        }
        if (restart)
            et_optimizer_restart(optimizer);
        if (restart && tells)
            et_log(ET_LOG_WARNING, "the optimizer's moments start again from zero");
    }
}

/* ---- plain values ---- */

/* Small values: counters, positions, sums. One dict for each part, under its name. */

/* The arena keeps a lack of memory, so no part's save checks for it. */
int et_state_save(const et_state *state, et_value **out, et_arena *arena, et_error *error)
{
    *out = et_value_dict(arena);
    for (size_t i = 0; i < state->part_count; i++) {
        const part *one = &state->parts[i];
        et_value *dict = et_value_set_dict(*out, one->name);
        int status = dict ? one->class->save(one->self, dict, error) : ET_OK;
        if (!status && et_value_failed(dict))
            status = et_alloc_failed(error, "a state tree");
        if (status)
            return et_fail_while(error, status, "saving %s", one->name);
    }
    return *out ? ET_OK : et_alloc_failed(error, "a state tree");
}

/* Both ways: a part without values could not be restored, values without a part would be lost
 * with the next save. */
int et_state_match(const et_state *state, const et_value *tree, et_error *error)
{
    if (!tree || tree->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EFORMAT, "the state is not a group of values");
    for (size_t i = 0; i < state->part_count; i++) {
        const et_value *dict = et_value_get(tree, state->parts[i].name);
        if (!dict && state->parts[i].optional)
            continue;
        if (!dict || dict->kind != ET_VALUE_DICT)
            return et_fail(error, ET_ECONFIG, "has no state of %s, but this run does",
                           state->parts[i].name);
    }
    for (const et_value *child = tree->first; child; child = child->next)
        if (!find_part(state, child->key))
            return et_fail(error, ET_ECONFIG, "has state of %s, but this run does not", child->key);
    return ET_OK;
}

int et_state_match_partly(const et_state *state, const et_value *tree, const char *path,
                          et_error *error)
{
    if (!tree || tree->kind != ET_VALUE_DICT)
        return et_fail(error, ET_EFORMAT, "the state is not a group of values");
    for (const et_value *child = tree->first; child; child = child->next)
        if (find_part(state, child->key) && child->kind != ET_VALUE_DICT)
            return et_fail(error, ET_EFORMAT, "%s: not a dict", child->key);
    for (size_t i = 0; i < state->part_count; i++)
        if (!et_value_get(tree, state->parts[i].name) && !state->parts[i].optional)
            et_log(ET_LOG_WARNING, "%s: has no state of %s: it is unchanged", path,
                   state->parts[i].name);
    for (const et_value *child = tree->first; child; child = child->next)
        if (!find_part(state, child->key))
            et_log(ET_LOG_WARNING, "%s: the state of %s is ignored: this run does not have it",
                   path, child->key);
    return ET_OK;
}

/* Only after et_state_match and after all tensors are in place. */
int et_state_restore(et_state *state, const et_value *tree, et_error *error)
{
    for (size_t i = 0; i < state->part_count; i++) {
        const part *one = &state->parts[i];
        const et_value *dict = et_value_get(tree, one->name);
        int status = dict ? one->class->restore(one->self, dict, error) : ET_OK;
        if (status)
            return et_fail_while(error, status, "restoring %s", one->name);
    }
    return ET_OK;
}

/* ---- getters ---- */

size_t et_state_tensor_count(const et_state *state)
{
    return state->tensor_count;
}

const et_state_tensor *et_state_tensor_at(const et_state *state, size_t index)
{
    et_assert(index < state->tensor_count);
    return &state->tensors[index];
}

void et_state_tensor_fill(et_state *state, size_t index, const float *values)
{
    et_assert(index < state->tensor_count);
    et_state_tensor *tensor = &state->tensors[index];
    const int64_t *own = tensor->cut ? tensor->cut + et_comm_rank(state->ranks) : NULL;
    int64_t begin = own ? own[0] : 0, end = own ? own[1] : et_shape_count(tensor->shape);
    tensor->missing = !values;
    tensor->whole = own ? values : NULL;
    if (values)
        memcpy(tensor->data, values + begin, (size_t)(end - begin) * sizeof *values);
}

void et_state_tensor_mark(et_state *state, size_t index, bool missing)
{
    et_assert(index < state->tensor_count);
    state->tensors[index].missing = missing;
}

void et_state_end_restore(et_state *state)
{
    for (size_t i = 0; i < state->tensor_count; i++)
        state->tensors[i].whole = NULL;
}

/* One look-up in a map: restoring asks for every tensor of a file. */
const et_state_tensor *et_state_tensor_find(const et_state *state, const char *name)
{
    int64_t index;
    return et_map_get(&state->by_name, name, &index) ? &state->tensors[index] : NULL;
}

/* ---- parts of other ranks ---- */

/* The protocol: rank 0 sends a tensor's number to all ranks, or END to release them. Then the parts
 * of the tensor come in order, each in pieces. The number decides which rank sends what, so nothing
 * else is sent. */

#define CHUNK ((int64_t)1 << 18) /* elements: a megabyte */

enum { END = -1 };

static const et_comm_chunk none = { -1, NULL, 0 };

static int say(const et_state *state, int64_t *number, et_error *error)
{
    return et_comm_broadcast(et_state_ranks(state), 0, number, sizeof *number, error);
}

static int64_t chunk_at(int64_t at, int64_t end)
{
    return end - at < CHUNK ? end - at : CHUNK;
}

int et_tensor_shards_give(const et_state *state, et_error *error)
{
    int64_t number;
    int status = say(state, &number, error);
    while (!status && number != END) {
        if (number < 0 || number >= (int64_t)et_state_tensor_count(state) ||
            !et_state_tensor_at(state, (size_t)number)->cut)
            return et_fail(error, ET_EFAIL, "ranks are out of step: tensor %lld of %zu",
                           (long long)number, et_state_tensor_count(state));
        const et_state_tensor *tensor = et_state_tensor_at(state, (size_t)number);
        et_comm *comm = et_state_ranks(state);
        const int64_t *own = tensor->cut + et_comm_rank(comm);
        for (int64_t at = 0; !status && at < own[1] - own[0]; at += CHUNK) {
            size_t bytes = chunk_at(at, own[1] - own[0]) * sizeof *tensor->data;
            status =
                et_comm_exchange(comm, (et_comm_chunk){ 0, tensor->data + at, bytes }, none, error);
        }
        if (!status)
            status = say(state, &number, error);
    }
    return status;
}

/* A rank's part is received to its end, also if it is no longer needed. */
static int read_part(const et_state_tensor *tensor, int rank, float *room, et_comm *comm,
                     et_safetensors_take_fn *take, void *payload, et_error *error)
{
    int status = ET_OK, sent = ET_OK;
    for (int64_t at = tensor->cut[rank], end = tensor->cut[rank + 1]; !sent && at < end;
         at += CHUNK) {
        size_t bytes = chunk_at(at, end) * sizeof *room;
        sent = et_comm_exchange(comm, none, (et_comm_chunk){ rank, room, bytes },
                                status ? NULL : error);
        if (!sent && !status)
            status = take(payload, room, bytes, error);
    }
    return status ? status : sent;
}

int et_tensor_shards_read(const et_state *state, size_t tensor, et_safetensors_take_fn *take,
                          void *payload, et_error *error)
{
    et_comm *comm = et_state_ranks(state);
    const et_state_tensor *t = et_state_tensor_at(state, tensor);
    int64_t number = (int64_t)tensor;
    et_assert(t->cut && !et_comm_rank(comm));
    float *room = et_alloc(CHUNK, sizeof *room);
    int status = room ? say(state, &number, error) : et_alloc_failed(error, "a rank's part");
    bool asked = !status;
    if (!status && t->cut[1])
        status = take(payload, t->data, t->cut[1] * sizeof *t->data, error);
    for (int r = 1; asked && r < et_comm_size(comm); r++) {
        int got = read_part(t, r, room, comm, take, payload, status ? NULL : error);
        status = status ? status : got;
    }
    et_free(room);
    return status;
}

int et_tensor_shards_end(const et_state *state, int status, et_error *error)
{
    int64_t number = END;
    int sent = say(state, &number, status ? NULL : error);
    return status ? status : sent;
}
