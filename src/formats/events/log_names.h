/* Names in logs, each written only here (tools/check-names). Trainers and evaluators write these
 * names, sinks shorten them, and commands and settings look them up. Names of one kind of task are
 * with the kind.
 *
 *   {"train": {"training_loss": 4.1, "learning_rate": 0.0007, ...}}
 *   {"validation": {"validation_loss": 3.2, "best_step": 2000, ...}} */
#ifndef ETUDE_FORMATS_EVENTS_LOG_NAMES_H
#define ETUDE_FORMATS_EVENTS_LOG_NAMES_H

#include <stddef.h>

/* Dicts of a log; each has a directory for its events. Later measurements have their own lines. */
#define ET_LOGGED_TRAIN      "train"
#define ET_LOGGED_VALIDATION "validation"

/* Prefixes of names of values. The dict of a value has the same information. */
#define ET_LOGGED_OF_TRAINING   "training_"
#define ET_LOGGED_OF_VALIDATION "validation_"

/* The loss of a model, with its name in the pass, and after both of these prefixes. */
#define ET_LOGGED_LOSS            "loss"
#define ET_LOGGED_TRAINING_LOSS   ET_LOGGED_OF_TRAINING ET_LOGGED_LOSS
#define ET_LOGGED_VALIDATION_LOSS ET_LOGGED_OF_VALIDATION ET_LOGGED_LOSS
#define ET_LOGGED_TOTAL_LOSS      "total_loss" /* of several tasks that are trained at once */

/* Numbers in the data of the samples of a validation step. */
#define ET_LOGGED_IDS "unique_ids"

#define ET_LOGGED_LEARNING_RATE "learning_rate"
#define ET_LOGGED_GRADIENT_NORM "gradient_norm"

/* The best so far: "best_loss", its value, and the step that had it. */
#define ET_LOGGED_OF_BEST   "best_"
#define ET_LOGGED_BEST_STEP "best_step"

/* The length of "training_" or "validation_" at the beginning of a longer name; 0: the name begins
 * otherwise. */
size_t et_logged_prefix(const char *name);

/* The name that people read, without such a prefix. Only "validation_loss" keeps it, since training
 * has a loss too. */
const char *et_logged_short(const char *name);

/* The rest after the name of a set or a task: "news/validation_loss", "news|validation_loss"; NULL:
 * name begins otherwise. */
const char *et_logged_below(const char *name, const char *group);

#endif
