/* pair-pages SOURCE_PAGES TARGET_PAGES SOURCE_NAME TARGET_NAME OUT: makes parallel text from two
 * trees of help pages, one a translation of the other.
 *
 * A paragraph of a source page and the paragraph of the same id on the target page of the same path
 * are a pair. Useless pairs (clean.h) and duplicates are left out. Whole pages are held out for
 * test and validation, chosen by a hash of the path, so they are the same on every machine.
 * Held-out pairs share no line with training pairs.
 *
 * Writes OUT/{train,valid,test}.{SOURCE_NAME,TARGET_NAME}, in which line N of one language
 * translates line N of the other. Writes all six files or none. Prints counts. Exits 0; 1: a file
 * failed; 2: usage; 3: no pairs. */
#include <errno.h>
#include <fts.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clean.h"
#include "page.h"

enum { SOURCE, TARGET, SIDES };
enum { TRAIN, VALID, TEST, PARTS };

static const char *const part_names[PARTS] = { "train", "valid", "test" };

/* Of 100 pages, on average, how many are held out. */
#define VALID_PERCENT 1
#define TEST_PERCENT  3

typedef struct line_pair {
    char *text[SIDES];
    int part;
    size_t order; /* as found */
    bool dropped;
} line_pair;

typedef struct pair_corpus {
    const char *root[SIDES], *name[SIDES], *out;
    line_pair *items;
    size_t count, capacity;
    size_t pages, alone, damaged; /* alone: without a page in the target tree */
    size_t found, verdicts[CLEAN_VERDICTS], duplicates, seen;
} pair_corpus;

