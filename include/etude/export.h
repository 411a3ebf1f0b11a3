/* What the shared library exports: every function marked ET_API, every table marked ET_DATA in
 * place of extern. In C++ the marks also say that they are C's, and an object's member
 * `class`, ET_CLASS, is called `class_`: there the word is the language's own. */
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
