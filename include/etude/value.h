/* Values: trees of plain values, for YAML and JSON texts, the state tree, options and results of
 * loops. A dictionary keeps the order of its keys. All memory of a tree is in its arena; you never
 * free single values.
 *
 *     et_value *state = et_value_dict(arena);
 *     et_value_set_int(state, "step", 200);
 *     et_value_set_bool(state, "done", false);
 *     et_value_set_string(et_value_set_dict(state, "best"), "metric", "accuracy");
 *     et_value *list = et_value_set_list(state, "notes");
 *     et_value_add_float(list, 0.5);
 *     et_value_add_int(list, 1);
 *     et_value_add_string(list, "none");
 *     if (et_value_failed(state)) ...                     no memory was left
 *
 *     int64_t step;                                       read, with errors that name the key
 *     const char *metric;
 *     if (et_value_read_int(state, "step", &step, &error) ||
 *         et_value_read_bool(state, "done", &done, &error) ||
 *         et_value_read_string(et_value_get(state, "best"), "metric", &metric, &error)) ...
 *     const et_value *same = et_value_path(state, "best.metric");
 *     const et_value *leaf = et_value_leaf(state, "best.metric", &error);    no dict, or an error
 *     et_value_each_leaf(state, to_integer, NULL, &error);                  the program's function
 *     et_value_set_int(et_value_add_dict(et_value_set_list(state, "sets")), "rows", 5);
 *     for (const et_value *note = list->first; note; note = note->next)
 *         puts(note->kind == ET_VALUE_STRING ? note->string : "a number");
 *
 * The arena remembers failed allocations (et_value_failed), so writers check once at the end. Use
 * from one thread at a time. */
#ifndef ETUDE_VALUE_H
#define ETUDE_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

/* Memory that is freed as a whole. NULL: no memory; all functions below accept NULL. */
typedef struct et_arena et_arena;
ET_API et_arena *et_arena_new(void);
ET_API void et_arena_free(et_arena *arena); /* NULL allowed */

typedef enum et_value_kind {
    ET_VALUE_NULL,
    ET_VALUE_BOOL,
    ET_VALUE_INT,
    ET_VALUE_FLOAT,
    ET_VALUE_STRING,
    ET_VALUE_LIST,
    ET_VALUE_DICT,
} et_value_kind;

typedef struct et_value et_value;

struct et_value {
    et_value_kind kind;
    int line;        /* line in its text, from 1; 0: made by a program */
    et_arena *arena; /* for children */
    union {
        bool boolean;
        int64_t integer;
        double real;
        const char *string; /* ended by 0; contains no NUL */
    };
    const char *text;       /* the text of a scalar in YAML, or of a number in JSON; otherwise
                               NULL */
    const char *key;        /* its name in a dict */
    et_value *first, *last; /* of a list or dict */
    et_value *next;         /* sibling */
    size_t count;           /* number of children */
};

/* A new value in arena; NULL: no memory (all functions below accept NULL silently). */
ET_API et_value *et_value_dict(et_arena *arena);

/* Whether root is NULL, or an allocation in its arena has failed: then the tree may be
 * incomplete. */
ET_API bool et_value_failed(const et_value *root);

/* The child of a dict with this key; NULL: no such key, or dict is not a dict. Linear search. */
ET_API et_value *et_value_get(const et_value *dict, const char *key);

/* The value at a path such as "a.b.c" or "a.list[0].b"; NULL if any part is missing. "": dict. */
ET_API et_value *et_value_path(const et_value *dict, const char *path);

/* The same for a leaf: a scalar or a list. NULL: a part is missing, or the path ends at a dict; the
 * error (ET_EFORMAT) names the keys that are there. */
ET_API const et_value *et_value_leaf(const et_value *dict, const char *path, et_error *error);

/* Calls fn for each leaf of a dict, at every depth, in order. fn may replace kind and contents of
 * the leaf; its first status other than 0 ends the walk and is returned. */
typedef int et_value_leaf_fn(void *payload, et_value *leaf, et_error *error);
ET_API int et_value_each_leaf(et_value *dict, et_value_leaf_fn *fn, void *payload, et_error *error);

/* Set or replace a child. Strings are copied; a NULL string is null. Each function returns the
 * child; NULL: no memory. */
ET_API et_value *et_value_set_bool(et_value *dict, const char *key, bool boolean);
ET_API et_value *et_value_set_int(et_value *dict, const char *key, int64_t integer);
ET_API et_value *et_value_set_float(et_value *dict, const char *key, double real);
ET_API et_value *et_value_set_string(et_value *dict, const char *key, const char *string);
ET_API et_value *et_value_set_dict(et_value *dict, const char *key);
ET_API et_value *et_value_set_list(et_value *dict, const char *key);

/* Append to a list; otherwise as above. */
ET_API et_value *et_value_add_dict(et_value *list);
ET_API et_value *et_value_add_int(et_value *list, int64_t integer);
ET_API et_value *et_value_add_float(et_value *list, double real);
ET_API et_value *et_value_add_string(et_value *list, const char *string);

/* Read dict[key] with its type; an integer is allowed for a float. ET_EFORMAT: a missing key or
 * another type; the error names the key, and the caller adds the file with et_fail_while. */
ET_API int et_value_read_int(const et_value *dict, const char *key, int64_t *out, et_error *error);
ET_API int et_value_read_float(const et_value *dict, const char *key, double *out, et_error *error);
ET_API int et_value_read_bool(const et_value *dict, const char *key, bool *out, et_error *error);
ET_API int et_value_read_string(const et_value *dict, const char *key, const char **out,
                                et_error *error);

#endif
