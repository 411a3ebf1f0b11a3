/* What commands print with --json: one object on standard output, numbers in full. Its keys are
 * part of what a version keeps; new ones may come.
 *
 *     evaluate       {"checkpoint": PATH, "step": N, "values": {NAME: NUMBER, ...}}
 *     score          {"values": {...}, "signatures": {NAME: TEXT, ...}}
 *     list           {"experiments": [{"name": ..., "help": ...}, ...]}
 *     list NAME      {"experiment": NAME, "settings": [{"name": PATH, "value": ..., "help": TEXT,
 *                    "range": TEXT}, ...]}
 *     runs           {"runs": [{"run": PATH, "state": TEXT, "step": N, "steps": N,
 *                    "best": {"metric": NAME, "value": NUMBER, "step": N}, "seconds": NUMBER,
 *                    "parameters": N, "settings": {PATH: TEXT, ...}}, ...]}; what is not known is
 *                    not there
 *     compare        {"runs": [...], "settings": {PATH: [TEXT, ...]}, "metrics": {NAME: [{"last",
 *                    "median", "best", "best_step"}, ...]}}, in the order of the runs
 *     inspect        {"run": ..., "file": PATH, "blocks": [...], "sound": BOOL, ...}; of several
 *                    {"inspected": [...]}
 *     average        {"output": PATH, "checkpoints": [PATH, ...], "averaged_weights": BOOL}
 */
#ifndef ETUDE_COMMAND_RESULTS_H
#define ETUDE_COMMAND_RESULTS_H

#include <etude/value.h>

/* Rows of a table of options. */
#define ET_OPTION_JSON(type, member)                                                               \
    ET_OPTION_FLAG(type, member, "json", "print the results as a JSON object")

/* Flushed. ET_ENOMEM also where it is not whole. */
int et_results_print(const et_value *results, et_error *error);

#endif
