/* Pairs from lines: of two readers in step (source_path and target_path), or of one reader whose
 * lines are cut at their TAB (tsv_path). text.c handles files, gzip, UTF-8 and line ends. Pairs
 * also come from records: tf.Examples with one string for each side, which is checked like a line.
 *
 *   help.en: "a house"   help.de: "ein Haus"     ->  ("a house", "ein Haus", 0)
 *   pairs.tsv: "a house<TAB>ein Haus"            ->  the same
 *
 * Lines are paired by their number over all files of a side, so the files of the two sides may be
 * divided differently; only the sums must agree. An empty line is a valid side of a pair here;
 * encoded.c decides what to leave out. */
#include "data/text/corpus.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/inline.h"
#include "base/text/format.h"
#include "base/text/unicode.h"
#include "formats/records/example.h"
#include "formats/records/record.h"

/* In a tsv both sides are columns of one text, and only the source side has a reader; so of
 * records. */
struct et_corpus {
    const et_corpus_paths *paths; /* borrowed */
    bool single;                  /* one reader for both sides; lines[1] is NULL */
    bool augmented;               /* copies follow their pairs */
    bool changed;                 /* augmented, or with tags */
    et_text *text[2];             /* of source and target, or of both; NULL: records */
    et_record_list records;       /* without paths: text */
    et_arena arena;               /* of the record given last */
    int64_t *lines[2];            /* [files of that side]: number of lines that were read so far */
    int64_t pairs;                /* given so far */
    const char *tag;              /* of the pair; not terminated */
    size_t tag_length;
    char *tagged; /* [tagged_size] a source with its tag; owned */
    size_t tagged_size;
    et_corpus_pair original; /* if changed: the pair that was read last, without a tag */
    int kind;                /* of the next copy of it */
    et_strbuf copies[2];     /* a copy: source and target */
    et_corpus_pair pair;     /* source and target lines, given by turns */
    bool target_is_due;      /* next_line gave the source of pair, its target comes next */
};

/* ---- which files ---- */

/* Checks settings before any file is opened, so messages name the settings. */

const et_strings *et_corpus_files(const et_corpus_paths *paths, bool target)
{
    if (paths->records.count)
        return &paths->records;
    if (paths->tsv.count)
        return &paths->tsv;
    return target ? &paths->target : &paths->source;
}

static int check_records(const et_corpus_paths *paths, et_error *error)
{
    const et_strings *others[] = { &paths->source, &paths->target, &paths->tsv };
    static const char *const names[] = { "source_path", "target_path", "tsv_path" };
    for (int i = 0; i < 3; i++)
        if (others[i]->count)
            return et_fail(error, ET_ECONFIG,
                           "input_path (%s) and %s (%s) are both set: set one of them",
                           paths->records.items[0], names[i], others[i]->items[0]);
    const char *source = paths->source_feature, *target = paths->target_feature;
    if (source && *source && target && *target && strcmp(source, target))
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "input_path is set (%s): set src_lang and tgt_lang to the names of two features "
                   "of its records",
                   paths->records.items[0]);
}

/* The message names the paths in use, so that swapped settings are visible. */
int et_corpus_paths_check(const et_corpus_paths *paths, et_error *error)
{
    bool source = paths->source.count, target = paths->target.count, tsv = paths->tsv.count;
    if (paths->records.count)
        return check_records(paths, error);
    if (!source && !target && !tsv)
        return et_fail(
            error, ET_ECONFIG,
            "no text is given: set source_path and target_path, or tsv_path, or input_path");
    if (tsv && (source || target))
        return et_fail(error, ET_ECONFIG,
                       "tsv_path (%s) and %s (%s) are both set: set tsv_path or the other two",
                       paths->tsv.items[0], source ? "source_path" : "target_path",
                       source ? paths->source.items[0] : paths->target.items[0]);
    if (!tsv && source != target)
        return et_fail(error, ET_ECONFIG, "%s is set (%s) and %s is not: set both",
                       source ? "source_path" : "target_path",
                       source ? paths->source.items[0] : paths->target.items[0],
                       source ? "target_path" : "source_path");
    return ET_OK;
}

