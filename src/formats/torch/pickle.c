/* A stack machine over one pickle. Values are nodes in an arena; the stack and the memo hold
 * pointers to them. Lists and dicts are chains of nodes.
 *
 * Invariants:
 *
 *   1. A value of a writer takes two bytes and more, with its number in the memo. More values than
 *      that are refused, so memory is at most about 40 times the length of the bytes.
 *   2. Readers look at values only at fixed depths: a dict, its tensors, their storages. Nothing
 *      walks a value recursively, so a value that contains itself is harmless.
 *   3. A global is a row of the table below. An instruction that calls one makes a dict or a tensor
 *      from its arguments, and nothing else. */
#include "formats/torch/pickle.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum kind {
    KIND_MARK,
    KIND_NONE,
    KIND_BOOL,
    KIND_INT,
    KIND_TEXT,
    KIND_TUPLE,
    KIND_LIST,
    KIND_DICT,
    KIND_GLOBAL,
    KIND_STORAGE,
    KIND_TENSOR,
};

/* Names of kinds for people, in the order of the enum. */
static const char *const kind_names[] = { "a mark",  "None",      "a truth value", "a number",
                                          "a text",  "a tuple",   "a list",        "a dict",
                                          "a class", "a storage", "a tensor" };

enum { CALL_NONE, CALL_DICT, CALL_TENSOR, CALL_PARAMETER };

/* Objects that a pickle may name. call: the result of calling the object; storages are never
 * called. */
static const struct global {
    const char *module, *name;
    int call;
    et_pickle_type type;
    size_t width; /* bytes of an element; 0: no storage */
} globals[] = {
    { "collections", "OrderedDict", CALL_DICT, ET_PICKLE_OTHER, 0 },
    { "torch._utils", "_rebuild_tensor_v2", CALL_TENSOR, ET_PICKLE_OTHER, 0 },
    { "torch._utils", "_rebuild_parameter", CALL_PARAMETER, ET_PICKLE_OTHER, 0 },
    { "torch", "FloatStorage", CALL_NONE, ET_PICKLE_FLOAT32, 4 },
    { "torch", "HalfStorage", CALL_NONE, ET_PICKLE_FLOAT16, 2 },
    { "torch", "BFloat16Storage", CALL_NONE, ET_PICKLE_BFLOAT16, 2 },
    { "torch", "DoubleStorage", CALL_NONE, ET_PICKLE_OTHER, 8 },
    { "torch", "LongStorage", CALL_NONE, ET_PICKLE_OTHER, 8 },
    { "torch", "IntStorage", CALL_NONE, ET_PICKLE_OTHER, 4 },
    { "torch", "ShortStorage", CALL_NONE, ET_PICKLE_OTHER, 2 },
    { "torch", "CharStorage", CALL_NONE, ET_PICKLE_OTHER, 1 },
    { "torch", "ByteStorage", CALL_NONE, ET_PICKLE_OTHER, 1 },
    { "torch", "BoolStorage", CALL_NONE, ET_PICKLE_OTHER, 1 },
};

/* Elements of a storage that make up a tensor. */
typedef struct view {
    const et_pickle_storage *storage;
    uint64_t offset;
    et_shape shape;
} view;

typedef struct value value;
struct value {
    enum kind kind;
    bool shared; /* in the memo or in several places: containers get a copy */
    value *next; /* in a tuple or a list; in a dict of each key to its value and the next key */
    union {
        int64_t number; /* of KIND_INT and KIND_BOOL */
        const char *text;
        struct {
            value *first, *last; /* of a dict: keys and values in turns */
            size_t count;        /* of items; of a dict, of pairs */
        } items;
        const struct global *global;
        const et_pickle_storage *storage;
        const view *tensor;
    } is;
};

/* Pointers to values; grows by half. */
typedef struct pointers {
    value **items; /* owned */
    size_t count, capacity;
} pointers;

typedef struct machine {
    et_pickle *pickle;
    et_arena *arena;
    pointers stack, memo;
    size_t left; /* values that may still be made */
    value mark;  /* on the stack alone, never in a container or in the memo */
    bool over;
    int status; /* of the first failure, which ends the run */
    et_error *error;
} machine;

