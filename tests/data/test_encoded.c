#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <omp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/files/checksum.h"
#include "data/fixture.h"
#include "data/made_model.h"
#include "data/text/encoded.h"
#include "data/text/encoded_private.h"
#include "data/text/pairs.h"
#include "skip.h"

static const et_encoded_options any = { .max_seq_length = 0 };

static et_encoded *open_encoded(const et_corpus_paths *paths, const et_vocabulary *vocabulary,
                                const et_encoded_options *options, const char *cache)
{
    et_encoded *encoded = NULL;
    et_error error = ET_ERROR_INIT;
    if (et_encoded_open(&encoded, paths, (et_sides){ .source = vocabulary, .target = vocabulary },
                        options, cache, &error))
        fail_msg("%s", error.text);
    return encoded;
}

static void assert_same(const et_encoded *left, const et_encoded *right)
{
    assert_int_equal(left->pairs, right->pairs);
    assert_int_equal(left->width, right->width);
    assert_int_equal(left->key, right->key);
    assert_int_equal(left->sizes.longest_source, right->sizes.longest_source);
    assert_int_equal(left->sizes.longest_target, right->sizes.longest_target);
    assert_int_equal(left->sizes.source_tokens, right->sizes.source_tokens);
    assert_int_equal(left->sizes.target_tokens, right->sizes.target_tokens);
    assert_memory_equal(&left->counts, &right->counts, sizeof left->counts);
    assert_memory_equal(left->offsets, right->offsets, (2 * (size_t)left->pairs + 1) * 8);
    assert_memory_equal(left->lines, right->lines, (size_t)left->pairs * 4);
    assert_memory_equal(left->tokens, right->tokens,
                        left->offsets[2 * left->pairs] * (size_t)left->width);
}

/* The encoded tokens are the vocabulary's, with the end symbol, at the right line. */
static void test_encoded__matches_vocabulary(void **state)
{
    parallel p;
    parallel_write(&p, *state, 5000, 12); /* several chunks */
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 300);
    et_encoded *encoded = open_encoded(&p.paths, vocabulary, &any, NULL);
    et_tokens tokens = ET_TOKENS_INIT;
    et_corpus *corpus;
    et_corpus_pair pair;
    int32_t ids[1024];
    assert_int_equal(encoded->pairs, 5000);
    assert_int_equal(encoded->width, 2);
    assert_int_equal(et_corpus_open(&corpus, &p.paths, NULL), ET_OK);
    for (int64_t i = 0; i < encoded->pairs; i++) {
        assert_int_equal(et_corpus_next(corpus, &pair, NULL), ET_OK);
        assert_int_equal(encoded->lines[i], i);
        for (int side = 0; side < 2; side++) {
            const char *text = side ? pair.target : pair.source;
            size_t length = side ? pair.target_length : pair.source_length;
            et_vocabulary_encode(vocabulary, text, length, &tokens, NULL);
            int64_t count =
                side ? et_encoded_target_length(encoded, i) : et_encoded_source_length(encoded, i);
            assert_int_equal(count, tokens.count + 1);
            et_encoded_ids(encoded, i, side, ids);
            assert_memory_equal(ids, tokens.ids, tokens.count * sizeof *ids);
            assert_int_equal(ids[tokens.count], 1);
        }
    }
    et_corpus_close(corpus);
    et_tokens_release(&tokens);
    et_encoded_close(encoded);
    et_vocabulary_close(vocabulary);
}

/* Lengths here are in characters: the vocabulary is the alphabet. */
static const char *const filter_source = "a\nab\nabcdef\n\nabcd\na\nab\nb\n";
static const char *const filter_target = "b\nba\nb\na\nabcdefgh\nabcdef\nba\n\n";

static et_vocabulary *letters(fixture *f)
{
    const char *text = write_text(f, "letters", "ab cd ef gh\nhg fe dc ba\n");
    et_corpus_paths paths = { .source = { &text, 1 }, .target = { &text, 1 } };
    return train_vocabulary(&paths, ET_VOCABULARY_BPE, 12);
}

