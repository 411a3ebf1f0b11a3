/* SentencePiece behind C functions. Only this file turns exceptions into statuses (guarded) and
 * replaces the library's messages by Etude's, which name the cure. It also removes the library's
 * dependence on chance and locale, so a trained model depends only on lines and options.
 *
 * Encoding of a line: NFKC and other normalisation by the model's table, spaces to U+2581, then
 * tokens by merges (BPE) or by the best path (unigram); the result is ids of tokens.
 *   "Hallo Welt" -> [25, 1034, 718]        no start or end symbol
 * Kudo and Richardson 2018, "SentencePiece: A simple and language independent subword tokenizer and
 * detokenizer for neural text processing". */
#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <system_error>
#include <unordered_map>
#include <vector>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

extern "C" {
#include <etude/log.h>

#include "base/alloc.h"
#include "base/inline.h"
#include "base/text/format.h"
#include "base/threads/thread.h"
#include "data/text/vocabulary/vocabulary_sentencepiece.h"
}

/* Encoding and decoding do not change the model, so threads may share it. */
struct et_sentencepiece {
    sentencepiece::SentencePieceProcessor processor;
    et_vocabulary_facts facts;
};

namespace
{

/* Runs a body and turns an exception into a status. No exception may pass through C frames. */
template <typename Body> int guarded(et_error *error, const char *what, Body body)
{
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return et_fail(error, ET_ENOMEM, "out of memory (%s)", what);
    } catch (const std::system_error &problem) {
        /* A thread that could not be started. */
        bool memory = problem.code() == std::errc::resource_unavailable_try_again ||
                      problem.code() == std::errc::not_enough_memory;
        return et_fail(error, memory ? ET_ENOMEM : ET_EFAIL, "%s failed: %s", what,
                       memory ? "no memory for its threads, or too many (ulimit -v, -s, -u)"
                              : problem.what());
    } catch (const std::exception &problem) {
        return et_fail(error, ET_EFAIL, "%s failed: %s", what, problem.what());
    } catch (...) {
        return et_fail(error, ET_EFAIL, "%s failed", what);
    }
}

/* The reason in a message of SentencePiece, without the position in its source; if there is no
 * text, the condition that was not met. "INTERNAL: src/trainer.cc(12) [a > 0] text" -> "text",
 * without text "a > 0" */
std::string reason(const sentencepiece::util::Status &status)
{
    std::string text = status.ToString();
    size_t begin = text.find('['), end = text.find("] ");
    if (end == std::string::npos)
        return text;
    if (end + 2 < text.size())
        return text.substr(end + 2);
    return begin < end ? text.substr(begin + 1, end - begin - 1) : text;
}

/* ---- loading ----
 *
 * bytes are sound by et_vocabulary_check; this is the library's own opinion of them. */

/* After a failed allocation, destructors of the library free memory that it never had. So both
 * functions ask for the memory before the library does. Measured: a model of 32,000 tokens takes 11
 * times its bytes, a line of one-letter tokens at most 200 times. */
int check_loading(size_t length, et_error *error)
{
    return et_memory_check(length * 16 + ((size_t)1 << 20), "loading a vocabulary", error);
}

/* volatile: otherwise clang removes the allocation and returns ET_OK. */
int check_encoding(size_t length, et_error *error)
{
    const size_t bytes = length * 256 + 16384;
    void *volatile probe = std::malloc(bytes);
    const bool there = probe != nullptr;
    std::free(probe);
    return there ? int(ET_OK) : et_alloc_failed(error, "encoding a line");
}

/* Whether SentencePiece reads the model as et_vocabulary_check does. */
bool agrees(const sentencepiece::SentencePieceProcessor &processor,
            const et_vocabulary_facts *facts)
{
    return processor.GetPieceSize() == facts->pieces && processor.eos_id() == facts->eos &&
           processor.unk_id() == facts->unk && processor.bos_id() == facts->bos &&
           processor.pad_id() == facts->pad;
}

/* Also refuses a model whose normalization adds a prefix or suffix to an empty text: an empty side
 * of a pair must have no token. */
int load(et_sentencepiece *model, const et_vocabulary_facts *facts, const void *bytes,
         size_t length, const char *name, et_error *error)
{
    sentencepiece::SentencePieceProcessor &processor = model->processor;
    model->facts = *facts;
    auto loaded = processor.LoadFromSerializedProto({ static_cast<const char *>(bytes), length });
    if (!loaded.ok())
        return et_fail(error, ET_EFORMAT, "%s: SentencePiece refuses it (%s): copy it again", name,
                       reason(loaded).c_str());
    if (!agrees(processor, facts))
        return et_fail(error, ET_EFORMAT,
                       "%s: its special symbols are ambiguous: copy it again, or train another",
                       name);
    std::vector<int> ids;
    if (!processor.Encode("", &ids).ok() || !ids.empty())
        return et_fail(error, ET_EFORMAT,
                       "%s gives %zu tokens for an empty line: use another model", name,
                       ids.size());
    return ET_OK;
}

