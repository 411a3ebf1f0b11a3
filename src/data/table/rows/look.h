/* Recognizes texts that people read as dates or numbers, but the reader of numbers does not: dates,
 * and numbers with separators, a decimal comma or a unit. Pure functions. */
#ifndef ETUDE_DATA_TABLE_ROWS_LOOK_H
#define ETUDE_DATA_TABLE_ROWS_LOOK_H

#include <stddef.h>

typedef enum et_look {
    ET_LOOK_NONE,
    ET_LOOK_DATE,      /* 2024-05-31, 31.5.2024, 5/31/24, with or without a time */
    ET_LOOK_COMMAS,    /* 1,234,567.8; 1,234 may have a decimal comma as well */
    ET_LOOK_SEPARATED, /* 1 234 567,8: something else between thousands */
    ET_LOOK_DECIMAL,   /* 1.234,5: a decimal comma */
    ET_LOOK_MINUS,     /* a number after U+2212 or a dash, which are not a minus sign */
    ET_LOOK_UNIT,      /* 12 %, -$1,500, 30 kg */
    ET_LOOK_COUNT,
} et_look;

/* *separator: for SEPARATED, the text between thousands: "blanks"; else NULL. */
et_look et_look_at(const char *text, size_t length, const char **separator);

#endif
