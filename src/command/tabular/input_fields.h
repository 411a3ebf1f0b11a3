/* What a form for a row of a table needs to know about the columns that a model reads.
 *
 *     "columns": ["sold_on", "rooms", "city"],
 *     "fields": [{"name": "sold_on", "kind": "date", "example": "2024-05-31"},
 *                {"name": "rooms", "kind": "number", "example": "3"},
 *                {"name": "city", "kind": "class", "example": "Rome", "values": ["Rome", "Oslo"]}],
 *     "example": "{\"rows\": [{\"sold_on\": \"2024-05-31\", \"rooms\": 3, \"city\": \"Rome\"}]}"
 *
 * Kinds: number, date, datetime, time, class (values are all that training had) and text (values
 * are some of them, or missing). Examples are typical training values, written as the column writes
 * them, dates as in ISO 8601. A column without known values has no example. */
#ifndef ETUDE_COMMAND_TABULAR_INPUT_FIELDS_H
#define ETUDE_COMMAND_TABULAR_INPUT_FIELDS_H

#include <etude/metadata.h>
#include <etude/value.h>

#include "data/table/features/encoder.h"

/* Adds the three members to facts, a dict. */
void et_input_fields_describe(et_value *facts, const et_encoder *encoder,
                              const et_metadata *metadata);

#endif