static void test_encoded__filter(void **state)
{
    const struct {
        et_encoded_options options;
        et_corpus_counts counts;
    } cases[] = {
        { { .max_seq_length = 0 }, { .read = 8, .kept = 6, .empty = 2 } },
        { { .max_seq_length = 8 }, { .read = 8, .kept = 5, .empty = 2, .too_long = 1 } },
        { { .max_seq_length = 7 }, { .read = 8, .kept = 3, .empty = 2, .too_long = 3 } },
        { { .max_ratio = 2 }, { .read = 8, .kept = 4, .empty = 2, .lopsided = 2 } },
        { { .deduplicate = true }, { .read = 8, .kept = 5, .empty = 2, .duplicate = 1 } },
        { { .max_seq_length = 0, .keep_all = true }, { .read = 8, .kept = 8 } },
        { { .max_ratio = 2, .keep_all = true }, { .read = 8, .kept = 8 } },
    };
    const char *en = write_text(*state, "f.en", filter_source);
    const char *de = write_text(*state, "f.de", filter_target);
    et_corpus_paths paths = { .source = { &en, 1 }, .target = { &de, 1 } };
    et_vocabulary *vocabulary = letters(*state);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_encoded *encoded = open_encoded(&paths, vocabulary, &cases[i].options, NULL);
        assert_memory_equal(&encoded->counts, &cases[i].counts, sizeof cases[i].counts);
        assert_int_equal(encoded->pairs, cases[i].counts.kept);
        if (cases[i].options.max_seq_length) {
            assert_true(encoded->sizes.longest_source <= cases[i].options.max_seq_length);
            assert_true(encoded->sizes.longest_target <= cases[i].options.max_seq_length);
        }
        et_encoded_close(encoded);
    }
    et_vocabulary_close(vocabulary);
}

/* The first pairs that the filter keeps, in memory and from a cache. Another limit has another key,
 * and pairs after the last one are not read. */
static void test_encoded__limit(void **state)
{
    parallel p;
    parallel_write(&p, *state, 5000, 12);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 300);
    const char *cache = fixture_path(*state, "limit.cache");
    const et_encoded_options all = { .max_seq_length = 12 };
    static const int64_t limits[] = { 1, 2047, 2048, 2049, 1000000 };
    et_encoded *whole = open_encoded(&p.paths, vocabulary, &all, NULL);
    assert_true(whole->pairs > 2049 && whole->counts.too_long > 0);
    uint64_t before = whole->key;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        et_encoded_options some = { .max_seq_length = 12, .limit = limits[i] };
        const int64_t pairs = limits[i] < whole->pairs ? limits[i] : whole->pairs;
        for (int time = 0; time < 2; time++) {
            et_encoded *encoded = open_encoded(&p.paths, vocabulary, &some, cache);
            assert_int_equal(encoded->from_cache, time);
            assert_int_equal(encoded->pairs, pairs);
            assert_true(encoded->key != before && encoded->key != whole->key);
            assert_memory_equal(encoded->lines, whole->lines, (size_t)pairs * sizeof *whole->lines);
            assert_memory_equal(encoded->offsets, whole->offsets,
                                (size_t)(2 * pairs + 1) * sizeof *whole->offsets);
            assert_memory_equal(encoded->tokens, whole->tokens,
                                whole->offsets[2 * pairs] * (size_t)whole->width);
            if (limits[i] == 1)
                assert_true(encoded->counts.read < 5000);
            if (time)
                before = encoded->key;
            et_encoded_close(encoded);
        }
    }
    et_encoded_close(whole);
    et_vocabulary_close(vocabulary);
}

