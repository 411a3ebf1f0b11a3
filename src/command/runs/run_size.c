#include "command/runs/run_size.h"

#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/files/file.h"
#include "base/values/json.h"
#include "command/session.h"
#include "formats/safetensors/manifest.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/run_names.h"

/* {"params": {"elements": N}, ...} is in the state of every checkpoint. */
static int64_t read_elements(const char *path)
{
    et_safetensors *file;
    et_value *state;
    et_arena arena = ET_ARENA_INIT;
    int64_t elements = 0;
    if (et_safetensors_open_foreign(&file, path, NULL))
        return 0;
    const char *text = et_safetensors_metadata(file, ET_CHECKPOINT_KEY_STATE);
    if (text && !et_json_parse(&state, &arena, text, strlen(text), path, NULL)) {
        const et_value *params = et_value_get(state, "params");
        if (!params || et_value_read_int(params, "elements", &elements, NULL))
            elements = 0;
    }
    et_arena_release(&arena);
    et_safetensors_close(file);
    return elements > 0 ? elements : 0;
}

static bool is_shown(const char *path, const char *root)
{
    return path && (!root || et_path_is_below(path, root));
}

static int64_t of_newest(const char *model_dir, const char *root)
{
    et_manifest manifest = { 0 };
    int64_t elements = 0;
    char *directory = et_path_join(model_dir, ET_CHECKPOINT_FOLDER);
    if (is_shown(directory, root) && et_file_exists(directory) &&
        !et_manifest_rebuild(&manifest, directory, ET_CHECKPOINT_PREFIX, NULL)) {
        for (size_t i = manifest.count; i-- && !elements;) {
            char *path = et_path_join(directory, manifest.entries[i].file);
            elements = is_shown(path, root) ? read_elements(path) : 0;
            et_free(path);
        }
        et_manifest_release(&manifest);
    }
    et_free(directory);
    return elements;
}

int64_t et_run_parameters(const et_history *h)
{
    int64_t elements = 0;
    const et_value *sessions = et_value_get(h->info, "sessions");
    if (sessions && sessions->kind == ET_VALUE_LIST && sessions->last &&
        !et_value_read_int(sessions->last, ET_SESSION_PARAMETERS, &elements, NULL) && elements > 0)
        return elements;
    return of_newest(h->model_dir, et_history_root(h));
}
