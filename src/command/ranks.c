#include "command/ranks.h"

#include <string.h>

#include <etude/log.h>
#include <etude/version.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/values/json.h"
#include "command/command.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"

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

bool et_ranks_are_first(void)
{
    return !(et_comm_by_launch() ? et_comm_launch_rank() : et_comm_mpi_rank());
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

/* What bits depend on. */
typedef struct print {
    uint64_t settings, kernels;
} print;

static int compare(const et_comm *comm, const print *all, const et_device *device, et_error *error)
{
    for (int i = 1; i < et_comm_size(comm); i++) {
        if (all[i].kernels != all[0].kernels)
            return et_fail(
                error, ET_ECONFIG,
                "rank %d uses other kernels than rank 0 (%s), because of another CPU or build; use "
                "equal machines, or set ETUDE_ISA and ONEDNN_MAX_CPU_ISA to the same on all",
                i, device->kernels->name);
        if (all[i].settings != all[0].settings)
            return et_fail(error, ET_ECONFIG,
                           "rank %d has other settings or data than rank 0: give all ranks the "
                           "same command and the same files",
                           i);
    }
    return ET_OK;
}

int et_ranks_compare(et_comm *comm, int status, const et_value *identity, const et_device *device,
                     et_error *error)
{
    void *all;
    if (et_comm_size(comm) == 1)
        return status;
    et_strbuf settings = ET_STRBUF_INIT, kernels = ET_STRBUF_INIT;
    if (!status && identity)
        et_json_print(&settings, identity, 0);
    if (!status)
        et_strbuf_printf(&kernels, "%s %s %s", et_version(), device->kernels->name, et_gemm_isa());
    if (settings.failed || kernels.failed)
        status = et_alloc_failed(error, settings.length, "ranks");
    print mine = { et_checksum(et_strbuf_text(&settings), settings.length),
                   et_checksum(et_strbuf_text(&kernels), kernels.length) };
    status = et_together_table(comm, status, &mine, sizeof mine, &all, error);
    if (!status)
        status = compare(comm, all, device, error);
    et_strbuf_release(&settings);
    et_strbuf_release(&kernels);
    et_free(all);
    return status;
}

/* Of the checkpoint that a rank has loaded. */
typedef struct loaded {
    int64_t step;
    uint64_t path;
} loaded;

int et_ranks_compare_loaded(et_comm *comm, int status, const char *model_dir, const char *path,
                            int64_t step, et_error *error)
{
    void *all;
    loaded mine = { step, path ? et_checksum(path, strlen(path)) : 0 };
    status = et_together_table(comm, status, &mine, sizeof mine, &all, error);
    const loaded *each = all;
    for (int i = 1; !status && i < et_comm_size(comm); i++)
        if (each[i].step != each[0].step || each[i].path != each[0].path)
            status = et_fail(error, ET_EBUSY,
                             "%s: rank %d found another checkpoint than rank 0 because the run is "
                             "still training; try again, or name one with --checkpoint",
                             model_dir, i);
    et_free(all);
    return status;
}
