/* Binary files of Marian, made here: models of named items, and shortlists. Include after cmocka.h
 * and files.h. */
#ifndef ETUDE_TESTS_FORMATS_MARIAN_SAMPLES_H
#define ETUDE_TESTS_FORMATS_MARIAN_SAMPLES_H

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/marian/lexicon.h"
#include "formats/marian/marian_model.h"
#include "formats/torch_samples.h"

/* rows 0: one dimension, of columns. values: float32, of numbers; text: of bytes. With intgemm8 m
 * is the multiplier, by which values are whole numbers from -127 to 127. */
typedef struct sample_item {
    const char *name;
    uint32_t type;
    int rows, columns;
    const float *values;
    const char *text;
    float m;
} sample_item;

static inline void pad_to_line(bytes *to, size_t begin)
{
    while ((to->length - begin) % 256)
        ADD(to, "\0");
}

static inline void add_item_data(bytes *to, const sample_item *item)
{
    const int rows = item->rows ? item->rows : 1;
    const bool turned = item->rows && !strstr(item->name, "Wemb");
    const size_t begin = to->length;
    for (int i = 0; i < rows * item->columns; i++) {
        const int from = turned ? i % rows * item->columns + i / rows : i;
        if (item->text)
            add(to, item->text + i, 1);
        else if (item->type == ET_MARIAN_NUMBER_INTGEMM8)
            add_number(to, (uint64_t)(int64_t)lrintf(item->values[from] * item->m), 1);
        else
            add(to, &item->values[i], sizeof(float));
    }
    if (item->type == ET_MARIAN_NUMBER_INTGEMM8)
        add(to, &item->m, sizeof item->m);
    pad_to_line(to, begin);
}

/* Appends a model. */
static inline void add_marian_model(bytes *to, const sample_item *items, int count)
{
    static bytes data;
    const size_t begin = to->length;
    add_number(to, 1, 8);
    add_number(to, (uint64_t)count, 8);
    for (int i = 0; i < count; i++) {
        data.length = 0;
        add_item_data(&data, &items[i]);
        add_number(to, strlen(items[i].name) + 1, 8);
        add_number(to, items[i].type, 8);
        add_number(to, items[i].rows ? 2 : 1, 8);
        add_number(to, data.length, 8);
    }
    for (int i = 0; i < count; i++)
        add(to, items[i].name, strlen(items[i].name) + 1);
    for (int i = 0; i < count; i++) {
        if (items[i].rows)
            add_number(to, (uint64_t)items[i].rows, 4);
        add_number(to, (uint64_t)items[i].columns, 4);
    }
    const size_t after = to->length - begin + 8, padding = (256 - after % 256) % 256;
    add_number(to, padding, 8);
    for (size_t i = 0; i < padding; i++)
        ADD(to, "\0");
    for (int i = 0; i < count; i++)
        add_item_data(to, &items[i]);
}

/* Whether token s of the source may give token t. */
typedef bool sample_gives_fn(int s, int t);

/* A shortlist, from et_alloc. */
static inline char *make_lexicon(uint64_t first, int source, int target, sample_gives_fn *gives,
                                 size_t *length)
{
    static bytes lists, file;
    uint64_t offset = 0;
    lists.length = file.length = 0;
    add_number(&file, ET_LEXICON_MAGIC, 8);
    add_number(&file, 0, 8);
    add_number(&file, first, 8);
    add_number(&file, 50, 8);
    add_number(&file, (uint64_t)source + 1, 8);
    const size_t at = file.length;
    add_number(&file, 0, 8);
    for (int s = 0; s < source; s++) {
        add_number(&file, offset, 8);
        for (int t = 0; t < target; t++)
            if (gives(s, t)) {
                add_number(&lists, (uint64_t)t, 4);
                offset++;
            }
    }
    add_number(&file, offset, 8);
    memcpy(file.data + at, &offset, sizeof offset);
    add(&file, lists.data, lists.length);
    const uint64_t sum = et_lexicon_checksum(file.data, file.length);
    memcpy(file.data + 8, &sum, sizeof sum);
    *length = file.length;
    char *copy = et_alloc(file.length, 1);
    memcpy(copy, file.data, file.length);
    return copy;
}

#endif
