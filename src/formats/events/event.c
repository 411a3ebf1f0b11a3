/* Event files. An event is one protobuf message in one record (record.c):
 *
 *   Event { wall_time, step, summary { value { tag, simple_value } ... } }       scalars
 *   Event { wall_time, step, summary { value { tag, tensor, metadata } ... } }   texts
 *   Event { wall_time, file_version "brain.Event:2" }                            the first one
 *
 * event.proto has the fields; protoc-c makes the packing code. Messages are trees of pointers,
 * built in an arena that is emptied after each event, and packed into one buffer that is reused.
 *
 * The wall time is a fixed64 and always present, so an event's length does not depend on the clock:
 * offsets of files are equal in equal runs, and a checkpoint may contain them. */
#include "formats/events/event.h"

#include <string.h>

#include "base/vector.h"
#include "formats/events/event.pb-c.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "formats/records/record.h"

/* protoc-c's names for what event.proto calls Event and Value. */
typedef Etude__Event__Event event_message;
typedef Etude__Event__Value value_message;

/* Numbers of TensorFlow's DataType and of TensorBoard's DataClass. */
enum { DTYPE_FLOAT = 1, DTYPE_STRING = 7, DATA_CLASS_TENSOR = 2 };

struct et_events {
    et_record_log writer;
    et_arena arena;        /* the messages of one event; empty between calls */
    unsigned char *packed; /* one event in bytes; owned */
    size_t packed_capacity;
};

/* The packed message has exactly the size that the library computed; otherwise its generated code
 * and header differ. */
static int write_message(et_events *events, event_message *event, et_error *error)
{
    event->has_wall_time = true;
    event->wall_time = et_clock_wall();
    const size_t size = etude__event__event__get_packed_size(event);
    unsigned char *grown = et_vector_grow(events->packed, &events->packed_capacity, size, 1, 256);
    if (grown == NULL)
        return et_alloc_failed(error, size, "an event");
    events->packed = grown;
    const size_t packed = etude__event__event__pack(event, events->packed);
    et_assert_equal(packed, size);
    return et_record_log_write(&events->writer, events->packed, packed, error);
}

/* The first record of a file gives the version of the others. */
static int write_version(et_events *events, et_error *error)
{
    char version[] = "brain.Event:2";
    event_message event = ETUDE__EVENT__EVENT__INIT;
    event.file_version = version;
    return write_message(events, &event, error);
}

/* A new file, or one cut off at 0, gets its version record; a continued file has one. */
int et_events_open(et_events **out, const char *directory, const char *name, int64_t offset,
                   et_error *error)
{
    *out = NULL;
    et_assert(directory && name);
    int status = et_directory_make(directory, error);
    if (status)
        return status;
    et_events *events = et_alloc_zero(1, sizeof *events);
    /* One file of a fixed name in each directory: it is continued, so it needs no time or
     * machine in its name. */
    status = events == NULL ? et_alloc_failed(error, sizeof *events, "an event file")
                            : et_record_log_open(&events->writer, et_path_of(directory, name).text,
                                                 offset, error);
    if (status) {
        et_free(events);
        return status;
    }
    /* New, or cut off at the very beginning. */
    if (events->writer.file.offset == 0)
        status = write_version(events, error);
    if (status)
        et_events_close(events, NULL);
    else
        *out = events;
    return status;
}

/* A text summary: a tensor of one string, shape [1], for the plugin "text". All parts of the
 * message are in one struct, so that one allocation holds them. */
typedef struct text_value {
    Etude__Event__Tensor tensor;
    Etude__Event__TensorShape shape;
    Etude__Event__TensorShape__Dim dim, *dims[1];
    Etude__Event__Metadata metadata;
    Etude__Event__PluginData plugin;
    ProtobufCBinaryData string;
    char plugin_name[5];
} text_value;

