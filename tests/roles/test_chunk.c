/* Messages in pieces and back: all sizes around a piece's, several connections at a time, pieces
 * that are lost, come twice or belong to no message, messages that are too large, more connections
 * than places; noise. Each piece has a block of its own size, so that the sanitizers find reads
 * beyond it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "roles/chance.h"
#include "roles/wire/message.h"

enum { LARGEST = 200000, PIECES = 16, MOST = ET_CHUNK - ET_CHUNK_HEAD };

typedef struct chunks {
    unsigned char *data[PIECES];
    size_t size[PIECES];
    int count;
} chunks;

static unsigned char bytes[LARGEST + 1];

static void fill(void)
{
    uint64_t state = 1;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)chance_draw(&state);
}

static et_message message_of(size_t size, int64_t number)
{
    return (et_message){
        .kind = ET_MESSAGE_PUSH, .from = 2, .number = number, .bytes = bytes, .size = size
    };
}

static chunks cut(size_t size, uint64_t number)
{
    chunks p = { .count = 0 };
    et_chunking cutting;
    et_message message = message_of(size, (int64_t)number);
    et_chunking_begin(&cutting, &message, number);
    for (size_t next; (next = et_chunking_next(&cutting)) && p.count < PIECES; p.count++) {
        assert_true(next <= ET_CHUNK);
        p.data[p.count] = malloc(next);
        p.size[p.count] = next;
        et_chunking_write(&cutting, p.data[p.count]);
    }
    assert_int_equal(et_chunking_next(&cutting), 0);
    return p;
}

static void release(chunks *p)
{
    for (int i = 0; i < p->count; i++)
        free(p->data[i]);
}

/* The number of the message that is whole with a piece; 0: none is; -1: it is no piece of one. */
static int64_t give(et_assembly *assembly, uint64_t connection, const chunks *p, int i)
{
    const unsigned char *data;
    size_t size;
    et_message message;
    et_chunk_state what =
        et_assembly_take(assembly, connection, p->data[i], p->size[i], &data, &size);
    if (what != ET_CHUNK_LAST)
        return what == ET_CHUNK_WRONG ? -1 : 0;
    assert_true(et_message_read(&message, data, size));
    assert_memory_equal(message.bytes, bytes, message.size);
    return message.number;
}

static et_assembly opened(int places)
{
    et_assembly assembly;
    et_error error = ET_ERROR_INIT;
    fill();
    assert_int_equal(et_assembly_open(&assembly, places, LARGEST, &error), 0);
    return assembly;
}

static void test_chunk__sizes(void **state)
{
    (void)state;
    const size_t around[] = { 0, MOST - ET_MESSAGE_HEADER, MOST, 2 * MOST - ET_MESSAGE_HEADER };
    et_assembly assembly = opened(1);
    for (size_t k = 0; k < 4; k++)
        for (size_t size = around[k] < 2 ? 0 : around[k] - 2; size < around[k] + 3; size++) {
            chunks p = cut(size, size + 1);
            assert_int_equal(p.count, et_chunk_count(size));
            for (int i = 0; i < p.count; i++)
                assert_int_equal(give(&assembly, 3, &p, i),
                                 i + 1 < p.count ? 0 : (int64_t)size + 1);
            release(&p);
        }
    et_assembly_release(&assembly);
}

static void test_chunk__several(void **state)
{
    (void)state;
    et_assembly assembly = opened(3);
    chunks a = cut(LARGEST, 1), b = cut(LARGEST, 1), c = cut(5, 2);
    for (int i = 0; i < a.count; i++) {
        assert_int_equal(give(&assembly, 1, &a, i), i + 1 == a.count);
        assert_int_equal(give(&assembly, 2, &b, i), i + 1 == b.count);
        assert_int_equal(give(&assembly, 1, &c, 0), 2); /* a message of one piece needs no place */
    }
    release(&a), release(&b), release(&c);
    et_assembly_release(&assembly);
}

