/* Statistics of a column. Numbers are processed in blocks of the sketch's width, counted from the
 * column's first number. So sums do not depend on the division into parts. A block's mean and
 * squares are added in eight lanes, and blocks are joined by the formula of Chan, Golub, LeVeque
 * (Updating formulae and a pairwise algorithm for computing sample variances, 1979).
 *
 * At first a column has only entries: each distinct text is parsed once, and facts about numbers
 * follow exactly from texts and counts. If there are more distinct numbers than classes allow, or
 * more texts than fit, the counts so far are added as numbers, text by text. */
#include "data/table/analysis/analyze_private.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/text/unicode.h"
#include "data/table/features/transforms.h"
#include "data/table/schema/date_text.h"
#include "data/table/schema/notation.h"

double et_first_rows_number(const et_first_rows *rows, int64_t row)
{
    double number;
    et_assert(row >= 0 && row < rows->count);
    memcpy(&number, &rows->value[row], sizeof number);
    return number;
}

/* Adds a row; a full object ignores it. text NULL: no value. number: the value of the text; NULL:
 * not a number. False: no memory. */
static bool first_rows_add(et_first_rows *rows, const char *text, size_t length,
                           const double *number)
{
    if (et_first_rows_full(rows))
        return true;
    if (rows->count == rows->room) {
        const int64_t twice = rows->room ? 2 * rows->room : 64;
        const int64_t room = twice < rows->most ? twice : rows->most;
        uint64_t *grown = et_realloc(rows->value, room, sizeof *grown);
        if (!grown)
            return false;
        rows->value = grown;
        rows->room = room;
    }
    uint64_t value = ET_FIRST_MISSING;
    if (text && number) {
        const double one = *number == 0 ? 0 : *number; /* -0 is 0 */
        memcpy(&value, &one, sizeof value);
        rows->numbers++;
    } else if (text) {
        value = et_checksum(text, length);
        value = value == ET_FIRST_MISSING ? 0 : value;
    }
    rows->value[rows->count++] = value;
    return true;
}

/* Recognizes texts that people read as dates or numbers, but the reader of numbers does not. Pure
 * functions. */

/* A date, or a text meant as a date, such as 31.13.2024: three runs of 1, 2 or 4 digits, separated
 * by the same one of - . and /. */
static bool is_date(const char *text, size_t length)
{
    if (et_date_orders(text, length))
        return true;
    size_t year = 0;
    char between = 0;
    for (int part = 0; part < 3; part++) {
        size_t digits = et_number_digits_at(text, length);
        if (digits != 1 && digits != 2 && digits != 4)
            return false;
        year += digits == 4;
        text += digits;
        length -= digits;
        if (part == 2)
            break;
        if (!length || (*text != '-' && *text != '.' && *text != '/') ||
            (between && *text != between))
            return false;
        between = *text++;
        length--;
    }
    return year <= 1 && (!length || *text == 'T' || *text == ' ');
}

/* A date with the name of a month in another language, or with signs: 2. Februar 2024, 2 de mayo de
 * 2024, 2024年5月2日. */
static bool is_foreign_date(const char *text, size_t length)
{
    size_t run[3] = { 0 }, runs = 0, letters = 0, between = 0;
    bool wide = true; /* no ASCII letters */
    for (size_t i = 0; i < length;) {
        const size_t digits = et_number_digits_at(text + i, length - i);
        const unsigned char c = (unsigned char)text[i];
        const bool ascii = (c | 32) >= 'a' && (c | 32) <= 'z';
        if (digits && runs == 3)
            return false;
        if (digits) {
            between = letters;
            letters = 0;
            run[runs++] = digits;
        } else if (!ascii && c < 0x80 && (!c || !strchr(" .,'", c)))
            return false;
        letters += ascii || c >= 0x80;
        wide = wide && !ascii;
        i += digits ? digits : 1;
    }
    return runs == 2 ? run[0] <= 2 && run[1] == 4 && between >= 3 && between <= 24 && !letters
                     : runs == 3 && run[0] == 4 && run[1] <= 2 && run[2] <= 2 && between && wide;
}

