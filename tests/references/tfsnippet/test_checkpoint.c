/* TFSnippet, tests/scaffold/test_checkpoint.py. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include <etude/annealing.h>
#include <etude/checkpoint.h>

#include "formats/files.h"

/* An object with one value or two. */
typedef struct object {
    int64_t value, value2; /* 0: it does not have it */
} object;

static int save(const void *self, et_value *dict, et_error *error)
{
    const object *o = self;
    (void)error;
    return !et_value_set_int(dict, "value", o->value) ||
           (o->value2 && !et_value_set_int(dict, "value2", o->value2));
}

static int restore(void *self, const et_value *dict, et_error *error)
{
    object *o = self;
    o->value2 = 0;
    if (et_value_get(dict, "value2"))
        et_value_read_int(dict, "value2", &o->value2, error);
    return et_value_read_int(dict, "value", &o->value, error);
}

static const et_part_class object_class = { "object", save, restore };

/* A saver of some variables and objects. */
typedef struct saver {
    et_state *state;
    et_checkpoints *checkpoints;
} saver;

static saver open_saver(const char *directory, float *v, float *sv, const char *name, object *obj,
                        object *obj2, bool partial)
{
    const et_checkpoint_options options = { .max_to_keep = -1, .partial = partial };
    saver s;
    assert_ok(et_state_new(&s.state, error));
    assert_ok(et_state_add_tensor(s.state, "v", v, et_shape_scalar(), error));
    if (sv)
        assert_ok(et_state_add_tensor(s.state, "sv", sv, et_shape_scalar(), error));
    assert_ok(et_state_add(s.state, name, &object_class, obj, error));
    if (obj2)
        assert_ok(et_state_add(s.state, "obj2", &object_class, obj2, error));
    assert_ok(et_checkpoints_open(&s.checkpoints, directory, s.state, &options, error));
    return s;
}

static void close_saver(saver *s)
{
    assert_ok(et_checkpoints_close(s->checkpoints, error));
    et_state_free(s->state);
}

static void assert_latest(const char *directory, const char *name)
{
    char *path;
    assert_ok(et_checkpoint_newest(&path, directory, error));
    assert_string_equal(strrchr(path, '/') + 1, name);
    et_checkpoint_free_path(path);
}

/* Saves at steps 0 to 3; the files from step `first` on stay. */
static void expect_kept(void **state, const char *name, const char *const *names, int64_t keep,
                        int first)
{
    char path[600];
    float values[3] = { 0 };
    object objects[2] = { { 123, 0 }, { 456, 0 } };
    et_state *tree;
    et_checkpoints *checkpoints;
    const et_checkpoint_options options = { .max_to_keep = keep };
    assert_ok(et_state_new(&tree, error));
    for (int i = 0; i < 3; i++)
        assert_ok(et_state_add_tensor(tree, names[i], &values[i], et_shape_scalar(), error));
    for (int i = 0; i < 2; i++)
        assert_ok(et_state_add(tree, names[3 + i], &object_class, &objects[i], error));
    assert_ok(et_checkpoints_open(&checkpoints, in(state, name), tree, &options, error));
    for (int step = 0; step < 4; step++) {
        assert_ok(et_checkpoints_save(checkpoints, step, error));
        assert_ok(et_checkpoints_wait(checkpoints, error));
    }
    for (int step = 0; step < 4; step++) {
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-%d.safetensors", in(state, name), step);
        assert_int_equal(file_is_there(path), step >= first);
    }
    assert_ok(et_checkpoints_close(checkpoints, error));
    et_state_free(tree);
}

/* Here: the name that no variable may have is the file format's, and objects have none, because
 * the saver keeps no counter of its own among them. */
