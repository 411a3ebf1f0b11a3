#include "train/checkpoint/metric_name.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "formats/events/log_names.h"

/* A whole name wins over a nested one, at every depth. */
bool et_metric_named(const et_value *logs, const char *name, double *value)
{
    const et_value *found = et_value_get(logs, name);
    for (const char *mark = name; !found && (mark = strpbrk(mark, "|/.")) != NULL; mark++) {
        char part[256];
        snprintf(part, sizeof part, "%.*s", (int)(mark - name), name);
        const et_value *below = et_value_get(logs, part);
        if (below && below->kind == ET_VALUE_DICT)
            return et_metric_named(below, mark + 1, value);
    }
    return found && !et_value_read_float(logs, name, value, NULL);
}

/* Length of the prefix before a metric's own name: "a|" of "a|b". */
static size_t position_of(const char *metric)
{
    size_t length = strlen(metric);
    while (length && !strchr("|/.", metric[length - 1]))
        length--;
    return length;
}

const char *et_metric_beside(const char *metric, const char *name, et_arena *arena)
{
    return et_arena_printf(arena, "%.*s%s", (int)position_of(metric), metric, name);
}

/* Words of a name end at "_". */
static bool has_word(const char *name, const char *word)
{
    const size_t length = strlen(word);
    for (const char *at = name; (at = strcasestr(at, word)) != NULL; at++)
        if ((at == name || at[-1] == '_') && (!at[length] || at[length] == '_'))
            return true;
    return false;
}

bool et_metric_lower_is_better(const char *metric)
{
    static const char *const parts[] = { ET_LOGGED_LOSS, "error",     "perplexity",
                                         "entropy",      "deviation", "divergence" };
    static const char *const words[] = { "nll",  "brier", "seconds", "time", "mae",
                                         "mape", "mse",   "msle",    "rmse", "rmsle",
                                         "wer",  "cer",   "ter",     "ppl",  "width" };
    const char *name = metric + position_of(metric);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcasestr(name, parts[i]))
            return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(name, words[i]))
            return true;
    return false;
}

/* ---- the same number twice ---- */

/* Names of one measure, in order of preference. log_likelihood: of older runs. */
static const char *const doubles[] = { "log_loss", ET_LOGGED_LOSS, "nll", "log_likelihood", NULL };

static int rank_of(const char *leaf)
{
    int rank = 0;
    while (doubles[rank] && strcmp(doubles[rank], leaf) != 0)
        rank++;
    return rank;
}

bool et_metric_is_double(const char *a, const char *b)
{
    const size_t position = position_of(a), head = position + et_logged_prefix(a + position);
    /* Whether the first bytes are equal, for any separators of the name's parts. */
    size_t i = 0;
    while (i < head && b[i] && (a[i] == b[i] || (strchr("|/.", a[i]) && strchr("|/.", b[i]))))
        i++;
    return i == head && doubles[rank_of(a + head)] && doubles[rank_of(b + head)];
}

bool et_metric_equals(double a, double b)
{
    const double larger = fmax(fabs(a), fabs(b));
    if (!isfinite(larger))
        return (isnan(a) && isnan(b)) || (isinf(a) && isinf(b));
    return fabs(fabs(a) - fabs(b)) <= 1e-5 * larger;
}

bool et_metric_repeats(const et_value *logs, const et_value *value)
{
    const size_t position = position_of(value->key);
    const size_t head = position + et_logged_prefix(value->key + position);
    double number, other;
    if (et_value_read_float(logs, value->key, &number, NULL))
        return false;
    for (const et_value *v = logs->first; v; v = v->next)
        if (et_metric_is_double(v->key, value->key) &&
            rank_of(v->key + head) < rank_of(value->key + head) &&
            !et_value_read_float(logs, v->key, &other, NULL) && et_metric_equals(other, number))
            return true;
    return false;
}
