#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "cli/args.h"
#include "cli/command.h"
#include "io/format.h"
#include "io/safetensors.h"
#include "train/checkpoint.h"

/* Prints each tensor with its verdict; how many are damaged. */
static size_t print_tensors(const et_safetensors *file, et_error *first)
{
    size_t damaged = 0;
    for (size_t i = 0; i < et_safetensors_count(file); i++) {
        const et_safetensors_tensor *tensor = et_safetensors_at(file, i);
        char shape[ET_SHAPE_TEXT_MAX];
        et_error error = ET_ERROR_INIT;
        bool ok = !et_safetensors_verify_tensor(file, tensor, &error);
        printf("%-60s %-9s %-16s %s\n", tensor->name, et_dtype_name(tensor->dtype),
               et_shape_print(tensor->shape, shape), ok ? "ok" : "damaged");
        if (!ok && !damaged++)
            *first = error;
    }
    return damaged;
}

/* The state tree, indented, or what metadata there is. */
static void print_state(const et_safetensors *file, const char *path)
{
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    et_arena arena = ET_ARENA_INIT;
    et_value *state;
    if (text && !et_json_parse(&state, &arena, text, strlen(text), path, NULL)) {
        et_strbuf out = ET_STRBUF_INIT;
        et_json_print(&out, state, 2);
        printf("state %s\n", et_strbuf_text(&out));
        et_strbuf_release(&out);
    }
    et_arena_release(&arena);
}

static int inspect(const char *path, et_error *error)
{
    et_safetensors *file;
    int64_t elements = 0;
    int status = et_safetensors_open_foreign(&file, path, error);
    if (status)
        return status;
    for (size_t i = 0; i < et_safetensors_count(file); i++)
        elements += et_shape_count(et_safetensors_at(file, i)->shape);
    et_error first = ET_ERROR_INIT;
    size_t damaged = print_tensors(file, &first);
    print_state(file, path);
    printf("%zu tensors, %s elements%s\n", et_safetensors_count(file),
           et_format_count(elements).text,
           et_safetensors_sealed(file) ? "" : "; no checksums: written by another program");
    if (damaged)
        status = et_fail(error, ET_EFORMAT, "%s", first.text);
    else
        printf("sound: %s\n", path);
    et_safetensors_close(file);
    return status;
}

int et_cmd_inspect(int argc, char **argv, et_error *error)
{
    static et_arg_list paths;
    const et_arg table[] = { { "CHECKPOINT...", NULL, NULL, ET_ARG_REST, &paths, NULL },
                             ET_ARG_END };
    bool help;
    int status = et_args_parse(table, "inspect", argc, argv, &help, error);
    if (status)
        return status;
    if (help) {
        et_args_help(stdout, table, "inspect",
                     "Shows a checkpoint's tensors and state, checks every checksum, and says "
                     "whether\nit is sound.",
                     "etude inspect runs/a/checkpoints/ckpt-2000.safetensors");
        return ET_OK;
    }
    if (!paths.count)
        return et_fail(error, ET_EUSAGE, "inspect: no checkpoint given");
    for (int i = 0; i < paths.count && !status; i++)
        status = inspect(paths.items[i], error);
    return status;
}
