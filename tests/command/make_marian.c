/* make_marian FOLDER [marian|bergamot]: writes FOLDER/hf, a small MarianMT model of transformers;
 * marian: one that Marian can have, too; bergamot: FOLDER/bergamot, a model of Bergamot. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/files.h"

#include "tasks/bergamot_folder.h"
#include "tasks/marian_folder.h"

int main(int argc, char **argv)
{
    void *state = argv[1];
    if (argc < 2 || argc > 3)
        return 2;
    if (argc == 3 && !strcmp(argv[2], "bergamot"))
        write_bergamot(&state, bergamot_settings, false);
    else if (argc == 3)
        write_fitting_folder(&state);
    else
        write_folder(&state);
    return 0;
}
