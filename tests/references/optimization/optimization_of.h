/* Settings of an optimizer as a dict. Include after references/hyperparams/settings_of.h and
 * formats/files.h. */
#ifndef ETUDE_TESTS_REFERENCES_OPTIMIZATION_OF_H
#define ETUDE_TESTS_REFERENCES_OPTIMIZATION_OF_H

#define CONSTANT "learning_rate: {type: constant, constant: {learning_rate: 0.1}}"

/* The text on the defaults; null is None. */
static inline et_settings read_optimization(const char *text)
{
    et_settings settings;
    assert_ok(et_optimizer_settings(&settings, NULL, arena, error));
    assert_ok(et_settings_override(&settings, text, error));
    return settings;
}

static inline const et_value *optimization_of(const char *text)
{
    const et_settings settings = read_optimization(text);
    return et_settings_dict(&settings, arena);
}

/* Setup and teardown of a group with a directory. */
static inline int begin(void **state)
{
    return make_arena(state) || make_directory(state);
}

static inline int end(void **state)
{
    return free_arena(state) || remove_directory(state);
}

#endif