/* ---- failures ---- */

/* The functions of a machine are false, or NULL, after a failure; then status says why. */

static bool damaged(machine *m, const char *what)
{
    m->status = et_fail(m->error, ET_EFORMAT,
                        "%s: damaged at byte %zu of its pickle: %s; download it again",
                        m->pickle->name, m->pickle->at, what);
    return false;
}

static void *no_memory(machine *m)
{
    m->status = et_alloc_failed(m->error, "a pickle");
    return NULL;
}

/* ---- values ---- */

static bool push_on(machine *m, pointers *on, value *v)
{
    if (on->count == on->capacity) {
        const size_t capacity = on->capacity ? on->capacity + on->capacity / 2 : 64;
        value **grown = et_realloc(on->items, capacity, sizeof *grown);
        if (!grown)
            return no_memory(m);
        on->items = grown;
        on->capacity = capacity;
    }
    on->items[on->count++] = v;
    return true;
}

static value *make(machine *m, enum kind kind)
{
    if (!m->left) {
        damaged(m, "more values than its length allows");
        return NULL;
    }
    m->left--;
    value *made = et_arena_alloc(m->arena, sizeof *made);
    if (!made)
        return no_memory(m);
    made->kind = kind;
    return made;
}

static value *push_new(machine *m, enum kind kind)
{
    value *v = make(m, kind);
    return v && push_on(m, &m->stack, v) ? v : NULL;
}

static bool push_number(machine *m, enum kind kind, int64_t number)
{
    value *v = push_new(m, kind);
    if (v)
        v->is.number = number;
    return v;
}

/* NULL: the stack is empty, or its top is a mark. */
static value *pop(machine *m)
{
    if (!m->stack.count || m->stack.items[m->stack.count - 1]->kind == KIND_MARK)
        return NULL;
    return m->stack.items[--m->stack.count];
}

static value *top(const machine *m)
{
    return m->stack.count ? m->stack.items[m->stack.count - 1] : NULL;
}

/* An item is in only one container. A shared value may be in several, so each container gets a
 * copy; the contents of the value stay shared. */
static bool add_item(machine *m, value *to, value *item)
{
    value *own = item->shared ? make(m, item->kind) : item;
    if (!own)
        return false;
    *own = *item;
    own->next = NULL;
    if (to->is.items.last)
        to->is.items.last->next = own;
    else
        to->is.items.first = own;
    to->is.items.last = own;
    return true;
}

/* The place of the newest mark; the stack's count: there is none. */
static size_t find_mark(const machine *m)
{
    for (size_t i = m->stack.count; i-- > 0;)
        if (m->stack.items[i]->kind == KIND_MARK)
            return i;
    return m->stack.count;
}

/* ---- reading ---- */

static bool take(machine *m, const unsigned char **bytes, size_t count)
{
    et_pickle *p = m->pickle;
    if (count > p->length - p->at)
        return false;
    *bytes = (const unsigned char *)p->bytes + p->at;
    p->at += count;
    return true;
}

/* Little-endian. */
static bool take_count(machine *m, uint32_t *number, size_t width)
{
    const unsigned char *bytes;
    if (!take(m, &bytes, width))
        return false;
    *number = 0;
    for (size_t i = 0; i < width; i++)
        *number |= (uint32_t)bytes[i] << 8 * i;
    return true;
}

static const char ends_early[] = "it ends early";

/* A text without zeros, which our texts end with. */
static bool take_text(machine *m, const char **text, size_t length)
{
    const unsigned char *bytes;
    if (!take(m, &bytes, length))
        return damaged(m, ends_early);
    if (memchr(bytes, 0, length))
        return damaged(m, "a text has a zero in it");
    *text = et_arena_strndup(m->arena, (const char *)bytes, length);
    return *text || no_memory(m);
}

static bool take_line(machine *m, const char **text)
{
    et_pickle *p = m->pickle;
    const char *begin = p->bytes + p->at, *end = memchr(begin, '\n', p->length - p->at);
    if (!end)
        return damaged(m, ends_early);
    const bool sound = take_text(m, text, (size_t)(end - begin));
    p->at++;
    return sound;
}

/* ---- instructions ---- */

