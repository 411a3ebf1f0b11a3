/* The vocabularies of a run. Each is found in this order: the run's own file; the one that the user
 * names; training on the text of its sides. Afterwards the file is in the run's directory and the
 * vocabulary is open.
 *
 * A run never changes its vocabularies: without them ids have no meaning, and every row of an
 * embedding belongs to an id. */
#include <string.h>

#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/text/format.h"
#include "data/text/punctuation.h"
#include "data/text/vocabulary/vocabulary.h"
#include "formats/marian/lexicon.h"
#include "formats/safetensors/safetensors.h"
#include "tasks/translation/interchange/marian_files.h"
#include "tasks/translation/translation_task_private.h"
#include "train/checkpoint/artifact/artifact.h"

/* A vocabulary while it is set up. */
typedef struct opening {
    et_translation_task *task;
    int number; /* of the role */
    const et_vocabulary_role *role;
    const char *given; /* NULL: the user names no model */
    int64_t size;      /* 0: as large as max_size and the text allow */
    const char *path;  /* the run's own */
} opening;

static et_vocabulary **model_of(const opening *o)
{
    return &o->task->vocabularies.models[o->number];
}

/* ---- trained ---- */

/* The text that a vocabulary is trained on. */
typedef struct text_source {
    et_translation_lines lines;
    const opening *opening;
    et_strbuf normalized; /* the last line; owned */
} text_source;

/* The training starts when all lines have been read; faulty lines have been reported before. */
static int next_line(void *payload, const char **text, size_t *length, et_error *error)
{
    text_source *source = payload;
    const opening *o = source->opening;
    int status = et_translation_next_line(&source->lines, text, length, error);
    const et_punctuation *rules = o->task->vocabularies.punctuation[!source->lines.side];
    if (!status && *text && rules) {
        et_punctuation_normalize(rules, *text, *length, &source->normalized);
        if (source->normalized.failed)
            return et_alloc_failed(error, "a line");
        *text = et_strbuf_text(&source->normalized);
        *length = source->normalized.length;
    }
    if (!status && !*text)
        et_task_tell(&o->task->context, "training a %s ...", o->role->title);
    return status;
}

/* Saves a model's bytes under the run's name, if the run's checkpoints were trained with this
 * model. */
static int keep(const opening *o, const char *bytes, size_t length, const char *from,
                et_error *error)
{
    const et_translation_task *task = o->task;
    int status = et_vocabularies_check(&task->vocabularies, o->number, et_checksum(bytes, length),
                                       task->context.identity, from, error);
    return status ? status : et_file_write(o->path, bytes, length, error);
}

/* SentencePiece refuses such symbols without naming them, or never finds them in a text. NULL:
 * sound. */
static const char *fault_of(const et_strings *symbols, size_t at, bool bytes)
{
    static const char *const own[] = { "<pad>", "</s>", "<unk>" };
    const char *symbol = symbols->items[at];
    if (!*symbol || strpbrk(symbol, " \t\r\n"))
        return "give one word";
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(symbol, own[i]))
            return "every vocabulary has this token; choose another word";
    if (bytes && strlen(symbol) == 6 && !strncmp(symbol, "<0x", 3))
        return "this is the token of a byte (byte_fallback); choose another word";
    for (size_t i = 0; i < at; i++)
        if (!strcmp(symbol, symbols->items[i]))
            return "the list has this word twice";
    return NULL;
}

