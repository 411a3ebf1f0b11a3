/* A view of a parameter store for one of several models in it. Names that a model declares and
 * finds through the view are its own, except shared names. The view finds, and et_params_elements
 * counts, only parameters that were declared through it. Indices, values and everything else are
 * the store's, also the names from et_params_name.
 *
 *     et_params_naming naming = { "digits/", shares, patterns };
 *     et_params_view_new(&view, params, &naming, &error);
 *     et_params_declare(view, "head/weight", shape, init, &i, &error);     digits/head/weight in it
 *     et_params_free(view);                             the store stays; free it after its views
 */
#ifndef ETUDE_ENGINE_TENSOR_PARAMS_VIEW_H
#define ETUDE_ENGINE_TENSOR_PARAMS_VIEW_H

#include <etude/params.h>

typedef struct et_params_naming {
    const char *prefix; /* of the view's own parameters; borrowed, as payload */
    bool (*shares)(const void *payload, const char *name);
    const void *payload;
} et_params_naming;

/* of is no view. */
int et_params_view_new(et_params **out, et_params *of, const et_params_naming *naming,
                       et_error *error);

#endif