static bool push_text(machine *m, size_t width)
{
    uint32_t length;
    const char *text;
    if (!take_count(m, &length, width))
        return damaged(m, ends_early);
    value *v = take_text(m, &text, length) ? push_new(m, KIND_TEXT) : NULL;
    if (v)
        v->is.text = text;
    return v;
}

/* Two's complement of at most 8 bytes. */
static bool push_long(machine *m)
{
    uint32_t width;
    const unsigned char *bytes;
    uint64_t number = 0;
    if (!take_count(m, &width, 1) || !take(m, &bytes, width))
        return damaged(m, ends_early);
    if (width > 8)
        return damaged(m, "a number of more than 8 bytes");
    for (size_t i = 0; i < width; i++)
        number |= (uint64_t)bytes[i] << 8 * i;
    if (width && width < 8 && bytes[width - 1] & 0x80)
        number |= ~(uint64_t)0 << 8 * width;
    return push_number(m, KIND_INT, (int64_t)number);
}

static bool push_int(machine *m, size_t width)
{
    uint32_t number;
    if (!take_count(m, &number, width))
        return damaged(m, ends_early);
    return push_number(m, KIND_INT, width == 4 ? (int32_t)number : (int64_t)number);
}

static bool push_global(machine *m)
{
    const char *module, *name;
    if (!take_line(m, &module) || !take_line(m, &name))
        return false;
    for (size_t i = 0; i < sizeof globals / sizeof *globals; i++) {
        if (strcmp(globals[i].module, module) != 0 || strcmp(globals[i].name, name) != 0)
            continue;
        value *v = push_new(m, KIND_GLOBAL);
        if (v)
            v->is.global = &globals[i];
        return v;
    }
    m->status =
        et_fail(m->error, ET_EFORMAT,
                "%s: its pickle asks for %.100s.%.100s, which a file of weights does not need; "
                "Etude runs no code of a file: take model.safetensors, or a file that you trust",
                m->pickle->name, module, name);
    return false;
}

/* The values above the newest mark become items of a new tuple. */
static bool make_tuple_from(machine *m, size_t begin)
{
    value *v = make(m, KIND_TUPLE);
    bool added = v;
    for (size_t i = begin; i < m->stack.count && added; i++) {
        added = add_item(m, v, m->stack.items[i]);
        v->is.items.count++;
    }
    m->stack.count = begin;
    return added && push_on(m, &m->stack, v);
}

static bool make_tuple(machine *m)
{
    const size_t mark = find_mark(m);
    if (mark == m->stack.count)
        return damaged(m, "a mark is missing");
    et_assert(m->stack.items);
    memmove(&m->stack.items[mark], &m->stack.items[mark + 1],
            (m->stack.count - mark - 1) * sizeof *m->stack.items);
    m->stack.count--;
    return make_tuple_from(m, mark);
}

/* TUPLE1 to TUPLE3: no mark is among them. */
static bool make_short_tuple(machine *m, size_t count)
{
    const size_t mark = find_mark(m), marks = mark == m->stack.count ? 0 : mark + 1;
    if (m->stack.count - marks < count)
        return damaged(m, "a value is missing");
    return make_tuple_from(m, m->stack.count - count);
}

/* SETITEMS and APPENDS (after the newest mark), SETITEM and APPEND (the last values). */
static bool add_items(machine *m, size_t begin, size_t target, enum kind kind)
{
    const size_t step = kind == KIND_DICT ? 2 : 1, items = m->stack.count - begin;
    et_assert(target < begin && begin <= m->stack.count);
    value *to = m->stack.items[target];
    bool added = true;
    if (to->kind != kind || items % step)
        return damaged(m, "items for another value than a list or a dict");
    for (size_t i = begin; i < m->stack.count && added; i++)
        added = add_item(m, to, m->stack.items[i]);
    to->is.items.count += items / step;
    m->stack.count = target + 1;
    return added;
}

static bool add_marked(machine *m, enum kind kind)
{
    const size_t mark = find_mark(m);
    if (mark == m->stack.count || !mark)
        return damaged(m, "a mark is missing");
    return add_items(m, mark + 1, mark - 1, kind);
}

