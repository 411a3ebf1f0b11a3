/* The line is split at blanks. If this gives as many words as the vocabulary finds, columns have
 * these words. If the vocabulary's normalization joins or splits words, columns have numbers
 * instead. */
#include "command/translation/attention.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "command/runs/chart.h"

#define BLANKS " \t\r\n"

/* The `count` words of a text. If the text has another number of words, "1", "2", ... NULL: no
 * memory. */
static const char **words_of(et_arena *arena, const char *text, int count)
{
    const char **words = et_arena_array(arena, (size_t)count, sizeof *words);
    char *rest = et_arena_strdup(arena, text), *word;
    int found = 0;
    if (!words || !rest)
        return NULL;
    while ((word = strtok_r(rest, BLANKS, &rest))) {
        if (found < count)
            words[found] = word;
        found++;
    }
    for (int i = 0; i < count && found != count; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i + 1);
        words[i] = et_arena_strdup(arena, number);
        if (!words[i])
            return NULL;
    }
    return words;
}

int et_attention_draw(const char *path, const char *line, const et_hypothesis *found,
                      et_error *error)
{
    et_assert(path && line && found);
    et_arena arena = ET_ARENA_INIT;
    et_strbuf text = ET_STRBUF_INIT;
    const int count = found->alignment_count;
    const double **values = et_arena_array(&arena, (size_t)count, sizeof *values);
    for (int i = 0; values && i < count; i++)
        values[i] = found->alignment[i].weights;
    const et_chart_heat heat = { .title = "attention",
                                 .rows = words_of(&arena, found->text, count),
                                 .columns = words_of(&arena, line, found->source_words),
                                 .row_count = count,
                                 .column_count = found->source_words,
                                 .values = values };
    int status = values && heat.rows && heat.columns ? et_chart_heat_svg(&text, &heat, error)
                                                     : et_alloc_failed(error, 0, "a picture");
    if (!status)
        status = et_file_write(path, et_strbuf_text(&text), text.length, error);
    et_strbuf_release(&text);
    et_arena_release(&arena);
    return status;
}

int et_attention_plot(const char *run, const char *line, const char *path, et_error *error)
{
    et_assert(run && line && path);
    const et_decoding_options decoding = { .results = 1, .alignments = -1 };
    const et_translator_options options = { .decoding = &decoding };
    et_translator *translator;
    et_hypotheses *found = NULL;
    int status = et_translator_open(&translator, run, &options, error);
    if (!status)
        status = et_translator_search(translator, &line, 1, &found, error);
    if (!status)
        status = et_attention_draw(path, line, et_hypotheses_at(found, 0, 0), error);
    et_hypotheses_free(found);
    et_translator_close(translator);
    return status;
}
