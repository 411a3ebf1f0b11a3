/* Set-up as a table of functions: each needs the results of the earlier ones, and they run in order
 * up to the first failure. They take the object itself, of any type, so this is a macro.
 *
 *     static int (*const stages[])(shop *, et_error *) = { open_door, light_lamps };
 *     int status = ET_OK;
 *     ET_STAGES_RUN(status, stages, &mine, &error);
 *
 * Nothing is undone: the object's close accepts a partly opened object. */
#ifndef ETUDE_BASE_STAGES_H
#define ETUDE_BASE_STAGES_H

#include <stddef.h>

/* status: a variable; nothing runs if it is already a failure. */
#define ET_STAGES_RUN(status, stages, object, error)                                               \
    for (size_t et_stage = 0; !(status) && et_stage < sizeof(stages) / sizeof *(stages);           \
         et_stage++)                                                                               \
    (status) = (stages)[et_stage]((object), (error))

#endif
