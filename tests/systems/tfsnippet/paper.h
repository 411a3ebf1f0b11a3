/* A sink that keeps numbers as lines "step name value". Include after cmocka.h. */
#ifndef ETUDE_TESTS_LOOP_PAPER_H
#define ETUDE_TESTS_LOOP_PAPER_H

#include <stdio.h>
#include <string.h>

#include <etude/summary.h>
#include <etude/value.h>

typedef struct paper {
    et_sink sink;
    char text[2048];
    int closed;
} paper;

static inline int paper_write(et_sink *self, int64_t step, const et_value *values, et_error *error)
{
    paper *p = (paper *)self;
    (void)error;
    for (const et_value *v = values->first; v; v = v->next) {
        size_t used = strlen(p->text);
        snprintf(p->text + used, sizeof p->text - used, "%lld %s %g\n", (long long)step, v->key,
                 v->kind == ET_VALUE_FLOAT ? v->real : -1);
    }
    return ET_OK;
}

static inline int paper_flush(et_sink *self, et_error *error)
{
    (void)self, (void)error;
    return ET_OK;
}

static inline int paper_close(et_sink *self, et_error *error)
{
    ((paper *)self)->closed++;
    (void)error;
    return ET_OK;
}

static const et_sink_class paper_class = { "paper", paper_write, paper_flush, NULL, paper_close };

#endif
