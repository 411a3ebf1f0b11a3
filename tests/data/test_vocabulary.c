#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/resource.h>
#include <sys/wait.h>

#include "data/fixture.h"
#include "data/made_model.h"
#include "data/text/vocabulary/vocabulary.h"
#include "sanitized.h"
#include "skip.h"

/* A list of lines that ends in NULL, as et_vocabulary_train reads it. */
static int next_of_list(void *payload, const char **text, size_t *length, et_error *error)
{
    const char *const **list = payload;
    (void)error;
    *text = **list;
    if (*text) {
        *length = strlen(*text);
        (*list)++;
    }
    return ET_OK;
}

static int train_list(char **bytes, size_t *length, const char *const *list, int kind, int size,
                      et_error *error)
{
    et_vocabulary_options options = {
        .kind = kind, .size = size, .character_coverage = 1.0, .at_most = false
    };
    return et_vocabulary_train(bytes, length, &options, next_of_list, &list, error);
}

/* A model of generated text; free with et_free. */
static char *train_bytes(fixture *f, int kind, int size, size_t *length)
{
    parallel p;
    et_corpus *corpus;
    et_error error = ET_ERROR_INIT;
    et_vocabulary_options options = {
        .kind = kind, .size = size, .character_coverage = 0.9995, .at_most = false
    };
    char *bytes = NULL;
    parallel_write(&p, f, 800, 12);
    assert_int_equal(et_corpus_open(&corpus, &p.paths, &error), ET_OK);
    if (et_vocabulary_train(&bytes, length, &options, et_corpus_next_line, corpus, &error))
        fail_msg("%s", error.text);
    et_corpus_close(corpus);
    return bytes;
}

static void check_round_trip(const et_vocabulary *vocabulary, const char *text)
{
    et_tokens tokens = ET_TOKENS_INIT;
    et_strbuf back = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_vocabulary_encode(vocabulary, text, strlen(text), &tokens, &error), ET_OK);
    for (size_t i = 0; i < tokens.count; i++)
        assert_in_range(tokens.ids[i], 2, et_vocabulary_size(vocabulary) - 1);
    assert_int_equal(et_vocabulary_decode(vocabulary, tokens.ids, tokens.count, &back, &error),
                     ET_OK);
    assert_string_equal(et_strbuf_text(&back), text);
    et_strbuf_release(&back);
    et_tokens_release(&tokens);
}

static void check_kind(fixture *f, int kind, const char *name)
{
    size_t length;
    et_vocabulary *vocabulary;
    et_error error = ET_ERROR_INIT;
    char *bytes = train_bytes(f, kind, 300, &length);
    assert_int_equal(et_vocabulary_parse(&vocabulary, bytes, length, "it", &error), ET_OK);
    et_free(bytes);
    assert_int_equal(et_vocabulary_size(vocabulary), 300);
    assert_int_equal(et_vocabulary_pad(vocabulary), 0);
    assert_int_equal(et_vocabulary_eos(vocabulary), 1);
    assert_int_equal(et_vocabulary_unk(vocabulary), 2);
    assert_int_equal(et_vocabulary_bos(vocabulary), -1);
    assert_int_equal(et_vocabulary_start(vocabulary), 0);
    assert_string_equal(et_vocabulary_kind(vocabulary), name);
    assert_string_equal(et_vocabulary_token(vocabulary, 1), "</s>");
    assert_string_equal(et_vocabulary_token(vocabulary, -1), "");
    assert_string_equal(et_vocabulary_token(vocabulary, 300), "");
    check_round_trip(vocabulary, "");
    check_round_trip(vocabulary, "tari somen loka");
    check_round_trip(vocabulary, "sch\xc3\xb6"
                                 "ber zi\xc3\xbchof");
    et_vocabulary_close(vocabulary);
}

static void test_vocabulary__kinds(void **state)
{
    check_kind(*state, ET_VOCABULARY_BPE, "bpe");
    check_kind(*state, ET_VOCABULARY_UNIGRAM, "unigram");
}