/* Places count lines that were left out. */
static void test_encoded__locate(void **state)
{
    const char *source[] = { write_text(*state, "1.en", "a\n\n"),
                             write_text(*state, "2.en", "b\nc\n") };
    const char *target[] = { write_text(*state, "1.de", "a\na\nb\nc\n") };
    et_corpus_paths paths = { .source = { source, 2 }, .target = { target, 1 } };
    const char *cache = fixture_path(*state, "place.cache"), *path;
    et_vocabulary *vocabulary = letters(*state);
    int64_t line;
    for (int time = 0; time < 2; time++) {
        et_encoded *encoded = open_encoded(&paths, vocabulary, &any, cache);
        assert_int_equal(encoded->from_cache, time);
        assert_int_equal(encoded->pairs, 3);
        et_encoded_locate(encoded, 2, false, &path, &line);
        assert_string_equal(path, source[1]);
        assert_int_equal(line, 2);
        et_encoded_locate(encoded, 2, true, &path, &line);
        assert_string_equal(path, target[0]);
        assert_int_equal(line, 4);
        et_encoded_close(encoded);
    }
    et_vocabulary_close(vocabulary);
}

static void check_error(const et_corpus_paths *paths, const et_vocabulary *vocabulary,
                        const et_encoded_options *options, int status, const char *message)
{
    et_encoded *encoded;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_encoded_open(&encoded, paths,
                                     (et_sides){ .source = vocabulary, .target = vocabulary },
                                     options, NULL, &error),
                     status);
    assert_contains(error.text, message);
}

static void test_encoded__nothing_left(void **state)
{
    const char *en = write_text(*state, "f.en", "abcdef\nabcd\n");
    const char *empty = write_text(*state, "f.de", "\n\n");
    et_corpus_paths same = { .source = { &en, 1 }, .target = { &en, 1 } };
    et_corpus_paths half = { .source = { &en, 1 }, .target = { &empty, 1 } };
    et_corpus_paths missing = { .source = { &en, 1 } };
    et_vocabulary *vocabulary = letters(*state);
    check_error(
        &same, vocabulary, &(et_encoded_options){ .max_seq_length = 3 }, ET_EDATA,
        "(max_seq_length 3): 0 pairs; 2 filtered (100 %): 2 too long: raise max_seq_length");
    check_error(&half, vocabulary, &any, ET_EDATA, "2 empty: give lines with text");
    check_error(&missing, vocabulary, &any, ET_ECONFIG, "target_path is not");
    write_text(*state, "f.de", "a\n\xff\n");
    check_error(&half, vocabulary, &any, ET_EDATA, "f.de:2: byte 1");
    write_text(*state, "f.de", "a\n");
    check_error(&half, vocabulary, &any, ET_EDATA, "2 lines");
    et_vocabulary_close(vocabulary);
}

/* Any number of threads encodes to the same. */
static void test_encoded__threads(void **state)
{
    parallel p;
    parallel_write(&p, *state, 3000, 8);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_UNIGRAM, 200);
    int before = omp_get_max_threads();
    omp_set_num_threads(1);
    et_encoded *one = open_encoded(&p.paths, vocabulary, &any, NULL);
    for (int threads = 2; threads <= 5; threads += 3) {
        omp_set_num_threads(threads);
        et_encoded *several = open_encoded(&p.paths, vocabulary, &any, NULL);
        assert_same(one, several);
        et_encoded_close(several);
    }
    omp_set_num_threads(before);
    et_encoded_close(one);
    et_vocabulary_close(vocabulary);
}

/* ---- out of memory ---- */

/* The allocation after which none succeeds; counts down. */
typedef struct scarce {
    atomic_int left;
} scarce;

static void *scarce_allocate(void *payload, size_t size, size_t alignment)
{
    void *memory = NULL;
    if (atomic_fetch_sub(&((scarce *)payload)->left, 1) <= 0 ||
        posix_memalign(&memory, alignment < 16 ? 16 : alignment, size))
        return NULL;
    return memory;
}

static void *scarce_reallocate(void *payload, void *memory, size_t size)
{
    return atomic_fetch_sub(&((scarce *)payload)->left, 1) <= 0 ? NULL : realloc(memory, size);
}

static void scarce_release(void *payload, void *memory)
{
    (void)payload;
    free(memory);
}

