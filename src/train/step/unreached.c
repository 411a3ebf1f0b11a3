#include "train/step/unreached.h"

#include <etude/log.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"

#define UPDATES   10
#define NAMED_MAX 4

int et_unreached_open(et_unreached *unreached, const et_pass *pass, const et_optimizer *optimizer,
                      et_error *error)
{
    const size_t all = (size_t)et_params_count(et_pass_params(pass));
    *unreached = (et_unreached){ .param = et_alloc(all + 1, sizeof *unreached->param) };
    if (!unreached->param)
        return et_alloc_failed(error, all * sizeof *unreached->param, "a step");
    for (int i = 0, param; (param = et_optimizer_param(optimizer, i)) >= 0; i++)
        if (et_pass_reaches(pass, param))
            unreached->param[unreached->count++] = param;
    unreached->trained = unreached->count;
    return ET_OK;
}

void et_unreached_release(et_unreached *unreached)
{
    et_free(unreached->param);
    *unreached = (et_unreached){ .param = NULL };
}

static bool is_zero(const float *gradient, int64_t count)
{
    int64_t i = 0;
    while (i < count && gradient[i] == 0)
        i++;
    return i == count;
}

static void warn(const et_unreached *u, const et_params *params)
{
    et_strbuf names = ET_STRBUF_INIT;
    for (int i = 0; i < u->count && i < NAMED_MAX; i++)
        et_strbuf_printf(&names, "%s%.100s", i ? ", " : "", et_params_name(params, u->param[i]));
    if (u->count > NAMED_MAX)
        et_strbuf_printf(&names, " and %d more", u->count - NAMED_MAX);
    et_log(ET_LOG_WARNING,
           "%d of %d parameters are not trained: their gradient was exactly zero in the first %d "
           "updates (%s). Zeros before a relu cause this, and inputs that are all zeros: draw the "
           "initial values, or choose another model",
           u->count, u->trained, UPDATES, et_strbuf_text(&names));
    et_strbuf_release(&names);
}

void et_unreached_examine(et_unreached *unreached, const et_params *params, const float *gradient)
{
    et_unreached *u = unreached;
    int left = 0;
    if (!u->count)
        return;
    for (int i = 0; i < u->count; i++)
        if (is_zero(gradient + et_params_offset(params, u->param[i]),
                    et_shape_count(et_params_shape(params, u->param[i]))))
            u->param[left++] = u->param[i];
    u->count = left;
    if (++u->updates < UPDATES || !left)
        return;
    warn(u, params);
    u->count = 0;
}
