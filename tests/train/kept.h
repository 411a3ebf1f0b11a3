/* The checkpoints of a run. Include after cmocka.h. */
#ifndef ETUDE_TESTS_TRAIN_KEPT_H
#define ETUDE_TESTS_TRAIN_KEPT_H

#include "formats/files.h"

/* "5 10 ", what there is in a directory of checkpoints. */
static inline const char *checkpoints(const char *directory)
{
    static char text[200];
    text[0] = 0;
    for (int step = 0; step <= 60; step++) {
        char path[800];
        snprintf(path, sizeof path, "%s/checkpoints/ckpt-%d.safetensors", directory, step);
        if (file_is_there(path))
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d ", step);
    }
    return text;
}

#endif
