/* There are two ways through a row. The fast one makes a mask of delimiters and line ends for 64
 * bytes at a time and removes those between quotes (bits after an odd number of quotes, as in
 * Langdale and Lemire: Parsing gigabytes of JSON per second, VLDB Journal 2019). Each remaining bit
 * ends a cell. The fast way handles cells without quotes and cells that are quoted completely. Rows
 * with other cells (doubled quotes, blanks around quotes, quotes within a text) are walked byte by
 * byte.
 *
 *   row    = cell { delimiter cell } ( LF | CR LF )         csv adds the LF of the last row
 *   cell   = blanks ( quoted blanks | text )
 *   quoted = '"' { any byte but '"' | '""' } '"'
 *   text   = bytes except delimiter, CR, LF; not '"' at its begin; blanks at its end are cut off
 *
 * Blanks are spaces, and tabs unless they delimit. A quote within text is text, which is
 * unambiguous and common. */
#include "data/table/rows/csv_scan.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/format.h"
#include "base/text/unicode.h"
#include "base/vector.h"
#include "data/table/schema/notation.h"

#define ONES 0x0101010101010101u

#define BLOCK 64

/* The na_values of pandas' read_csv as its documentation lists them, and "?" and "na". */
const char *const et_csv_usual_missing[] = { ET_CSV_USUAL_MISSING, NULL };

/* Notes the first and the last byte of cells that match the word. A number has several spellings,
 * so it has several first bytes, and any last byte. */
static void note_first(et_csv_scanner *scanner, const char *word)
{
    const size_t length = strlen(word);
    double number;
    if (!length)
        scanner->missing_empty = true;
    else
        scanner->missing_last[(unsigned char)word[length - 1]] = true;
    scanner->missing_first[(unsigned char)*word] |= length > 0;
    if (et_number_parse(&number, word, length) == ET_NUMBER_NONE)
        return;
    memset(scanner->missing_last, true, sizeof scanner->missing_last);
    const size_t digit = strcspn(word, "123456789");
    for (const char *c = number < 0 ? "-" : number > 0 ? "+.0" : "+-.0"; *c; c++)
        scanner->missing_first[(unsigned char)*c] = true;
    if (number > 0 && word[digit])
        scanner->missing_first[(unsigned char)word[digit]] = true;
}

/* The index of the first word that et_csv_missing_with added; of another list, its length. */
static int first_added(const char *const *missing)
{
    int usual = 0;
    while (et_csv_usual_missing[usual] && missing[usual] == et_csv_usual_missing[usual])
        usual++;
    int i = usual;
    while (et_csv_usual_missing[usual] && missing[i])
        i++;
    return i;
}

void et_csv_scanner_init(et_csv_scanner *scanner, const et_csv_options *options)
{
    static const et_csv_options none;
    const et_csv_options *o = options ? options : &none;
    *scanner = (et_csv_scanner){ .delimiter = o->delimiter ? o->delimiter : ',',
                                 .comment = o->comment,
                                 .columns = o->columns,
                                 .known = o->known,
                                 .names = o->names,
                                 .missing = o->missing ? o->missing : et_csv_usual_missing };
    scanner->missing_added = scanner->missing[first_added(scanner->missing)] != NULL;
    for (const char *const *word = scanner->missing; *word; word++)
        note_first(scanner, *word);
}

void et_csv_scanner_release(et_csv_scanner *scanner)
{
    et_free(scanner->cell);
    et_free(scanner->how);
    scanner->cell = NULL;
    scanner->how = NULL;
    scanner->capacity = 0;
}

unsigned et_csv_contents(const char *bytes, size_t length)
{
    const unsigned char *at = (const unsigned char *)bytes;
    unsigned char quote = 0, cr = 0, nul = 0, high = 0;
    for (size_t i = 0; i < length; i++) { /* a byte of all ones if found, as a vector comparison
                                             gives */
        quote |= (unsigned char)-(at[i] == '"');
        cr |= (unsigned char)-(at[i] == '\r');
        nul |= (unsigned char)-(at[i] == 0);
        high |= at[i];
    }
    return (quote ? ET_CSV_HAS_QUOTE : 0u) | (cr ? ET_CSV_HAS_CR : 0u) |
           (nul ? ET_CSV_HAS_NUL : 0u) | (high & 0x80 ? ET_CSV_HAS_HIGH : 0u);
}

/* ---- masks ---- */

/* The mask of a block: bit i is set if byte i is one of two characters. In a word, each such byte
 * becomes one of eight bits, and a product adds up the bytes. */