static bool add_last(machine *m, enum kind kind)
{
    const size_t count = kind == KIND_DICT ? 2 : 1;
    if (m->stack.count < count + 1)
        return damaged(m, "a value is missing");
    const size_t begin = m->stack.count - count;
    for (size_t i = begin; i < m->stack.count; i++)
        if (m->stack.items[i]->kind == KIND_MARK)
            return damaged(m, "a value is missing");
    return add_items(m, begin, begin - 1, kind);
}

/* ---- what globals make ---- */

/* ('storage', torch.FloatStorage, key, device, count): how torch.save names a storage. */
static bool push_storage(machine *m)
{
    static const char other[] = "a reference that is no storage";
    const value *id = pop(m), *word, *type = NULL, *key, *count = NULL;
    if (!id || id->kind != KIND_TUPLE || id->is.items.count < 5)
        return damaged(m, other);
    word = id->is.items.first;
    type = word->next;
    key = type->next;
    count = key->next->next;
    if (word->kind != KIND_TEXT || strcmp(word->is.text, "storage") != 0 ||
        type->kind != KIND_GLOBAL || !type->is.global->width || key->kind != KIND_TEXT ||
        count->kind != KIND_INT || count->is.number < 0)
        return damaged(m, other);
    if (id->is.items.count > 5 && count->next->kind != KIND_NONE)
        return damaged(m, "a storage that is a part of another");
    et_pickle_storage *storage = et_arena_alloc(m->arena, sizeof *storage);
    if (!storage)
        return no_memory(m);
    *storage = (et_pickle_storage){ key->is.text, type->is.global->name, type->is.global->type,
                                    type->is.global->width, (uint64_t)count->is.number };
    value *v = push_new(m, KIND_STORAGE);
    if (v)
        v->is.storage = storage;
    return v;
}

/* Sizes, and strides as they are where elements follow one another; a dimension of one element may
 * have any. */
static bool read_shape(machine *m, et_shape *shape, const value *sizes, const value *strides)
{
    const size_t rank = sizes->is.items.count;
    const value *size = sizes->is.items.first, *stride = strides->is.items.first;
    int64_t given[ET_RANK_MAX], dense = 1;
    if (rank > ET_RANK_MAX || strides->is.items.count != rank)
        return damaged(m, "a tensor of too many dimensions");
    shape->rank = (int)rank;
    for (size_t i = 0; i < rank; i++, size = size->next, stride = stride->next) {
        if (size->kind != KIND_INT || stride->kind != KIND_INT || size->is.number < 0)
            return damaged(m, "a tensor whose shape is no list of counts");
        shape->size[i] = size->is.number;
        given[i] = stride->is.number;
    }
    for (size_t i = rank; i-- > 0;) {
        if (shape->size[i] > 1 && given[i] != dense) {
            m->status = et_fail(m->error, ET_EFORMAT,
                                "%s: a tensor is not contiguous; save tensors after .contiguous()",
                                m->pickle->name);
            return false;
        }
        if (__builtin_mul_overflow(dense, shape->size[i], &dense))
            return damaged(m, "a tensor that is too large");
    }
    return true;
}

/* _rebuild_tensor_v2(storage, offset, sizes, strides, requires_grad, hooks) */
static bool make_tensor(machine *m, const value *arguments)
{
    static const char other[] = "a tensor with other arguments";
    if (arguments->is.items.count < 4)
        return damaged(m, other);
    const value *storage = arguments->is.items.first, *offset = storage->next;
    const value *sizes = offset->next, *strides = sizes->next;
    if (storage->kind != KIND_STORAGE || offset->kind != KIND_INT || sizes->kind != KIND_TUPLE ||
        strides->kind != KIND_TUPLE)
        return damaged(m, other);
    et_shape shape = { 0 };
    if (!read_shape(m, &shape, sizes, strides))
        return false;
    const uint64_t all = storage->is.storage->count, first = (uint64_t)offset->is.number;
    if (offset->is.number < 0 || first > all || (uint64_t)et_shape_count(shape) > all - first)
        return damaged(m, "a tensor that is larger than its storage");
    view *made = et_arena_alloc(m->arena, sizeof *made);
    if (!made)
        return no_memory(m);
    *made = (view){ storage->is.storage, first, shape };
    value *v = push_new(m, KIND_TENSOR);
    if (v)
        v->is.tensor = made;
    return v;
}

