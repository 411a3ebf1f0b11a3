/* Comparisons for qsort and bsearch, by members of a struct or of numbers themselves:
 *
 *     ET_SORT_BY(by_score, ranked, ET_DOWN(score), ET_UP(row))
 *     ET_SORT_NUMBERS(by_value, double)
 *
 * The first defines by_score for elements of the type `ranked`: the largest score first, equal ones
 * by row. A key may also be a call for a and b, the two elements: strcmp(a->name, b->name). A NaN
 * is equal to any number, so keys that may be NaN need a function of their own. */
#ifndef ETUDE_BASE_SORT_H
#define ETUDE_BASE_SORT_H

#define ET_UP(key)   ((a->key > b->key) - (a->key < b->key))
#define ET_DOWN(key) ((a->key < b->key) - (a->key > b->key))

/* then: 0 without a second key. */
#define ET_SORT_BY(name, type, first, then)                                                        \
    static int name(const void *left, const void *right)                                           \
    {                                                                                              \
        const type *a = left;                                                                      \
        const type *b = right;                                                                     \
        const int order = first;                                                                   \
        return order ? order : (then);                                                             \
    }

#define ET_SORT_NUMBERS(name, type)                                                                \
    static int name(const void *left, const void *right)                                           \
    {                                                                                              \
        const type *a = left, *b = right;                                                          \
        return (*a > *b) - (*a < *b);                                                              \
    }

#endif
