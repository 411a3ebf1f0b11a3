/* The translator, for its own files: translator_model.c (opening, ensembles), translator_decoder.c
 * (its decoder by the options), translator.c (best results, several results, given targets,
 * embedded sources), glossary.c (terms), and the exports. */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_TRANSLATOR_PRIVATE_H
#define ETUDE_TASKS_TRANSLATION_DECODING_TRANSLATOR_PRIVATE_H

#include <etude/hypotheses.h>
#include <etude/translator.h>

#include "base/arena.h"
#include "formats/marian/lexicon.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/decoding/alignment.h"
#include "tasks/translation/decoding/decoder.h"
#include "tasks/translation/settings/vocabularies.h"

struct et_translator {
    et_arena arena;                /* of the settings */
    et_experiment experiment;      /* the run's settings; texts in arena */
    et_translator_options options; /* a copy */
    et_decoding_options decoding;  /* a copy; its lists come from choice and ends, in arena */
    et_sampling_options choice;
    const char
        *tags; /* language tags of the source vocabulary (vocabulary.h); NULL: none; in arena */
    et_strings language_tags; /* all of them; in arena */
    atomic_bool warned;       /* that a line has no language */
    const int32_t *ends;
    int end_count;
    et_dtype act; /* of activations; float32 with int8 */
    bool int8;
    bool live_weights; /* of the weights in use: of the first translator's options */
    et_sides sides;    /* of source and target, from the next member */
    const et_vocabularies *vocabularies; /* the translator's own, or those of the translator whose
                                            weights it shares */
    et_vocabularies own;                 /* owned, as the next three members; empty if the
                                            translator shares */
    et_params *params;                   /* borrowed if it shares, as unused */
    char *unused; /* [unused_length] for exports (interchange/unused_tensors.h); NULL: none */
    size_t unused_length;
    et_lexicon *lexicon; /* of shortlists, even if these are off; NULL: none; borrowed if the
                            translator shares */
    /* The other models of an ensemble: in arena, or in the arena of the translator whose weights it
     * shares. */
    const et_translator *const *others; /* [other_count] */
    int other_count;                    /* 0: no ensemble */
    const double *weights;              /* [1 + other_count] sum 1 */
    const et_decoder_model *models;     /* [other_count] of others */
    bool own_sources;                   /* others read other tokens of a line */
    et_device *device;
    bool borrows_device; /* belongs to the translator whose weights it shares */
    et_decoder *decoder;
    et_decoder *terms_decoder;           /* for lines with terms; NULL: not made yet */
    et_decoder *embedded_decoder;        /* for embedded sources; NULL: not made yet */
    struct et_glossary *glossary;        /* NULL: none */
    bool borrows_glossary;               /* belongs to the translator whose weights it shares */
    const bool *continues;               /* of et_phrases; in arena */
    et_aligner *aligner;                 /* NULL: alignments are not asked for */
    char *checkpoint;                    /* path of the file in use; owned */
    int64_t step;                        /* of the checkpoint */
    const et_value *identity;            /* of the checkpoint, in arena; NULL: none */
    et_translator_progress_fn *progress; /* NULL: no progress is reported */
    void *payload;                       /* its argument */
    const atomic_bool *const *ended;     /* [lines] of the next calls: `ended` of each line's
                                            sentence; an ended line has an empty result. NULL:
                                            no line ends. Borrowed */
    size_t first_line;                   /* the number of a call's first line: for random numbers,
                                            and in messages without numbers */
    const size_t *numbers;               /* of the next calls' lines in messages; borrowed */
    size_t lines, done_lines;            /* of the call in progress; done: before its search */
};

/* translator_decoder.c. The model as the settings describe it, with positions for the smallest
 * batch. */
et_transformer et_translator_transformer(const et_translator *t);

/* ET_ECONFIG: translations are not by shortlists, and why. */
int et_translator_check_shortlist(const et_translator *t, et_error *error);

/* glossary.c. Opens the glossary, if there is one; closes it and its decoder. */
int et_translator_open_terms(et_translator *t, et_error *error);
void et_translator_close_terms(et_translator *t);
/* The terms of a line become phrases of its sentence, in arena. */
int et_translator_find_terms(const et_translator *t, const char *line,
                             et_decoder_sentence *sentence, et_arena *arena, et_error *error);
/* Warns of terms that translations do not have. */
int et_translator_check_terms(const et_translator *t, const et_decoder_sentence *sentences,
                              size_t count, et_error *error);

/* translator_decoder.c: options of the translator's own decoder, for other decoders like it. */
et_decoder_options et_translator_decoder_options(const et_translator *t);
int et_translator_make_decoder(et_decoder **out, et_translator *t,
                               const et_decoder_options *options, et_error *error);

/* The number of a line of the call in messages. */
static inline size_t et_translator_line_number(const et_translator *t, size_t line)
{
    return t->numbers ? t->numbers[line] : t->first_line + line;
}

/* Sets the number of the next call's first line, for messages and random numbers, if a text is
 * translated in parts. 1 before the first call of this function. */
void et_translator_set_first_line(et_translator *translator, size_t number);
/* The numbers of the next calls' lines in messages, borrowed; NULL, as at first: from the first
 * line's on. */
void et_translator_set_line_numbers(et_translator *translator, const size_t *numbers);

/* ---- long_lines.c ---- */

/* Handles lines with more tokens than a model reads: cuts them at ends of sentences, else at
 * blanks, and joins the translations of the pieces. */

/* The pieces of all lines, in order. In the arena, or borrowed from the lines. */
typedef struct et_long_lines {
    const char *const *pieces; /* [count] */
    size_t count;
    const size_t *line; /* [count] the index of its line; NULL: its own, no line is cut */
    const bool *blank;  /* [count] a blank of the line was before it */
} et_long_lines;

/* lines: valid UTF-8. A warning names each line that is cut. */
int et_long_lines_cut(et_long_lines *out, const et_translator *translator, const char *const *lines,
                      size_t count, et_arena *arena, et_error *error);

/* Joins translations of pieces to translations of lines, results[0] to results[lines - 1], and
 * frees the pieces. ET_ENOMEM: some results are made, and some pieces are left. */
int et_long_lines_join(const et_long_lines *cut, char **pieces, char **results, size_t lines,
                       et_error *error);

/* ---- for commands ---- */

/* Borrowed; for recording the device's work (engine/exec/device.h), before the first
 * translation. */
et_device *et_translator_device(et_translator *translator);

/* et_translator_open for a second translator that shares weights, in the thread of the other. Both
 * use the other's device, so equal products are made only once. The other translator must outlive
 * this one. */
int et_translator_open_beside(et_translator **out, const et_translator_options *options,
                              et_error *error);

#endif
