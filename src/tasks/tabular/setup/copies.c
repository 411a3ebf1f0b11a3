/* Finds rows that are validated and learned as well: their scores say how well the model remembers
 * rows, not how well it predicts new ones. Rows are compared by 64-bit hashes of their encoded
 * inputs, so a row with another ID is a copy, too.
 *
 * In a table of few columns with few values, rows agree by chance. The metadata tell how often: two
 * rows agree with the product of et_column_agreement over the columns, if these are independent.
 * Copies are named if they are five times as many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/comm.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "data/table/analysis/column_use.h"
#include "data/text/paths.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"

/* Most rows that are compared; of more rows, only those with some hashes. */
#define ROWS_MOST 4000000
/* Of the validated rows, copies that are named; times the copies by chance. */
#define COPIES_LEAST 2
#define SHARE_LEAST  0.01
#define CHANCE       5
/* Bytes of training files that an evaluation of other rows reads. */
#define FILES_MOST (256 << 20)

/* Equal part numbers have the same role: 0 is learned and never validated. */
typedef struct keyed {
    uint64_t inputs;
    uint32_t target;
    int32_t part;
} keyed;

typedef struct keys {
    const et_encoder *encoder;
    const unsigned char *parts; /* of the rows that are read now; NULL: all are of `part` */
    int part;
    keyed *row; /* [count], by inputs, target and part */
    int64_t count, room;
    uint64_t every; /* rows whose hash is a multiple of this number */
} keys;

/* ---- keys ---- */

static void add_rows(void *payload, const et_batch *batch, int64_t first)
{
    keys *k = payload;
    const et_layout *layout = et_encoder_layout(k->encoder);
    for (int64_t i = 0; i < batch->filled[0]; i++) {
        uint64_t hash[2] = { 0, 0 }; /* of inputs, of the target */
        for (int f = 0; f < et_encoder_fields(k->encoder); f++) {
            const et_encoded_kind kind = et_encoder_field(k->encoder, f)->kind;
            const bool target = et_encoded_is_target(kind);
            if (target || kind <= ET_ENCODED_WORDS) {
                const et_layout_field *field = &layout->field[f];
                const size_t size =
                    (size_t)et_shape_count(field->item) * et_dtype_size(field->dtype);
                const char *item = (const char *)batch->data[f] + (size_t)i * size;
                const uint64_t both[] = { hash[target], et_checksum(item, size) };
                hash[target] = et_checksum(both, sizeof both);
            }
        }
        if (hash[0] % k->every == 0 && k->count < k->room)
            k->row[k->count++] =
                (keyed){ hash[0], (uint32_t)hash[1], k->parts ? k->parts[first + i] : k->part };
    }
}

ET_SORT_BY(by_key, keyed, ET_UP(inputs), a->target != b->target ? ET_UP(target) : ET_UP(part))

/* ---- copies ---- */

/* Counts of validated rows, or of those of one part. */
typedef struct copies {
    int64_t rows, inputs, both; /* all; with the inputs of a learned row; with its target as well */
} copies;

/* How the parts of validated rows relate to those that are learned with them. */
typedef enum learned {
    LEARNED_FIRST,   /* part 0 */
    LEARNED_EARLIER, /* folds by time: all parts before it */
    LEARNED_OTHERS,  /* folds: all other parts */
} learned;

/* Whether rows of parts from least to most have one that is learned when `part` is validated. */
static bool has_learned(learned how, int part, int least, int most)
{
    et_assert(least <= most);
    return how == LEARNED_FIRST     ? least == 0
           : how == LEARNED_EARLIER ? least < part
                                    : least < part || most > part;
}

