/* A group: parameters of a store, chosen by name, and their ranges in the flat arrays. Functions
 * that take a part of a model, for a gradient or an optimizer, take a group:
 *
 *     et_group *generator;
 *     if (et_group_new(&generator, params, "generator/", &error)) ...
 *     const et_range *ranges;
 *     for (int i = 0, n = et_group_ranges(generator, &ranges); i < n; i++)
 *         for (int64_t k = ranges[i].begin; k < ranges[i].end; k++)
 *             sum += et_params_gradients(params)[k];
 *     et_group_free(generator);
 *
 * Only trained parameters are chosen. A group does not change. Functions copy what they need from
 * it, so you may free it at once. Any number of threads may read a group. */
#ifndef ETUDE_GROUP_H
#define ETUDE_GROUP_H

#include <etude/error.h>
#include <etude/params.h>

typedef struct et_group et_group;

/* A range of the flat arrays. Both ends are multiples of 16; the range includes the padding. */
typedef struct et_range {
    int64_t begin, end; /* elements begin .. end - 1 */
} et_range;

/* All trained parameters whose names begin with prefix; "" or NULL: all. params must be
 * materialized and outlive the group. ET_ECONFIG: no such name; the error suggests an existing
 * name. */
ET_API int et_group_new(et_group **out, et_params *params, const char *prefix, et_error *error);

/* The same for a regular expression (Perl's syntax) that is searched in names. */
ET_API int et_group_match(et_group **out, et_params *params, const char *expression,
                          et_error *error);

ET_API void et_group_free(et_group *group); /* NULL allowed */

/* count: number of parameters. param: index in the store of the i-th parameter, in order of
 * positions; -1: i is out of range. */
ET_API int et_group_count(const et_group *group);
ET_API int et_group_param(const et_group *group, int i);

/* Ascending ranges; neighbours are joined. Borrowed. Returns their number. */
ET_API int et_group_ranges(const et_group *group, const et_range **ranges);

#endif
