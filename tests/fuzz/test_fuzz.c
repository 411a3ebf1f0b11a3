/* Changed input for the readers of fuzz.h: it is read or refused with a message, and time is about
 * linear. ETUDE_FUZZ_SECONDS=N continues for so long with other seeds, ETUDE_FUZZ=NAME takes one
 * reader alone; a failure prints the seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <time.h>

#include "formats/files.h"
#include "fuzz/fuzz.h"
#include "sanitized.h"

enum { ROUNDS = 150, CHANGES_MAX = 6, LONG = 1 << 16, SECONDS_MAX = SANITIZED ? 60 : 6 };

typedef struct input {
    char *bytes;
    size_t length, room;
} input;

static uint64_t numbers; /* the generator's state */

static size_t below_count(size_t count)
{
    numbers = numbers * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(numbers >> 33) % count;
}

/* ---- changes ---- */

/* Replaces `gone` bytes at a position. */
static void replace_bytes(input *to, size_t at, size_t gone, const char *bytes, size_t length)
{
    const size_t made = to->length - gone + length;
    if (made > to->room)
        return;
    memmove(to->bytes + at + length, to->bytes + at + gone, to->length - at - gone);
    memcpy(to->bytes + at, bytes, length);
    to->length = made;
}

/* One of the words of the target, or a byte. */
static void put_word(const fuzz_target *target, input *to, size_t at, size_t gone)
{
    const char byte = (char)below_count(256), *word = target->words;
    size_t length = 0;
    for (size_t skip = word ? below_count(24) : 0; word; skip--) {
        word += strspn(word, " ");
        word = *word ? word : target->words;
        length = strcspn(word, " ");
        if (!skip)
            break;
        word += length;
    }
    const size_t kind = below_count(4);
    if (length && kind)
        replace_bytes(to, at, gone, word, length);
    else
        replace_bytes(to, at, gone, kind == 1 ? "\n" : &byte, 1);
}

static void change(const fuzz_target *target, input *to)
{
    char part[64];
    const size_t at = below_count(to->length + 1), left = to->length - at;
    const size_t length = left ? 1 + below_count(left < sizeof part ? left : sizeof part) : 0;
    switch (below_count(6)) {
    case 0:
        if (left)
            to->bytes[at] ^= (char)(1 << below_count(8));
        break;
    case 1:
        replace_bytes(to, at, length, "", 0);
        break;
    case 2: /* a part again, elsewhere */
        memcpy(part, to->bytes + at, length);
        replace_bytes(to, below_count(to->length + 1), 0, part, length);
        break;
    case 3:
        put_word(target, to, at, left ? 1 : 0);
        break;
    default:
        put_word(target, to, at, 0);
    }
}

/* ---- reading ---- */

static void assert_read(const fuzz_target *target, const input *from, uint64_t seed)
{
    et_error error = ET_ERROR_INIT;
    char *exact = malloc(from->length + !from->length); /* a byte beyond the end is a fault */
    assert_non_null(exact);
    memcpy(exact, from->bytes, from->length);
    const clock_t begin = clock();
    const int status = target->read(target, exact, from->length, &error);
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    free(exact);
    if (seconds > SECONDS_MAX)
        fail_msg("%s, seed %llu: %zu bytes took %.1f s", target->name, (unsigned long long)seed,
                 from->length, seconds);
    if (status == ET_ENOMEM || status == ET_EIO || (status && !error.text[0]))
        fail_msg("%s, seed %llu: %d \"%s\"", target->name, (unsigned long long)seed, status,
                 error.text);
}

static input samples[64][FUZZ_SAMPLES_MAX];

static void load(const fuzz_target *target, input to[FUZZ_SAMPLES_MAX])
{
    if (target->file)
        to->bytes = get_file(fuzz_path(target->file), &to->length);
    for (int i = 0; !target->file && i < FUZZ_SAMPLES_MAX && target->samples[i]; i++)
        to[i] = (input){ strdup(target->samples[i]), strlen(target->samples[i]), 0 };
}

static const input *pick(const input of[FUZZ_SAMPLES_MAX])
{
    int count = 0;
    while (count < FUZZ_SAMPLES_MAX && of[count].bytes)
        count++;
    return &of[below_count((size_t)count)];
}

static void start(input *to, const input *sample, uint64_t seed)
{
    numbers = seed * 0x9e3779b97f4a7c15u;
    to->length = sample->length;
    memcpy(to->bytes, sample->bytes, sample->length);
}

static bool is_wanted(const fuzz_target *target)
{
    const char *only = getenv("ETUDE_FUZZ");
    return !only || !strcmp(only, target->name);
}

static void read_changed(const fuzz_target *target, const input of[FUZZ_SAMPLES_MAX], uint64_t seed)
{
    static char bytes[1 << 17];
    input to = { bytes, 0, sizeof bytes };
    numbers = seed;
    start(&to, pick(of), seed);
    for (size_t i = 1 + below_count(CHANGES_MAX); i > 0; i--)
        change(target, &to);
    assert_read(target, &to, seed);
}

/* Part of a sample, again and again. */
static void read_repeated(const fuzz_target *target, const input of[FUZZ_SAMPLES_MAX],
                          uint64_t seed)
{
    static char bytes[LONG];
    input to = { bytes, 0, sizeof bytes };
    numbers = seed;
    const input *sample = pick(of);
    const size_t at = below_count(sample->length), left = sample->length - at;
    const size_t length = 1 + below_count(left < 24 ? left : 24);
    start(&to, sample, seed);
    for (size_t before = LONG; to.length < before - 24;) {
        const size_t was = to.length;
        replace_bytes(&to, seed % 2 ? at : to.length, 0, sample->bytes + at, length);
        if (to.length == was)
            break;
    }
    assert_read(target, &to, seed);
}

typedef void read_fn(const fuzz_target *target, const input of[FUZZ_SAMPLES_MAX], uint64_t seed);

static void read_all(read_fn *read, int rounds, bool repeated)
{
    const char *seconds = getenv("ETUDE_FUZZ_SECONDS");
    const time_t end = time(NULL) + (seconds ? atoi(seconds) : 0);
    uint64_t seed = 1;
    do
        for (int round = 0; round < rounds; round++, seed++) {
            int number = 0;
            for (const fuzz_target *t = fuzz_texts; t->name; t++, number++)
                if (is_wanted(t))
                    read(t, samples[number], seed);
            for (const fuzz_target *t = fuzz_files; t->name; t++, number++)
                if (is_wanted(t) && (!repeated || t->words))
                    read(t, samples[number], seed);
        }
    while (time(NULL) < end);
}

static void test_fuzz__changed(void **state)
{
    (void)state;
    read_all(read_changed, ROUNDS, false);
}

static void test_fuzz__repeated(void **state)
{
    (void)state;
    read_all(read_repeated, SANITIZED ? 4 : 12, true);
}

static int setup(void **state)
{
    int number = 0;
    if (make_directory(state))
        return 1;
    fuzz_open(*state);
    for (const fuzz_target *t = fuzz_texts; t->name; t++)
        load(t, samples[number++]);
    for (const fuzz_target *t = fuzz_files; t->name; t++)
        load(t, samples[number++]);
    return 0;
}

static int teardown(void **state)
{
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
        for (int k = 0; k < FUZZ_SAMPLES_MAX; k++)
            free(samples[i][k].bytes);
    return remove_directory(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fuzz__changed),
        cmocka_unit_test(test_fuzz__repeated),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
