/* Shared code of the tests of checkpoints: steps of the small state of train.h that are saved in a
 * directory and read back, the library's warnings meanwhile, and damage. Include after cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_SAVED_H
#define ETUDE_TESTS_TRAIN_SAVED_H

#include <dirent.h>

#include <etude/log.h>

#include "train/checkpoint/checkpoint.h"
#include "train/train.h"

/* The library's warnings since the last check. */
static char warnings[8192];

static inline void keep_warning(void *payload, et_log_level level, const char *text)
{
    (void)payload;
    if (level >= ET_LOG_WARNING) {
        size_t used = strlen(warnings);
        snprintf(warnings + used, sizeof warnings - used, "%s\n", text);
    }
}

static const et_checkpoint_options defaults = { 0 };

static inline et_checkpoints *open_at(const char *directory, toy *t)
{
    et_checkpoints *checkpoints;
    assert_ok(et_checkpoints_open(&checkpoints, directory, t->state, &defaults, error));
    return checkpoints;
}

/* Resumes from the checkpoints of an earlier opening. */
static inline et_checkpoints *resume_at(const char *directory, toy *t)
{
    int64_t step;
    et_checkpoints *checkpoints = open_at(directory, t);
    assert_ok(et_checkpoints_restore(checkpoints, &step, error));
    return checkpoints;
}

/* Saves these steps one after another, in addition to the existing ones. */
static inline void save_steps(const char *directory, const int64_t *steps, size_t count)
{
    toy t = toy_new(0);
    toy_attach(&t);
    et_checkpoints *checkpoints = resume_at(directory, &t);
    for (size_t i = 0; i < count; i++) {
        et_checkpoints_wait_read(checkpoints);
        toy_set(&t, steps[i]);
        assert_ok(et_checkpoints_save(checkpoints, steps[i], error));
    }
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
}

#define SAVE(directory, ...)                                                                       \
    save_steps(directory, (const int64_t[]){ __VA_ARGS__ },                                        \
               sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))

/* Restores into a fresh state and returns its step. */
static inline int64_t restored_step(const char *directory)
{
    toy t = toy_new(999);
    toy_attach(&t);
    et_checkpoints *checkpoints = open_at(directory, &t);
    int64_t step;
    warnings[0] = '\0';
    assert_ok(et_checkpoints_restore(checkpoints, &step, error));
    assert_true(toy_is(&t, step < 0 ? 999 : step));
    assert_int_equal(t.restored, step >= 0);
    assert_int_equal(et_checkpoints_newest_step(checkpoints), step);
    assert_ok(et_checkpoints_close(checkpoints, error));
    toy_free(&t);
    return step;
}

/* Names in a directory, sorted, with a space after each. */
static inline const char *names_in(const char *directory)
{
    static char text[2048];
    struct dirent **items;
    int count = scandir(directory, &items, NULL, alphasort);
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        if (items[i]->d_name[0] != '.') {
            strcat(text, items[i]->d_name);
            strcat(text, " ");
        }
        free(items[i]);
    }
    if (count >= 0)
        free(items);
    return text;
}

static inline void flip_bit(const char *path, double where)
{
    size_t length;
    char *bytes = get_file(path, &length);
    bytes[(size_t)((double)length * where)] ^= 4;
    put_file(path, bytes, length);
    free(bytes);
}

static inline void cut_file(const char *path, double where)
{
    size_t length;
    char *bytes = get_file(path, &length);
    put_file(path, bytes, (size_t)((double)length * where));
    free(bytes);
}

#endif
