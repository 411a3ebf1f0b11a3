/* Pairs from records: tf.Examples in TFRecord files, plain or GZIP, each with one string for either
 * side; other features are passed over. What text has to be (UTF-8, no NUL, no longer than a line)
 * these strings have to be. Memory: the largest record. Part of corpus.c. */
#ifndef ETUDE_DATA_TEXT_CORPUS_RECORDS_H
#define ETUDE_DATA_TEXT_CORPUS_RECORDS_H

#include "data/text/corpus.h"

typedef struct et_corpus_records et_corpus_records;

/* lines: [files], where records read are counted. All is borrowed. */
int et_corpus_records_open(et_corpus_records **out, const et_corpus_paths *paths, int64_t *lines,
                           et_error *error);

/* The next pair, valid until the next call; as it is (all NULL) at the end. */
int et_corpus_records_next(et_corpus_records *self, et_corpus_pair *pair, et_error *error);
void et_corpus_records_close(et_corpus_records *records); /* NULL allowed */

#endif
