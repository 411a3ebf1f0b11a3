/* A tensorflow.Summary: scalars, histograms and images by tag, serialised for event files
 * (et_trainer_write_summary, et_loop_add_summary_bytes, et_sink_write_summary).
 *
 *     et_summary *summary;
 *     et_summary_new(&summary, &error);
 *     et_summary_add_histogram(summary, "weights", values, 1000, &error);
 *     et_summary_add_scalar(summary, "loss", 0.25, &error);
 *     size_t length;
 *     const void *bytes = et_summary_bytes(summary, &length);
 *     et_sink_write_summary(sink, 200, bytes, length, &error);
 *     et_summary_free(summary);
 *
 * Tags are copied. One thread. */
#ifndef ETUDE_SUMMARY_MESSAGE_H
#define ETUDE_SUMMARY_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include <etude/error.h>

typedef struct et_summary et_summary;

ET_API int et_summary_new(et_summary **out, et_error *error);
ET_API void et_summary_free(et_summary *summary); /* NULL allowed */

/* Stored as float32, as in TensorBoard. ET_EDATA, here and below: the tag is not UTF-8. */
ET_API int et_summary_add_scalar(et_summary *summary, const char *tag, double value,
                                 et_error *error);

/* values: [count], at least 1. The histogram has TensorFlow's buckets, which grow by a tenth from
 * 1e-12 to 1e20 on both sides of 0. ET_EDATA: a value is not finite. */
ET_API int et_summary_add_histogram(et_summary *summary, const char *tag, const double *values,
                                    int64_t count, et_error *error);

/* pixels: [height, width, channels], 0 to 255; channels: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA.
 * Stored as PNG. ET_EDATA: a size is below 1, or the image has more than 1 GiB. */
ET_API int et_summary_add_image(et_summary *summary, const char *tag, const uint8_t *pixels,
                                int height, int width, int channels, et_error *error);

/* The message so far; valid until the next add. */
ET_API const void *et_summary_bytes(const et_summary *summary, size_t *length);

#endif