static inline uint64_t mask_of(const char *at, char first, char second)
{
    static const unsigned char bit[BLOCK] = {
        1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
        1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
        1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128,
    };
    unsigned char bits[BLOCK];
    uint64_t mask = 0;
    for (int i = 0; i < BLOCK; i++)
        bits[i] = ((at[i] == first) | (at[i] == second)) ? bit[i] : 0;
    for (int i = 0; i < BLOCK / 8; i++) {
        uint64_t word;
        memcpy(&word, bits + (size_t)8 * (size_t)i, sizeof word);
        mask |= ((word * ONES) >> 56) << (8 * i);
    }
    return mask;
}

/* The bytes at `at`, with NULs after the last one: the bytes beyond limit may be another
 * thread's. */
static inline const char *whole_block(const char *at, const char *limit, char copy[BLOCK])
{
    if (limit - at >= BLOCK)
        return at;
    memset(copy, 0, BLOCK);
    memcpy(copy, at, (size_t)(limit - at));
    return copy;
}

/* ---- cells ---- */

/* A number as it may be a marker: codes with zeros before them are texts. */
static bool read_marker(double *number, const char *text, size_t length)
{
    const size_t sign = length && (*text == '-' || *text == '+');
    const bool code = length > sign + 1 && text[sign] == '0' && et_ascii_is_digit(text[sign + 1]);
    return !code && et_number_is(et_number_parse(number, text, length));
}

int et_csv_missing_index(const char *const *missing, const char *text, size_t length, bool quoted)
{
    const char *const *words = missing ? missing : et_csv_usual_missing;
    const int first = quoted ? first_added(words) : 0;
    double number, other;
    for (int i = first; words[i]; i++)
        if (strlen(words[i]) == length && !memcmp(words[i], text, length))
            return i;
    if (!read_marker(&number, text, length))
        return -1;
    for (int i = first; words[i]; i++)
        if (read_marker(&other, words[i], strlen(words[i])) && number == other)
            return i;
    return -1;
}

/* Whether a cell is a missing word; notes which word it is. */
static bool is_missing_word(et_csv_scanner *scanner, const char *text, size_t length, bool quoted)
{
    const int index = et_csv_missing_index(scanner->missing, text, length, quoted);
    if (index >= 0)
        scanner->missing_found |= (uint64_t)1 << (index < 63 ? index : 63);
    return index >= 0;
}

/* A quoted cell begins after its quote. */
void et_csv_scanner_take_missing(et_csv_scanner *scanner)
{
    for (int i = 0; i < scanner->count && (size_t)i < scanner->capacity; i++) {
        et_cell *cell = &scanner->cell[i];
        const bool quoted = cell->text > scanner->begin && cell->text[-1] == '"';
        if (cell->text && cell->length &&
            is_missing_word(scanner, cell->text, cell->length, quoted))
            *cell = (et_cell){ NULL, 0 };
    }
}

static bool grow(et_csv_scanner *scanner)
{
    size_t capacity = scanner->capacity, same = capacity;
    if (!ET_VECTOR_GROW(scanner->cell, capacity, capacity + 1) ||
        !ET_VECTOR_GROW(scanner->how, same, capacity))
        return false;
    scanner->capacity = capacity;
    return true;
}

/* Makes room for one more cell. False: see fault. Unexpected cells are only counted. */
static bool make_room(et_csv_scanner *scanner, size_t count, const char *at)
{
    if (count < scanner->capacity || (scanner->columns && count > (size_t)scanner->columns))
        return true;
    scanner->at = at;
    scanner->fault = count >= ET_CSV_COLUMNS_MAX ? ET_CSV_FAULT_MANY : ET_CSV_FAULT_MEMORY;
    return count < ET_CSV_COLUMNS_MAX && grow(scanner);
}

/* A cell that is not quoted, without the blanks around it; it may be missing. */
static et_cell trimmed_cell(et_csv_scanner *scanner, const char *begin, const char *end)
{
    const char tab = scanner->delimiter == '\t' ? ' ' : '\t';
    while (begin < end && (*begin == ' ' || *begin == tab))
        begin++;
    while (begin < end && (end[-1] == ' ' || end[-1] == tab))
        end--;
    size_t length = (size_t)(end - begin);
    bool missing = length ? !scanner->names && scanner->missing_first[(unsigned char)*begin] &&
                                is_missing_word(scanner, begin, length, false)
                          : scanner->missing_empty;
    return missing ? (et_cell){ NULL, 0 } : (et_cell){ begin, length };
}

