/* Scores of translations: BLEU, chrF2 and TER of all lines, and the line with the lowest BLEU. Two
 * workers score lines in turn, as two threads could; then their counts are merged.
 *
 *     cc scores.c -o scores $(pkg-config --cflags --libs etude)
 *     ./scores HYPOTHESES REFERENCES
 *
 * prints the scores and the worst line. */
#include <etude/etude.h>

#include <stdio.h>
#include <string.h>

enum { BLEU, CHRF, TER, METRICS };
enum { WORKERS = 2, LINE = 4096 };

typedef struct scores {
    et_score *metric[WORKERS][METRICS];
    et_score *alone; /* for single sentences */
    double worst;    /* BLEU of the worst line */
    double its_chrf;
    char line[LINE];
} scores;

static scores s = { .worst = 101 };

static int open_metrics(et_error *error)
{
    et_bleu_options single = ET_BLEU_OPTIONS_INIT;
    single.effective_order = true;

    int status = et_bleu_new(&s.alone, &single, error);
    for (int i = 0; i < WORKERS && !status; i++) {
        status = et_bleu_new(&s.metric[i][BLEU], NULL, error);
        if (!status)
            status = et_chrf_new(&s.metric[i][CHRF], NULL, error);
        if (!status)
            status = et_ter_new(&s.metric[i][TER], NULL, error);
    }
    return status;
}

static void close_metrics(void)
{
    for (int i = 0; i < WORKERS; i++)
        for (int k = 0; k < METRICS; k++)
            et_score_free(s.metric[i][k]);
    et_score_free(s.alone);
}

static int add(int worker, const char *hypothesis, const char *reference, et_error *error)
{
    et_score_result one, its_chrf;
    int status = et_score_sentence(s.alone, &one, hypothesis, reference, error);
    if (!status && one.score < s.worst) {
        s.worst = one.score;
        snprintf(s.line, sizeof s.line, "%s", hypothesis);
        status = et_score_sentence(s.metric[worker][CHRF], &its_chrf, hypothesis, reference, error);
        s.its_chrf = status ? 0 : its_chrf.score;
    }

    for (int k = 0; k < METRICS && !status; k++)
        status = et_score_add(s.metric[worker][k], hypothesis, reference, error);
    return status;
}

static bool read_line(FILE *file, char line[LINE])
{
    if (!file || !fgets(line, LINE, file))
        return false;
    line[strcspn(line, "\n")] = 0;
    return true;
}

static int add_files(FILE *hypotheses, FILE *references, et_error *error)
{
    char hypothesis[LINE], reference[LINE];
    int status = ET_OK;
    for (int n = 0;
         !status && read_line(hypotheses, hypothesis) && read_line(references, reference); n++)
        status = add(n % WORKERS, hypothesis, reference, error);
    return status;
}

/* Everything goes to the first worker's metrics; the others are empty again. */
static int merge(et_error *error)
{
    int status = ET_OK;
    for (int i = 1; i < WORKERS; i++)
        for (int k = 0; k < METRICS && !status; k++) {
            status = et_score_merge(s.metric[0][k], et_score_total(s.metric[i][k]), error);
            et_score_clear(s.metric[i][k]);
        }
    return status;
}

static int print(et_error *error)
{
    char text[ET_SCORE_TEXT_MAX], signature[ET_SCORE_TEXT_MAX];
    et_score_result result;
    for (int k = 0; k < METRICS; k++) {
        const et_score *metric = s.metric[0][k];
        int status = et_score_value(metric, &result, error);
        if (status)
            return status;
        puts(et_score_print(metric, &result, 2, et_score_signature(metric, signature), text));
    }

    printf("worst line: BLEU %.1f, chrF2 %.1f: %s\n", s.worst, s.its_chrf, s.line);
    return ET_OK;
}

int main(int argc, char **argv)
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s HYPOTHESES REFERENCES\n", argv[0]);
        return 2;
    }

    et_error error = ET_ERROR_INIT;
    et_log_to_stderr();
    FILE *hypotheses = fopen(argv[1], "r"), *references = fopen(argv[2], "r");
    int status = open_metrics(&error);
    if (!status && (!hypotheses || !references))
        status = et_fail_errno(&error, "%s", hypotheses ? argv[2] : argv[1]);
    if (!status)
        status = add_files(hypotheses, references, &error);
    if (!status)
        status = merge(&error);
    if (!status)
        status = print(&error);
    if (status)
        fprintf(stderr, "%s (%s)\n", error.text, et_status_name(status));

    if (hypotheses)
        fclose(hypotheses);
    if (references)
        fclose(references);
    close_metrics();
    return status ? 1 : 0;
}