/* From text to the first batch, through a prefetch thread. */
static int open_everything(const et_corpus_paths *paths, const et_vocabulary *vocabulary,
                           et_error *error)
{
    const et_encoded_options options = { .deduplicate = true };
    const et_batches_options order = {
        .shuffle = true, .bucket = true, .repeat = true, .capacity = { 20, 400, 400 }
    };
    et_encoded *encoded;
    et_source *plain = NULL, *source = NULL;
    int status =
        et_encoded_open(&encoded, paths, (et_sides){ .source = vocabulary, .target = vocabulary },
                        &options, NULL, error);
    if (status)
        return status;
    status = et_pair_batches_open(&plain, encoded, &order, error);
    if (!status)
        status = et_prefetch_open(&source, plain, 2, error);
    et_source_close(source ? source : plain);
    et_encoded_close(encoded);
    return status;
}

/* Whichever allocation is the first to fail: a status, and nothing lost (the address sanitizer
 * looks). */
static void test_encoded__out_of_memory(void **state)
{
    const char *en = write_gzip(*state, "m.en.gz", "tari so\nmen\n");
    const char *de = write_text(*state, "m.de", "tari so\nmen\n");
    et_corpus_paths paths = { .source = { &en, 1 }, .target = { &de, 1 } };
    et_vocabulary *vocabulary = train_vocabulary(&paths, ET_VOCABULARY_BPE, 14);
    scarce memory;
    const et_allocator hooks = { &memory, scarce_allocate, scarce_reallocate, scarce_release };
    int status = ET_ENOMEM, failures = 0;
    et_allocator_set(&hooks);
    while (status && failures < 200) {
        et_error error = ET_ERROR_INIT;
        atomic_store(&memory.left, failures);
        status = open_everything(&paths, vocabulary, &error);
        assert_true(status == ET_OK || status == ET_ENOMEM);
        failures += status != ET_OK;
    }
    et_allocator_set(NULL);
    assert_int_equal(status, ET_OK);
    assert_true(failures > 20);
    et_vocabulary_close(vocabulary);
}

/* ---- the cache ---- */

static void test_encoded__cache(void **state)
{
    fixture *f = *state;
    parallel p;
    parallel_write(&p, f, 300, 8);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 200);
    et_vocabulary *other = train_vocabulary(&p.paths, ET_VOCABULARY_UNIGRAM, 200);
    const char *cache = fixture_path(f, "pairs.cache");
    et_encoded_options shorter = { .max_seq_length = 20 };
    f->logged = 0;
    et_encoded *plain = open_encoded(&p.paths, vocabulary, &any, NULL);
    const struct {
        const et_vocabulary *vocabulary;
        const et_encoded_options *options;
        const char *more; /* text appended to the target */
        bool hit;
    } starts[] = {
        { vocabulary, &any, NULL, false },     { vocabulary, &any, NULL, true },
        { vocabulary, &shorter, NULL, false }, { vocabulary, &shorter, NULL, true },
        { other, &shorter, NULL, false },      { vocabulary, &any, NULL, false },
        { vocabulary, &any, NULL, true },
    };
    for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++) {
        et_encoded *encoded =
            open_encoded(&p.paths, starts[i].vocabulary, starts[i].options, cache);
        assert_int_equal(encoded->from_cache, starts[i].hit);
        if (starts[i].vocabulary == vocabulary && starts[i].options == &any)
            assert_same(plain, encoded);
        et_encoded_close(encoded);
    }
    et_strbuf source = ET_STRBUF_INIT, target = ET_STRBUF_INIT;
    make_corpus(&source, &target, 300, 8);
    target.data[0] = 'q';
    write_text(f, "train.de", target.data);
    et_encoded *changed = open_encoded(&p.paths, vocabulary, &any, cache);
    assert_false(changed->from_cache);
    assert_true(changed->key != plain->key);
    assert_int_equal(f->logged, 0);
    et_strbuf_release(&source);
    et_strbuf_release(&target);
    et_encoded_close(changed);
    et_encoded_close(plain);
    et_vocabulary_close(vocabulary);
    et_vocabulary_close(other);
}

/* A cache that was checked is opened by the system's facts about the files, and gives the same
 * result; not with another filter. */
