/* What the shared library exports: every declaration marked ET_API. */
#ifndef ETUDE_EXPORT_H
#define ETUDE_EXPORT_H

#if defined(__GNUC__)
#define ET_API __attribute__((visibility("default")))
#else
#define ET_API
#endif

#endif