static void test_chunk__lost(void **state)
{
    (void)state;
    et_assembly assembly = opened(2);
    chunks a = cut(LARGEST, 1), b = cut(LARGEST, 2);
    for (int without = 0; without < a.count; without++) {
        for (int i = 0; i < a.count; i++)
            assert_int_equal(i == without ? 0 : give(&assembly, 1, &a, i), 0);
        for (int i = 0; i < b.count; i++) {
            assert_int_equal(give(&assembly, 1, &b, i), i + 1 < b.count ? 0 : 2);
            /* Once more; of another message; of a connection that has begun nothing. */
            if (i) {
                assert_int_equal(give(&assembly, 1, &b, i), 0);
                assert_int_equal(give(&assembly, 1, &a, i), 0);
                assert_int_equal(give(&assembly, 7, &b, i), 0);
            }
        }
    }
    /* It begins again in the middle. */
    for (int i = 0; i < 3; i++)
        assert_int_equal(give(&assembly, 1, &a, i), 0);
    for (int i = 0; i < a.count; i++)
        assert_int_equal(give(&assembly, 1, &a, i), i + 1 == a.count);
    release(&a), release(&b);
    et_assembly_release(&assembly);
}

static void test_chunk__too_large(void **state)
{
    (void)state;
    et_assembly assembly = opened(1);
    chunks a = cut(LARGEST + 1, 1), b = cut(LARGEST, 2);
    for (int i = 0; i < a.count; i++)
        assert_int_equal(give(&assembly, 1, &a, i), -1);
    assert_int_equal(assembly.buffer[0].space, 0); /* no memory for it */
    for (int i = 0; i < b.count; i++)
        assert_int_equal(give(&assembly, 1, &b, i), i + 1 < b.count ? 0 : 2);
    release(&a), release(&b);
    et_assembly_release(&assembly);
}

/* Messages that are begun and abandoned do not delay one that continues. */
static void test_chunk__places(void **state)
{
    (void)state;
    enum { PLACES = 4 };
    et_assembly assembly = opened(PLACES);
    chunks a = cut(LARGEST, 1);
    for (int i = 0; i < a.count; i++) {
        assert_int_equal(give(&assembly, 1, &a, i), i + 1 == a.count);
        for (uint64_t other = 0; other < PLACES - 1; other++)
            assert_int_equal(give(&assembly, 100 + PLACES * (uint64_t)i + other, &a, 0), 0);
    }
    size_t space = 0;
    for (int i = 0; i < PLACES; i++)
        space += assembly.buffer[i].space;
    assert_true(space <= (size_t)PLACES * (ET_MESSAGE_HEADER + LARGEST));
    release(&a);
    et_assembly_release(&assembly);
}

/* Heads that say anything, sizes that fit nothing. */
static void test_chunk__noise(void **state)
{
    (void)state;
    et_assembly assembly = opened(3);
    const uint64_t say[] = { 0, 1, 87, 88, 89, 500, 1000, LARGEST + ET_MESSAGE_HEADER, UINT64_MAX };
    uint64_t random = 5;
    for (int i = 0; i < 200000; i++) {
        size_t room =
            chance_draw(&random) % 4 ? 24 + chance_draw(&random) % 600 : chance_draw(&random) % 30;
        uint64_t head[3] = { chance_draw(&random) % 2, say[chance_draw(&random) % 9],
                             say[chance_draw(&random) % 9] };
        unsigned char *chunk = malloc(room + !room);
        const unsigned char *data;
        size_t size;
        memset(chunk, 1, room);
        memcpy(chunk, head, room < sizeof head ? room : sizeof head);
        if (et_assembly_take(&assembly, chance_draw(&random) % 5, chunk, room, &data, &size) ==
            ET_CHUNK_LAST) {
            assert_true(size >= ET_MESSAGE_HEADER && size <= ET_MESSAGE_HEADER + LARGEST);
            for (size_t k = 0; k < size; k++)
                assert_int_equal(data[k], 1);
        }
        free(chunk);
    }
    et_assembly_release(&assembly);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunk__sizes),  cmocka_unit_test(test_chunk__several),
        cmocka_unit_test(test_chunk__lost),   cmocka_unit_test(test_chunk__too_large),
        cmocka_unit_test(test_chunk__places), cmocka_unit_test(test_chunk__noise),
    };
    return cmocka_run_group_tests_name("chunk", tests, NULL, NULL);
}