/* The rows from `begin` on with equal inputs, and if asked for equal targets; their parts. */
static int64_t find_run(const keys *k, int64_t begin, bool target, int *least, int *most)
{
    et_assert(begin >= 0 && begin < k->count);
    const keyed *first = &k->row[begin];
    int64_t end = begin;
    *least = *most = first->part;
    for (; end < k->count && k->row[end].inputs == first->inputs &&
           (!target || k->row[end].target == first->target);
         end++) {
        *least = k->row[end].part < *least ? k->row[end].part : *least;
        *most = k->row[end].part > *most ? k->row[end].part : *most;
    }
    return end;
}

/* counted: the part whose rows are counted; 0: all but part 0. */
static copies count(const keys *k, learned how, int counted)
{
    copies c = { 0, 0, 0 };
    int least[2] = { 0, 0 }, most[2] = { 0, 0 };
    int64_t end[2] = { 0, 0 };
    for (int64_t i = 0; i < k->count; i++) {
        for (int target = 0; target < 2; target++)
            if (i == end[target])
                end[target] = find_run(k, i, target, &least[target], &most[target]);
        const int part = k->row[i].part;
        if (!part || (counted && part != counted))
            continue;
        c.rows++;
        c.inputs += has_learned(how, part, least[0], most[0]);
        c.both += has_learned(how, part, least[1], most[1]);
    }
    return (copies){ c.rows * (int64_t)k->every, c.inputs * (int64_t)k->every,
                     c.both * (int64_t)k->every };
}

/* rows: the name of the validated rows in the message. */
static void warn(const et_tabular_task *task, const keys *k, const copies *c, int64_t learned_rows,
                 const char *rows, const char *cure)
{
    et_assert(c->both <= c->inputs && c->inputs <= c->rows);
    const double share = (double)c->inputs / (double)(c->rows ? c->rows : 1);
    const et_schema *schema = et_encoder_schema(task->encoder);
    double chance = (double)learned_rows; /* copies of a row that are expected by chance */
    char some[64] = "";
    for (int i = 0; i < et_schema_count(schema); i++)
        if (et_encoder_reads(task->encoder, i, false))
            chance *= et_column_agreement(
                et_metadata_find(task->texts.metadata, et_schema_at(schema, i)->name));
    if (c->inputs < COPIES_LEAST || share < SHARE_LEAST ||
        share < CHANCE * (chance < 1 ? chance : 1))
        return;
    if (c->both < c->inputs)
        snprintf(some, sizeof some, " (%s of them with another target)",
                 et_format_count(c->inputs - c->both).text);
    et_log(ET_LOG_WARNING,
           "%s%s of the %s %s are also training rows%s, so their scores are better than those of "
           "new rows; %s",
           k->every > 1 ? "about " : "", et_format_count(c->inputs).text,
           et_format_count(c->rows).text, rows, some, cure);
}

/* ---- reading ---- */

/* Room for the keys of so many rows; row NULL: no memory. */
static keys keys_of(const et_tabular_task *task, int64_t rows)
{
    et_assert(rows >= 0);
    return (keys){ .encoder = task->encoder,
                   .row = et_alloc((size_t)rows + 1, sizeof(keyed)),
                   .room = rows,
                   .every = 1 + (uint64_t)rows / ROWS_MOST };
}

static int warn_folds(const et_tabular_task *task, const unsigned char *part, et_error *error)
{
    const bool time = et_tabular_is_named(task->options.time);
    const int64_t rows = task->table->count;
    keys k = keys_of(task, rows);
    k.parts = part;
    int status = k.row ? et_tabular_read(task->table, rows, add_rows, &k, error)
                       : et_alloc_failed(error, (size_t)rows * sizeof *k.row, "keys of rows");
    if (!status) {
        qsort(k.row, (size_t)k.count, sizeof *k.row, by_key);
        const copies c = count(&k, time ? LEARNED_EARLIER : LEARNED_OTHERS, 0);
        warn(task, &k, &c, rows, "rows that folds hold out",
             time || et_tabular_is_named(task->options.groups)
                 ? "remove the copies"
                 : "remove the copies, or keep them together with --group COLUMN");
    }
    et_free(k.row);
    return status;
}

