/* What tests of data share: a fresh directory, files in it, generated text, log capture. Each
 * program includes it once, after cmocka.h. */
#ifndef ETUDE_TESTS_DATA_FIXTURE_H
#define ETUDE_TESTS_DATA_FIXTURE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "data/text/encoded.h"

/* Paths of files made in one directory of this process. */
typedef struct fixture {
    char directory[64];
    et_arena arena; /* of paths */
    char log[4096]; /* the last logged message */
    int logged;
} fixture;

static inline void keep_log(void *payload, et_log_level level, const char *text)
{
    fixture *f = payload;
    (void)level;
    snprintf(f->log, sizeof f->log, "%s", text);
    f->logged++;
}

static inline int fixture_open(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    strcpy(f->directory, "data-XXXXXX");
    if (!mkdtemp(f->directory))
        return -1;
    et_log_set(keep_log, f);
    *state = f;
    return 0;
}

static inline int fixture_close(void **state)
{
    fixture *f = *state;
    char command[128];
    et_log_set(NULL, NULL);
    snprintf(command, sizeof command, "rm -rf ./%s", f->directory);
    int status = system(command);
    et_arena_release(&f->arena);
    free(f);
    return status;
}

/* A path in the directory; valid as long as the fixture. */
static inline const char *fixture_path(fixture *f, const char *name)
{
    char *path = et_arena_printf(&f->arena, "%s/%s", f->directory, name);
    assert_non_null(path);
    return path;
}

static inline const char *write_bytes(fixture *f, const char *name, const void *bytes,
                                      size_t length)
{
    const char *path = fixture_path(f, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, length, file), length);
    assert_int_equal(fclose(file), 0);
    return path;
}

static inline const char *write_text(fixture *f, const char *name, const char *text)
{
    return write_bytes(f, name, text, strlen(text));
}

static inline const char *write_gzip(fixture *f, const char *name, const char *text)
{
    const char *path = fixture_path(f, name);
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
    assert_int_equal(gzclose(file), Z_OK);
    return path;
}

/* ---- generated text: words of a small made-up language, by a linear congruence ---- */

static inline unsigned roll(unsigned *seed, unsigned bound)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % bound;
}

static inline void append_word(et_strbuf *out, unsigned word, const char *const *syllables)
{
    do {
        et_strbuf_append(out, syllables[word % 12]);
        word /= 12;
    } while (word);
}

/* lines lines of 1 to longest words; source and target of a pair are of like length. */
static inline void make_corpus(et_strbuf *source, et_strbuf *target, int lines, int longest)
{
    static const char *const english[12] = { "ta", "ri",  "so", "men", "lo",   "ka",
                                             "ve", "dun", "pi", "gor", "ness", "al" };
    static const char *const german[12] = {
        "sch\xc3\xb6", "ber",      "un",  "keit", "ge",   "rau",
        "zi",          "\xc3\xbc", "hof", "lich", "stra", "mein"
    };
    unsigned seed = 7;
    for (int i = 0; i < lines; i++) {
        int words = 1 + (int)roll(&seed, (unsigned)longest);
        for (int word = 0; word < words; word++) {
            unsigned which = roll(&seed, 1 + roll(&seed, 900));
            append_word(source, which, english);
            append_word(target, which, german);
            et_strbuf_append_char(source, word + 1 < words ? ' ' : '\n');
            et_strbuf_append_char(target, word + 1 < words ? ' ' : '\n');
        }
    }
}

/* A generated corpus in two files, with the lists that name them. */
typedef struct parallel {
    const char *source, *target;
    et_corpus_paths paths; /* of the two members above: do not copy */
} parallel;

static inline void parallel_write(parallel *p, fixture *f, int lines, int longest)
{
    et_strbuf source = ET_STRBUF_INIT, target = ET_STRBUF_INIT;
    make_corpus(&source, &target, lines, longest);
    p->source = write_text(f, "train.en", source.data);
    p->target = write_text(f, "train.de", target.data);
    p->paths = (et_corpus_paths){ .source = { &p->source, 1 }, .target = { &p->target, 1 } };
    et_strbuf_release(&source);
    et_strbuf_release(&target);
}

static inline et_vocabulary *train_vocabulary(const et_corpus_paths *paths, int kind, int size)
{
    et_error error = ET_ERROR_INIT;
    et_corpus *corpus;
    et_vocabulary_options options = {
        .kind = kind, .size = size, .character_coverage = 1.0, .at_most = false
    };
    et_vocabulary *vocabulary = NULL;
    char *bytes;
    size_t length;
    assert_int_equal(et_corpus_open(&corpus, paths, &error), ET_OK);
    if (et_vocabulary_train(&bytes, &length, &options, et_corpus_next_line, corpus, &error))
        fail_msg("%s", error.text);
    et_corpus_close(corpus);
    assert_int_equal(et_vocabulary_parse(&vocabulary, bytes, length, "trained", &error), ET_OK);
    et_free(bytes);
    return vocabulary;
}

static inline void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text);
}

#endif
