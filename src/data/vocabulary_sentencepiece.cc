#include <climits>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <unordered_map>
#include <vector>

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

extern "C" {
#include "base/alloc.h"
#include "data/vocabulary.h"
#include "data/vocabulary_check.h"
#include "io/checksum.h"
#include "io/format.h"
}

struct et_vocabulary {
    sentencepiece::SentencePieceProcessor processor;
    et_vocabulary_facts facts;
    uint64_t checksum;
};

namespace
{

/* Runs a body that may throw and turns what it throws into a status. */
template <typename Body> int guarded(et_error *error, const char *what, Body body)
{
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return et_fail(error, ET_ENOMEM, "out of memory (%s)", what);
    } catch (const std::exception &problem) {
        return et_fail(error, ET_EFAIL, "%s failed: %s", what, problem.what());
    } catch (...) {
        return et_fail(error, ET_EFAIL, "%s failed", what);
    }
}

/* What SentencePiece says, after the place in its own source that it begins with. */
std::string reason(const sentencepiece::util::Status &status)
{
    std::string text = status.ToString();
    size_t bracket = text.find("] ");
    return bracket == std::string::npos ? text : text.substr(bracket + 2);
}

/* ---- loading ---- */

int load(et_vocabulary *vocabulary, const void *bytes, size_t length, const char *name,
         et_error *error)
{
    int status = et_vocabulary_check(&vocabulary->facts, bytes, length, name, error);
    if (status)
        return status;
    sentencepiece::SentencePieceProcessor &processor = vocabulary->processor;
    auto loaded = processor.LoadFromSerializedProto({ static_cast<const char *>(bytes), length });
    if (!loaded.ok())
        return et_fail(error, ET_EFORMAT, "%s: SentencePiece refuses it (%s): copy it again", name,
                       reason(loaded).c_str());
    if (processor.GetPieceSize() < 1 || processor.eos_id() < 0 || processor.unk_id() < 0)
        return et_fail(error, ET_EFORMAT,
                       "%s has no %s: train it with eos_id and unk_id of 0 or more", name,
                       processor.eos_id() < 0 ? "end-of-sentence symbol" : "symbol for unknowns");
    std::vector<int> ids;
    if (!processor.Encode("", &ids).ok() || !ids.empty())
        return et_fail(error, ET_EFORMAT,
                       "%s gives %zu sub-words for an empty line: it can't be used", name,
                       ids.size());
    vocabulary->checksum = et_checksum(bytes, length);
    return ET_OK;
}

int copy_ids(et_pieces *pieces, const std::vector<int> &ids, et_error *error)
{
    if (ids.size() > pieces->capacity) {
        size_t capacity = ids.size() + ids.size() / 2;
        void *grown = et_realloc(pieces->ids, capacity, sizeof *pieces->ids);
        if (!grown)
            return et_alloc_failed(error, capacity * sizeof *pieces->ids, "sub-words");
        pieces->ids = static_cast<int32_t *>(grown);
        pieces->capacity = capacity;
    }
    static_assert(sizeof(int) == sizeof(int32_t), "ids are int");
    if (!ids.empty())
        std::memcpy(pieces->ids, ids.data(), ids.size() * sizeof(int));
    pieces->count = ids.size();
    return ET_OK;
}

/* ---- training ---- */

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

/* The number of threads is part of the result (partial sums, and it stands in the model), so
 * it is fixed. Numbers are spelt here: SentencePiece reads them in the C locale. */
sentencepiece::util::Status train_once(std::string *model, const et_vocabulary_options *options,
                                       int64_t size, const std::vector<std::string> &lines)
{
    char coverage[16];
    int millionths = static_cast<int>(std::lround(options->character_coverage * 1e6));
    std::snprintf(coverage, sizeof coverage, "%d.%06d", millionths / 1000000, millionths % 1000000);
    Lines iterator(lines);
    model->clear();
    return sentencepiece::SentencePieceTrainer::Train(
        { { "model_type", options->kind == ET_VOCABULARY_BPE ? "bpe" : "unigram" },
          { "vocab_size", std::to_string(size) },
          { "character_coverage", coverage },
          { "pad_id", "0" },
          { "eos_id", "1" },
          { "unk_id", "2" },
          { "bos_id", "-1" },
          { "num_threads", "4" },
          { "shuffle_input_sentence", "false" },
          { "minloglevel", "3" } },
        &iterator, model);
}

