#include "formats/events/log_names.h"

#include <stdbool.h>
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

const char *et_logged_short(const char *name)
{
    return strcmp(name, ET_LOGGED_VALIDATION_LOSS) ? name + et_logged_prefix(name) : name;
}

const char *et_logged_below(const char *name, const char *group)
{
    size_t length = strlen(group);
    bool below = !strncmp(name, group, length) && (name[length] == '/' || name[length] == '|');
    return below ? name + length + 1 : NULL;
}
