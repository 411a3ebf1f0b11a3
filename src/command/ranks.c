#include "command/ranks.h"

#include <string.h>

#include <etude/log.h>

#include "base/assert.h"
#include "command/command.h"
#include "engine/comm/comm.h"

int et_ranks_open(et_comm **out, const et_runtime_options *options, et_error *error)
{
    et_assert(out && options);
    et_comm_options ranks = { .peer_timeout = options->peer_timeout,
                              .bfloat16_gradients = options->bfloat16_gradients,
                              .sharded_optimizer = options->sharded_optimizer };
    int status = et_comm_open(out, &ranks, error);
    if (status)
        return status;
    int size = et_comm_size(*out);
    if (size == 1 || options->data_shards >= size)
        return ET_OK;
    return et_fail(error, ET_ECONFIG,
                   "runtime.data_shards: %lld is less than the number of ranks, %d; start a run "
                   "with --set runtime.data_shards=%d",
                   (long long)options->data_shards, size, size);
}

int et_ranks_join(et_comm **out, double peer_timeout, et_error *error)
{
    et_comm_options options = { .peer_timeout = peer_timeout };
    int status = et_comm_open(out, &options, error);
    if (et_comm_rank(*out))
        et_log_set(NULL, NULL);
    return status;
}

static bool is_rank(void)
{
    return et_comm_by_launch() || et_comm_by_mpi();
}

bool et_ranks_may_run(const et_program *program, const char *command)
{
    et_assert(program && command);
    bool is = !strcmp(command, "train") || !strcmp(command, "evaluate");
    for (int k = 0; !is && k < program->count; k++)
        is = program->kinds[k]->service && program->kinds[k]->next &&
             !strcmp(program->kinds[k]->next, command);
    return is;
}

int et_ranks_refuse(const et_call *call, const char *advice, et_error *error)
{
    et_comm *comm;
    if (!is_rank())
        return ET_OK;
    int status = et_comm_open(&comm, NULL, error);
    if (!status && et_comm_size(comm) > 1)
        status = et_fail(error, ET_EUSAGE, "%s runs in one process, but there are %d; %s",
                         call->command, et_comm_size(comm), advice);
    return et_ranks_leave(comm, call->program, status, error);
}

int et_ranks_leave(et_comm *comm, const et_program *program, int status, et_error *error)
{
    et_assert(program && program->name);
    if (!comm && status && is_rank())
        et_comm_open(&comm, NULL, NULL);
    status = et_comm_agree(comm, status, NULL, error);
    if (status && error && et_comm_reported_elsewhere(comm))
        error->text[0] = 0;
    else if (status && error && et_comm_size(comm) > 1)
        et_tell_failure(program, status, error);
    et_comm_close(comm);
    return status;
}
