/* Fields of another program's settings: read with their range, or refused by name and value. */
#ifndef ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_FIELDS_H
#define ETUDE_TASKS_TRANSLATION_IMPORT_IMPORT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/value.h>

/* A file of settings, a dict. */
typedef struct et_import_config {
    const char *name; /* in messages */
    const et_value *values;
} et_import_config;

/* A field that may be in one of several files. */
typedef struct et_import_field {
    const et_import_config *of;
    const et_value *value; /* NULL: not there */
} et_import_field;

/* A field that must have a value; a missing field has it. number: also of a truth value, 0 or 1. */
typedef struct et_import_fixed {
    const char *field;
    double number;
    const char *why; /* "but ...": what is missing here, or the cure */
} et_import_fixed;

/* ET_ECONFIG: "config.json: FIELD is VALUE, WHY" */
int et_import_refuse(const et_import_config *c, const et_value *value, const char *why,
                     et_error *error);
int et_import_check_fixed(const et_import_config *c, const et_import_fixed *rows, size_t count,
                          et_error *error);

/* A number of 0 to INT32_MAX, which must be there. */
int et_import_read_count(const et_import_config *c, const char *field, int64_t *out,
                         et_error *error);
/* The same, of 1 to most. */
int et_import_read_size(const et_import_config *c, const char *field, int64_t most, int64_t *out,
                        et_error *error);
/* otherwise: what a missing field, or null, means. */
int et_import_read_bool(const et_import_config *c, const char *field, bool otherwise, bool *out,
                        et_error *error);
/* From 0 to 1. */
int et_import_read_rate(const et_import_config *c, const char *field, double otherwise, double *out,
                        et_error *error);

/* The width of the model, and whether it can be split into heads. */
int et_import_check_width(const et_import_config *c, const char *field, int64_t width,
                          et_error *error);
int et_import_check_heads(const et_import_config *c, const char *field, int64_t width,
                          const char *why, et_error *error);

/* The search, all optional. beams: 1 to 64; alpha: a power of lengths, 0 to 10. */
int et_import_read_search(et_import_field beams, et_import_field alpha, double otherwise,
                          et_value *model, et_error *error);

#endif
