/* Terms in texts, and phrases in a beam. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/files/file.h"
#include "base/numbers/philox.h"
#include "tasks/translation/decoding/beam.h"
#include "tasks/translation/decoding/glossary.h"

#define EOS 1

static et_glossary *open_glossary(const char *text)
{
    et_error error = ET_ERROR_INIT;
    et_glossary *glossary;
    assert_int_equal(et_file_write("glossary-test.tsv", text, strlen(text), &error), ET_OK);
    assert_int_equal(et_glossary_open(&glossary, "glossary-test.tsv", &error), ET_OK);
    unlink("glossary-test.tsv");
    return glossary;
}

/* The targets that are found, with commas. */
static const char *targets_of(const et_glossary *glossary, const char *text)
{
    static char out[256];
    const et_term *found[4];
    size_t count;
    et_error error = ET_ERROR_INIT;
    assert_int_equal(et_glossary_find(glossary, text, strlen(text), found, 4, &count, &error),
                     ET_OK);
    *out = 0;
    for (size_t i = 0; i < count && i < 4; i++)
        snprintf(out + strlen(out), sizeof out - strlen(out), "%s%s", i ? "," : "",
                 found[i]->target);
    return out;
}

static void test_glossary__find(void **state)
{
    (void)state;
    et_glossary *glossary =
        open_glossary("file\tDatei\nhard disk\tFestplatte\nhard\thart\n"
                      "Word\tWord\nword\tWort\nC++\tC plus plus\n"
                      "straße\tstreet\nstop word\tStoppwort\n\xe5\xae\xb6\thouse\n");
    const struct {
        const char *text, *targets;
    } cases[] = {
        { "", "" },
        { "a file", "Datei" },
        { "FILE, file.", "Datei" },
        { "profile files", "" },
        { "file_name", "Datei" }, /* _ is punctuation */
        { "a hard  disk", "Festplatte" },
        { "hard\xc2\xa0"
          "disk",
          "Festplatte" }, /* another space */
        { "hard-disk", "hart" },
        { "hard disks", "hart" },
        { "Word", "Word" },
        { "word", "Wort" },
        { "WORD", "Wort" },
        { "Stop Word", "Stoppwort" },
        { "(C++)", "C plus plus" },
        { "c++", "" },
        { "STRA\xc3\x9f"
          "E",
          "street" },
        { "\xe5\xa4\xa7\xe5\xae\xb6\xe5\xba\xad", "house" }, /* between other Han characters */
        { "word file hard disk C++ hard", "Wort,Datei,Festplatte,C plus plus" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        assert_string_equal(targets_of(glossary, cases[i].text), cases[i].targets);
    et_glossary_close(glossary);
}

static void test_glossary__is_in(void **state)
{
    (void)state;
    const struct {
        const char *target, *text;
        bool is;
    } cases[] = { { "Datei", "Die Datei.", true },       { "Datei", "Dateien", false },
                  { "Datei", "datei", false },           { "rote Datei", "eine rote  Datei", true },
                  { "C++", "in C++, ja", true },         { "Datei", "", false },
                  { "die die", "die der die die", true } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        et_error error = ET_ERROR_INIT;
        bool is;
        assert_int_equal(et_glossary_is_in(cases[i].target, cases[i].text, &is, &error), ET_OK);
        assert_int_equal(is, cases[i].is);
    }
}

/* Tokens 8 and 9 continue a word. */
static const bool continues[12] = { [8] = true, [9] = true };
static const int32_t one[] = { 3 }, two[] = { 3, 4 }, three[] = { 5, 5, 6 }, part[] = { 7, 8 };
static const et_phrase items[] = {
    { two, 2, true }, { three, 3, true }, { part, 2, true }, { one, 1, true }
};

static et_phrases_met met_of(const et_phrases *phrases, const int32_t *ids, int length)
{
    et_phrases_met met = { 0 };
    for (int i = 0; i < length; i++)
        met = et_phrases_follow(phrases, met, ids, i, ids[i]);
    return met;
}

static void test_phrases__follow(void **state)
{
    (void)state;
    const et_phrases phrases = { items, 3, continues };
    int32_t next[ET_PHRASES_MAX];
    const int32_t begun[] = { 2, 5, 5 }, again[] = { 5, 5, 5, 6 }, longer[] = { 3, 4, 9 };
    const int32_t all[] = { 3, 4, 7, 8, 5, 5, 6 };
    /* A phrase that begins anew within itself. */
    assert_int_equal(met_of(&phrases, again, 4).all, 2);
    assert_int_equal(et_phrases_tokens(&phrases, met_of(&phrases, begun, 3), begun, 3), 2);
    assert_int_equal(et_phrases_next(&phrases, met_of(&phrases, begun, 3), begun, 3, next), 3);
    assert_int_equal(next[0], 3);
    assert_int_equal(next[1], 6);
    assert_int_equal(next[2], 7);
    /* A word that continues is another one. */
    assert_int_equal(met_of(&phrases, longer, 2).all, 1);
    assert_int_equal(met_of(&phrases, longer, 3).all, 0);
    assert_true(et_phrases_are_met(&phrases, met_of(&phrases, all, 7)));
    assert_int_equal(et_phrases_tokens(&phrases, met_of(&phrases, all, 7), all, 7), 7);
    assert_int_equal(et_phrases_next(&phrases, met_of(&phrases, all, 7), all, 7, next), 0);
}

/* log p of a token after another, between -8 and 0. */
static float log_p_of(uint64_t seed, int32_t before, int32_t token)
{
    const et_random random = { .seed = seed };
    return -8 * et_random_uniform(random, (uint64_t)(before * 12 + token));
}

/* Of a table of log p; all tokens but the start, 0, may follow. */
static void search(et_beam *beam, uint64_t seed, int size, const et_phrases *phrases, int most,
                   bool force_end)
{
    et_error error = ET_ERROR_INIT;
    const et_beam_options options = {
        .size = size, .alpha = 0.6, .eos = EOS, .phrases = true, .force_end = force_end
    };
    int parent[ET_BEAM_SIZE_MAX];
    int32_t next[ET_BEAM_SIZE_MAX] = { 0 };
    assert_int_equal(et_beam_init(beam, &options, most, &error), ET_OK);
    et_beam_begin_phrases(beam, most, phrases);
    while (!beam->over) {
        int32_t last[ET_BEAM_SIZE_MAX];
        const int living = beam->living;
        memcpy(last, next, sizeof last);
        for (int i = 0; i < living; i++) {
            int32_t needed[ET_PHRASES_MAX];
            const int count = et_beam_needs(beam, i, needed);
            /* The odd tokens are the likeliest. */
            for (int32_t token = 1; token < 12 && token <= 2 * size; token += 2)
                et_beam_propose(beam, i, log_p_of(seed, last[i], token), token);
            for (int k = 0; k < count; k++)
                if (!(needed[k] % 2 && needed[k] <= 2 * size))
                    et_beam_propose(beam, i, log_p_of(seed, last[i], needed[k]) - 8, needed[k]);
        }
        et_beam_choose(beam, parent, next);
    }
}

/* Every result has all phrases, for every size of the beam, as soon as there is room for them. */
static void test_phrases__search(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        const int size = 1 + (int)(seed % 7), count = 1 + (int)(seed / 7 % 4);
        const bool force_end = seed % 3 == 0;
        const et_phrases phrases = { items, count, continues };
        int room = 1;
        for (int i = 0; i < count; i++)
            room += items[i].count;
        et_beam beam;
        search(&beam, seed, size, &phrases, room + (int)(seed % 5), force_end);
        assert_int_equal(et_beam_results(&beam), 1);
        const et_beam_hypothesis best = et_beam_result(&beam, 0);
        assert_true(best.count < room + (int)(seed % 5));
        assert_true(et_phrases_are_met(&phrases, met_of(&phrases, best.ids, best.count)));
        et_beam_release(&beam);
    }
}

/* Without room, the result has what fits. */
static void test_phrases__no_room(void **state)
{
    (void)state;
    const et_phrases phrases = { items, 3, continues };
    for (uint64_t seed = 0; seed < 20; seed++) {
        et_beam beam;
        search(&beam, seed, 3, &phrases, 4, seed % 2);
        assert_int_equal(et_beam_results(&beam), 1);
        assert_true(isfinite(et_beam_result(&beam, 0).score));
        et_beam_release(&beam);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_glossary__find),   cmocka_unit_test(test_glossary__is_in),
        cmocka_unit_test(test_phrases__follow),  cmocka_unit_test(test_phrases__search),
        cmocka_unit_test(test_phrases__no_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
