#include "command/translation/translating.h"

#include <math.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/flag.h"
#include "base/values/json.h"
#include "command/command.h"
#include "command/ranks.h"
#include "command/translation/lines.h"
#include "engine/comm/together.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/decoding/translator_private.h"
#include "train/ranks/compare.h"

/* ORDER SHORTLIST_*. */
enum { SHORTLIST_AUTO, SHORTLIST_ON, SHORTLIST_OFF };
static const char *const shortlists[] = { "auto", "on", "off", NULL };

const et_option et_translating_search_options[] = {
    ET_OPTION_COUNT(et_translating, beam_size, "beam-size", "N", 0, ET_BEAM_SIZE_MAX,
                    "hypotheses in the beam; 1: greedy"),
    ET_OPTION_REAL(et_translating, alpha, "alpha", "A", 0, ET_TRANSLATION_ALPHA_MAX,
                   "length penalty ((5 + length) / 6)^A", .field.default_number = -1),
    ET_OPTION_CHOICE(et_translating, shortlist, "shortlist", NULL, shortlists,
                     "consider only the likely tokens of each sentence, which is faster: auto "
                     "(default): if the model has a lexicon and was not trained further; off: all "
                     "tokens"),
    ET_OPTION_END,
};

const et_option et_translating_decoding_options[] = {
    ET_OPTION_COUNT(et_translating, max_length, "max-length", "N", 0, ET_TRANSLATION_LENGTH_MAX,
                    "maximal number of tokens of a translation"),
    ET_OPTION_COUNT(et_translating, sentences, "batch", "N", 1, ET_TRANSLATOR_SENTENCES_MAX,
                    "number of sentences that a thread decodes together",
                    .field.default_number = 32),
    ET_OPTION_FLAG(et_translating, decoding.sampling, "sampling",
                   "sample each token by its probability"),
    ET_OPTION_COUNT(et_translating, top_k, "top-k", "K", 0, ET_OPTION_COUNT_MAX,
                    "sample only from the K most likely tokens", .field.default_number = -1),
    ET_OPTION_REAL(et_translating, top_p, "top-p", "P", 0, 1,
                   "sample only from the fewest tokens that reach probability P",
                   .field.default_number = -1),
    ET_OPTION_REAL(et_translating, temperature, "temperature", "T", 0, ET_SAMPLING_MAX,
                   "divide log-probabilities by T before sampling", .field.default_number = -1),
    ET_OPTION_REAL(et_translating, decoding.noise, "noise", "X", 0, ET_SAMPLING_MAX,
                   "add X times Gumbel noise to logits"),
    ET_OPTION_COUNT(et_translating, seed, "seed", "N", 0, ET_OPTION_COUNT_MAX,
                    "seed of the sampling"),
    ET_OPTION_TEXT(
        et_translating, options.tag, "tag", "TAG",
        "put this token in front of each line, such as '>>fra<<' for the target language of a "
        "multilingual model; lines that begin with a language tag stay as they are"),
    ET_OPTION_END,
};

/* Counts fit: ET_OPTION_COUNT_MAX. */
void et_translating_take_options(et_translating *work)
{
    work->options.beam_size = (int)work->beam_size;
    work->options.alpha = work->alpha > 0 ? work->alpha : 0;
    work->options.no_length_penalty = work->alpha == 0;
    work->options.shortlist = work->shortlist == SHORTLIST_ON;
    work->options.no_shortlist = work->shortlist == SHORTLIST_OFF;
}

/* Options that only sampling has switch sampling on. */
void et_translating_take_decoding(et_translating *work)
{
    et_decoding_options *decoding = &work->decoding;
    work->options.max_length = work->max_length;
    work->options.sentences = (int)work->sentences;
    decoding->seed = (uint64_t)work->seed;
    decoding->top_k = work->top_k > 0 ? work->top_k : 0;
    decoding->top_p = work->top_p > 0 ? work->top_p : 0;
    decoding->temperature = work->temperature > 0 ? work->temperature : 0;
    if (work->top_k >= 0 || work->top_p >= 0 || work->temperature >= 0)
        decoding->sampling = true;
    work->options.decoding = decoding;
}

