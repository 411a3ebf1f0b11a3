/* A complete program that uses a trained translation model.
 *
 *     cc translate.c -o translate $(pkg-config --cflags --libs etude)
 *     ./translate runs/help "Click the chart." "Save the file."
 *
 * prints a translation for each sentence. */
#include <etude/etude.h>

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    if (argc < 3) {
        fprintf(stderr, "usage: %s RUN SENTENCE...\n", argv[0]);
        return 2;
    }
    et_error error = ET_ERROR_INIT;
    et_log_to_stderr();
    et_translator *translator;
    size_t count = (size_t)argc - 2;
    char **results = calloc(count, sizeof *results);
    if (!results)
        return 1;
    int status = et_translator_open(&translator, argv[1], NULL, &error);
    if (!status)
        status = et_translator_translate(translator, (const char *const *)argv + 2, count, results,
                                         &error);
    if (status)
        fprintf(stderr, "%s\n", error.text);
    for (size_t i = 0; i < count && !status; i++)
        printf("%s\n", results[i]);
    et_translator_free_results(results, count);
    et_translator_close(translator);
    free(results);
    return status ? 1 : 0;
}
