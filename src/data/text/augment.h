/* Changed copies of pairs of training text, which make a small model robust:
 *
 *   case           the copy is in capitals, has a capital at each word, or is in lower case
 *   placeholders   the copy has a placeholder, a URL or a number at the same place of both sides:
 *                  in place of a word that both have once, at the begin, at the end, or after the
 *                  same share of the words
 *
 * The number of a pair in the corpus decides by counted random numbers whether the pair has a copy,
 * and of which kind. So copies are the same for any number of threads and after a resume. */
#ifndef ETUDE_DATA_TEXT_AUGMENT_H
#define ETUDE_DATA_TEXT_AUGMENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

#include "base/text/strbuf.h"

typedef enum et_augment_kind {
    ET_AUGMENT_CASE,
    ET_AUGMENT_PLACEHOLDERS,
    ET_AUGMENT_KINDS,
} et_augment_kind;

typedef struct et_augment {
    double rates[ET_AUGMENT_KINDS]; /* probability of a copy, 0 to 1 */
} et_augment;

/* "case,placeholders:0.2": kinds with their rates; the default rate is 0.1. Empty or NULL: none.
 * ET_ECONFIG names the part that is wrong. */
int et_augment_parse(et_augment *out, const char *text, et_error *error);

/* "case 0.1, placeholders 0.2"; "" without kinds. */
void et_augment_print(const et_augment *augment, et_strbuf *out);

bool et_augment_is_used(const et_augment *augment);

/* Makes the copy of pair `index` by one kind into source and target, which are emptied first. *made
 * false: the pair has no copy of this kind. ET_ENOMEM. */
int et_augment_make(const et_augment *augment, et_augment_kind kind, int64_t index,
                    const char *const texts[2], const size_t lengths[2], et_strbuf copies[2],
                    bool *made, et_error *error);

#endif
