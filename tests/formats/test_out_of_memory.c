/* Every allocation of formats/ fails, alone and with all later ones: the call reports the failure,
 * nothing leaks (the sanitizers check this), and the same call succeeds when there is memory
 * again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <etude/allocator.h>

#include "files.h"

#include "base/arena.h"
#include "formats/events/progress.h"
#include "formats/events/sink.h"
#include "formats/records/record.h"
#include "formats/safetensors/manifest.h"
#include "formats/safetensors/safetensors.h"

/* The allocation that fails, counted down. */
typedef struct shortage {
    long left;
    int lasting;
    int hit;
} shortage;

static int fails_now(shortage *s)
{
    s->left--;
    const int failing = s->left == 0 || (s->lasting && s->left < 0);
    s->hit |= failing;
    return failing;
}

static void *allocate(void *payload, size_t size, size_t alignment)
{
    if (fails_now(payload))
        return NULL;
    return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void *reallocate(void *payload, void *memory, size_t size)
{
    return fails_now(payload) ? NULL : realloc(memory, size);
}

static void release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

static int write_weights(void **state, et_error *error)
{
    static float values[8];
    const et_safetensors_item items[] = {
        { "a", { values, ET_F32, { 1, { 8 } } } },
        { "b", { values, ET_BF16, { 2, { 2, 3 } } } },
    };
    et_safetensors_written written;
    return et_safetensors_write(&written, in(state, "weights"), items, 2, NULL, error);
}

static int read_weights(void **state, et_error *error)
{
    et_safetensors *file;
    int status = et_safetensors_open(&file, in(state, "weights"), error);
    status = status ? status : et_safetensors_verify(file, error);
    et_safetensors_close(file);
    return status;
}

static int change_manifest(void **state, et_error *error)
{
    et_manifest m;
    int status = et_manifest_load(&m, *state, error);
    for (int64_t step = 1; step < 12 && !status; step++) {
        const et_manifest_entry entry = { .step = step, .file = "weights" };
        status = et_manifest_add(&m, &entry, error);
    }
    if (!status)
        status = et_manifest_remove(&m, 0, error);
    if (!status)
        status = et_manifest_commit(&m, *state, error);
    et_manifest_release(&m);
    return status;
}

static int write_records(void **state, et_error *error)
{
    et_record_log writer;
    int status = et_record_log_open(&writer, in(state, "records"), ET_APPEND_CONTINUE, error);
    if (status)
        return status;
    status = et_record_log_write(&writer, "12345", 5, error);
    const int other = et_record_log_close(&writer, status ? NULL : error);
    return status ? status : other;
}

static int write_log(et_sink *sink, et_error *error)
{
    et_arena arena = ET_ARENA_INIT;
    et_value *log = et_value_dict(&arena);
    et_value_set_string(log, "text", "a");
    et_value_set_float(et_value_set_dict(log, "validation"), "loss", 1);
    const int status = et_value_failed(log) ? et_fail(error, ET_ENOMEM, "a log")
                                            : et_sink_write(sink, 1, log, error);
    et_arena_release(&arena);
    return status;
}

static int write_logs(void **state, et_error *error)
{
    et_sink *sinks[2] = { NULL, NULL }, *sink = NULL;
    int status = et_sink_jsonl_open(&sinks[0], in(state, "m.jsonl"), NULL, error);
    if (!status)
        status = et_sink_events_open(&sinks[1], in(state, "events"), NULL, error);
    if (status) {
        et_sink_close(sinks[0], NULL);
        return status;
    }
    status = et_sink_multi_open(&sink, sinks, 2, error);
    if (!status)
        status = write_log(sink, error);
    const int other = et_sink_close(sink, status ? NULL : error);
    return status ? status : other;
}

static int show_progress(void **state, et_error *error)
{
    et_progress *progress;
    et_sink *sink = NULL;
    static const char *const values[] = { "train", NULL };
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    options.fd = open(in(state, "screen"), O_CREAT | O_WRONLY, 0666);
    int status = et_progress_open(&progress, &options, error);
    if (!status)
        status = et_sink_console_open(&sink, progress, values, error);
    if (!status)
        status = write_log(sink, error);
    et_sink_close(sink, NULL);
    et_progress_close(progress);
    close(options.fd);
    return status;
}

static const struct {
    const char *name;
    int (*run)(void **state, et_error *error);
    int may_pass; /* a dropped line for people, or an old file not deleted yet, is no failure */
} calls[] = {
    { "write_weights", write_weights, 0 },     { "read_weights", read_weights, 0 },
    { "change_manifest", change_manifest, 1 }, { "write_records", write_records, 0 },
    { "write_logs", write_logs, 0 },           { "show_progress", show_progress, 1 },
};

static void test_out_of_memory__every_allocation(void **state)
{
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        for (int lasting = 0; lasting < 2; lasting++) {
            long n = 1;
            for (;; n++) {
                shortage now = { n, lasting, 0 };
                et_error error = ET_ERROR_INIT;
                const et_allocator hooks = { &now, allocate, reallocate, release };
                et_allocator_set(&hooks);
                const int status = calls[i].run(state, &error);
                et_allocator_set(NULL);
                if (!now.hit) {
                    if (status)
                        fail_msg("%s: %s", calls[i].name, error.text);
                    break;
                }
                if (status != ET_ENOMEM && !(status == ET_OK && calls[i].may_pass))
                    fail_msg("%s: allocation %ld: status %d: %s", calls[i].name, n, status,
                             error.text);
            }
            assert_true(n > 2);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory__every_allocation),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