/* For models with tags: if a line begins with a known tag, sets its token and returns its bytes;
 * otherwise 0. ">>fra<< I see" -> the token ">>fra<<". */
size_t take_tag(const et_sentencepiece *model, const char *text, size_t length, int *id)
{
    const std::string line(text, length);
    const size_t end = line.compare(0, 2, ">>") == 0 ? line.find("<<") : std::string::npos;
    if (end == std::string::npos)
        return 0;
    const std::string tag = line.substr(0, end + 2);
    *id = model->processor.PieceToId(tag);
    const bool known = *id < model->facts.tokens && model->processor.IdToPiece(*id) == tag;
    return known ? tag.size() : 0;
}

/* Pieces without a number are unknown. Grows to half as much again as needed, so that lines of
 * growing length seldom allocate. */
ET_INLINE int copy_ids(et_tokens *tokens, std::vector<int> &ids, const et_vocabulary_facts &facts,
                       et_error *error)
{
    if (facts.pieces > facts.tokens)
        for (int &id : ids)
            id = id < facts.tokens ? id : facts.unk;
    if (ids.size() > tokens->capacity) {
        size_t capacity = ids.size() + ids.size() / 2;
        void *grown = et_realloc(tokens->ids, capacity, sizeof *tokens->ids);
        if (!grown)
            return et_alloc_failed(error, "tokens");
        tokens->ids = static_cast<int32_t *>(grown);
        tokens->capacity = capacity;
    }
    /* SentencePiece's ids are int, Etude's int32_t: the same type on all supported platforms. */
    static_assert(sizeof(int) == sizeof(int32_t), "ids are int");
    if (!ids.empty())
        std::memcpy(tokens->ids, ids.data(), ids.size() * sizeof(int));
    tokens->count = ids.size();
    return ET_OK;
}

ET_NOINLINE static int cannot_encode(const sentencepiece::util::Status &encoded, et_error *error)
{
    return et_fail(error, ET_EFAIL, "SentencePiece cannot encode a line: %s",
                   reason(encoded).c_str());
}

ET_NOINLINE static int encode_tagged(const et_sentencepiece *model, const char *text, size_t length,
                                     et_tokens *tokens, et_error *error)
{
    std::vector<int> ids;
    int tag = 0;
    const size_t begin = take_tag(model, text, length, &tag);
    auto encoded = model->processor.Encode({ text + begin, length - begin }, &ids);
    if (!encoded.ok())
        return cannot_encode(encoded, error);
    if (begin)
        ids.insert(ids.begin(), tag);
    return copy_ids(tokens, ids, model->facts, error);
}

/* ---- training ----
 *
 * The library trains from an iterator over lines and gives the model as bytes. It writes no file.
 *
 * Settings that are not left to its defaults:
 *   pad 0, eos 1, unk 2, no bos       Model Garden's symbols
 *   num_threads                       part of the result: partial sums are added by thread
 *   shuffle_input_sentence false      lines in the order they come
 *   minloglevel 3                     of its own log only what is fatal */

constexpr int training_threads = 4;

/* An exception in a thread of the library ends the process, because no caller can catch it. So
 * memory is checked before training. Text of words takes up to 32 times its bytes (measured: suffix
 * array, candidates, sums of each thread). A thread has a stack and a heap, for which the C library
 * reserves 64 MiB. */
int check_memory(const std::vector<std::string> &lines, et_error *error)
{
    size_t text = 0;
    for (const std::string &line : lines)
        text += line.size() + sizeof(std::string);
    size_t threads = training_threads * (et_thread_size() + ((size_t)64 << 20));
    return et_memory_check(text * 32 + threads, "training a vocabulary", error);
}

/* The library's iterator over lines that are in memory. Borrowed: they outlive it. */
class Lines : public sentencepiece::SentenceIterator
{
  public:
    explicit Lines(const std::vector<std::string> &lines) : lines_(lines)
    {
    }
    bool done() const override
    {
        return at_ == lines_.size();
    }
    void Next() override
    {
        at_++;
    }
    const std::string &value() const override
    {
        return lines_[at_];
    }
    sentencepiece::util::Status status() const override
    {
        return sentencepiece::util::Status();
    }