/* Hours, minutes and perhaps seconds: 36:15, 100:00:05.5. */
static bool is_span(const char *text, size_t length)
{
    size_t digits = et_number_digits_at(text, length), parts = 0;
    if (!digits)
        return false;
    for (text += digits, length -= digits; length && *text == ':'; text += 3, length -= 3, parts++)
        if (et_number_digits_at(text + 1, length - 1) != 2)
            return false;
    if (length && *text == '.')
        length -= 1 + et_number_digits_at(text + 1, length - 1);
    return !length && (parts == 1 || parts == 2);
}

/* Distinct numbers up to which they are entries. */
#define NUMBERS_MAX 1024

#define LANES 8

/* Entries are given up for the first time when this fraction of the values differ: the column looks
 * like a key. */
#define KEY_SHARE 0.9

void et_column_stats_init(et_column_stats *stats, const et_column_stats_options *options)
{
    *stats = (et_column_stats){ .min = INFINITY,
                                .max = -INFINITY,
                                .whole = true,
                                .format = options->format,
                                .block = options->sketch_width,
                                .first_rows = { .most = options->first_rows },
                                .distinct_bits = options->distinct_bits };
    et_sketch_init(&stats->sketch, options->sketch_width, options->seed);
    et_entries_init(&stats->entries, options->entries);
}

void et_column_stats_release(et_column_stats *stats)
{
    et_free(stats->pending);
    stats->pending = NULL;
    et_sketch_release(&stats->sketch);
    et_entries_release(&stats->entries);
    et_distinct_release(&stats->distinct);
    et_free(stats->first_rows.value);
    stats->first_rows = (et_first_rows){ .most = stats->first_rows.most };
}

/* ---- numbers ---- */

static double sum_of(const double *x, int count)
{
    double lane[LANES] = { 0 }, sum = 0;
    int i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += x[i + k];
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    for (; i < count; i++)
        sum += x[i];
    return sum;
}

static double squares_of(const double *x, int count, double mean)
{
    double lane[LANES] = { 0 }, sum = 0;
    int i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++)
            lane[k] += (x[i + k] - mean) * (x[i + k] - mean);
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    for (; i < count; i++)
        sum += (x[i] - mean) * (x[i] - mean);
    return sum;
}

static void add_range(et_column_stats *stats, const double *x, int count)
{
    double low[LANES], high[LANES];
    for (int k = 0; k < LANES; k++) {
        low[k] = stats->min;
        high[k] = stats->max;
    }
    int i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int k = 0; k < LANES; k++) {
            low[k] = x[i + k] < low[k] ? x[i + k] : low[k];
            high[k] = x[i + k] > high[k] ? x[i + k] : high[k];
        }
    for (; i < count; i++) {
        low[0] = x[i] < low[0] ? x[i] : low[0];
        high[0] = x[i] > high[0] ? x[i] : high[0];
    }
    for (int k = 0; k < LANES; k++) {
        stats->min = low[k] < stats->min ? low[k] : stats->min;
        stats->max = high[k] > stats->max ? high[k] : stats->max;
    }
}

static void add_block(et_column_stats *stats, const double *x, int count)
{
    double mean = sum_of(x, count) / count, squares = squares_of(x, count, mean);
    double before = (double)stats->numbers, all = before + count, delta = mean - stats->mean;
    stats->mean += delta * count / all;
    stats->squares += squares + delta * delta * before * count / all;
    stats->numbers += count;
    add_range(stats, x, count);
    for (int i = 0; i < count && stats->whole; i++)
        stats->whole = x[i] == rint(x[i]);
    stats->failed |= !et_sketch_add(&stats->sketch, x, (size_t)count);
}

