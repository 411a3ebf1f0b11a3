/* A loop over a small store and counted rows, and its printed lines. Include after cmocka.h. */
#ifndef ETUDE_TESTS_LOOP_LOOPED_H
#define ETUDE_TESTS_LOOP_LOOPED_H

#include <etude/loop_log.h>
#include <etude/optimizer.h>

#include "formats/files.h"

enum { LOOPED_ROWS = 16 };

/* Members are the test's or owned. */
typedef struct looped {
    et_params *params; /* a [2, 3] and b [4] */
    et_loop_options options;
    et_loop *loop;
    char printed[8192]; /* lines, each with its end */
} looped;

static inline void looped_print(void *payload, const char *text)
{
    char *printed = payload;
    size_t used = strlen(printed);
    snprintf(printed + used, sizeof((looped *)0)->printed - used, "%s\n", text);
}

static inline void looped_init(looped *l)
{
    const et_init ones = { ET_INIT_ONES, 0 };
    int index;
    *l = (looped){ .params = NULL };
    assert_ok(et_params_new(&l->params, error));
    assert_ok(et_params_declare(l->params, "a", et_shape_2(2, 3), ones, &index, error));
    assert_ok(et_params_declare(l->params, "b", et_shape_1(4), ones, &index, error));
    assert_ok(et_params_materialize(l->params, false, error));
    l->options.print = looped_print;
    l->options.print_payload = l->printed;
}

static inline void looped_open(looped *l)
{
    assert_ok(et_loop_open(&l->loop, l->params, &l->options, error));
}

static inline void looped_begin(looped *l)
{
    looped_open(l);
    assert_ok(et_loop_begin(l->loop, error));
}

static inline void looped_end(looped *l)
{
    assert_ok(et_loop_end(l->loop, error));
    et_loop_close(l->loop);
    l->loop = NULL;
}

static inline void looped_free(looped *l)
{
    et_loop_close(l->loop);
    et_params_free(l->params);
}

/* Rows 0 .. count - 1, one a batch: batch->data[0] is the row's number. */
static inline et_source *rows_source(int64_t count, bool repeat, bool shuffle)
{
    static const float numbers[LOOPED_ROWS] = {
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    };
    const et_array arrays[] = { { "x", ET_F32, numbers, et_shape_1(1) } };
    et_batches_options options = {
        .seed = 5, .repeat = repeat, .shuffle = shuffle, .capacity = { 1 }
    };
    et_samples *samples;
    et_source *source;
    assert_ok(et_arrays_open(&samples, arrays, 1, count, error));
    assert_ok(et_batches_open(&source, samples, &options, error));
    return source;
}

static inline double row_of(const et_loop *loop)
{
    const et_batch *batch = et_loop_step_data(loop);
    assert_non_null(batch);
    return ((const float *)batch->data[0])[0];
}

/* Sets every weight; a save in progress has read them. */
static inline void set_weights(et_params *params, double value)
{
    et_params_begin_change(params);
    for (int i = 0; i < et_params_count(params); i++)
        for (int64_t k = 0; k < et_shape_count(et_params_shape(params, i)); k++)
            et_params_values(params)[et_params_offset(params, i) + k] = (float)value;
    et_params_changed(params, true);
}

static inline double weight_of(et_params *params, const char *name)
{
    return et_params_values(params)[et_params_offset(params, et_params_find(params, name))];
}

/* Replaces times in printed lines: "time: 0.01s (±0.2s)" and "ETA 1m 2s" become "time: T (±T)" and
 * "ETA T". */
static inline void hide_times(char *text)
{
    static const char spread[] = " (±T)";
    char *to = text;
    for (const char *from = text; *from;) {
        bool timer = !strncmp(from, "time: ", 6) || !strncmp(from, "timer: ", 7);
        bool eta = !strncmp(from, "ETA ", 4);
        size_t keep = timer ? strcspn(from, " ") + 1 : eta ? 4 : 0;
        if (!keep) {
            *to++ = *from++;
            continue;
        }
        memmove(to, from, keep);
        to += keep;
        *to++ = 'T';
        from += keep;
        from += strcspn(from, timer ? "(;\n" : "]");
        if (*from == '(') {
            from += strcspn(from, ";\n");
            memcpy(to, spread, sizeof spread - 1);
            to += sizeof spread - 1;
        }
    }
    *to = 0;
}

#endif