int et_translating_check_decoding(const et_translating *work, et_error *error)
{
    if (work->temperature == 0)
        return et_fail(error, ET_EUSAGE,
                       "--temperature 0: cannot sample; for the most likely tokens use --beam-size "
                       "1 without sampling");
    if (work->top_k == 0 || work->top_p == 0)
        return et_fail(error, ET_EUSAGE,
                       "--top-%c 0: cannot sample; leave it out to sample from all tokens",
                       work->top_k == 0 ? 'k' : 'p');
    if (work->decoding.sampling && (work->beam_size || work->alpha >= 0))
        return et_fail(error, ET_EUSAGE,
                       "--%s: only for a search, and sampling does not search; leave one out",
                       work->beam_size ? "beam-size" : "alpha");
    return ET_OK;
}

int et_translating_join(et_translating *work, et_error *error)
{
    int status = et_ranks_join(&work->options.comm, 0, error);
    if (et_comm_rank(work->options.comm)) {
        work->helps = work->quiet = true;
        work->output = work->profiling.path = NULL;
    }
    return status;
}

/* Checks that all ranks have loaded the same checkpoint. */
static int compare(et_comm *comm, int status, const char *run, const et_translator *translator,
                   et_error *error)
{
    return et_ranks_compare_loaded(comm, status, run,
                                   status ? NULL : et_translator_checkpoint(translator),
                                   status ? 0 : et_translator_step(translator), error);
}

static int open_translator(et_translating *work, et_error *error)
{
    et_comm *comm = work->options.comm;
    const et_ensemble_runs *words = &work->ensemble;
    int status =
        et_ensemble_models_open(&work->others, words->others, words->count, &work->options, error);
    work->options.weights = words->weights;
    if (!status)
        status = et_translator_open(&work->translator, work->model_dir, &work->options, error);
    if (!status && work->shortlist == SHORTLIST_ON)
        status = et_translator_check_shortlist(work->translator, error);
    status = compare(comm, status, work->model_dir, work->translator, error);
    for (int i = 0; i < words->count && !status; i++)
        status = compare(comm, status, words->others[i], work->others.items[i], error);
    return status
               ? status
               : et_ranks_compare(comm, ET_OK, NULL, et_translator_device(work->translator), error);
}

/* Called before the first translation; the profile's steps are steps of decoding. */
static int open_profile(et_translating *work, bool bar, et_error *error)
{
    et_profiling *profiling = &work->profiling;
    if (!profiling->path)
        return ET_OK;
    profiling->listener = bar || work->quiet ? work->progress : NULL;
    profiling->tell = et_show_line;
    et_signals_catch_with_input();
    int status = et_profiling_open(profiling, et_translator_device(work->translator),
                                   ET_DECODER_STEP_SPAN, error);
    return status ? status : et_profiling_begin(profiling, 0, error);
}

int et_translating_open(et_translating *work, int fd, et_error *error)
{
    et_progress_options options = ET_PROGRESS_OPTIONS_INIT;
    options.fd = fd;
    int status = open_translator(work, error);
    if (!status)
        status = et_progress_open(&work->progress, &options, error);
    return status ? status : open_profile(work, fd >= 0, error);
}

/* The counts that the progress bar shows. */
typedef struct counter {
    et_progress *progress;
    double start;
} counter;

/* Signals are watched only with a profile to write; else they end the process as they always do. */
static bool tell_progress(void *payload, size_t done, size_t count)
{
    const counter *lines = payload;
    et_assert(done <= count);
    et_lines_show(lines->progress, done, count, lines->start);
    return et_flag_is_set(&et_stop_requested);
}

typedef struct translation {
    et_translating *work;
    const et_lines *sources;
    char **results;
} translation;

static int translate_lines(void *self, et_error *error)
{
    const translation *t = self;
    et_translating *work = t->work;
    int status = et_translating_open(work, work->quiet ? -1 : STDERR_FILENO, error);
    if (status)
        return status;
    counter lines = { work->progress, et_clock_monotonic() };
    et_translator_set_progress(work->translator, tell_progress, &lines);
    status = et_translator_translate(work->translator, (const char *const *)t->sources->items,
                                     t->sources->count, t->results, error);
    et_translator_set_progress(work->translator, NULL, NULL);
    et_progress_finish(work->progress, false);
    return status;
}

int et_translating_lines(et_translating *work, const et_lines *sources, char **results,
                         et_error *error)
{
    et_assert(results);
    translation t = { work, sources, results };
    return et_together_run(work->options.comm, translate_lines, &t, error);
}

