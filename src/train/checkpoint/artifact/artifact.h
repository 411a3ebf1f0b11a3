/* A trained model in any form: opens it, reads its texts, loads its weights, and writes a new one.
 *
 *   RUN           directory of a run: params.yaml, checkpoints/, best/
 *   RUN/task_2    one of several models that a run trains together (member.yaml)
 *   JOB           the run of a program's builder: builder.yaml in place of params.yaml
 *   DIR           an export: model.safetensors
 *   a.safetensors an export in one file, or its bytes in memory
 *   content       an export that is not written, such as a model of another program
 *
 * Files that belong to the weights (settings, the schema of a table) are called texts. A text has
 * the same name in all forms.
 *
 *     et_artifact artifact;
 *     if (et_artifact_open(&artifact, "models/a.safetensors", &error) ||
 *         et_artifact_read(&artifact, "params.yaml", 1 << 20, &bytes, &length, &error)) ...
 *     et_artifact_weights weights = { .artifact = &artifact, .params = params, .check = check };
 *     if (et_artifact_load(&weights, &error)) ...
 *     et_artifact_close(&artifact);
 *
 *     et_artifact_content content = { .texts = texts, .count = 2, .params = params, .step = step };
 *     if (et_artifact_write(&content, "models/b.safetensors", &error)) ...
 *
 * An export in one file is a checkpoint file with texts (checkpoint_file.h);
 * doc/reference/formats.md has its layout. The checksum of a text or a weight is compared before it
 * is used. */
#ifndef ETUDE_TRAIN_CHECKPOINT_ARTIFACT_ARTIFACT_H
#define ETUDE_TRAIN_CHECKPOINT_ARTIFACT_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"
#include "formats/safetensors/safetensors.h"
#include "train/checkpoint/checkpoint.h"
#include "train/checkpoint/identity.h"

/* The weights of an export that is a directory. */
#define ET_ARTIFACT_WEIGHTS "model.safetensors"

/* In one file: metadata with the version, which no other checkpoint has, and the type of stored
 * weights ("float32", "bfloat16", "int8"). */
#define ET_ARTIFACT_KEY_EXPORT    "export"
#define ET_ARTIFACT_KEY_PRECISION "precision"
#define ET_ARTIFACT_VERSION       "1"

/* ---- opening ---- */

/* One of several models that a run trains together. Its settings are a part of the run's. Its
 * weights are in the run's checkpoints: its own have its name before theirs, shared ones do not. */
typedef struct et_artifact_member {
    const char *name;       /* "red" */
    const char *experiment; /* of its kind; its settings are put on top */
    const char *settings;   /* where its settings are in the run's: "task.list[1].config" */
    const char *run;        /* the run's directory; set by open */
    const char *prefix;     /* "red/"; set by open */
} et_artifact_member;

struct et_artifact_content;

/* The owner of a content. */
typedef struct et_artifact_owner_class {
    /* Copies the content's weights. ET_ECONFIG: params have other names or shapes. */
    int (*load)(void *self, et_params *params, et_error *error);
    void (*close)(void *self);
} et_artifact_owner_class;

typedef struct et_artifact {
    const char *name;                          /* path, or "the model in memory"; borrowed */
    et_safetensors *file;                      /* NULL: a directory, or content */
    const struct et_artifact_content *content; /* the owner's; NULL: a directory or a file */
    const et_artifact_owner_class *class;      /* of owner */
    void *owner;                               /* of content, owned */
    const et_artifact_member *member;          /* NULL: the only model of its run */
    et_arena arena;                            /* of member */
} et_artifact;

/* path is borrowed until close. A path that is no regular file counts as a directory, whether it
 * exists or not. ET_EFORMAT: a file that is no export, or a damaged file. */
int et_artifact_open(et_artifact *artifact, const char *path, et_error *error);

/* bytes are borrowed until close. */
int et_artifact_open_memory(et_artifact *artifact, const void *bytes, size_t length,
                            et_error *error);

/* An export in one file without the file: texts, step and identity of a content, weights by
 * class->load. name is borrowed until close, which closes the owner. */
void et_artifact_open_content(et_artifact *artifact, const char *name,
                              const struct et_artifact_content *content,
                              const et_artifact_owner_class *class, void *owner);

/* Also after a failed open, and of one of zeros. */
void et_artifact_close(et_artifact *artifact);

/* Whether it is an export in one file, or a content. */
bool et_artifact_is_file(const et_artifact *artifact);

/* Whether it is an export, with one set of weights. */
bool et_artifact_is_export(const et_artifact *artifact);

/* The directory whose checkpoints have the weights, or the file of an export in one file. */
const char *et_artifact_run(const et_artifact *artifact);

/* How weights are stored; "float32" of a directory. */
const char *et_artifact_precision(const et_artifact *artifact);