/* The user's symbols and the tags of the texts, so that a tag is one token. *items: et_free. */
static int find_symbols(const opening *o, et_strings *symbols, const char ***items, et_error *error)
{
    const et_translation_input *input = &o->task->training;
    const et_strings *given = &o->task->options.vocabulary.user_defined_symbols;
    const char **all = et_alloc(given->count + input->count, sizeof *all);
    size_t count = 0;
    *items = all;
    if (!all)
        return et_alloc_failed(error, "symbols");
    for (size_t i = 0; i < given->count; i++)
        all[count++] = given->items[i];
    for (size_t i = 0; o->role->of[ET_SIDE_SOURCE] && i < input->count; i++) {
        const char *tag = input->texts[i].paths.tag;
        bool is_new = tag && *tag;
        if (input->texts[i].paths.tag_column && !given->count)
            et_log(ET_LOG_WARNING, "tag_column: the vocabulary gets no token for a tag of the "
                                   "column; list the tags in task.vocabulary.user_defined_symbols");
        for (size_t k = 0; k < count && is_new; k++)
            is_new = strcmp(all[k], tag) != 0;
        if (is_new)
            all[count++] = tag;
    }
    *symbols = (et_strings){ all, count };
    for (size_t i = 0; i < count; i++) {
        const char *fault = fault_of(symbols, i, o->task->options.vocabulary.byte_fallback);
        if (fault)
            return et_fail(error, ET_ECONFIG, "%s: \"%.100s\": %s",
                           i < given->count ? "task.vocabulary.user_defined_symbols" : "tag",
                           all[i], fault);
    }
    return ET_OK;
}

/* Writes the model before it is used, so that the run never has ids whose model is not on the disk.
 * The bytes are parsed like a file. */
static int train(const opening *o, et_error *error)
{
    const et_translation_vocabulary *settings = &o->task->options.vocabulary;
    /* Choices are in the vocabulary's own numbering: ORDER et_vocabulary_kind. */
    et_vocabulary_options options = { .kind = settings->model_type,
                                      .size = o->size ? o->size : settings->max_size,
                                      .at_most = o->size == 0,
                                      .character_coverage = settings->character_coverage,
                                      .byte_fallback = settings->byte_fallback };
    const char **symbols;
    char *bytes;
    size_t length;
    double start = et_clock_monotonic();
    text_source source = { { .input = &o->task->training }, o, ET_STRBUF_INIT };
    memcpy(source.lines.of, o->role->of, sizeof source.lines.of);
    int status = et_translation_check_drawing(
        &o->task->options.train_data, options.kind == ET_VOCABULARY_BPE ? "bpe" : "unigram", error);
    if (status)
        return status;
    status = find_symbols(o, &options.symbols, &symbols, error);
    if (status) {
        et_free(symbols);
        return status;
    }
    status = et_vocabulary_train(&bytes, &length, &options, next_line, &source, error);
    et_free(symbols);
    et_translation_lines_close(&source.lines);
    et_strbuf_release(&source.normalized);
    if (status == ET_ECONFIG)
        return et_fail_while(error, status, "%s", o->role->size);
    if (status)
        return status;
    status = keep(o, bytes, length, "a newly trained vocabulary", error);
    if (!status)
        status = et_vocabulary_parse(model_of(o), bytes, length, o->path, error);
    et_free(bytes);
    /* A limit that was not reached is no failure, but worth a word: results of other runs may have
     * been made with another size. */
    if (!status && et_vocabulary_size(*model_of(o)) < options.size)
        et_task_tell(
            &o->task->context,
            "a %s of %s tokens, the most that the text allows (task.vocabulary.max_size: %s)",
            o->role->title, et_format_count(et_vocabulary_size(*model_of(o))).text,
            et_format_count(options.size).text);
    o->task->vocabulary_seconds[o->number] = et_clock_monotonic() - start;
    return status;
}

/* ---- given ---- */

static int read_folder(const opening *o, char **bytes, size_t *length, et_error *error)
{
    if (o->role->of[ET_SIDE_SOURCE] && o->role->of[ET_SIDE_TARGET])
        return et_fail(error, ET_ECONFIG,
                       "%s: %s has a vocabulary for each language; set task.vocabulary.shared to "
                       "false, and the paths of task.vocabulary.source and target",
                       o->role->path, o->given);
    et_import *from;
    int status = et_translation_foreign(o->task, o->given, &from, error);
    if (status)
        return status;
    const char *model = et_import_vocabulary(from, o->role->of[ET_SIDE_TARGET], length);
    *bytes = et_strndup(model, *length);
    return *bytes ? ET_OK : et_alloc_failed(error, "a vocabulary");
}

/* A model's file, an export that has one for this role, or a folder of another program. */
static int read_given(const opening *o, et_vocabulary **out, char **bytes, size_t *length,
                      et_error *error)
{
    *out = NULL;
    *bytes = NULL;
    int status = et_import_is_folder(o->given)
                     ? read_folder(o, bytes, length, error)
                     : et_artifact_read_named(o->given, o->role->file, ET_VOCABULARY_BYTES_MAX,
                                              bytes, length, error);
    return status ? status : et_vocabulary_parse(out, *bytes, *length, o->given, error);
}