/* The number behind key in a message, -1 if key is not there. */
int64_t number_after(const std::string &text, const char *key)
{
    size_t at = text.find(key);
    return at == std::string::npos
               ? -1
               : std::strtoll(text.c_str() + at + std::strlen(key), nullptr, 10);
}

const char too_high[] = "Please set it to a value <= ";
const char too_low[] = " vs ";

/* SentencePiece names a largest size, but with another size it may find another: tries until
 * one works, so that what we say is true. */
int size_is_too_large(const et_vocabulary_options *options, const std::vector<std::string> &lines,
                      int64_t largest, et_error *error)
{
    std::string model;
    for (int tries = 0; tries < 16; tries++) {
        auto trained = train_once(&model, options, largest, lines);
        if (trained.ok())
            break;
        int64_t next = number_after(reason(trained), too_high);
        largest = next > 0 && next < largest ? next : largest - 1;
    }
    return et_fail(error, ET_ECONFIG,
                   "a vocabulary of %s sub-words is larger than the text allows: set its size to "
                   "%s or less",
                   et_format_count(options->size).text, et_format_count(largest).text);
}

int training_failed(const sentencepiece::util::Status &trained,
                    const et_vocabulary_options *options, const std::vector<std::string> &lines,
                    et_error *error)
{
    std::string text = reason(trained);
    int64_t largest = number_after(text, too_high);
    if (largest > 0)
        return size_is_too_large(options, lines, largest, error);
    if (text.find("smaller than required_chars") != std::string::npos)
        return et_fail(error, ET_ECONFIG,
                       "a vocabulary of %s sub-words is smaller than the text's characters need: "
                       "set its size to at least %s, or lower character_coverage",
                       et_format_count(options->size).text,
                       et_format_count(number_after(text, too_low)).text);
    return et_fail(error, ET_EDATA, "SentencePiece can't train a vocabulary: %s", text.c_str());
}

/* A line that SentencePiece looks at has at least one letter and at most 4,192 bytes. */
bool has_text(const std::vector<std::string> &lines)
{
    for (const std::string &line : lines)
        if (line.size() <= 4192 && line.find_first_not_of(" \t\r") != std::string::npos)
            return true;
    return false;
}

int check_options(const et_vocabulary_options *options, et_error *error)
{
    if (options->size < 4 || options->size > 8000000)
        return et_fail(error, ET_ECONFIG,
                       "a vocabulary of %lld sub-words: its size must be 4 to 8,000,000",
                       static_cast<long long>(options->size));
    if (!(options->character_coverage > 0 && options->character_coverage <= 1))
        return et_fail(error, ET_ECONFIG,
                       "character_coverage is %g: it must be above 0 and at most 1",
                       options->character_coverage);
    return ET_OK;
}

int train(char **bytes, size_t *length, const et_vocabulary_options *options,
          et_vocabulary_lines_fn *fn, void *payload, et_error *error)
{
    std::vector<std::string> lines;
    std::string model;
    int status = gather(&lines, fn, payload, error);
    if (status)
        return status;
    if (!has_text(lines))
        return et_fail(error, ET_EDATA, "no text to train a vocabulary on: every line is empty");
    auto trained = train_once(&model, options, options->size, lines);
    if (!trained.ok())
        return training_failed(trained, options, lines, error);
    *bytes = et_strndup(model.data(), model.size());
    *length = model.size();
    return *bytes ? ET_OK : et_alloc_failed(error, model.size(), "a vocabulary");
}

} // namespace

