/* tf.Example, for the library, beyond <etude/example.h>: parsing into the caller's memory, so that
 * a batch can be filled without allocating.
 *
 *     et_example_memory room = { .arena = &arena };
 *     status = et_example_read(&example, &room, bytes, length, &error);
 *     et_example_memory again = { .block = block, .capacity = room.used };
 */
#ifndef ETUDE_FORMATS_RECORDS_EXAMPLE_H
#define ETUDE_FORMATS_RECORDS_EXAMPLE_H

#include <etude/example.h>

#include "base/arena.h"

/* Memory for one parse: an arena, or a block (aligned to 16). The block must be at least as large
 * as the memory that the same bytes need in an arena. used: bytes that the parse has used. */
typedef struct et_example_memory {
    et_arena *arena;
    unsigned char *block;
    size_t capacity; /* of block */
    size_t used;
    bool refused; /* more was asked for than may be */
} et_example_memory;

/* Features in the order of the message; of equal keys, all. out is valid as long as the room's
 * memory. ET_EFORMAT: no tf.Example; the message has no place. */
int et_example_read(et_example *out, et_example_memory *room, const void *bytes, size_t length,
                    et_error *error);

/* The last feature with this key, which is the valid one; NULL: none. */
const et_feature *et_example_last(const et_example *example, const char *key);

/* "integers", "floats", "bytes", "nothing". Static. */
const char *et_feature_kind_name(et_feature_kind kind);

#endif
