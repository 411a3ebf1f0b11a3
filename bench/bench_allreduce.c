/* Adds up gradients of ranks as training does (src/train/ranks/ranked.h), compared with MPI's own
 * all-reduce of as many floats, in turn. The program is built once for each MPI.
 *
 *     ETUDE_MPI=build/etude_mpi_openmpi.so mpirun -n 2 build/bench/bench_allreduce_openmpi [MB ...]
 *
 * All gradients are ready at the start, so the program measures the exchange alone. For each size,
 * it prints the median of several rounds, and the ratio to MPI's rate. Etude adds in the order of
 * shards, so bits do not depend on the number of ranks. Each round checks that all ranks have the
 * sum. */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "bench.h"
#include "engine/exec/device.h"
#include "train/ranks/ranked.h"

#define ROUNDS  15
#define RANKS   64
#define LAP     2e6 /* bytes of one measurement; several sums if they are small */
#define REPEATS 200

typedef struct sums {
    et_comm *comm;
    et_exchange *exchange;
    et_buckets buckets;
    int64_t count; /* of a sum */
    int repeats;   /* sums, one after another */
    float *ours, *theirs;
} sums;

/* Cuts buckets as training does for a parameter of that size. */
static void cut(et_buckets *buckets, int64_t count)
{
    et_error error = ET_ERROR_INIT;
    et_params *params;
    int index;
    bench_check(et_params_new(&params, &error), &error);
    bench_check(et_params_declare(params, "weights", et_shape_1(count),
                                  (et_init){ ET_INIT_ZEROS, 0 }, &index, &error),
                &error);
    bench_check(et_params_materialize(params, false, &error), &error);
    bench_check(et_buckets_divide(buckets, params, 0, &error), &error);
    buckets->end[buckets->count - 1] = count; /* without the store's padding */
    et_params_free(params);
}

static size_t bytes_of(const sums *s)
{
    return (size_t)s->repeats * (size_t)s->count * sizeof(float);
}

static void open_sums(sums *s, et_comm *comm, const et_kernels *kernels, int64_t count)
{
    static et_tree_node nodes[RANKS];
    static int begin[RANKS + 1];
    et_error error = ET_ERROR_INIT;
    int ranks = et_comm_size(comm);
    double repeats = fmin(REPEATS, fmax(1, LAP / ((double)count * sizeof(float))));
    *s = (sums){ .comm = comm, .count = count, .repeats = (int)repeats };
    cut(&s->buckets, count);
    s->ours = et_alloc_aligned(bytes_of(s), 64);
    s->theirs = et_alloc_aligned(bytes_of(s), 64);
    int *order = et_alloc((size_t)s->buckets.count, sizeof *order);
    if (!s->ours || !s->theirs || !order)
        exit(1);
    for (int i = 0; i <= ranks; i++) {
        begin[i] = i;
        nodes[i < ranks ? i : 0] = (et_tree_node){ i < ranks ? i : 0, 1, -1 };
    }
    for (int i = 0; i < s->buckets.count; i++)
        order[i] = i;
    const et_exchange_parts parts = { .sums = { comm, kernels, nodes, begin, ranks },
                                      .buckets = &s->buckets,
                                      .order = order };
    bench_check(et_exchange_open(&s->exchange, &parts, &error), &error);
}

static void close_sums(sums *s)
{
    et_exchange_close(s->exchange);
    et_buckets_release(&s->buckets);
    et_free(s->ours);
    et_free(s->theirs);
}

static void fill(const sums *s, float *values)
{
    for (int64_t i = 0; i < s->repeats * s->count; i++)
        values[i] = (float)(i % 1000 + et_comm_rank(s->comm));
}

static void check(const sums *s, const float *values, const char *whose)
{
    int ranks = et_comm_size(s->comm);
    for (int64_t i = 0; i < s->repeats * s->count; i++)
        if (values[i] != (float)(ranks * (i % 1000) + ranks * (ranks - 1) / 2)) {
            fprintf(stderr, "bench_allreduce: %s sum is wrong at %lld\n", whose, (long long)i);
            exit(1);
        }
}

static double time_ours(const sums *s)
{
    et_error error = ET_ERROR_INIT;
    double since = 0;
    bool bad;
    fill(s, s->ours);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_lap(&since);
    for (int i = 0; i < s->repeats; i++) {
        float *mine[] = { s->ours + i * s->count };
        et_exchange_begin(s->exchange, ET_OK, false, NULL, mine);
        bench_check(et_exchange_wait(s->exchange, &bad, &error), &error);
    }
    double seconds = bench_lap(&since);
    check(s, s->ours, "our");
    return seconds / s->repeats;
}

static double time_theirs(const sums *s)
{
    double since = 0;
    fill(s, s->theirs);
    MPI_Barrier(MPI_COMM_WORLD);
    bench_lap(&since);
    for (int i = 0; i < s->repeats; i++)
        MPI_Allreduce(MPI_IN_PLACE, s->theirs + i * s->count, (int)s->count, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
    double seconds = bench_lap(&since);
    check(s, s->theirs, "MPI's");
    return seconds / s->repeats;
}

static void measure(et_comm *comm, const et_kernels *kernels, double megabytes)
{
    double ours[ROUNDS], theirs[ROUNDS], ratio[ROUNDS];
    sums s;
    open_sums(&s, comm, kernels, (int64_t)(megabytes * 1e6 / sizeof(float)));
    time_ours(&s);
    time_theirs(&s);
    for (int i = 0; i < ROUNDS; i++) {
        ours[i] = time_ours(&s);
        theirs[i] = time_theirs(&s);
        ratio[i] = theirs[i] / ours[i];
    }
    double share = bench_median(ratio, ROUNDS);
    if (et_comm_rank(comm) == 0) {
        printf("| %s, %d ranks, %g MB | %.4g ms | %.4g ms | %.2f |\n", BENCH_MPI,
               et_comm_size(comm), megabytes, 1e3 * bench_median(ours, ROUNDS),
               1e3 * bench_median(theirs, ROUNDS), share);
        bench_figure(share, "ratio", NAN, "scale.allreduce.%s.%gmb", BENCH_MPI, megabytes);
    }
    close_sums(&s);
}

int main(int argc, char **argv)
{
    et_error error = ET_ERROR_INIT;
    et_comm *comm;
    et_device *device;
    bench_check(et_comm_open(&comm, NULL, &error), &error);
    if (et_comm_size(comm) < 2 || et_comm_size(comm) > RANKS) {
        fprintf(stderr, "bench_allreduce: start it by mpirun, with 2 to %d ranks\n", RANKS);
        return 2;
    }
    bench_check(et_device_open(&device, &error), &error);
    for (int i = 1; i < argc; i++)
        measure(comm, device->kernels, atof(argv[i]));
    for (double size = 1; argc == 1 && size <= 64; size *= 8)
        measure(comm, device->kernels, size);
    et_device_close(device);
    et_comm_close(comm);
    return 0;
}
