/* Dotted keys of a file, turned into groups: {a.b: 1, a: {c: 2}} becomes {a: {b: 1, c: 2}}, so both
 * forms mean the same, also together. */
#ifndef ETUDE_BASE_FIELDS_FIELDS_DOTTED_H
#define ETUDE_BASE_FIELDS_FIELDS_DOTTED_H

#include <etude/value.h>

/* Expands one level: keys of the groups may have points again. *out: dict itself if no key has a
 * point; else a dict in arena with the old values. NULL: no memory. *twice: a value that is given
 * in two ways, else NULL. Keys of items, "a[0].b", stay as they are. */
const et_value *et_fields_undotted(const et_value *dict, et_arena *arena, const et_value **twice);

#endif
