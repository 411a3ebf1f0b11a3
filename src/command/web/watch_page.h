/* The page of `etude watch`, as its parts stand in watch/; CMake makes one of them. */
#ifndef ETUDE_COMMAND_WEB_WATCH_PAGE_H
#define ETUDE_COMMAND_WEB_WATCH_PAGE_H

#include <stddef.h>

extern const unsigned char et_watch_page[];
extern const size_t et_watch_page_length; /* bytes */

#endif