static void test_encoded__seen(void **state)
{
    fixture *f = *state;
    parallel p;
    parallel_write(&p, f, 300, 8);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 200);
    const char *cache = fixture_path(f, "seen.cache"), *note = fixture_path(f, "seen.cache.seen");
    et_encoded *made = open_encoded(&p.paths, vocabulary, &any, cache);
    f->logged = 0;
    sleep(3); /* until files are old enough to be noted */
    for (int start = 0; start < 3; start++) {
        assert_int_equal(et_file_exists(note), start > 0);
        et_encoded *again = open_encoded(&p.paths, vocabulary, &any, cache);
        assert_true(again->from_cache);
        assert_same(made, again);
        et_encoded_close(again);
    }
    et_encoded_options shorter = { .max_seq_length = 20 };
    et_encoded *other = open_encoded(&p.paths, vocabulary, &shorter, cache);
    assert_false(other->from_cache);
    et_encoded_close(other);
    other = open_encoded(&p.paths, vocabulary, &any, cache);
    assert_false(other->from_cache);
    assert_same(made, other);
    assert_int_equal(f->logged, 0);
    et_encoded_close(other);
    et_encoded_close(made);
    et_vocabulary_close(vocabulary);
}

static char *read_whole(const char *path, size_t *length)
{
    char *bytes;
    assert_int_equal(et_file_read(&bytes, length, path, 1 << 24, NULL), ET_OK);
    return bytes;
}

/* Opens with a cache file of these bytes: it must not be used, and must be made again. */
static void check_damaged(fixture *f, const parallel *p, const et_vocabulary *vocabulary,
                          const et_encoded *good, const void *bytes, size_t length)
{
    const char *cache = write_bytes(f, "damaged.cache", bytes, length);
    f->logged = 0;
    et_encoded *encoded = open_encoded(&p->paths, vocabulary, &any, cache);
    assert_false(encoded->from_cache);
    assert_int_equal(f->logged, 1);
    assert_contains(f->log, "damaged.cache is damaged");
    assert_same(good, encoded);
    et_encoded_close(encoded);
}

static bool is_faulty(const void *bytes, size_t length, uint64_t key)
{
    const et_mapping mapping = { bytes, length };
    const size_t files[2] = { 1, 1 };
    const uint32_t tokens[2] = { 30, 30 };
    bool current;
    return et_encoded_file_fault(&mapping, key, files, tokens, &current) != NULL;
}

/* Any bit, any length: looked at in memory, and some of them from a file. */
static void test_encoded__damaged_cache(void **state)
{
    fixture *f = *state;
    parallel p;
    size_t length;
    parallel_write(&p, f, 3, 3);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 30);
    const char *cache = fixture_path(f, "good.cache");
    et_encoded *good = open_encoded(&p.paths, vocabulary, &any, cache);
    char *bytes = read_whole(cache, &length);
    assert_false(is_faulty(bytes, length, good->key));
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        assert_true(is_faulty(bytes, length, good->key));
        if (bit % 97 == 0)
            check_damaged(f, &p, vocabulary, good, bytes, length);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < length; cut++) {
        assert_true(is_faulty(bytes, cut, good->key));
        if (cut % 13 == 0)
            check_damaged(f, &p, vocabulary, good, bytes, cut);
    }
    char *longer = calloc(1, length + 8);
    memcpy(longer, bytes, length);
    check_damaged(f, &p, vocabulary, good, longer, length + 8);
    free(longer);
    et_free(bytes);
    et_encoded_close(good);
    et_vocabulary_close(vocabulary);
}

static void seal(char *bytes, size_t length)
{
    et_encoded_header *head = (et_encoded_header *)bytes;
    head->payload = et_checksum(head + 1, length - sizeof *head);
    head->header_checksum = et_checksum(head, offsetof(et_encoded_header, header_checksum));
}

