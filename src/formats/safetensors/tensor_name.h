/* Names of tensors: keys of the files that hold them (formats/safetensors/safetensors.h), printed
 * to terminals. A name that no file can have is refused when a tensor is named, long before the
 * first file is written. */
#ifndef ETUDE_FORMATS_SAFETENSORS_TENSOR_NAME_H
#define ETUDE_FORMATS_SAFETENSORS_TENSOR_NAME_H

#include <stdbool.h>

#define ET_TENSOR_METADATA "__metadata__" /* the key of such a file that is no tensor's */

/* Whether a name is UTF-8 without control characters, U+0080 to U+009F among them. */
bool et_tensor_name_sound(const char *name);

/* What of a name no file can have, such as "has control characters"; NULL: nothing. Static. */
const char *et_tensor_name_fault(const char *name);

/* A name for messages, by value: control characters and invalid UTF-8 bytes as "\x1b"; cut if it is
 * too long. */
typedef struct et_tensor_name {
    char text[256]; /* terminated */
} et_tensor_name;

et_tensor_name et_tensor_name_escaped(const char *name);

#endif
