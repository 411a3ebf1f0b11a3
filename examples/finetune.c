/* A translation model, fine-tuned: trained on general text, then further on text of your own with a
 * small constant rate, a tenth of it for the embeddings. The program calls the `etude` command, as
 * a function of the library, and then translates with both models.
 *
 *     cc finetune.c -o finetune $(pkg-config --cflags --libs etude)
 *     ./finetune general.en general.de own.en own.de 20000 2000
 *
 * trains the runs `general` (20,000 updates) and `tuned` (2,000 more), and prints the first lines
 * of own.en as both translate them. If started again, the program resumes, and does not train a
 * finished run again. Further arguments are settings of the first training, as after --set:
 * task.vocabulary.size=4000. The second training has the settings of the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/etude.h>

enum { WORDS_MAX = 64, LINES = 5, LONGEST_LINE = 4096 };

static const char tuning[] = "trainer.optimizer_config.learning_rate={type: constant, constant: "
                             "{learning_rate: 0.0003}}, "
                             "trainer.optimizer_config.parameter_groups={pattern: embedding, "
                             "learning_rate_multiplier: 0.1}";

/* ---- training ---- */

/* `etude train` with these words, ended by NULL, and more settings. Returns the exit code. */
static int train(const char *const *words, char *const *settings)
{
    static const et_task_kind *const kinds[] = { &et_translation_kind };
    const char *argv[WORDS_MAX + 1] = { "finetune", "train" };
    int argc = 2;

    for (; *words && argc < WORDS_MAX; words++)
        argv[argc++] = *words;
    for (; *settings && argc + 1 < WORDS_MAX; settings++) {
        argv[argc++] = "--set";
        argv[argc++] = *settings;
    }
    return et_command_main(argc, (char **)argv, kinds, 1);
}

/* ---- translating ---- */

/* Up to LINES lines; they are freed by the caller. */
static size_t read_lines(const char *path, char *lines[LINES])
{
    char line[LONGEST_LINE];
    size_t count = 0;
    FILE *file = fopen(path, "r");

    while (file && count < LINES && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\r\n")] = 0;
        char *copy = malloc(strlen(line) + 1);
        if (!copy)
            break;
        lines[count++] = strcpy(copy, line);
    }
    if (file)
        fclose(file);
    return count;
}

static int show(const char *run, char *const *lines, size_t count, et_error *error)
{
    et_translator *translator = NULL;
    char *results[LINES];
    int status = et_translator_open(&translator, run, NULL, error);
    if (!status)
        status =
            et_translator_translate(translator, (const char *const *)lines, count, results, error);

    for (size_t i = 0; i < count && !status; i++)
        printf("%-8s %s\n", run, results[i]);
    if (!status)
        et_translator_free_results(results, count);
    et_translator_close(translator);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 7) {
        fprintf(stderr,
                "usage: %s SOURCE TARGET OWN_SOURCE OWN_TARGET STEPS OWN_STEPS [SETTING...]\n",
                argv[0]);
        return 2;
    }
    et_log_to_stderr();

    /* Without --experiment, a run that starts from another has its settings. */
    const char *const general[] = { "general", "--data",       argv[1],
                                    argv[2],   "--experiment", "translation/tiny",
                                    "--steps", argv[5],        "--quiet",
                                    NULL };
    const char *const tuned[] = { "tuned",   "--init", "general", "--data", argv[3], argv[4],
                                  "--steps", argv[6],  "--quiet", "--set",  tuning,  NULL };
    int code = train(general, argv + 7);
    if (!code)
        code = train(tuned, argv + argc); /* which is NULL: no more settings */
    if (code)
        return code; /* the command has said why */

    char *lines[LINES];
    et_error error = ET_ERROR_INIT;
    size_t count = read_lines(argv[3], lines);
    for (size_t i = 0; i < count; i++)
        printf("%-8s %s\n", "", lines[i]);
    if (show("general", lines, count, &error) || show("tuned", lines, count, &error))
        fprintf(stderr, "%s\n", error.text);

    for (size_t i = 0; i < count; i++)
        free(lines[i]);
    return error.status != 0;
}
