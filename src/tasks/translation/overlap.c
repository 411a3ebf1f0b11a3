/* Languages are compared by byte 4-grams, without words. Let p and q be the frequencies of a 4-gram
 * in the sources and in the targets of the training text. The score of a side of a test text is the
 * mean of log(p / q) over its 4-grams. A score above 0 means that the side resembles the
 * sources. */
#include "tasks/translation/overlap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/vector.h"

/* Number of pairs, from the first one, whose sides are compared. */
#define COMPARED 100000
/* Share of equal pairs from which a warning is printed. Names, numbers and commands are often
 * equal. */
#define EQUAL_SHARE 0.2
#define EQUAL_LEAST 5
/* Share of training pairs among the tested pairs from which a warning is printed. */
#define SEEN_SHARE 0.01
/* Bytes of training files that an evaluation reads. */
#define FILES_MOST ((int64_t)256 << 20)
/* Pairs by which languages are compared, 4-grams they need, and the least |mean|. */
#define PROFILED    5000
#define GRAM        4
#define GRAMS       65536
#define GRAMS_LEAST 500
#define CLEAR       0.3

/* A tested pair, or its source, by hash. */
typedef struct known {
    uint64_t hash;
    int set;
    bool seen; /* in the training text */
} known;

typedef struct profile {
    int64_t count[2][GRAMS], all[2]; /* of sources, of targets */
} profile;

typedef struct overlap {
    const et_overlap_texts *texts;
    known *known[2]; /* [pairs] sources, pairs; ascending */
    size_t room[2];
    int64_t pairs;    /* of all tested texts */
    int64_t compared; /* pairs with text on both sides, of the text that is read */
    int64_t equal;    /* pairs with equal sides */
    profile *of;      /* of the training text */
    double rating[2]; /* sum of log(p / q) of the sources and the targets of a tested text */
    int64_t grams[2]; /* their 4-grams */
} overlap;

/* ---- pairs ---- */

static uint64_t hash_of(const et_corpus_pair *pair, bool both)
{
    const uint64_t hash[] = { et_checksum(pair->source, pair->source_length),
                              et_checksum(pair->target, pair->target_length) };
    return both ? et_checksum(hash, sizeof hash) : hash[0];
}

static void compare_sides(overlap *o, const et_corpus_pair *pair)
{
    if (o->compared == COMPARED || !pair->source_length || !pair->target_length)
        return;
    o->compared++;
    o->equal += pair->source_length == pair->target_length &&
                !memcmp(pair->source, pair->target, pair->source_length);
}

ET_SORT_BY(by_hash, known, ET_UP(hash), 0)

/* ---- languages ---- */

static unsigned gram_at(const char *text)
{
    uint32_t bytes;
    memcpy(&bytes, text, sizeof bytes);
    return bytes * 2654435761u >> 16; /* Fibonacci hashing to 16 bits */
}

static void add_profile(profile *p, int side, const char *text, size_t length)
{
    for (size_t i = 0; i + GRAM <= length; i++) {
        p->count[side][gram_at(text + i)]++;
        p->all[side]++;
    }
}

/* ---- reading ---- */

/* False: no memory. */
typedef bool visit_fn(overlap *o, const et_corpus_pair *pair, int set);

static bool see_tested(overlap *o, const et_corpus_pair *pair, int set)
{
    compare_sides(o, pair);
    for (int both = 0; both < 2; both++) {
        if (!ET_VECTOR_GROW(o->known[both], o->room[both], (size_t)o->pairs + 1))
            return false;
        o->known[both][o->pairs] = (known){ hash_of(pair, both), set, false };
    }
    o->pairs++;
    for (int side = 0; side < 2 && o->of->all[0] && pair->index < PROFILED; side++) {
        const profile *p = o->of;
        for (size_t i = 0; i + GRAM <= (side ? pair->target_length : pair->source_length); i++) {
            const unsigned gram = gram_at((side ? pair->target : pair->source) + i);
            o->rating[side] += log(((double)p->count[0][gram] + 0.5) / ((double)p->all[0] + 1)) -
                               log(((double)p->count[1][gram] + 0.5) / ((double)p->all[1] + 1));
            o->grams[side]++;
        }
    }
    return true;
}

