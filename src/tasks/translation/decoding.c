/* What may be asked of decoding. */
#include "tasks/translation/decoding/translator_private.h"

/* Comparisons are such that a NaN fails them. */
int et_translator_check_decoding(const et_decoding_options *o, et_error *error)
{
    const bool filters = o->top_k || o->top_p > 0 || o->temperature > 0;
    if (o->results < 0 || o->results > ET_BEAM_SIZE_MAX)
        return et_fail(error, ET_ECONFIG, "%d results of a line: must be from 1 to %d; 0: 1",
                       o->results, ET_BEAM_SIZE_MAX);
    if (o->top_k < 0)
        return et_fail(error, ET_ECONFIG, "top_k %lld: must be 1 or more; 0: all",
                       (long long)o->top_k);
    if (!(o->top_p >= 0 && o->top_p <= 1))
        return et_fail(error, ET_ECONFIG, "top_p %.15g: must be from 0 to 1; 0: all", o->top_p);
    if (!(o->temperature >= 0 && o->temperature <= 1000))
        return et_fail(error, ET_ECONFIG, "temperature %g: must be up to 1000; 0: 1",
                       o->temperature);
    if (!(o->noise >= 0 && o->noise <= 1000))
        return et_fail(error, ET_ECONFIG, "noise %g: must be up to 1000; 0: none", o->noise);
    if (o->alignments < -1)
        return et_fail(error, ET_ECONFIG,
                       "alignments %d: a layer from 1, -1 for the last one, 0 for none",
                       o->alignments);
    if (filters && !o->sampling)
        return et_fail(error, ET_ECONFIG,
                       "top_k, top_p and temperature are of sampling: set that as well");
    return ET_OK;
}
