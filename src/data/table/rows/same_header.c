
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "data/table/rows/rows.h"
#include "data/table/schema/number.h"

et_column_name et_column_numbered(int column)
{
    et_column_name name;
    snprintf(name.text, sizeof name.text, "column_%d", column + 1);
    return name;
}

/* Names that a message lists. */
#define NAMES_SHOWN 12

#define NAME_MAX_BYTES 4096 /* of a cell that may be a name */

/* text [length] in small letters, terminated. */
static void fold(char *to, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        to[i] = (char)tolower((unsigned char)text[i]);
    to[length] = 0;
}

/* Maps keep no copies of names; of equal ones the first counts. */
static bool put(et_map *map, const char *name, int position)
{
    int64_t before;
    return name && (et_map_get(map, name, &before) || et_map_put(map, name, position));
}

/* The comparison of headers ignores the case of letters and columns without a name. */
static bool put_folded(et_same_header *self, const et_cell *cell, int position)
{
    if (!cell->text || !cell->length)
        return true;
    char *folded = et_arena_alloc(&self->arena, cell->length + 1);
    if (folded)
        fold(folded, cell->text, cell->length);
    return put(&self->folded, folded, position);
}

static const char *name_of(const et_csv_row *row, int i, et_arena *arena)
{
    const et_cell *cell = &row->cell[i];
    return cell->text && cell->length
               ? et_arena_printf(arena, "%.*s", (int)cell->length, cell->text)
               : et_arena_strdup(arena, et_column_numbered(i).text);
}

int et_same_header_begin(et_same_header *self, const char *path, const et_csv_row *header,
                         et_error *error)
{
    const size_t count = (size_t)header->count;
    bool kept = true;
    *self = (et_same_header)ET_SAME_HEADER_INIT;
    self->path = path;
    self->count = header->count;
    self->name = et_arena_array(&self->arena, count, sizeof *self->name);
    for (int i = 0; self->name && i < header->count && kept; i++) {
        self->name[i] = name_of(header, i, &self->arena);
        kept = put(&self->indices, self->name[i], i) && put_folded(self, &header->cell[i], i);
    }
    if (self->name && kept)
        return ET_OK;
    et_same_header_release(self);
    return et_alloc_failed(error, count * sizeof *self->name, "a header");
}

void et_same_header_release(et_same_header *self)
{
    et_map_release(&self->indices);
    et_map_release(&self->folded);
    et_arena_release(&self->arena);
    *self = (et_same_header)ET_SAME_HEADER_INIT;
}

/* ---- whether it is one ---- */

static bool is_name(const void *payload, const char *text, size_t length)
{
    const et_same_header *self = payload;
    char folded[NAME_MAX_BYTES];
    int64_t position;
    if (length >= sizeof folded)
        return false;
    fold(folded, text, length);
    return et_map_get(&self->folded, folded, &position);
}

bool et_same_header_is(const et_same_header *self, const et_csv_row *first)
{
    int names = 0, numbers = 0;
    for (int i = 0; i < first->count; i++) {
        const et_cell *cell = &first->cell[i];
        double number;
        if (!cell->text)
            continue;
        names += is_name(self, cell->text, cell->length);
        numbers += et_number_parse(&number, cell->text, cell->length) != ET_NUMBER_NONE;
    }
    const int half = first->count < self->count ? first->count : self->count;
    return names && (2 * names >= half || !numbers);
}

et_csv_known et_same_header_known(const et_same_header *self, char delimiter)
{
    return (et_csv_known){ delimiter, self->count, self->count, is_name, self };
}

/* ---- where its columns are ---- */

/* A list of names for a message. */
typedef struct names {
    et_strbuf text;
    int count;
} names;

static void add_name(names *to, const char *name)
{
    if (to->count++ < NAMES_SHOWN)
        et_strbuf_printf(&to->text, "%s%.60s", to->text.length ? ", " : "", name);
}

static void end_names(names *to)
{
    if (to->count > NAMES_SHOWN)
        et_strbuf_printf(&to->text, ", and %d more", to->count - NAMES_SHOWN);
}

int et_same_header_find(const et_same_header *self, int *position, const char *path,
                        const et_csv_row *header, et_error *error)
{
    names lacks = { ET_STRBUF_INIT, 0 }, adds = { ET_STRBUF_INIT, 0 };
    /* Fills `position`, -1 for a missing column, and lists names that the first file does not have.
     */
    et_arena arena = ET_ARENA_INIT;
    int status = ET_OK;
    for (int i = 0; i < self->count; i++)
        position[i] = -1;
    for (int i = 0; i < header->count && !status; i++) {
        const char *name = name_of(header, i, &arena);
        int64_t at;
        if (!name)
            status = et_alloc_failed(error, 64, "a header");
        else if (!et_map_get(&self->indices, name, &at))
            add_name(&adds, name);
        else if (position[at] >= 0)
            status = et_fail(error, ET_EDATA,
                             "%s:%lld: columns %d and %d are both called \"%.60s\": rename one",
                             path, (long long)header->line, position[at] + 1, i + 1, name);
        else
            position[at] = i;
    }
    et_arena_release(&arena);
    for (int i = 0; i < self->count && !status; i++)
        if (position[i] < 0)
            add_name(&lacks, self->name[i]);
    if (!status && (lacks.count || adds.count)) {
        end_names(&lacks);
        end_names(&adds);
        if (lacks.text.failed || adds.text.failed)
            status = et_alloc_failed(error, lacks.text.length + adds.text.length, "a header");
        else
            status = et_fail(error, ET_EDATA,
                             "%s:%lld: the header differs from that of %s%s%s%s%s: give all files "
                             "the same columns",
                             path, (long long)header->line, self->path,
                             lacks.count ? "; this file lacks " : "", et_strbuf_text(&lacks.text),
                             adds.count ? "; this file also has " : "", et_strbuf_text(&adds.text));
    }
    et_strbuf_release(&lacks.text);
    et_strbuf_release(&adds.text);
    return status;
}

int et_same_header_absent(const et_same_header *self, const char *path, int64_t line,
                          et_error *error)
{
    return et_fail(error, ET_EDATA,
                   "%s:%lld: the file has no header, and %s has its columns in another order than "
                   "the schema: give all files a header",
                   path, (long long)line, self->path);
}