static void test_vocabulary__same_bytes_again(void **state)
{
    for (int kind = 0; kind < 2; kind++) {
        size_t first, second;
        char *a = train_bytes(*state, kind, 250, &first);
        char *b = train_bytes(*state, kind, 250, &second);
        assert_int_equal(first, second);
        assert_memory_equal(a, b, first);
        et_free(a);
        et_free(b);
    }
}

/* Text that no token covers comes out as an unknown; control symbols give nothing. */
static void test_vocabulary__unknown(void **state)
{
    size_t length;
    et_vocabulary *vocabulary;
    et_tokens tokens = ET_TOKENS_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    et_error error = ET_ERROR_INIT;
    char *bytes = train_bytes(*state, ET_VOCABULARY_BPE, 300, &length);
    assert_int_equal(et_vocabulary_parse(&vocabulary, bytes, length, "it", NULL), ET_OK);
    et_free(bytes);
    const char *snow = "\xe2\x98\x83";
    assert_int_equal(et_vocabulary_encode(vocabulary, snow, 3, &tokens, NULL), ET_OK);
    assert_int_equal(tokens.ids[tokens.count - 1], et_vocabulary_unk(vocabulary));
    const int32_t control[] = { 0, 1 };
    assert_int_equal(et_vocabulary_decode(vocabulary, control, 2, &text, NULL), ET_OK);
    assert_string_equal(et_strbuf_text(&text), "");
    const int32_t outside[] = { 3, 300 }, negative[] = { -1 };
    assert_int_equal(et_vocabulary_decode(vocabulary, outside, 2, &text, &error), ET_EDATA);
    assert_contains(error.text, "token 300 is not in the vocabulary of 300");
    assert_int_equal(et_vocabulary_decode(vocabulary, negative, 1, &text, &error), ET_EDATA);
    et_strbuf_release(&text);
    et_tokens_release(&tokens);
    et_vocabulary_close(vocabulary);
}

static const char *const few_lines[] = { "the cat sat on the mat", "the dog sat on the log",
                                         "a cat and a dog", NULL };

/* The number after marker in a message, commas left out. */
static int number_in(const char *message, const char *marker)
{
    int number = 0;
    const char *at = strstr(message, marker);
    assert_non_null(at);
    for (at += strlen(marker); *at == ',' || (*at >= '0' && *at <= '9'); at++)
        if (*at != ',')
            number = 10 * number + (*at - '0');
    return number;
}

/* The largest size that the message names works, and so does the smallest. */
static void test_vocabulary__size_and_text(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        char *bytes;
        size_t length;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(train_list(&bytes, &length, few_lines, kind, 10000, &error), ET_ECONFIG);
        assert_contains(error.text, "a vocabulary of 10,000 tokens is larger than the text");
        int largest = number_in(error.text, "set its size to ");
        assert_int_equal(train_list(&bytes, &length, few_lines, kind, largest, &error), ET_OK);
        et_free(bytes);
        assert_int_equal(train_list(&bytes, &length, few_lines, kind, 5, &error), ET_ECONFIG);
        assert_contains(error.text, "smaller than the text's characters need");
        int smallest = number_in(error.text, "at least ");
        assert_true(smallest <= largest);
        assert_int_equal(train_list(&bytes, &length, few_lines, kind, smallest, &error), ET_OK);
        et_free(bytes);
    }
}

/* A line that is too long for SentencePiece is skipped, with a message; the vocabulary is the one
 * without that line. */
static void test_vocabulary__long_lines(void **state)
{
    fixture *f = *state;
    static char longest[4193 + 1], longer[4194 + 1];
    const char *const lines[] = { "ab cd ef", "gh ab", longest, longer, longer, NULL };
    char *bytes;
    size_t length;
    memset(longest, 'a', sizeof longest - 2);
    memset(longer, 'q', sizeof longer - 2);
    et_error error = ET_ERROR_INIT;
    f->logged = 0;
    assert_int_equal(train_list(&bytes, &length, lines, ET_VOCABULARY_BPE, 14, &error), ET_OK);
    assert_int_equal(f->logged, 1);
    assert_contains(
        f->log,
        "the vocabulary training skips 2 lines of more than 4,192 bytes; split these lines");
    et_free(bytes);
}