/* Opens all files before the first record is read, so that a wrong last path is found early. */
static int open_records(et_corpus *corpus, et_error *error)
{
    const et_strings *files = &corpus->paths->records;
    int status = ET_OK;
    for (size_t i = 0; !status && i < files->count; i++) {
        et_record_reader *reader;
        status = et_record_reader_open(&reader, files->items[i], error);
        if (!status)
            et_record_reader_close(reader);
    }
    corpus->records.paths = *files;
    return status;
}

/* Opens both sides before reading a line, so that a missing target file is reported early. */
int et_corpus_open(et_corpus **out, const et_corpus_paths *paths, et_error *error)
{
    int status = et_corpus_paths_check(paths, error);
    if (status)
        return status;
    et_corpus *corpus;
    if (ET_ALLOC_ZERO(corpus, 1, "a corpus reader", error))
        return ET_ENOMEM;
    corpus->paths = paths;
    corpus->tag = paths->tag;
    corpus->tag_length = paths->tag ? strlen(paths->tag) : 0;
    corpus->single = paths->tsv.count || paths->records.count;
    corpus->augmented = et_augment_is_used(&paths->augment);
    corpus->changed = corpus->augmented || corpus->tag_length || paths->tag_column;
    for (int side = 0; !status && side < (corpus->single ? 1 : 2); side++) {
        const et_strings *files = et_corpus_files(paths, side);
        corpus->lines[side] = et_alloc_zero(files->count, sizeof(int64_t));
        status = !corpus->lines[side]   ? et_alloc_failed(error, "a corpus reader")
                 : paths->records.count ? open_records(corpus, error)
                                        : et_text_open(&corpus->text[side], files, error);
    }
    if (status) {
        et_corpus_close(corpus);
        return status;
    }
    *out = corpus;
    return ET_OK;
}

void et_corpus_close(et_corpus *corpus)
{
    if (!corpus)
        return;
    for (int side = 0; side < 2; side++) {
        et_text_close(corpus->text[side]);
        et_free(corpus->lines[side]);
    }
    et_free(corpus->tagged);
    et_strbuf_release(&corpus->copies[0]);
    et_strbuf_release(&corpus->copies[1]);
    et_record_list_close(&corpus->records);
    et_arena_release(&corpus->arena);
    et_free(corpus);
}

/* ---- a pair of lines ---- */

/* From one line of each side, or the two columns of one, to a pair. Both texts are borrowed from
 * the readers, until the next line is read. */

/* Notes how far each file was read: after the end these are the files' numbers of lines. */
static int next_line(et_corpus *corpus, int side, et_text_line *line, et_error *error)
{
    int status = et_text_next(corpus->text[side], line, error);
    if (!status && line->text)
        corpus->lines[side][line->file] = line->number;
    return status;
}

/* "help.en" or "help.en and 2 more". */
static const char *side_name(const et_strings *files, et_strbuf *out)
{
    et_strbuf_append(out, files->items[0]);
    if (files->count > 1)
        et_strbuf_printf(out, " and %zu more", files->count - 1);
    return et_strbuf_text(out);
}

/* One side has ended. Counts the rest of the other side, even of millions of lines, because both
 * numbers help to find the missing line. */
static int lengths_differ(et_corpus *corpus, et_error *error)
{
    et_text_line line;
    for (int side = 0; side < 2; side++)
        do {
            int status = next_line(corpus, side, &line, error);
            if (status)
                return status;
        } while (line.text);
    et_strbuf source = ET_STRBUF_INIT, target = ET_STRBUF_INIT;
    int status =
        et_fail(error, ET_EDATA,
                "%s has %s, but %s has %s: line N of one file must translate line N of the other",
                side_name(&corpus->paths->source, &source),
                et_format_many(et_text_count(corpus->text[0]), "line").text,
                side_name(&corpus->paths->target, &target),
                et_format_count(et_text_count(corpus->text[1])).text);
    et_strbuf_release(&source);
    et_strbuf_release(&target);
    return status;
}

