/* Checks of the options of decoding. */
#include "tasks/translation/decoding/translator_private.h"

/* Comparisons are such that a NaN fails them. */
int et_translator_check_decoding(const et_decoding_options *o, et_error *error)
{
    const bool filters = o->top_k || o->top_p > 0 || o->temperature > 0;
    if (o->results < 0 || o->results > ET_BEAM_SIZE_MAX)
        return et_fail(error, ET_ECONFIG, "%d results per line: give 1 to %d (0 means 1)",
                       o->results, ET_BEAM_SIZE_MAX);
    if (o->top_k < 0)
        return et_fail(error, ET_ECONFIG, "top_k %lld: give at least 1, or 0 for all tokens",
                       (long long)o->top_k);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return et_fail(error, ET_ECONFIG, "top_p %.15g: give a number up to 1, or 0 for all tokens",
                       o->top_p);
    if (!(o->temperature >= 0 && o->temperature <= 1000))
        return et_fail(error, ET_ECONFIG, "temperature %g: give a number up to 1000 (0 means 1)",
                       o->temperature);
    if (!(o->noise >= 0 && o->noise <= 1000))
        return et_fail(error, ET_ECONFIG, "noise %g: give a number from 0 to 1000", o->noise);
    if (o->alignments < -1)
        return et_fail(error, ET_ECONFIG,
                       "alignments %d: give a layer from 1, -1 for the last layer, or 0 for none",
                       o->alignments);
    if (o->terms && o->sampling)
        return et_fail(error, ET_ECONFIG,
                       "terms and sampling: only a search can keep terms; leave out sampling");
    if (filters && !o->sampling)
        return et_fail(error, ET_ECONFIG,
                       "top_k, top_p and temperature need sampling: set it as well");
    return ET_OK;
}
