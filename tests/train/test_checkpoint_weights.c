/* Only weights: of one checkpoint, also during a run that replaces it, and the mean of several. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>
#include <cmocka.h>

#include <etude/allocator.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "engine/tensor/params.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/saved.h"

static et_params *toy_params(int64_t rows)
{
    et_params *params;
    int index;
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "w", et_shape_2(rows, TOY_COLUMNS), (et_init){ 0 }, &index,
                                error));
    assert_ok(et_params_materialize(params, true, error));
    return params;
}

static void test_checkpoint_weights__load_weights(void **state)
{
    const char *directory = in(state, "weights");
    SAVE(directory, 6);
    char *path;
    assert_int_equal(et_checkpoint_newest(&path, NULL, NULL), ET_ENOTFOUND);
    assert_ok(et_checkpoint_newest(&path, directory, error));
    et_params *params = toy_params(TOY_ROWS), *other = toy_params(TOY_ROWS + 1);
    toy t = toy_new(6);
    et_checkpoint_facts facts = { 0 };
    uint64_t version = et_params_version(params);
    assert_ok(et_checkpoint_load_weights(params, path, false, &facts, error));
    assert_int_equal(facts.step, 6);
    assert_memory_equal(et_params_values(params), t.weight, TOY_SIZE * sizeof(float));
    assert_true(et_params_version(params) > version);
    assert_ok(et_checkpoint_load_weights(params, path, true, NULL, error));
    assert_memory_equal(et_params_values(params), t.average, TOY_SIZE * sizeof(float));
    assert_fails(et_checkpoint_load_weights(other, path, false, NULL, error), ET_ECONFIG,
                 "w is float32 [61, 33] in the file, but float32 [62, 33] here");
    flip_bit(path, 0.9);
    assert_fails(et_checkpoint_load_weights(params, path, false, NULL, error), ET_EFORMAT,
                 "ckpt-6.safetensors");
    assert_fails(et_checkpoint_load_weights(params, "no-such-file", false, NULL, error),
                 ET_ENOTFOUND, "no-such-file");
    et_free(path);
    assert_fails(et_checkpoint_newest(&path, "no-such-run", error), ET_ENOTFOUND, "no-such-run");
    et_params_free(params);
    et_params_free(other);
    toy_free(&t);
}

/* A mapped store reads the file in place, without arrays and copies: what is written to an unlocked
 * parameter reaches neither the file nor a second store. It may be loaded and materialized again.
 */
static void test_checkpoint_weights__mapped(void **state)
{
    const char *directory = in(state, "mapped");
    const et_weights_choice choice = { .averages = true, .mapped = true };
    int index;
    char *path;
    SAVE(directory, 6);
    toy t = toy_new(6);
    et_params *params, *second;
    assert_ok(et_checkpoint_newest(&path, directory, error));
    assert_ok(et_params_new(&params, error));
    assert_ok(et_params_declare(params, "w", et_shape_2(TOY_ROWS, TOY_COLUMNS), (et_init){ 0 },
                                &index, error));
    assert_ok(
        et_checkpoint_take_file(params, path, (et_weights_choice){ .mapped = true }, NULL, error));
    assert_true(et_params_ready(params) && et_params_mapped(params));
    assert_null(et_params_gradients(params));
    assert_memory_equal(et_params_values(params), t.weight, TOY_SIZE * sizeof(float));
    assert_ok(et_checkpoint_take_file(params, path, choice, NULL, error));
    assert_memory_equal(et_params_values(params), t.average, TOY_SIZE * sizeof(float));
    et_params_forget(params, index);
    assert_memory_equal(et_params_values(params), t.average, TOY_SIZE * sizeof(float));
    assert_ok(et_params_unlock(params, index, error));
    et_params_begin_change(params);
    memset(et_params_values(params), 0, TOY_SIZE * sizeof(float));
    et_params_changed(params, false);
    et_params_forget(params, index);
    assert_true(et_params_values(params)[TOY_SIZE - 1] == 0);
    second = toy_params(TOY_ROWS);
    assert_ok(et_checkpoint_take_file(second, path, choice, NULL, error));
    assert_memory_equal(et_params_values(second), t.average, TOY_SIZE * sizeof(float));
    assert_ok(et_params_materialize(params, true, error));
    assert_false(et_params_mapped(params));
    assert_non_null(et_params_gradients(params));
    et_free(path);
    et_params_free(params);
    et_params_free(second);
    toy_free(&t);
}

