/* What was checked before. To find the key of a corpus its text is read, and to find its cache
 * sound the whole file: both take the longer the larger they are. When that was done once, a
 * small file beside the cache (PATH.seen) notes what the system said of each file: device, inode,
 * length, times of the last change. While it says the same, the key is taken from there and the
 * cache is trusted, as make and git trust a file that nobody has written. Part of encoded.c.
 *
 * A file changed in the last two seconds is not noted: a change right after might bear the same
 * time. Nothing here is precious: what is missing, damaged or can't be written is not there. */
#ifndef ETUDE_DATA_TEXT_ENCODED_SEEN_H
#define ETUDE_DATA_TEXT_ENCODED_SEEN_H

#include "data/text/corpus.h"

typedef struct et_encoded_seen {
    uint64_t stamp; /* of all that the system says, and of facts */
    bool settled;   /* no file is as new that its time says little */
} et_encoded_seen;

/* Looks at the files of a corpus and at its cache. facts: what the key depends on besides text.
 * false: one is not there or not a regular file. */
bool et_encoded_look(et_encoded_seen *seen, uint64_t facts, const et_corpus_paths *paths,
                     const char *cache_path);

/* The key that was noted when all was as it is now; false: none was. */
bool et_encoded_recall(const et_encoded_seen *seen, const char *cache_path, uint64_t *key);

/* Notes the key of what is seen, if that is settled. */
void et_encoded_note(const et_encoded_seen *seen, const char *cache_path, uint64_t key);

#endif
