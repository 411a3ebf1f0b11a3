/* Data flows: more samples, decorators and sources, with the rules of <etude/data.h>. Samples are
 * numbered and have no position. A source's position is restored exactly. A decorator owns the
 * object that it wraps once its open has succeeded. Between open and close no memory is allocated.
 *
 *     et_split_options split = { .portion = 0.1, .seed = 1 };
 *     et_batches_options options = { .shuffle = true, .repeat = true, .capacity = { 128 } };
 *     if (et_split_open(&training, &validation, arrays, 2, 60000, &split, &error) ||
 *         et_batches_open(&source, training, &options, &error) ||
 *         et_bernoulli_open(&source, source, "pixels", ET_I32, 1, &error)) ...
 *     if (et_source_next_batch(source, batch, &error)) ...     a batch of pass after pass
 *
 * Random values are functions of seed, epoch, sample and element, so a resumed run gets the same
 * values as an uninterrupted run. Use from one thread at a time. */
#ifndef ETUDE_FLOWS_H
#define ETUDE_FLOWS_H

#include <etude/data.h>

/* ---- samples ---- */

/* The integers start, start + step, ... before stop, as an int32 field. step may be negative. */
ET_API int et_sequence_open(et_samples **out, const char *field, int64_t start, int64_t stop,
                            int64_t step, et_error *error);

/* Sliding windows over an array of count rows (borrowed): sample i is rows i .. i + size - 1, an
 * item of [size, item...]. There are count - size + 1 samples. */
ET_API int et_windows_open(et_samples **out, const et_array *array, int64_t count, int64_t size,
                           et_error *error);

/* Joins the fields of several parts: sample i has the fields of sample i of every part, and "mask"
 * once. ET_ECONFIG: parts of different counts (TFSnippet's GatherFlow ends with the shortest
 * instead; the error names two such parts), or two fields with one name. */
ET_API int et_gather_open(et_samples **out, et_samples *const *parts, int count, et_error *error);

/* The samples for which keep returns true; i is the row in the batch. The open asks once for each
 * sample, so samples must be the same in every pass: filter the parts of a mix, not the mix. */
typedef bool et_keep_fn(void *payload, const et_batch *batch, int64_t i);
ET_API int et_filter_open(et_samples **out, et_samples *inner, et_keep_fn *keep, void *payload,
                          et_error *error);

/* Options to split arrays for training and validation. */
typedef struct et_split_options {
    double portion;  /* of all samples, for the second part, up to 1; ignored if size is set */
    int64_t size;    /* samples of the second part; below 0: none */
    bool no_shuffle; /* take the last samples for the second part; otherwise a random choice */
    uint64_t seed;
} et_split_options;

/* Computes the number of samples of the second part: size, 0 to count. Without size, of n samples
 * and portion p: n - trunc(n (1 - p)) if p is below one half, else trunc(n p) (as
 * split_numpy_arrays). ET_ECONFIG: neither is given, or a portion outside [0, 1]. */
ET_API int et_split_size(int64_t *size, int64_t count, const et_split_options *options,
                         et_error *error);

/* Two parts over the same arrays, which are borrowed. A part without samples is NULL, and both are
 * if there are no arrays. */
ET_API int et_split_open(et_samples **first, et_samples **second, const et_array *arrays,
                         int fields, int64_t count, const et_split_options *options,
                         et_error *error);

/* Reads the first pass of source into memory, as samples, so expensive samples are made only once.
 * The source is borrowed and is at the end of this pass afterwards. ET_EDATA: no samples.
 * ET_ECONFIG: batches have kinds other than samples. ET_EUSAGE: another reader's pass is open. */
ET_API int et_cache_open(et_samples **out, et_source *source, et_error *error);

/* A whole array, [count, item...], of et_arrays_open or et_cache_open. Borrowed; do not write to
 * it. data NULL: no such field. */
ET_API et_tensor et_samples_array(const et_samples *samples, const char *field);

/* ---- passes ---- */

