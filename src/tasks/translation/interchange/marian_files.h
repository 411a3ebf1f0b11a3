/* A release of a Marian model, as OPUS-MT publishes it: names of its files and of what is in them.
 *
 *   decoder.yml      names of the other files, and how the model is searched
 *   *.npz            weights, and the model's settings as an array of bytes
 *   *vocab.yml       numbers of tokens
 *   source.spm, target.spm      SentencePiece models, which split text
 */
#ifndef ETUDE_TASKS_TRANSLATION_INTERCHANGE_MARIAN_FILES_H
#define ETUDE_TASKS_TRANSLATION_INTERCHANGE_MARIAN_FILES_H

#define ET_MARIAN_DECODER         "decoder.yml"
#define ET_MARIAN_NPZ             ".npz"
#define ET_MARIAN_VOCABULARY      ".yml"
#define ET_MARIAN_VOCABULARY_NAME ".vocab.yml" /* after the side */
#define ET_MARIAN_SETTINGS        "special:model.yml"
#define ET_MARIAN_SHARED          "Wemb"
#define ET_MARIAN_OF_ENCODER      "encoder_Wemb"
#define ET_MARIAN_OF_DECODER      "decoder_Wemb"
#define ET_MARIAN_OUTPUT          "decoder_ff_logit_out_Wt"
#define ET_MARIAN_OUTPUT_WIDE     "decoder_ff_logit_out_W" /* of older files: [width, tokens] */
#define ET_MARIAN_BIAS            "decoder_ff_logit_out_b"

/* What its norms add to the variance. */
#define ET_MARIAN_NORM_EPSILON 1e-6

#endif
