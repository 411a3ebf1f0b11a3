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

#include "systems/tfsnippet/loop_private.h"

enum { ALL = -1 }; /* a group's number; that behind the last: what is in none */

typedef struct table {
    const et_loop *loop;
    int group;
    const char *title;
    int rows, name, shape, size; /* widths of columns */
    int64_t elements;
} table;

/* Length of the group's name without and with its slash, where a name is in it; else 0. */
static size_t prefix_length(const char *group, const char *name)
{
    size_t length = strlen(group);
    while (length && group[length - 1] == '/')
        length--;
    bool within = length && !strncmp(group, name, length) && name[length] == '/';
    return within ? length + 1 : 0;
}

/* The name as it stands in the table; NULL: it does not. */
static const char *name_in(const table *t, int param)
{
    const et_loop_options *o = &t->loop->options;
    const char *name = et_params_name(t->loop->params, param);
    if (t->group == ALL)
        return name;
    if (t->group < o->var_group_count) {
        size_t length = prefix_length(o->var_groups[t->group], name);
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

static int larger(int a, size_t b)
{
    return a > (int)b ? a : (int)b;
}

/* One parameter's line. */
typedef struct row {
    const char *name; /* NULL: not of this table */
    int64_t elements;
    char shape[128], size[ET_COUNT_TEXT_MAX];
} row;

static row row_of(const table *t, int i)
{
    const et_loop *loop = t->loop;
    int param = et_group_param(loop->group, i);
    row r = { .name = name_in(t, param) };
    if (!r.name)
        return r;
    r.elements = et_shape_count(et_params_shape(loop->params, param));
    print_shape(et_params_shape(loop->params, param), r.shape);
    et_count_text(r.size, r.elements);
    return r;
}

static void measure(table *t)
{
    for (int i = 0; i < et_group_count(t->loop->group); i++) {
        row r = row_of(t, i);
        if (!r.name)
            continue;
        t->rows++;
        t->elements += r.elements;
        t->name = larger(t->name, strlen(r.name));
        t->shape = larger(t->shape, strlen(r.shape));
        t->size = larger(t->size, strlen(r.size));
    }
}

static table table_of(const et_loop *loop, int group, const char *title)
{
    table t = { .loop = loop, .group = group, .title = title };
    measure(&t);
    return t;
}

static int title_width(const table *t)
{
    char elements[ET_COUNT_TEXT_MAX];
    et_count_text(elements, t->elements);
    return (int)(strlen(t->title) + strlen(elements) + sizeof " ( in total)" - 1);
}

static int width_of(const table *t)
{
    return larger(t->name + t->shape + t->size + 4, (size_t)title_width(t));
}

static void append_rule(et_strbuf *out, char c, int width)
{
    et_strbuf_append_char(out, '\n');
    while (width-- > 0)
        et_strbuf_append_char(out, c);
}

static void append_title(const table *t, char rule, int width, et_strbuf *out)
{
    char elements[ET_COUNT_TEXT_MAX];
    et_count_text(elements, t->elements);
    et_strbuf_printf(out, "%s%*s (%s in total)", t->title, width - title_width(t), "", elements);
    append_rule(out, rule, width);
}

static void append_rows(const table *t, int width, et_strbuf *out)
{
    for (int i = 0; i < et_group_count(t->loop->group); i++) {
        row r = row_of(t, i);
        if (r.name)
            et_strbuf_printf(out, "\n%-*s  %-*s  %*s", width - t->shape - t->size - 4, r.name,
                             t->shape, r.shape, t->size, r.size);
    }
}

/* Every table is as wide as the widest. */
static void append_groups(const et_loop *loop, const table *all, et_strbuf *out)
{
    const et_loop_options *o = &loop->options;
    int width = title_width(all);
    bool first = true;
    for (int i = 0; i <= o->var_group_count; i++) {
        bool others = i == o->var_group_count;
        table t = table_of(loop, i, others ? "Other Parameters" : o->var_groups[i]);
        width = t.rows ? larger(width, (size_t)width_of(&t)) : width;
    }
    append_title(all, '=', width, out);
    for (int i = 0; i <= o->var_group_count; i++) {
        bool others = i == o->var_group_count;
        table t = table_of(loop, i, others ? "Other Parameters" : o->var_groups[i]);
        if (!t.rows)
            continue;
        et_strbuf_append(out, first ? "\n" : "\n\n");
        append_title(&t, '-', width, out);
        append_rows(&t, width, out);
        first = false;
    }
}

/* Groups that nothing is in make no tables. */
void et_loop_print_table(const et_loop *loop, et_strbuf *out)
{
    int count = loop->options.var_group_count;
    table all = table_of(loop, ALL, "Trainable Parameters");
    table others = table_of(loop, count, "Other Parameters");
    if (others.rows < all.rows) {
        append_groups(loop, &all, out);
        return;
    }
    append_title(&all, '-', width_of(&all), out);
    append_rows(&all, width_of(&all), out);
}
