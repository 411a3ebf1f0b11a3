/* TFSnippet, tests/dataflows/test_iterator_flow.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "references/tfsnippet/dataflow.h"

/* Two flows side by side. */
typedef struct zip {
    et_source *source[2];
    et_batch *batch[2];
} zip;

static int zip_begin(void *payload, int64_t epoch, et_error *error)
{
    zip *self = payload;
    int status = et_source_rewind(self->source[0], error);
    (void)epoch;
    return status ? status : et_source_rewind(self->source[1], error);
}

static int zip_next(void *payload, et_batch *batch, et_error *error)
{
    zip *self = payload;
    for (int i = 0; i < 2; i++) {
        int status = et_source_next(self->source[i], self->batch[i], error);
        if (status)
            return status;
        batch->filled[0] = self->batch[i]->filled[0];
        memcpy(batch->data[i], self->batch[i]->data[0], (size_t)batch->filled[0] * sizeof(int32_t));
    }
    return ET_OK;
}

static void test_iterator_flow__iterator_factory(void **state)
{
    (void)state;
    const et_layout_field fields[] = { { .name = "x", .dtype = ET_I32 },
                                       { .name = "y", .dtype = ET_I32 } };
    const et_layout layout = {
        .kinds = 1, .fields = 2, .kind = { "row" }, .capacity = { 3 }, .field = fields
    };
    zip flows = { .source = { range_flow(0, 5, 3), range_flow(5, 5, 3) } };
    const et_factory factory = { .payload = &flows, .begin = zip_begin, .next = zip_next };
    et_source *source;
    for (int i = 0; i < 2; i++)
        flows.batch[i] = batch_of(flows.source[i]);
    assert_ok(et_factory_open(&source, &layout, &factory, false, error));
    et_batch *batch = batch_of(source);
    for (int pass = 0; pass < 2; pass++) {
        assert_next(source, batch, 0, arange(0), 3);
        assert_field(batch, 1, arange(5), 3);
        assert_next(source, batch, 0, arange(3), 2);
        assert_field(batch, 1, arange(8), 2);
        take(source, batch, 0);
        assert_ok(et_source_rewind(source, error));
    }
    et_batch_free(batch);
    et_source_close(source);
    for (int i = 0; i < 2; i++) {
        et_batch_free(flows.batch[i]);
        et_source_close(flows.source[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iterator_flow__iterator_factory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
