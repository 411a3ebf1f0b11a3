#include "io/log_names.h"

#include <string.h>

size_t et_logged_prefix(const char *name)
{
    static const char *const prefixes[] = { ET_LOGGED_OF_TRAINING, ET_LOGGED_OF_VALIDATION };
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        const size_t length = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], length) == 0 && name[length] != '\0')
            return length;
    }
    return 0;
}