static bool call(machine *m)
{
    const value *arguments = pop(m), *function = arguments ? pop(m) : NULL;
    if (!function || function->kind != KIND_GLOBAL || arguments->kind != KIND_TUPLE)
        return damaged(m, "a call of a value that is not a function");
    switch (function->is.global->call) {
    case CALL_DICT:
        if (arguments->is.items.count)
            return damaged(m, "a dict with arguments");
        return push_new(m, KIND_DICT);
    case CALL_TENSOR:
        return make_tensor(m, arguments);
    case CALL_PARAMETER: /* (tensor, requires_grad, hooks) */
        if (!arguments->is.items.count || arguments->is.items.first->kind != KIND_TENSOR)
            return damaged(m, "a parameter without a tensor");
        arguments->is.items.first->shared = true;
        return push_on(m, &m->stack, arguments->is.items.first);
    default:
        return damaged(m, "a call of a storage");
    }
}

/* A state dict has an attribute, _metadata, with versions of modules. */
static bool ignore_attributes(machine *m)
{
    const value *state = pop(m);
    if (!state || state->kind != KIND_DICT || !top(m) || top(m)->kind != KIND_DICT)
        return damaged(m, "attributes of a value that is not a dict");
    return true;
}

static bool check_protocol(machine *m)
{
    uint32_t version;
    if (!take_count(m, &version, 1))
        return damaged(m, ends_early);
    if (version > 2)
        m->status = et_fail(m->error, ET_EFORMAT,
                            "%s: its pickle has protocol %u; only protocol 2, which torch.save "
                            "writes, is read",
                            m->pickle->name, (unsigned)version);
    return version <= 2;
}

static bool keep_or_recall(machine *m, bool keeps, size_t width)
{
    uint32_t slot;
    if (!take_count(m, &slot, width))
        return damaged(m, ends_early);
    if (keeps) {
        value *v = top(m);
        if (!v)
            return damaged(m, "a value is missing");
        /* Writers number remembered objects one by one. */
        if (slot > m->memo.count)
            return damaged(m, "it numbers its values with gaps");
        v->shared = true;
        if (slot == m->memo.count)
            return push_on(m, &m->memo, v);
        m->memo.items[slot] = v;
        return true;
    }
    if (slot >= m->memo.count)
        return damaged(m, "it uses a value before it is there");
    return push_on(m, &m->stack, m->memo.items[slot]);
}

/* One instruction. */
static bool step(machine *m, unsigned char code)
{
    switch (code) {
    case 0x80:
        return check_protocol(m);
    case '(':
        return push_on(m, &m->stack, &m->mark);
    case ')':
        return push_new(m, KIND_TUPLE);
    case ']':
        return push_new(m, KIND_LIST);
    case '}':
        return push_new(m, KIND_DICT);
    case 'N':
        return push_new(m, KIND_NONE);
    case 0x88:
        return push_number(m, KIND_BOOL, 1);
    case 0x89:
        return push_number(m, KIND_BOOL, 0);
    case 'J':
        return push_int(m, 4);
    case 'K':
        return push_int(m, 1);
    case 'M':
        return push_int(m, 2);
    case 0x8a:
        return push_long(m);
    case 'X':
        return push_text(m, 4);
    case 'U':
        return push_text(m, 1);
    case 'c':
        return push_global(m);
    case 't':
        return make_tuple(m);
    case 0x85:
        return make_short_tuple(m, 1);
    case 0x86:
        return make_short_tuple(m, 2);
    case 0x87:
        return make_short_tuple(m, 3);
    case 's':
        return add_last(m, KIND_DICT);
    case 'a':
        return add_last(m, KIND_LIST);
    case 'u':
        return add_marked(m, KIND_DICT);
    case 'e':
        return add_marked(m, KIND_LIST);
    case 'q':
        return keep_or_recall(m, true, 1);
    case 'r':
        return keep_or_recall(m, true, 4);
    case 'h':
        return keep_or_recall(m, false, 1);
    case 'j':
        return keep_or_recall(m, false, 4);
    case 'Q':
        return push_storage(m);
    case 'R':
        return call(m);
    case 'b':
        return ignore_attributes(m);
    case '.':
        m->over = true;
        return true;
    default:
        m->status = et_fail(m->error, ET_EFORMAT,
                            "%s: byte %zu of its pickle is an instruction (0x%02x) that a file of "
                            "weights does not need",
                            m->pickle->name, m->pickle->at - 1, code);
        return false;
    }
}

