/* The files that `scaffold` writes, from command/tabular/scaffold/; @NAME@ in them is the project's
 * name. CMake makes the array from the files. */
#ifndef ETUDE_COMMAND_TABULAR_SCAFFOLD_FILES_H
#define ETUDE_COMMAND_TABULAR_SCAFFOLD_FILES_H

typedef struct et_scaffold_file {
    const char *model; /* which project has it, "custom"; NULL: all */
    const char *name;  /* name below the project's directory */
    const char *text;  /* terminated */
} et_scaffold_file;

/* Of a project, at most. */
#define ET_SCAFFOLD_FILES_MAX 8

extern const et_scaffold_file et_scaffold_files[]; /* ended by a row without a name */

#endif
