/* Groups, for the library, beyond <etude/group.h>. */
#ifndef ETUDE_ENGINE_TENSOR_GROUP_H
#define ETUDE_ENGINE_TENSOR_GROUP_H

#include <etude/group.h>

/* A group by the caller's own function, which is called once for each parameter. */
typedef bool et_group_fn(const et_params *params, int index, void *payload);
int et_group_choose(et_group **out, et_params *params, et_group_fn *chosen, void *payload,
                    et_error *error);

et_params *et_group_params(const et_group *group);

/* Elements of the flat arrays in all ranges together. */
int64_t et_group_size(const et_group *group);

#endif
