/* What exports.c and checkpoint_exports.c share: directories BASE-N. */
#ifndef ETUDE_TRAIN_CHECKPOINT_ARTIFACT_EXPORTS_PRIVATE_H
#define ETUDE_TRAIN_CHECKPOINT_ARTIFACT_EXPORTS_PRIVATE_H

#include <etude/ready_actions.h>

typedef struct et_export_ids {
    int64_t *ids; /* [count], owned, ascending */
    size_t count, capacity;
} et_export_ids;

struct et_exports {
    et_exports_options options; /* subdirectory owned */
    char *path, *directory;     /* owned: BASE as it was given, "runs/a/export"; "runs/a/" */
    const char *base;           /* "export", in path */
    int64_t max_to_keep, last;  /* last: number that was given, -1: none */
    char *name;                 /* owned: what was given last */
    int64_t id;                 /* its number */
    et_export_ids made;         /* by this process, in any order */
};

/* Those whose directory is there. Free all->ids in any case. */
int et_export_ids_find(const et_exports *self, et_export_ids *all, et_error *error);

/* self->name becomes "BASE-3", with the subdirectory. */
int et_exports_take_name(et_exports *self, int64_t id, et_error *error);

/* Removes self->name, if it is there. */
int et_exports_remove(const et_exports *self, et_error *error);

typedef struct et_export_content {
    int (*write_weights)(void *payload, const char *path, et_error *error);
    void *payload;
    const et_value *settings; /* NULL: none */
} et_export_content;

/* Makes self->name, a directory with these, which has the name when all is there. One of that name
 * that this process has made, or that has the same weights, is replaced; another one is moved
 * aside. */
int et_exports_publish(et_exports *self, const et_export_content *content, et_error *error);

#endif
