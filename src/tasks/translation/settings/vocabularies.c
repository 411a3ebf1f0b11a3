#include "tasks/translation/settings/vocabularies.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "data/text/punctuation.h"
#include "data/text/vocabulary/vocabulary_check.h"

static const et_vocabulary_role shared[] = {
    { "shared",
      "vocabulary",
      ET_TRANSLATION_VOCABULARY,
      "vocabulary",
      ET_TRANSLATION_SHARED_TABLE,
      "task.sentencepiece_model_path",
      "task.vocabulary.size",
      { true, true } },
};

/* ORDER ET_SIDE_*. */
static const et_vocabulary_role separate[ET_SIDES] = {
    { "source",
      "source vocabulary",
      ET_TRANSLATION_VOCABULARY_SOURCE,
      "source_vocabulary",
      "source_embedding",
      "task.vocabulary.source.path",
      "task.vocabulary.source.size",
      { true, false } },
    { "target",
      "target vocabulary",
      ET_TRANSLATION_VOCABULARY_TARGET,
      "target_vocabulary",
      "target_embedding",
      "task.vocabulary.target.path",
      "task.vocabulary.target.size",
      { false, true } },
};

void et_vocabularies_init(et_vocabularies *v, const et_translation_vocabulary *settings)
{
    et_assert(v && settings);
    *v = settings->shared ? (et_vocabularies){ .roles = shared, .count = 1 }
                          : (et_vocabularies){ .roles = separate, .count = ET_SIDES };
    v->punctuation[ET_SIDE_SOURCE] = et_punctuation_of(settings->source_punctuation);
    v->punctuation[ET_SIDE_TARGET] = et_punctuation_of(settings->target_punctuation);
}

void et_vocabularies_close(et_vocabularies *v)
{
    for (int i = 0; i < v->count; i++)
        if (!i || v->models[i] != v->models[0])
            et_vocabulary_close(v->models[i]);
    *v = (et_vocabularies){ .roles = NULL };
}

/* The first is of the source, the last of the target. */
static int number_of(const et_vocabularies *v, int side)
{
    return side == ET_SIDE_SOURCE ? 0 : v->count - 1;
}

const et_vocabulary_role *et_vocabularies_role(const et_vocabularies *v, int side)
{
    return &v->roles[number_of(v, side)];
}

et_sides et_vocabularies_sides(const et_vocabularies *v)
{
    const et_sides sides = { v->models[number_of(v, ET_SIDE_SOURCE)],
                             v->models[number_of(v, ET_SIDE_TARGET)],
                             { v->punctuation[ET_SIDE_SOURCE], v->punctuation[ET_SIDE_TARGET] } };
    et_assert(sides.source && sides.target);
    return sides;
}

/* ---- and the model ---- */

/* The first number that is another token, of vocabularies of equal size, with both tokens; -1: all
 * are equal. */
static int32_t first_difference(const et_vocabulary *const of[ET_SIDES],
                                et_vocabulary_piece pair[ET_SIDES])
{
    size_t at[ET_SIDES] = { 0 };
    bool there = of[0] != of[1];
    for (int32_t id = 0; there && id < et_vocabulary_size(of[0]); id++) {
        for (int i = 0; i < ET_SIDES; i++) {
            size_t length;
            const char *bytes = et_vocabulary_bytes(of[i], &length);
            there = et_vocabulary_next_piece(bytes, length, &at[i], &pair[i]) && there;
        }
        if (!there)
            break;
        if (pair[0].length != pair[1].length ||
            memcmp(pair[0].text, pair[1].text, pair[0].length) != 0)
            return id;
    }
    return -1;
}

int et_vocabularies_check_model(const et_vocabularies *v, const et_translation_model *model,
                                et_error *error)
{
    et_assert(v->count > 0 && model);
    static const char title[] = "task.model.shared_embeddings: ";
    et_vocabulary_piece pair[ET_SIDES];
    if (!model->shared_embeddings || v->count < ET_SIDES)
        return ET_OK;
    const et_vocabulary *const of[ET_SIDES] = { v->models[ET_SIDE_SOURCE],
                                                v->models[ET_SIDE_TARGET] };
    const int32_t source = et_vocabulary_size(of[0]), target = et_vocabulary_size(of[1]);
    if (source != target)
        return et_fail(error, ET_ECONFIG,
                       "%sthe source vocabulary has %d tokens and the target vocabulary %d; both "
                       "need the same tokens with the same IDs to share one table",
                       title, (int)source, (int)target);
    const int32_t id = first_difference(of, pair);
    if (id >= 0)
        return et_fail(error, ET_ECONFIG,
                       "%stoken %d is \"%.*s\" in the source vocabulary and \"%.*s\" in the "
                       "target vocabulary; set it to false",
                       title, (int)id, (int)pair[0].length, pair[0].text, (int)pair[1].length,
                       pair[1].text);
    return ET_OK;
}