/* The first column, in front of the two. */
static int take_tag(et_corpus *corpus, et_text_line *line, et_error *error)
{
    const char *tab = memchr(line->text, '\t', line->length);
    if (!tab || !memchr(tab + 1, '\t', line->length - (size_t)(tab + 1 - line->text)))
        return et_fail(error, ET_EDATA,
                       "%s:%lld: expected 3 columns: write tag, TAB, source, TAB, target "
                       "(tag_column)",
                       line->path, (long long)line->number);
    corpus->tag = line->text;
    corpus->tag_length = (size_t)(tab - line->text);
    line->length -= corpus->tag_length + 1;
    line->text = tab + 1;
    return ET_OK;
}

/* At the end, the pair is not changed: all members are NULL. */
static int next_of_tsv(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    et_text_line line;
    int status = next_line(corpus, 0, &line, error);
    if (status || !line.text)
        return status;
    if (corpus->paths->tag_column)
        status = take_tag(corpus, &line, error);
    if (status)
        return status;
    /* Requires exactly one TAB. A third column would be an id or a score, and a sentence with a TAB
     * would lose its end silently. Columns may be empty. All TABs are counted for the message. */
    const char *tab = memchr(line.text, '\t', line.length);
    size_t tabs = 0;
    for (size_t i = 0; i < line.length; i++)
        tabs += line.text[i] == '\t';
    if (tabs != 1)
        return et_fail(error, ET_EDATA,
                       "%s:%lld: expected 2 columns, found %zu: write source, one TAB, target",
                       line.path, (long long)line.number, tabs + 1);
    pair->source = line.text;
    pair->source_length = (size_t)(tab - line.text);
    pair->target = tab + 1;
    pair->target_length = line.length - pair->source_length - 1;
    return ET_OK;
}

/* Takes one line from each side. Both NULL: the end; one NULL: the sides have different lengths. */
static int next_of_two(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    et_text_line source, target;
    int status;
    if ((status = next_line(corpus, 0, &source, error)) ||
        (status = next_line(corpus, 1, &target, error)))
        return status;
    /* Exactly one side has ended. */
    if (!source.text != !target.text)
        return lengths_differ(corpus, error);
    *pair = (et_corpus_pair){ source.text, target.text, source.length, target.length, 0 };
    return ET_OK;
}

/* ---- a pair of a record ---- */

static int find_text(et_bytes *out, const et_example *example, const char *name,
                     const char *setting, et_error *error)
{
    const et_feature *f = et_example_last(example, name);
    if (!f) {
        /* The message lists the existing names, because the user usually means one of them. */
        et_strbuf names = ET_STRBUF_INIT;
        for (size_t i = 0; i < example->count && names.length < 256; i++)
            et_strbuf_printf(&names, "%s%s", i ? ", " : "", example->features[i].key);
        int status = et_fail(error, ET_EDATA,
                             "no feature %s (the record has: %s): set %s to the name of "
                             "one",
                             name, et_strbuf_text(&names), setting);
        et_strbuf_release(&names);
        return status;
    }
    if (f->kind != ET_FEATURE_BYTES || f->count != 1)
        return et_fail(error, ET_EDATA, "feature %s has %zu values (%s): give one string", name,
                       f->count, et_feature_kind_name(f->kind));
    *out = f->bytes[0];
    size_t at;
    if (out->length > ET_TEXT_LINE_MAX)
        return et_fail(error, ET_EDATA,
                       "feature %s: a string of more than %zu bytes: give one sentence per record",
                       name, ET_TEXT_LINE_MAX);
    const char *nul = out->length ? memchr(out->data, 0, out->length) : NULL;
    if (nul)
        return et_fail(error, ET_EDATA, "feature %s: byte %zu is NUL: write UTF-8 text", name,
                       (size_t)(nul - (const char *)out->data) + 1);
    if (!et_utf8_valid(out->length ? out->data : "", out->length, &at))
        return et_fail(error, ET_EDATA,
                       "feature %s: byte %zu (0x%02X) is not UTF-8: write UTF-8 "
                       "text",
                       name, at + 1, (unsigned)((const unsigned char *)out->data)[at]);
    return ET_OK;
}