/* Finds the source of a given vocabulary's lexicon: the folder of another program, or the run or
 * export with the vocabulary. *out is owned; NULL: none. */
static int find_origin(char **out, const char *given, const char *file, et_error *error)
{
    const bool whole = given && (et_import_is_folder(given) || et_safetensors_is_name(given));
    const bool part = given && !whole && !strcmp(et_path_base(given), file);
    *out = whole ? et_strdup(given) : part ? et_strdup(et_path_parent(given).text) : NULL;
    return *out || (!whole && !part) ? ET_OK : et_alloc_failed(error, "a path");
}

/* *bytes: free with et_free; NULL: no lexicon. */
static int read_lexicon(const opening *o, const char *origin, char **bytes, size_t *length,
                        et_error *error)
{
    et_artifact artifact = { .name = NULL };
    et_import *from;
    *bytes = NULL;
    if (et_import_is_folder(origin)) {
        int status = et_translation_foreign(o->task, origin, &from, error);
        const char *lexicon = status ? NULL : et_import_lexicon(from, length);
        *bytes = lexicon ? et_strndup(lexicon, *length) : NULL;
        return lexicon && !*bytes ? et_alloc_failed(error, "a lexicon") : status;
    }
    int status = et_artifact_open(&artifact, origin, error);
    if (!status && et_artifact_has(&artifact, ET_TRANSLATION_LEXICON))
        status = et_artifact_read(&artifact, ET_TRANSLATION_LEXICON, ET_LEXICON_BYTES_MAX, bytes,
                                  length, error);
    et_artifact_close(&artifact);
    return status;
}

/* Copies the lexicon of shortlists whose tokens both vocabularies number; an export to Bergamot
 * keeps its words. */
static int copy_lexicon(const opening *o, et_error *error)
{
    const et_translation_vocabulary *v = &o->task->options.vocabulary;
    char *origin, *of_source = NULL, *bytes = NULL;
    size_t length;
    int status = find_origin(&origin, v->target.path, ET_TRANSLATION_VOCABULARY_TARGET, error);
    if (!status)
        status = find_origin(&of_source, v->source.path, ET_TRANSLATION_VOCABULARY_SOURCE, error);
    if (!status && origin && of_source && !strcmp(origin, of_source))
        status = read_lexicon(o, origin, &bytes, &length, error);
    if (bytes && !status)
        status = et_file_write(et_path_of(o->task->context.model_dir, ET_TRANSLATION_LEXICON).text,
                               bytes, length, error);
    et_free(origin);
    et_free(of_source);
    et_free(bytes);
    return status;
}

/* Copies the model into the run, byte for byte. Loads it now, although nothing is encoded yet: a
 * model that SentencePiece refuses must not become the run's. */
static int copy(const opening *o, et_error *error)
{
    et_assert(o->given);
    char *bytes;
    size_t length;
    int status = read_given(o, model_of(o), &bytes, &length, error);
    if (!status)
        status = et_vocabulary_load(*model_of(o), error);
    if (!status && o->role->of[ET_SIDE_TARGET] && !o->role->of[ET_SIDE_SOURCE])
        status = copy_lexicon(o, error);
    if (!status)
        status = keep(o, bytes, length, o->given, error);
    if (!status) {
        /* Warns if the requested size differs from that of the named model. */
        const int32_t size = et_vocabulary_size(*model_of(o));
        if (o->size && o->size != size)
            et_log(ET_LOG_WARNING, "%s: %s is ignored: the %s of %s has %s tokens", o->role->size,
                   et_format_count(o->size).text, o->role->title, o->given,
                   et_format_count(size).text);
    }
    et_free(bytes);
    return status;
}