  private:
    const std::vector<std::string> &lines_;
    size_t at_ = 0;
};

/* All lines in memory, because a second try of training needs them again. */
int gather(std::vector<std::string> *out, et_vocabulary_lines_fn *lines, void *payload,
           et_error *error)
{
    const char *text;
    size_t length;
    for (;;) {
        int status = lines(payload, &text, &length, error);
        if (status || !text)
            return status;
        out->emplace_back(text, length);
    }
}

/* A list in the format of SentencePiece: values in quotes, separated by commas; a quote inside a
 * value is doubled. */
std::string list_of(const et_strings &texts)
{
    std::string list;
    for (size_t i = 0; i < texts.count; i++) {
        list += i ? ",\"" : "\"";
        for (const char *at = texts.items[i]; *at; at++)
            list += *at == '"' ? std::string("\"\"") : std::string(1, *at);
        list += '"';
    }
    return list;
}

/* The number of threads changes the result (partial sums, and a field of the model), so it is
 * fixed. Numbers are printed here, because SentencePiece reads them in the C locale. */
sentencepiece::util::Status train_once(std::string *model, const et_vocabulary_options *options,
                                       int64_t size, const std::vector<std::string> &lines)
{
    char coverage[16];
    /* 0.9995 -> "0.999500": six digits are more than any text can tell apart. */
    int millionths = static_cast<int>(std::lround(options->character_coverage * 1e6));
    std::snprintf(coverage, sizeof coverage, "%d.%06d", millionths / 1000000, millionths % 1000000);
    Lines iterator(lines);
    model->clear();
    std::unordered_map<std::string, std::string> settings = {
        { "model_type", options->kind == ET_VOCABULARY_BPE ? "bpe" : "unigram" },
        { "vocab_size", std::to_string(size) },
        { "character_coverage", coverage },
        { "pad_id", "0" },
        { "eos_id", "1" },
        { "unk_id", "2" },
        { "bos_id", "-1" },
        { "num_threads", std::to_string(training_threads) },
        { "shuffle_input_sentence", "false" },
        { "minloglevel", "3" }
    };
    /* Set only if requested: the model stores them, and its bytes identify a run. */
    if (options->byte_fallback)
        settings["byte_fallback"] = "true";
    if (options->symbols.count)
        settings["user_defined_symbols"] = list_of(options->symbols);
    return sentencepiece::SentencePieceTrainer::Train(settings, &iterator, model);
}

/* The number after key in a message; -1: the message lacks key. "... Please set it to a value <=
 * 812." with too_high -> 812 */
int64_t number_after(const std::string &text, const char *key)
{
    size_t at = text.find(key);
    return at == std::string::npos
               ? -1
               : std::strtoll(text.c_str() + at + std::strlen(key), nullptr, 10);
}

/* Words of the library's messages before the number that helps. */
const char too_high[] = "Please set it to a value <= ";
const char too_low[] = " vs ";

/* Trains with the largest size that the text allows; 0: none was found. SentencePiece names a size,
 * but this size may fail with another suggestion. So sizes are tried until one works, and the size
 * in the message is right. */
int64_t train_largest(std::string *model, const et_vocabulary_options *options,
                      const std::vector<std::string> &lines, int64_t largest)
{
    /* Most tries; each try trains a vocabulary. */
    for (int tries = 0; tries < 16 && largest > 0; tries++) {
        auto trained = train_once(model, options, largest, lines);
        if (trained.ok())
            return largest;
        int64_t next = number_after(reason(trained), too_high);
        largest = next > 0 && next < largest ? next : largest - 1;
    }
    return 0;
}

/* Two failures have useful numbers: the size is larger than the text allows, or too small for its
 * characters. Other failures keep the library's words. If size is a limit (at_most), a size that is
 * too large is no failure: model becomes the largest possible one. */
int training_failed(std::string *model, const sentencepiece::util::Status &trained,
                    const et_vocabulary_options *options, const std::vector<std::string> &lines,
                    et_error *error)
{
    std::string text = reason(trained);
    /* SentencePiece says both limits in its messages and nowhere else. */
    int64_t largest = number_after(text, too_high);
    if (largest > 0)
        largest = train_largest(model, options, lines, largest);
    if (largest > 0 && options->at_most)
        return ET_OK;
    if (largest > 0)
        return et_fail(error, ET_ECONFIG,
                       "a vocabulary of %s tokens is larger than the text allows: set its size "
                       "to %s or less",
                       et_format_count(options->size).text, et_format_count(largest).text);
    if (text.find("smaller than required_chars") != std::string::npos)
        return et_fail(error, ET_ECONFIG,
                       "a vocabulary of %s tokens is smaller than the text's characters need: "
                       "set its size to at least %s, or lower character_coverage",
                       et_format_count(options->size).text,
                       et_format_count(number_after(text, too_low)).text);
    return et_fail(error, ET_EDATA, "SentencePiece cannot train a vocabulary: %s", text.c_str());
}