/* A limit gives, byte for byte, the vocabulary of the largest possible size; a limit that the text
 * reaches gives that size. */
static void test_vocabulary__at_most(void **state)
{
    (void)state;
    for (int kind = 0; kind < 2; kind++) {
        char *asked, *limited;
        size_t asked_length, limited_length;
        et_error error = ET_ERROR_INIT;
        assert_int_equal(train_list(&asked, &asked_length, few_lines, kind, 10000, &error),
                         ET_ECONFIG);
        int largest = number_in(error.text, "set its size to ");
        for (int size = 10000; size > largest - 2; size = size > largest ? largest : size - 1) {
            const char *const *list = few_lines;
            et_vocabulary_options options = {
                .kind = kind, .size = size, .character_coverage = 1.0, .at_most = true
            };
            int expected = size < largest ? size : largest;
            assert_int_equal(train_list(&asked, &asked_length, few_lines, kind, expected, &error),
                             ET_OK);
            if (et_vocabulary_train(&limited, &limited_length, &options, next_of_list, &list,
                                    &error))
                fail_msg("%s", error.text);
            assert_int_equal(limited_length, asked_length);
            assert_memory_equal(limited, asked, asked_length);
            et_free(limited);
            et_free(asked);
        }
    }
}

static void test_vocabulary__options(void **state)
{
    (void)state;
    const char *const blank[] = { "", "  ", NULL }, *const none[] = { NULL };
    const et_vocabulary_options bad[] = {
        { .size = 3, .character_coverage = 1.0 },   { .size = -1, .character_coverage = 1.0 },
        { .size = 100, .character_coverage = 0.0 }, { .size = 100, .character_coverage = 1.5 },
        { .size = 100, .character_coverage = 0.5 },
    };
    char *bytes;
    size_t length;
    et_error error = ET_ERROR_INIT;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const char *const *list = few_lines;
        assert_int_equal(et_vocabulary_train(&bytes, &length, &bad[i], next_of_list, &list, &error),
                         ET_ECONFIG);
        assert_contains(error.text, i < 2 ? "tokens: give 4 to 1,048,576" : "give 0.98 to 1");
    }
    assert_int_equal(train_list(&bytes, &length, blank, 0, 50, &error), ET_EDATA);
    assert_contains(error.text, "no text");
    assert_int_equal(train_list(&bytes, &length, none, 1, 50, &error), ET_EDATA);
}

static int failing_lines(void *payload, const char **text, size_t *length, et_error *error)
{
    (void)payload;
    (void)text;
    (void)length;
    return et_fail(error, ET_EIO, "the disk is gone");
}

/* Whatever tokens for bytes spell, it is one line. */
static void test_vocabulary__bytes_of_a_line(void **state)
{
    (void)state;
    static const char *const list[] = { "ab ba", "abba", NULL };
    const char *const *next = list;
    et_vocabulary_options options = { .kind = ET_VOCABULARY_BPE,
                                      .size = 270,
                                      .character_coverage = 1.0,
                                      .byte_fallback = true,
                                      .at_most = true };
    et_error error = ET_ERROR_INIT;
    et_vocabulary *vocabulary;
    char *bytes;
    size_t length;
    assert_int_equal(et_vocabulary_train(&bytes, &length, &options, next_of_list, &next, &error),
                     ET_OK);
    assert_int_equal(et_vocabulary_parse(&vocabulary, bytes, length, "it", &error), ET_OK);
    et_free(bytes);
    int seen = 0;
    for (int32_t id = 0; id < et_vocabulary_size(vocabulary); id++) {
        et_strbuf text = ET_STRBUF_INIT;
        assert_int_equal(et_vocabulary_decode(vocabulary, &id, 1, &text, &error), ET_OK);
        seen += !strncmp(et_vocabulary_token(vocabulary, id), "<0x0", 4);
        for (size_t i = 0; i < text.length; i++)
            assert_in_range((unsigned char)text.data[i], ' ', 255);
        et_strbuf_release(&text);
    }
    assert_int_equal(seen, 16);
    et_vocabulary_close(vocabulary);
}