static void warn_sets(const et_tabular_task *task, et_samples *training, const keys *k)
{
    const et_tabular_options *o = &task->options;
    const et_tabular_set *sets = o->validation_data.sets.items;
    const bool evaluates = task->context.evaluates;
    for (int i = 0; i < task->validations; i++) {
        const copies c = count(k, LEARNED_FIRST, i + 1);
        char rows[200] = "held-out rows";
        if (task->validation_tables[0])
            snprintf(rows, sizeof rows, "rows of %.180s",
                     sets ? sets[i].name : task->validation_paths[0].items[0]);
        if (task->validation_tables[i] &&
            task->validation_tables[i]->fingerprint == training->fingerprint)
            et_log(ET_LOG_WARNING,
                   "the %s%s%s are the training data: scores of learned rows are better than those "
                   "of new rows; %s",
                   evaluates ? "" : "validation data (", rows, evaluates ? "" : ")",
                   evaluates ? "name a file of other rows"
                             : "name other rows, or leave --valid out: then Etude holds out rows");
        else
            warn(task, k, &c, training->count, rows,
                 evaluates                    ? "name rows that were not learned"
                 : task->validation_tables[0] ? "remove them from one of both"
                 : et_tabular_is_named(o->time) || et_tabular_is_named(o->groups)
                     ? "remove the copies"
                     : "remove the copies, or keep them together with --group COLUMN");
    }
}

static int warn_parts(const et_tabular_task *task, et_samples *training, et_error *error)
{
    int64_t all = training->count;
    for (int i = 0; i < task->validations; i++)
        all += task->validation[i]->count;
    keys k = keys_of(task, all);
    int status = k.row ? et_tabular_read(training, training->count, add_rows, &k, error)
                       : et_alloc_failed(error, (size_t)all * sizeof *k.row, "keys of rows");
    for (int i = 0; i < task->validations && !status; i++) {
        k.part = i + 1;
        status =
            et_tabular_read(task->validation[i], task->validation[i]->count, add_rows, &k, error);
    }
    if (!status) {
        qsort(k.row, (size_t)k.count, sizeof *k.row, by_key);
        warn_sets(task, training, &k);
    }
    et_free(k.row);
    return status;
}

/* An evaluation does not need the training files: they may be gone, or too large to read again. */
static int warn_evaluated(const et_tabular_task *task, et_table_samples_options options,
                          et_error *error)
{
    const et_tabular_options *o = &task->options;
    et_arena arena = ET_ARENA_INIT;
    et_samples *training = NULL;
    et_error unread = ET_ERROR_INIT;
    int64_t bytes = 0;
    int status = et_paths_match(&options.paths, &o->train_data.input_path, NULL, &arena, &unread);
    for (size_t i = 0; !status && i < options.paths.count; i++) {
        struct stat facts;
        status = stat(options.paths.items[i], &facts);
        bytes += status ? 0 : (int64_t)facts.st_size;
    }
    options.keep_unlabelled = true;
    if (!status && options.paths.count && bytes <= FILES_MOST)
        (void)et_table_samples_open(&training, task->encoder, &options, &unread);
    int compared = training ? warn_parts(task, training, error) : ET_OK;
    et_samples_close(training);
    et_arena_release(&arena);
    return compared;
}

int et_tabular_warn_copies(const et_tabular_task *task, const unsigned char *part,
                           const et_table_samples_options *options, et_error *error)
{
    /* A mix draws rows of its tables; other files are compared with all of them. */
    et_samples *training = task->options.train_data.mix.count ? task->table : task->training;
    if (et_comm_rank(task->context.comm))
        return ET_OK;
    if (task->context.evaluates)
        return task->validation_tables[0] ? warn_evaluated(task, *options, error) : ET_OK;
    if (task->context.reader || (training != task->training && !task->validation_tables[0]))
        return ET_OK;
    if (part)
        return warn_folds(task, part, error);
    return training && task->validations ? warn_parts(task, training, error) : ET_OK;
}