/* A cell between quotes; only added words are missing. */
static inline et_cell whole_cell(et_csv_scanner *scanner, const char *begin, const char *end)
{
    const size_t length = (size_t)(end - begin);
    const bool missing = length ? scanner->missing_added && !scanner->names &&
                                      is_missing_word(scanner, begin, length, true)
                                : scanner->missing_empty;
    return missing ? (et_cell){ NULL, 0 } : (et_cell){ begin, length };
}

/* As trimmed_cell, but faster for the usual cells that need no change. */
static inline et_cell plain_cell(et_csv_scanner *scanner, const char *begin, const char *end)
{
    if (begin == end || (unsigned char)*begin <= ' ' || (unsigned char)end[-1] <= ' ' ||
        (scanner->missing_first[(unsigned char)*begin] &&
         scanner->missing_last[(unsigned char)end[-1]]))
        return trimmed_cell(scanner, begin, end);
    return (et_cell){ begin, (size_t)(end - begin) };
}

/* Takes the next cell of a row with quotes: [begin, end), without quotes around it. False: see
 * fault. */
static bool add_cell(et_csv_scanner *scanner, const char *begin, const char *end, unsigned char how)
{
    size_t at = (size_t)scanner->count++;
    if (!make_room(scanner, at, begin))
        return false;
    if (at >= scanner->capacity)
        return true;
    scanner->how[at] = how;
    scanner->cell[at] = how ? whole_cell(scanner, begin, end) : plain_cell(scanner, begin, end);
    return true;
}

/* ---- rows ---- */

static et_csv_found bad(et_csv_scanner *scanner, et_csv_fault fault, const char *at)
{
    scanner->fault = fault;
    scanner->at = at;
    return ET_CSV_BAD;
}

int64_t et_csv_count_lines(const char *begin, const char *end)
{
    enum { LANES = 64, TURNS = 255 }; /* a lane counts as far as a byte can */
    int64_t lines = 0;
    while (end - begin >= LANES) {
        unsigned char lane[LANES] = { 0 };
        for (int turn = 0; turn < TURNS && end - begin >= LANES; turn++, begin += LANES)
            for (int i = 0; i < LANES; i++)
                lane[i] = (unsigned char)(lane[i] + (begin[i] == '\n'));
        for (int i = 0; i < LANES; i++)
            lines += lane[i];
    }
    for (; begin < end; begin++)
        lines += *begin == '\n';
    return lines;
}