int et_vocabularies_check_equal(const et_vocabulary *first, const et_vocabulary *second,
                                et_error *error)
{
    et_assert(first && second);
    const et_vocabulary *const of[ET_SIDES] = { first, second };
    et_vocabulary_piece pair[ET_SIDES];
    const int32_t a = et_vocabulary_size(first), b = et_vocabulary_size(second);
    if (a != b)
        return et_fail(error, ET_ECONFIG, "the first has %d tokens, the second %d", (int)a, (int)b);
    const int32_t id = first_difference(of, pair);
    if (id >= 0)
        return et_fail(error, ET_ECONFIG,
                       "token %d is \"%.*s\" in the first and \"%.*s\" in the second", (int)id,
                       (int)pair[0].length, pair[0].text, (int)pair[1].length, pair[1].text);
    if (et_vocabulary_eos(first) != et_vocabulary_eos(second) ||
        et_vocabulary_start(first) != et_vocabulary_start(second))
        return et_fail(error, ET_ECONFIG,
                       "they start and end with tokens %d and %d in the first, %d and %d in the "
                       "second",
                       (int)et_vocabulary_start(first), (int)et_vocabulary_eos(first),
                       (int)et_vocabulary_start(second), (int)et_vocabulary_eos(second));
    return ET_OK;
}

int et_vocabularies_find_token(const et_vocabulary *vocabulary, const char *setting,
                               const char *token, int32_t *id, et_error *error)
{
    et_assert(token && id);
    const size_t wanted = strlen(token);
    et_vocabulary_piece piece;
    size_t length, at = 0;
    const char *bytes = et_vocabulary_bytes(vocabulary, &length);
    for (*id = 0; *id < et_vocabulary_size(vocabulary); ++*id)
        if (et_vocabulary_next_piece(bytes, length, &at, &piece) && piece.length == wanted &&
            !memcmp(piece.text, token, wanted))
            return ET_OK;
    return et_fail(error, ET_ECONFIG, "%s: the vocabulary has no token \"%s\"", setting, token);
}

int et_vocabularies_find_suppressed(const et_vocabulary *target, const et_strings *tokens,
                                    int32_t *ids, et_error *error)
{
    et_assert(tokens && ids);
    int status = ET_OK;
    for (size_t i = 0; i < tokens->count && !status; i++)
        status = et_vocabularies_find_token(target, "task.model.suppressed_tokens",
                                            tokens->items[i], &ids[i], error);
    return status;
}

/* ---- of a trained model ---- */

/* If both sides have one model, it is loaded once. Vocabularies are loaded before weights, so that
 * an unusable one is reported early. */
static int read_one(et_vocabularies *v, int i, const et_artifact *artifact, et_arena *arena,
                    et_error *error)
{
    const char *name = v->roles[i].file, *path = et_artifact_path(artifact, name, arena);
    char *bytes = NULL;
    size_t length;
    int status =
        path ? et_artifact_read(artifact, name, ET_VOCABULARY_BYTES_MAX, &bytes, &length, error)
             : et_alloc_failed(error, "a path");
    size_t known = 0;
    const char *first = i && !status ? et_vocabulary_bytes(v->models[0], &known) : NULL;
    if (first && known == length && !memcmp(first, bytes, length))
        v->models[i] = v->models[0];
    else if (!status)
        status = et_vocabulary_parse(&v->models[i], bytes, length, path, error);
    et_free(bytes);
    return status ? status : et_vocabulary_load(v->models[i], error);
}

int et_vocabularies_read(et_vocabularies *v, const et_artifact *artifact, et_arena *arena,
                         et_error *error)
{
    et_assert(artifact);
    int status = ET_OK;
    for (int i = 0; i < v->count && !status; i++)
        status = read_one(v, i, artifact, arena, error);
    return status;
}

/* ---- vocabularies of a checkpoint ---- */

/* The role of a checksum in an identity; NULL: not a vocabulary's. */
static const et_vocabulary_role *find_role(const et_vocabularies *v, const et_value *identity,
                                           const char *digits)
{
    const char *was;
    for (int i = 0; i < v->count; i++)
        if (!et_value_read_string(identity, v->roles[i].identity, &was, NULL) &&
            !strcmp(was, digits))
            return &v->roles[i];
    return NULL;
}

