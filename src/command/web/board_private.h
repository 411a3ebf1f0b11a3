/* The board, for its own files: board.c (finding runs and their news), board_points.c (all runs,
 * their points), board_run.c (one run). */
#ifndef ETUDE_COMMAND_WEB_BOARD_PRIVATE_H
#define ETUDE_COMMAND_WEB_BOARD_PRIVATE_H

#include "command/runs/history.h"
#include "command/web/board.h"

typedef struct et_board_item {
    char *path;          /* as it was found by the search; owned */
    const char *name;    /* in path: the part after the board's directory */
    et_history *history; /* owned; NULL: it could not be read yet */
    int64_t generation;
    char *fault; /* present fault of its files; owned; NULL: none */
} et_board_item;

struct et_board {
    const et_program *program;
    char *directory;      /* owned */
    char *root;           /* the same without links: paths elsewhere are not shown; malloc's */
    et_board_item *items; /* [count] by number; owned */
    size_t count, capacity;
    double searched, updated; /* when, of et_clock_monotonic; 0: never */
};

/* NULL: no run has that number, or it could not be read. */
const et_board_item *et_board_find(const et_board *board, int64_t id);

#endif
