/* A group: parameters of a store that are chosen by name, and where they lie. What takes a
 * gradient or an optimizer for a part of a model takes a group:
 *
 *     et_group *generator;
 *     if (et_group_new(&generator, params, "generator/", &error)) ...
 *     const et_range *ranges;
 *     for (int i = 0, n = et_group_ranges(generator, &ranges); i < n; i++)
 *         for (int64_t k = ranges[i].begin; k < ranges[i].end; k++)
 *             sum += et_params_gradients(params)[k];
 *     et_group_free(generator);
 *
 * Only what is trained is chosen. A group does not change; whoever takes one copies what it
 * needs, so it may be freed at once. Any number of threads may read one. */
#ifndef ETUDE_GROUP_H
#define ETUDE_GROUP_H

#include <etude/error.h>
#include <etude/params.h>

typedef struct et_group et_group;

/* Part of the flat arrays, padding included; both are multiples of 16. */
typedef struct et_range {
    int64_t begin, end; /* elements begin .. end - 1 */
} et_range;

/* What is trained and has a name that begins with prefix; "" or NULL: all. params is materialized
 * and outlives the group. ET_ECONFIG: there is no such name; the first that there is is named. */
ET_API int et_group_new(et_group **out, et_params *params, const char *prefix, et_error *error);

/* The same by a regular expression (Perl's syntax) that is searched in names. */
ET_API int et_group_match(et_group **out, et_params *params, const char *expression,
                          et_error *error);

ET_API void et_group_free(et_group *group); /* NULL allowed */

/* How many parameters; the i-th, by its index in the store: in order of their places; -1: there are
 * not so many. */
ET_API int et_group_count(const et_group *group);
ET_API int et_group_param(const et_group *group, int i);

/* Ascending and as few as there can be: neighbours are one. Borrowed. */
ET_API int et_group_ranges(const et_group *group, const et_range **ranges);

#endif
