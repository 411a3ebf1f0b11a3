/* Rows of files of JSON lines, one after another, as cells. */
#include "data/table/rows/rows.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"

typedef struct object_rows {
    et_rows rows;
    et_json_columns columns;
    et_rows *lines;     /* of the open file; NULL: none */
    size_t file, begun; /* which one it is, and how many were opened */
    et_cell *cells;     /* [cells of the encoder] */
    et_arena arena;     /* of a row */
} object_rows;

bool et_path_is_jsonl(const char *path)
{
    static const char *const endings[] = { ".jsonl", ".ndjson", ".jsonl.gz", ".ndjson.gz" };
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++)
        if (et_path_ends(path, endings[i]))
            return true;
    return false;
}

int et_paths_jsonl(bool *out, const et_strings *paths, et_error *error)
{
    size_t count = 0, other = 0;
    for (size_t i = 0; i < paths->count; i++)
        if (et_path_is_jsonl(paths->items[i]))
            count++;
        else
            other = i;
    *out = count > 0;
    return !count || count == paths->count
               ? ET_OK
               : et_fail(error, ET_EDATA,
                         "%s is not JSON lines, but other files of the table are: give files of "
                         "one format",
                         paths->items[other]);
}

static void object_close(et_rows *rows)
{
    object_rows *self = (object_rows *)rows;
    et_rows_close(self->lines);
    et_arena_release(&self->arena);
    et_free(self->cells);
    et_free(self);
}

static int open_next(object_rows *self, et_error *error)
{
    self->file = self->begun++;
    const et_strings one = { &self->rows.paths.items[self->file], 1 };
    return et_rows_open_jsonl(&self->lines, self->rows.layout, &one, -1, error);
}

static int parse(object_rows *self, et_row *row, et_error *error)
{
    et_arena_release(&self->arena);
    row->file = self->file;
    const int status =
        et_row_parse(self->cells, &self->columns, &row->json, &self->arena, NULL, error);
    row->json = (et_bytes){ NULL, 0 };
    row->cells = self->cells;
    return status ? et_fail_while(error, status, "%s:%lld", self->rows.paths.items[self->file],
                                  (long long)row->number)
                  : ET_OK;
}

static int object_next(et_rows *rows, et_row *row, et_error *error)
{
    object_rows *self = (object_rows *)rows;
    int status = ET_OK;
    while (!status && row->end) {
        if (!self->lines) {
            if (self->begun == rows->paths.count)
                return ET_OK;
            status = open_next(self, error);
        }
        if (!status)
            status = et_rows_next(self->lines, row, error);
        if (!status && row->end) {
            et_rows_close(self->lines);
            self->lines = NULL;
        }
    }
    return status ? status : parse(self, row, error);
}

static const et_rows_class object_rows_class = { "objects", object_next, NULL, object_close };

int et_rows_open_objects(et_rows **out, const et_strings *paths, const et_json_columns *columns,
                         et_error *error)
{
    et_assert(paths->count > 0);
    const size_t cells = (size_t)columns->layout->count;
    object_rows *self = et_alloc_zero(1, sizeof *self);
    if (!self)
        return et_alloc_failed(error, sizeof *self, "rows");
    self->rows = (et_rows){ &object_rows_class, columns->layout, *paths };
    self->columns = *columns;
    self->arena = (et_arena)ET_ARENA_INIT;
    self->cells = et_alloc_zero(cells, sizeof *self->cells);
    if (!self->cells) {
        object_close(&self->rows);
        return et_alloc_failed(error, cells * sizeof *self->cells, "rows");
    }
    *out = &self->rows;
    return ET_OK;
}

int et_rows_open_files(et_rows **out, const et_row_layout *layout, const et_strings *paths,
                       const et_rows_options *options, const et_metadata *metadata, et_error *error)
{
    const et_json_columns columns = { layout, metadata, options->csv.missing };
    bool jsonl;
    int status = et_paths_jsonl(&jsonl, paths, error);
    if (status)
        return status;
    return jsonl ? et_rows_open_objects(out, paths, &columns, error)
                 : et_rows_open_csv(out, layout, paths, options, error);
}
