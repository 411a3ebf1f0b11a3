/* Adafactor (Shazeer and Stern 2018) as in Keras's class. For a tensor [..., rows, columns] it
 * keeps only means of squares by row and by column; for a vector, means for each element. With t
 * updates counted from 1, b = 1 - t^beta_2_decay and q = g^2 + epsilon_1:
 *
 *   r = b r + (1 - b) mean of q over columns,  c = b c + (1 - b) mean of q over rows,
 *   v = r c / mean of r over rows;             for a vector v = b v + (1 - b) q
 *   u = g / sqrt(v),  w -= a max(epsilon_2, rms(w)) u / max(1, rms(u) / clip_threshold)
 *
 * with a = min(rate, 1 / sqrt(t)); relative_step false: a = rate. (Keras takes the minimum even
 * then, against its documentation.)
 *
 * One tensor is updated at a time; threads share its rows in blocks, and the blocks' column sums
 * are added in order. u replaces the gradient. */
#include <math.h>

#include "base/assert.h"
#include "engine/kernel/parallel.h"
#include "engine/optim/rules/rule.h"

/* A setting that Keras has and the schedule replaces. */
#define ONLY_BY_SCHEDULE(setting, value)                                                           \
    ET_FIELD_ONLY(#setting, value,                                                                 \
                  "set the rate by the schedule, trainer.optimizer_config." #setting)

static const et_field adafactor_keras_fields[] = {
    ONLY_BY_SCHEDULE(learning_rate, "0.001"),
    ET_FIELD_FLOAT(et_adafactor_keras, beta_2_decay, -0.8, -100, 0,
                   "mean squares keep 1 - step^this (a negative exponent)"),
    ET_FIELD_FLOAT(et_adafactor_keras, epsilon_1, 1e-30, 1e-36, 1,
                   "added to squares of the gradient"),
    EPSILON(et_adafactor_keras, epsilon_2, 1e-3,
            "lower bound of a tensor's RMS, which scales its step"),
    ET_FIELD_FLOAT(et_adafactor_keras, clip_threshold, 1, 1e-30, HUGE_VAL,
                   "maximal RMS of a tensor's step, before the rate is applied"),
    ET_FIELD_BOOL(et_adafactor_keras, relative_step, true, "limit the rate to 1 / sqrt(step)"),
    ET_RULE_CLIPS(et_adafactor_keras, 0),
    TENSORFLOW_NAME,
    ET_FIELD_END
};
ET_RULE_FIELDS(adafactor_keras);

/* Lanes that a row's sum is cut into. */
#define LANES 16

enum { ROWS, COLUMNS, ELEMENTS }; /* slots */

/* A tensor as matrices below each other. */
typedef struct factored {
    float *gradient;     /* [matrices, rows, columns] */
    float *row, *column; /* slots: [matrices, rows], [matrices, columns] */
    float *sums;         /* [matrices, blocks, columns] */
    float *mean;         /* [matrices]: of row */
    int64_t matrices, rows, columns, blocks;
    float scale, epsilon; /* of gradients; of their squares */
    float keep;           /* b */
} factored;

static bool row_shape(et_shape parameter, bool adapts, et_shape *slot)
{
    (void)adapts;
    *slot = parameter;
    slot->rank--;
    return parameter.rank >= 2;
}

static bool column_shape(et_shape parameter, bool adapts, et_shape *slot)
{
    bool has = row_shape(parameter, adapts, slot);
    if (has)
        slot->size[slot->rank - 1] = parameter.size[parameter.rank - 1];
    return has;
}

static bool element_shape(et_shape parameter, bool adapts, et_shape *slot)
{
    (void)adapts;
    *slot = parameter;
    return parameter.rank < 2;
}

static int slots(const void *options, et_rule_slot slot[ET_RULE_SLOTS_MAX])
{
    (void)options;
    slot[ROWS] = (et_rule_slot){ .name = "r", .shape = row_shape };
    slot[COLUMNS] = (et_rule_slot){ .name = "c", .shape = column_shape };
    slot[ELEMENTS] = (et_rule_slot){ .name = "v", .shape = element_shape };
    return 3;
}

/* The cut of a tensor; pointers are left NULL. */
static factored cut(et_shape shape)
{
    factored f = { .rows = shape.size[shape.rank - 2], .columns = shape.size[shape.rank - 1] };
    f.matrices = et_shape_count(shape) / (f.rows * f.columns);
    f.blocks = et_row_blocks(f.rows);
    return f;
}

/* Vectors need scratch too: their mean square is over the whole vector. */
static size_t scratch(const void *options, et_shape parameter, bool adapts)
{
    (void)options, (void)adapts;
    if (parameter.rank < 2)
        return 1;
    const factored f = cut(parameter);
    return (size_t)(f.matrices * (f.blocks * f.columns + 1));
}

/* ---- matrices ---- */

/* Adds q of a row to the columns' sums; returns its mean. */
static float add_row(const factored *f, const float *g, float *sums)
{
    float lane[LANES] = { 0 };
    double sum = 0;
    int64_t j = 0;
    for (; j + LANES <= f->columns; j += LANES)
        for (int k = 0; k < LANES; k++) {
            float x = g[j + k] * f->scale, q = x * x + f->epsilon;
            sums[j + k] += q;
            lane[k] += q;
        }
    for (; j < f->columns; j++) {
        float x = g[j] * f->scale, q = x * x + f->epsilon;
        sums[j] += q;
        sum += q;
    }
    for (int k = 0; k < LANES; k++)
        sum += lane[k];
    return (float)(sum / (double)f->columns);
}

/* Blocks begin .. end - 1 of all matrices. */
static void add_blocks(const factored *f, int64_t begin, int64_t end)
{
    for (int64_t block = begin; block < end; block++) {
        int64_t matrix = block / f->blocks, first = block % f->blocks * ET_ROW_BLOCK;
        int64_t last = first + ET_ROW_BLOCK < f->rows ? first + ET_ROW_BLOCK : f->rows;
        float *sums = f->sums + block * f->columns;
        for (int64_t j = 0; j < f->columns; j++)
            sums[j] = 0;
        for (int64_t i = matrix * f->rows + first; i < matrix * f->rows + last; i++) {
            float mean = add_row(f, f->gradient + i * f->columns, sums);
            f->row[i] = f->keep * f->row[i] + (1 - f->keep) * mean;
        }
    }
}

/* Columns begin .. end - 1 of all matrices. */
static void add_columns(const factored *f, int64_t begin, int64_t end)
{
    for (int64_t at = begin; at < end; at++) {
        const float *sums = f->sums + at / f->columns * f->blocks * f->columns + at % f->columns;
        double sum = 0;
        for (int64_t block = 0; block < f->blocks; block++)
            sum += sums[block * f->columns];
        float mean = (float)(sum / (double)f->rows);
        f->column[at] = f->keep * f->column[at] + (1 - f->keep) * mean;
    }
}

/* Computes u for rows begin .. end - 1 of all matrices. Takes two roots, one after the other: if a
 * row and a column of gradients are zero, v is about epsilon_1 squared, below float32's range.
 * Keras's u is then not a number. */
static void divide_rows(const factored *f, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const float *column = f->column + i / f->rows * f->columns;
        float *g = f->gradient + i * f->columns;
        float scale = f->scale / (sqrtf(f->row[i]) / sqrtf(f->mean[i / f->rows]));
        for (int64_t j = 0; j < f->columns; j++)
            g[j] = g[j] * scale / sqrtf(column[j]);
    }
}

