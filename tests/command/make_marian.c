/* make_marian FOLDER: writes FOLDER/hf, a small MarianMT model of transformers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/files.h"

#include "tasks/marian_folder.h"

int main(int argc, char **argv)
{
    void *state = argv[1];
    if (argc != 2)
        return 2;
    write_folder(&state);
    return 0;
}
