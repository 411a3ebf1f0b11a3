/* Feature sets, for the library, beyond <etude/feature_set.h>. */
#ifndef ETUDE_DATA_TABLE_FEATURES_FEATURE_SET_H
#define ETUDE_DATA_TABLE_FEATURES_FEATURE_SET_H

#include <etude/feature_set.h>

/* Of concats in concats. A program's specs that hold themselves end here. */
#define ET_FEATURE_DEPTH_MAX 16

/* As et_feature_set_create, of specs that were read from a text with this name, which messages
 * begin with; NULL: they were not. */
int et_feature_set_make(et_feature_set **out, const et_feature_spec *specs, int count,
                        const char *name, et_error *error);

/* The name of the text; NULL: a program's. */
const char *et_feature_set_source(const et_feature_set *set);

/* The fields of a spec that has no others: the one with its name. */
int et_feature_fields(const et_feature_spec *spec, const char *const **fields);

/* YAML that et_feature_set_parse reads, terminated. The caller frees the text (et_free). */
int et_feature_set_format(const et_feature_set *set, char **text, et_error *error);

#endif
