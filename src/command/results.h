/* Results of commands with --json: one object on standard output, with full numbers. The keys are
 * stable; new keys may be added.
 *
 *     evaluate       {"checkpoint": PATH, "step": N, "values": {NAME: NUMBER, ...}}
 *     score          {"values": {...}, "signatures": {NAME: TEXT, ...}}
 *     list           {"experiments": [{"name": ..., "help": ...}, ...]}
 *     list NAME      {"experiment": NAME, "settings": [{"name": PATH, "value": ..., "help": TEXT,
 *                    "range": TEXT}, ...]}
 *     runs           {"runs": [{"run": PATH, "state": TEXT, "step": N, "steps": N,
 *                    "best": {"metric": NAME, "value": NUMBER, "step": N}, "seconds": NUMBER,
 *                    "parameters": N, "settings": {PATH: TEXT, ...}}, ...]}, without unknown values
 *     compare        {"runs": [...], "settings": {PATH: [TEXT, ...]}, "metrics": {NAME: [{"last",
 *                    "median", "best", "best_step"}, ...]}}, in the order of the runs
 *     inspect        {"run": ..., "file": PATH, "blocks": [...], "sound": BOOL, ...}; several files
 *                    or runs: {"inspected": [...]}
 *     average        {"output": PATH, "checkpoints": [PATH, ...], "averaged_weights": BOOL}
 */
#ifndef ETUDE_COMMAND_RESULTS_H
#define ETUDE_COMMAND_RESULTS_H

#include <etude/value.h>

/* Rows of a table of options. */
#define ET_OPTION_JSON(type, member)                                                               \
    ET_OPTION_FLAG(type, member, "json", "print the results as a JSON object")

/* Prints and flushes. ET_ENOMEM also if results are incomplete. */
int et_results_print(const et_value *results, et_error *error);

#endif
