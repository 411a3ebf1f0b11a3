/* Finds the MPI that started this process, and the file that was built for it. Each MPI identifies
 * itself in the environment of its ranks. The file is next to the library or the program, or where
 * it is installed; ETUDE_MPI names a file, or the MPI. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "engine/comm/comm.h"
#include "engine/comm/mpi_module.h"

#define VARIABLE  "ETUDE_MPI"
#define PATH_ROOM 4096

typedef struct mpi {
    et_comm comm;
    const et_mpi *module;
} mpi;

/* In this order: Slurm sets its own variables in addition to those of the MPI that it starts ranks
 * for. The first set variable gives the number of ranks: for one rank there is nothing to load. */
static const struct starter {
    const char *size, *rank, *module;
} starters[] = {
    { "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "openmpi" },
    { "PMI_SIZE", "PMI_RANK", "mpich" },
    { "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "openmpi" },
};

enum { STARTERS = sizeof starters / sizeof starters[0] };

static long number_in(const char *variable)
{
    const char *text = getenv(variable);
    return text ? strtol(text, NULL, 10) : 0;
}

static const struct starter *started_by(void)
{
    for (int i = 0; i < STARTERS; i++)
        if (number_in(starters[i].size) > 1)
            return &starters[i];
    return NULL;
}

bool et_comm_by_mpi(void)
{
    return started_by() != NULL;
}

int et_comm_mpi_rank(void)
{
    const struct starter *by = started_by();
    return by ? (int)number_in(by->rank) : 0;
}

static bool gives_up(void *comm)
{
    return et_comm_lost(comm) >= 0;
}

static int exchange(et_comm *comm, et_comm_chunk send, et_comm_chunk receive, size_t *came,
                    et_error *error)
{
    mpi *self = (mpi *)comm;
    char text[512] = "";
    et_mpi_chunk out = { send.rank, send.bytes, send.size };
    et_mpi_chunk in = { receive.rank, receive.bytes, receive.size };
    if (!self->module->exchange(out, in, came, comm->beside, gives_up, comm, text, sizeof text))
        return ET_OK;
    int silent = et_comm_lost(comm);
    comm->gone = -1;
    return silent >= 0 ? et_comm_fail_lost(comm, silent, text, error)
                       : et_fail(error, ET_EIO, "%s: %s", self->module->name, text);
}

static int beat(et_comm *comm)
{
    const mpi *self = (const mpi *)(const void *)comm;
    int next = (comm->rank + 1) % comm->size;
    return self->module->beat(next, (comm->rank + comm->size - 1) % comm->size);
}

static void close_mpi(et_comm *comm)
{
    mpi *self = (mpi *)comm;
    self->module->end(comm->broken.status != ET_OK);
    et_free(self);
}

/* The library stays loaded: an MPI can't be begun twice. */
static const et_comm_class classes[] = {
    [ET_MPI_FIRST] = { .name = "MPI", .exchange = exchange, .close = close_mpi },
    [ET_MPI_ANY] = { .name = "MPI", .exchange = exchange, .any_thread = true, .close = close_mpi },
    [ET_MPI_ALL] = { .name = "MPI",
                     .exchange = exchange,
                     .any_thread = true,
                     .beat = beat,
                     .close = close_mpi },
};

/* ---- finding it ---- */

/* path: of the library or the program; cut off after its folder. */
static void *load_beside(char *path, const char *name)
{
    static const char *const folders[] = { "", "etude/", "../" ET_LIBDIR "/etude/" };
    char file[PATH_ROOM + 128];
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        snprintf(file, sizeof file, "%s/%setude_mpi_%s.so", path, folders[i], name);
        if (!access(file, R_OK))
            return dlopen(file, RTLD_NOW | RTLD_GLOBAL);
    }
    return NULL;
}

/* Global: an MPI's own plugins look for it there. */
static void *load(const char *name)
{
    char path[PATH_ROOM];
    Dl_info self;
    void *module = NULL;
    if (strchr(name, '/'))
        return dlopen(name, RTLD_NOW | RTLD_GLOBAL);
    if (dladdr(&starters, &self) && self.dli_fname && strlen(self.dli_fname) < sizeof path) {
        strcpy(path, self.dli_fname);
        module = load_beside(path, name);
    }
    ssize_t length = module ? -1 : readlink("/proc/self/exe", path, sizeof path - 1);
    if (length > 0) {
        path[length] = 0;
        module = load_beside(path, name);
    }
    return module;
}

/* An MPI that was not started by its own kind takes each process for the only one. */
static int begin(mpi *self, long started, et_error *error)
{
    char text[512] = "";
    et_mpi_threads threads = ET_MPI_FIRST;
    if (self->module->begin(&self->comm.rank, &self->comm.size, &threads, text, sizeof text))
        return et_fail(error, ET_EFAIL, "%s", text);
    if (self->comm.size == 1 && started > 1)
        return et_fail(error, ET_ECONFIG,
                       "%ld processes were started, but %s sees one: another MPI started them; "
                       "name its module in " VARIABLE,
                       started, self->module->name);
    self->comm.class = &classes[threads];
    return ET_OK;
}

int et_comm_mpi_open(et_comm **out, et_error *error)
{
    const struct starter *by = started_by();
    const char *wanted = getenv(VARIABLE);
    *out = NULL;
    et_assert(by);
    const char *name = wanted && *wanted ? wanted : by->module;
    void *handle = load(name);
    const et_mpi *module = handle ? dlsym(handle, ET_MPI_SYMBOL) : NULL;
    if (!module || module->version != ET_MPI_VERSION) {
        const char *why = handle ? "has another version" : dlerror();
        return et_fail(
            error, ET_ENOTFOUND,
            "MPI started this process with others, but the module for this MPI (etude_mpi_%s.so) "
            "%s; build Etude with that MPI installed, or name the file in " VARIABLE,
            name, why ? why : "is missing");
    }
    mpi *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "a rank");
    self->module = module;
    int status = begin(self, number_in(by->size), error);
    if (status)
        et_free(self);
    else
        *out = &self->comm;
    return status;
}
