/* Rows without a label, of a loss that a program makes of ops. */
#ifndef ETUDE_ENGINE_GRAPH_LABELS_H
#define ETUDE_ENGINE_GRAPH_LABELS_H

#include "engine/graph/graph.h"

/* float32 [T, 1]: 1 if a row of node, or a row that the scalar node adds up, has a label, else 0.
 * NULL: node depends on no labels, or on labels of different numbers of rows. Labels are the
 * integers that et_cross_entropy and et_labelled read. They are also the integers of et_one_hot if
 * its result meets a prediction, which trained parameters make from a batch. With several kinds of
 * labels, a row of a product must have all of them, a row of any other op one of them. *empty: all
 * rows without a label are 0. Poison: no memory. */
et_node *et_labelled_rows(et_node *node, bool *empty);

#endif
