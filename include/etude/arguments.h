/* Arguments of a training program (TensorFX's ModelArguments). A table of flags (options.h) gives
 * the defaults, the parser, its messages and its help. A program adds flags with its own class,
 * whose struct begins with et_arguments:
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
 * A flag has the name of its field with "-" for "_"; both spellings work: `--batch-size 128`,
 * `--batch-size=128`. The parser takes the value literally, not as YAML, so wildcards need no YAML
 * quotes. */
#ifndef ETUDE_ARGUMENTS_H
#define ETUDE_ARGUMENTS_H

#include <etude/options.h>

typedef struct et_arguments et_arguments;
typedef struct et_argument_parser et_argument_parser;

/* TensorFX's log levels. The order is that of the choices FATAL to DEBUG. */
enum { ET_LEVEL_FATAL, ET_LEVEL_ERROR, ET_LEVEL_WARN, ET_LEVEL_INFO, ET_LEVEL_DEBUG };
ET_DATA const char *const et_level_names[]; /* ended by NULL */

#define ET_UNITS_NONE (-1) /* the value of a missing item of an indexed flag with this default */

typedef struct et_arguments_class {
    const char *name;                      /* of the program, shown in help */
    const struct et_arguments_class *base; /* the class that this class extends; NULL:
                                              et_model_arguments */
    size_t size;                           /* of the class's struct, which begins with the struct of
                                              base */
    const et_option *flags;                /* added by this class, ended by ET_OPTION_END; NULL:
                                              none */
    /* Adds flags that are not in `flags`. Optional. */
    int (*init_parser)(et_argument_parser *parser, et_error *error);
    /* Checks and completes parsed arguments. Optional; the library calls the method of base before
     * it. ET_EUSAGE: the error names the flag. */
    int (*process)(et_arguments *self, et_error *error);
} et_arguments_class;

/* The class with the flags of every program. A class of NULL means this class. */
ET_DATA const et_arguments_class et_model_arguments;

struct et_arguments {
    const et_arguments_class *ET_CLASS;
    et_arena *arena; /* holds all texts and lists; hooks may use it */
    const char *data_schema, *data_metadata, *data_features; /* paths; NULL: not given */
    const char *data_train, *data_eval; /* files; wildcards and commas allowed; NULL: not given */
    const char *output;                 /* output folder of the job, --output or --job-dir; NULL:
                                           not given */
    int64_t max_steps, batch_size;
    int64_t epochs;                   /* an epoch has ceil(rows / batch_size) steps; 0: no limit */
    int64_t checkpoint_interval_secs; /* 0: only at the end */
    int64_t eval_batch_size;
    int64_t eval_interval_steps; /* 0: a tenth of the job's steps */
    int64_t eval_steps;          /* 0: all data */
    int64_t log_interval_steps;
    int64_t seed;
    int log_level,
        log_level_tensorflow; /* ET_LEVEL_*; log_level_tensorflow is for messages of the library */
    bool log_device_placement;
    bool help;      /* --help was given; the parser ignored all later arguments */
    et_strings raw; /* the arguments as given */
    /* Set by et_arguments_process. */
    int log_threshold, log_threshold_tensorflow; /* TensorFX's numbers: 50, 40, 30, 20, 10 */
};

/* Makes arguments from defaults and kwargs, without processing. kwargs has values by name
 * ("batch_size"), lists for indexed flags; NULL: no values. ET_ECONFIG: an unknown name (the error
 * suggests the nearest), or a value out of range. */
ET_API int et_arguments_create(et_arguments **out, const et_arguments_class *kind,
                               const et_value *kwargs, et_error *error);
/* The processed result of an empty command line. */
ET_API int et_arguments_default(et_arguments **out, const et_arguments_class *kind,
                                et_error *error);
/* Parses and processes. args: ended by NULL, without the program's name; NULL: the arguments of the
 * process. parse_job: accept flags of the job too; otherwise they are unknown. ET_EUSAGE. */
ET_API int et_arguments_parse(et_arguments **out, const et_arguments_class *kind,
                              const char *const *args, bool parse_job, et_error *error);
ET_API void et_arguments_free(et_arguments *arguments); /* NULL allowed */

/* Calls the process methods of the classes, first that of the outermost base. */
ET_API int et_arguments_process(et_arguments *arguments, et_error *error);

/* ---- the parser ---- */

/* build_parser makes a parser with the flags of a class and its bases. init_parser adds these flags
 * to an existing parser. */
ET_API int et_arguments_build_parser(et_argument_parser **out, const et_arguments_class *kind,
                                     et_error *error);
ET_API int et_arguments_init_parser(const et_arguments_class *kind, et_argument_parser *parser,
                                    et_error *error);
/* An empty parser. name: of the program, shown in help. */
ET_API int et_argument_parser_new(et_argument_parser **out, const char *name, et_error *error);
ET_API void et_argument_parser_free(et_argument_parser *parser); /* NULL allowed */
/* Adds flags with way ET_OPTION_FORM_VALUE or ET_OPTION_FORM_INDEXED. Their members must be in the
 * struct that the parser fills. ET_EUSAGE: a name is taken, or a row cannot be a flag. */
ET_API int et_argument_parser_add(et_argument_parser *parser, const et_option *flags,
                                  et_error *error);
/* Parses into a struct of the parser's class; otherwise as et_arguments_parse. */
ET_API int et_argument_parser_parse(const et_argument_parser *parser, et_arguments *arguments,
                                    const char *const *args, bool parse_job, et_error *error);
/* A help text with the flags by group, one or two lines each, ended by 0. You free the text with
 * et_arguments_free_text. */
ET_API int et_argument_parser_help(const et_argument_parser *parser, char **text, et_error *error);
ET_API int et_arguments_help(const et_arguments_class *kind, char **text, et_error *error);
ET_API void et_arguments_free_text(char *text); /* NULL allowed */

#endif
