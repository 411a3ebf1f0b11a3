/* A table of parameters: name, shape, elements, all tables of one width.
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
#include <string.h>

#include "base/text/format.h"
#include "formats/grid.h"
#include "systems/tfsnippet/loop_private.h"

enum { ALL = -1 }; /* a group's number; the number after the last: values in no group */

/* Length of the group's name with its slash, if name is in the group; else 0. */
static size_t prefix_length(const char *group, const char *name)
{
    size_t length = strlen(group);
    while (length && group[length - 1] == '/')
        length--;
    bool within = length && !strncmp(group, name, length) && name[length] == '/';
    return within ? length + 1 : 0;
}

/* The name as it is in the table; NULL: it is not there. */
static const char *name_in(const et_loop *loop, int group, int param)
{
    const et_loop_options *o = &loop->options;
    const char *name = et_params_name(loop->params, param);
    if (group == ALL)
        return name;
    if (group < o->var_group_count) {
        size_t length = prefix_length(o->var_groups[group], name);
        return length ? name + length : NULL;
    }
    for (int i = 0; i < o->var_group_count; i++)
        if (prefix_length(o->var_groups[i], name))
            return NULL;
    return name;
}

/* "(784, 512)", "(4,)", "()". */
static void print_shape(et_shape shape, char text[128])
{
    int used = snprintf(text, 128, "(");
    for (int i = 0; i < shape.rank; i++)
        used += snprintf(text + used, 128 - (size_t)used, "%s%lld", i ? ", " : "",
                         (long long)shape.size[i]);
    snprintf(text + used, 128 - (size_t)used, shape.rank == 1 ? ",)" : ")");
}

typedef struct table {
    const char *title;
    int64_t elements;
    et_grid grid; /* name, shape, elements; nothing: no parameter is of the group */
} table;

static table table_of(const et_loop *loop, int group)
{
    const et_loop_options *o = &loop->options;
    table t = { .title = group == ALL                 ? "Trainable Parameters"
                         : group < o->var_group_count ? o->var_groups[group]
                                                      : "Other Parameters",
                .grid = { .columns = 3, .headless = true, .left = 2 } };
    for (int i = 0; i < et_group_count(loop->group); i++) {
        const int param = et_group_param(loop->group, i);
        const char *name = name_in(loop, group, param);
        char text[128];
        if (!name)
            continue;
        const et_shape shape = et_params_shape(loop->params, param);
        t.elements += et_shape_count(shape);
        print_shape(shape, text);
        const et_format elements = et_format_count(et_shape_count(shape));
        et_grid_add_row(&t.grid, (const char *const[]){ name, text, elements.text });
    }
    return t;
}

/* At least a blank between the title and what follows it. */
static int title_width(const table *t)
{
    return (int)(strlen(t->title) + strlen(et_format_count(t->elements).text) +
                 sizeof " ( in total)" - 1);
}

static int width_of(const table *t)
{
    const int title = title_width(t), rows = (int)et_grid_width(&t->grid);
    return rows > title ? rows : title;
}

static void append_title(const table *t, char rule, int width, et_strbuf *out)
{
    et_strbuf_append(out, t->title);
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
static void append_groups(const et_loop *loop, const table *all, et_strbuf *out)
{
    const int groups = loop->options.var_group_count + 1;
    int width = title_width(all);
    const char *between = "";
    for (int i = 0; i < groups; i++) {
        table t = table_of(loop, i);
        width = t.grid.count && width_of(&t) > width ? width_of(&t) : width;
        et_grid_release(&t.grid);
    }
    append_title(all, '=', width, out);
    for (int i = 0; i < groups; i++) {
        table t = table_of(loop, i);
        if (t.grid.count) {
            et_strbuf_append(out, between);
            append_table(&t, width, out);
            between = "\n";
        }
        et_grid_release(&t.grid);
    }
}

/* Groups that nothing is in make no tables. */
void et_loop_print_table(const et_loop *loop, et_strbuf *out)
{
    table all = table_of(loop, ALL), others = table_of(loop, loop->options.var_group_count);
    out->failed |= all.grid.failed || others.grid.failed;
    if (others.grid.count < all.grid.count)
        append_groups(loop, &all, out);
    else
        append_table(&all, width_of(&all), out);
    et_grid_release(&all.grid);
    et_grid_release(&others.grid);
}
