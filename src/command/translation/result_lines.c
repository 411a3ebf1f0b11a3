#include "command/translation/result_lines.h"

#include <math.h>

#include "base/assert.h"
#include "base/values/json.h"

/* JSON has no infinity, which a target that is impossible has as its log-probability. */
static void print_number(et_strbuf *out, double number)
{
    if (isfinite(number))
        et_strbuf_append_double(out, number);
    else
        et_strbuf_append(out, "null");
}

void et_result_lines_print_json(et_strbuf *out, const et_hypotheses *found, size_t line,
                                bool alignments)
{
    et_assert(out && found);
    et_strbuf_append_char(out, '[');
    for (int rank = 0; rank < et_hypotheses_count(found, line); rank++) {
        const et_hypothesis *h = et_hypotheses_at(found, line, rank);
        et_strbuf_append(out, rank ? ", {\"text\": " : "{\"text\": ");
        et_json_print_string(out, h->text);
        et_strbuf_append(out, ", \"score\": ");
        print_number(out, h->score);
        et_strbuf_append(out, ", \"log_probability\": ");
        print_number(out, h->log_probability);
        if (alignments) {
            et_strbuf_append(out, ", \"alignment\": [");
            for (int i = 0; i < h->alignment_count; i++)
                et_strbuf_printf(out, "%s[%d, %d]", i ? ", " : "", h->alignment[i].source,
                                 h->alignment[i].target);
            et_strbuf_append_char(out, ']');
        }
        et_strbuf_append_char(out, '}');
    }
    et_strbuf_append_char(out, ']');
}

/* Prints the plain text, with alignments appended if they are asked for. */
static void print_text(et_strbuf *out, const et_hypothesis *h, size_t number,
                       const et_result_lines *how)
{
    if (how->several || how->scores)
        et_strbuf_printf(out, "%zu ||| ", number);
    et_strbuf_append(out, h->text);
    if (how->scores)
        et_strbuf_printf(out, " ||| logp=%.4f score=%.4f", h->log_probability, h->score);
    if (how->alignments) {
        et_strbuf_append(out, " |||");
        for (int i = 0; i < h->alignment_count; i++)
            et_strbuf_printf(out, " %d-%d", h->alignment[i].source, h->alignment[i].target);
    }
    et_strbuf_append_char(out, '\n');
}

void et_result_lines_print(et_strbuf *out, const et_hypotheses *found, size_t lines, size_t first,
                           const et_result_lines *how)
{
    et_assert(out && found && how);
    for (size_t i = 0; i < lines; i++) {
        if (how->json) {
            et_strbuf_printf(out, "{\"line\": %zu, \"hypotheses\": ", first + i);
            et_result_lines_print_json(out, found, i, how->alignments);
            et_strbuf_append(out, "}\n");
            continue;
        }
        for (int rank = 0; rank < et_hypotheses_count(found, i); rank++)
            print_text(out, et_hypotheses_at(found, i, rank), first + i, how);
    }
}
