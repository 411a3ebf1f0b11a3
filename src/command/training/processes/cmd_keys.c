/* etude keys: the keys of a cluster (roles/wire/keys.h). */
#include <stdio.h>

#include "command/command.h"
#include "command/options/args.h"
#include "roles/wire/keys.h"

int et_cmd_keys(const et_call *call, et_error *error)
{
    et_arg_list paths = { 0 };
    bool help = false;
    const et_arg table[] = {
        ET_ARG_REST("DIR", &paths),
        ET_ARG_END,
    };
    int status = et_args_parse(table, call, &help, error);
    if (status || help) {
        if (!status)
            et_args_help(stdout, table, call,
                         "Makes the keys by which the tasks of a cluster know each other "
                         "(TF_CONFIG, `train --keys`).\nEach host gets DIR/cluster.pub and its "
                         "own role's .key; nobody else gets a .key.",
                         "keys/");
        return status;
    }
    if (paths.count != 1)
        return et_fail(error, ET_EUSAGE, "keys: takes one folder, found %d", paths.count);
    et_keys keys[ET_JOB_ROLES] = { 0 };
    status = et_keys_make(keys, error);
    return status ? status : et_keys_write(keys, paths.items[0], error);
}
