/* The runs below a directory, for a page that follows them: keeps their histories (history.h) up to
 * date and prints them as JSON. Reads only.
 *
 *     et_board *board;
 *     et_board_open(&board, program, "runs", &error);
 *     et_board_update(board);              any number of times; repeats no work too soon
 *     et_board_runs(board, &out);
 *     et_board_close(board);
 *
 * A run keeps its number while the board is open. If its log is cut off because the run resumed
 * from a checkpoint, its generation changes, and points that were read before are invalid. One
 * thread. */
#ifndef ETUDE_COMMAND_WEB_BOARD_H
#define ETUDE_COMMAND_WEB_BOARD_H

#include <etude/command.h>

#include "base/text/strbuf.h"

typedef struct et_board et_board;

/* Looks for runs and reads them. No run is no error: there may be one soon. ET_ENOTFOUND: no such
 * directory. */
int et_board_open(et_board **out, const et_program *program, const char *directory,
                  et_error *error);
void et_board_close(et_board *board); /* NULL allowed */

/* What fails is kept with the run that it is of, and tried again. */
void et_board_update(et_board *board);
size_t et_board_count(const et_board *board);

/* {"directory", "now", "runs": [{"id", "name", "kind", "state", "step", "steps", "seconds",
 * "generation", "points", "last", "best": {"series", "metric", "value", "step", "lower"}, "fault"},
 * ...]}; step -1, steps 0, last null, kind, best and fault missing: not known. kind: the
 * experiment's name before the slash. points: how many it has in all. */
void et_board_runs(const et_board *board, et_strbuf *out);

/* New points. asked is {"runs": [{"id", "generation", "have": [COUNT, ...]}, ...]} with the number
 * of points that the page has of each series. The result: {"runs": [{"id", "generation", "series":
 * [{"at", "name", "lower", "repeats", "points": [[STEP, WALL, VALUE], ...]}, ...]}, ...], "more":
 * whether to ask again at once}. lower: whether lower values are better. repeats: an earlier series
 * has the same numbers (et_history_repeats), else missing. For another generation all points are
 * sent. ET_EFORMAT: asked has another form; ET_EDATA: no such run. */
int et_board_points(const et_board *board, const et_value *asked, et_strbuf *out, et_error *error);

/* {"id", "name", "path", "parameters", "settings": {...}, "sessions": [...], "log": [LINE, ...],
 * "warnings": [LINE, ...], "samples": [NAME, ...]}: of long lists only the ends. ET_EDATA: no such
 * run. */
int et_board_run(const et_board *board, int64_t id, et_strbuf *out, et_error *error);

/* The text of one of a run's samples, at most this many bytes. ET_EDATA: no sample has this
 * name. */
#define ET_BOARD_SAMPLE_MAX ((size_t)256 << 10)
int et_board_sample(const et_board *board, int64_t id, const char *name, et_strbuf *out,
                    et_error *error);

#endif
