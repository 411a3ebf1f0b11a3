/* Export marks of the shared library: ET_API before every public function, ET_DATA (in place of
 * extern) before every public table. In C++ the marks also give C linkage. There the member `class`
 * of an object, ET_CLASS, is called `class_`, because class is a keyword of C++. */
#ifndef ETUDE_EXPORT_H
#define ETUDE_EXPORT_H

#include <stdint.h>

#if defined(__GNUC__)
#define ET_VISIBLE __attribute__((visibility("default")))
#else
#define ET_VISIBLE
#endif

#ifdef __cplusplus
#define ET_API   extern "C" ET_VISIBLE
#define ET_DATA  extern "C" ET_VISIBLE
#define ET_CLASS class_
#else
#define ET_API   ET_VISIBLE
#define ET_DATA  extern ET_VISIBLE
#define ET_CLASS class
#endif

#endif