/* A run that replaces its only checkpoint, and its best one, at a chosen moment: at the allocation
 * that counts to zero. It then does the last steps of a save, renames and removals of files that
 * are ready in "next". */
static struct {
    long until;
    const char *directory;
    bool saved;
} moment;

static void replace(const char *file)
{
    char from[700], to[700];
    snprintf(from, sizeof from, "%s/next/%s", moment.directory, file);
    snprintf(to, sizeof to, "%s/%s", moment.directory, file);
    assert_int_equal(rename(from, to), 0);
}

static void save_the_next(void)
{
    char old[700];
    moment.saved = true;
    replace("checkpoints/ckpt-2.safetensors");
    replace("checkpoints/checkpoint.json");
    snprintf(old, sizeof old, "%s/checkpoints/ckpt-1.safetensors", moment.directory);
    assert_int_equal(unlink(old), 0);
    replace("best/best-2.safetensors");
    replace("best/info.json");
    snprintf(old, sizeof old, "%s/best/best-1.safetensors", moment.directory);
    assert_int_equal(unlink(old), 0);
}

static void *allocate(void *payload, size_t size, size_t alignment)
{
    void *memory = NULL;
    (void)payload;
    if (moment.until-- == 0)
        save_the_next();
    return alignment <= 16                            ? malloc(size)
           : posix_memalign(&memory, alignment, size) ? NULL
                                                      : memory;
}

static void *reallocate(void *payload, void *memory, size_t size)
{
    (void)payload;
    return realloc(memory, size);
}

static void release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

static const et_allocator counting = { NULL, allocate, reallocate, release };

/* Step 1 in directory, step 2 in directory/next, each the only one and the best. */
static void prepare_two(const char *directory)
{
    char next[700];
    snprintf(next, sizeof next, "%s/next", directory);
    for (int64_t step = 1; step <= 2; step++) {
        toy t = toy_new(step);
        toy_attach(&t);
        et_arena arena = ET_ARENA_INIT;
        et_checkpoints *checkpoints = open_at(step == 1 ? directory : next, &t);
        assert_ok(et_checkpoints_save(checkpoints, step, error));
        assert_ok(et_checkpoints_save_best(checkpoints, step, et_value_dict(&arena), error));
        assert_ok(et_checkpoints_close(checkpoints, error));
        et_arena_release(&arena);
        toy_free(&t);
    }
}

/* At any moment one of the two is read, complete, without a message about the other. */
static void test_checkpoint_weights__read_beside_a_save(void **state)
{
    et_params *params = toy_params(TOY_ROWS);
    static const char *const names[] = { NULL, NULL, "newest", "best" };
    enum { WAYS = 4 };
    int read[WAYS][3] = { { 0 } };
    bool saved = true;
    for (long k = 0; saved; k++) {
        saved = false;
        for (int way = 0; way < WAYS; way++) {
            char name[64], directory[700];
            snprintf(name, sizeof name, "beside-%ld-%d", k, way);
            snprintf(directory, sizeof directory, "%s", in(state, name));
            prepare_two(directory);
            et_checkpoint_facts facts = { 0 };
            char *path;
            warnings[0] = '\0';
            moment.until = k;
            moment.directory = directory;
            moment.saved = false;
            et_allocator_set(&counting);
            et_error error = ET_ERROR_INIT;
            int status =
                way == 0 ? et_checkpoint_load(&path, params, directory, NULL, false, &facts, &error)
                : way == 1
                    ? et_checkpoint_load(&path, params, directory, "best", false, &facts, &error)
                    : et_checkpoint_take_named(&path, params, directory, names[way],
                                               (et_weights_choice){ 0 }, &facts, &error);
            et_free(path);
            et_allocator_set(NULL);
            if (status || warnings[0])
                fail_msg("allocation %ld: %s%s", k, error.text, warnings);
            assert_true(facts.step == 1 || facts.step == 2);
            assert_true(et_params_values(params)[0] == (float)facts.step);
            read[way][facts.step]++;
            saved |= moment.saved;
        }
    }
    for (int way = 0; way < WAYS; way++)
        assert_true(read[way][1] > 2 && read[way][2] > 2);
    et_params_free(params);
}