/* ---- texts ---- */

bool et_artifact_has(const et_artifact *artifact, const char *name);

/* A text, followed by a 0: free it with et_free. ET_EFORMAT: damaged, or of more than `most` bytes.
 * ET_ENOTFOUND: there is no such text. */
int et_artifact_read(const et_artifact *artifact, const char *name, size_t most, char **bytes,
                     size_t *length, et_error *error);

/* The checksum of such a text. */
int et_artifact_checksum(const et_artifact *artifact, const char *name, size_t most,
                         uint64_t *checksum, et_error *error);

/* Reads a text from the path in a setting. If the path ends in ".safetensors": the text `name` of
 * an export in one file; otherwise the file is the text. */
int et_artifact_read_named(const char *path, const char *name, size_t most, char **bytes,
                           size_t *length, et_error *error);

/* The value of a setting that et_artifact_read_named reads as this text. NULL: no memory. */
const char *et_artifact_setting(const et_artifact *artifact, const char *name, et_arena *arena);

/* The name of a text in messages: "runs/a/params.yaml", "a.safetensors: params.yaml". NULL: no
 * memory. */
const char *et_artifact_path(const et_artifact *artifact, const char *name, et_arena *arena);

/* Writes all texts of one file into a directory, by their names. ET_EFORMAT: damaged, or a name is
 * not the name of a file in it. */
int et_artifact_unpack(const et_artifact *artifact, const char *directory, et_error *error);

/* For a directory without a model. ET_ENOTFOUND: a run is right below the directory; the message
 * names the first one, because the user probably named the folder instead of the run. ET_OK: no run
 * is there. */
int et_artifact_check_folder(const et_artifact *artifact, et_error *error);

/* ---- weights ---- */

typedef struct et_artifact_weights {
    const et_artifact *artifact;
    et_params *params;         /* materialized, or mapped */
    bool mapped;               /* of et_weights_choice */
    const char *named;         /* of a run: et_checkpoint_named. NULL: the best, else the newest */
    bool live_weights;         /* even if there are averaged weights */
    et_checkpoint_facts facts; /* of the loaded file; the arena is the caller's */
    char *checkpoint; /* path of the loaded file. Free with et_free, also after a failure */
    /* ET_ECONFIG: the weights were trained with other texts. NULL: not checked. */
    int (*check)(void *payload, const struct et_artifact_weights *weights, et_error *error);
    void *payload;
} et_artifact_weights;

/* A best checkpoint that cannot be used is named in a warning, and the newest is loaded.
 * ET_ENOTFOUND: a run without checkpoints. ET_ECONFIG: a checkpoint of one file is named. */
int et_artifact_load(et_artifact_weights *load, et_error *error);

/* The identity of the model, from an export's weights or from the run's newest checkpoint. In
 * arena; the identity of a content lives until close. A missing checkpoint or identity is no error.
 * If a run has several models, the dict ET_ARTIFACT_MEMBERS of its identity has, by the name of a
 * model, the values that only this model has. */
#define ET_ARTIFACT_MEMBERS "tasks"
int et_artifact_identity(const et_artifact *artifact, et_identity *out, et_arena *arena,
                         et_error *error);

/* ---- writing ---- */

/* All borrowed. */
typedef struct et_artifact_file {
    const char *name; /* of the file in a directory */
    const char *bytes;
    size_t length;
} et_artifact_file;

typedef struct et_artifact_content {
    const et_artifact_file *texts; /* [count] */
    int count;
    et_params *params; /* values in use */
    int64_t step;
    const et_value *identity; /* of the checkpoint of the weights; NULL: it has none */
    const char *precision;    /* how weights are stored; NULL: "float32" */
} et_artifact_content;

/* ET_ECONFIG: there is no such precision. */
int et_artifact_check_precision(const char *precision, et_error *error);

/* Writes an export. A file (its name ends in ".safetensors") is written atomically, in place of an
 * earlier one; a directory by et_directory_write. ET_ECONFIG: no name, no such precision, or a file
 * of the export is in the directory already. */
int et_artifact_write(const et_artifact_content *content, const char *output, et_error *error);

/* The weights alone, as in a directory. */
int et_artifact_write_weights(const et_artifact_content *content, const char *path,
                              et_error *error);

/* ---- several models of a run ---- */

/* Writes member.yaml: name, experiment, settings. */
int et_artifact_write_member(const char *folder, const et_artifact_member *member, et_error *error);

/* The folder of a run's model with this name; free with et_free. ET_ECONFIG: no such model; the
 * error lists the run's models. */
int et_artifact_find_member(char **folder, const char *run, const char *name, et_error *error);

/* For a command that needs a single model. ET_ECONFIG: the run has several models; the error lists
 * their names and the option that selects one. */
int et_artifact_check_single(const char *run, et_error *error);

#endif
