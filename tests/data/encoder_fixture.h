/* A table that encoders are tried on: x is real, n integer, t discrete, y and z targets, v a
 * vector. Include after cmocka.h. */
#ifndef ETUDE_TESTS_DATA_ENCODER_FIXTURE_H
#define ETUDE_TESTS_DATA_ENCODER_FIXTURE_H

#include <stdio.h>

#include "data/table_fixture.h"

static const char *const schema = "fields:\n"
                                  "  - {name: x, type: real}\n"
                                  "  - {name: n, type: integer}\n"
                                  "  - {name: t, type: discrete}\n"
                                  "  - {name: y, type: discrete}\n"
                                  "  - {name: u, type: discrete, default: b}\n"
                                  "  - {name: w, type: real, nullable: false}\n"
                                  "  - {name: v, type: real, length: 3}\n"
                                  "  - {name: l, type: integer}\n"
                                  "  - {name: k, type: integer, fractions: true}\n";
enum { X, N, T, Y, U, W, V, L = V + 3, K, CELLS };

static const char *const metadata =
    "{\"x\": {\"count\": 500, \"min\": 17, \"max\": 90.5, \"mean\": 41.625, \"std\": 29.4520267,"
    " \"quantiles\": [0.051, 0.2749, 0.4274, 0.5738, 0.7606, 0.9705, 1.2888, 1.6992, 2.4294, "
    "3.7993, 16.641]},"
    " \"n\": {\"min\": 5, \"max\": 5, \"mean\": 5, \"std\": 0, \"entries\": [\"7\", \"-2\", "
    "\"0\"]},"
    " \"t\": {\"entries\": [\"a\", \"b\", \"\\u00fc\"], \"counts\": [5, 2, 1]},"
    " \"u\": {\"vocab\": {\"entries\": [\"a\", \"b\"]}},"
    " \"w\": {\"min\": 0, \"max\": 21, \"mean\": 3, \"std\": 1e-30, \"quantiles\": [0, 0, 0, 0, 0, "
    "0, 0.4, 1, 1.2, 11.1, 21]},"
    " \"v\": {\"min\": 0, \"max\": 255, \"mean\": 100, \"std\": 50},"
    " \"y\": {\"entries\": [\"<=50K\", \">50K\"]},"
    " \"l\": {\"min\": 3, \"max\": 6, \"mean\": 4, \"std\": 1},"
    " \"k\": {\"min\": 3, \"max\": 6, \"mean\": 4, \"std\": 0.5, \"entries\": [\"4\", "
    "\"6\"]}}";

/* An encoder of that table with one feature, whose text follows "- ". */
static inline int open_feature(et_encoder **out, const char *feature, et_error *error)
{
    char text[1000];
    snprintf(text, sizeof text, "features:\n- %s\n", feature);
    return encoder_parse(out, schema, metadata, text, error);
}

#endif
