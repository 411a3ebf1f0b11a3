#include "scale_model.h"

#include <math.h>

#include "data/table/features/transforms.h"
#include "train/step/reducer_private.h"

double scale_slowest(int ranks)
{
    return ranks > 1 ? et_normal_quantile((ranks - 0.375) / (ranks + 0.25)) : 0;
}

/* Of one rank at most, and of all. */
static void count_sums(int ranks, int shards, int *most, int *all)
{
    *most = *all = 0;
    for (int r = 0; r < ranks; r++) {
        int deepest, first = (int)((long long)shards * r / ranks);
        int end = (int)((long long)shards * (r + 1) / ranks);
        int sums = et_tree_nodes(shards, first, end, NULL, &deepest);
        *most = sums > *most ? sums : *most;
        *all += sums;
    }
}

double scale_bucket(const scale_network *n, double bytes, int ranks, int shards)
{
    int most, all;
    if (ranks == 1)
        return 0;
    count_sums(ranks, shards, &most, &all);
    bool pairs = all == ranks && !(ranks & (ranks - 1));
    return 2 * (pairs ? log2(ranks) : ranks - 1) * n->latency +
           (most + 1) * bytes * (ranks - 1) / ranks / n->bandwidth +
           (all - 1) * bytes / ranks / n->adds;
}

/* Agreements and scalars: log2 P messages each; the first agreement overlaps the pass. */
static double meetings(const scale_network *n, int ranks)
{
    return 2 * ceil(log2(ranks)) * n->latency;
}

scale_step scale_step_of(const scale_work *w, const scale_network *n, int ranks, int shards)
{
    int own = (shards + ranks - 1) / ranks;
    double crowd = n->crowd > 1 ? n->crowd : 1, pass = w->pass * crowd;
    double late = scale_slowest(ranks) * w->deviation * sqrt(own);
    double before = (own - 1) * (pass + w->add * crowd) + late;
    scale_step s = { .compute = before + pass + (shards > 1 ? w->add * crowd : 0) };
    double gone = 0;
    for (int i = 0; i < w->buckets; i++) {
        double takes = scale_bucket(n, w->bytes[i], ranks, shards);
        double ready = before + w->ready[i] * pass;
        gone = (ready > gone ? ready : gone) + takes;
        s.exchange += takes;
    }
    if (!n->overlaps)
        gone = s.compute + s.exchange;
    s.exposed = ranks > 1 && gone > s.compute ? gone - s.compute : 0;
    s.seconds = s.compute + s.exposed + meetings(n, ranks) + w->rest * crowd;
    return s;
}

double scale_young(double cost, double failures)
{
    return sqrt(2 * cost * failures);
}

double scale_daly(double cost, double failures)
{
    double part = cost / (2 * failures);
    return part >= 1 ? failures
                     : scale_young(cost, failures) * (1 + sqrt(part) / 3 + part / 9) - cost;
}

double scale_useful(double interval, double cost, double restart, double failures)
{
    return interval / (failures * exp(restart / failures) * expm1((interval + cost) / failures));
}