static bool see_profile(overlap *o, const et_corpus_pair *pair, int set)
{
    (void)set;
    add_profile(o->of, 0, pair->source, pair->source_length);
    add_profile(o->of, 1, pair->target, pair->target_length);
    return true;
}

static bool see_training(overlap *o, const et_corpus_pair *pair, int set)
{
    (void)set;
    compare_sides(o, pair);
    for (int both = 0; both < 2 && o->pairs; both++) {
        known *of = o->known[both];
        const known key = { .hash = hash_of(pair, both) };
        known *at = bsearch(&key, of, o->pairs, sizeof *of, by_hash);
        while (at && at > of && at[-1].hash == key.hash)
            at--;
        for (; at && at < of + o->pairs && at->hash == key.hash; at++)
            at->seen = true;
    }
    return true;
}

/* Up to most pairs; 0: all. */
static int read_text(overlap *o, const et_corpus_paths *paths, visit_fn *visit, int set,
                     int64_t most, et_error *error)
{
    const volatile sig_atomic_t *stop = o->texts->stop;
    et_corpus *corpus;
    et_corpus_pair pair;
    et_corpus_paths plain = *paths;
    plain.augment = (et_augment){ { 0 } };
    plain.tag = NULL;
    o->compared = o->equal = 0;
    int status = et_corpus_open(&corpus, &plain, error);
    if (status)
        return status;
    for (int64_t i = 0; !status && (!most || i < most) && !(stop && *stop); i++) {
        status = et_corpus_next(corpus, &pair, error);
        if (status || !pair.source)
            break;
        if (!visit(o, &pair, set))
            status = et_alloc_failed(error, "pairs");
    }
    et_corpus_close(corpus);
    return status;
}

/* ---- warnings ---- */

static void tell_equal(const overlap *o, const et_corpus_paths *paths, bool trained)
{
    if (o->equal < EQUAL_LEAST || (double)o->equal < EQUAL_SHARE * (double)o->compared)
        return;
    const et_strings *source = et_corpus_files(paths, false),
                     *target = et_corpus_files(paths, true);
    et_log(ET_LOG_WARNING,
           "%s: source and target are equal in %s of %s%s: %s; name the translation as the "
           "target%s%s%s, or remove these pairs",
           source->items[0], et_format_count(o->equal).text,
           o->compared == COMPARED ? "the first " : "", et_format_many(o->compared, "pair").text,
           trained ? "they teach the model to copy"
                   : "their scores only show how well the model copies",
           source == target ? "" : " (now ", source == target ? "" : target->items[0],
           source == target ? "" : ")");
}

static int64_t count_seen(const overlap *o, bool both, int set, int64_t *pairs)
{
    int64_t seen = 0;
    *pairs = 0;
    for (int64_t i = 0; i < o->pairs; i++) {
        *pairs += o->known[both][i].set == set;
        seen += o->known[both][i].set == set && o->known[both][i].seen;
    }
    return seen;
}

static void tell_seen(const overlap *o, int set)
{
    const et_corpus_paths *paths = &o->texts->tested[set].paths;
    int64_t pairs;
    const int64_t sources = count_seen(o, false, set, &pairs),
                  both = count_seen(o, true, set, &pairs);
    char more[100] = "";
    if (!sources || (double)sources < SEEN_SHARE * (double)pairs)
        return;
    if (both && sources > both)
        snprintf(more, sizeof more, ", %s more have a source of the training text",
                 et_format_count(sources - both).text);
    et_log(ET_LOG_WARNING,
           "%s: %s of %s %s%s, so scores are better than for new text; remove these pairs from the "
           "training text",
           et_corpus_files(paths, false)->items[0], et_format_count(both ? both : sources).text,
           et_format_many(pairs, "pair").text,
           both ? "are also training pairs" : "have a source of the training text", more);
}