/* The profile is written while the device that it measures is open. */
int et_translating_close(et_translating *work, int status, et_error *error)
{
    if (work->progress)
        et_progress_finish(work->progress, false);
    int profiled = et_profiling_close(&work->profiling, status, error);
    et_progress_close(work->progress);
    et_translator_close(work->translator);
    et_ensemble_models_close(&work->others);
    et_ensemble_runs_release(&work->ensemble);
    et_profiling_release(&work->profiling);
    return status ? status : profiled;
}

int et_ensemble_models_open(et_ensemble_models *models, const char *const *runs, int count,
                            et_translator_options *options, et_error *error)
{
    et_assert(runs || !count);
    const et_translator_options like = { .checkpoint = options->checkpoint,
                                         .precision = options->precision,
                                         .live_weights = options->live_weights };
    int status = ET_OK;
    *models = (et_ensemble_models){ .count = 0 };
    if (!count)
        return ET_OK;
    if (ET_ALLOC_ZERO(models->items, count, "an ensemble", error))
        return ET_ENOMEM;
    for (models->count = 0; models->count < count && !status; models->count++)
        status =
            et_translator_open(&models->items[models->count], runs[models->count], &like, error);
    options->others = (const et_translator *const *)models->items;
    options->other_count = count;
    return status;
}

void et_ensemble_models_close(et_ensemble_models *models)
{
    for (int i = 0; i < models->count; i++)
        et_translator_close(models->items[i]);
    et_free(models->items);
    *models = (et_ensemble_models){ .count = 0 };
}

/* ---- results ---- */

/* JSON has no infinity, but the log-probability of an impossible target is minus infinity. */
static void print_number(et_strbuf *out, double number)
{
    if (isfinite(number))
        et_strbuf_append_double(out, number);
    else
        et_strbuf_append(out, "null");
}

void et_result_lines_print_json(et_strbuf *out, const et_hypotheses *found, size_t line,
                                bool alignments)
{
    et_assert(out && found);
    et_strbuf_append_char(out, '[');
    for (int rank = 0; rank < et_hypotheses_count(found, line); rank++) {
        const et_hypothesis *h = et_hypotheses_at(found, line, rank);
        et_strbuf_append(out, rank ? ", {\"text\": " : "{\"text\": ");
        et_json_print_string(out, h->text);
        et_strbuf_append(out, ", \"score\": ");
        print_number(out, h->score);
        et_strbuf_append(out, ", \"log_probability\": ");
        print_number(out, h->log_probability);
        if (alignments) {
            et_strbuf_append(out, ", \"alignment\": [");
            for (int i = 0; i < h->alignment_count; i++)
                et_strbuf_printf(out, "%s[%d, %d]", i ? ", " : "", h->alignment[i].source,
                                 h->alignment[i].target);
            et_strbuf_append_char(out, ']');
        }
        et_strbuf_append_char(out, '}');
    }
    et_strbuf_append_char(out, ']');
}

/* Prints the plain text, with alignments appended if they are asked for. */
static void print_text(et_strbuf *out, const et_hypothesis *h, size_t number,
                       const et_result_lines *how)
{
    if (how->several || how->scores)
        et_strbuf_printf(out, "%zu ||| ", number);
    et_strbuf_append(out, h->text);
    if (how->scores)
        et_strbuf_printf(out, " ||| logp=%.4f score=%.4f", h->log_probability, h->score);
    if (how->alignments) {
        et_strbuf_append(out, " |||");
        for (int i = 0; i < h->alignment_count; i++)
            et_strbuf_printf(out, " %d-%d", h->alignment[i].source, h->alignment[i].target);
    }
    et_strbuf_append_char(out, '\n');
}

void et_result_lines_print(et_strbuf *out, const et_hypotheses *found, size_t lines, size_t first,
                           const et_result_lines *how)
{
    et_assert(out && found && how);
    for (size_t i = 0; i < lines; i++) {
        if (how->json) {
            et_strbuf_printf(out, "{\"line\": %zu, \"hypotheses\": ", first + i);
            et_result_lines_print_json(out, found, i, how->alignments);
            et_strbuf_append(out, "}\n");
            continue;
        }
        for (int rank = 0; rank < et_hypotheses_count(found, i); rank++)
            print_text(out, et_hypotheses_at(found, i, rank), first + i, how);
    }
}