static void test_checkpoint__constructor(void **state)
{
    static const char *const own[] = { "v1", "parent/v2", "sv", "obj", "obj2" };
    static const char *const given[] = { "vv1", "v22", "svv", "oobj", "obj2" };
    static const et_part_class no_class = { .name = "none" };
    float v1 = 0;
    object obj = { 123, 0 };
    et_state *tree;
    expect_kept(state, "1", own, -1, 0);
    expect_kept(state, "2", given, 3, 1);
    assert_ok(et_state_new(&tree, error));
    assert_fails(et_state_add_tensor(tree, "none", NULL, et_shape_scalar(), error), ET_EUSAGE,
                 "not an array");
    assert_fails(et_state_add(tree, "obj", &no_class, &obj, error), ET_EUSAGE,
                 "obj: this part of the state cannot save and restore");
    assert_fails(et_state_add_tensor(tree, "__metadata__", &v1, et_shape_scalar(), error),
                 ET_EUSAGE, "is reserved by the file format");
    assert_ok(et_state_add_tensor(tree, "v1", &v1, et_shape_scalar(), error));
    assert_fails(et_state_add_tensor(tree, "v1", &v1, et_shape_scalar(), error), ET_EUSAGE, "v1");
    assert_ok(et_state_add(tree, "obj", &object_class, &obj, error));
    assert_fails(et_state_add(tree, "obj", &object_class, &obj, error), ET_EUSAGE, "obj");
    et_state_free(tree);
}

/* Differs: a saver of a part of the file's state has to say so (partial), and then an object that
 * the file lacks is only a warning; without it, the saver needs all variables to name the object.
 */
static void test_checkpoint__save_restore(void **state)
{
    char directory[512];
    char *none;
    float v = 12, sv = 34;
    int64_t step;
    object obj = { 56, 0 }, obj2 = { 90, 0 };
    snprintf(directory, sizeof directory, "%s", in(state, "saves"));
    saver s = open_saver(directory, &v, &sv, "obj", &obj, &obj2, false);
    assert_fails(et_checkpoint_newest(&none, directory, error), ET_ENOTFOUND, "saves");
    assert_fails(et_checkpoints_restore_named(s.checkpoints, "newest", &step, error), ET_ENOTFOUND,
                 "saves");
    assert_ok(et_checkpoints_restore(s.checkpoints, &step, error));
    assert_int_equal(step, -1);

    assert_ok(et_checkpoints_save(s.checkpoints, 0, error));
    assert_ok(et_checkpoints_wait(s.checkpoints, error));
    assert_latest(directory, "ckpt-0.safetensors");
    v = 1212, sv = 3434;
    obj = (object){ 5656, 7878 };
    obj2.value = 9090;
    assert_ok(et_checkpoints_save(s.checkpoints, 1, error));
    assert_ok(et_checkpoints_wait(s.checkpoints, error));
    assert_latest(directory, "ckpt-1.safetensors");
    close_saver(&s);

    s = open_saver(directory, &v, &sv, "obj", &obj, &obj2, false);
    assert_latest(directory, "ckpt-1.safetensors");
    v = sv = 0;
    obj = obj2 = (object){ 0, 0 };
    assert_ok(et_checkpoints_restore(s.checkpoints, &step, error));
    assert_true(v == 1212 && sv == 3434);
    assert_true(obj.value == 5656 && obj.value2 == 7878 && obj2.value == 9090);
    assert_ok(et_checkpoints_restore_named(s.checkpoints, "ckpt-0.safetensors", &step, error));
    assert_int_equal(step, 0);
    assert_true(v == 12 && sv == 34);
    assert_true(obj.value == 56 && obj.value2 == 0 && obj2.value == 90);
    close_saver(&s);

    s = open_saver(directory, &v, NULL, "obj", &obj, NULL, true);
    assert_ok(et_checkpoints_restore(s.checkpoints, &step, error));
    assert_true(v == 1212 && sv == 34);
    assert_true(obj.value == 5656 && obj.value2 == 7878 && obj2.value == 90);
    close_saver(&s);

    s = open_saver(directory, &v, &sv, "obj3", &obj, &obj2, false);
    assert_fails(et_checkpoints_restore(s.checkpoints, &step, error), ET_ECONFIG,
                 "has no state of obj3");
    close_saver(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checkpoint__constructor),
        cmocka_unit_test(test_checkpoint__save_restore),
    };
    return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