static int next_of_records(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    et_record_position position;
    const void *bytes;
    size_t length;
    int status = et_record_list_next(&corpus->records, &position, &bytes, &length, error);
    if (status || !bytes)
        return status;
    corpus->lines[0][corpus->records.file]++;
    const et_corpus_paths *paths = corpus->paths;
    et_example_memory room = { .arena = &corpus->arena };
    et_example example;
    et_bytes source = { 0 }, target = { 0 };
    et_arena_release(&corpus->arena);
    status = et_example_read(&example, &room, bytes, length, error);
    if (!status)
        status = find_text(&source, &example, paths->source_feature, "src_lang", error);
    if (!status)
        status = find_text(&target, &example, paths->target_feature, "tgt_lang", error);
    if (!status)
        *pair =
            (et_corpus_pair){ source.length ? source.data : "", target.length ? target.data : "",
                              source.length, target.length, 0 };
    return status ? et_record_blame(&position, status, error) : ET_OK;
}

/* ---- tags ---- */

/* Blanks and characters without width alone give no token: with a tag, their line stays empty. */
static bool has_text(const char *text, size_t length)
{
    uint32_t code;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        bytes = et_utf8_decode(text + at, length - at, &code);
        if (!et_unicode_is_space(code) && et_utf8_columns(text + at, bytes))
            return true;
    }
    return false;
}

/* The source becomes a copy that begins with the tag. */
static int put_tag(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    const size_t length = corpus->tag_length + 1 + pair->source_length;
    if (length > corpus->tagged_size) {
        char *larger = et_alloc(2 * length, 1);
        if (!larger)
            return et_alloc_failed(error, "a line");
        et_free(corpus->tagged);
        corpus->tagged = larger;
        corpus->tagged_size = 2 * length;
    }
    memcpy(corpus->tagged, corpus->tag, corpus->tag_length);
    corpus->tagged[corpus->tag_length] = ' ';
    memcpy(corpus->tagged + corpus->tag_length + 1, pair->source, pair->source_length);
    pair->source = corpus->tagged;
    pair->source_length = length;
    return ET_OK;
}

/* ---- the next pair ---- */

/* Makes the next copy of the last pair, whose text is still valid. source NULL: no more copies. */
static int next_copy(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    const et_corpus_pair *original = &corpus->original;
    const char *const texts[2] = { original->source, original->target };
    const size_t lengths[2] = { original->source_length, original->target_length };
    bool made = false;
    int status = ET_OK;
    while (original->source && !made && !status && corpus->kind < ET_AUGMENT_KINDS)
        status = et_augment_make(&corpus->paths->augment, corpus->kind++, original->index, texts,
                                 lengths, corpus->copies, &made, error);
    if (!status && made)
        *pair = (et_corpus_pair){ et_strbuf_text(&corpus->copies[0]),
                                  et_strbuf_text(&corpus->copies[1]), corpus->copies[0].length,
                                  corpus->copies[1].length, original->index };
    return status;
}

static int next_original(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    *pair = (et_corpus_pair){ 0 };
    int status = corpus->records.paths.count ? next_of_records(corpus, pair, error)
                 : corpus->single            ? next_of_tsv(corpus, pair, error)
                                             : next_of_two(corpus, pair, error);
    if (status)
        return status;
    pair->index = corpus->pairs;
    if (pair->source)
        corpus->pairs++;
    else if (corpus->pairs == 0) {
        /* Files without any line, or only files of no bytes. */
        et_strbuf name = ET_STRBUF_INIT;
        status = et_fail(error, ET_EDATA, "%s: the file is empty: give at least one pair",
                         side_name(et_corpus_files(corpus->paths, false), &name));
        et_strbuf_release(&name);
        return status;
    }
    return ET_OK;
}

/* A copy of the last pair, or the next pair, and its tag. */
ET_NOINLINE static int next_changed(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    *pair = (et_corpus_pair){ 0 };
    int status = corpus->augmented ? next_copy(corpus, pair, error) : ET_OK;
    if (!status && !pair->source) {
        status = next_original(corpus, pair, error);
        if (status)
            return status;
        corpus->original = *pair;
        corpus->kind = 0;
    }
    if (!status && corpus->tag_length && pair->source &&
        has_text(pair->source, pair->source_length))
        status = put_tag(corpus, pair, error);
    return status;
}

