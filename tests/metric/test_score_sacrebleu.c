/* Etude's scores compared with those of PyPI's sacrebleu, run here: on real pairs, and on made-up
 * ones. The package is in a virtual environment under the build folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <zlib.h>

#include <cmocka.h>

#include "base/text/unicode.h"
#include "metric/score_lines.h"
#include "skip.h"

#define HERE     ET_TEST_SOURCE "/tests/metric/"
#define NEWSTEST ET_TEST_SHARED "/data/parallel/wmt-newstest-2008-2020.en-de.tsv.gz"

enum { REAL_PAIRS = 2000, REAL_STRIDE = 19, SENTENCES = 300, MOVED_PAIRS = 1200 };

static char python[4096]; /* of the virtual environment; "": not installed */

/* The output of a command, which must succeed. */
static char *output(const char *command)
{
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    assert_non_null(out);
    char part[4096];
    for (size_t count; (count = fread(part, 1, sizeof(part), pipe)) > 0;)
        fwrite(part, 1, count, out);
    fclose(out);
    assert_int_equal(pclose(pipe), 0);
    return text;
}

static int find_python(void **state)
{
    (void)state;
    FILE *pipe = popen(ET_TEST_SOURCE "/tests/tools/venv " ET_TEST_BUILD " sacrebleu==2.5.1", "r");
    if (!pipe)
        return -1;
    if (!fgets(python, sizeof(python), pipe))
        python[0] = 0;
    python[strcspn(python, "\n")] = 0;
    int status = pclose(pipe);
    if (status)
        python[0] = 0;
    return status && WEXITSTATUS(status) != 77 ? -1 : 0;
}

#define need_python()                                                                              \
    do {                                                                                           \
        if (!python[0])                                                                            \
            test_skip("no sacrebleu: see what tests/tools/venv says above");                       \
    } while (0)

static void compare(const char *path, const score_pairs *pairs)
{
    char command[16384];
    snprintf(command, sizeof(command), "'%s' '%s' '%s' %d", python, HERE "score_lines.py", path,
             SENTENCES);
    char *theirs = output(command), *ours = score_lines(pairs, SENTENCES);
    assert_lines_equal(ours, theirs);
    free(ours);
    free(theirs);
}

static void compare_edits(const char *path, const score_pairs *pairs)
{
    char command[16384];
    snprintf(command, sizeof(command), "'%s' '%s' --edits '%s'", python, HERE "score_lines.py",
             path);
    char *theirs = output(command), *ours = score_edits(pairs);
    assert_lines_equal(ours, theirs);
    free(ours);
    free(theirs);
}

/* Knuth's MMIX generator, its upper half: the same damage on every machine. */
static unsigned draw(uint64_t *random, unsigned below)
{
    *random = *random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((*random >> 33) % below);
}

static void change_case(char *word, bool up)
{
    for (; *word && *word != ' '; word++)
        if (up ? *word >= 'a' && *word <= 'z' : *word >= 'A' && *word <= 'Z')
            *word ^= 0x20;
}

/* Words of the reference dropped, swapped, doubled, or written in another case. */
static void damage(char *out, const char *reference, uint64_t *random)
{
    char *copy = strdup(reference), *rest = copy, *word, *held = NULL;
    assert_non_null(copy);
    out[0] = 0;
    while ((word = strsep(&rest, " "))) {
        unsigned what = draw(random, 40);
        if (what < 4)
            continue;
        if (what < 8 && !held) {
            held = word;
            continue;
        }
        if (what < 12)
            change_case(word, what < 10);
        out += sprintf(out, what == 12 ? "%s%s " : "%s ", word, word);
        if (held)
            out += sprintf(out, "%s ", held);
        held = NULL;
    }
    if (held)
        sprintf(out, "%s", held);
    free(copy);
}

/* Every REAL_STRIDE-th pair of the file; the German side is the reference. */
static void read_real(score_pairs *pairs)
{
    static char line[1 << 16], hypothesis[1 << 18];
    uint64_t random = 1;
    gzFile file = gzopen(NEWSTEST, "rb");
    assert_non_null(file);
    for (int i = 0; pairs->count < REAL_PAIRS && gzgets(file, line, sizeof(line)); i++) {
        line[strcspn(line, "\n")] = 0;
        char *tab = strchr(line, '\t');
        if (i % REAL_STRIDE || !tab)
            continue;
        damage(hypothesis, tab + 1, &random);
        score_pairs_add(pairs, hypothesis, tab + 1);
    }
    gzclose(file);
}

