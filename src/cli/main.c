/* etude: the command with the tasks of this library. All that it does is <etude/command.h>'s; what
 * is of this program is how the process runs. */
#include <etude/multitask_kind.h>
#include <etude/tabular.h>

#include "cli/stack.h"
#include "cli/uncaught.h"
#include "cli/waiting.h"
#include "tasks/translation/kind.h"

#define EXIT_NO_MEMORY 4

static int begin(int argc, char **argv)
{
    static const et_task_kind *const singles[] = { &et_translation_kind, &et_tabular_kind };
    et_multitask_kind *several;
    if (et_multitask_kind_new(&several, singles, sizeof singles / sizeof singles[0], NULL))
        return EXIT_NO_MEMORY;
    const et_task_kind *const kinds[] = { singles[0], singles[1], et_multitask_kind_row(several) };
    int code = et_command_main(argc, argv, kinds, sizeof kinds / sizeof kinds[0]);
    et_multitask_kind_free(several);
    return code;
}

int main(int argc, char **argv)
{
    /* First, since it may begin the program anew. */
    et_shorten_waiting(argv);
    et_say_uncaught(EXIT_NO_MEMORY);
    return et_with_stack(begin, argc, argv);
}