/* Compares by content: the file may have been moved, and a missing file is no longer needed. */
static int check_same(const opening *o, et_error *error)
{
    et_vocabulary *given;
    char *bytes;
    size_t length;
    if (!et_file_exists(o->given)) {
        et_log(ET_LOG_WARNING, "%s: %s does not exist; Etude uses the run's copy, %s",
               o->role->path, o->given, o->path);
        return ET_OK;
    }
    int status = read_given(o, &given, &bytes, &length, error);
    et_free(bytes);
    if (status)
        return status;
    bool same = et_vocabulary_checksum(given) == et_vocabulary_checksum(*model_of(o));
    et_vocabulary_close(given);
    return same ? ET_OK
                : et_fail(error, ET_ECONFIG,
                          "%s: %s is not the model that this run started with (%s); choose another "
                          "--model-dir",
                          o->role->path, o->given, o->path);
}

/* ---- each ---- */

static int use_own(const opening *o, et_error *error)
{
    const et_translation_task *task = o->task;
    int status = et_vocabulary_open(model_of(o), o->path, error);
    if (!status)
        status = et_vocabularies_check(&task->vocabularies, o->number,
                                       et_vocabulary_checksum(*model_of(o)), task->context.identity,
                                       o->path, error);
    return status || !o->given ? status : check_same(o, error);
}

/* Reads all validation text to find faults early: a wrong name should not be found after minutes.
 * Only done if a vocabulary must be trained, which takes minutes. */
static int check_validation(const et_translation_task *task, et_error *error)
{
    const et_translation_input *input = &task->validation.input;
    et_corpus *corpus;
    et_corpus_pair pair = { 0 };
    int status = ET_OK;
    for (size_t i = 0; i < input->count && !status; i++) {
        status = et_corpus_open(&corpus, &input->texts[i].paths, error);
        if (status)
            return status;
        /* Reads the text to its end, so that a bad line is found now. */
        do {
            status = et_corpus_next(corpus, &pair, error);
        } while (!status && pair.source);
        et_corpus_close(corpus);
    }
    return status;
}

static int open_one(et_translation_task *task, int number, bool *checked, et_error *error)
{
    opening o = { .task = task, .number = number, .role = &task->vocabularies.roles[number] };
    char *path = et_path_join(task->context.model_dir, o.role->file);
    task->vocabulary_paths[number] = path;
    o.path = path;
    if (!path)
        return et_alloc_failed(error, "a path");
    const et_translation_vocabulary *settings = &task->options.vocabulary;
    const et_translation_side both = { settings->size, task->options.sentencepiece_model_path };
    const et_translation_side *own = !o.role->of[ET_SIDE_TARGET]   ? &settings->source
                                     : !o.role->of[ET_SIDE_SOURCE] ? &settings->target
                                                                   : &both;
    o.given = own->path && *own->path ? own->path : NULL;
    o.size = own->size ? own->size : settings->size;
    if (et_file_exists(path))
        return use_own(&o, error);
    /* A new run, or one that was stopped before it had this vocabulary. */
    if (task->context.reader)
        return et_fail(error, ET_ENOTFOUND, "%s: no %s yet; train this run first",
                       task->context.model_dir, o.role->title);
    int status = *checked ? ET_OK : check_validation(task, error);
    *checked = true;
    if (status)
        return status;
    return o.given ? copy(&o, error) : train(&o, error);
}

int et_translation_open_vocabularies(et_translation_task *task, et_error *error)
{
    bool checked = false;
    int status = ET_OK;
    et_assert(task->context.model_dir && !task->vocabularies.count);
    et_vocabularies_init(&task->vocabularies, &task->options.vocabulary);
    for (int i = 0; i < task->vocabularies.count && !status; i++)
        status = open_one(task, i, &checked, error);
    if (!status)
        task->sides = et_vocabularies_sides(&task->vocabularies);
    if (!status)
        status = et_vocabularies_check_model(&task->vocabularies, &task->options.model, error);
    if (status)
        return status;
    const et_strings *tokens = &task->options.model.suppressed_tokens;
    task->suppressed = et_alloc(tokens->count, sizeof *task->suppressed);
    return task->suppressed ? et_vocabularies_find_suppressed(task->sides.target, tokens,
                                                              task->suppressed, error)
                            : et_alloc_failed(error, "tokens");
}

/* ---- of another text ---- */

#define PAIRS_LOOKED 10000 /* enough to distinguish a third from nearly none */