/* SentencePiece skips longer lines. */
constexpr size_t line_bytes_max = 4192;

/* A line that SentencePiece looks at has at least one letter. */
bool has_text(const std::vector<std::string> &lines)
{
    for (const std::string &line : lines)
        if (line.size() <= line_bytes_max && line.find_first_not_of(" \t\r") != std::string::npos)
            return true;
    return false;
}

void warn_of_long_lines(const std::vector<std::string> &lines)
{
    int64_t count = 0;
    for (const std::string &line : lines)
        count += line.size() > line_bytes_max;
    if (count)
        et_log(ET_LOG_WARNING,
               "the vocabulary training skips %s of more than 4,192 bytes; split these lines",
               et_format_many(count, "line").text);
}

/* et_strndup adds a 0 after bytes; length does not count it. */
int train(char **bytes, size_t *length, const et_vocabulary_options *options,
          et_vocabulary_lines_fn *fn, void *payload, et_error *error)
{
    std::vector<std::string> lines;
    std::string model;
    int status = gather(&lines, fn, payload, error);
    if (status)
        return status;
    if (!has_text(lines))
        return et_fail(error, ET_EDATA,
                       "no text to train a vocabulary on: every line is empty or longer than "
                       "4,192 bytes");
    warn_of_long_lines(lines);
    status = check_memory(lines, error);
    if (status)
        return status;
    auto trained = train_once(&model, options, options->size, lines);
    if (!trained.ok())
        status = training_failed(&model, trained, options, lines, error);
    if (status)
        return status;
    *bytes = et_strndup(model.data(), model.size());
    *length = model.size();
    return *bytes ? ET_OK : et_alloc_failed(error, "a vocabulary");
}

} // namespace

int et_sentencepiece_load(et_sentencepiece **out, const et_vocabulary_facts *facts,
                          const void *bytes, size_t length, const char *name, et_error *error)
{
    *out = nullptr;
    int room = check_loading(length, error);
    return room ? room : guarded(error, "loading a vocabulary", [&] {
        et_sentencepiece *model = new et_sentencepiece;
        int status = guarded(error, "loading a vocabulary",
                             [&] { return load(model, facts, bytes, length, name, error); });
        if (status)
            delete model;
        else
            *out = model;
        return status;
    });
}

/* Destructors do not throw. */
void et_sentencepiece_free(et_sentencepiece *model)
{
    delete model;
}

/* The library's Encode is const: threads may share a model. */
int et_sentencepiece_encode(const et_sentencepiece *model, const char *text, size_t length,
                            et_tokens *tokens, et_error *error)
{
    int room = check_encoding(length, error);
    return room ? room : guarded(error, "encoding a line", [&] {
        if (model->facts.tags)
            return encode_tagged(model, text, length, tokens, error);
        std::vector<int> ids;
        auto encoded = model->processor.Encode({ text, length }, &ids);
        return encoded.ok() ? copy_ids(tokens, ids, model->facts, error)
                            : cannot_encode(encoded, error);
    });
}

/* Tokens to text: U+2581 becomes a space, control symbols nothing. */
int et_sentencepiece_decode(const et_sentencepiece *model, const int32_t *ids, size_t count,
                            et_strbuf *out, et_error *error)
{
    return guarded(error, "decoding a line", [&] {
        std::string text;
        auto decoded = model->processor.Decode(std::vector<int>(ids, ids + count), &text);
        if (!decoded.ok())
            return et_fail(error, ET_EFAIL, "SentencePiece cannot decode a line: %s",
                           reason(decoded).c_str());
        et_strbuf_append_bytes(out, text.data(), text.size());
        return out->failed ? et_alloc_failed(error, "a line") : int(ET_OK);
    });
}

/* The text belongs to the model and is valid as long as it. */
const char *et_sentencepiece_token(const et_sentencepiece *model, int32_t id)
{
    return model->processor.IdToPiece(id).c_str();
}

int et_sentencepiece_train(char **bytes, size_t *length, const et_vocabulary_options *options,
                           et_vocabulary_lines_fn *lines, void *payload, et_error *error)
{
    return guarded(error, "training a vocabulary",
                   [&] { return train(bytes, length, options, lines, payload, error); });
}
