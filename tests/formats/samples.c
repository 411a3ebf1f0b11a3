/* Writes and reads files for comparison with public readers; public_readers.py has the expected
 * contents. `samples write DIRECTORY` writes weights.safetensors and events in two directories, the
 * second half after a resume; `samples read FILE` checks a file of the public writer. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/dtype.h"
#include <etude/summary_message.h>

#include "formats/events/event.h"
#include "formats/events/sink.h"
#include "formats/safetensors/safetensors.h"

enum { ROWS = 5, COLUMNS = 7, STEPS = 40 };

static int write_weights(const char *directory, et_error *error)
{
    static float weight[ROWS * COLUMNS];
    static et_bf16 shadow[ROWS * COLUMNS];
    static int32_t tokens[ROWS];
    static float step = 1234.5f;
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        weight[i] = 1.0f / (float)(i + 1);
        shadow[i] = et_bf16_from_float(weight[i]);
    }
    for (int i = 0; i < ROWS; i++)
        tokens[i] = 1 << (7 * i % 31);
    const et_safetensors_item items[] = {
        { "layer/shadow", { shadow, ET_BF16, { 2, { ROWS, COLUMNS } } } },
        { "layer/weight", { weight, ET_F32, { 2, { ROWS, COLUMNS } } } },
        { "tokens", { tokens, ET_I32, { 1, { ROWS } } } },
        { "step", { &step, ET_F32, { 0, { 0 } } } },
        { "empty \xc3\xa9 \"x\"", { weight, ET_F32, { 2, { 3, 0 } } } },
    };
    char path[600];
    et_safetensors_written written;
    et_arena arena = ET_ARENA_INIT;
    et_value *metadata = et_value_dict(&arena);
    et_value_set_string(metadata, "state", "{\"step\":1234,\"note\":\"gr\xc3\xbc\xc3\x9f e\\n\"}");
    snprintf(path, sizeof path, "%s/weights.safetensors", directory);
    const int status = et_safetensors_write(&written, path, items, 5, metadata, error);
    et_arena_release(&arena);
    return status;
}

static int write_log(et_sink *sink, int64_t step, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *log = et_value_dict(&arena);
    et_value *train = et_value_set_dict(log, "train");
    et_value_set_float(train, "loss", 8.0 / (double)(step + 1));
    et_value_set_int(train, "epoch", step / 10);
    et_value_set_float(et_value_set_dict(train, ET_SINK_TIME), "rate", 100.0);
    if (step % 10 == 0) {
        et_value *validation = et_value_set_dict(log, "validation");
        et_value_set_float(validation, "BLEU", (double)step / 4);
        et_value_set_string(validation, "sample", step ? "Gr\xc3\xbc\xc3\x9f e" : "");
    }
    const int status = et_sink_write(sink, step, log, error);
    et_arena_release(&arena);
    return status;
}

static int write_events(const char *directory, et_error *error)
{
    et_sink *sink;
    et_arena arena = ET_ARENA_INIT;
    et_value *positions = et_value_dict(&arena);
    int status = et_sink_events_open(&sink, directory, NULL, error);
    for (int64_t step = 0; step < STEPS / 2 + 5 && !status; step++) {
        if (step == STEPS / 2)
            et_sink_positions(sink, positions);
        status = write_log(sink, step, error);
    }
    status = status ? status : et_sink_close(sink, error);
    status = status ? status : et_sink_events_open(&sink, directory, positions, error);
    for (int64_t step = STEPS / 2; step < STEPS && !status; step++)
        status = write_log(sink, step, error);
    status = status ? status : et_sink_close(sink, error);
    et_arena_release(&arena);
    return status;
}

/* A scalar, a histogram of 0 .. 99, an image of 2 x 3 pixels and a graph of two nodes, at step 7.
 */
static int write_messages(const char *directory, et_error *error)
{
    static const uint8_t pixels[2][3][3] = { { { 255, 0, 0 }, { 0, 255, 0 }, { 0, 0, 255 } },
                                             { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 } } };
    static const char *const inputs[] = { "layer/weight" };
    static const int64_t size[] = { 2, 3 };
    const et_events_node nodes[] = { { "layer/weight", "param", NULL, 0, 2, size },
                                     { "layer/out", "relu", inputs, 1, 2, size } };
    char path[600];
    double values[100];
    et_summary *summary;
    et_sink *sink;
    bool any;
    for (int i = 0; i < 100; i++)
        values[i] = i;
    snprintf(path, sizeof path, "%s/messages", directory);
    int status = et_summary_new(&summary, error);
    if (status)
        return status;
    status = et_summary_add_scalar(summary, "one", 1.5, error);
    if (!status)
        status = et_summary_add_histogram(summary, "values", values, 100, error);
    if (!status)
        status = et_summary_add_image(summary, "picture", &pixels[0][0][0], 2, 3, 3, error);
    if (!status)
        status = et_sink_events_open(&sink, path, NULL, error);
    if (!status) {
        size_t length;
        const void *bytes = et_summary_bytes(summary, &length);
        status = et_sink_write_message(sink, &(et_sink_message){ .nodes = nodes, .count = 2 }, &any,
                                       error);
        status = status ? status : et_sink_write_summary(sink, 7, bytes, length, error);
        status = status ? status : et_sink_close(sink, error);
    }
    et_summary_free(summary);
    return status;
}

/* "b": bfloat16 [3], "w": float32 [2, 2] = 0..3, "i": int32 [2] = 5, -6. */
static int check_foreign(const char *path, et_error *error)
{
    static const float weights[] = { 0, 1, 2, 3 };
    static const int32_t integers[] = { 5, -6 };
    et_safetensors *file;
    int status = et_safetensors_open_foreign(&file, path, error);
    if (status)
        return status;
    const et_safetensors_tensor *w = et_safetensors_find(file, "w");
    const et_safetensors_tensor *i = et_safetensors_find(file, "i");
    if (et_safetensors_sealed(file) || w == NULL || i == NULL || w->bytes != sizeof weights ||
        i->bytes != sizeof integers || memcmp(w->data, weights, sizeof weights) != 0 ||
        memcmp(i->data, integers, sizeof integers) != 0)
        status = et_fail(error, ET_EFAIL, "%s: not what was written", path);
    et_safetensors_close(file);
    return status;
}

int main(int count, char **arguments)
{
    et_error error = ET_ERROR_INIT;
    int status;
    if (count == 3 && strcmp(arguments[1], "write") == 0) {
        status = write_weights(arguments[2], &error);
        status = status ? status : write_events(arguments[2], &error);
        status = status ? status : write_messages(arguments[2], &error);
    } else if (count == 3 && strcmp(arguments[1], "read") == 0) {
        status = check_foreign(arguments[2], &error);
    } else {
        status = et_fail(&error, ET_EUSAGE, "usage: samples write DIRECTORY | read FILE");
    }
    if (status)
        fprintf(stderr, "%s\n", error.text);
    return status;
}
