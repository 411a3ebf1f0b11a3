/* A model of the time of a step with several ranks, and of the useful share of the time of many
 * machines. bench_scale.c measures its parameters. All times are in seconds.
 *
 * A step: each of P ranks computes at most ceil(S / P) of S shards, and the slowest rank counts.
 * Each bucket of gradients can be sent once the last pass has made it (src/train/ranks/ranked.h):
 *
 *   slowest    E[max of P normals] ~ quantile((P - 0.375) / (P + 0.25)): Blom, Statistical
 *              Estimates and Transformed Beta-Variables, 1958
 *   bucket b   m l + (s + 1) (P - 1) / P b / w + (n - 1) b / P / a, with l latency, w bandwidth,
 *              a bytes added per second, s sums of a rank, n sums of all, m messages
 *              (src/train/ranks/bucket_sum.c): 2 log2 P if ranks pair up, else 2 (P - 1)
 *   buckets    each begins when it is ready and the bucket before it has been sent
 *
 * A machine works M seconds between two failures, so P machines work M / P. A checkpoint that costs
 * d is made every t seconds:
 *
 *   t          Daly, A higher order estimate of the optimum checkpoint interval for restart dumps,
 *              Future Generation Computer Systems 22 (2006): M if d >= 2 M, else
 *              sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 2M / 9) - d; Young (1974) has sqrt(2 d M)
 *   useful     t / (M e^(R / M) (e^((t + d) / M) - 1)), by Daly too; R is the time of a restart */
#ifndef ETUDE_BENCH_SCALE_MODEL_H
#define ETUDE_BENCH_SCALE_MODEL_H

#include <stdbool.h>

#define SCALE_BUCKETS_MOST 64

/* One rank's work in a step. */
typedef struct scale_work {
    double pass, deviation; /* of a shard: mean, and from batch to batch */
    double add;             /* of a shard's gradients into a sum */
    double rest;            /* per step: data, update */
    int buckets;
    double bytes[SCALE_BUCKETS_MOST];
    double ready[SCALE_BUCKETS_MOST]; /* share of the pass that is over by then, ascending */
} scale_work;

typedef struct scale_network {
    double latency;   /* of a message */
    double bandwidth; /* bytes a second, each way at once */
    double adds;      /* bytes a second */
    bool overlaps;    /* sending takes no time of the computing threads */
    double crowd;     /* ranks for each processor they have; 1 and less: each has its own */
} scale_network;

typedef struct scale_step {
    double seconds;
    double compute, exchange; /* each is measured separately */
    double exposed;           /* of the exchange: the part without simultaneous computation */
} scale_step;

double scale_slowest(int ranks); /* in deviations above the mean */
double scale_bucket(const scale_network *network, double bytes, int ranks, int shards);
scale_step scale_step_of(const scale_work *work, const scale_network *network, int ranks,
                         int shards);

double scale_young(double cost, double failures);
double scale_daly(double cost, double failures);
double scale_useful(double interval, double cost, double restart, double failures);

#endif
