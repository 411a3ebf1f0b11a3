/* Data flows: the program chooses and mixes samples, changes the batches of sources, and makes a
 * source of its own.
 *
 *     cc flows.c -o flows $(pkg-config --cflags --libs etude)
 *     ./flows
 *
 * prints the batches of each. */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 4, ROWS = 10 };

/* Prints the batches of one pass, and closes the source. opened: the status of opening it. */
static int show(const char *title, int opened, et_source *source, et_error *error)
{
    if (opened)
        return opened;
    et_batch *batch;
    int64_t count;
    int status = et_batch_new(&batch, &source->layout, error);
    if (!status)
        status = et_source_batches(source, &count, error);
    if (!status)
        printf("%s: %d batches\n", title, (int)count);

    while (!status && !(status = et_source_next(source, batch, error)) && batch->filled[0]) {
        for (int f = 0; f < batch->layout->fields; f++) {
            const et_layout_field *field = &batch->layout->field[f];
            et_shape shape = et_layout_shape(batch->layout, f);
            int64_t width = et_shape_count(shape) / shape.size[0];
            printf("  %s", field->name);
            for (int64_t i = 0; i < batch->filled[0] * width; i++)
                printf(" %g", field->dtype == ET_I32 ? ((const int32_t *)batch->data[f])[i]
                                                     : ((const float *)batch->data[f])[i]);
        }
        printf("\n");
    }
    et_batch_free(batch);
    et_source_close(source);
    return status;
}

static int batches(et_source **out, et_samples *samples, et_error *error)
{
    const et_batches_options options = { .capacity = { BATCH } };
    int status = et_batches_open(out, samples, &options, error);
    if (status)
        et_samples_close(samples);
    return status;
}

/* ---- samples ---- */

static bool is_odd(void *payload, const et_batch *batch, int64_t i)
{
    (void)payload;
    return ((const int32_t *)batch->data[0])[i] % 2;
}

/* The odd numbers below 20; of these the first five, and two by their places, one to two. */
static int choose(et_error *error)
{
    static const uint32_t places[] = { 8, 9 };
    static const double weights[] = { 1, 2 };
    et_samples *parts[2] = { NULL }, *mixed = NULL;
    int status = ET_OK;
    for (int i = 0; i < 2 && !status; i++) {
        status = et_sequence_open(&parts[i], "n", 0, 20, 1, error);
        if (!status)
            status = et_filter_open(&parts[i], parts[i], is_odd, NULL, error);
    }
    if (!status)
        status = et_take_open(&parts[0], parts[0], 5, error);
    if (!status)
        status = et_subset_open(&parts[1], parts[1], places, 2, error);
    if (!status)
        status = et_mix_open(&mixed, parts, weights, 2, 1, error);
    if (status) {
        et_samples_close(parts[0]);
        et_samples_close(parts[1]);
        return status;
    }

    et_source *source = NULL;
    status = batches(&source, mixed, error);
    return show("chosen", status, source, error);
}

/* Two numbers side by side, kept in memory, where the program can read them. */
static int remember(et_error *error)
{
    et_samples *parts[2] = { NULL }, *both = NULL, *kept = NULL;
    et_source *source = NULL;
    int status = et_sequence_open(&parts[0], "n", 0, ROWS, 1, error);
    if (!status)
        status = et_sequence_open(&parts[1], "back", ROWS, 0, -1, error);
    if (!status)
        status = et_gather_open(&both, parts, 2, error);
    if (status) {
        et_samples_close(parts[0]);
        et_samples_close(parts[1]);
        return status;
    }

    status = batches(&source, both, error);
    if (!status)
        status = et_cache_open(&kept, source, error);
    et_source_close(source); /* its pass is in memory */
    if (!status) {
        const int32_t *back = et_samples_array(kept, "back").data;
        printf("kept: n 3 is beside back %d\n", back[3]);
    }
    et_samples_close(kept);
    return status;
}

/* ---- sources ---- */

/* Made from a batch: the square of n. */
static int square(void *payload, const et_batch *from, et_batch *to, et_error *error)
{
    const int32_t *n = from->data[et_layout_find(from->layout, "n")];
    float *squares = to->data[et_layout_find(to->layout, "square")];
    for (int64_t i = 0; i < from->filled[0]; i++)
        squares[i] = (float)n[i] * (float)n[i];
    (void)payload;
    (void)error;
    return ET_OK;
}

