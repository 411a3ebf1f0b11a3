/* etude keys: the keys of a cluster (roles/wire/keys.h). */

#include "command/command.h"
#include "roles/wire/keys.h"

typedef struct keys_options {
    et_strings paths;
} keys_options;

static const et_option options[] = {
    ET_OPTION_REST(keys_options, paths, "DIR"),
    ET_OPTION_END,
};

const et_usage et_usage_keys = {
    options, sizeof(keys_options),
    "Makes the keys with which the tasks of a cluster recognize each other\n(TF_CONFIG, `train "
    "--keys`). Copy DIR/cluster.pub and the .key of its role to\neach host, and nowhere else.",
    "keys/"
};

int et_cmd_keys(const et_call *call, et_error *error)
{
    const keys_options *o = call->options;
    if (o->paths.count != 1)
        return et_fail(error, ET_EUSAGE, "keys: give one folder, not %zu", o->paths.count);
    et_keys keys[ET_JOB_ROLES] = { 0 };
    int status = et_keys_make(keys, error);
    return status ? status : et_keys_write(keys, o->paths.items[0], error);
}