/* Checksums that fit, contents that do not. */
static void test_encoded__hostile_cache(void **state)
{
    fixture *f = *state;
    parallel p;
    size_t length;
    parallel_write(&p, f, 20, 3);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 40);
    const char *cache = fixture_path(f, "good.cache");
    et_encoded *good = open_encoded(&p.paths, vocabulary, &any, cache);
    char *bytes = read_whole(cache, &length);
    const size_t offsets = sizeof(et_encoded_header), lines = offsets + 41 * 8 + 16;
    const struct {
        size_t at, width;
        uint64_t value;
    } cases[] = {
        { offsetof(et_encoded_header, pairs), 8, 0 },
        { offsetof(et_encoded_header, pairs), 8, UINT64_MAX },
        { offsetof(et_encoded_header, pairs), 8, (uint64_t)1 << 61 },
        { offsetof(et_encoded_header, tokens), 8, UINT64_MAX },
        { offsetof(et_encoded_header, tokens), 8, (uint64_t)1 << 63 },
        { offsetof(et_encoded_header, width), 4, 0 },
        { offsetof(et_encoded_header, width), 4, 4 },
        { offsetof(et_encoded_header, source_files), 8, 2 },
        { offsetof(et_encoded_header, target_files), 8, UINT64_MAX },
        { offsets, 8, 1 },
        { offsets + 8, 8, UINT64_MAX },
        { offsets + 40 * 8, 8, 0 },
        { lines, 4, 20 },
        { lines + 20 * 4, 2, 40 },
        { offsetof(et_encoded_header, sizes.source_tokens), 8, 1 },
        { offsetof(et_encoded_header, sizes.longest_target), 8, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *copy = malloc(length);
        memcpy(copy, bytes, length);
        memcpy(copy + cases[i].at, &cases[i].value, cases[i].width);
        seal(copy, length);
        check_damaged(f, &p, vocabulary, good, copy, length);
        free(copy);
    }
    et_free(bytes);
    et_encoded_close(good);
    et_vocabulary_close(vocabulary);
}

/* Symbols with other ids than in a trained vocabulary. */
static et_vocabulary *made_letters(void)
{
    static const token tokens[] = { { "<unk>", UNKNOWN }, { "a", NORMAL },     { "b", NORMAL },
                                    { "<end>", CONTROL }, { "<go>", CONTROL }, { "c", NORMAL },
                                    { NULL, 0 } };
    et_strbuf model = ET_STRBUF_INIT;
    et_vocabulary *vocabulary = NULL;
    put_model(&model, tokens, "<go>", "<end>", NULL);
    assert_int_equal(
        et_vocabulary_parse(&vocabulary, et_strbuf_text(&model), model.length, "made", NULL),
        ET_OK);
    et_strbuf_release(&model);
    return vocabulary;
}

static et_encoded *open_sides(const et_corpus_paths *paths, et_sides sides, const char *cache)
{
    et_encoded *encoded = NULL;
    et_error error = ET_ERROR_INIT;
    if (et_encoded_open(&encoded, paths, sides, &any, cache, &error))
        fail_msg("%s", error.text);
    return encoded;
}

/* Largest id of a side, EOS left out. */
static uint32_t largest_of(const et_encoded *encoded, bool target)
{
    int32_t ids[64], largest = 0;
    for (int64_t i = 0; i < encoded->pairs; i++) {
        et_encoded_ids(encoded, i, target, ids);
        int64_t length =
            target ? et_encoded_target_length(encoded, i) : et_encoded_source_length(encoded, i);
        assert_int_equal(ids[length - 1], encoded->eos[target]);
        for (int64_t k = 0; k + 1 < length; k++)
            largest = ids[k] > largest ? ids[k] : largest;
    }
    return (uint32_t)largest;
}

