/* One model of a search: its two plans, with the caches that they read. `encode` runs the encoder
 * on the entering sources, packed one after another, and computes the keys and values that every
 * decoder layer reads from them; they are copied to the cross caches. `decode` runs one position of
 * the decoder for all hypotheses, reads both caches and adds to that of the targets.
 *
 * The models of an ensemble take the same steps: they read the same tokens and slots of targets.
 * Their caches have the same places, but the sources of one model may be shorter than another's.
 *
 *     et_search_model_begin(model);
 *     et_search_model_pack(model, &source, 0);         each source, as segments 0, 1, ...
 *     et_search_model_encode(model, count);
 *     et_search_model_keep(model, 0, place);           each, to its row of the caches
 *     model->cross_begin[row] = place;                 each hypothesis, as cross_length
 *     et_search_model_step(model, slot, rows); */
#ifndef ETUDE_TASKS_TRANSLATION_DECODING_SEARCH_MODEL_H
#define ETUDE_TASKS_TRANSLATION_DECODING_SEARCH_MODEL_H

#include "engine/exec/plan.h"
#include "tasks/translation/decoding/search.h"

/* Inputs of a decoder step that all models read, [rows]; borrowed. */
typedef struct et_search_rows {
    int32_t *ids, *positions, *self_length;
    int32_t *state_slots; /* [rows, 2] */
} et_search_rows;

typedef struct et_search_model {
    et_transformer transformer; /* its pointers are borrowed */
    et_dtype act;
    bool int8;
    et_search_size size;
    int64_t rows; /* most rows of a step: all places with full beams */
    et_graph *encode_graph, *decode_graph;
    et_plan *encode, *decode;
    void **self_cache;  /* [layers] of [positions, beam][2 width] act; with ssru the states,
                           [2][rows][width] float32 */
    void **cross_cache; /* [layers] of [tokens][2 width] act */
    /* Inputs of the encoder, [tokens], [tokens] and [places + 1]; one block, which the model owns.
     */
    int32_t *source_ids, *source_positions, *source_offsets;
    float *source_rows; /* [tokens, width] in place of source_ids; NULL: ids are read. Owned */
    int32_t *cross_begin, *cross_length; /* [rows] inputs of a decoder step; one block, its own */
    et_params *params;                   /* borrowed */
    int table, bias; /* parameters of the logits, for products with listed rows; bias -1: none */
} et_search_model;

/* span: the name of a step in a trace; static. best: tokens whose log p a step gives for each row,
 * best first; 0: all logits; negative: the rows that logits are made of. packed_by: as in
 * et_search_new. On failure the model can be released.
 */
int et_search_model_init(et_search_model *model, const et_decoder_model *of, et_device *device,
                         const et_search_size *size, const char *span, int beam, int best,
                         const et_search_rows *rows, const et_search_model *packed_by,
                         et_error *error);
void et_search_model_release(et_search_model *model); /* one of zeros, too */

/* Packs weights that have changed. */
void et_search_model_refresh(et_search_model *model);

void et_search_model_begin(et_search_model *model);
void et_search_model_pack(et_search_model *model, const et_decoder_source *source, int segment);
void et_search_model_encode(et_search_model *model, int count);

/* Copies keys and values of a segment to the rows of the cross caches from `begin`. */
void et_search_model_keep(et_search_model *model, int segment, int64_t begin);

/* Logits of the listed words for rows `row` on, [rows, count], after a step that gave rows. */
void et_search_model_list(const et_search_model *model, int64_t row, int64_t rows,
                          const int32_t *words, int64_t count, float *logits);

/* slot: [rows, target]. Afterwards the outputs of `decode` have log p or logits of each row. */
void et_search_model_step(et_search_model *model, int32_t *slot, int64_t rows);

#endif
