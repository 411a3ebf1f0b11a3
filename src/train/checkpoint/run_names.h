/* Names of the files in a run's directory. They are written only here (tools/check-names); a kind
 * of task adds its own (artifact.h). The header of each owner describes the contents.
 *
 *   RUN/params.yaml, metrics.jsonl, train.log, info.json, recovery.json
 *   RUN/checkpoints/lock, checkpoint.json (formats/safetensors/manifest.h), ckpt-2000.safetensors
 *   RUN/best/info.json, best-1800.safetensors
 *   RUN/train/, RUN/validation/    TensorBoard's events, named by formats/events/log_names.h
 *   RUN/task_2/member.yaml         of several tasks that are trained together */
#ifndef ETUDE_TRAIN_CHECKPOINT_RUN_NAMES_H
#define ETUDE_TRAIN_CHECKPOINT_RUN_NAMES_H

#define ET_RUN_SETTINGS "params.yaml"   /* experiment.h; an export has it, too */
#define ET_RUN_LOG      "metrics.jsonl" /* run.h: a line for each log */
#define ET_RUN_MESSAGES "train.log"     /* systems/training/session.h: the messages */
#define ET_RUN_SESSIONS "info.json"     /* systems/training/session.h: sessions, with their times */
#define ET_RUN_RECOVERY "recovery.json" /* inner_loop.h */
#define ET_RUN_MEMBER   "member.yaml"   /* artifact.h: which of several tasks */
#define ET_RUN_BUILDER  "builder.yaml"  /* of a job, in place of settings: its builder */

#define ET_RUN_LOCK "lock" /* in checkpoints/, in validation/: held by its writing process */

#define ET_CHECKPOINT_FOLDER      "checkpoints"
#define ET_CHECKPOINT_PREFIX      "ckpt-"     /* of the last ones */
#define ET_CHECKPOINT_BEST        "best"      /* the folder of the best one */
#define ET_CHECKPOINT_BEST_PREFIX "best-"     /* of the file there */
#define ET_CHECKPOINT_INFO        "info.json" /* there: the values and the step */

#endif