/* Each side is cut and ended by its own vocabulary, and the key depends on which side has which. */
static void test_encoded__sides(void **state)
{
    fixture *f = *state;
    const char *en = write_text(f, "s.en", "ab ef\nhg\n"), *de = write_text(f, "s.de", "ab\nc\n");
    const size_t files[2] = { 1, 1 };
    et_corpus_paths paths = { .source = { &en, 1 }, .target = { &de, 1 } };
    et_vocabulary *left = letters(f), *right = made_letters();
    const et_sides sides[] = { { .source = left, .target = right },
                               { .source = right, .target = left },
                               { .source = left, .target = left },
                               { .source = right, .target = right } };
    const char *cache = fixture_path(f, "sides.cache");
    uint64_t keys[4];
    f->logged = 0;
    for (int i = 0; i < 4; i++)
        for (int time = 0; time < 2; time++) {
            et_encoded *encoded = open_sides(&paths, sides[i], cache);
            assert_int_equal(encoded->from_cache, time);
            assert_int_equal(encoded->eos[0], et_vocabulary_eos(sides[i].source));
            assert_int_equal(encoded->eos[1], et_vocabulary_eos(sides[i].target));
            assert_int_equal(encoded->start, et_vocabulary_start(sides[i].target));
            keys[i] = encoded->key;
            et_encoded_close(encoded);
        }
    assert_int_equal(f->logged, 0);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_true(keys[i] != keys[k]);
    /* An id that only one side's vocabulary has is invalid on the other side. */
    et_mapping mapping;
    bool current;
    et_encoded *encoded = open_sides(&paths, sides[0], NULL);
    const uint32_t most[2] = { largest_of(encoded, false), largest_of(encoded, true) };
    assert_true(most[0] > most[1]);
    et_encoded_close(open_sides(&paths, sides[0], cache));
    assert_int_equal(et_mapping_open(&mapping, cache, NULL), ET_OK);
    for (uint32_t less = 0; less < 3; less++) {
        const uint32_t tokens[2] = { most[0] + 1 - (less == 1), most[1] + 1 - (less == 2) };
        const char *fault = et_encoded_file_fault(&mapping, keys[0], files, tokens, &current);
        assert_true(current);
        assert_true(less ? fault && !strcmp(fault, "ids") : !fault);
    }
    et_mapping_close(&mapping);
    et_encoded_close(encoded);
    et_vocabulary_close(left);
    et_vocabulary_close(right);
}

static void check_unwritable(fixture *f, const parallel *p, const et_vocabulary *vocabulary,
                             const char *cache)
{
    f->logged = 0;
    et_encoded *encoded = open_encoded(&p->paths, vocabulary, &any, cache);
    assert_int_equal(encoded->pairs, 100);
    assert_int_equal(f->logged, 1);
    assert_contains(f->log, "for the next start");
    et_encoded_close(encoded);
    assert_false(et_file_exists(cache));
}

/* If there is no room for a cache, the call succeeds and leaves no file. */
static void test_encoded__unwritable_cache(void **state)
{
    fixture *f = *state;
    parallel p;
    struct rlimit before, small;
    parallel_write(&p, f, 100, 8);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 150);
    check_unwritable(f, &p, vocabulary, fixture_path(f, "no/such/pairs.cache"));
    /* A file may not grow past 1 kB, as with a full disk or a quota. */
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 1024;
    setrlimit(RLIMIT_FSIZE, &small);
    check_unwritable(f, &p, vocabulary, fixture_path(f, "full.cache"));
    setrlimit(RLIMIT_FSIZE, &before);
    et_vocabulary_close(vocabulary);
}

static void test_encoded__read_only_directory(void **state)
{
    fixture *f = *state;
    parallel p;
    if (geteuid() == 0)
        test_skip("root may write everywhere");
    parallel_write(&p, f, 100, 8);
    et_vocabulary *vocabulary = train_vocabulary(&p.paths, ET_VOCABULARY_BPE, 150);
    const char *directory = fixture_path(f, "locked");
    assert_int_equal(mkdir(directory, 0500), 0);
    check_unwritable(f, &p, vocabulary, fixture_path(f, "locked/pairs.cache"));
    et_vocabulary_close(vocabulary);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoded__matches_vocabulary),
        cmocka_unit_test(test_encoded__limit),
        cmocka_unit_test(test_encoded__filter),
        cmocka_unit_test(test_encoded__locate),
        cmocka_unit_test(test_encoded__nothing_left),
        cmocka_unit_test(test_encoded__threads),
        cmocka_unit_test(test_encoded__out_of_memory),
        cmocka_unit_test(test_encoded__seen),
        cmocka_unit_test(test_encoded__cache),
        cmocka_unit_test(test_encoded__damaged_cache),
        cmocka_unit_test(test_encoded__hostile_cache),
        cmocka_unit_test(test_encoded__sides),
        cmocka_unit_test(test_encoded__unwritable_cache),
        cmocka_unit_test(test_encoded__read_only_directory),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
