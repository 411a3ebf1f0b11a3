/* Modules. Attributes are kept sorted. A walk goes as in TensorFlow: all attributes of a module,
 * then, depth first, each module that was first found among them. A stack holds the waiting
 * modules, so any depth works. */
#include <etude/module.h>

#include <ctype.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/strbuf.h"
#include "base/vector.h"
#include "engine/graph/graph.h"

typedef struct attribute {
    char *name;           /* owned */
    et_params *params;    /* NULL: module is set */
    int index;            /* -1: by prefix */
    char *prefix;         /* owned; NULL: by index */
    et_module *submodule; /* borrowed, as params */
} attribute;

struct et_module {
    char *name, *scope;    /* owned */
    attribute *attributes; /* [count], by name; of one name in order of adding */
    size_t count, capacity;
    et_module **modules; /* answers: this one first */
    size_t module_count, module_capacity;
    et_module **waiting; /* of a walk: the next one last */
    size_t waiting_count, waiting_capacity;
    et_module_variable *variables;
    size_t variable_count, variable_capacity;
};

/* ---- names ---- */

/* '_' before a capital that follows a small letter or a digit, or that a small letter follows. */
static char *to_snake(const char *camel)
{
    et_strbuf snake = ET_STRBUF_INIT;
    for (size_t i = 0; camel[i]; i++) {
        unsigned char c = (unsigned char)camel[i];
        unsigned char before = i ? (unsigned char)camel[i - 1] : 0;
        unsigned char after = (unsigned char)camel[i + 1];
        if (isupper(c) && i && (islower(before) || isdigit(before) || islower(after)))
            et_strbuf_append_char(&snake, '_');
        et_strbuf_append_char(&snake, (char)tolower(c));
    }
    return et_strbuf_detach(&snake);
}

static bool is_name(const char *text)
{
    if (!isalpha((unsigned char)*text) && *text != '_')
        return false;
    while (isalnum((unsigned char)*text) || *text == '_')
        text++;
    return !*text;
}

static int make_names(et_module *m, const char *class_name, const char *name,
                      const et_module *within, et_error *error)
{
    et_strbuf scope = ET_STRBUF_INIT;
    m->name = name ? et_strdup(name) : to_snake(class_name);
    if (!m->name)
        return et_alloc_failed(error, "a module");
    if (!is_name(m->name))
        return et_fail(error, ET_ECONFIG,
                       "'%s' is not a valid module name: a letter or '_', then letters, digits "
                       "and '_'",
                       m->name);
    if (within)
        et_strbuf_printf(&scope, "%s/", within->scope);
    et_strbuf_append(&scope, m->name);
    m->scope = et_strbuf_detach(&scope);
    return m->scope ? ET_OK : et_alloc_failed(error, "a module");
}

int et_module_new(et_module **out, const char *class_name, const char *name,
                  const et_module *within, et_error *error)
{
    *out = NULL;
    if (!name && (!class_name || !*class_name))
        return et_fail(error, ET_ECONFIG, "a module has neither a name nor a class name");
    et_module *m;
    if (ET_ALLOC_ZERO(m, 1, "a module", error))
        return ET_ENOMEM;
    int status = make_names(m, class_name, name, within, error);
    if (status)
        et_module_free(m);
    else
        *out = m;
    return status;
}

static void release_attribute(attribute *a)
{
    et_free(a->name);
    et_free(a->prefix);
}

void et_module_free(et_module *module)
{
    if (!module)
        return;
    for (size_t i = 0; i < module->count; i++)
        release_attribute(&module->attributes[i]);
    et_free(module->attributes);
    et_free(module->modules);
    et_free(module->waiting);
    et_free(module->variables);
    et_free(module->name);
    et_free(module->scope);
    et_free(module);
}

const char *et_module_name(const et_module *module)
{
    return module->name;
}

const char *et_module_scope_name(const et_module *module)
{
    return module->scope;
}

et_scope *et_module_name_scope(const et_module *module, et_scope *scope)
{
    return et_in(et_graph_scope(et_scope_graph(scope)), module->scope);
}

void et_module_with_name_scope(const et_module *module, et_scope *scope, et_build_fn *method,
                               void *payload)
{
    et_scope *inner = et_module_name_scope(module, scope), *before = et_scope_enter(inner);
    method(inner, payload);
    et_scope_enter(before);
}

/* ---- attributes ---- */

/* Adopts a.prefix, also on failure. */
static int add(et_module *m, const char *name, attribute a, et_error *error)
{
    int status = name && *name ? ET_OK : et_fail(error, ET_EUSAGE, "an attribute has no name");
    a.name = status ? NULL : et_strdup(name);
    if (!a.name || !ET_VECTOR_GROW(m->attributes, m->capacity, m->count + 1)) {
        release_attribute(&a);
        return status ? status : et_alloc_failed(error, "an attribute");
    }
    attribute *all = m->attributes;
    size_t at = m->count++;
    for (; at > 0 && strcmp(all[at - 1].name, name) > 0; at--)
        all[at] = all[at - 1];
    all[at] = a;
    return ET_OK;
}

