/* Readers of what other programs and people write, each with good input to change. A reader gets
 * any bytes and may refuse them; it must end, soon, and leave no memory behind. */
#ifndef ETUDE_TESTS_FUZZ_FUZZ_H
#define ETUDE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>

#include <etude/error.h>

enum { FUZZ_SAMPLES_MAX = 4 };

typedef struct fuzz_target {
    const char *name;
    /* Reads bytes [length], a copy that ends where the bytes end. */
    int (*read)(const struct fuzz_target *self, const char *bytes, size_t length, et_error *error);
    const char *file; /* below the directory: its sample, and where it is read; NULL: texts */
    const char *samples[FUZZ_SAMPLES_MAX];
    const char *words; /* what changes put into bytes, separated by blanks; NULL: single bytes */
    int format;        /* of a document */
} fuzz_target;

extern const fuzz_target fuzz_texts[], fuzz_files[]; /* ended by a row without a name */

/* Before the first read: files are made and read below directory, which is empty. */
void fuzz_open(char *directory);
/* Below the directory; valid until the call after the next three. */
const char *fuzz_path(const char *name);

#endif