int et_vocabulary_parse(et_vocabulary **out, const void *bytes, size_t length, const char *name,
                        et_error *error)
{
    return guarded(error, "loading a vocabulary", [&] {
        if (length > ET_VOCABULARY_BYTES_MAX)
            return et_fail(error, ET_EFORMAT, "%s: %zu bytes are too many for a vocabulary", name,
                           length);
        et_vocabulary *vocabulary = new et_vocabulary;
        int status = guarded(error, "loading a vocabulary",
                             [&] { return load(vocabulary, bytes, length, name, error); });
        if (status)
            delete vocabulary;
        else
            *out = vocabulary;
        return status;
    });
}

void et_vocabulary_close(et_vocabulary *vocabulary)
{
    delete vocabulary;
}

int et_vocabulary_encode(const et_vocabulary *vocabulary, const char *text, size_t length,
                         et_pieces *pieces, et_error *error)
{
    return guarded(error, "encoding a line", [&] {
        std::vector<int> ids;
        auto encoded = vocabulary->processor.Encode({ text, length }, &ids);
        if (!encoded.ok())
            return et_fail(error, ET_EFAIL, "SentencePiece can't encode a line: %s",
                           reason(encoded).c_str());
        return copy_ids(pieces, ids, error);
    });
}

int et_vocabulary_decode(const et_vocabulary *vocabulary, const int32_t *ids, size_t count,
                         et_strbuf *out, et_error *error)
{
    return guarded(error, "decoding a line", [&] {
        int32_t size = vocabulary->processor.GetPieceSize();
        for (size_t i = 0; i < count; i++)
            if (ids[i] < 0 || ids[i] >= size)
                return et_fail(error, ET_EDATA, "sub-word %d is not in the vocabulary of %d",
                               static_cast<int>(ids[i]), static_cast<int>(size));
        std::string text;
        auto decoded = vocabulary->processor.Decode(std::vector<int>(ids, ids + count), &text);
        if (!decoded.ok())
            return et_fail(error, ET_EFAIL, "SentencePiece can't decode a line: %s",
                           reason(decoded).c_str());
        et_strbuf_append_bytes(out, text.data(), text.size());
        return out->failed ? et_alloc_failed(error, text.size(), "a line") : int(ET_OK);
    });
}

int32_t et_vocabulary_size(const et_vocabulary *vocabulary)
{
    return vocabulary->processor.GetPieceSize();
}

int32_t et_vocabulary_eos(const et_vocabulary *vocabulary)
{
    return vocabulary->processor.eos_id();
}

int32_t et_vocabulary_unk(const et_vocabulary *vocabulary)
{
    return vocabulary->processor.unk_id();
}

int32_t et_vocabulary_bos(const et_vocabulary *vocabulary)
{
    return vocabulary->processor.bos_id();
}

int32_t et_vocabulary_pad(const et_vocabulary *vocabulary)
{
    return vocabulary->processor.pad_id();
}

const char *et_vocabulary_piece(const et_vocabulary *vocabulary, int32_t id)
{
    if (id < 0 || id >= vocabulary->processor.GetPieceSize())
        return "";
    return vocabulary->processor.IdToPiece(id).c_str();
}

const char *et_vocabulary_kind(const et_vocabulary *vocabulary)
{
    static const char *const names[] = { "unigram", "bpe", "word", "char" };
    int type = vocabulary->facts.model_type;
    return type >= 1 && type <= 4 ? names[type - 1] : "unknown";
}

uint64_t et_vocabulary_checksum(const et_vocabulary *vocabulary)
{
    return vocabulary->checksum;
}

int et_vocabulary_train(char **bytes, size_t *length, const et_vocabulary_options *options,
                        et_vocabulary_lines_fn *lines, void *payload, et_error *error)
{
    int status = check_options(options, error);
    if (status)
        return status;
    return guarded(error, "training a vocabulary",
                   [&] { return train(bytes, length, options, lines, payload, error); });
}