int et_module_add_param(et_module *module, const char *attribute_name, et_params *params, int index,
                        et_error *error)
{
    if (!params || index < 0 || index >= et_params_count(params))
        return et_fail(error, ET_EUSAGE, "%s of %s: parameter %d does not exist", attribute_name,
                       module->name, index);
    attribute a = { .params = params, .index = index };
    return add(module, attribute_name, a, error);
}

int et_module_add_params(et_module *module, const char *attribute_name, et_params *params,
                         const char *prefix, et_error *error)
{
    if (!params || !prefix)
        return et_fail(error, ET_EUSAGE, "%s of %s: the store or the prefix is NULL",
                       attribute_name, module->name);
    attribute a = { .params = params, .index = -1, .prefix = et_strdup(prefix) };
    return a.prefix ? add(module, attribute_name, a, error)
                    : et_alloc_failed(error, "an attribute");
}

int et_module_add_module(et_module *module, const char *attribute_name, et_module *submodule,
                         et_error *error)
{
    attribute a = { .submodule = submodule };
    return submodule ? add(module, attribute_name, a, error)
                     : et_fail(error, ET_EUSAGE, "%s of %s: the module is NULL", attribute_name,
                               module->name);
}

void et_module_remove(et_module *module, const char *attribute_name)
{
    size_t kept = 0;
    for (size_t i = 0; i < module->count; i++)
        if (strcmp(module->attributes[i].name, attribute_name))
            module->attributes[kept++] = module->attributes[i];
        else
            release_attribute(&module->attributes[i]);
    module->count = kept;
}

/* ---- what there is ---- */

static int note_module(et_module *root, et_module *found, et_error *error)
{
    for (size_t i = 0; i < root->module_count; i++)
        if (root->modules[i] == found)
            return ET_OK;
    if (!ET_VECTOR_APPEND(root->modules, root->module_count, root->module_capacity, found))
        return et_alloc_failed(error, "a list of modules");
    return ET_OK;
}

static int note_variable(et_module *root, et_params *params, int index, et_error *error)
{
    for (size_t i = 0; i < root->variable_count; i++)
        if (root->variables[i].params == params && root->variables[i].index == index)
            return ET_OK;
    if (!ET_VECTOR_APPEND(root->variables, root->variable_count, root->variable_capacity,
                          (et_module_variable){ params, index }))
        return et_alloc_failed(error, "a list of variables");
    return ET_OK;
}

static int walk_attribute(et_module *root, const attribute *a, et_error *error)
{
    if (a->submodule)
        return note_module(root, a->submodule, error);
    if (!a->prefix)
        return note_variable(root, a->params, a->index, error);
    int status = ET_OK;
    for (int i = 0; !status && i < et_params_count(a->params); i++)
        if (!strncmp(et_params_name(a->params, i), a->prefix, strlen(a->prefix)))
            status = note_variable(root, a->params, i, error);
    return status;
}

/* The modules from number first on, which were found last, wait; the first of them is the next. */
static int wait_for(et_module *root, size_t first, et_error *error)
{
    const size_t found = root->module_count - first;
    if (!found)
        return ET_OK;
    if (!ET_VECTOR_GROW(root->waiting, root->waiting_capacity, root->waiting_count + found))
        return et_alloc_failed(error, "a list of modules");
    for (size_t i = root->module_count; i > first; i--)
        root->waiting[root->waiting_count++] = root->modules[i - 1];
    return ET_OK;
}

static int walk(et_module *root, et_error *error)
{
    root->module_count = root->variable_count = root->waiting_count = 0;
    int status = note_module(root, root, error);
    if (!status)
        status = wait_for(root, 0, error);
    while (!status && root->waiting_count) {
        const et_module *next = root->waiting[--root->waiting_count];
        const size_t known = root->module_count;
        for (size_t k = 0; !status && k < next->count; k++)
            status = walk_attribute(root, &next->attributes[k], error);
        if (!status)
            status = wait_for(root, known, error);
    }
    return status;
}

int et_module_variables(et_module *module, const et_module_variable **out, size_t *count,
                        et_error *error)
{
    int status = walk(module, error);
    *out = module->variables;
    *count = status ? 0 : module->variable_count;
    return status;
}

static int some_variables(et_module *m, bool trained, const et_module_variable **out, size_t *count,
                          et_error *error)
{
    int status = et_module_variables(m, out, count, error);
    size_t kept = 0;
    for (size_t i = 0; i < *count; i++)
        if (et_params_is_trained(m->variables[i].params, m->variables[i].index) == trained)
            m->variables[kept++] = m->variables[i];
    *count = kept;
    return status;
}

int et_module_trainable_variables(et_module *module, const et_module_variable **out, size_t *count,
                                  et_error *error)
{
    return some_variables(module, true, out, count, error);
}

int et_module_non_trainable_variables(et_module *module, const et_module_variable **out,
                                      size_t *count, et_error *error)
{
    return some_variables(module, false, out, count, error);
}

int et_module_submodules(et_module *module, et_module *const **out, size_t *count, et_error *error)
{
    int status = walk(module, error);
    *out = status ? NULL : module->modules + 1;
    *count = status ? 0 : module->module_count - 1;
    return status;
}