/* As count_lines, but faster for text with one or two lines. */
static int64_t count_few_lines(const char *begin, const char *end)
{
    int64_t lines = 0;
    for (const char *at = begin; (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    return lines;
}

/* A fault in a row without a known end: the next row begins after the next LF. */
static et_csv_found bad_before(et_csv_scanner *scanner, et_csv_fault fault, const char *at,
                               char *limit)
{
    char *lf = memchr(at, '\n', (size_t)(limit - at));
    if (!lf) { /* the message may wait until the line is whole */
        scanner->at = NULL;
        return ET_CSV_MORE;
    }
    scanner->next = lf + 1;
    scanner->lines = et_csv_count_lines(scanner->begin, lf + 1);
    return bad(scanner, fault, at);
}

/* After add_cell has failed. */
static et_csv_found no_cell(et_csv_scanner *scanner, char *limit)
{
    return scanner->fault == ET_CSV_FAULT_MEMORY
               ? ET_CSV_BAD
               : bad_before(scanner, scanner->fault, scanner->at, limit);
}

/* ---- the fast way ---- */

/* How a row uses quotes. */
typedef enum row_quotes {
    QUOTES_NONE,
    QUOTES_PLAIN, /* around whole cells */
    QUOTES_OTHER, /* the row has to be walked */
} row_quotes;

/* Bit i of the result: bits 0 to i of x have an odd number of ones. */
static inline uint64_t odd_below(uint64_t x)
{
    for (int shift = 1; shift < 64; shift *= 2)
        x ^= x << shift;
    return x;
}

/* Quotes over the blocks of a row. */
typedef struct quotes {
    uint64_t inside; /* all ones: the block begins within quotes */
    uint64_t starts; /* bit 0: a cell begins with the block */
    bool any;        /* there were some */
} quotes;

/* Removes the bits between quotes from the mask. False: a quote opens within a cell, or a quote is
 * doubled, which looks the same. */
static inline bool mask_quotes(quotes *q, uint64_t *mask, uint64_t here)
{
    uint64_t inside = odd_below(here) ^ q->inside;
    *mask &= ~inside;
    bool sound = !(here & inside & ~(*mask << 1 | q->starts));
    q->inside = (uint64_t)0 - (inside >> 63);
    q->starts = *mask >> 63;
    q->any |= here != 0;
    return sound;
}

/* Takes the cell [begin, end) of a row with quotes. False: its quotes are not around the whole
 * cell. */
static inline bool quoted_cell(et_csv_scanner *scanner, et_cell *cell, const char *begin,
                               const char *end)
{
    if (*begin != '"') {
        *cell = plain_cell(scanner, begin, end);
        return true;
    }
    if (end - begin < 2 || end[-1] != '"')
        return false;
    *cell = whole_cell(scanner, begin + 1, end - 1);
    return true;
}

/* Each bit of the mask ends a cell. any: there may be quotes. Then *quoting tells how they are
 * used; for OTHER nothing else is known. */
static inline et_csv_found scan_cells(et_csv_scanner *scanner, char *limit, bool any,
                                      row_quotes *quoting)
{
    const char delimiter = scanner->delimiter;
    quotes q = { .starts = 1 };
    char *cell = scanner->begin;
    size_t count = 0;
    *quoting = QUOTES_OTHER;
    for (char *block = scanner->begin; block < limit; block += BLOCK) {
        char copy[BLOCK];
        const char *bytes = whole_block(block, limit, copy);
        uint64_t mask = mask_of(bytes, delimiter, '\n');
        if (any && !mask_quotes(&q, &mask, mask_of(bytes, '"', '"')))
            return ET_CSV_MORE;
        for (; mask; mask &= mask - 1) {
            char *at = block + __builtin_ctzll(mask);
            bool last = *at == '\n';
            const char *end = last && at > cell && at[-1] == '\r' ? at - 1 : at;
            if (count >= scanner->capacity && !make_room(scanner, count, cell)) {
                *quoting = QUOTES_NONE;
                return no_cell(scanner, limit);
            }
            if (any && count < scanner->capacity) {
                if (!quoted_cell(scanner, &scanner->cell[count], cell, end))
                    return ET_CSV_MORE;
            } else if (count < scanner->capacity)
                scanner->cell[count] = plain_cell(scanner, cell, end);
            count++;
            cell = at + 1;
            if (last) {
                scanner->count = (int)count;
                scanner->next = cell;
                *quoting = q.any ? QUOTES_PLAIN : QUOTES_NONE;
                return ET_CSV_ROW;
            }
        }
    }
    *quoting = q.any ? QUOTES_OTHER : QUOTES_NONE;
    return ET_CSV_MORE;
}

/* ---- byte by byte ---- */

/* After an opening quote: the closing one, or NULL. */
static char *closing_quote(char *at, char *limit, unsigned char *how)
{
    while ((at = memchr(at, '"', (size_t)(limit - at)))) {
        if (at + 1 == limit || at[1] != '"')
            return at;
        *how |= ET_CELL_DOUBLED;
        at += 2;
    }
    return NULL;
}

static inline char *skip_blanks(const et_csv_scanner *scanner, char *at, const char *limit)
{
    while (at < limit && et_csv_is_blank(scanner, *at))
        at++;
    return at;
}

/* Scans a cell of a row with quotes. *at moves to the end of the cell. */
static et_csv_found scan_cell(et_csv_scanner *scanner, char **at, char *limit)
{
    char *first = skip_blanks(scanner, *at, limit), *end = first;
    if (first < limit && *first == '"') {
        unsigned char how = ET_CELL_QUOTED;
        char *close = closing_quote(first + 1, limit, &how);
        scanner->at = first;
        if (!close || close + 1 == limit)
            return ET_CSV_MORE;
        *at = skip_blanks(scanner, close + 1, limit);
        return add_cell(scanner, first + 1, close, how) ? ET_CSV_ROW : no_cell(scanner, limit);
    }
    scanner->at = NULL;
    while (end < limit && *end != scanner->delimiter && *end != '\n' && *end != '\r')
        end++;
    *at = end;
    return add_cell(scanner, first, end, 0) ? ET_CSV_ROW : no_cell(scanner, limit);
}

/* A row byte by byte. */
static et_csv_found scan_quoted(et_csv_scanner *scanner, char *limit)
{
    char *at = scanner->begin;
    for (;;) {
        et_csv_found found = scan_cell(scanner, &at, limit);
        if (found != ET_CSV_ROW)
            return found;
        if (at == limit || (*at == '\r' && at + 1 == limit)) {
            scanner->at = NULL;
            return ET_CSV_MORE;
        }
        if (*at == '\n' || (*at == '\r' && at[1] == '\n')) {
            scanner->next = at + (*at == '\n' ? 1 : 2);
            return ET_CSV_ROW;
        }
        if (*at != scanner->delimiter)
            return bad_before(scanner, *at == '\r' ? ET_CSV_FAULT_CR : ET_CSV_FAULT_TEXT, at,
                              limit);
        at++;
    }
}

static et_csv_found check_row(et_csv_scanner *scanner, unsigned contents)
{
    size_t length = (size_t)(scanner->next - scanner->begin), offset;
    const char *nul = contents & ET_CSV_HAS_NUL ? memchr(scanner->begin, 0, length) : NULL;
    if (nul)
        return bad(scanner, ET_CSV_FAULT_NUL, nul);
    if (contents & ET_CSV_HAS_HIGH && !et_utf8_valid(scanner->begin, length, &offset))
        return bad(scanner, ET_CSV_FAULT_UTF8, scanner->begin + offset);
    if (scanner->columns && scanner->count != scanner->columns)
        return bad(scanner, ET_CSV_FAULT_COLUMNS, scanner->begin);
    return scanner->count > ET_CSV_COLUMNS_MAX ? bad(scanner, ET_CSV_FAULT_MANY, scanner->begin)
                                               : ET_CSV_ROW;
}

/* Skips a line that is not a row: a comment, or only blanks. */
static et_csv_found skip_line(et_csv_scanner *scanner, char *limit)
{
    char first = *scanner->begin, *at = scanner->begin;
    if (scanner->comment && first == scanner->comment)
        at = memchr(at, '\n', (size_t)(limit - at));
    else {
        if (first != '\n' && first != '\r' && !et_csv_is_blank(scanner, first))
            return ET_CSV_ROW;
        at = skip_blanks(scanner, at, limit);
        if (at < limit && *at == '\r')
            at++;
        if (at < limit && *at != '\n')
            return ET_CSV_ROW;
    }
    if (!at || at == limit)
        return ET_CSV_MORE;
    scanner->lines = 1;
    scanner->next = at + 1;
    return ET_CSV_SKIP;
}

/* A row with quotes, which may have line ends in it. */
static et_csv_found scan_whole(et_csv_scanner *scanner, char *limit, unsigned contents)
{
    scanner->count = 0;
    et_csv_found found = scan_quoted(scanner, limit);
    if (found != ET_CSV_ROW)
        return found;
    scanner->lines = count_few_lines(scanner->begin, scanner->next);
    found = check_row(scanner, contents);
    if (found == ET_CSV_ROW) {
        /* Once the row is complete: each doubled quote becomes one. */
        int count = scanner->columns && scanner->count > scanner->columns ? scanner->columns + 1
                                                                          : scanner->count;
        for (int i = 0; i < count; i++) {
            et_cell *cell = &scanner->cell[i];
            if (!(scanner->how[i] & ET_CELL_DOUBLED))
                continue;
            char *from = scanner->begin + (cell->text - scanner->begin), *to = from;
            const char *end = from + cell->length;
            while (from < end) {
                from += *from == '"';
                *to++ = *from++;
            }
            cell->length = (size_t)(to - cell->text);
        }
    }
    return found;
}

et_csv_found et_csv_scan(et_csv_scanner *scanner, char *begin, char *limit, unsigned contents)
{
    scanner->begin = begin;
    scanner->lines = 0;
    scanner->count = 0;
    scanner->at = NULL;
    if (begin == limit)
        return ET_CSV_MORE;
    et_csv_found found = skip_line(scanner, limit);
    if (found != ET_CSV_ROW)
        return found;
    row_quotes quoting;
    found = contents & ET_CSV_HAS_QUOTE ? scan_cells(scanner, limit, true, &quoting)
                                        : scan_cells(scanner, limit, false, &quoting);
    if (quoting == QUOTES_OTHER)
        return scan_whole(scanner, limit, contents);
    if (found != ET_CSV_ROW)
        return found;
    scanner->lines = 1;
    if (contents & ET_CSV_HAS_CR) {
        char *end = scanner->next - 1;
        end -= end > begin && end[-1] == '\r';
        const char *cr = memchr(begin, '\r', (size_t)(end - begin));
        if (cr && quoting == QUOTES_PLAIN) /* it may be between quotes */
            return scan_whole(scanner, limit, contents);
        if (cr)
            return bad(scanner, ET_CSV_FAULT_CR, cr);
    }
    if (quoting == QUOTES_PLAIN)
        scanner->lines = count_few_lines(begin, scanner->next);
    return contents & (ET_CSV_HAS_NUL | ET_CSV_HAS_HIGH) || scanner->count != scanner->columns
               ? check_row(scanner, contents)
               : ET_CSV_ROW;
}

/* ---- cutting ---- */

/* The position after the line end of the row at begin, which has quotes; NULL: the row is
 * incomplete. Bytes after a closing quote are not checked, only searched for the next cell: a bad
 * row ends with the line of its fault. */
static char *quoted_end(const et_csv_scanner *scanner, char *begin, char *limit)
{
    char *at = begin;
    for (;;) {
        unsigned char how = 0;
        at = skip_blanks(scanner, at, limit);
        if (at < limit && *at == '"') {
            char *close = closing_quote(at + 1, limit, &how);
            if (!close)
                return NULL;
            at = skip_blanks(scanner, close + 1, limit);
            if (at < limit && *at == '\r')
                at++;
            if (at < limit && *at != scanner->delimiter && *at != '\n') {
                at = memchr(at, '\n', (size_t)(limit - at));
                return at ? at + 1 : NULL;
            }
        }
        while (at < limit && *at != scanner->delimiter && *at != '\n') {
            if (*at == '\r' && at + 1 < limit && at[1] != '\n') {
                at = memchr(at, '\n', (size_t)(limit - at));
                return at ? at + 1 : NULL;
            }
            at++;
        }
        if (at == limit)
            return NULL;
        if (*at++ == '\n')
            return at;
    }
}

/* Scans by masks, as scan_cells does, while quotes enclose whole cells. Returns the end of the last
 * row before limit, or before the first row with other quotes. */
static char *cut_fast(const et_csv_scanner *scanner, char *begin, char *limit)
{
    quotes q = { .starts = 1 };
    bool closed = false; /* a quote closed with the block before */
    char *cut = begin;
    for (char *block = begin; block < limit; block += BLOCK) {
        char copy[BLOCK];
        const char *bytes = whole_block(block, limit, copy);
        uint64_t mask = mask_of(bytes, scanner->delimiter, '\n');
        uint64_t lines = mask_of(bytes, '\n', '\n'), here = mask_of(bytes, '"', '"');
        const uint64_t inside = odd_below(here) ^ q.inside;
        bool sound = mask_quotes(&q, &mask, here);
        uint64_t closing = here & ~inside;
        sound &= !((closing << 1 | closed) & ~mask);
        closed = closing >> 63;
        /* Unsound bytes may follow a row's end. */
        uint64_t ends = lines & ~inside;
        if (!sound)
            return cut;
        if (ends)
            cut = block + 64 - __builtin_clzll(ends);
    }
    return cut;
}

char *et_csv_split(const et_csv_scanner *scanner, char *begin, char *limit, unsigned contents)
{
    char *cut = begin;
    if (!(contents & ET_CSV_HAS_QUOTE)) {
        char *lf = memrchr(begin, '\n', (size_t)(limit - begin));
        return lf ? lf + 1 : begin;
    }
    while (cut < limit) {
        if (!scanner->comment && !(contents & ET_CSV_HAS_CR))
            cut = cut_fast(scanner, cut, limit);
        char *lf = memchr(cut, '\n', (size_t)(limit - cut));
        if (!lf)
            return cut;
        bool comment = scanner->comment && *cut == scanner->comment;
        char *next = !comment && memchr(cut, '"', (size_t)(lf - cut))
                         ? quoted_end(scanner, cut, limit)
                         : lf + 1;
        if (!next)
            return cut;
        cut = next;
    }
    return cut;
}

/* ---- guessing ---- */

/* The last quote of a value that begins with a quote; NULL: the value does not end in this line. */
static const char *behind_quoted(const char *at, const char *limit)
{
    while ((at = memchr(at + 1, '"', (size_t)(limit - at - 1)))) {
        if (at + 1 == limit || at[1] != '"')
            return at;
        at++;
    }
    return NULL;
}

/* The number of names in the row, with its cells; NULL: not needed. */
typedef struct named {
    const et_csv_known *known;
    int names;
} named;

static void note_name(named *to, const char *begin, const char *end)
{
    if (!to)
        return;
    end -= end > begin && end[-1] == '\r';
    while (begin < end && *begin == ' ')
        begin++;
    while (begin < end && end[-1] == ' ')
        end--;
    if (end - begin >= 2 && *begin == '"' && end[-1] == '"') {
        begin++;
        end--;
    }
    to->names +=
        begin < end && to->known->is_name(to->known->payload, begin, (size_t)(end - begin));
}

/* The number of cells of the line at *at with this delimiter; *at moves to the next line. 0: no
 * complete line; -1: the line is not a row. Quotes count only if they open a cell. */
static int count_cells(const et_csv_scanner *scanner, char delimiter, const char **at,
                       const char *limit, named *names)
{
    int count = 1;
    bool first = true, blank = true, comment = scanner->comment && **at == scanner->comment;
    const char *cell = *at;
    for (const char *i = *at; i < limit; i++) {
        if (*i == '\n' || *i == delimiter) {
            note_name(names, cell, i);
            cell = i + 1;
        }
        if (*i == '\n') {
            *at = i + 1;
            return comment || blank ? -1 : count;
        }
        blank &= *i == ' ' || *i == '\t' || *i == '\r';
        if (first && *i == '"' && !comment && !(i = behind_quoted(i, limit)))
            return 0;
        first = *i == delimiter || (first && *i == ' ');
        count += *i == delimiter;
    }
    return 0;
}

/* The number of columns, if the delimiter divides every row into equally many; -1: it does not; 0:
 * no row is complete. */
static int count_columns(const et_csv_scanner *scanner, char delimiter, const char *begin,
                         const char *limit, int rows)
{
    int columns = 0;
    for (const char *at = begin; rows > 0 && at < limit;) {
        int count = count_cells(scanner, delimiter, &at, limit, NULL);
        if (!count)
            break;
        if (count < 0)
            continue;
        if (columns && count != columns)
            return -1;
        columns = count;
        rows--;
    }
    return columns;
}

/* The number of known names in the first row with this delimiter, if half of its cells are names;
 * else 0. */
static int count_names(const et_csv_scanner *scanner, char delimiter, const char *begin,
                       const char *limit)
{
    const et_csv_known *known = scanner->known;
    named names = { known, 0 };
    int count = -1;
    for (const char *at = begin; count < 0 && at < limit;) {
        names.names = 0;
        count = count_cells(scanner, delimiter, &at, limit, &names);
    }
    return 2 * names.names >= (count < known->most ? count : known->most) ? names.names : 0;
}

/* The delimiter that finds the most known names in the first row; in a tie, the known delimiter. 0:
 * no delimiter makes a header. */
static char guess_by_names(const et_csv_scanner *scanner, const char *begin, const char *limit)
{
    const char *others = ET_CSV_DELIMITERS;
    char best = 0;
    int most = 0;
    if (!scanner->known->is_name)
        return 0;
    for (char candidate = scanner->known->delimiter; candidate; candidate = *others++) {
        int names = count_names(scanner, candidate, begin, limit);
        if (names > most) {
            most = names;
            best = candidate;
        }
    }
    return best;
}

/* 0: no known delimiter, or it makes another number of columns. */
static char guess_known(const et_csv_scanner *scanner, const char *begin, const char *limit,
                        int rows)
{
    const et_csv_known *known = scanner->known;
    char by_names = guess_by_names(scanner, begin, limit);
    if (by_names)
        return by_names;
    int columns = count_columns(scanner, known->delimiter, begin, limit, rows);
    return columns >= known->least && columns <= known->most ? known->delimiter : 0;
}

/* Whether the first line, which is complete, has commas, all of them between digits. */
static bool has_decimals(const char *begin)
{
    bool has = false;
    for (const char *at = begin; *at != '\n'; at++)
        if (*at == ',' &&
            !(has = at > begin && et_ascii_is_digit(at[-1]) && et_ascii_is_digit(at[1])))
            return false;
    return has;
}

char et_csv_guess(const et_csv_scanner *scanner, const char *begin, const char *limit, int rows)
{
    const char *candidates = ET_CSV_DELIMITERS;
    char best = 0;
    int most = 0;
    for (; *candidates; candidates++) {
        int columns = count_columns(scanner, *candidates, begin, limit, rows);
        columns = columns < 0 ? 1 : columns;
        if (columns > most) {
            most = columns;
            best = *candidates;
        }
    }
    /* A value has one decimal comma at most. */
    if (best == ',' && 2 * count_columns(scanner, ';', begin, limit, rows) > most &&
        has_decimals(begin))
        best = ';';
    char known = best && scanner->known && scanner->known->delimiter
                     ? guess_known(scanner, begin, limit, rows)
                     : 0;
    return known ? known : best;
}

/* ---- messages for faults ---- */

/* Messages for faults in a row. */

/* The beginning of a text in quotation marks, cut between characters; a control character in it
 * becomes a point. */
typedef struct quotation {
    char text[48];
} quotation;

static quotation quote(const char *text, size_t length)
{
    quotation q = { "\"" };
    const size_t count = et_utf8_cut(text, length, sizeof q.text - sizeof "\"...\"");
    for (size_t i = 0; i < count; i++)
        q.text[1 + i] = (unsigned char)text[i] < 0x20 || text[i] == 0x7f ? '.' : text[i];
    strcpy(q.text + 1 + count, count < length ? "...\"" : "\"");
    return q;
}

/* "train.csv:17: column 3" of a place within the row, in line and column, from 1. */
static int fail_at(const et_csv_scanner *scanner, const char *name, int64_t line, const char *text,
                   et_error *error)
{
    int column = 1;
    bool open = false, first = true;
    for (const char *i = scanner->begin; i < scanner->at; i++) {
        if (*i == '"' && (open || first))
            open = !open;
        first = !open && (*i == scanner->delimiter || (first && et_csv_is_blank(scanner, *i)));
        column += !open && *i == scanner->delimiter;
    }
    return et_fail(error, ET_EDATA, "%s:%lld: column %d: %s", name,
                   (long long)(line + et_csv_count_lines(scanner->begin, scanner->at)), column,
                   text);
}

static int fail_columns(const et_csv_scanner *scanner, const char *name, int64_t line,
                        et_error *error)
{
    const char *be = scanner->columns == 1 ? "is" : "are";
    char seen[64];
    snprintf(seen, sizeof seen, "%s expected", be);
    if (scanner->columns_line)
        snprintf(seen, sizeof seen, "%s in line %lld", be, (long long)scanner->columns_line);
    /* The row's first line, as far as it fits and is valid UTF-8. */
    size_t length = 0, most = (size_t)(scanner->next - scanner->begin);
    while (length < most && scanner->begin[length] != '\r' && scanner->begin[length] != '\n')
        length++;
    et_utf8_valid(scanner->begin, length, &length);
    return et_fail(error, ET_EDATA,
                   "%s:%lld: %s, where %d %s, in %s: correct the row, quote values that contain "
                   "the delimiter (%s), or name another delimiter",
                   name, (long long)line, et_format_many(scanner->count, "column").text,
                   scanner->columns, seen, quote(scanner->begin, length).text,
                   scanner->delimiter == '\t' ? "a tab" : quote(&scanner->delimiter, 1).text);
}

int et_csv_fault_fail(const et_csv_scanner *scanner, const char *name, int64_t line,
                      et_error *error)
{
    char text[128];
    switch (scanner->fault) {
    case ET_CSV_FAULT_TEXT:
        snprintf(
            text, sizeof text,
            "%s follows the closing quote of a value: inside a value, double each quote (\"\")",
            quote(scanner->at, 1).text);
        return fail_at(scanner, name, line, text, error);
    case ET_CSV_FAULT_CR:
        return fail_at(scanner, name, line,
                       "a CR within a line: end lines with LF or CR LF, or quote the value", error);
    case ET_CSV_FAULT_NUL:
        return fail_at(scanner, name, line, "a NUL byte: save the file as UTF-8 text", error);
    case ET_CSV_FAULT_UTF8:
        snprintf(text, sizeof text, "the byte 0x%02X is not UTF-8: save the file as UTF-8",
                 (unsigned)(unsigned char)*scanner->at);
        return fail_at(scanner, name, line, text, error);
    case ET_CSV_FAULT_QUOTE:
        return fail_at(scanner, name, line,
                       "the quote that opens here is never closed: close it; inside a value, "
                       "double each quote (\"\")",
                       error);
    case ET_CSV_FAULT_MANY:
        return et_fail(error, ET_EDATA,
                       "%s:%lld: more than %d columns: remove columns that the model does not need",
                       name, (long long)line, ET_CSV_COLUMNS_MAX);
    case ET_CSV_FAULT_LONG:
        return et_fail(error, ET_EDATA,
                       "%s:%lld: a row of more than %zu bytes: write one row per line", name,
                       (long long)line, ET_CSV_ROW_MAX);
    case ET_CSV_FAULT_COLUMNS:
        return fail_columns(scanner, name, line, error);
    case ET_CSV_FAULT_MEMORY:
        break;
    }
    return et_alloc_failed(error, "a row");
}