static void test_checkpoint_weights__average(void **state)
{
    const char *directory = in(state, "average");
    SAVE(directory, 1, 2, 6);
    char paths[3][700];
    static const int steps[] = { 1, 2, 6 };
    for (int i = 0; i < 3; i++)
        snprintf(paths[i], sizeof paths[i], "%s/checkpoints/ckpt-%d.safetensors", directory,
                 steps[i]);
    const char *list[] = { paths[0], paths[1], paths[2] };
    const char *out = below(directory, "average.safetensors");
    assert_ok(et_checkpoint_average(list, 3, true, out, NULL, error));

    et_safetensors *file;
    assert_ok(et_safetensors_open(&file, out, error));
    assert_int_equal(et_safetensors_count(file), 1);
    et_safetensors_close(file);
    et_params *params = toy_params(TOY_ROWS);
    et_checkpoint_facts facts = { 0 };
    int64_t step;
    assert_ok(et_checkpoint_load_weights(params, out, true, &facts, error));
    assert_int_equal(facts.step, 6);
    toy t = toy_new(0);
    toy_attach(&t);
    for (int i = 0; i < TOY_SIZE; i++) {
        double sum = 0;
        for (int f = 0; f < 3; f++)
            sum += (float)steps[f] + (float)i * 0.37f;
        assert_true(et_params_values(params)[i] == (float)(sum / 3));
    }
    /* The file has no state to resume from. */
    assert_fails(et_checkpoint_restore_file(t.state, out, ET_RESTORE_STRICT, &step, error),
                 ET_ECONFIG, ": belongs to another model: it has no optimizer/m/w");
    /* The averages, if the checkpoints have them. */
    bool averages = false;
    assert_ok(et_checkpoint_average(list, 3, false, out, &averages, error));
    assert_true(averages);
    assert_ok(et_checkpoint_load_weights(params, out, true, NULL, error));
    for (int i = 0; i < TOY_SIZE; i++) {
        double sum = 0;
        for (int f = 0; f < 3; f++)
            sum += 1 / (1 + ((float)steps[f] + (float)i * 0.37f));
        assert_true(et_params_values(params)[i] == (float)(sum / 3));
    }
    /* Never of both kinds: this result has none. */
    const char *mixed[] = { paths[0], out };
    const char *both = below(directory, "both.safetensors");
    assert_fails(et_checkpoint_average(mixed, 2, false, both, NULL, error), ET_ECONFIG,
                 "--live-weights");
    assert_ok(et_checkpoint_average(mixed, 2, true, both, &averages, error));
    assert_false(averages);
    list[1] = "no-such-file";
    assert_fails(et_checkpoint_average(list, 3, true, out, NULL, error), ET_ENOTFOUND,
                 "no-such-file");
    et_params_free(params);
    toy_free(&t);
}

static void test_checkpoint_weights__average_of_other_models(void **state)
{
    const char *directory = in(state, "mixed");
    SAVE(directory, 1);
    float data[6] = { 0 };
    et_safetensors_item item = { "w", { data, ET_F32, et_shape_2(2, 3) } };
    et_arena arena = ET_ARENA_INIT;
    et_value *metadata = et_value_dict(&arena);
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STEP, "3");
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STATE, "{}");
    et_safetensors_written written;
    char other[700], out[700];
    snprintf(other, sizeof other, "%s/other.safetensors", directory);
    snprintf(out, sizeof out, "%s/out.safetensors", directory);
    assert_ok(et_safetensors_write(&written, other, &item, 1, metadata, error));
    const char *list[] = { below(directory, "checkpoints/ckpt-1.safetensors"), other };
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_ECONFIG,
                 "w is float32 [2, 3] in the file");
    item.name = "x";
    assert_ok(et_safetensors_write(&written, other, &item, 1, metadata, error));
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_ECONFIG,
                 ": belongs to another model: it has no w");
    /* Sound safetensors, but no checkpoint. */
    assert_ok(et_safetensors_write(&written, other, &item, 1, NULL, error));
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_EFORMAT,
                 "not a checkpoint");
    et_value_set_string(metadata, ET_CHECKPOINT_KEY_STEP, "3x");
    assert_ok(et_safetensors_write(&written, other, &item, 1, metadata, error));
    assert_fails(et_checkpoint_average(list, 2, true, out, NULL, error), ET_EFORMAT,
                 "its step is '3x'");
    et_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint_weights__load_weights),
        cmocka_unit_test(test_checkpoint_weights__mapped),
        cmocka_unit_test(test_checkpoint_weights__read_beside_a_save),
        cmocka_unit_test(test_checkpoint_weights__average),
        cmocka_unit_test(test_checkpoint_weights__average_of_other_models),
    };
    et_log_set(keep_warning, NULL);
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
