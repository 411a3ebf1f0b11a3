/* etude: the command with the tasks of this library. All that it does is <etude/command.h>'s; what
 * is of this program is how the process runs. */
#include <string.h>

#include <etude/command.h>
#include <etude/multitask_kind.h>

#include "command/etude/stack.h"
#include "command/etude/uncaught.h"
#include "command/etude/waiting.h"
#include "command/kinds.h"
#include "command/model_dir.h"

#define EXIT_NO_MEMORY 4

static int begin(int argc, char **argv)
{
    const et_task_kind *kinds[ET_KINDS + 1];
    et_multitask_kind *several;
    if (et_multitask_kind_new(&several, et_kinds, ET_KINDS, NULL))
        return EXIT_NO_MEMORY;
    memcpy(kinds, et_kinds, sizeof et_kinds);
    kinds[ET_KINDS] = et_multitask_kind_row(several);
    int code = et_command_main(argc, argv, kinds, ET_KINDS + 1);
    et_multitask_kind_free(several);
    return code;
}

int main(int argc, char **argv)
{
    /* First, since it may begin the program anew. */
    et_shorten_waiting(argv);
    et_say_uncaught(EXIT_NO_MEMORY, et_model_dir_abandon);
    return et_with_stack(begin, argc, argv);
}
