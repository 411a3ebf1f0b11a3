/* Notes of earlier checks. Finding the key of a corpus reads its text, and checking its cache reads
 * the whole file; both take long for large data. After that, a small file next to the cache
 * (PATH.seen) notes the system's facts about each file: device, inode, length, times of the last
 * change. While these are the same, the key is taken from the note and the cache is trusted, as
 * make and git trust an unchanged file. Part of encoded.c.
 *
 * A file that changed in the last two seconds is not noted: a change right after could have the
 * same time. Notes are optional: a missing or damaged note, or one that cannot be written, is
 * ignored. */
#ifndef ETUDE_DATA_TEXT_ENCODING_STAMP_H
#define ETUDE_DATA_TEXT_ENCODING_STAMP_H

#include "data/text/corpus.h"

typedef struct et_encoding_stamp {
    uint64_t stamp; /* of the system's facts about the files, and of facts */
    bool settled;   /* no file is as new that its time says little */
} et_encoding_stamp;

/* Looks at the files of a corpus and at its cache. facts: the parts of the key besides text. false:
 * a file is missing or not a regular file. */
bool et_encoding_stamp_take(et_encoding_stamp *seen, uint64_t facts, const et_corpus_paths *paths,
                            const char *cache_path);

/* The key that was noted for exactly these files; false: none was. */
bool et_encoding_stamp_recall(const et_encoding_stamp *seen, const char *cache_path, uint64_t *key);

/* Notes the key of the files, if their last changes are old enough. */
void et_encoding_stamp_note(const et_encoding_stamp *seen, const char *cache_path, uint64_t key);

#endif