/* The squares of half of the numbers, with noise, beside the other half's numbers. */
static int change(et_error *error)
{
    const et_split_options half = { .portion = 0.5, .no_shuffle = true };
    const et_layout_field made = { .name = "square", .dtype = ET_F32 };
    static const char *const names[] = { "square" };
    int32_t numbers[ROWS];
    for (int32_t i = 0; i < ROWS; i++)
        numbers[i] = i;
    const et_array array = { "n", ET_I32, numbers, et_shape_scalar() };

    int64_t second;
    et_samples *parts[2] = { NULL };
    et_source *sources[2] = { NULL }, *both = NULL;
    int status = et_split_size(&second, ROWS, &half, error);
    if (!status)
        status = et_split_open(&parts[0], &parts[1], &array, 1, ROWS, &half, error);
    if (!status)
        printf("split: %d and %d\n", (int)(ROWS - second), (int)second);
    if (!status)
        status = batches(&sources[0], parts[0], error);
    if (!status)
        status = batches(&sources[1], parts[1], error);

    if (!status)
        status = et_convert_open(&sources[0], sources[0], &made, 1, square, NULL, error);
    if (!status)
        status = et_select_open(&sources[0], sources[0], names, 1, error);
    if (!status)
        status = et_noise_open(&sources[0], sources[0], "square", 0, 0.125f, 1, error);
    if (!status)
        status = et_gather_sources_open(&both, sources, 2, error);
    if (status) {
        et_source_close(sources[0]);
        et_source_close(sources[1]);
        return status;
    }
    return show("changed", status, both, error);
}

/* ---- made batch by batch ---- */

static int begin(void *payload, int64_t epoch, et_error *error)
{
    *(int *)payload = 0;
    (void)epoch;
    (void)error;
    return ET_OK;
}

static int next(void *payload, et_batch *batch, et_error *error)
{
    int *made = payload;
    if (*made < 2) {
        ((int32_t *)batch->data[0])[0] = 100 + *made;
        batch->filled[0] = 1;
    }
    (*made)++;
    (void)error;
    return ET_OK;
}

static int make(et_error *error)
{
    int made = 0;
    const et_layout_field field = { .name = "n", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    const et_layout layout = {
        .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { BATCH }, .field = &field
    };
    const et_factory factory = { .payload = &made, .begin = begin, .next = next };
    et_source *source;
    int status = et_factory_open(&source, &layout, &factory, false, error);
    return show("made", status, source, error);
}

/* ---- a source of the program's own: Fibonacci's numbers ---- */

typedef struct fibonacci {
    et_source source; /* first */
    int64_t a, b, left;
} fibonacci;

static int fibonacci_next(et_source *self, et_batch *batch, et_error *error)
{
    fibonacci *f = (fibonacci *)self;
    et_batch_clear(batch);
    while (f->left > 0 && batch->filled[0] < BATCH) {
        ((int32_t *)batch->data[0])[batch->filled[0]++] = (int32_t)f->a;
        int64_t sum = f->a + f->b;
        f->a = f->b;
        f->b = sum;
        f->left--;
    }
    et_batch_finish(batch); /* the rest is empty */
    (void)error;
    return ET_OK;
}

static void fibonacci_position(const et_source *self, et_position *position)
{
    const fibonacci *f = (const fibonacci *)self;
    et_position_put(position, "a", f->a);
    et_position_put(position, "b", f->b);
    et_position_put(position, "left", f->left);
}

static int fibonacci_seek(et_source *self, const et_position *position, et_error *error)
{
    fibonacci *f = (fibonacci *)self;
    int status = et_position_get(position, "a", &f->a, error);
    if (!status)
        status = et_position_get(position, "b", &f->b, error);
    if (!status)
        status = et_position_get(position, "left", &f->left, error);
    return status;
}

static void fibonacci_close(et_source *self)
{
    free(self);
}

static const et_source_class fibonacci_class = {
    .name = "fibonacci",
    .next = fibonacci_next,
    .position = fibonacci_position,
    .seek = fibonacci_seek,
    .close = fibonacci_close,
};

static int own(et_error *error)
{
    static const et_layout_field field = { .name = "n", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    fibonacci *f = calloc(1, sizeof *f);
    if (!f)
        return et_fail(error, ET_ENOMEM, "no memory for a source");
    *f = (fibonacci){ .source = { .class = &fibonacci_class,
                                  .layout = { .kinds = 1,
                                              .fields = 1,
                                              .kind = { "number" },
                                              .capacity = { BATCH },
                                              .field = &field } },
                      .b = 1,
                      .left = ROWS };

    /* One batch is read, and the source is put back to where it was before. */
    et_position start = { 0 };
    et_batch *batch;
    int status = et_batch_new(&batch, &f->source.layout, error);
    et_source_position(&f->source, &start);
    if (!status)
        status = et_source_next(&f->source, batch, error);
    if (!status)
        status = et_source_seek(&f->source, &start, error);
    et_batch_free(batch);
    if (status)
        et_source_close(&f->source);
    return show("own", status, &f->source, error);
}

int main(void)
{
    et_error error = ET_ERROR_INIT;
    et_log_to_stderr();
    int status = choose(&error);
    if (!status)
        status = remember(&error);
    if (!status)
        status = change(&error);
    if (!status)
        status = make(&error);
    if (!status)
        status = own(&error);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    return status ? 1 : 0;
}
