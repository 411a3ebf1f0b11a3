/* A parallel corpus: pairs of lines that translate each other. Pairs come from one of three inputs:
 * two lists of files (line N of one side translates line N of the other); a list of files with two
 * columns, source TAB target; or tf.Examples with a string for each side, as in Model Garden's
 * prepared data. text.h describes the text. Later stages (encoded.h) leave pairs out of training;
 * the corpus counts these pairs.
 *
 *     et_corpus *corpus;
 *     et_corpus_pair pair;
 *     if (et_corpus_open(&corpus, &paths, &error)) ...
 *     while (!(status = et_corpus_next(corpus, &pair, &error)) && pair.source)
 *         use(pair.source, pair.source_length, pair.target, pair.target_length);
 *     et_corpus_close(corpus);
 *
 * Use a reader from one thread at a time. */
#ifndef ETUDE_DATA_TEXT_CORPUS_H
#define ETUDE_DATA_TEXT_CORPUS_H

#include "data/text/augment.h"
#include "data/text/text.h"

/* Either source and target, or tsv, or records. All must outlive the corpus. */
typedef struct et_corpus_paths {
    et_strings source;  /* setting source_path */
    et_strings target;  /* setting target_path */
    et_strings tsv;     /* setting tsv_path */
    et_strings records; /* setting input_path: TFRecord files, plain or GZIP */
    const char *source_feature, *target_feature; /* of records: settings src_lang, tgt_lang */
    const char *tag;    /* put before each source that is not empty, with a space; NULL or "":
                           none */
    bool tag_column;    /* a tsv has three columns: tag, source, target */
    et_augment augment; /* changed copies, each after its pair and with its index */
} et_corpus_paths;

typedef struct et_corpus et_corpus;

typedef struct et_corpus_pair {
    const char *source, *target; /* not terminated; NULL at the end; valid until the next call of
                                    next */
    size_t source_length, target_length; /* bytes */
    int64_t index;                       /* in the corpus, from 0 */
} et_corpus_pair;

/* ET_ECONFIG: not exactly one of the three forms is given. */
int et_corpus_paths_check(const et_corpus_paths *paths, et_error *error);

/* Opens both sides; the paths are checked. */
int et_corpus_open(et_corpus **out, const et_corpus_paths *paths, et_error *error);
void et_corpus_close(et_corpus *corpus); /* NULL allowed */

/* The next pair. At the end, ET_EDATA if one side has more lines than the other (the error has both
 * counts), or if there are no lines. After a failure only close is allowed. */
int et_corpus_next(et_corpus *corpus, et_corpus_pair *pair, et_error *error);

/* Gives the source line of each pair, then its target line; *text NULL at the end. A callback for
 * et_vocabulary_train; payload is the corpus. */
int et_corpus_next_line(void *payload, const char **text, size_t *length, et_error *error);

/* The position of a pair: path and line (or record) of its source (or target) side. lines[i] is the
 * number of lines of file i of that side, as et_corpus_lines has it. path is borrowed from
 * paths. */
void et_corpus_locate(const et_corpus_paths *paths, const int64_t *lines, bool target,
                      int64_t index, const char **path, int64_t *line);

/* Number of files of one side (the same for both sides of a tsv and of records), and number of
 * lines of file i read so far. */
const et_strings *et_corpus_files(const et_corpus_paths *paths, bool target);
int64_t et_corpus_lines(const et_corpus *corpus, bool target, size_t file);

/* Counts of the pairs of a corpus. */
typedef struct et_corpus_counts {
    int64_t read;      /* in the files */
    int64_t kept;      /* in use */
    int64_t empty;     /* left out: a side without a token */
    int64_t too_long;  /* left out: a side longer than max_seq_length */
    int64_t lopsided;  /* left out, because the lengths of the sides differ by more than the
                          ratio */
    int64_t duplicate; /* left out: seen before, both sides */
    int64_t cut;       /* kept, but shortened by the reader (pairs.h); 0 for the corpus itself */
} et_corpus_counts;

/* Appends "33,214 pairs; 1,871 filtered (5.3 %): 1,640 too long, 231 empty". */
void et_corpus_counts_print(const et_corpus_counts *counts, et_strbuf *out);

/* ---- notes of earlier checks ---- */

/* Notes of earlier checks. Finding the key of a corpus reads its text, and checking its cache reads
 * the whole file; both take long for large data. After that, a small file next to the cache
 * (PATH.seen) notes the system's facts about each file: device, inode, length, times of the last
 * change. While these are the same, the key is taken from the note and the cache is trusted, as
 * make and git trust an unchanged file. Part of encoded.c.
 *
 * A file that changed in the last two seconds is not noted, because a later change could have the
 * same time. Notes are optional: a missing or damaged note, or one that cannot be written, is
 * ignored. */

typedef struct et_encoding_stamp {
    uint64_t stamp; /* of the system's facts about the files, and of facts */
    bool settled;   /* no file is as new that its time says little */
} et_encoding_stamp;

/* Reads the system's facts about the files of a corpus and its cache. facts: the parts of the key
 * besides text. false: a file is missing or not a regular file. */
bool et_encoding_stamp_take(et_encoding_stamp *seen, uint64_t facts, const et_corpus_paths *paths,
                            const char *cache_path);

/* The noted key for exactly these files; false: no such note. */
bool et_encoding_stamp_recall(const et_encoding_stamp *seen, const char *cache_path, uint64_t *key);

/* Notes the key of the files, if their last changes are old enough. */
void et_encoding_stamp_note(const et_encoding_stamp *seen, const char *cache_path, uint64_t key);

#endif