/* false: out of memory. The text is copied, since the library wants it without const. */
static bool set_text(value_message *value, const char *text, et_arena *arena)
{
    text_value *parts = et_arena_alloc(arena, sizeof *parts);
    char *copy = et_arena_strdup(arena, text);
    if (parts == NULL || copy == NULL)
        return false;
    *parts = (text_value){
        .tensor = ETUDE__EVENT__TENSOR__INIT,
        .shape = ETUDE__EVENT__TENSOR_SHAPE__INIT,
        .dim = ETUDE__EVENT__TENSOR_SHAPE__DIM__INIT,
        .dims = { &parts->dim },
        .metadata = ETUDE__EVENT__METADATA__INIT,
        .plugin = ETUDE__EVENT__PLUGIN_DATA__INIT,
        .string = { strlen(copy), (uint8_t *)copy },
        .plugin_name = "text",
    };
    /* shape [1]: a text summary of one string. */
    parts->dim.has_size = true;
    parts->dim.size = 1;
    parts->shape.n_dim = 1;
    parts->shape.dim = parts->dims;
    /* The string itself, as TensorFlow keeps strings: bytes in string_val. */
    parts->tensor.has_dtype = true;
    parts->tensor.dtype = DTYPE_STRING;
    parts->tensor.tensor_shape = &parts->shape;
    parts->tensor.n_string_val = 1;
    parts->tensor.string_val = &parts->string;
    /* What makes TensorBoard show it under "Text". */
    parts->plugin.plugin_name = parts->plugin_name;
    parts->metadata.plugin_data = &parts->plugin;
    parts->metadata.has_data_class = true;
    parts->metadata.data_class = DATA_CLASS_TENSOR;
    value->tensor = &parts->tensor;
    value->metadata = &parts->metadata;
    return true;
}

/* A summary of count values in arena; NULL if none left. Pointers and messages are two arrays
 * because protobuf-c's repeated fields are arrays of pointers. */
static Etude__Event__Summary *new_summary(et_arena *arena, const et_events_value *values,
                                          size_t count)
{
    /* Three blocks in the arena: the summary, the values, and pointers to them. */
    Etude__Event__Summary *summary = et_arena_alloc(arena, sizeof *summary);
    value_message *messages = et_arena_array(arena, count, sizeof *messages);
    value_message **pointers = et_arena_array(arena, count, sizeof(value_message *));
    if (summary == NULL || messages == NULL || pointers == NULL)
        return NULL;
    *summary = (Etude__Event__Summary)ETUDE__EVENT__SUMMARY__INIT;
    summary->n_value = count;
    summary->value = pointers;
    for (size_t i = 0; i < count; i++) {
        value_message *message = pointers[i] = &messages[i];
        et_assert(values[i].tag);
        *message = (value_message)ETUDE__EVENT__VALUE__INIT;
        message->tag = et_arena_strdup(arena, values[i].tag);
        if (message->tag == NULL || (values[i].text && !set_text(message, values[i].text, arena)))
            return NULL;
        /* Scalars are float32 in the file, as TensorBoard's readers have them. */
        message->has_simple_value = values[i].text == NULL;
        message->simple_value = (float)values[i].scalar;
    }
    return summary;
}

/* A file that another program removed is made again, with its version. */
static int follow(et_events *events, et_error *error)
{
    bool moved;
    const int status = et_append_follow(&events->writer.file, &moved, error);
    return status || !moved || events->writer.file.offset > 0 ? status
                                                              : write_version(events, error);
}

/* The arena is emptied on failure too. */
int et_events_write(et_events *events, int64_t step, const et_events_value *values, size_t count,
                    et_error *error)
{
    event_message event = ETUDE__EVENT__EVENT__INIT;
    int status = follow(events, error);
    if (status)
        return status;
    event.has_step = true;
    event.step = step;
    event.summary = new_summary(&events->arena, values, count);
    status = event.summary == NULL ? et_alloc_failed(error, 0, "an event")
                                   : write_message(events, &event, error);
    et_arena_release(&events->arena);
    return status;
}

/* ---- serialised summaries ---- */

/* Allocates for the library and notes a failure, so that it can be told from an invalid message. */
static void *take(void *payload, size_t size)
{
    void *memory = et_alloc(size, 1);
    *(bool *)payload |= memory == NULL;
    return memory;
}

static void leave(void *payload, void *memory)
{
    (void)payload;
    et_free(memory);
}

/* Unpacks the summary and packs it again within the event; fields that event.proto does not name
 * are kept. */
int et_events_summary(et_events *events, int64_t step, const void *bytes, size_t length,
                      et_error *error)
{
    bool failed = false;
    ProtobufCAllocator allocator = { take, leave, &failed };
    event_message event = ETUDE__EVENT__EVENT__INIT;
    Etude__Event__Summary *summary =
        etude__event__summary__unpack(&allocator, length, (const uint8_t *)bytes);
    int status = ET_OK;
    if (failed)
        status = et_alloc_failed(error, length, "a summary");
    else if (!summary || !summary->n_value)
        status = et_fail(error, ET_EDATA, "%zu bytes are not a serialized tensorflow.Summary%s",
                         length, summary ? " with a value" : "");
    if (!status)
        status = follow(events, error);
    event.has_step = true;
    event.step = step;
    event.summary = summary;
    if (!status)
        status = write_message(events, &event, error);
    if (summary)
        etude__event__summary__free_unpacked(summary, &allocator);
    return status;
}

