/* What exports to Marian share: a release in its npz (export_marian.c) and a model of Bergamot
 * (export_bergamot.c). A model that Marian cannot be is refused by the setting.
 *
 *     et_marian_export m;
 *     if (et_marian_export_open(&m, translator, false, &error)) ...
 *     m.list.tensors[i], m.list.count          the weights by their names in Marian
 *     if (et_marian_export_print_settings(&m, &text, &error)) ...
 *     et_marian_export_close(&m);
 */
#ifndef ETUDE_TASKS_TRANSLATION_EXPORT_MARIAN_EXPORT_H
#define ETUDE_TASKS_TRANSLATION_EXPORT_MARIAN_EXPORT_H

#include "base/text/strbuf.h"
#include "tasks/translation/decoding/translator_private.h"
#include "tasks/translation/export/exported_tensors.h"

typedef struct et_marian_export {
    const et_translator *t;
    et_transformer model;
    et_exported_tensors list;
    int64_t tokens[ET_SIDES]; /* of the files: all, or all but the last, which begins a target */
} et_marian_export;

/* Marian begins a target with zeros, so the embedding of the token that begins it here must be
 * zeros. If it is the last one, the files do not have it; a release must leave it out. ET_ECONFIG:
 * a setting or a vocabulary does not fit. Close it in any case. */
int et_marian_export_open(et_marian_export *m, const et_translator *t, bool release,
                          et_error *error);
void et_marian_export_close(et_marian_export *m);

bool et_marian_export_shares_table(const et_marian_export *m);
/* special:model.yml. */
int et_marian_export_print_settings(const et_marian_export *m, et_strbuf *text, et_error *error);
/* What differs there. */
void et_marian_export_warn(const et_marian_export *m);

#endif
