/* A table of variables: name, shape, elements, all tables of one width.
 *
 *     Trainable Parameters    (407,050 in total)
 *     ==========================================
 *     hidden/                 (401,920 in total)
 *     ------------------------------------------
 *     weight                 (784, 512)  401,408
 *     bias                   (512,)          512
 *
 *     Other Parameters          (5,130 in total)
 *     ------------------------------------------
 *     ... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <etude/loop_log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "engine/tensor/tensor.h"
#include "formats/grid.h"

enum { ALL = -1 }; /* a group's number; the number after the last: variables in no group */

typedef struct summary {
    et_variables_options options;
    et_variable_shape *variables; /* [count], owned, in the order of the table */
    int count;
} summary;

/* Without the slash at its end. */
static size_t group_length(const char *group)
{
    size_t length = strlen(group);
    while (length && group[length - 1] == '/')
        length--;
    return length;
}

/* Length of the group's name with its slash, if name is in the group; else 0. */
static size_t prefix_length(const char *group, const char *name)
{
    const size_t length = group_length(group);
    bool within = length && !strncmp(group, name, length) && name[length] == '/';
    return within ? length + 1 : 0;
}

/* The name as it is in the table; NULL: it is not there. */
static const char *name_in(const et_variables_options *o, int group, const char *name)
{
    et_assert(group >= ALL && group <= o->group_count);
    if (group == ALL)
        return name;
    if (group < o->group_count) {
        size_t length = prefix_length(o->groups[group], name);
        return length ? name + length : NULL;
    }
    for (int i = 0; i < o->group_count; i++)
        if (prefix_length(o->groups[i], name))
            return NULL;
    return name;
}

typedef struct table {
    const char *title;
    int title_length;
    const char *slash; /* after the title of a group */
    int64_t elements;
    et_grid grid; /* name, shape, elements; nothing: no variable is of the group */
} table;

static table table_of(const summary *s, int group)
{
    const et_variables_options *o = &s->options;
    const bool named = group >= 0 && group < o->group_count;
    table t = { .title = group == ALL ? o->title
                         : named      ? o->groups[group]
                                      : o->other_title,
                .slash = named ? "/" : "",
                .grid = { .columns = 3, .headless = true, .left = 2 } };
    t.title_length = (int)(named ? group_length(t.title) : strlen(t.title));
    for (int i = 0; i < s->count; i++) {
        const char *name = name_in(o, group, s->variables[i].name);
        char text[128];
        if (!name)
            continue;
        const et_shape shape = s->variables[i].shape;
        t.elements += et_shape_count(shape);
        int used = snprintf(text, sizeof text, "("); /* "(784, 512)", "(4,)", "()" */
        for (int k = 0; k < shape.rank; k++)
            used += snprintf(text + used, sizeof text - (size_t)used, "%s%lld", k ? ", " : "",
                             (long long)shape.size[k]);
        snprintf(text + used, sizeof text - (size_t)used, shape.rank == 1 ? ",)" : ")");
        const et_format elements = et_format_count(et_shape_count(shape));
        et_grid_add_row(&t.grid, (const char *const[]){ name, text, elements.text });
    }
    return t;
}

/* At least one blank follows the title. */
static int title_width(const table *t)
{
    return t->title_length + (int)(strlen(t->slash) + strlen(et_format_count(t->elements).text) +
                                   sizeof " ( in total)" - 1);
}

static int width_of(const table *t)
{
    const int title = title_width(t), rows = (int)et_grid_width(&t->grid);
    return rows > title ? rows : title;
}

static void append_title(const table *t, char rule, int width, et_strbuf *out)
{
    et_strbuf_printf(out, "%.*s%s", t->title_length, t->title, t->slash);
    et_strbuf_append_blanks(out, width - title_width(t));
    et_strbuf_printf(out, " (%s in total)\n", et_format_count(t->elements).text);
    while (width-- > 0)
        et_strbuf_append_char(out, rule);
    et_strbuf_append_char(out, '\n');
}

static void append_table(table *t, int width, et_strbuf *out)
{
    append_title(t, '-', width, out);
    t->grid.width = (size_t)width;
    et_grid_append(&t->grid, ET_GRID_TEXT, out);
}

/* Every table is as wide as the widest. */
static void append_groups(const summary *s, const table *all, et_strbuf *out)
{
    const int groups = s->options.group_count + 1;
    int width = title_width(all);
    const char *between = "";
    for (int i = 0; i < groups; i++) {
        table t = table_of(s, i);
        width = t.grid.count && width_of(&t) > width ? width_of(&t) : width;
        et_grid_release(&t.grid);
    }
    append_title(all, '=', width, out);
    for (int i = 0; i < groups; i++) {
        table t = table_of(s, i);
        if (t.grid.count) {
            et_strbuf_append(out, between);
            append_table(&t, width, out);
            between = "\n";
        }
        et_grid_release(&t.grid);
    }
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const et_variable_shape *)a)->name, ((const et_variable_shape *)b)->name);
}

static int check(const et_variable_shape *variables, int count, const et_variables_options *o,
                 et_error *error)
{
    if (count < 0 || o->group_count < 0 || (count && !variables) || (o->group_count && !o->groups))
        return et_fail(error, ET_ECONFIG,
                       "%d variables, %d groups: counts must be at least 0, and 0 if the list is "
                       "NULL",
                       count, o->group_count);
    for (int i = 0; i < count; i++)
        if (!variables[i].name || !et_shape_valid(variables[i].shape))
            return et_fail(error, ET_ECONFIG, "variable %d has no %s", i,
                           variables[i].name ? "valid shape" : "name");
    for (int i = 0; i < o->group_count; i++)
        if (!o->groups[i])
            return et_fail(error, ET_ECONFIG, "group %d has no name", i);
    return ET_OK;
}

int et_summarize_variables(const et_variable_shape *variables, int count,
                           const et_variables_options *options, et_loop_print_fn *print,
                           void *payload, et_error *error)
{
    summary s = { .options = options ? *options : (et_variables_options){ 0 }, .count = count };
    et_strbuf out = ET_STRBUF_INIT;
    int status = check(variables, count, &s.options, error);
    if (status)
        return status;
    s.options.title = s.options.title ? s.options.title : "Variables Summary";
    s.options.other_title = s.options.other_title ? s.options.other_title : "Other Variables";
    s.variables = et_alloc((size_t)count + 1, sizeof *s.variables);
    if (!s.variables)
        return et_alloc_failed(error, (size_t)count * sizeof *s.variables, "a table");
    for (int i = 0; i < count; i++)
        s.variables[i] = variables[i];
    if (s.options.sort_by_names)
        qsort(s.variables, (size_t)count, sizeof *s.variables, by_name);
    if (count) {
        table all = table_of(&s, ALL), others = table_of(&s, s.options.group_count);
        out.failed |= all.grid.failed || others.grid.failed;
        if (others.grid.count < all.grid.count)
            append_groups(&s, &all, &out);
        else
            append_table(&all, width_of(&all), &out);
        et_grid_release(&all.grid);
        et_grid_release(&others.grid);
    }
    if (out.length)
        et_strbuf_truncate(&out, out.length - 1);
    if (out.failed)
        status = et_alloc_failed(error, 0, "a table");
    else if (print)
        print(payload, et_strbuf_text(&out));
    else
        printf("%s\n", et_strbuf_text(&out)), fflush(stdout);
    et_strbuf_release(&out);
    et_free(s.variables);
    return status;
}