static void add_numbers(et_column_stats *stats, const double *x, int count)
{
    const int block = stats->block;
    if (!stats->pending && !(stats->pending = et_alloc(block, sizeof *x))) {
        stats->failed = true;
        return;
    }
    while (count && !stats->failed) {
        if (!stats->filled && count >= block) {
            add_block(stats, x, block);
            x += block;
            count -= block;
            continue;
        }
        int room = block - stats->filled, run = count < room ? count : room;
        memcpy(stats->pending + stats->filled, x, run * sizeof *x);
        stats->filled += run;
        x += run;
        count -= run;
        if (stats->filled == block) {
            add_block(stats, stats->pending, block);
            stats->filled = 0;
        }
    }
}

/* ---- looks of texts ---- */

static void note(et_seen_at *seen, const et_column_part *part, int i, const char *text,
                 size_t length)
{
    if (seen->line)
        return;
    const size_t count = et_utf8_cut(text, length, sizeof seen->text - 1);
    seen->file = part->file;
    seen->line = part->base_line + part->line[i];
    memcpy(seen->text, text, count);
    seen->text[count] = 0;
}

/* ---- classes ---- */

/* Digits that any integer may have without a double losing one of them. */
#define DIGITS_SAFE 15
/* Least digits of a phone number after its +: shorter ones are amounts. */
#define DIGITS_PHONE 9

/* Whether a double has all digits of an integer, which are [length] without a sign. */
static bool is_held(const char *digits, size_t length, double number)
{
    char text[DBL_MAX_10_EXP + 3];
    if (length <= DIGITS_SAFE)
        return true;
    return (size_t)snprintf(text, sizeof text, "%.0f", fabs(number)) == length &&
           !memcmp(text, digits, length);
}

et_cell_class et_cell_classify(const et_number_format *format, const char *text, size_t length,
                               double *number)
{
    char plain[ET_NOTATION_BYTES];
    text = et_notation_plain(format, plain, text, &length);
    if (!text)
        return ET_CELL_TEXT;
    et_number kind = et_number_parse(number, text, length);
    if (kind == ET_NUMBER_REAL) {
        /* Whether a text is like 3E5. Programs that print numbers write 3.0E5 or 3E+5. */
        size_t digits = et_number_digits_at(text, length);
        return (digits && digits < length && (text[digits] == 'e' || text[digits] == 'E') &&
                et_number_digits_at(text + digits + 1, length - digits - 1) == length - digits - 1)
                   ? ET_CELL_EXPONENT
                   : ET_CELL_REAL;
    }
    if (kind != ET_NUMBER_INTEGER)
        return kind == ET_NUMBER_LARGE ? ET_CELL_LARGE : ET_CELL_TEXT;
    size_t sign = *text == '-' || *text == '+', digits = length - sign;
    if ((text[sign] == '0' && digits > 1) || (*text == '+' && digits >= DIGITS_PHONE))
        return ET_CELL_CODE;
    if (!is_held(text + sign, digits, *number))
        return ET_CELL_LONG;
    /* +5 and -0 are numbers, but not the way in which integers are written. */
    return *text == '+' || (sign && text[1] == '0') ? ET_CELL_REAL : ET_CELL_INTEGER;
}

/* A class that is always a number. */
static bool is_number(unsigned char class)
{
    return class == ET_CELL_INTEGER || class == ET_CELL_REAL;
}

