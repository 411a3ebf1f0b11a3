/* Arguments of a program that trains: TensorFX's ModelArguments. A table of flags says what there
 * is (options.h); from it come the defaults, the parser, its messages and its help. A program adds
 * flags by a class of its own, whose struct begins with this one:
 *
 *     typedef struct wide_arguments {
 *         et_arguments base;
 *         double dropout;
 *     } wide_arguments;
 *     static const et_option flags[] = {
 *         { .field = ET_FIELD_FLOAT(wide_arguments, dropout, 0, 0, 0.9, "share left out") },
 *         ET_OPTION_END,
 *     };
 *     static const et_arguments_class wide = { "wide", NULL, sizeof(wide_arguments), flags };
 *
 *     if (et_arguments_parse(&arguments, &wide, NULL, true, &error)) ...    the process's own
 *     if (arguments->help) ...                                   et_arguments_help has the text
 *
 *     et_argument_parser_new(&parser, "wide", &error);         another parser, or the class's own
 *     et_argument_parser_add(parser, flags, &error);
 *     et_argument_parser_parse(parser, arguments, NULL, true, &error);
 *     et_argument_parser_help(parser, &text, &error);
 *     et_arguments_free_text(text);
 *     et_argument_parser_free(parser);
 *     et_arguments_free(arguments);
 *
 * A flag is its field's name with "-" for "_" (both are taken): `--batch-size 128`,
 * `--batch-size=128`. Its value is taken as it stands, so wildcards need no quotes of YAML. */
#ifndef ETUDE_ARGUMENTS_H
#define ETUDE_ARGUMENTS_H

#include <etude/options.h>

typedef struct et_arguments et_arguments;
typedef struct et_argument_parser et_argument_parser;

/* TensorFX's log levels, in the order of the choices FATAL to DEBUG. */
enum { ET_LEVEL_FATAL, ET_LEVEL_ERROR, ET_LEVEL_WARN, ET_LEVEL_INFO, ET_LEVEL_DEBUG };
ET_DATA const char *const et_level_names[]; /* ended by NULL */

#define ET_UNITS_NONE (-1) /* in place of a gap of an indexed flag whose default it is */

typedef struct et_arguments_class {
    const char *name;                      /* of the program, in help */
    const struct et_arguments_class *base; /* what it adds to; NULL: et_model_arguments */
    size_t size;                           /* of its struct, which begins with its base's */
    const et_option *flags;                /* its own, ended by ET_OPTION_END; NULL: none */
    /* Adds flags that are in no table. Optional. */
    int (*init_parser)(et_argument_parser *parser, et_error *error);
    /* Makes more of what was parsed. Optional; that of the base has been called before, so none
     * is forgotten. ET_EUSAGE names the flag. */
    int (*process)(et_arguments *self, et_error *error);
} et_arguments_class;

/* The flags of every program; NULL in place of a class means it. */
ET_DATA const et_arguments_class et_model_arguments;

struct et_arguments {
    const et_arguments_class *ET_CLASS;
    et_arena *arena; /* of all texts and lists; hooks may use it */
    const char *data_schema, *data_metadata, *data_features; /* paths; NULL: not given */
    const char *data_train, *data_eval; /* files, with wildcards and commas; NULL: not given */
    const char *output;                 /* of the job, --output or --job-dir; NULL: not given */
    int64_t max_steps, batch_size;
    int64_t epochs;                   /* each of ceil(rows / batch_size) steps; 0: no limit */
    int64_t checkpoint_interval_secs; /* 0: at the end only */
    int64_t eval_batch_size;
    int64_t eval_interval_steps; /* 0: ten times in a job */
    int64_t eval_steps;          /* 0: all of the data */
    int64_t log_interval_steps;
    int64_t seed;
    int log_level,
        log_level_tensorflow; /* ET_LEVEL_*; the second one is of the library's messages */
    bool log_device_placement;
    bool help;      /* --help was given: nothing behind it was looked at */
    et_strings raw; /* the arguments as they were given */
    /* Made by et_arguments_process. */
    int log_threshold, log_threshold_tensorflow; /* TensorFX's numbers: 50, 40, 30, 20, 10 */
};

/* With values by name, "batch_size", in place of defaults; of an indexed flag a list. Not processed
 * yet. kwargs NULL: none. ET_ECONFIG: an unknown name (the nearest is named), a value out of
 * range. */
ET_API int et_arguments_create(et_arguments **out, const et_arguments_class *kind,
                               const et_value *kwargs, et_error *error);
/* What no argument at all gives, processed. */
ET_API int et_arguments_default(et_arguments **out, const et_arguments_class *kind,
                                et_error *error);
/* Parses and processes. args: ended by NULL, without the program's name; NULL: those of the
 * process. parse_job: flags of the job are taken too; else they are unknown. ET_EUSAGE. */
ET_API int et_arguments_parse(et_arguments **out, const et_arguments_class *kind,
                              const char *const *args, bool parse_job, et_error *error);
ET_API void et_arguments_free(et_arguments *arguments); /* NULL allowed */

/* Calls the hooks, the base's first. */
ET_API int et_arguments_process(et_arguments *arguments, et_error *error);

/* ---- the parser ---- */

/* One with the flags of a class, and of its bases; or these added to one that is there. */
ET_API int et_arguments_build_parser(et_argument_parser **out, const et_arguments_class *kind,
                                     et_error *error);
ET_API int et_arguments_init_parser(const et_arguments_class *kind, et_argument_parser *parser,
                                    et_error *error);
/* An empty one. name: of the program, in its help. */
ET_API int et_argument_parser_new(et_argument_parser **out, const char *name, et_error *error);
ET_API void et_argument_parser_free(et_argument_parser *parser); /* NULL allowed */
/* Flags whose members lie in the struct that is parsed into, given by value or by number
 * (ET_OPTION_WAY_VALUE, _INDEXED). ET_EUSAGE: a name twice, or a kind that no flag has. */
ET_API int et_argument_parser_add(et_argument_parser *parser, const et_option *flags,
                                  et_error *error);
/* Into a struct of the class that the parser was made for; as et_arguments_parse. */
ET_API int et_argument_parser_parse(const et_argument_parser *parser, et_arguments *arguments,
                                    const char *const *args, bool parse_job, et_error *error);
/* The flags by group, a line or two each, terminated: yours to free (et_arguments_free_text). */
ET_API int et_argument_parser_help(const et_argument_parser *parser, char **text, et_error *error);
ET_API int et_arguments_help(const et_arguments_class *kind, char **text, et_error *error);
ET_API void et_arguments_free_text(char *text); /* NULL allowed */

#endif