static void test_vocabulary__lines_fail(void **state)
{
    (void)state;
    et_vocabulary_options options = ET_VOCABULARY_OPTIONS_INIT;
    et_error error = ET_ERROR_INIT;
    char *bytes;
    size_t length;
    assert_int_equal(et_vocabulary_train(&bytes, &length, &options, failing_lines, NULL, &error),
                     ET_EIO);
    assert_string_equal(error.text, "the disk is gone");
}

static void test_vocabulary__open(void **state)
{
    size_t length;
    et_vocabulary *vocabulary;
    et_error error = ET_ERROR_INIT;
    char *bytes = train_bytes(*state, ET_VOCABULARY_BPE, 300, &length);
    const char *path = write_bytes(*state, "it.model", bytes, length);
    assert_int_equal(et_vocabulary_open(&vocabulary, path, &error), ET_OK);
    assert_true(et_vocabulary_checksum(vocabulary) != 0);
    et_vocabulary_close(vocabulary);
    et_free(bytes);
    assert_int_equal(et_vocabulary_open(&vocabulary, fixture_path(*state, "none"), &error),
                     ET_ENOTFOUND);
    const char *not_models[] = { "", "just some text, not a model\n", "\x0a\xff\xff\xff\xff\x7f",
                                 "\x0a\x03\x0a\x01\141" };
    for (size_t i = 0; i < 4; i++) {
        path = write_text(*state, "not.model", not_models[i]);
        assert_int_equal(et_vocabulary_open(&vocabulary, path, &error), ET_EFORMAT);
        assert_contains(error.text, path);
    }
}

/* The end symbol's token renamed: the model loads but cannot end a sentence. */
static void test_vocabulary__no_end_symbol(void **state)
{
    size_t length, at = 0;
    et_vocabulary *vocabulary;
    et_error error = ET_ERROR_INIT;
    char *bytes = train_bytes(*state, ET_VOCABULARY_BPE, 300, &length);
    while (memcmp(bytes + at, "</s>", 4))
        at++;
    bytes[at + 2] = 'z';
    assert_int_equal(et_vocabulary_parse(&vocabulary, bytes, length, "it", &error), ET_EFORMAT);
    assert_contains(error.text, "EOS token not in tokenizer vocab");
    et_free(bytes);
}

/* Loads a model that may be damaged and, if that works, uses it: the sanitizers and the operating
 * system find reads outside of it. Returns whether it was refused. */
static bool refused(const char *bytes, size_t length)
{
    static const char text[] = "tari \xef\xbc\xa1\xef\xbd\xb6\xef\xbe\x9e \xe2\x91\xa0 \xc2\xbd "
                               "sch\xc3\xb6"
                               "ber \xf0\x9d\x95\xb3 \xe3\x8e\x8f A\xcc\x88";
    et_vocabulary *vocabulary;
    et_error error = ET_ERROR_INIT;
    int status = et_vocabulary_parse(&vocabulary, bytes, length, "it", &error);
    if (!status && (status = et_vocabulary_load(vocabulary, &error)))
        et_vocabulary_close(vocabulary);
    if (status) {
        assert_int_equal(status, ET_EFORMAT);
        return true;
    }
    et_tokens tokens = ET_TOKENS_INIT;
    et_strbuf back = ET_STRBUF_INIT;
    if (!et_vocabulary_encode(vocabulary, text, sizeof text - 1, &tokens, NULL))
        et_vocabulary_decode(vocabulary, tokens.ids, tokens.count, &back, NULL);
    et_strbuf_release(&back);
    et_tokens_release(&tokens);
    et_vocabulary_close(vocabulary);
    return false;
}

