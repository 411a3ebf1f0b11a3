/* Printing of commands. Text for people may contain names and values from others, so it is always
 * made plain (base/plain.h). Results for programs are printed unchanged, but plain on a
 * terminal, where people read them. Failures stay in the stream, for ferror and fflush. */
#ifndef ETUDE_COMMAND_PRINT_H
#define ETUDE_COMMAND_PRINT_H

#include <stdio.h>

#include <etude/value.h>

/* For people; \n and \t stay. */
void et_print(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As et_print; on a terminal, long lines are broken between words. */
void et_print_lines(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As et_print_lines, but also breaks lines at 80 columns if `to` is not a terminal. For help. */
void et_print_help(FILE *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As et_print of a text of any length; needs no memory. */
void et_print_text(FILE *to, const char *text);
/* As et_print_lines of a text of any length. */
void et_print_text_lines(FILE *to, const char *text);

/* Results: [length] bytes. */
void et_print_results(FILE *to, const char *bytes, size_t length);
/* Flushes standard output. Returns status if it is a failure, otherwise whether all was written. */
int et_print_end(int status, et_error *error);

/* ---- with --json ----
 *
 * One object on standard output, with full numbers. The keys are stable; new keys may be added.
 *
 *     evaluate       {"checkpoint": PATH, "step": N, "values": {NAME: NUMBER, ...}}
 *     score          {"values": {...}, "signatures": {NAME: TEXT, ...}}; of several outputs, or
 * with
 *                    --significance: {"signatures": {...}, "outputs": [{"output": PATH, "values":
 *                    {...}, "means": {...}, "intervals": {...}, "p_values": {...}}, ...]}
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
 *     tune           {"trials": [{"trial": N, "rung": N, "run": PATH, "metric": NAME, "value":
 *                    NUMBER, "step": N, "seconds": NUMBER, "settings": {NAME: TEXT, ...}}, ...],
 *                    "best": PATH, "use": TEXT, "train": TEXT}, the best trial first
 *     average        {"output": PATH, "checkpoints": [PATH, ...], "averaged_weights": BOOL} */

/* Rows of a table of options. */
#define ET_OPTION_JSON(type, member)                                                               \
    ET_OPTION_FLAG(type, member, "json", "print the results as a JSON object")

/* Prints and flushes. ET_ENOMEM also if results are incomplete. */
int et_print_json(const et_value *results, et_error *error);

#endif