static void divide_matrices(factored *f, const et_rule_chunk *chunk)
{
    bool much = chunk->count >= ET_GRAIN;
    f->gradient = chunk->gradient;
    f->row = chunk->slot[ROWS];
    f->column = chunk->slot[COLUMNS];
    f->sums = chunk->scratch;
    f->mean = f->sums + f->matrices * f->blocks * f->columns;
    et_assert(f->row && f->column && f->sums);
    ET_PARALLEL(much, f->matrices * f->blocks, 1, add_blocks, f);
    ET_PARALLEL(much, f->matrices * f->columns, 64, add_columns, f);
    for (int64_t matrix = 0; matrix < f->matrices; matrix++) {
        double sum = 0;
        for (int64_t i = 0; i < f->rows; i++)
            sum += f->row[matrix * f->rows + i];
        f->mean[matrix] = (float)(sum / (double)f->rows);
    }
    ET_PARALLEL(much, f->matrices * f->rows, 1, divide_rows, f);
}

/* ---- vectors and the update ---- */

static void divide_elements(const et_rule_chunk *chunk, float keep, float epsilon)
{
    float *v = chunk->slot[ELEMENTS], *g = chunk->gradient;
    et_assert(v);
    for (int64_t i = 0; i < chunk->count; i++) {
        float x = g[i] * chunk->gradient_scale;
        v[i] = keep * v[i] + (1 - keep) * (x * x + epsilon);
        g[i] = x / sqrtf(v[i]);
    }
}

static double rms(const et_kernels *kernels, const float *x, int64_t count)
{
    return sqrt(kernels->sum_of_squares(x, count) / (double)count);
}

static void update(const void *options, const et_rule_step *step, const et_rule_chunk *chunk)
{
    const et_adafactor_keras *o = options;
    double keep = 1 - pow((double)step->slot_updates + 1, o->beta_2_decay);
    double rate = chunk->rate, size = rms(step->kernels, chunk->weight, chunk->count);
    if (o->relative_step)
        rate = fmin(rate, 1 / sqrt((double)step->iterations + 1));
    if (chunk->shape->rank < 2) {
        divide_elements(chunk, (float)keep, (float)o->epsilon_1);
    } else {
        factored f = cut(*chunk->shape);
        f.scale = chunk->gradient_scale;
        f.epsilon = (float)o->epsilon_1;
        f.keep = (float)keep;
        divide_matrices(&f, chunk);
    }
    double length = rms(step->kernels, chunk->gradient, chunk->count);
    et_rule_move(step, chunk, rate * fmax(o->epsilon_2, size) / fmax(1, length / o->clip_threshold),
                 0);
}

const et_optimizer_rule et_rule_adafactor_keras = { ET_RULE(adafactor_keras), .cut = ET_RULE_WHOLE,
                                                    .writes = true,           .slots = slots,
                                                    .scratch = scratch,       .update = update };
