/* What the shared library exports: every declaration marked ET_API. In C++ the mark also says
 * that the function is C's. */
#ifndef ETUDE_EXPORT_H
#define ETUDE_EXPORT_H

#ifdef __cplusplus
#define ET_EXTERN extern "C"
#else
#define ET_EXTERN
#endif

#if defined(__GNUC__)
#define ET_API ET_EXTERN __attribute__((visibility("default")))
#else
#define ET_API ET_EXTERN
#endif

#endif
