#include "train/ranks/compare.h"

#include <string.h>

#include <etude/version.h>

#include "base/alloc.h"
#include "base/files/checksum.h"
#include "base/text/strbuf.h"
#include "base/values/json.h"
#include "engine/comm/comm.h"
#include "engine/comm/together.h"

/* Values on which bits depend. */
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
        status = et_alloc_failed(error, "ranks");
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

/* Facts about the checkpoint that a rank has loaded. */
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
