/* Places in an arena. A live range and a range of addresses make a rectangle: calls by offsets.
 * Rooms are rectangles that do not overlap, and the end of the highest is the size of the arena.
 * Finding the smallest end is NP-hard (dynamic storage allocation: Garey and Johnson 1979, problem
 * SR2). The greedy way, largest first, comes close in practice, because small rooms fit into the
 * gaps between large ones.
 *
 *     offset
 *     ^   [ B     ]
 *     |   [ A ] [ C ]        A is dead when C begins: C gets the place of A
 *     +------------------> call
 *
 * For a tenant the search needs the lowest gap between the rooms of any of its calls. Looking at
 * all placed rooms takes n^2 / 2 comparisons for n tenants, and in a deep model even the rooms of
 * one time are many: each layer keeps values for the backward pass. But they are adjacent, so a
 * given time has few used spans. A tree over calls keeps these (a segment tree: Bentley 1977,
 * "Solutions to Klee's rectangle problems"):
 *
 *     calls 0 to 7                              a room of calls 2 to 6 is in `whole` of 2-3, 4-5
 *     0 to 3           4 to 7                   and 6, and in `some` of what is above these:
 *     0-1     2-3      4-5     6-7              0-3, 6-7, 4-7, 0-7
 *     0   1   2   3    4   5   6   7
 *
 * A time is divided into such parts as well. A room of one of its calls is in `whole` of a part or
 * of a node above it, or in `some` of the part: about log2(calls) lists, most of them empty.
 *
 * Invariants:
 *
 *   1. A list's spans ascend and do not touch: touching spans are merged.
 *   2. Rooms of overlapping times do not share a byte; offsets are multiples of
 *      ET_ARENA_LAYOUT_ALIGN.
 *   3. The same tenants in the same order have the same places: those that a pass over all rooms
 *      would find (tests/engine/exec/test_arena_layout.c has it as the reference). */
#include "engine/exec/arena_layout.h"

#include <limits.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/sort.h"
#include "base/vector.h"

/* In each level of the tree, a time has at most two parts inside, one at either end, and two
 * across, which contain its ends. There are at most as many levels as an int has bits. */
#define PARTS_MAX (2 * 32)

/* Index 0 is unused, so that 0 means a list without spans. */
int et_arena_layout_init(et_arena_layout *layout, int calls, et_error *error)
{
    et_assert(calls >= 0);
    *layout = (et_arena_layout){ .leaves = 1, .used = 1 };
    while (layout->leaves < calls)
        layout->leaves *= 2;
    size_t parts = 2 * (size_t)layout->leaves;
    layout->tree = et_alloc_zero(parts, sizeof *layout->tree);
    return layout->tree ? ET_OK : et_alloc_failed(error, parts * sizeof *layout->tree, "a plan");
}

void et_arena_layout_release(et_arena_layout *layout)
{
    et_free(layout->tree);
    et_free(layout->spans);
}

/* ---- lists ---- */

static void link_span(et_arena_layout *layout, int *link, size_t begin, size_t end)
{
    int index = layout->unused ? layout->unused : layout->used++;
    if (layout->unused)
        layout->unused = layout->spans[index].next;
    et_assert(index > 0 && (size_t)index < layout->capacity);
    layout->spans[index] = (et_arena_layout_span){ begin, end, *link };
    *link = index;
}

/* A list of all that was in it and [begin, end): spans that touch become one. A wall next to a
 * span is no longer seen and still keeps others out, as the span does. */
static void join(et_arena_layout *layout, int *list, size_t begin, size_t end)
{
    et_arena_layout_span *spans = layout->spans;
    int *link = list;
    for (; *link && spans[*link].end < begin; layout->looked++)
        link = &spans[*link].next;
    layout->looked++;
    if (*link && spans[*link].begin <= begin && end <= spans[*link].end)
        return;
    while (*link && spans[*link].begin <= end) {
        /* The span that *link names leaves its list. */
        const int index = *link;
        const et_arena_layout_span old = spans[index];
        *link = old.next;
        spans[index].next = layout->unused;
        layout->unused = index;
        begin = old.begin < begin ? old.begin : begin;
        end = old.end > end ? old.end : end;
    }
    link_span(layout, link, begin, end);
}

/* ---- times ---- */

/* The parts of the tree that have to do with a time. */
typedef struct parts {
    int inside[PARTS_MAX], inside_count; /* the largest that the time has whole: it is these */
    int across[PARTS_MAX], across_count; /* all that it has in part */
} parts;

/* Leaf i is part leaves + i, and the parent of part i is i / 2. The parts inside are found from the
 * leaves up: at an odd `from` or an even `to` the other half is outside, so this part is added. The
 * parts across the time's begin are the ancestors of its first leaf, those across its end the
 * ancestors of its last leaf; where the two paths meet, they continue as one. A time is clipped to
 * the existing calls. */
