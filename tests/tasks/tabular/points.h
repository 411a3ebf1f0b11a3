/* A table that a model learns very fast: points of the plane, above or below a line. */
#ifndef ETUDE_TESTS_TASKS_TABULAR_POINTS_H
#define ETUDE_TESTS_TASKS_TABULAR_POINTS_H

#include "base/main.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <etude/model_trainer.h>
#include <etude/table_set.h>

enum { POINTS = 400, POINTS_EVAL = 80 };

static float points_x[POINTS], points_y[POINTS];
static const char *points_side[POINTS];

static inline void make_points(void)
{
    for (int i = 0; i < POINTS; i++) {
        points_x[i] = (float)(i * 37 % 101) / 100;
        points_y[i] = (float)(i * 53 % 97) / 96;
        points_side[i] = points_x[i] + points_y[i] > 1 ? "above" : "below";
    }
}

#define POINTS_FEATURES                                                                            \
    "features:\n"                                                                                  \
    "  - {name: X, type: concat, features: [{name: x, type: scale}, {name: y, type: scale}]}\n"    \
    "  - {name: Y, type: target, fields: side}\n"

static inline void ok(int status, const et_error *error)
{
    if (status)
        fail_msg("%d: %s", status, error->text);
}

/* Two sources in memory, or one, of which train is the name, with features as given. */
static inline et_table_set *open_points_as(const char *train_name, const char *features,
                                           int sources)
{
    et_error error = ET_ERROR_INIT;
    et_feature_set *set;
    et_table_set *out;
    make_points();
    const et_frame_column train[] = { { "x", ET_COLUMN_FLOAT32, points_x },
                                      { "y", ET_COLUMN_FLOAT32, points_y },
                                      { "side", ET_COLUMN_CATEGORY, points_side } };
    enum { FROM = POINTS - POINTS_EVAL };
    const et_frame_column eval[] = { { "x", ET_COLUMN_FLOAT32, points_x + FROM },
                                     { "y", ET_COLUMN_FLOAT32, points_y + FROM },
                                     { "side", ET_COLUMN_CATEGORY, points_side + FROM } };
    static et_frame_column kept[2][3];
    memcpy(kept[0], train, sizeof train);
    memcpy(kept[1], eval, sizeof eval);
    const et_table_set_frame frames[] = { { train_name, { kept[0], 3, FROM } },
                                          { "eval", { kept[1], 3, POINTS_EVAL } } };
    ok(et_feature_set_parse(&set, features, strlen(features), "features", &error), &error);
    const et_table_set_options options = { .features = set };
    ok(et_frame_table_set_open(&out, frames, sources, &options, &error), &error);
    et_feature_set_free(set);
    return out;
}

static inline et_table_set *open_points(const char *features, int sources)
{
    return open_points_as("train", features, sources);
}

#define ARGS(...) ((const char *const[]){ __VA_ARGS__, NULL })

static inline et_arguments *parse_arguments(const et_arguments_class *kind, const char *const *args)
{
    et_error error = ET_ERROR_INIT;
    et_arguments *out;
    ok(et_arguments_parse(&out, kind, args, true, &error), &error);
    return out;
}

/* Rows of CSV without the target: those of the evaluation. */
static char points_text[POINTS_EVAL][64];
static const char *points_rows[POINTS_EVAL];

static inline void write_rows(void)
{
    make_points();
    for (int i = 0; i < POINTS_EVAL; i++) {
        int at = POINTS - POINTS_EVAL + i;
        snprintf(points_text[i], sizeof points_text[i], "%.9g,%.9g", (double)points_x[at],
                 (double)points_y[at]);
        points_rows[i] = points_text[i];
    }
}

/* How many of them a model has right. */
static inline int right_points(et_predictor *p)
{
    et_error error = ET_ERROR_INIT;
    et_predictions *found;
    int right = 0;
    write_rows();
    ok(et_predictor_predict(p, points_rows, POINTS_EVAL, &found, &error), &error);
    for (size_t i = 0; i < POINTS_EVAL; i++)
        right +=
            !strcmp(et_predictions_at(found, i).label, points_side[POINTS - POINTS_EVAL + (int)i]);
    et_predictions_free(found);
    return right;
}

static inline int remove_entry(const char *path, const struct stat *status, int type,
                               struct FTW *walk)
{
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static inline void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

#endif
