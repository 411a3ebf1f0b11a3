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

/* The end of every options struct: room for fields of later versions, zero in a program that does
 * not know them, and zero is what it was built with. So { 0 } is the defaults, and structs keep
 * their size: a new field stands right before it, in place of as many of its words. */
#define ET_RESERVED(words) uint64_t reserved[words]

#endif