static void find_parts(parts *p, const et_arena_layout *layout, int first, int last)
{
    const int leaves = layout->leaves;
    et_assert(first <= last && first < leaves);
    int begin = leaves + (first < 0 ? 0 : first),
        end = leaves + (last < leaves ? last : leaves - 1);
    p->inside_count = p->across_count = 0;
    for (int from = begin, to = end; from <= to; from /= 2, to /= 2) {
        if (from % 2 == 1)
            p->inside[p->inside_count++] = from++;
        if (to % 2 == 0)
            p->inside[p->inside_count++] = to--;
    }
    int level = 1;
    for (int from = begin / 2, to = end / 2; to > 0; from /= 2, to /= 2, level++) {
        if (from << level < begin || ((from + 1) << level) - 1 > end)
            p->across[p->across_count++] = from;
        if (from != to && ((to + 1) << level) - 1 > end)
            p->across[p->across_count++] = to;
    }
    et_assert(p->inside_count <= PARTS_MAX && p->across_count <= PARTS_MAX);
}

static int add_span(et_arena_layout *layout, const parts *p, size_t begin, size_t end,
                    et_error *error)
{
    /* Room for a span in each list that it may join, so that joining cannot fail half-way. */
    const size_t wanted = (size_t)layout->used + 2 * PARTS_MAX;
    et_arena_layout_span *spans =
        et_vector_grow(layout->spans, &layout->capacity, wanted, sizeof *spans, 1024);
    if (!spans)
        return et_alloc_failed(error, wanted * sizeof *spans, "a plan");
    layout->spans = spans;
    for (int i = 0; i < p->inside_count; i++)
        join(layout, &layout->tree[p->inside[i]].whole, begin, end);
    for (int i = 0; i < p->across_count; i++)
        join(layout, &layout->tree[p->across[i]].some, begin, end);
    if (end > layout->end)
        layout->end = end;
    return ET_OK;
}

/* ---- searching ---- */

/* The lists that contain the rooms of a time: for each list, the next span to pass. */
typedef struct search {
    int count;
    int next[3 * PARTS_MAX];
} search;

static void add_list(search *s, int list)
{
    if (list)
        s->next[s->count++] = list;
}

/* The lowest offset from `at` on that is free in one list. The passed spans end at or below the
 * answer, and offsets only rise, so they need not be checked again. */
static size_t pass(et_arena_layout *layout, int *next, size_t bytes, size_t at)
{
    const et_arena_layout_span *span = &layout->spans[*next];
    for (layout->looked++; *next && span->begin < at + bytes; layout->looked++) {
        at = span->end > at ? span->end : at;
        *next = span->next;
        span = &layout->spans[*next];
    }
    return at;
}

/* The lowest offset for so many bytes: lists take turns until none moves it any more. */
static size_t find_offset(et_arena_layout *layout, const parts *p, size_t bytes)
{
    search s;
    /* `whole` of the parts above a part inside as well: those are all across. */
    s.count = 0;
    for (int i = 0; i < p->inside_count; i++) {
        add_list(&s, layout->tree[p->inside[i]].whole);
        add_list(&s, layout->tree[p->inside[i]].some);
    }
    for (int i = 0; i < p->across_count; i++)
        add_list(&s, layout->tree[p->across[i]].whole);
    size_t at = 0, before;
    do {
        before = at;
        for (int i = 0; i < s.count;) {
            at = pass(layout, &s.next[i], bytes, at);
            if (s.next[i])
                i++;
            else
                s.next[i] = s.next[--s.count];
        }
    } while (at != before);
    return at;
}

/* ---- tenants ---- */

int et_arena_layout_reserve(et_arena_layout *layout, size_t offset, size_t bytes, int from,
                            et_error *error)
{
    parts p;
    et_assert(offset % ET_ARENA_LAYOUT_ALIGN == 0);
    find_parts(&p, layout, from, INT_MAX);
    return add_span(layout, &p, offset, offset + bytes, error);
}

/* Equal sizes by their first call; neighbours in time then tend to be neighbours in memory. */
ET_SORT_BY(larger_first, et_tenant, ET_DOWN(bytes), ET_UP(from))

/* Without reuse all are there all the time. */
int et_arena_layout_assign(et_arena_layout *layout, et_tenant *tenants, int count, bool reuse,
                           et_error *error)
{
    int status = ET_OK;
    parts p;
    qsort(tenants, (size_t)count, sizeof *tenants, larger_first);
    for (int i = 0; !status && i < count; i++) {
        const et_tenant *one = &tenants[i];
        et_assert(one->bytes > 0 && one->from >= 0);
        size_t bytes = (one->bytes + ET_ARENA_LAYOUT_ALIGN - 1) / ET_ARENA_LAYOUT_ALIGN *
                       ET_ARENA_LAYOUT_ALIGN;
        find_parts(&p, layout, reuse ? one->from : 0, reuse ? one->to : INT_MAX);
        size_t at = find_offset(layout, &p, bytes);
        status = add_span(layout, &p, at, at + bytes, error);
        *one->offset = at;
    }
    return status;
}
