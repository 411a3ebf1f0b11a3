/* The vocabularies of a model: one for both sides, or one each. A table of roles has their names in
 * a run, an export and a checkpoint. Code that encodes and decodes takes the two sides, and does
 * not ask for the number of vocabularies.
 *
 *     et_vocabularies v;
 *     et_vocabularies_init(&v, &options->vocabulary);
 *     if (et_vocabularies_read(&v, artifact, &arena, &error)) ...
 *     et_sides sides = et_vocabularies_sides(&v);
 *     et_vocabularies_close(&v);
 *
 * Each vocabulary of a run is trained or given once, at its start (setup_vocabulary.c). */
#ifndef ETUDE_TASKS_TRANSLATION_SETTINGS_VOCABULARIES_H
#define ETUDE_TASKS_TRANSLATION_SETTINGS_VOCABULARIES_H

#include <etude/experiment.h>

#include "base/arena.h"
#include "tasks/translation/settings/translation_options.h"
#include "train/checkpoint/artifact/artifact.h"

/* Files of a run: of one for both sides, or of one each. */
#define ET_TRANSLATION_VOCABULARY        "vocabulary.model"
#define ET_TRANSLATION_VOCABULARY_SOURCE "source_vocabulary.model"
#define ET_TRANSLATION_VOCABULARY_TARGET "target_vocabulary.model"

/* Scope of the embeddings that both sides use. */
#define ET_TRANSLATION_SHARED_TABLE "embedding"

enum { ET_SIDE_SOURCE, ET_SIDE_TARGET, ET_SIDES };

typedef struct et_vocabulary_role {
    const char *side;        /* "shared", "source", "target" */
    const char *title;       /* in messages: "vocabulary", "source vocabulary", ... */
    const char *file;        /* of a run, and in an export */
    const char *identity;    /* key of its checksum in an identity */
    const char *table;       /* scope of its embeddings */
    const char *path, *size; /* settings that name a model, and the size of a new one */
    bool of[ET_SIDES];       /* sides that train the vocabulary and use it */
} et_vocabulary_role;

typedef struct et_vocabularies {
    const et_vocabulary_role *roles; /* [count] static */
    int count;                       /* 1 or 2: the source's, then the target's */
    et_vocabulary *models[ET_SIDES]; /* [count] owned; NULL: not open yet; both may be the same
                                        vocabulary */
    const struct et_punctuation *punctuation[ET_SIDES]; /* NULL: none */
} et_vocabularies;

/* The vocabularies of a model with these settings, not yet open. */
void et_vocabularies_init(et_vocabularies *v, const et_translation_vocabulary *settings);
void et_vocabularies_close(et_vocabularies *v); /* all zeros allowed */

/* The role of a side's vocabulary. */
const et_vocabulary_role *et_vocabularies_role(const et_vocabularies *v, int side);

/* Until close; all are open. */
et_sides et_vocabularies_sides(const et_vocabularies *v);

/* Checks that open vocabularies fit the model: with one table (shared_embeddings), both sides have
 * the same token for a number. ET_ECONFIG names the first difference. */
int et_vocabularies_check_model(const et_vocabularies *v, const et_translation_model *model,
                                et_error *error);

/* Checks that two vocabularies give each number the same token, and have the same end and start.
 * ET_ECONFIG names the first difference. */
int et_vocabularies_check_equal(const et_vocabulary *first, const et_vocabulary *second,
                                et_error *error);

/* Finds the number of a token, spelt as in the vocabulary. ET_ECONFIG: no such token; the error
 * names the setting. */
int et_vocabularies_find_token(const et_vocabulary *vocabulary, const char *setting,
                               const char *token, int32_t *id, et_error *error);

/* Finds the numbers of all tokens of task.model.suppressed_tokens: ids [their count]. */
int et_vocabularies_find_suppressed(const et_vocabulary *target, const et_strings *tokens,
                                    int32_t *ids, et_error *error);

/* Opens the vocabularies of a trained model, and has SentencePiece load them. path names are for
 * messages and live in arena. */
int et_vocabularies_read(et_vocabularies *v, const et_artifact *artifact, et_arena *arena,
                         et_error *error);

/* Checks that number i is the vocabulary of the checkpoint's training; checksum: of path's bytes.
 * ET_ECONFIG: the error says which file belongs to which model. */
int et_vocabularies_check(const et_vocabularies *v, int i, uint64_t checksum,
                          const et_identity *identity, const char *path, et_error *error);

/* Checks all vocabularies of an artifact. A vocabulary that is not open is checked by the checksum
 * of its file, without parsing the file, because the file may be damaged. */
int et_vocabularies_check_all(const et_vocabularies *v, const et_identity *identity,
                              const et_artifact *artifact, et_arena *arena, et_error *error);

/* Settings of a new run that starts from the weights of the run model_dir: a side without a
 * vocabulary model gets the model of model_dir. Both sides share one if the sides of model_dir do.
 * *taken: the inherited settings, for messages; NULL: none. */
int et_vocabularies_inherit(et_translation_vocabulary *settings, const char **shared_path,
                            const char *model_dir, et_arena *arena, const char **taken,
                            et_error *error);

/* Adds their checksums. */
void et_vocabularies_identify(const et_vocabularies *v, et_value *identity);

/* For a program whose two sides share one end token and one unknown token, as texts. ET_ECONFIG:
 * the texts of the sides differ. */
int et_sides_check_symbols(et_sides sides, const char *program, et_error *error);

#endif
