/* Data flows: samples and decorators beside those of <etude/data.h>, by its rules. Samples are
 * numbered and have no position; a source's position is restored exactly; a decorator owns what it
 * is put around once its open has succeeded; nothing is allocated between open and close.
 *
 *     et_split_options split = { .portion = 0.1, .seed = 1 };
 *     et_batches_options options = { .shuffle = true, .repeat = true, .capacity = { 128 } };
 *     if (et_split_open(&training, &validation, arrays, 2, 60000, &split, &error) ||
 *         et_batches_open(&source, training, &options, &error) ||
 *         et_bernoulli_open(&source, source, "pixels", ET_I32, 1, &error)) ...
 *
 * What is drawn is a function of seed, epoch, sample and element, so a run that is resumed sees
 * what an unbroken one sees. One thread at a time. */
#ifndef ETUDE_FLOWS_H
#define ETUDE_FLOWS_H

#include <etude/data.h>

/* ---- samples ---- */

/* The integers start, start + step, ... before stop, as a field of int32; step may be negative. */
ET_API int et_sequence_open(et_samples **out, const char *field, int64_t start, int64_t stop,
                            int64_t step, et_error *error);

/* Windows that slide over an array of count rows, which is borrowed: sample i is its rows
 * i .. i + size - 1, an item of [size, item...]. count - size + 1 samples. */
ET_API int et_windows_open(et_samples **out, const et_array *array, int64_t count, int64_t size,
                           et_error *error);

/* Sample i is sample i of every part: fields of all side by side; "mask" once. ET_ECONFIG: parts of
 * different counts (both are named; as TFSnippet's GatherFlow, which ends with the shortest), or
 * two fields of one name. */
ET_API int et_gather_open(et_samples **out, et_samples *const *parts, int count, et_error *error);

/* The samples for which keep is true, asked once for each when it is opened; i: which row of the
 * batch. Of samples that are the same in every pass: a mix is made of filtered parts. */
typedef bool et_keep_fn(void *payload, const et_batch *batch, int64_t i);
ET_API int et_filter_open(et_samples **out, et_samples *inner, et_keep_fn *keep, void *payload,
                          et_error *error);

/* Arrays in two parts, for training and validation. */
typedef struct et_split_options {
    double portion;  /* of the second part, up to 1; where size is 0 */
    int64_t size;    /* of the second part, in samples */
    bool no_shuffle; /* the second part is the last samples; else drawn from all */
    uint64_t seed;
} et_split_options;

/* How many samples the second part has: size, at most count; else of n samples and portion p
 * n - trunc(n (1 - p)) below one half, trunc(n p) from there on (as split_numpy_arrays).
 * ET_ECONFIG: neither is given, a portion outside of [0, 1], a negative size. */
ET_API int et_split_size(int64_t *size, int64_t count, const et_split_options *options,
                         et_error *error);

/* Both parts over the same arrays, which are borrowed. A part without samples is NULL. */
ET_API int et_split_open(et_samples **first, et_samples **second, const et_array *arrays,
                         int fields, int64_t count, const et_split_options *options,
                         et_error *error);

/* The rest of a pass over a source in memory, as samples: what is costly to make is made once. The
 * source is borrowed, and stands behind the pass then. ET_EDATA: it has no samples. ET_ECONFIG:
 * batches of other than samples. */
ET_API int et_cache_open(et_samples **out, et_source *source, et_error *error);

/* A whole array, [count, item...], of et_arrays_open or et_cache_open; data NULL: no such field.
 * Borrowed, and const. */
ET_API et_tensor et_samples_array(const et_samples *samples, const char *field);

/* ---- sources ---- */

/* Only these fields, in this order, and the mask, without which a short batch would count as a
 * full one. ET_ECONFIG: a name that there is not. */
ET_API int et_select_open(et_source **out, et_source *inner, const char *const *fields, int count,
                          et_error *error);

/* Other fields: those that are made (copied) stand in place of inner's with the same name, or
 * behind them; all others are passed on. convert fills what is made from a batch of inner's, as
 * many samples, tokens, ... as that has; change what stays as it is with et_map_open. */
typedef int et_convert_fn(void *payload, const et_batch *from, et_batch *to, et_error *error);
ET_API int et_convert_open(et_source **out, et_source *inner, const et_layout_field *made,
                           int count, et_convert_fn *convert, void *payload, et_error *error);

/* The same by sources: a batch is the next one of each, side by side. ET_EDATA, from next: batches
 * of different sizes, or one ends before another; both are named. Sample numbers and epochs are the
 * first one's. Positions together have at most ET_POSITION_MAX numbers: four sources. */
ET_API int et_gather_sources_open(et_source **out, et_source *const *parts, int count,
                                  et_error *error);

/* What a program makes batch by batch, with an iterator that is made anew for each pass. */
typedef struct et_factory {
    void *payload; /* handed to each; borrowed */
    /* A pass begins: makes its iterator. */
    int (*begin)(void *payload, int64_t epoch, et_error *error);
    /* Fills a batch from its start, and batch->filled; filled[0] as it is, 0: the pass ends.
     * batch->sample has the rows' numbers in the pass already. */
    int (*next)(void *payload, et_batch *batch, et_error *error);
    /* Leaves out so many batches, as if they were made. NULL: they are made. */
    int (*skip)(void *payload, int64_t batches, et_error *error);
    /* The iterator goes, at the end of its pass or before. NULL: nothing is to be done. */
    void (*end)(void *payload);
    uint64_t fingerprint; /* of what is made: a position fits no other */
} et_factory;

/* layout: with capacities; its fields are copied. repeat: pass after pass, else one. What begin
 * and next do is a function of the epoch: a position is restored by beginning its pass and leaving
 * out the batches before it. ET_EDATA, from next: a pass without batches. */
ET_API int et_factory_open(et_source **out, const et_layout *layout, const et_factory *factory,
                           bool repeat, et_error *error);

/* A field of float32, probabilities, becomes 0 or 1 of dtype (int32 or float32), 1 where a number
 * drawn from [0, 1) is below: other ones in each pass. ET_EDATA, from next: no probability. */
ET_API int et_bernoulli_open(et_source **out, et_source *inner, const char *field, et_dtype dtype,
                             uint64_t seed, et_error *error);

/* A field of float32 or int32 gets noise added, uniform from minimum to maximum, and is float32
 * then. TFSnippet rounds to the type it was. */
ET_API int et_noise_open(et_source **out, et_source *inner, const char *field, float minimum,
                         float maximum, uint64_t seed, et_error *error);

#endif