/* ---- all ---- */

static bool is_tagged(const et_corpus_paths *paths)
{
    return paths->tag_column || (paths->tag && *paths->tag);
}

static int read_tested(overlap *o, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < o->texts->tested_count && !status; i++) {
        const et_corpus_paths *paths = &o->texts->tested[i].paths;
        memset(o->rating, 0, sizeof o->rating);
        memset(o->grams, 0, sizeof o->grams);
        status = read_text(o, paths, see_tested, i, 0, error);
        if (status)
            break;
        tell_equal(o, paths, false);
        if (!is_tagged(paths) && o->grams[0] >= GRAMS_LEAST && o->grams[1] >= GRAMS_LEAST &&
            o->rating[0] / (double)o->grams[0] < -CLEAR &&
            o->rating[1] / (double)o->grams[1] > CLEAR)
            et_log(ET_LOG_WARNING,
                   "%s: the languages seem to be swapped: the source looks like the target of the "
                   "training text, and the target like its source; name the files in the other "
                   "order",
                   et_corpus_files(paths, false)->items[0]);
    }
    for (int both = 0; both < 2 && o->pairs; both++)
        qsort(o->known[both], o->pairs, sizeof(known), by_hash);
    return status;
}

/* The training files of an evaluated model, if they exist and are not large. */
static bool find_training(et_translation_input *training, const et_translation_data *data)
{
    et_error unread = ET_ERROR_INIT;
    int64_t bytes = 0;
    if (et_translation_input_open(training, "train_data", data, &unread))
        return false;
    for (size_t i = 0; i < training->count; i++)
        for (int target = 0; target < 2; target++) {
            const et_strings *files = et_corpus_files(&training->texts[i].paths, target);
            struct stat facts;
            for (size_t k = 0; k < files->count; k++) {
                if (stat(files->items[k], &facts))
                    return false;
                bytes += (int64_t)facts.st_size;
            }
        }
    return bytes <= FILES_MOST;
}

int et_translation_tell_overlap(const et_overlap_texts *texts, et_error *error)
{
    et_assert(texts->train_data && (texts->tested || !texts->tested_count));
    et_translation_input own = { .arena = ET_ARENA_INIT };
    const et_translation_input none = { .count = 0 }, *training = texts->training;
    et_error unread = ET_ERROR_INIT;
    overlap o = { .texts = texts, .of = et_alloc_zero(1, sizeof(profile)) };
    if (!o.of)
        return et_alloc_failed(error, "pairs");
    if (!training)
        training = find_training(&own, texts->train_data) ? &own : &none;
    /* A file that cannot be read ends the warnings; whoever needs the file says so. */
    const int64_t limit = o.texts->train_data->limit;
    /* Several texts, and texts with tags, may have several directions. */
    int status = training->count != 1 || is_tagged(&training->texts[0].paths)
                     ? ET_OK
                     : read_text(&o, &training->texts[0].paths, see_profile, 0, PROFILED, &unread);
    if (!status)
        status = read_tested(&o, &unread);
    for (size_t i = 0; i < training->count && !status; i++) {
        const et_corpus_paths *paths = &training->texts[i].paths;
        status =
            read_text(&o, paths, see_training, 0, limit || o.pairs ? limit : COMPARED, &unread);
        if (!status && o.texts->training)
            tell_equal(&o, paths, true);
    }
    for (int i = 0; i < o.texts->tested_count && !status; i++)
        tell_seen(&o, i);
    status = status == ET_ENOMEM ? et_fail(error, status, "%s", unread.text) : ET_OK;
    et_translation_input_close(&own);
    et_free(o.of);
    et_free(o.known[0]);
    et_free(o.known[1]);
    return status;
}
