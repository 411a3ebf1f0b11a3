/* The note of an earlier check: it is valid until a file is written. Files settle in two seconds,
 * so the cases share some files that are made once. */
#include "data/text/corpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/stat.h>

#include "data/fixture.h"

#define FACTS 77
#define KEY   UINT64_C(0x123456789abcdef0)

typedef struct world {
    fixture *files;
    et_corpus_paths paths;
    const char *source, *target, *cache;
    et_encoding_stamp seen;
} world;

static world w;

static et_encoding_stamp look(uint64_t facts)
{
    et_encoding_stamp seen;
    assert_true(et_encoding_stamp_take(&seen, facts, &w.paths, w.cache));
    return seen;
}

static bool recalls(uint64_t facts)
{
    uint64_t key;
    et_encoding_stamp seen = look(facts);
    bool known = et_encoding_stamp_recall(&seen, w.cache, &key);
    if (known)
        assert_int_equal(key, KEY);
    return known;
}

/* A new file is not noted; a settled one is, and its note is only valid for these facts. */
static void test_encoding_stamp__settles(void **state)
{
    (void)state;
    et_encoding_stamp fresh = look(FACTS);
    assert_false(fresh.settled);
    et_encoding_stamp_note(&fresh, w.cache, KEY);
    assert_false(recalls(FACTS));
    sleep(3);
    w.seen = look(FACTS);
    assert_true(w.seen.settled);
    assert_int_equal(w.seen.stamp, fresh.stamp);
    assert_false(recalls(FACTS));
    et_encoding_stamp_note(&w.seen, w.cache, KEY);
    assert_true(recalls(FACTS));
    assert_true(recalls(FACTS));
    assert_false(recalls(FACTS + 1));
}

/* Any bit, any length. */
static void test_encoding_stamp__damaged_note(void **state)
{
    (void)state;
    char *bytes;
    size_t length;
    const char *note = fixture_path(w.files, "pairs.seen");
    assert_int_equal(et_file_read(&bytes, &length, note, 1000, NULL), ET_OK);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        write_bytes(w.files, "pairs.seen", bytes, length);
        assert_false(recalls(FACTS));
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++) {
        write_bytes(w.files, "pairs.seen", bytes, cut);
        assert_false(recalls(FACTS));
    }
    write_bytes(w.files, "pairs.seen", bytes, length);
    assert_true(recalls(FACTS));
    et_free(bytes);
}

/* The same length and the same time of writing, set back by hand: still not the same. */
static void change_unseen(const char *path)
{
    struct stat before;
    assert_int_equal(stat(path, &before), 0);
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    assert_int_equal(fputc('#', file), '#');
    assert_int_equal(fclose(file), 0);
    const struct timespec times[2] = { before.st_atim, before.st_mtim };
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_false(recalls(FACTS));
    assert_false(look(FACTS).settled);
}

static void test_encoding_stamp__changes(void **state)
{
    (void)state;
    const char *const paths[] = { w.source, w.target, w.cache };
    for (size_t i = 0; i < 3; i++) {
        assert_true(recalls(FACTS) == (i == 0));
        change_unseen(paths[i]);
        et_encoding_stamp now = look(FACTS); /* as if it had settled */
        now.settled = true;
        et_encoding_stamp_note(&now, w.cache, KEY);
        assert_true(recalls(FACTS));
        et_encoding_stamp_note(&w.seen, w.cache, KEY);
    }
}

/* Missing files are not noted, and nothing is noted if no file may be written. */
static void test_encoding_stamp__not_there(void **state)
{
    (void)state;
    et_encoding_stamp seen;
    uint64_t key;
    const char *none = fixture_path(w.files, "none"), *pipe = fixture_path(w.files, "pipe");
    assert_false(et_encoding_stamp_take(&seen, FACTS, &w.paths, none));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_false(et_encoding_stamp_take(&seen, FACTS, &w.paths, pipe));
    et_corpus_paths two = w.paths;
    const char *const names[] = { w.source, none };
    two.source = (et_strings){ (const char **)names, 2 };
    assert_false(et_encoding_stamp_take(&seen, FACTS, &two, w.cache));
    const char *nowhere = fixture_path(w.files, "no/such/pairs");
    et_encoding_stamp_note(&w.seen, nowhere, KEY);
    assert_false(et_encoding_stamp_recall(&w.seen, nowhere, &key));
}

static int open_world(void **state)
{
    if (fixture_open(state))
        return 1;
    w.files = *state;
    w.source = write_text(w.files, "a", "one\n");
    w.target = write_text(w.files, "b", "eins\n");
    w.cache = write_text(w.files, "pairs", "pairs");
    w.paths.source = (et_strings){ &w.source, 1 };
    w.paths.target = (et_strings){ &w.target, 1 };
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoding_stamp__settles),
        cmocka_unit_test(test_encoding_stamp__damaged_note),
        cmocka_unit_test(test_encoding_stamp__changes),
        cmocka_unit_test(test_encoding_stamp__not_there),
    };
    return cmocka_run_group_tests(tests, open_world, fixture_close);
}
