#include "tasks/translation/export/export_private.h"

#include <etude/log.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/values/value.h"
#include "base/values/yaml.h"
#include "tasks/translation/interchange/marian_files.h"

/* The last row of a table. */
static bool is_zero(const et_translator *t, const char *scope, int64_t row)
{
    char name[ET_MAPPED_NAME_MAX];
    snprintf(name, sizeof name, "%s/table", scope);
    const int i = et_params_find(t->params, name);
    et_assert(i >= 0);
    const int64_t width = et_params_shape(t->params, i).size[1];
    const float *values =
        et_params_values(t->params) + et_params_offset(t->params, i) + row * width;
    for (int64_t k = 0; k < width; k++)
        if (values[k] != 0)
            return false;
    return true;
}

static int check_start(et_marian_export *m, bool release, et_error *error)
{
    const et_translator *t = m->t;
    const et_vocabulary *v = t->sides.target;
    const int32_t start = et_vocabulary_start(v), last = et_vocabulary_size(v) - 1;
    const char *token = et_vocabulary_token(v, start);
    if (release && start != last)
        return et_fail(error, ET_ECONFIG,
                       "targets begin with the token %s, number %d; Marian has no such token, so "
                       "only the last one can be left out",
                       token, (int)start);
    if (!is_zero(t, m->model.target.scope, start))
        return et_fail(error, ET_ECONFIG,
                       "targets begin with the token %s, whose embedding is not zeros; in Marian a "
                       "target begins with zeros, so it cannot be the same model; train with "
                       "task.model.zero_start=true",
                       token);
    m->tokens[ET_SIDE_SOURCE] = m->model.source.count - (start == last);
    m->tokens[ET_SIDE_TARGET] = m->model.target.count - (start == last);
    return ET_OK;
}

void et_marian_export_warn(const et_marian_export *m)
{
    const et_translator *t = m->t;
    const et_transformer *model = &m->model;
    const et_beam_options beam = et_translator_decoder_options(t).beam;
    const float encoder = model->encoder.norm_epsilon, decoder = model->decoder.norm_epsilon;
    const float there = (float)ET_MARIAN_NORM_EPSILON;
    if (encoder != there || decoder != there)
        et_log(ET_LOG_WARNING,
               "task.model.%s.norm_epsilon is %g, but norms of Marian add %g, so results there "
               "differ in the last digits",
               encoder != there ? "encoder" : "decoder",
               (double)(encoder != there ? encoder : decoder), (double)there);
    if (beam.size > 1 && beam.alpha > 0 && !beam.by_length)
        et_log(ET_LOG_WARNING,
               "the search of Marian has no task.model.length_penalty gnmt: beam search there "
               "divides by length^%g, so some translations differ",
               beam.alpha);
    if (beam.size > 1 && !beam.shrinks)
        et_log(ET_LOG_WARNING, "the beam of Marian shrinks (task.model.shrink_beam is false), so "
                               "some translations differ");
}

/* ---- settings ---- */

bool et_marian_export_shares_table(const et_marian_export *m)
{
    et_assert(m->t);
    return !strcmp(m->model.source.scope, m->model.target.scope);
}

/* ---- weights ---- */

static int list_tensors(et_marian_export *export, et_error *error)
{
    const et_transformer *m = &export->model;
    et_exported_tensors *list = &export->list;
    const int64_t source = export->tokens[ET_SIDE_SOURCE], target = export->tokens[ET_SIDE_TARGET];
    const bool shared = et_marian_export_shares_table(export);
    int status = et_exported_tensors_add_layers(list, m, ET_NAMES_MARIAN, error);
    if (!status)
        status = shared ? et_exported_tensors_add_table(list, ET_MARIAN_SHARED, m->target.scope,
                                                        target, error)
                        : et_exported_tensors_add_table(list, ET_MARIAN_OF_ENCODER, m->source.scope,
                                                        source, error);
    if (!status && !shared)
        status = et_exported_tensors_add_table(list, ET_MARIAN_OF_DECODER, m->target.scope, target,
                                               error);
    if (!status && strcmp(m->output.scope, m->target.scope) != 0)
        status =
            et_exported_tensors_add_table(list, ET_MARIAN_OUTPUT, m->output.scope, target, error);
    return status
               ? status
               : et_exported_tensors_add_bias(list, ET_MARIAN_BIAS, m->output.scope, target, error);
}

int et_marian_export_print_settings(const et_marian_export *m, et_strbuf *text, et_error *error)
{
    et_assert(m->t && text);
    et_arena arena = ET_ARENA_INIT;
    et_value *dict = et_value_dict(&arena);
    const et_transformer *model = &m->model;
    const et_transformer_stack *encoder = &model->encoder, *decoder = &model->decoder;
    const bool shared = et_marian_export_shares_table(m);
    const bool tied = !strcmp(model->output.scope, model->target.scope);
    const et_foreign_model foreign = { .settings =
                                           et_foreign_settings(m->t->experiment.task, &arena),
                                       .only_shared = shared && !tied,
                                       .only_tied = tied && !shared,
                                       .all_tied = shared && tied };
    et_foreign_write(et_foreign_marian.both, &foreign, dict);
    et_value *sizes = et_value_set_list(dict, "dim-vocabs");
    et_value_add_int(sizes, m->tokens[ET_SIDE_SOURCE]);
    et_value_add_int(sizes, m->tokens[ET_SIDE_TARGET]);
    if (encoder->intermediate_size != decoder->intermediate_size)
        et_value_set_int(dict, "transformer-decoder-dim-ffn", decoder->intermediate_size);
    if (decoder->ssru) {
        et_value_set_string(dict, "transformer-decoder-autoreg", "rnn");
        et_value_set_string(dict, "dec-cell", "ssru");
    }
    const bool failed = arena.failed;
    if (!failed)
        et_yaml_print(text, dict);
    et_arena_release(&arena);
    return failed || text->failed ? et_alloc_failed(error, 0, "settings") : ET_OK;
}

/* ---- all ---- */

int et_marian_export_open(et_marian_export *m, const et_translator *t, bool release,
                          et_error *error)
{
    et_assert(m && t);
    *m = (et_marian_export){ .t = t,
                             .model = et_translator_transformer(t),
                             .list = { .params = t->params } };
    int status = et_foreign_check(&et_foreign_marian, t->experiment.task, error);
    if (!status)
        status = et_sides_check_symbols(t->sides, "Marian", error);
    if (!status)
        status = check_start(m, release, error);
    return status ? status : list_tensors(m, error);
}

void et_marian_export_close(et_marian_export *m)
{
    et_exported_tensors_release(&m->list);
}