/* The value that is left. */
static int run(et_pickle *pickle, const value **result, et_arena *arena, et_error *error)
{
    machine m = { .pickle = pickle,
                  .arena = arena,
                  .left = pickle->length / 2 + 64,
                  .mark = { .kind = KIND_MARK },
                  .error = error };
    const unsigned char *code;
    while (!m.status && !m.over)
        (void)(take(&m, &code, 1) ? step(&m, *code) : damaged(&m, ends_early));
    *result = m.status ? NULL : top(&m);
    if (!m.status && m.stack.count != 1)
        damaged(&m, "it leaves more than one value");
    else if (*result == &m.mark)
        damaged(&m, "it leaves a mark, not a value");
    et_free(m.stack.items);
    et_free(m.memo.items);
    return m.status;
}

static int expect(const et_pickle *pickle, const value *v, enum kind kind, const char *what,
                  et_error *error)
{
    return v->kind == kind ? ET_OK
                           : et_fail(error, ET_EFORMAT, "%s: %s is %s, not %s", pickle->name, what,
                                     kind_names[v->kind], kind_names[kind]);
}

int et_pickle_read_tensors(et_pickle *pickle, et_pickle_tensor **tensors, size_t *count,
                           et_arena *arena, et_error *error)
{
    const value *dict;
    int status;
    if ((status = run(pickle, &dict, arena, error)) ||
        (status = expect(pickle, dict, KIND_DICT, "its pickle", error)))
        return status;
    *count = dict->is.items.count;
    *tensors = et_arena_array(arena, *count + 1, sizeof **tensors);
    if (!*tensors)
        return et_alloc_failed(error, "a pickle");
    const value *key = dict->is.items.first;
    for (size_t i = 0; i < *count && !status; i++, key = key->next->next) {
        status = expect(pickle, key, KIND_TEXT, "a name in its dict", error);
        if (!status)
            status = expect(pickle, key->next, KIND_TENSOR, key->is.text, error);
        if (!status)
            (*tensors)[i] =
                (et_pickle_tensor){ key->is.text, key->next->is.tensor->storage,
                                    key->next->is.tensor->offset, key->next->is.tensor->shape };
    }
    return status;
}

int et_pickle_read_texts(et_pickle *pickle, const char ***texts, size_t *count, et_arena *arena,
                         et_error *error)
{
    const value *list;
    int status;
    if ((status = run(pickle, &list, arena, error)) ||
        (status = expect(pickle, list, KIND_LIST, "its list of storages", error)))
        return status;
    *count = list->is.items.count;
    *texts = et_arena_array(arena, *count + 1, sizeof **texts);
    if (!*texts)
        return et_alloc_failed(error, "a pickle");
    const value *item = list->is.items.first;
    for (size_t i = 0; i < *count && !status; i++, item = item->next) {
        status = expect(pickle, item, KIND_TEXT, "a name of a storage", error);
        if (!status)
            (*texts)[i] = item->is.text;
    }
    return status;
}

int et_pickle_read_order(et_pickle *pickle, bool *little_endian, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    const value *dict;
    bool found = false;
    int status = run(pickle, &dict, &arena, error);
    if (!status)
        status = expect(pickle, dict, KIND_DICT, "the facts about its machine", error);
    const value *key = status ? NULL : dict->is.items.first;
    for (; key; key = key->next->next) {
        if (key->kind != KIND_TEXT || strcmp(key->is.text, "little_endian") != 0 ||
            key->next->kind != KIND_BOOL)
            continue;
        *little_endian = key->next->is.number;
        found = true;
    }
    et_arena_release(&arena);
    if (!status && !found)
        status =
            et_fail(error, ET_EFORMAT, "%s: it does not say the order of its bytes", pickle->name);
    return status;
}
