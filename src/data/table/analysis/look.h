/* Recognizes texts that people read as dates or numbers, but the reader of numbers does not. Pure
 * functions. */
#ifndef ETUDE_DATA_TABLE_ANALYSIS_LOOK_H
#define ETUDE_DATA_TABLE_ANALYSIS_LOOK_H

#include <stddef.h>

typedef enum et_look {
    ET_LOOK_NONE,
    ET_LOOK_DATE,   /* 2024-05-31, 31.5.2024, 31. Mai 2024, with or without a time */
    ET_LOOK_NUMBER, /* in a notation, with or without a unit (notation.h) */
    ET_LOOK_SPAN,   /* a duration that is no time of day: 36:15, 100:00:05.5 */
    ET_LOOK_COUNT,
} et_look;

et_look et_look_at(const char *text, size_t length);

#endif
