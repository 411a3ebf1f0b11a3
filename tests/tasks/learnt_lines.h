/* Lines, and a translator trained on them (learnt_run.h). Include after cmocka.h. */
#ifndef ETUDE_TESTS_TASKS_LEARNT_LINES_H
#define ETUDE_TESTS_TASKS_LEARNT_LINES_H

#include <etude/hypotheses.h>
#include <etude/translator.h>

#include "tasks/learnt_run.h"

enum { LINES = 9 };

/* The second has no word, the fifth comes twice. */
static const char *const lines[LINES] = {
    "red dog runs", "",    "blue cat", "tree house tree house red", "dog", "cat cat cat", " ",
    "runs",         "dog",
};

static inline int set_up(void **state)
{
    return learnt_run(state, 400, 200);
}

static inline et_translator *open_with(const et_translator_options *options)
{
    et_error error = ET_ERROR_INIT;
    et_translator *t;
    if (et_translator_open(&t, "run", options, &error))
        fail_msg("%s", error.text);
    return t;
}

static inline void translate(et_translator *t, size_t count, char **results)
{
    et_error error = ET_ERROR_INIT;
    if (et_translator_translate(t, lines, count, results, &error))
        fail_msg("%s", error.text);
}

static inline et_hypotheses *search(et_translator *t)
{
    et_error error = ET_ERROR_INIT;
    et_hypotheses *found;
    if (et_translator_search(t, lines, LINES, &found, &error))
        fail_msg("%s", error.text);
    return found;
}

#endif