static void test_score__real_pairs(void **state)
{
    (void)state;
    need_python();
    if (access(NEWSTEST, R_OK))
        test_skip("no " NEWSTEST);
    score_pairs pairs = { 0 };
    read_real(&pairs);
    assert_int_equal(pairs.count, REAL_PAIRS);

    char directory[] = "score.XXXXXX", path[64];
    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/pairs.tsv", directory);
    score_pairs_write(&pairs, path);
    compare(path, &pairs);
    compare_edits(path, &pairs);
    unlink(path);
    rmdir(directory);
    score_pairs_free(&pairs);
}

static void test_score__made_up_pairs(void **state)
{
    (void)state;
    need_python();
    score_pairs pairs = { 0 };
    score_pairs_read(&pairs, HERE "data/score_pairs.tsv");
    compare(HERE "data/score_pairs.tsv", &pairs);
    score_pairs_free(&pairs);
}

/* Moved blocks, which only TER sees. */
static void test_score__moved_pairs(void **state)
{
    (void)state;
    need_python();
    score_pairs pairs = { 0 };
    score_pairs_move(&pairs, MOVED_PAIRS);
    score_pairs_write(&pairs, "moved.tsv");
    compare_edits("moved.tsv", &pairs);
    unlink("moved.tsv");
    score_pairs_free(&pairs);
}

static void test_score__bootstrap(void **state)
{
    (void)state;
    need_python();
    score_pairs pairs = { 0 };
    score_outputs outputs;
    char command[16384];
    score_pairs_move(&pairs, 300);
    score_outputs_make(&outputs, &pairs);
    score_outputs_write(&outputs, &pairs, "outputs.tsv");
    snprintf(command, sizeof(command), "'%s' '%s' --bootstrap outputs.tsv", python,
             HERE "score_lines.py");
    char *theirs = output(command), *ours = score_bootstrap(&outputs, &pairs);
    assert_lines_equal(ours, theirs);
    free(ours);
    free(theirs);
    unlink("outputs.tsv");
    score_outputs_free(&outputs, &pairs);
    score_pairs_free(&pairs);
}

/* How many final sigmas a text of a few codes has once it is lower-cased. */
static int final_sigmas(const uint32_t *text, size_t count)
{
    et_codes in = ET_CODES_INIT, out = ET_CODES_INIT;
    assert_int_equal(et_codes_reserve(&in, count, NULL), 0);
    memcpy(in.items, text, count * sizeof(*text));
    in.count = count;
    assert_int_equal(et_codes_lower(&out, &in, NULL), 0);
    int found = 0;
    for (size_t i = 0; i < out.count; i++)
        found += out.items[i] == 0x3C2;
    et_codes_release(&in);
    et_codes_release(&out);
    return found;
}

static void print_code(char *line, uint32_t code)
{
    uint32_t item = code;
    et_codes in = { &item, 1, 1 }, out = ET_CODES_INIT;
    assert_int_equal(et_codes_lower(&out, &in, NULL), 0);
    line += sprintf(line, "%x %d%d%d%d", code, et_unicode_is_space(code),
                    et_unicode_is_punctuation(code), et_unicode_is_symbol(code),
                    et_unicode_is_digit(code));
    for (size_t i = 0; i < out.count; i++)
        line += sprintf(line, " %x", out.items[i]);
    const uint32_t before[] = { 'A', code, 0x3A3, '!' }, word[] = { code, 0x3A3, ' ', 'a' },
                   behind[] = { 'A', 0x3A3, code, 'A' };
    sprintf(line, " %d %d %d", final_sigmas(before, 4), final_sigmas(word, 4),
            final_sigmas(behind, 4));
    et_codes_release(&out);
}

/* All of Unicode 3.2 as Python sees it. */
static void test_unicode__as_python(void **state)
{
    (void)state;
    need_python();
    char command[8192], line[256];
    snprintf(command, sizeof(command), "'%s' '%s' --unicode", python, HERE "score_lines.py");
    char *theirs = output(command), *rest = theirs, *expected;
    int count = 0;
    while ((expected = strsep(&rest, "\n")) && *expected) {
        print_code(line, (uint32_t)strtoul(expected, NULL, 16));
        assert_string_equal(line, expected);
        count++;
    }
    assert_true(count > 90000);
    free(theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_score__real_pairs),  cmocka_unit_test(test_score__made_up_pairs),
        cmocka_unit_test(test_score__moved_pairs), cmocka_unit_test(test_score__bootstrap),
        cmocka_unit_test(test_unicode__as_python),
    };
    return cmocka_run_group_tests(tests, find_python, NULL);
}
