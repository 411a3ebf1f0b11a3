/* Versions: of the header that a program was compiled with, and of the library that it runs with.
 * Before 1.0, a new middle number may change any interface; the SONAME contains that number.
 *
 *     if (et_version_number() / 100 != ET_VERSION_NUMBER / 100)
 *         fprintf(stderr, "built for %s, runs with %s\n", ET_VERSION, et_version());
 */
#ifndef ETUDE_VERSION_H
#define ETUDE_VERSION_H

#include <etude/export.h>

#define ET_VERSION "0.1.0"

/* The same as a number, for #if: major * 10000 + minor * 100 + patch. */
#define ET_VERSION_NUMBER 100

/* The version of the library, "major.minor.patch". Static. */
ET_API const char *et_version(void);
ET_API int et_version_number(void);

#endif