/* SentencePiece loads such a model slowly, so Etude refuses it first. */
static void test_vocabulary__too_many_tokens(void **state)
{
    static const token tokens[8] = { { "<unk>", UNKNOWN }, { "</s>", CONTROL } };
    et_strbuf model = ET_STRBUF_INIT;
    et_vocabulary *vocabulary;
    et_error error = ET_ERROR_INIT;
    (void)state;
    put_model(&model, tokens, NULL, NULL, NULL);
    for (int i = 2; i < ET_VOCABULARY_TOKENS_MAX; i++)
        et_strbuf_append_bytes(&model, "\n\0", 2); /* a token without a text */
    assert_int_equal(
        et_vocabulary_parse(&vocabulary, et_strbuf_text(&model), model.length, "it", &error),
        ET_OK);
    et_vocabulary_close(vocabulary);
    et_strbuf_append_bytes(&model, "\n\0", 2);
    assert_int_equal(
        et_vocabulary_parse(&vocabulary, et_strbuf_text(&model), model.length, "it", &error),
        ET_EFORMAT);
    assert_non_null(strstr(error.text, "it has 1,048,577 tokens, more than 1,048,576"));
    et_strbuf_release(&model);
}

static void test_vocabulary__cut(void **state)
{
    size_t length;
    char *bytes = train_bytes(*state, ET_VOCABULARY_UNIGRAM, 300, &length);
    for (size_t i = 0; i < 100; i++) {
        size_t cut = length * i / 100;
        char *exact = malloc(cut + 1);
        memcpy(exact, bytes, cut);
        refused(exact, cut);
        free(exact);
    }
    assert_true(refused(bytes, length - 1));
    assert_false(refused(bytes, length));
    et_free(bytes);
}

/* Bits flipped at random: most of a model is its normalisation table, which must not lead
 * outside itself. */
static void test_vocabulary__flipped(void **state)
{
    size_t length;
    unsigned seed = 11;
    int count = 0;
    for (int kind = 0; kind < 2; kind++) {
        char *bytes = train_bytes(*state, kind, 300, &length);
        for (int i = 0; i < 400; i++) {
            size_t bit = ((size_t)roll(&seed, 1u << 20) << 4 | roll(&seed, 16)) % (8 * length);
            bytes[bit / 8] ^= (char)(1 << bit % 8);
            count += refused(bytes, length);
            bytes[bit / 8] ^= (char)(1 << bit % 8);
        }
        et_free(bytes);
    }
    assert_true(count > 0);
}

/* A table made by hand: distances that leave it, values past the texts, no end. */
static void test_vocabulary__hostile_table(void **state)
{
    size_t length, at = 0;
    char *bytes = train_bytes(*state, ET_VOCABULARY_BPE, 300, &length);
    while (memcmp(bytes + at, "nmt_nfkc", 8))
        at++;
    at += 8 + 1; /* the name, and the tag of the table */
    while (bytes[at] & 0x80)
        at++;
    at++; /* its length */
    const uint32_t words[] = { 0, 4, 0x7ffffffc, 0xffffffff, 7 };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        for (size_t place = 0; place < 2; place++) {
            uint32_t before;
            memcpy(&before, bytes + at + 4 * place, 4);
            memcpy(bytes + at + 4 * place, &words[i], 4);
            assert_true(refused(bytes, length) || place == 1);
            memcpy(bytes + at + 4 * place, &before, 4);
        }
    et_free(bytes);
}