/* Opens a pass of a source at its beginning: the next pass of a source that repeats, unless it is
 * at the beginning of one. Loops, evaluators and fits do so for their passes. reader: the name for
 * messages; borrowed until the end. ET_EUSAGE: another reader's pass is open; the error names
 * both. */
ET_API int et_source_begin(et_source *source, const char *reader, et_error *error);
/* Closes the pass that is open, if any, where it is. */
ET_API void et_source_end(et_source *source);
/* Reads the next batch, and opens and closes passes itself: after the last batch of a pass
 * filled[0] is 0, and the next call begins another pass. A source that repeats has no such end:
 * batch->epoch tells its passes apart. Fails like et_source_begin and et_source_next. Source:
 * DataFlow.next_batch of TFSnippet. */
ET_API int et_source_next_batch(et_source *source, et_batch *batch, et_error *error);

/* ---- sources ---- */

/* Selects fields, in this order; a field may be there several times, always with its name, by which
 * the first is found. The mask is always included, because without it a short batch would look
 * full. ET_ECONFIG: no such field. */
ET_API int et_select_open(et_source **out, et_source *inner, const char *const *fields, int count,
                          et_error *error);

/* Adds or replaces fields: made (copied) replaces fields of inner with the same names and adds the
 * others at the end. All other fields are passed on. convert fills the made fields from a batch of
 * inner; the counts of samples, tokens, ... stay. To change fields in place, use et_map_open. */
typedef int et_convert_fn(void *payload, const et_batch *from, et_batch *to, et_error *error);
ET_API int et_convert_open(et_source **out, et_source *inner, const et_layout_field *made,
                           int count, et_convert_fn *convert, void *payload, et_error *error);

/* Joins sources side by side: a batch has the fields of the next batch of each part. Sample numbers
 * and epochs are those of the first. All positions together have at most ET_POSITION_MAX numbers:
 * four sources. ET_EDATA, from next: batches have different sizes, or one part ends early; the
 * error names both parts. */
ET_API int et_gather_sources_open(et_source **out, et_source *const *parts, int count,
                                  et_error *error);

/* Batches made by a program, with a new iterator for each pass. */
typedef struct et_factory {
    void *payload; /* first argument of each function; borrowed */
    /* Begins a pass: makes its iterator. */
    int (*begin)(void *payload, int64_t epoch, et_error *error);
    /* Fills a batch from its start and sets batch->filled. Leaves filled[0] at 0 to end the pass.
     * batch->sample already has the numbers of the rows in the pass. */
    int (*next)(void *payload, et_batch *batch, et_error *error);
    /* Skips batches as if they had been made. NULL: they are made and dropped. */
    int (*skip)(void *payload, int64_t batches, et_error *error);
    /* Frees the iterator, at the end of its pass or earlier. NULL: nothing to free. */
    void (*end)(void *payload);
    uint64_t fingerprint; /* of the data; a saved position fits no other */
} et_factory;

/* layout: with capacities; its fields are copied. repeat: passes without end, else one. Results of
 * begin and next must depend only on the epoch: restoring a position begins the pass and skips
 * batches. ET_EDATA, from next: a pass without batches. */
ET_API int et_factory_open(et_source **out, const et_layout *layout, const et_factory *factory,
                           bool repeat, et_error *error);

/* Samples a float32 field of probabilities: it becomes 0 or 1 of dtype (int32 or float32),
 * different in each pass. An element is 1 if a random number in [0, 1) is below its probability.
 * ET_EDATA, from next: not a probability. */
ET_API int et_bernoulli_open(et_source **out, et_source *inner, const char *field, et_dtype dtype,
                             uint64_t seed, et_error *error);

/* Adds uniform noise from minimum to maximum to a float32 or int32 field, which becomes float32.
 * (TFSnippet rounds to the old type.) */
ET_API int et_noise_open(et_source **out, et_source *inner, const char *field, float minimum,
                         float maximum, uint64_t seed, et_error *error);

#endif
