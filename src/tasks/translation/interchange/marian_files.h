/* A release of a Marian model, as OPUS-MT publishes it: names of its files and of their contents.
 *
 *   decoder.yml      names of the other files, and how the model is searched
 *   *.npz            weights, and the model's settings as an array of bytes
 *   *vocab.yml       numbers of tokens
 *   source.spm, target.spm      SentencePiece models, which split text
 *
 * And a model of Bergamot or Firefox, a folder whose files may still be packed (".gz"):
 *
 *   config*.yml      names of the other files, and how the model is searched; may be missing
 *   model*.bin       weights and settings (formats/marian/marian_model.h)
 *   vocab*.spm       a SentencePiece model of both sides, or srcvocab*.spm and trgvocab*.spm
 *   lex*.bin         a shortlist (formats/marian/lexicon.h); may be missing
 */
#ifndef ETUDE_TASKS_TRANSLATION_INTERCHANGE_MARIAN_FILES_H
#define ETUDE_TASKS_TRANSLATION_INTERCHANGE_MARIAN_FILES_H

#include "formats/marian/marian_model.h"

#define ET_MARIAN_DECODER         "decoder.yml"
#define ET_MARIAN_NPZ             ".npz"
#define ET_MARIAN_VOCABULARY      ".yml"
#define ET_MARIAN_VOCABULARY_NAME ".vocab.yml" /* after the side */
#define ET_MARIAN_PIECES          ".spm"
#define ET_BERGAMOT_CONFIG        "config"
#define ET_BERGAMOT_USUAL_CONFIG  "config.intgemm8bitalpha.yml"
#define ET_BERGAMOT_MODEL         "model"
#define ET_BERGAMOT_VOCABULARY    "vocab"
#define ET_BERGAMOT_LEXICON       "lex"
#define ET_MARIAN_SETTINGS        "special:model.yml"
#define ET_MARIAN_SHARED          "Wemb"
#define ET_MARIAN_OF_ENCODER      "encoder_Wemb"
#define ET_MARIAN_OF_DECODER      "decoder_Wemb"
#define ET_MARIAN_OUTPUT          "decoder_ff_logit_out_Wt"
#define ET_MARIAN_OUTPUT_WIDE     "decoder_ff_logit_out_W" /* of older files: [width, tokens] */
#define ET_MARIAN_BIAS            "decoder_ff_logit_out_b"
#define ET_MARIAN_LENGTH_FACTOR   "max-length-factor"

/* The shortlist among the files of a run. */
#define ET_TRANSLATION_LEXICON "lexicon.bin"

/* Epsilon of its norms, added to the variance. */
#define ET_MARIAN_NORM_EPSILON 1e-6

#endif