/* index counts pairs that were read, whether training uses them or not. */
int et_corpus_next(et_corpus *corpus, et_corpus_pair *pair, et_error *error)
{
    return corpus->changed ? next_changed(corpus, pair, error) : next_original(corpus, pair, error);
}

/* The target's text is still valid, because nothing was read since. */
int et_corpus_next_line(void *payload, const char **text, size_t *length, et_error *error)
{
    et_corpus *corpus = payload;
    et_corpus_pair *pair = &corpus->pair;
    if (!corpus->target_is_due) {
        int status = et_corpus_next(corpus, pair, error);
        if (status)
            return status;
    }
    *text = corpus->target_is_due ? pair->target : pair->source;
    *length = corpus->target_is_due ? pair->target_length : pair->source_length;
    /* At the end (source NULL), target_is_due stays false, and the next call reports the end again.
     */
    corpus->target_is_due = pair->source && !corpus->target_is_due;
    return ET_OK;
}

/* ---- places and counts ---- */

/* For people: the position of a pair in their files, and the counts of all. */

/* Walks all files of a side, for messages only. An index after the last line is in the last
 * file. */
void et_corpus_locate(const et_corpus_paths *paths, const int64_t *lines, bool target,
                      int64_t index, const char **path, int64_t *line)
{
    const et_strings *files = et_corpus_files(paths, target);
    size_t file = 0;
    et_assert(index >= 0 && files->count > 0);
    /* index becomes the line within the file that it falls into. */
    while (file + 1 < files->count && index >= lines[file])
        index -= lines[file++];
    et_assert(index >= 0);
    *path = files->items[file];
    *line = index + 1;
}

/* If one reader reads both sides, they have the same lines. */
int64_t et_corpus_lines(const et_corpus *corpus, bool target, size_t file)
{
    return corpus->lines[target && !corpus->single][file];
}

/* Rows of reasons in the order of the text; zeros are skipped. "29,000 pairs; 12 left out: 9 too
 * long, 3 empty; 4 shortened". */
void et_corpus_counts_print(const et_corpus_counts *counts, et_strbuf *out)
{
    const struct {
        int64_t count;
        const char *why;
    } rows[] = {
        { counts->too_long, "too long" },
        { counts->empty, "empty" },
        { counts->lopsided, "lopsided" },
        { counts->duplicate, "duplicate" },
    };
    /* The reasons add up to this number; pairs that were only cut are kept. */
    int64_t left_out = counts->read - counts->kept;
    et_strbuf_append(out, et_format_many(counts->kept, "pair").text);
    const double share = counts->read ? 100 * (double)left_out / (double)counts->read : 0;
    if (left_out)
        et_strbuf_printf(out, "; %s filtered (%.*f %%)", et_format_count(left_out).text,
                         share < 10 ? 1 : 0, share);
    const char *between = ": ";
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].count) {
            et_strbuf_printf(out, "%s%s %s", between, et_format_count(rows[i].count).text,
                             rows[i].why);
            between = ", ";
        }
    if (counts->cut)
        et_strbuf_printf(out, "; %s shortened", et_format_count(counts->cut).text);
}

/* ---- notes of earlier checks ---- */

/* A note is 32 bytes next to the cache: a stamp of the files (a checksum of their stat results and
 * of everything else that the key depends on), and the key that was found for them.
 *
 *   magic | stamp | key | checksum of these three      uint64 each, the machine's byte order
 *
 * The note trusts the clock of the file system: a file whose contents change gets another ctime,
 * which no program can set. Two changes within one tick of that clock look like one. So a file is
 * noted only when its last change is SETTLE_SECONDS ago (git does the same for its index: "racy
 * git"). */

#define MAGIC UINT64_C(0x316e656573757445) /* "Etuseen1" in little-endian bytes */
/* As long as the coarsest times of file systems in use: FAT counts two seconds. */
#define SETTLE_SECONDS 2

/* The whole of the small file, in the machine's byte order. */
typedef struct note {
    uint64_t magic, stamp, key; /* key: et_encoded.key */
    uint64_t checksum;          /* of the bytes before it */
} note;

/* The system's facts about one file. A write changes the time of the status change, which no
 * program can set. A different file with the same name has another inode or device. */
