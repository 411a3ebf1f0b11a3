/* Is this a SentencePiece model, and one that is safe to load? The library parses the bytes
 * soundly but then trusts the compiled normalisation table within: a double array whose nodes
 * it follows without looking at bounds. So a damaged file could make it read anywhere. Checked
 * here: the table stays within itself whatever text comes, and scores are numbers.
 *
 * And what a run wants to know of a model before a line is encoded: loading it would take longer
 * than all else that a start does. */
#ifndef ETUDE_DATA_VOCABULARY_CHECK_H
#define ETUDE_DATA_VOCABULARY_CHECK_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_vocabulary_facts {
    int model_type;             /* of SentencePiece: 1 unigram, 2 bpe, 3 word, 4 char */
    int32_t tokens;             /* how many; ids are below it */
    int32_t eos, unk, bos, pad; /* ids, -1: none */
} et_vocabulary_facts;

/* ET_EFORMAT: not a model, or damaged; name is for the message. */
int et_vocabulary_check(et_vocabulary_facts *facts, const void *bytes, size_t length,
                        const char *name, et_error *error);

#endif