static int complain(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

static int complain(int status, const char *format, ...)
{
    va_list arguments;
    fputs("pair-pages: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    return status;
}

static int out_of_memory(void)
{
    return complain(1, "out of memory");
}

/* ---- reading ---- */

/* FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/), high bits folded in, since the
 * lowest ones mix least. */
static int part_of(const char *path)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * UINT64_C(0x100000001b3);
    unsigned percent = (unsigned)((hash ^ hash >> 32) % 100);
    return percent < TEST_PERCENT ? TEST : percent < TEST_PERCENT + VALID_PERCENT ? VALID : TRAIN;
}

static int add_pair(pair_corpus *corpus, const char *source, const char *target, int part)
{
    clean_verdict verdict = clean_check(source, target);
    corpus->found++;
    corpus->verdicts[verdict]++;
    if (verdict != CLEAN_KEEP)
        return 0;
    if (corpus->count == corpus->capacity) {
        size_t capacity = corpus->capacity ? 2 * corpus->capacity : 1024;
        line_pair *grown = realloc(corpus->items, capacity * sizeof *grown);
        if (!grown)
            return out_of_memory();
        corpus->items = grown;
        corpus->capacity = capacity;
    }
    line_pair now = { { strdup(source), strdup(target) }, part, corpus->count, false };
    corpus->items[corpus->count++] = now;
    return now.text[SOURCE] && now.text[TARGET] ? 0 : out_of_memory();
}

/* A page that is not text is left out, and said to be; one that cannot be read ends the program. */
static int read_side(pair_corpus *corpus, help_page *page, const char *path)
{
    int failure = page_read(page, path);
    if (failure == EILSEQ) {
        corpus->damaged++;
        complain(0, "%s: not UTF-8, skipped", path);
        return 0;
    }
    return failure ? complain(1, "%s: %s", path, strerror(failure)) : 0;
}

/* The pairs of a page that is named by its path below both roots. */
static int add_page(pair_corpus *corpus, const char *path)
{
    char names[SIDES][4096];
    for (int side = 0; side < SIDES; side++) {
        int length = snprintf(names[side], sizeof names[side], "%s/%s", corpus->root[side], path);
        if (length < 0 || (size_t)length >= sizeof names[side])
            return complain(1, "%s/%s: %s", corpus->root[side], path, strerror(ENAMETOOLONG));
    }
    corpus->pages++;
    if (access(names[TARGET], F_OK)) {
        corpus->alone++;
        return 0;
    }
    help_page source = PAGE_INIT, target = PAGE_INIT;
    int status = read_side(corpus, &source, names[SOURCE]);
    if (!status && source.count)
        status = read_side(corpus, &target, names[TARGET]);
    int part = part_of(path);
    for (size_t i = 0; i < source.count && !status; i++) {
        const char *translation = page_find(&target, source.items[i].id);
        if (translation)
            status = add_pair(corpus, source.items[i].text, translation, part);
    }
    page_release(&source);
    page_release(&target);
    return status;
}

static bool is_page(const char *name)
{
    size_t length = strlen(name);
    return length > 5 && !strcmp(name + length - 5, ".html");
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static int read_pages(pair_corpus *corpus)
{
    char *roots[] = { (char *)corpus->root[SOURCE], NULL };
    for (int side = 0; side < SIDES; side++)
        if (access(corpus->root[side], R_OK | X_OK))
            return complain(1, "%s: %s", corpus->root[side], strerror(errno));
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR | FTS_NOSTAT, by_name);
    if (!walk)
        return out_of_memory();
    int status = 0;
    size_t prefix = strlen(roots[0]);
    FTSENT *entry;
    while (!status && (entry = fts_read(walk)) != NULL) {
        const char *path = entry->fts_path + prefix;
        if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
            status = complain(1, "%s: %s", entry->fts_path, strerror(entry->fts_errno));
        else if (entry->fts_info != FTS_D && entry->fts_info != FTS_DP && is_page(entry->fts_name))
            status = add_page(corpus, path + strspn(path, "/"));
    }
    fts_close(walk);
    return status;
}

/* ---- duplicates ---- */

static int compare_pairs(const line_pair *a, const line_pair *b, int side)
{
    int order = strcmp(a->text[side], b->text[side]);
    if (!order)
        order = strcmp(a->text[!side], b->text[!side]);
    return order ? order : (a->order > b->order) - (a->order < b->order);
}

static int by_source(const void *a, const void *b)
{
    return compare_pairs(a, b, SOURCE);
}

static int by_target(const void *a, const void *b)
{
    return compare_pairs(a, b, TARGET);
}

static int by_order(const void *a, const void *b)
{
    size_t first = ((const line_pair *)a)->order, second = ((const line_pair *)b)->order;
    return (first > second) - (first < second);
}

static void drop(line_pair *pair, size_t *count)
{
    *count += !pair->dropped;
    pair->dropped = true;
}

/* Of pairs that share a line on this side: held-out ones go where one is trained on, and of equal
 * ones the first stays. */
static void drop_shared(pair_corpus *corpus, int side)
{
    line_pair *items = corpus->items;
    size_t end;
    qsort(items, corpus->count, sizeof *items, side == SOURCE ? by_source : by_target);
    for (size_t first = 0; first < corpus->count; first = end) {
        bool trained = false;
        for (end = first; end < corpus->count; end++) {
            if (strcmp(items[end].text[side], items[first].text[side]))
                break;
            trained = trained || items[end].part == TRAIN;
        }
        const line_pair *kept = NULL;
        for (size_t i = first; i < end; i++) {
            if (trained && items[i].part != TRAIN)
                drop(&items[i], &corpus->seen);
            else if (kept && !strcmp(items[i].text[!side], kept->text[!side]))
                drop(&items[i], &corpus->duplicates);
            else
                kept = &items[i];
        }
    }
}

/* ---- writing ---- */

static int name_file(char *name, size_t size, const pair_corpus *corpus, int part, int side,
                     const char *suffix)
{
    int length = snprintf(name, size, "%s/%s.%s%s", corpus->out, part_names[part],
                          corpus->name[side], suffix);
    return length > 0 && (size_t)length < size
               ? 0
               : complain(1, "%s: %s", corpus->out, strerror(ENAMETOOLONG));
}

static int write_file(const pair_corpus *corpus, int part, int side)
{
    char name[4096];
    if (name_file(name, sizeof name, corpus, part, side, ".tmp"))
        return 1;
    FILE *file = fopen(name, "we");
    bool good = file != NULL;
    for (size_t i = 0; i < corpus->count && good; i++) {
        const line_pair *pair = &corpus->items[i];
        if (pair->part == part && !pair->dropped)
            good = fputs(pair->text[side], file) >= 0 && fputc('\n', file) != EOF;
    }
    if (file && (fflush(file) || fsync(fileno(file))))
        good = false;
    int failure = errno;
    if (file && fclose(file))
        good = false;
    return good ? 0 : complain(1, "%s: %s", name, strerror(failure));
}

/* Names become visible when all files are whole. */
static int write_all(const pair_corpus *corpus, bool rename_too)
{
    int status = 0;
    for (int i = 0; i < PARTS * SIDES && !status; i++) {
        char from[4096], to[4096];
        int part = i / SIDES, side = i % SIDES;
        if (!rename_too) {
            status = write_file(corpus, part, side);
            continue;
        }
        status = name_file(from, sizeof from, corpus, part, side, ".tmp") ||
                 name_file(to, sizeof to, corpus, part, side, "");
        if (!status && rename(from, to))
            status = complain(1, "%s: %s", to, strerror(errno));
    }
    return status;
}

/* 35712 as 35,712, in room for the largest number. */
static const char *with_commas(size_t number, char out[32])
{
    char digits[24];
    int length = snprintf(digits, sizeof digits, "%zu", number), put = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0)
            out[put++] = ',';
        out[put++] = digits[i];
    }
    out[put] = '\0';
    return out;
}