int et_vocabularies_check(const et_vocabularies *v, int i, uint64_t checksum,
                          const et_identity *identity, const char *path, et_error *error)
{
    et_assert(i >= 0 && i < v->count);
    const et_vocabulary_role *role = &v->roles[i];
    const et_checksum_text is = et_checksum_print(checksum);
    const char *was;
    if (!identity || !identity->values || !et_value_get(identity->values, role->identity))
        return ET_OK;
    int status = et_value_read_string(identity->values, role->identity, &was, error);
    if (status)
        return et_fail_while(error, status, "%s", identity->checkpoint);
    if (!strcmp(was, is.digits))
        return ET_OK;
    const et_vocabulary_role *other = find_role(v, identity->values, is.digits);
    if (other)
        return et_fail(
            error, ET_ECONFIG,
            "%s does not belong to %s: it is the %s, not the %s; name each file as in training",
            path, identity->checkpoint, other->title, role->title);
    return et_fail(error, ET_ECONFIG,
                   "%s changed since %s was trained (checksum %s, the %s had %s); restore the file",
                   path, identity->checkpoint, is.digits, role->title, was);
}

int et_vocabularies_check_all(const et_vocabularies *v, const et_identity *identity,
                              const et_artifact *artifact, et_arena *arena, et_error *error)
{
    int status = ET_OK;
    for (int i = 0; i < v->count && !status; i++) {
        const char *name = v->roles[i].file, *path = et_artifact_path(artifact, name, arena);
        uint64_t checksum = v->models[i] ? et_vocabulary_checksum(v->models[i]) : 0;
        if (!path)
            return et_alloc_failed(error, "a path");
        if (!v->models[i])
            status =
                et_artifact_checksum(artifact, name, ET_VOCABULARY_BYTES_MAX, &checksum, error);
        if (!status)
            status = et_vocabularies_check(v, i, checksum, identity, path, error);
    }
    return status;
}

void et_vocabularies_identify(const et_vocabularies *v, et_value *identity)
{
    for (int i = 0; i < v->count; i++) {
        const uint64_t checksum = et_vocabulary_checksum(v->models[i]);
        et_value_set_string(identity, v->roles[i].identity, et_checksum_print(checksum).digits);
    }
}

/* ---- of another run ---- */

static bool is_named(const char *path)
{
    return path && *path;
}

/* *has: whether the run has all of them. */
static int find_files(const et_vocabularies *v, const et_artifact *artifact, et_arena *arena,
                      const char **paths, bool *has, et_error *error)
{
    *has = true;
    for (int i = 0; i < v->count; i++) {
        paths[i] = et_artifact_setting(artifact, v->roles[i].file, arena);
        if (!paths[i])
            return et_alloc_failed(error, "a path");
        *has = *has && et_artifact_has(artifact, v->roles[i].file);
    }
    return ET_OK;
}

int et_vocabularies_inherit(et_translation_vocabulary *settings, const char **shared_path,
                            const char *model_dir, et_arena *arena, const char **taken,
                            et_error *error)
{
    et_assert(model_dir && taken);
    const et_vocabularies both = { .roles = separate, .count = ET_SIDES };
    const char *paths[ET_SIDES];
    bool has;
    *taken = NULL;
    if (is_named(*shared_path) ||
        (is_named(settings->source.path) && is_named(settings->target.path)))
        return ET_OK;
    const char *shared_text = NULL;
    et_artifact artifact;
    int status = et_artifact_open(&artifact, model_dir, error);
    if (!status)
        status = find_files(&both, &artifact, arena, paths, &has, error);
    if (!status && !(shared_text = et_artifact_setting(&artifact, shared->file, arena)))
        status = et_alloc_failed(error, "a path");
    et_artifact_close(&artifact);
    if (status)
        return status;
    if (!has && !settings->shared)
        return et_fail(error, ET_ECONFIG,
                       "%s has no %s and %s, because its languages share a vocabulary, but "
                       "task.vocabulary.shared is false; leave this setting out",
                       model_dir, separate[ET_SIDE_SOURCE].file, separate[ET_SIDE_TARGET].file);
    *taken = has ? "vocabularies" : "vocabulary";
    settings->shared = !has;
    if (!has) {
        *shared_path = shared_text;
        return ET_OK;
    }
    if (!is_named(settings->source.path))
        settings->source.path = paths[ET_SIDE_SOURCE];
    if (!is_named(settings->target.path))
        settings->target.path = paths[ET_SIDE_TARGET];
    return ET_OK;
}

int et_sides_check_symbols(et_sides sides, const char *program, et_error *error)
{
    et_assert(program);
    const struct {
        const char *what, *source, *target;
    } rows[] = {
        { "the end of a sentence",
          et_vocabulary_token(sides.source, et_vocabulary_eos(sides.source)),
          et_vocabulary_token(sides.target, et_vocabulary_eos(sides.target)) },
        { "unknown text", et_vocabulary_token(sides.source, et_vocabulary_unk(sides.source)),
          et_vocabulary_token(sides.target, et_vocabulary_unk(sides.target)) },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i].source, rows[i].target) != 0)
            return et_fail(
                error, ET_ECONFIG,
                "%s needs one token for %s, but this model's vocabularies have two: %s and %s",
                program, rows[i].what, rows[i].source, rows[i].target);
    return ET_OK;
}