/* A third: a word of other letters is a space, which is known, and an unknown. */
int et_translation_check_unknowns(const et_translation_task *task, const et_encoded *encoded,
                                  et_error *error)
{
    et_assert(encoded);
    const et_vocabularies *v = &task->vocabularies;
    const et_encoded_sizes *sizes = &encoded->sizes;
    const int64_t longest = sizes->longest_source > sizes->longest_target ? sizes->longest_source
                                                                          : sizes->longest_target;
    int32_t *ids;
    if (ET_ALLOC(ids, longest, "a sentence", error))
        return ET_ENOMEM;
    for (int side = 0; side < ET_SIDES; side++) {
        const int number = (int)(et_vocabularies_role(v, side) - v->roles);
        const int32_t unk = et_vocabulary_unk(v->models[number]);
        int64_t tokens = 0, unknown = 0;
        const int64_t pairs = encoded->pairs < PAIRS_LOOKED ? encoded->pairs : PAIRS_LOOKED;
        for (int64_t i = 0; i < pairs; i++) {
            et_encoded_ids(encoded, i, side == ET_SIDE_TARGET, ids);
            const int64_t length = side == ET_SIDE_TARGET ? et_encoded_target_length(encoded, i)
                                                          : et_encoded_source_length(encoded, i);
            tokens += length - 1;
            for (int64_t k = 0; k < length - 1; k++)
                unknown += ids[k] == unk;
        }
        if (tokens && 3 * unknown >= tokens)
            et_log(ET_LOG_WARNING,
                   "%s: %lld %% of the tokens of the %s are unknown; check whether this vocabulary "
                   "belongs to this text and language",
                   task->vocabulary_paths[number], (long long)(100 * unknown / tokens),
                   side == ET_SIDE_TARGET ? "target" : "source");
    }
    et_free(ids);
    return ET_OK;
}

/* ---- languages ---- */

/* The number of pairs, among the first ones, whose source does not begin with a language tag. ids:
 * [longest source]. */
static int64_t count_untagged(const et_vocabulary *source, const et_encoded *encoded, int32_t *ids)
{
    const int64_t pairs = encoded->pairs < PAIRS_LOOKED ? encoded->pairs : PAIRS_LOOKED;
    int64_t untagged = 0;
    for (int64_t i = 0; i < pairs; i++) {
        bool found = false;
        et_encoded_ids(encoded, i, false, ids);
        for (int k = 0; k < 2 && k < et_encoded_source_length(encoded, i) && !found; k++)
            found = et_language_tag_is(et_vocabulary_token(source, ids[k]));
        untagged += !found;
    }
    return untagged;
}

int et_translation_check_tags(const et_translation_task *task, const et_encoded *encoded,
                              const char *name, et_error *error)
{
    et_assert(encoded && name);
    et_strbuf list = ET_STRBUF_INIT;
    const int32_t tags = et_language_tags_list(task->sides.source, &list);
    int32_t *ids = tags ? et_alloc(encoded->sizes.longest_source, sizeof *ids) : NULL;
    int status = tags && (!ids || list.failed) ? et_alloc_failed(error, "a sentence") : ET_OK;
    const int64_t untagged = tags && !status ? count_untagged(task->sides.source, encoded, ids) : 0;
    if (untagged)
        et_log(ET_LOG_WARNING,
               "%s: %s without a tag for the target language; begin each source with one of the "
               "vocabulary's tags, or set task.%s.tag: %s",
               name, et_format_many(untagged, "source").text, name, et_strbuf_text(&list));
    et_free(ids);
    et_strbuf_release(&list);
    return status;
}

/* A model of another program that the task's files come from: it is opened once for all of them. */
int et_translation_foreign(et_translation_task *task, const char *folder, et_import **out,
                           et_error *error)
{
    et_assert(folder && out);
    *out = task->context.foreign;
    if (*out && et_import_is_of(*out, folder))
        return ET_OK;
    *out = task->foreign;
    if (*out && et_import_is_of(*out, folder))
        return ET_OK;
    et_import_close(task->foreign);
    task->foreign = NULL;
    int status = et_import_open(out, folder, error);
    task->foreign = status ? NULL : *out;
    return status;
}