static void print_counts(const pair_corpus *corpus)
{
    char text[32];
    printf("pages        %s\n", with_commas(corpus->pages, text));
    if (corpus->alone)
        printf("             %s of them not translated\n", with_commas(corpus->alone, text));
    printf("pairs        %s paragraphs with a translation\n", with_commas(corpus->found, text));
    printf("filtered     ");
    for (int i = CLEAN_KEEP + 1; i < CLEAN_VERDICTS; i++)
        printf("%s %s, ", with_commas(corpus->verdicts[i], text), clean_name((clean_verdict)i));
    printf("%s duplicates\n", with_commas(corpus->duplicates, text));
    size_t counts[PARTS] = { 0 };
    for (size_t i = 0; i < corpus->count; i++)
        counts[corpus->items[i].part] += !corpus->items[i].dropped;
    printf("training     %s pairs\n", with_commas(counts[TRAIN], text));
    printf("held out     %s pairs for test and", with_commas(counts[TEST], text));
    printf(" %s for validation, of whole pages;\n", with_commas(counts[VALID], text));
    printf("             %s more have a line that is trained on\n",
           with_commas(corpus->seen, text));
}

static int pair_trees(pair_corpus *corpus)
{
    int status = read_pages(corpus);
    if (status)
        return status;
    if (!corpus->pages)
        return complain(3, "%s: no .html file below it", corpus->root[SOURCE]);
    if (!corpus->count)
        return complain(3,
                        "no pairs: %zu pages below %s, %zu paragraphs with the same id on the "
                        "same page below %s, none of use",
                        corpus->pages, corpus->root[SOURCE], corpus->found, corpus->root[TARGET]);
    drop_shared(corpus, SOURCE);
    drop_shared(corpus, TARGET);
    qsort(corpus->items, corpus->count, sizeof *corpus->items, by_order);
    status = write_all(corpus, false);
    if (!status)
        status = write_all(corpus, true);
    if (!status)
        print_counts(corpus);
    return status;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fputs("usage: pair-pages SOURCE_PAGES TARGET_PAGES SOURCE_NAME TARGET_NAME OUT\n"
              "example: pair-pages help/en-US help/de en de text\n",
              stderr);
        return 2;
    }
    pair_corpus corpus = { .root = { argv[1], argv[2] },
                           .name = { argv[3], argv[4] },
                           .out = argv[5] };
    int status = pair_trees(&corpus);
    for (size_t i = 0; i < corpus.count; i++) {
        free(corpus.items[i].text[SOURCE]);
        free(corpus.items[i].text[TARGET]);
    }
    free(corpus.items);
    if (fflush(stdout))
        status = complain(1, "standard output: %s", strerror(errno));
    return status;
}
