#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "command/runs/run_search.h"
#include "command/web/board_private.h"

/* Seconds between two looks for new runs, and for what runs have logged. */
#define SEARCH_INTERVAL 3
#define UPDATE_INTERVAL 0.4

/* ---- which runs ---- */

static bool is_known(const et_board *board, const char *path)
{
    for (size_t i = 0; i < board->count; i++)
        if (!strcmp(board->items[i].path, path))
            return true;
    return false;
}

/* "a/b" of "runs/a/b"; of the directory itself its own name. */
static const char *name_of(const et_board *board, const char *path)
{
    size_t length = strlen(board->directory);
    while (length && board->directory[length - 1] == '/')
        length--;
    if (strncmp(path, board->directory, length) != 0)
        return path;
    const char *rest = path + length + strspn(path + length, "/");
    return *rest ? rest : et_path_base(path);
}

/* Without memory it is found again later. */
static void add_item(et_board *board, const char *path)
{
    et_board_item *items =
        et_vector_grow(board->items, &board->capacity, board->count + 1, sizeof *items, 16);
    char *copy = items ? et_strdup(path) : NULL;
    board->items = items ? items : board->items;
    if (!copy)
        return;
    board->items[board->count++] =
        (et_board_item){ .path = copy, .name = name_of(board, copy), .generation = 1 };
}

/* An unreadable folder is reported once. */
static int search(et_board *board, et_error *error)
{
    et_run_list found = { .quiet = isfinite(board->searched) };
    int status = et_run_list_add(&found, board->directory, error);
    for (size_t i = 0; i < found.count; i++)
        if (!is_known(board, found.items[i]))
            add_item(board, found.items[i]);
    et_run_list_release(&found);
    return status;
}

static void sane(const et_board *board)
{
    et_assert(board->program && board->directory);
    et_assert(board->count <= board->capacity);
    et_assert(!isnan(board->searched) && !isnan(board->updated));
    for (size_t i = 0; i < board->count; i++) {
        const et_board_item *item = &board->items[i];
        et_assert(item->path && item->name && item->generation >= 1);
        et_assert(item->name >= item->path && item->name <= item->path + strlen(item->path));
        et_assert(!item->history || !strcmp(item->history->model_dir, item->path));
    }
}

/* ---- updates ---- */

static void note_fault(et_board_item *item, int status, const et_error *error)
{
    et_free(item->fault);
    item->fault = status ? et_strdup(error->text) : NULL;
}

static void update_item(const et_board *board, et_board_item *item)
{
    et_error error = ET_ERROR_INIT;
    bool anew = false;
    int status = item->history
                     ? et_history_update(item->history, &anew, &error)
                     : et_history_open_below(&item->history, item->path, board->root, &error);
    item->generation += anew;
    note_fault(item, status, &error);
}

void et_board_update(et_board *board)
{
    double now = et_clock_monotonic();
    sane(board);
    if (now - board->searched >= SEARCH_INTERVAL) {
        search(board, NULL);
        board->searched = et_clock_monotonic();
    }
    if (now - board->updated < UPDATE_INTERVAL)
        return;
    for (size_t i = 0; i < board->count; i++)
        update_item(board, &board->items[i]);
    board->updated = et_clock_monotonic();
}

/* ---- opening ---- */

int et_board_open(et_board **out, const et_program *program, const char *directory, et_error *error)
{
    *out = NULL;
    et_board *board = et_alloc_zero(1, sizeof *board);
    if (!board)
        return et_alloc_failed(error, sizeof *board, "a list of runs");
    board->program = program;
    board->searched = board->updated = -(double)INFINITY;
    board->directory = et_strdup(directory);
    board->root = realpath(directory, NULL);
    int status = board->directory ? search(board, error)
                                  : et_alloc_failed(error, strlen(directory), "a path");
    if (!status && !board->root)
        status = et_fail_errno(error, "%s", directory);
    if (status) {
        et_board_close(board);
        return status;
    }
    et_board_update(board);
    *out = board;
    return ET_OK;
}

void et_board_close(et_board *board)
{
    if (!board)
        return;
    for (size_t i = 0; i < board->count; i++) {
        et_history_close(board->items[i].history);
        et_free(board->items[i].path);
        et_free(board->items[i].fault);
    }
    et_free(board->items);
    free(board->root);
    et_free(board->directory);
    et_free(board);
}

size_t et_board_count(const et_board *board)
{
    return board->count;
}

const et_board_item *et_board_find(const et_board *board, int64_t id)
{
    if (id < 0 || (uint64_t)id >= board->count || !board->items[id].history)
        return NULL;
    return &board->items[id];
}
