/* Rows without a label, of a loss that a program makes of ops. */
#ifndef ETUDE_ENGINE_GRAPH_LABELS_H
#define ETUDE_ENGINE_GRAPH_LABELS_H

#include "engine/graph/graph.h"

/* float32 [T, 1]: 1 where a row of node, or a row that the scalar node adds up, has a label, else
 * 0. NULL: node is made of no labels, or of labels of different numbers of rows. Labels are what
 * et_cross_entropy and et_labelled read; and what et_one_hot reads where its result meets what is
 * predicted: what trained parameters make of a batch. With labels of several kinds a row of a
 * product has all of them, a row of anything else any of them. *empty: no row without a label is
 * other than 0. Poison: memory is short. */
et_node *et_labelled_rows(et_node *node, bool *empty);

#endif
