/* Beginnings of passes: every kind of source goes back to the beginning of its data, or to that of
 * the next pass, from any position, also behind decorators and if it was read before. */
#include "data/flows_fixture.h"

#include "data/batches/source.h"

enum { ROWS = 10, SIZE = 4, PASS = 3, PASSES = 4 };

/* ---- a program's own class, without rewind: 0, 1, ... 9, in passes without end ---- */

typedef struct own {
    et_source source;
    int64_t at;
} own;

static int own_next(et_source *self, et_batch *batch, et_error *e)
{
    own *o = (own *)(void *)self;
    (void)e;
    et_batch_clear(batch);
    batch->epoch = o->at / PASS;
    for (int64_t i = o->at % PASS * SIZE; i < ROWS && batch->filled[0] < SIZE; i++)
        ((int32_t *)batch->data[0])[batch->filled[0]++] = (int32_t)i;
    et_batch_finish(batch);
    o->at++;
    return ET_OK;
}

static void own_position(const et_source *self, et_position *position)
{
    et_position_put(position, "at", ((const own *)(const void *)self)->at);
}

static int own_seek(et_source *self, const et_position *position, et_error *e)
{
    return et_position_get(position, "at", &((own *)(void *)self)->at, e);
}

static void own_close(et_source *self)
{
    free(self);
}

static et_source *open_own(void)
{
    static const et_source_class class = { .name = "own",
                                           .next = own_next,
                                           .position = own_position,
                                           .seek = own_seek,
                                           .close = own_close };
    static const et_layout_field field = { .name = "n", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    own *o = calloc(1, sizeof *o);
    o->source.class = &class;
    o->source.layout = (et_layout){
        .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { SIZE }, .field = &field
    };
    return &o->source;
}

/* ---- an iterator ---- */

typedef struct iterator {
    int64_t epoch, at;
    int begun;
} iterator;

static int iterator_begin(void *payload, int64_t epoch, et_error *e)
{
    iterator *self = payload;
    (void)e;
    self->epoch = epoch;
    self->at = 0;
    self->begun++;
    return ET_OK;
}

static int iterator_next(void *payload, et_batch *batch, et_error *e)
{
    iterator *self = payload;
    (void)e;
    for (; self->at < ROWS && batch->filled[0] < SIZE; self->at++)
        ((int32_t *)batch->data[0])[batch->filled[0]++] = (int32_t)(100 * self->epoch + self->at);
    return ET_OK;
}

static et_source *open_iterator(iterator *self, bool repeat)
{
    const et_layout_field field = { .name = "n", .dtype = ET_I32, .empty = ET_EMPTY_NONE };
    const et_layout layout = {
        .kinds = 1, .fields = 1, .kind = { "row" }, .capacity = { SIZE }, .field = &field
    };
    const et_factory factory = { .payload = self, .begin = iterator_begin, .next = iterator_next };
    et_source *source;
    assert_ok(et_factory_open(&source, &layout, &factory, repeat, error));
    return source;
}

/* ---- kinds ---- */

enum { BATCHES, FACTORY, OWN, MAPPED, SELECTED, AHEAD, NUMBERED, GATHERED, DEEP, KINDS };

static int keep(void *payload, et_batch *batch, et_error *e)
{
    (void)payload, (void)batch, (void)e;
    return ET_OK;
}

static et_source *open_kind(int kind, bool repeat, iterator *made)
{
    static const char *const names[] = { "n" };
    const et_batches_options options = {
        .seed = 3, .shuffle = true, .repeat = repeat, .capacity = { SIZE }
    };
    et_source *source = NULL, *parts[2];
    if (kind == FACTORY || kind == OWN)
        return kind == OWN ? open_own() : open_iterator(made, repeat);
    source = batches_of(open_named("n", ROWS), options);
    if (kind == MAPPED || kind == DEEP)
        assert_ok(et_map_open(&source, source, keep, NULL, error));
    if (kind == SELECTED || kind == DEEP)
        assert_ok(et_select_open(&source, source, names, 1, error));
    if (kind == NUMBERED || kind == DEEP)
        assert_ok(et_numbered_open(&source, source, 5, 2, error));
    if (kind == GATHERED || kind == DEEP) {
        parts[0] = source;
        parts[1] = batches_of(open_halves("x", ROWS), options);
        assert_ok(et_gather_sources_open(&source, parts, 2, error));
    }
    if (kind == AHEAD || kind == DEEP)
        assert_ok(et_prefetch_open(&source, source, 2, error));
    return source;
}

/* All passes of a fresh source, [PASSES, ROWS]; of one that ends, the only one again and again. */
static void read_all(int kind, bool repeat, int32_t passes[PASSES][ROWS])
{
    iterator made = { .at = 0 };
    et_source *source = open_kind(kind, repeat, &made);
    et_batch *batch = batch_of(source);
    for (int p = 0; p < PASSES; p++)
        for (int b = 0, rows = 0; b < PASS; b++) {
            if (!repeat && p) {
                memcpy(passes[p], passes[0], sizeof passes[p]);
                continue;
            }
            next(source, batch);
            memcpy(passes[p] + rows, field_of(batch, "n"),
                   (size_t)batch->filled[0] * sizeof(int32_t));
            rows += (int)batch->filled[0];
        }
    et_batch_free(batch);
    et_source_close(source);
}

static void check_pass(et_source *source, et_batch *batch, const int32_t expected[ROWS],
                       int batches)
{
    for (int b = 0, rows = 0; b < batches; b++) {
        next(source, batch);
        assert_memory_equal(field_of(batch, "n"), expected + rows,
                            (size_t)batch->filled[0] * sizeof(int32_t));
        rows += (int)batch->filled[0];
    }
}

/* After any number of batches: rewind gives the first pass, begin the next one that is whole. */
static void test_passes__begin_at_the_beginning(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * KINDS; i++) {
        const int kind = i / 2;
        const bool repeat = i % 2;
        int32_t passes[PASSES][ROWS];
        if (kind == OWN && !repeat)
            continue;
        read_all(kind, repeat, passes);
        for (int read = 0; read <= 2 * PASS; read++) {
            iterator made = { .at = 0 };
            et_source *source = open_kind(kind, repeat, &made);
            et_batch *batch = batch_of(source);
            for (int b = 0; b < read; b++)
                next(source, batch);
            const int pass = kind == OWN ? 0 : (read + PASS - 1) / PASS;
            assert_ok(et_source_begin(source, "a reader", error));
            check_pass(source, batch, passes[pass], PASS);
            et_source_end(source);
            assert_ok(et_source_rewind(source, error));
            check_pass(source, batch, passes[0], 2);
            assert_ok(et_source_rewind(source, error));
            check_pass(source, batch, passes[0], PASS);
            et_batch_free(batch);
            et_source_close(source);
        }
    }
}