/* ---- graphs ---- */

typedef Etude__Event__Node node_message;

/* The shape is in the attribute that TensorFlow uses. */
typedef struct node_parts {
    Etude__Event__AttributeEntry entry, *entries[1];
    Etude__Event__Attribute attribute;
    Etude__Event__ShapeList list;
    Etude__Event__TensorShape shape, *shapes[1];
} node_parts;

static bool set_shape(node_message *message, const et_events_node *node, et_arena *arena)
{
    node_parts *parts = et_arena_alloc(arena, sizeof *parts);
    size_t rank = (size_t)node->rank;
    Etude__Event__TensorShape__Dim *dims = et_arena_array(arena, rank + 1, sizeof *dims);
    Etude__Event__TensorShape__Dim **pointers = et_arena_array(arena, rank + 1, sizeof *pointers);
    if (!parts || !dims || !pointers)
        return false;
    *parts = (node_parts){ .entry = ETUDE__EVENT__ATTRIBUTE_ENTRY__INIT,
                           .entries = { &parts->entry },
                           .attribute = ETUDE__EVENT__ATTRIBUTE__INIT,
                           .list = ETUDE__EVENT__SHAPE_LIST__INIT,
                           .shape = ETUDE__EVENT__TENSOR_SHAPE__INIT,
                           .shapes = { &parts->shape } };
    for (size_t i = 0; i < rank; i++) {
        dims[i] = (Etude__Event__TensorShape__Dim)ETUDE__EVENT__TENSOR_SHAPE__DIM__INIT;
        dims[i].has_size = true;
        dims[i].size = node->size[i];
        pointers[i] = &dims[i];
    }
    parts->shape.n_dim = rank;
    parts->shape.dim = pointers;
    parts->list.n_shape = 1;
    parts->list.shape = parts->shapes;
    parts->attribute.list = &parts->list;
    parts->entry.key = et_arena_strdup(arena, "_output_shapes");
    parts->entry.value = &parts->attribute;
    message->n_attr = 1;
    message->attr = parts->entries;
    return parts->entry.key != NULL;
}

static bool pack_graph(ProtobufCBinaryData *out, const et_events_node *nodes, size_t count,
                       et_arena *arena)
{
    Etude__Event__Graph graph = ETUDE__EVENT__GRAPH__INIT;
    node_message *messages = et_arena_array(arena, count + 1, sizeof *messages);
    graph.node = et_arena_array(arena, count + 1, sizeof *graph.node);
    if (!messages || !graph.node)
        return false;
    for (size_t i = 0; i < count; i++) {
        node_message *message = &messages[i];
        const et_events_node *node = &nodes[i];
        *message = (node_message)ETUDE__EVENT__NODE__INIT;
        message->name = et_arena_strdup(arena, node->name);
        message->op = et_arena_strdup(arena, node->op);
        message->input = et_arena_array(arena, (size_t)node->input_count + 1, sizeof(char *));
        for (int k = 0; message->input && k < node->input_count; k++) {
            message->input[k] = et_arena_strdup(arena, node->inputs[k]);
            message->n_input++;
        }
        if (!set_shape(message, node, arena) || arena->failed)
            return false;
        graph.node[graph.n_node++] = message;
    }
    out->data = et_arena_alloc(arena, etude__event__graph__get_packed_size(&graph) + 1);
    out->len = out->data ? etude__event__graph__pack(&graph, out->data) : 0;
    return out->data != NULL;
}

int et_events_graph(et_events *events, const et_events_node *nodes, size_t count, et_error *error)
{
    event_message event = ETUDE__EVENT__EVENT__INIT;
    int status = follow(events, error);
    if (status)
        return status;
    event.has_graph_def = pack_graph(&event.graph_def, nodes, count, &events->arena);
    status = event.has_graph_def ? write_message(events, &event, error)
                                 : et_alloc_failed(error, 0, "a graph");
    et_arena_release(&events->arena);
    return status;
}

/* ---- settings ---- */

/* A value without numbers, whose metadata has all the content: a message packed into another. */