/* Real text comes back unchanged, except for normalization (these lines need none). */
static void test_vocabulary__real_text(void **state)
{
    (void)state;
    const char *path = ET_TEST_SHARED "/data/multi30k/val.lc.norm.tok.de.gz";
    if (access(path, R_OK))
        test_skip("no ../shared/data/multi30k");
    et_corpus_paths paths = { .source = { &path, 1 }, .target = { &path, 1 } };
    for (int kind = 0; kind < 2; kind++) {
        et_vocabulary *vocabulary = train_vocabulary(&paths, kind, 1000);
        et_corpus *corpus;
        et_corpus_pair pair;
        assert_int_equal(et_corpus_open(&corpus, &paths, NULL), ET_OK);
        while (!et_corpus_next(corpus, &pair, NULL) && pair.source) {
            char *line = et_strndup(pair.source, pair.source_length);
            size_t end = strlen(line);
            while (end && line[end - 1] == ' ')
                line[--end] = 0;
            if (!strstr(line, "  "))
                check_round_trip(vocabulary, line);
            et_free(line);
        }
        et_corpus_close(corpus);
        et_vocabulary_close(vocabulary);
    }
}

/* Bytes of address space that this process has. */
static size_t address_space(void)
{
    size_t pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%zu", &pages), 1);
    fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Loads the model in a process that may get so many bytes more; the status. */
static int load_within(size_t bytes, const et_strbuf *model)
{
    int ended;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        et_vocabulary *vocabulary;
        et_error error = ET_ERROR_INIT;
        const struct rlimit limit = { address_space() + bytes, RLIM_INFINITY };
        int status =
            et_vocabulary_parse(&vocabulary, et_strbuf_text(model), model->length, "it", &error);
        if (!status)
            status =
                setrlimit(RLIMIT_AS, &limit) ? ET_EFAIL : et_vocabulary_load(vocabulary, &error);
        _exit(status);
    }
    assert_int_equal(waitpid(child, &ended, 0), child);
    assert_true(WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

/* Loads, or says that there is no memory; the library would end the process, or fail in its words.
 */
static void test_vocabulary__no_memory(void **state)
{
    (void)state;
    static char names[12000][8];
    static token tokens[12005] = { { "<pad>", CONTROL },
                                   { "</s>", CONTROL },
                                   { "<unk>", UNKNOWN } };
    et_strbuf model = ET_STRBUF_INIT;
    if (SANITIZED)
        test_skip("sanitizers need address space");
    for (int i = 0; i < 12000; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        tokens[3 + i] = (token){ names[i], NORMAL };
    }
    put_model(&model, tokens, NULL, "</s>", "<pad>");
    int loaded = 0, refused = 0;
    for (size_t bytes = 0; bytes <= (size_t)8 << 20; bytes += (size_t)32 << 10) {
        const int status = load_within(bytes, &model);
        if (status)
            assert_int_equal(status, ET_ENOMEM);
        refused += status != 0;
        loaded += status == 0;
    }
    assert_true(loaded > 10 && refused > 10);
    et_strbuf_release(&model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vocabulary__kinds),
        cmocka_unit_test(test_vocabulary__same_bytes_again),
        cmocka_unit_test(test_vocabulary__unknown),
        cmocka_unit_test(test_vocabulary__size_and_text),
        cmocka_unit_test(test_vocabulary__long_lines),
        cmocka_unit_test(test_vocabulary__at_most),
        cmocka_unit_test(test_vocabulary__options),
        cmocka_unit_test(test_vocabulary__bytes_of_a_line),
        cmocka_unit_test(test_vocabulary__lines_fail),
        cmocka_unit_test(test_vocabulary__open),
        cmocka_unit_test(test_vocabulary__no_end_symbol),
        cmocka_unit_test(test_vocabulary__too_many_tokens),
        cmocka_unit_test(test_vocabulary__cut),
        cmocka_unit_test(test_vocabulary__flipped),
        cmocka_unit_test(test_vocabulary__hostile_table),
        cmocka_unit_test(test_vocabulary__real_text),
        cmocka_unit_test(test_vocabulary__no_memory),
    };
    return cmocka_run_group_tests(tests, fixture_open, fixture_close);
}