/* A decorator around a source that was read goes back to what was read, too. */
static void test_passes__read_before(void **state)
{
    (void)state;
    int32_t passes[PASSES][ROWS];
    read_all(BATCHES, true, passes);
    et_source *source = open_kind(BATCHES, true, NULL);
    et_batch *batch = batch_of(source);
    check_pass(source, batch, passes[0], 2);
    assert_ok(et_map_open(&source, source, keep, NULL, error));
    assert_ok(et_prefetch_open(&source, source, 1, error));
    assert_ok(et_source_rewind(source, error));
    check_pass(source, batch, passes[0], 3);
    et_batch_free(batch);
    et_source_close(source);
}

/* An iterator that has given nothing is not made again. */
static void test_passes__iterators(void **state)
{
    (void)state;
    iterator made = { .at = 0 };
    et_source *source = open_iterator(&made, false);
    assert_ok(et_prefetch_open(&source, source, 2, error));
    et_batch *batch = batch_of(source);
    for (int i = 0; i < 3; i++)
        assert_ok(et_source_rewind(source, error));
    assert_ok(et_source_begin(source, "a reader", error));
    et_source_end(source);
    next(source, batch);
    assert_int_equal(made.begun, 1);
    assert_ok(et_source_rewind(source, error));
    next(source, batch);
    assert_int_equal(made.begun, 2);
    et_batch_free(batch);
    et_source_close(source);
}

static void test_passes__one_reader(void **state)
{
    (void)state;
    et_source *source = open_kind(AHEAD, false, NULL);
    et_samples *cached;
    assert_ok(et_source_begin(source, "the training", error));
    assert_fails(et_source_begin(source, "the test", error), ET_EUSAGE,
                 "the test cannot begin a pass of this source, because a pass of the training is "
                 "open");
    assert_fails(et_source_begin(source, NULL, error), ET_EUSAGE, "a reader cannot");
    assert_fails(et_cache_open(&cached, source, error), ET_EUSAGE, "a cache cannot");
    et_source_end(source);
    et_source_end(source);
    assert_ok(et_source_begin(source, "the test", error));
    et_source_end(source);
    assert_ok(et_cache_open(&cached, source, error));
    assert_int_equal(cached->count, ROWS);
    et_samples_close(cached);
    et_source_close(source);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_passes__begin_at_the_beginning),
        cmocka_unit_test(test_passes__read_before),
        cmocka_unit_test(test_passes__iterators),
        cmocka_unit_test(test_passes__one_reader),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