typedef struct setting_value {
    Etude__Event__SettingEntry entry;
    Etude__Event__Setting value;
} setting_value;

/* In arena; data NULL: out of memory. */
static ProtobufCBinaryData pack_settings(et_arena *arena, const et_events_setting *settings,
                                         size_t count)
{
    Etude__Event__Settings all = ETUDE__EVENT__SETTINGS__INIT;
    Etude__Event__SessionStart start = ETUDE__EVENT__SESSION_START__INIT;
    setting_value *values = et_arena_array(arena, count + 1, sizeof *values);
    start.hparams = et_arena_array(arena, count + 1, sizeof *start.hparams);
    start.has_start_time_secs = true;
    start.start_time_secs = et_clock_wall();
    all.has_version = true; /* 0 */
    all.session_start_info = &start;
    bool whole = values && start.hparams;
    for (size_t i = 0; i < count && whole; i++) {
        setting_value *to = &values[i];
        const et_events_setting *setting = &settings[i];
        to->entry = (Etude__Event__SettingEntry)ETUDE__EVENT__SETTING_ENTRY__INIT;
        to->value = (Etude__Event__Setting)ETUDE__EVENT__SETTING__INIT;
        to->entry.key = et_arena_strdup(arena, setting->name);
        to->entry.value = &to->value;
        to->value.has_number_value = setting->kind == ET_EVENTS_NUMBER;
        to->value.number_value = setting->number;
        to->value.has_bool_value = setting->kind == ET_EVENTS_BOOL;
        to->value.bool_value = setting->number != 0;
        if (setting->kind == ET_EVENTS_TEXT)
            to->value.string_value = et_arena_strdup(arena, setting->text);
        whole = to->entry.key && (setting->kind != ET_EVENTS_TEXT || to->value.string_value);
        start.hparams[start.n_hparams++] = &values[i].entry;
    }
    ProtobufCBinaryData packed = { 0, NULL };
    if (whole)
        packed.data = et_arena_alloc(arena, etude__event__settings__get_packed_size(&all) + 1);
    if (packed.data)
        packed.len = etude__event__settings__pack(&all, packed.data);
    return packed;
}

int et_events_settings(et_events *events, const et_events_setting *settings, size_t count,
                       et_error *error)
{
    char tag[] = "_hparams_/session_start_info", name[] = "hparams";
    event_message event = ETUDE__EVENT__EVENT__INIT;
    value_message message = ETUDE__EVENT__VALUE__INIT, *pointer = &message;
    Etude__Event__Summary summary = ETUDE__EVENT__SUMMARY__INIT;
    Etude__Event__Metadata metadata = ETUDE__EVENT__METADATA__INIT;
    Etude__Event__PluginData plugin = ETUDE__EVENT__PLUGIN_DATA__INIT;
    Etude__Event__Tensor tensor = ETUDE__EVENT__TENSOR__INIT;
    Etude__Event__TensorShape shape = ETUDE__EVENT__TENSOR_SHAPE__INIT;
    Etude__Event__TensorShape__Dim dim = ETUDE__EVENT__TENSOR_SHAPE__DIM__INIT, *dims = &dim;
    /* The tensor has shape [0]. */
    dim.has_size = true;
    shape.n_dim = 1;
    shape.dim = &dims;
    tensor.has_dtype = true;
    tensor.dtype = DTYPE_FLOAT;
    tensor.tensor_shape = &shape;
    plugin.plugin_name = name;
    plugin.has_content = true;
    plugin.content = pack_settings(&events->arena, settings, count);
    metadata.plugin_data = &plugin;
    message.tag = tag;
    message.tensor = &tensor;
    message.metadata = &metadata;
    summary.n_value = 1;
    summary.value = &pointer;
    event.has_step = true;
    event.summary = &summary;
    int status = plugin.content.data ? write_message(events, &event, error)
                                     : et_alloc_failed(error, 0, "settings");
    et_arena_release(&events->arena);
    return status;
}

int et_events_flush(et_events *events, et_error *error)
{
    return et_record_log_flush(&events->writer, error);
}

/* The file is closed and all is freed even if its last bytes did not reach the disk. */
int et_events_close(et_events *events, et_error *error)
{
    const int status = et_record_log_close(&events->writer, error);
    et_arena_release(&events->arena);
    et_free(events->packed);
    et_free(events);
    return status;
}

int64_t et_events_offset(const et_events *events)
{
    return (int64_t)events->writer.file.offset;
}
