/* Measures how fast tables are read and analysed.
 *
 *     bench_csv                       generated tables of 64 MB each
 *     bench_csv FILE                  another table
 *     bench_csv write KIND MB FILE    writes a table and measures nothing; KIND is floats, digits,
 *                                     integers or words
 *
 * Prints MB of file per second of three kinds of work: rows (et_csv_next), rows with their numbers,
 * and the whole analysis. All use one thread and processor time. The analysis is also timed with
 * all threads, by elapsed time. A table of floats has 10 columns with 6 decimals, as most tables
 * have. digits: all 17 digits of doubles, as other programs print them. integers: two digits.
 * words: quoted texts, numbers and missing values. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <omp.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text/format.h"
#include "bench.h"
#include "data/table/analysis/analyze.h"
#include "data/table/schema/notation.h"

#define COLUMNS 10
#define MB      ((int64_t)1000000)
#define ROUNDS  5

/* ---- tables ---- */

static uint64_t draw(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* The sum of four uniform ones: much like a normal number. */
static double normal(uint64_t *seed)
{
    double sum = -2;
    for (int i = 0; i < 4; i++)
        sum += (double)(draw(seed) >> 11) / 9007199254740992.0;
    return sum * 1.7320508;
}

static const char *const kinds[] = { "floats", "digits", "integers", "words" };

static void write_cell(FILE *file, int kind, int column, uint64_t *seed)
{
    static const char *const words[] = { "private", "self employed", "\"none, at present\"", "",
                                         "NA" };
    if (kind == 0)
        fprintf(file, "%.6f", normal(seed));
    else if (kind == 1)
        fprintf(file, "%.17g", normal(seed));
    else if (kind == 2 || column % 3 == 0)
        fprintf(file, "%d", (int)(draw(seed) % 100));
    else if (column % 3 == 1)
        fputs(words[draw(seed) % 5], file);
    else
        fprintf(file, "\"%s %d\"", "item", (int)(draw(seed) % 5000));
}

static int write_table(const char *path, int kind, int64_t bytes)
{
    uint64_t seed = 88172645463325252u;
    FILE *file = fopen(path, "w");
    if (!file) {
        perror(path);
        return 1;
    }
    for (int i = 0; i < COLUMNS; i++)
        fprintf(file, "x%d%c", i, i + 1 < COLUMNS ? ',' : '\n');
    while (ftello(file) < bytes)
        for (int i = 0; i < COLUMNS; i++) {
            write_cell(file, kind, i, &seed);
            fputc(i + 1 < COLUMNS ? ',' : '\n', file);
        }
    return fclose(file) ? 1 : 0;
}

static int write_named(const char *kind, const char *bytes, const char *path)
{
    for (int i = 0; i < 4; i++)
        if (!strcmp(kinds[i], kind))
            return write_table(path, i, atoll(bytes) * MB);
    fprintf(stderr, "bench_csv: %s: floats, digits, integers or words\n", kind);
    return 2;
}

/* ---- reading ---- */

/* numbers: each cell is read as one, too. Returns a sum that depends on all of it. */
static double read_rows(const char *path, bool numbers)
{
    et_error error = ET_ERROR_INIT;
    et_csv *csv;
    et_csv_row row;
    double sum = 0, number;
    int status;
    bench_check(et_csv_open(&csv, path, NULL, &error), &error);
    while (!(status = et_csv_next(csv, &row, &error)) && row.count)
        for (int i = 0; i < row.count; i++)
            if (!numbers || !row.cell[i].text)
                sum += (double)row.cell[i].length;
            else if (et_number_is(et_number_parse(&number, row.cell[i].text, row.cell[i].length)))
                sum += number;
    bench_check(status, &error);
    et_csv_close(csv);
    return sum;
}

static void analyze(const char *path, int threads)
{
    et_error error = ET_ERROR_INIT;
    et_analysis analysis;
    bench_check(et_analyze(&analysis, &(et_strings){ &path, 1 },
                           &(et_analyze_options){ .threads = threads }, &error),
                &error);
    et_analysis_release(&analysis);
}

/* ---- figures ---- */

typedef enum work { ROWS, NUMBERS, ANALYSIS, ANALYSIS_ALL, WORKS } work;
static const char *const work_names[] = { "rows", "numbers", "analyze", "analyze_all" };

static double seconds_of(work what, const char *path)
{
    double begin = what == ANALYSIS_ALL ? et_clock_monotonic() : bench_processor_seconds();
    static volatile double sink;
    if (what == ANALYSIS || what == ANALYSIS_ALL)
        analyze(path, what == ANALYSIS ? 1 : omp_get_max_threads());
    else
        sink = read_rows(path, what == NUMBERS);
    (void)sink;
    return (what == ANALYSIS_ALL ? et_clock_monotonic() : bench_processor_seconds()) - begin;
}

static void measure(const char *path, const char *name)
{
    struct stat info;
    if (stat(path, &info)) {
        perror(path);
        exit(1);
    }
    double megabytes = (double)info.st_size / 1e6;
    printf("%-9s %6.1f MB", name, megabytes);
    for (work what = ROWS; what < WORKS; what++) {
        double rate[ROUNDS];
        for (int i = 0; i < ROUNDS; i++)
            rate[i] = megabytes / seconds_of(what, path);
        double median = bench_median(rate, ROUNDS);
        printf("  %s %5.0f", work_names[what], median);
        bench_figure(median, "MB/s", NAN, "csv.%s.%s.mb_s", name, work_names[what]);
        fflush(stdout);
    }
    printf("  MB/s\n");
}

int main(int argc, char **argv)
{
    if (argc == 5 && !strcmp(argv[1], "write"))
        return write_named(argv[2], argv[3], argv[4]);
    if (argc > 2) {
        fprintf(stderr, "usage: bench_csv [FILE | write KIND MB FILE]\n");
        return 2;
    }
    bench_print_machine();
    if (argc == 2) {
        measure(argv[1], "file");
        return 0;
    }
    for (int i = 0; i < 4; i++) {
        char path[] = "/tmp/bench_csv-XXXXXX";
        int fd = mkstemp(path);
        if (fd < 0 || close(fd) || write_table(path, i, 64 * MB)) {
            perror(path);
            return 1;
        }
        measure(path, kinds[i]);
        unlink(path);
    }
    printf("memory: %s at most\n", et_format_bytes(bench_peak_memory()).text);
    return 0;
}