/* A number and a text. */
static bool is_both(unsigned char class)
{
    return class == ET_CELL_CODE || class == ET_CELL_LONG || class == ET_CELL_EXPONENT;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

static bool has_blanks(const char *text, size_t length)
{
    return length && (is_blank(*text) || is_blank(text[length - 1]));
}

/* The possible notation of a text as a number, if no notation is given. */
static et_noted find_notation(const et_column_stats *stats, const char *text, size_t length)
{
    const et_noted none = { 0 };
    return stats->format.notation ? none : et_notation_find(text, length);
}

/* Whether a text has the column's unit, the unit of the first text with a unit, or has no unit. */
static bool has_unit(et_noted_texts *all, const et_noted *noted, const char *text)
{
    if (noted->unit_length && !*all->unit)
        memcpy(all->unit, text + noted->unit_at, noted->unit_length);
    return !noted->unit_length || (strlen(all->unit) == noted->unit_length &&
                                   !memcmp(all->unit, text + noted->unit_at, noted->unit_length));
}

/* Notes the first value of each class that is not a number, and the looks of texts. orders: the
 * orders in which the text is a date. */
static void look_at(et_column_stats *stats, const et_column_part *part, int i, const char *text,
                    size_t length, unsigned char class, unsigned orders)
{
    note(&stats->first[class - ET_CELL_TEXT], part, i, text, length);
    if (class != ET_CELL_TEXT)
        return;
    if (stats->sampled < ET_STATS_SAMPLE) {
        const et_look look = is_date(text, length) || is_foreign_date(text, length) ? ET_LOOK_DATE
                             : is_span(text, length)                                ? ET_LOOK_SPAN
                             : et_notation_find(text, length).notations             ? ET_LOOK_NUMBER
                                                                                    : ET_LOOK_NONE;
        stats->sampled++;
        stats->looks[look]++;
    }
    const et_noted noted = find_notation(stats, text, length);
    if (noted.notations && !has_unit(&stats->noted, &noted, text))
        note(&stats->noted.first_other, part, i, text, length);
    if (noted.differs)
        note(&stats->noted.first_unclear, part, i, text, length);
    for (unsigned order = 0; order <= ET_DATE_TIME; order++)
        if (!(orders >> order & 1))
            note(&stats->first_undated[order], part, i, text, length);
}

/* Whether the year of a date has two digits. */
static bool is_short_year(const char *text, size_t length)
{
    int digits = 0;
    for (size_t i = 0; i < length && digits < 4; i++)
        digits = et_ascii_is_digit(text[i]) ? digits + 1 : 0;
    return digits < 4;
}

/* orders: by which the text is a date. The year does not depend on the order. */
static void add_dates(et_column_stats *stats, const char *text, size_t length, unsigned orders,
                      int64_t count)
{
    const et_date_order one =
        orders >> ET_DATE_DAY_FIRST & 1 ? ET_DATE_DAY_FIRST : ET_DATE_MONTH_FIRST;
    et_date date;
    for (unsigned order = 0; orders >> order; order++)
        stats->dated[order] += orders >> order & 1 ? count : 0;
    if (!orders || orders >> ET_DATE_TIME || !et_date_read(&date, text, length, one))
        return;
    stats->first_year =
        stats->has_years && stats->first_year < date.year ? stats->first_year : date.year;
    stats->last_year =
        stats->has_years && stats->last_year > date.year ? stats->last_year : date.year;
    stats->has_years = true;
    if (date.year > stats->last_short_year && is_short_year(text, length)) {
        stats->last_short_year = date.year;
        snprintf(stats->last_short, sizeof stats->last_short, "%.*s", (int)length, text);
    }
}

/* Counts a text for each notation in which it is a number. */
static void add_noted(et_column_stats *stats, const char *text, size_t length, int64_t count)
{
    const et_noted noted = find_notation(stats, text, length);
    const bool point = noted.notations >> ET_NOTATION_POINT & 1;
    const bool comma = noted.notations >> ET_NOTATION_COMMA & 1;
    if ((!point && !comma) || !has_unit(&stats->noted, &noted, text))
        return;
    const et_notation only = !comma ? ET_NOTATION_POINT : !point ? ET_NOTATION_COMMA : 0;
    stats->noted.count[noted.unit_length > 0][only] += count;
}

/* Counts a value of a class. */
static void add_facts(et_column_stats *stats, unsigned char class, const char *text, size_t length,
                      unsigned orders, int64_t count)
{
    stats->count[class] += count;
    stats->blanks += has_blanks(text, length) ? count : 0;
    add_dates(stats, text, length, orders, count);
    if (class != ET_CELL_TEXT)
        return;
    const int64_t taken = et_words_taken(text, length);
    add_noted(stats, text, length, count);
    stats->words += count * et_words_count(text, length);
    stats->most_words = taken > stats->most_words ? taken : stats->most_words;
}

/* ---- from entries to numbers ---- */

/* Counts values by class, once, from the entries, while these are complete. */
static void count_classes(et_column_stats *stats)
{
    for (size_t i = 0; i < stats->entries.count; i++) {
        const et_entry *entry = &stats->entries.entry[i];
        const char *text = et_entries_text(&stats->entries, entry);
        add_facts(stats, entry->class, text, entry->length, et_date_orders(text, entry->length),
                  entry->count);
    }
}

static double number_of(const et_column_stats *stats, const et_entry *entry)
{
    double number = 0;
    et_notation_parse(&number, &stats->format, et_entries_text(&stats->entries, entry),
                      entry->length);
    return number;
}

/* Adds the entries: distinct numbers by value, values that may be text by their text. */
static void end_exact(et_column_stats *stats, et_stats_stage stage)
{
    stats->stage = stage;
    if (!et_distinct_init(&stats->distinct, stats->distinct_bits)) {
        stats->failed = true;
        return;
    }
    count_classes(stats);
    for (size_t i = 0; i < stats->entries.count; i++) {
        const et_entry *entry = &stats->entries.entry[i];
        double number = number_of(stats, entry);
        if (is_number(entry->class) || is_both(entry->class)) {
            /* Adds the same number count times. */
            int64_t count = entry->count;
            double same[256];
            for (int k = 0; k < 256; k++)
                same[k] = number;
            for (; count > 0; count -= 256)
                add_numbers(stats, same, count < 256 ? (int)count : 256);
        }
        if (is_number(entry->class))
            et_distinct_add_numbers(&stats->distinct, &number, 1);
        else
            et_distinct_add(
                &stats->distinct,
                et_entries_hash(et_entries_text(&stats->entries, entry), entry->length));
    }
    if (stage == ET_STATS_CUT &&
        (double)stats->entries.count >= KEY_SHARE * (double)et_column_stats_values(stats))
        stats->stage = ET_STATS_KEY;
    if (stats->stage != ET_STATS_CUT)
        et_entries_release(&stats->entries);
}

/* ---- one text ---- */

static void add_entry(et_column_stats *stats, const char *text, size_t length)
{
    et_entry *entry = NULL;
    if (length > ET_ENTRY_MAX)
        return;
    if ((entry = et_entries_find(&stats->entries, text, length)))
        entry->count++;
    else if (!et_entries_add(&stats->entries, text, length))
        stats->failed = true;
}

/* Adds a value after stage EXACT. *number: the value of a class that is both number and text. */
static void add_read(et_column_stats *stats, const et_column_part *part, int i, const char *text,
                     size_t length, unsigned char class, const double *number)
{
    const unsigned orders = et_date_orders(text, length);
    if (is_both(class))
        add_numbers(stats, number, 1);
    add_facts(stats, class, text, length, orders, 1);
    look_at(stats, part, i, text, length, class, orders);
    et_distinct_add(&stats->distinct, et_entries_hash(text, length));
    if (stats->stage != ET_STATS_KEY)
        add_entry(stats, text, length);
}

static void add_unread(et_column_stats *stats, const et_column_part *part, int i, const char *text,
                       size_t length)
{
    double number;
    et_cell_class class = et_cell_classify(&stats->format, text, length, &number);
    if (!is_number((unsigned char)class)) {
        add_read(stats, part, i, text, length, (unsigned char)class, &number);
        return;
    }
    stats->count[class]++;
    add_numbers(stats, &number, 1);
    et_distinct_add_numbers(&stats->distinct, &number, 1);
    if (stats->stage == ET_STATS_CUT)
        add_entry(stats, text, length);
}

static void add_exact(et_column_stats *stats, const et_column_part *part, int i, const char *text,
                      size_t length)
{
    et_entry *entry = et_entries_find(&stats->entries, text, length);
    if (entry) {
        entry->count++;
        return;
    }
    if (length > ET_ENTRY_MAX || !et_entries_fits(&stats->entries, length)) {
        end_exact(stats, ET_STATS_CUT);
        if (!stats->failed)
            add_unread(stats, part, i, text, length);
        return;
    }
    entry = et_entries_add(&stats->entries, text, length);
    if (!entry) {
        stats->failed = true;
        return;
    }
    /* In tables with so many columns that each has room for few entries, they are fewer. */
    const size_t half = stats->entries.limit / 2, limit = half < NUMBERS_MAX ? half : NUMBERS_MAX;
    double number;
    entry->class = (unsigned char)et_cell_classify(&stats->format, text, length, &number);
    if (entry->class == ET_CELL_REAL && find_notation(stats, text, length).differs) {
        stats->grouped++;
        note(&stats->first_grouped, part, i, text, length);
    } else if (entry->class == ET_CELL_REAL)
        stats->decimal |= memchr(text, '.', length) != NULL;
    if (!is_number(entry->class))
        look_at(stats, part, i, text, length, entry->class, et_date_orders(text, length));
    else if (++stats->number_entries > limit && stats->number_entries == stats->entries.count)
        end_exact(stats, ET_STATS_NUMBERS);
}

/* ---- parts ---- */

/* Eight classes at once: whether all are INTEGER (1) or REAL (2). */
static bool are_numbers(uint64_t classes)
{
    const uint64_t ones = 0x0101010101010101u;
    return !(classes & ~(3 * ones)) && ((classes ^ classes >> 1) & ones) == ones;
}

bool et_column_stats_reads(const et_column_stats *stats)
{
    return stats->stage == ET_STATS_EXACT || stats->stage == ET_STATS_CUT;
}

/* Reads the texts of the first rows that are otherwise read once for each distinct text. */
static void keep_first(et_column_stats *stats, const et_column_part *part)
{
    for (int i = 0; i < part->count && !et_first_rows_full(&stats->first_rows); i++) {
        et_cell_class class = part->class[i];
        const bool plain = class == ET_CELL_INTEGER || class == ET_CELL_REAL;
        const bool missing = class == ET_CELL_MISSING;
        const char *text = plain || missing ? "" : part->bytes + part->text[i].at;
        const size_t length = plain || missing ? 0 : part->text[i].length;
        double number = plain ? part->number[i] : 0;
        if (class == ET_CELL_UNREAD)
            class = et_cell_classify(&stats->format, text, length, &number);
        stats->failed |=
            !first_rows_add(&stats->first_rows, missing ? NULL : text, length,
                            class == ET_CELL_INTEGER || class == ET_CELL_REAL ? &number : NULL);
    }
}

void et_column_stats_add(et_column_stats *stats, const et_column_part *part)
{
    keep_first(stats, part);
    for (int i = 0; i < part->count && !stats->failed; i++) {
        unsigned char class = part->class[i];
        if (class == ET_CELL_MISSING) {
            stats->count[ET_CELL_MISSING]++;
            continue;
        }
        if (is_number(class)) {
            et_assert(!et_column_stats_reads(stats));
            /* Adds the numbers that follow each other from i on. */
            int end = i, integers = 0;
            uint64_t classes;
            _Static_assert(ET_CELL_INTEGER == 1 && ET_CELL_REAL == 2, "are_numbers knows them");
            for (; end + 8 <= part->count; end += 8) {
                memcpy(&classes, part->class + end, sizeof classes);
                if (!are_numbers(classes))
                    break;
                integers += __builtin_popcountll(classes & 0x0101010101010101u);
            }
            for (; end < part->count && is_number(part->class[end]); end++)
                integers += part->class[end] == ET_CELL_INTEGER;
            stats->count[ET_CELL_INTEGER] += integers;
            stats->count[ET_CELL_REAL] += end - i - integers;
            add_numbers(stats, part->number + i, end - i);
            et_distinct_add_numbers(&stats->distinct, part->number + i, (size_t)(end - i));
            i = end - 1;
            continue;
        }
        const char *text = part->bytes + part->text[i].at;
        size_t length = part->text[i].length;
        if (class != ET_CELL_UNREAD)
            add_read(stats, part, i, text, length, class, &part->number[i]);
        else if (stats->stage == ET_STATS_EXACT)
            add_exact(stats, part, i, text, length);
        else
            add_unread(stats, part, i, text, length);
    }
}

/* ---- results ---- */

/* The numbers among the entries, in their order, as a sketch would have them if it kept all. */
static bool view_entries(const et_column_stats *stats, et_sketch_view *view)
{
    const et_entries *entries = &stats->entries;
    size_t count = 0;
    if (!et_sketch_view_reserve(view, entries->count))
        return false;
    for (size_t i = 0; i < entries->count; i++)
        if (is_number(entries->entry[i].class) || is_both(entries->entry[i].class)) {
            view->value[count] = number_of(stats, &entries->entry[i]);
            view->weight[count++] = entries->entry[i].count;
        }
    return et_sketch_view_order(view, count);
}

/* The length of 1.1 in 1.10. 0: no zero to remove, or only ".0" would remain, as in 1.0. */
static size_t without_zeros(const char *text, size_t length)
{
    const char *point = memchr(text, '.', length);
    size_t end = length, behind = point ? (size_t)(text + length - point) - 1 : 0;
    if (!behind || et_number_digits_at(point + 1, behind) != behind)
        return 0;
    while (end > 1 && text[end - 1] == '0')
        end--;
    return end < length && text[end - 1] != '.' ? end : 0;
}

void et_column_stats_finish(et_column_stats *stats)
{
    if (stats->failed)
        return;
    if (stats->stage == ET_STATS_EXACT) {
        et_sketch_view view;
        count_classes(stats);
        /* Finds versions: 1.1 and 1.10 are the same number, but probably different versions. */
        for (size_t i = 0; i < stats->entries.count && !*stats->twin; i++) {
            const et_entry *entry = &stats->entries.entry[i];
            const char *text = et_entries_text(&stats->entries, entry);
            size_t length = entry->class == ET_CELL_REAL && !stats->format.notation
                                ? without_zeros(text, entry->length)
                                : 0;
            if (length && entry->length < sizeof stats->twin &&
                et_entries_find(&stats->entries, text, length))
                memcpy(stats->twin, text, entry->length);
        }
        stats->failed = !view_entries(stats, &view);
        if (!stats->failed && view.count) {
            /* Moments of weighted values, about their mean. */
            double sum = 0;
            for (size_t i = 0; i < view.count; i++)
                sum += view.value[i] * (double)view.weight[i];
            stats->numbers = view.total;
            stats->mean = sum / (double)view.total;
            for (size_t i = 0; i < view.count; i++) {
                double delta = view.value[i] - stats->mean;
                stats->squares += delta * delta * (double)view.weight[i];
                stats->whole &= view.value[i] == rint(view.value[i]);
            }
            stats->min = view.value[0];
            stats->max = view.value[view.count - 1];
        }
        et_sketch_view_release(&view);
    } else if (stats->filled)
        add_block(stats, stats->pending, stats->filled);
    stats->filled = 0;
}

const et_seen_at *et_column_stats_first(const et_column_stats *stats, et_cell_class class)
{
    et_assert(class >= ET_CELL_TEXT && class < ET_CELL_CLASSES);
    return &stats->first[class - ET_CELL_TEXT];
}

int64_t et_column_stats_values(const et_column_stats *stats)
{
    int64_t sum = 0;
    for (int i = ET_CELL_MISSING + 1; i < ET_CELL_CLASSES; i++)
        sum += stats->count[i];
    return sum;
}

int64_t et_column_stats_numbers(const et_column_stats *stats)
{
    return stats->count[ET_CELL_INTEGER] + stats->count[ET_CELL_REAL] + stats->count[ET_CELL_CODE] +
           stats->count[ET_CELL_LONG] + stats->count[ET_CELL_EXPONENT];
}

et_date_order et_column_stats_date_order(const et_column_stats *stats)
{
    const int64_t month_first = stats->dated[ET_DATE_MONTH_FIRST];
    const int64_t day_first = stats->dated[ET_DATE_DAY_FIRST];
    const int64_t times = stats->dated[ET_DATE_TIME];
    if (times > month_first && times > day_first)
        return ET_DATE_TIME;
    if (month_first == day_first && day_first == stats->dated[ET_DATE_ANY])
        return ET_DATE_ANY;
    return day_first > month_first ? ET_DATE_DAY_FIRST : ET_DATE_MONTH_FIRST;
}

int64_t et_column_stats_dates(const et_column_stats *stats)
{
    return stats->dated[et_column_stats_date_order(stats)];
}

/* Least fraction of values that are numbers in the notation, and least fraction of these with the
 * unit. */
#define NOTED_SHARE 0.9
#define UNIT_SHARE  0.5

et_number_format et_column_stats_format(const et_column_stats *stats)
{
    const et_noted_texts *n = &stats->noted;
    const double values = (double)et_column_stats_values(stats);
    const int64_t numbers = et_column_stats_numbers(stats);
    et_number_format format = { ET_NOTATION_PLAIN, NULL };
    int64_t count[ET_NOTATION_COMMA + 1], units = 0;
    for (int i = 0; i <= ET_NOTATION_COMMA; i++)
        units += n->count[1][i];
    const bool unit = units && (double)units >= UNIT_SHARE * values;
    for (int i = 0; i <= ET_NOTATION_COMMA; i++)
        count[i] = n->count[0][i] + (unit ? n->count[1][i] : 0);
    const et_notation most =
        count[ET_NOTATION_COMMA] > count[ET_NOTATION_POINT] ? ET_NOTATION_COMMA : ET_NOTATION_POINT;
    const int64_t texts = count[most] + count[ET_NOTATION_PLAIN];
    if (texts && (double)(texts + numbers) >= NOTED_SHARE * values)
        format = (et_number_format){ most, unit ? n->unit : NULL };
    return format;
}

bool et_column_stats_format_unclear(const et_column_stats *stats)
{
    const et_noted_texts *n = &stats->noted;
    bool shown = stats->count[ET_CELL_REAL];
    for (int unit = 0; unit < 2; unit++)
        shown |= n->count[unit][ET_NOTATION_POINT] || n->count[unit][ET_NOTATION_COMMA];
    return n->first_unclear.line && !shown;
}

bool et_column_stats_exact(const et_column_stats *stats)
{
    return stats->stage == ET_STATS_EXACT;
}

int64_t et_column_stats_distinct(const et_column_stats *stats)
{
    if (et_column_stats_exact(stats))
        return (int64_t)stats->entries.count;
    int64_t values = et_column_stats_values(stats);
    double estimate = rint(et_distinct_estimate(&stats->distinct));
    return estimate > (double)values ? values : (int64_t)estimate;
}

bool et_column_stats_view(const et_column_stats *stats, et_sketch_view *view)
{
    return et_column_stats_exact(stats) ? view_entries(stats, view)
                                        : et_sketch_view_init(view, &stats->sketch);
}
