/* etude scaffold: a project of one C file that trains and predicts with the installed library. */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/file.h"
#include "base/text/strbuf.h"
#include "command/options/options.h"
#include "command/print.h"
#include "command/tabular/scaffold_files.h"
#include "command/tabular/tabular_commands.h"

#define NAME_MAX_LENGTH 64

typedef struct scaffold_options {
    const char *name, *directory, *model;
    bool help;
} scaffold_options;

static const char *const models[] = { "custom", "feed_forward", NULL };

static const et_option options[] = {
    ET_OPTION_TEXT(scaffold_options, name, "name", "NAME",
                   "name of the project: letters, digits and _", .missing = "the project"),
    ET_OPTION_TEXT(scaffold_options, directory, "dir", "DIR",
                   "parent directory of the project (default: the current one)",
                   .field.default_string = "."),
    ET_OPTION_TEXT(scaffold_options, model, "model", NULL,
                   "custom (default): a model with your own layers", .field.choices = models,
                   .field.default_string = "custom"),
    ET_OPTION_END
};

const et_usage et_usage_scaffold = {
    options, sizeof(scaffold_options),
    "Writes a C project that trains and predicts with the installed library.", "--name iris"
};

/* It becomes a name of C, of CMake and of a directory. */
static bool is_name(const char *name)
{
    size_t length = strlen(name);
    if (!length || length > NAME_MAX_LENGTH || !isalpha((unsigned char)name[0]))
        return false;
    for (size_t i = 0; i < length; i++)
        if (!isalnum((unsigned char)name[i]) && name[i] != '_')
            return false;
    return true;
}

/* A project that somebody has worked on is not written over. */
static int check_empty(const char *directory, et_error *error)
{
    DIR *open = opendir(directory);
    int entries = 0;
    if (!open)
        return ET_OK; /* creating it reports what is wrong */
    for (const struct dirent *entry; (entry = readdir(open)) != NULL;)
        entries += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(open);
    return entries
               ? et_fail(error, ET_EDENIED,
                         "%s is not empty: choose another --name or --dir, or remove it", directory)
               : ET_OK;
}

static void fill_in(et_strbuf *out, const char *text, const char *name)
{
    static const char mark[] = "@NAME@";
    for (const char *at; (at = strstr(text, mark)) != NULL; text = at + sizeof mark - 1) {
        et_strbuf_append_bytes(out, text, (size_t)(at - text));
        et_strbuf_append(out, name);
    }
    et_strbuf_append(out, text);
}

/* The contents of a project. */
typedef struct project {
    const char *name;                         /* of the project */
    const char *names[ET_SCAFFOLD_FILES_MAX]; /* of its files */
    const et_scaffold_file *file[ET_SCAFFOLD_FILES_MAX];
    int count;
} project;

static int write_file(void *self, int which, const char *path, et_error *error)
{
    const project *p = self;
    et_strbuf text = ET_STRBUF_INIT;
    fill_in(&text, p->file[which]->text, p->name);
    int status = text.failed ? et_alloc_failed(error, text.length, p->names[which])
                             : et_file_write(path, text.data, text.length, error);
    et_strbuf_release(&text);
    return status;
}

static project project_of(const scaffold_options *args)
{
    project p = { .name = args->name };
    for (const et_scaffold_file *file = et_scaffold_files; file->name; file++) {
        if (file->model && strcmp(file->model, args->model) != 0)
            continue;
        et_assert(p.count < ET_SCAFFOLD_FILES_MAX);
        p.names[p.count] = file->name;
        p.file[p.count++] = file;
    }
    return p;
}

static int scaffold(const scaffold_options *args, et_error *error)
{
    project p = project_of(args);
    char *directory = et_path_join(args->directory, args->name);
    int status = directory ? check_empty(directory, error)
                           : et_alloc_failed(error, strlen(args->directory), "a path");
    if (!status)
        status = et_directory_write(directory, p.names, p.count, write_file, &p, error);
    if (!status)
        et_print(stdout,
                 "%s: CMakeLists.txt, README.md, main.c\n"
                 "    cmake -S %s -B %s/build && cmake --build %s/build\n",
                 directory, directory, directory, directory);
    et_free(directory);
    return status;
}

int et_cmd_scaffold(const et_call *call, et_error *error)
{
    const scaffold_options *args = call->options;
    if (!is_name(args->name))
        return et_fail(error, ET_EUSAGE,
                       "--name %s: give up to %d letters, digits and _, starting with a letter",
                       args->name, NAME_MAX_LENGTH);
    return scaffold(args, error);
}