typedef struct facts {
    uint64_t device, inode, length;
    int64_t modified[2], changed[2]; /* seconds, nanoseconds */
} facts;

/* The checksum of magic, stamp and key, as in memory. */
static uint64_t checksum_of(const note *kept)
{
    return et_checksum(kept, offsetof(note, checksum));
}

/* Adds one file to the stamp. false: the file is missing or not regular, so nothing is noted. */
static bool look_at(et_encoding_stamp *seen, const char *path, et_checksum_stream *stream)
{
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode))
        return false;
    facts one = { (uint64_t)info.st_dev,
                  (uint64_t)info.st_ino,
                  (uint64_t)info.st_size,
                  { info.st_mtim.tv_sec, info.st_mtim.tv_nsec },
                  { info.st_ctim.tv_sec, info.st_ctim.tv_nsec } };
    et_checksum_stream_add(stream, &one, sizeof one);
    if (info.st_ctim.tv_sec > time(NULL) - SETTLE_SECONDS)
        seen->settled = false;
    return true;
}

/* The count separates the lists, as in the key. */
static bool look_at_all(et_encoding_stamp *seen, const et_strings *files,
                        et_checksum_stream *stream)
{
    uint64_t count = files->count;
    et_checksum_stream_add(stream, &count, sizeof count);
    for (size_t i = 0; i < files->count; i++)
        if (!look_at(seen, files->items[i], stream))
            return false;
    return true;
}

/* Also examines the cache: if it was written since, it must be checked again. */
bool et_encoding_stamp_take(et_encoding_stamp *seen, uint64_t key_facts,
                            const et_corpus_paths *paths, const char *cache_path)
{
    et_checksum_stream *stream;
    *seen = (et_encoding_stamp){ .settled = true };
    if (et_checksum_stream_open(&stream, NULL))
        return false;
    et_checksum_stream_add(stream, &key_facts, sizeof key_facts);
    bool all = look_at_all(seen, &paths->source, stream) &&
               look_at_all(seen, &paths->target, stream) && look_at_all(seen, &paths->tsv, stream);
    if (all && paths->records.count) {
        et_checksum_stream_add(stream, paths->source_feature, strlen(paths->source_feature) + 1);
        et_checksum_stream_add(stream, paths->target_feature, strlen(paths->target_feature) + 1);
        all = look_at_all(seen, &paths->records, stream);
    }
    all = all && look_at(seen, cache_path, stream);
    seen->stamp = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return all;
}

/* Returns -1 after any failure, and then no note exists. Notes need no rename, because an
 * incomplete note has a wrong checksum. */
static int open_note(const char *cache_path, int flags)
{
    et_arena arena = ET_ARENA_INIT;
    const char *path = et_arena_printf(&arena, "%s.seen", cache_path);
    int fd = path ? open(path, flags | O_CLOEXEC | O_NOCTTY, 0666) : -1;
    et_arena_release(&arena);
    return fd;
}

/* *key is written in any case and means something only if the result is true. */
bool et_encoding_stamp_recall(const et_encoding_stamp *seen, const char *cache_path, uint64_t *key)
{
    _Static_assert(sizeof(note) == 32, "the note has no holes");
    note kept = { 0 };
    int fd = open_note(cache_path, O_RDONLY);
    if (fd < 0)
        return false;
    bool whole = read(fd, &kept, sizeof kept) == (ssize_t)sizeof kept;
    close(fd);
    *key = kept.key;
    return whole && kept.magic == MAGIC && kept.checksum == checksum_of(&kept) &&
           kept.stamp == seen->stamp;
}

void et_encoding_stamp_note(const et_encoding_stamp *seen, const char *cache_path, uint64_t key)
{
    note kept = { MAGIC, seen->stamp, key, 0 };
    kept.checksum = checksum_of(&kept);
    int fd = seen->settled ? open_note(cache_path, O_WRONLY | O_CREAT | O_TRUNC) : -1;
    if (fd < 0)
        return;
    ssize_t written = write(fd, &kept, sizeof kept); /* a torn note has the wrong checksum and
                                                        counts as no note */
    (void)written;
    close(fd);
}
