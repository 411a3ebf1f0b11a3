/* Serialised summaries: each value is packed as a separate summary; such bytes one after another
 * are one message. */
#include <etude/summary_message.h>

#include <float.h>
#include <math.h>
#include <string.h>

#include "formats/events/event.pb-c.h"

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"
#include "formats/records/packed.h"

typedef Etude__Event__Value value_message;

struct et_summary {
    et_strbuf bytes;
};

int et_summary_new(et_summary **out, et_error *error)
{
    if (ET_ALLOC_ZERO(*out, 1, "a summary", error))
        return ET_ENOMEM;
    (*out)->bytes = (et_strbuf)ET_STRBUF_INIT;
    return ET_OK;
}

void et_summary_free(et_summary *summary)
{
    if (!summary)
        return;
    et_strbuf_release(&summary->bytes);
    et_free(summary);
}

const void *et_summary_bytes(const et_summary *summary, size_t *length)
{
    *length = summary->bytes.length;
    return et_strbuf_text(&summary->bytes);
}

static int add(et_summary *summary, const char *tag, value_message *value, et_error *error)
{
    Etude__Event__Summary message = ETUDE__EVENT__SUMMARY__INIT;
    if (!tag || !*tag)
        return et_fail(error, ET_EUSAGE, "a value of a summary has no tag");
    if (!et_utf8_valid(tag, strlen(tag), NULL))
        return et_fail(error, ET_EDATA, "the tag %s of a summary is not UTF-8", tag);
    value->tag = (char *)tag; /* packed, not changed */
    message.n_value = 1;
    message.value = &value;
    size_t size = etude__event__summary__get_packed_size(&message);
    unsigned char *packed = et_alloc(size + 1, 1);
    if (packed)
        et_strbuf_append_bytes(&summary->bytes, packed,
                               etude__event__summary__pack(&message, packed));
    et_free(packed);
    return packed && !summary->bytes.failed ? ET_OK : et_alloc_failed(error, "a summary");
}

int et_summary_add_scalar(et_summary *summary, const char *tag, double value, et_error *error)
{
    value_message message = ETUDE__EVENT__VALUE__INIT;
    message.has_simple_value = true;
    message.simple_value = (float)value;
    return add(summary, tag, &message, error);
}

/* ---- histograms ---- */

enum { SIDE_MAX = 800, BUCKETS_MAX = 2 * SIDE_MAX + 1 };

/* Upper limits: 1e-12, times 1.1 each, the largest number; the same below 0; 0 between. */
static int make_limits(double limits[BUCKETS_MAX])
{
    double side[SIDE_MAX];
    double limit = 1e-12;
    int count = 0;
    while (limit < 1e20) {
        side[count++] = limit;
        limit *= 1.1;
    }
    side[count++] = DBL_MAX;
    for (int i = 0; i < count; i++) {
        limits[i] = -side[count - 1 - i];
        limits[count + 1 + i] = side[i];
    }
    limits[count] = 0;
    return 2 * count + 1;
}

/* The first limit above the value. */
static int bucket_of(const double *limits, int count, double value)
{
    int low = 0, high = count - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (value < limits[middle])
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

int et_summary_add_histogram(et_summary *summary, const char *tag, const double *values,
                             int64_t count, et_error *error)
{
    double limits[BUCKETS_MAX], buckets[BUCKETS_MAX] = { 0 };
    Etude__Event__Histogram histogram = ETUDE__EVENT__HISTOGRAM__INIT;
    value_message message = ETUDE__EVENT__VALUE__INIT;
    int all = make_limits(limits);
    if (count < 1 || !values)
        return et_fail(error, ET_EDATA, "a histogram of %lld values: give at least 1",
                       (long long)count);
    histogram.min = histogram.max = values[0];
    for (int64_t i = 0; i < count; i++) {
        double value = values[i];
        if (!isfinite(value))
            return et_fail(error, ET_EDATA, "a histogram: value %lld is %g; give finite values",
                           (long long)i, value);
        histogram.min = fmin(histogram.min, value);
        histogram.max = fmax(histogram.max, value);
        histogram.sum += value;
        histogram.sum_squares += value * value;
        buckets[bucket_of(limits, all, value)]++;
    }
    histogram.num = (double)count;
    histogram.has_min = histogram.has_max = histogram.has_num = true;
    histogram.has_sum = histogram.has_sum_squares = true;
    /* A run of empty buckets is one. */
    int kept = 0;
    for (int i = 0; i < all; i++) {
        kept += !(kept && buckets[kept - 1] <= 0 && buckets[i] <= 0);
        limits[kept - 1] = limits[i];
        buckets[kept - 1] = buckets[i];
    }
    histogram.n_bucket = histogram.n_bucket_limit = (size_t)kept;
    histogram.bucket = buckets;
    histogram.bucket_limit = limits;
    message.histo = &histogram;
    return add(summary, tag, &message, error);
}

/* ---- images ---- */

int et_summary_add_image(et_summary *summary, const char *tag, const uint8_t *pixels, int height,
                         int width, int channels, et_error *error)
{
    et_strbuf png = ET_STRBUF_INIT;
    Etude__Event__Image image = ETUDE__EVENT__IMAGE__INIT;
    value_message message = ETUDE__EVENT__VALUE__INIT;
    if (!pixels || height < 1 || width < 1 || channels < 1 || channels > 4 ||
        (int64_t)height > ((int64_t)1 << 30) / width / channels)
        return et_fail(error, ET_EDATA,
                       "an image of %d rows, %d columns and %d channels: give sizes of at least 1, "
                       "at most 4 channels, and at most 1 GiB in total",
                       height, width, channels);
    int status = et_packed_png(&png, pixels, (uint32_t)height, (uint32_t)width, channels, error);
    image.has_height = image.has_width = image.has_colorspace = image.has_encoded_image_string =
        true;
    image.height = height;
    image.width = width;
    image.colorspace = channels;
    image.encoded_image_string = (ProtobufCBinaryData){ png.length, (uint8_t *)png.data };
    message.image = &image;
    if (!status)
        status = add(summary, tag, &message, error);
    et_strbuf_release(&png);
    return status;
}
