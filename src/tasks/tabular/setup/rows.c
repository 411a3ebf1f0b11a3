/* Opens the rows: encoded and numbered training rows; validation rows, from other files or held
 * out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <etude/comm.h>
#include <etude/log.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/sort.h"
#include "base/text/format.h"
#include "base/text/strbuf.h"
#include "data/table/analysis/column_use.h"
#include "data/table/rows/rows.h"
#include "data/table/table.h"
#include "data/text/paths.h"
#include "systems/modelgarden/series.h"
#include "tasks/tabular/samples.h"
#include "tasks/tabular/setup/setup_private.h"
#include "train/checkpoint/identity.h"

/* ---- a mix ---- */

/* task.train_data.mix. The files of all parts form one table, with one schema, one list of classes
 * and one choice of held-out rows. A part is a range of rows; training draws samples from the parts
 * by weight. */
static const et_tabular_part *part_at(const et_tabular_task *task, size_t i)
{
    return (const et_tabular_part *)task->options.train_data.mix.items + i;
}

/* The files of all parts become task->paths. */
static int find_mix(et_tabular_task *task, et_error *error)
{
    const size_t count = task->options.train_data.mix.count;
    et_strings found[ET_TABULAR_MIX_MAX], *all = &task->paths;
    size_t files = 0;
    for (size_t i = 0; i < count; i++) {
        int status = et_paths_match(&found[i], &part_at(task, i)->input_path, "task.train_data.mix",
                                    &task->arena, error);
        if (status)
            return status;
        task->mix.file[i] = files;
        files += found[i].count;
    }
    const char **items = et_arena_alloc(&task->arena, files * sizeof *items);
    if (!items)
        return et_alloc_failed(error, "paths");
    *all = (et_strings){ .items = items };
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < found[i].count; k++)
            items[all->count++] = found[i].items[k];
    return ET_OK;
}

/* The listed rows of the samples, which stay their owner's. The list is copied. */
static int choose_rows(et_samples **out, et_samples *samples, const uint32_t *which, int64_t count,
                       et_error *error)
{
    et_samples *all = NULL;
    int status = et_tabular_borrow(&all, samples, error);
    if (status)
        return status;
    status = et_subset_open(out, all, which, count, error);
    if (status)
        et_samples_close(all);
    return status;
}

/* Opens the rows of one part. The table's rows are in order; with a limit, the table may end before
 * the part does. */
static int open_mix_part(et_samples **out, const et_tabular_task *task, size_t at,
                         const unsigned char *side, uint32_t *which, et_error *error)
{
    et_assert(at < task->options.train_data.mix.count);
    const int64_t begin = at ? task->mix.end[at - 1] : 0;
    int64_t end = task->mix.end[at], count = 0;
    end = end < task->table->count ? end : task->table->count;
    for (int64_t row = begin; row < end; row++)
        if (!side || side[row] == ET_TABULAR_LEARNED)
            which[count++] = (uint32_t)row;
    if (!count)
        return et_fail(error, ET_EDATA,
                       "task.train_data.mix[%zu]: %s: no row is left for training; leave this "
                       "table out, or change held_out or limit",
                       at, task->paths.items[task->mix.file[at]]);
    return choose_rows(out, task->table, which, count, error);
}

/* The training data become a mix of the rows that are learned; side NULL: all are. */
static int open_mix(et_tabular_task *task, const unsigned char *side, et_error *error)
{
    et_assert(task->table);
    const et_tabular_data *data = &task->options.train_data;
    const size_t count = data->mix.count;
    const uint64_t seed = data->seed < 0 ? task->context.seed : (uint64_t)data->seed;
    et_samples *parts[ET_TABULAR_MIX_MAX] = { NULL };
    double weights[ET_TABULAR_MIX_MAX];
    uint32_t *which;
    int status = ET_ALLOC(which, task->table->count, "rows", error);
    for (size_t i = 0; !status && i < count; i++) {
        weights[i] = part_at(task, i)->weight;
        status = open_mix_part(&parts[i], task, i, side, which, error);
    }
    if (!status)
        status = et_mix_open(&task->training, parts, weights, (int)count, seed, error);
    for (size_t i = 0; status && i < count; i++)
        et_samples_close(parts[i]);
    et_free(which);
    return status;
}

/* ---- rows ---- */

/* The rows of options.open, if that task has read the same files with the same encoding; NULL:
 * none. If its rows gave a warning, they are read again, so that each training warns. */
static et_samples *find_open(et_tabular_task *task, const et_strings *paths)
{
    const et_tabular_task *open = task->options.open;
    const bool trained = paths == &task->paths;
    if (!open || open->warned || (!trained && paths != task->validation_paths))
        return NULL;
    const et_strings theirs = trained ? open->paths : open->validation_paths[0];
    bool same = paths->count == theirs.count;
    for (size_t i = 0; same && i < paths->count; i++)
        same = !strcmp(paths->items[i], theirs.items[i]);
    for (int i = 0; same && i < ET_TABLE_FILES; i++)
        same = task->file[i].checksum == open->file[i].checksum;
    for (int64_t i = 0; same && i < task->target.values; i++) {
        const et_target_unit ours = et_tabular_unit(task, i), unit = et_tabular_unit(open, i);
        same = ours.offset == unit.offset && ours.scale == unit.scale;
    }
    if (same && trained)
        task->mix = open->mix;
    return !same ? NULL : trained ? open->table : open->validation_tables[0];
}

int et_tabular_open_table(et_tabular_task *task, et_samples **out, const et_strings *paths,
                          int64_t limit, et_error *error)
{
    et_assert(out && paths->count && limit >= 0);
    et_samples *open = find_open(task, paths);
    if (open)
        return et_tabular_borrow(out, open, error);
    et_table_samples_options options = et_tabular_table_options(&task->options, task->missing);
    et_samples *all;
    options.paths = *paths;
    if (paths != &task->paths)
        options.csv.known = &task->known;
    if (paths != &task->paths || et_tabular_is_named(task->options.metadata_path))
        options.metadata = task->texts.metadata;
    int status = et_table_samples_open(&all, task->encoder, &options, error);
    task->warned |= !status && et_table_warned(all);
    if (!status && paths == &task->paths) {
        const size_t count = task->options.train_data.mix.count;
        for (size_t i = 0; i < count; i++)
            task->mix.end[i] =
                i + 1 < count ? et_table_first(all, task->mix.file[i + 1]) : all->count;
    }
    if (status || !limit || limit >= all->count) {
        *out = status ? NULL : all;
        return status;
    }
    status = et_take_open(out, all, limit, error);
    if (status)
        et_samples_close(all);
    return status;
}

/* Whether the training rows are needed. An evaluation on other rows does not need them. */
static bool is_trained(const et_tabular_task *task)
{
    return !task->context.evaluates || !et_tabular_has_validation_data(&task->options);
}

int et_tabular_find_files(et_tabular_task *task, et_error *error)
{
    const et_tabular_data *from = &task->options.train_data;
    const et_tabular_data *data = &task->options.validation_data;
    int status = !is_trained(task) ? ET_OK
                 : from->mix.count
                     ? find_mix(task, error)
                     : et_paths_match(&task->paths, &from->input_path, "task.train_data.input_path",
                                      &task->arena, error);
    if (!status && data->input_path.count)
        status = et_paths_match(&task->validation_paths[0], &data->input_path,
                                "task.validation_data.input_path", &task->arena, error);
    for (size_t i = 0; i < data->sets.count && !status; i++)
        status = et_paths_match(&task->validation_paths[i],
                                &((const et_tabular_set *)data->sets.items)[i].input_path,
                                "task.validation_data.sets", &task->arena, error);
    return status;
}

/* ---- copies ---- */

/* Finds rows that are validated and learned as well: their scores say how well the model remembers
 * rows, not how well it predicts new ones. Rows are compared by 64-bit hashes of their inputs, so a
 * row with another ID is a copy, too. Different inputs may be encoded equally (rare texts, ranges
 * of numbers), so rows that seem to be copies are read again, as the files have them.
 *
 * In a table of few columns with few values, rows agree by chance. The metadata tell how often: two
 * rows agree with the product of et_column_agreement over the columns, if these are independent.
 * et_copies_are_many says how many more copies are no chance. */

/* Most rows to compare. If there are more, only rows with certain hashes are compared. */
#define ROWS_MOST 4000000
/* Least copies among the validated rows for a warning: number and share. */
#define COPIES_LEAST 2
#define SHARE_LEAST  0.01
/* Most copies with another target, as a share; rows that agree by chance have more. */
#define OTHER_MOST 0.05
/* Bytes of training files that an evaluation of other rows reads. */
#define FILES_MOST (256 << 20)

/* Rows with equal part numbers have the same role. Part 0 is learned and never validated. */
typedef struct keyed {
    uint64_t inputs;
    uint32_t target;
    int32_t part;
} keyed;

/* Rows that are compared. */
typedef struct compared {
    et_samples *samples;
    const et_strings *paths;    /* of the samples */
    const unsigned char *parts; /* [samples->count]; NULL: all rows are of `part` */
    int part;
} compared;

typedef struct hashes {
    const et_encoder *encoder;
    const compared *from; /* the rows that are read now */
    int64_t read;         /* of them */
    keyed *row;           /* [count], by inputs, target and part */
    int64_t count, room;
    uint64_t every; /* only hashes that are a multiple of this number are kept */
} hashes;

static void add_hash(uint64_t *hash, uint64_t more)
{
    const uint64_t both[] = { *hash, more };
    *hash = et_checksum(both, sizeof both);
}

static void add_row(hashes *k, uint64_t inputs, uint64_t target)
{
    const compared *from = k->from;
    const int part = from->parts ? from->parts[k->read] : from->part;
    k->read++;
    if (inputs % k->every == 0 && k->count < k->room)
        k->row[k->count++] = (keyed){ inputs, (uint32_t)target, part };
}

/* Of the inputs or the target of row i, as they are encoded. data: [fields]. */
static uint64_t hash_encoded(const et_encoder *encoder, void *const *data, int64_t i, bool target)
{
    const et_layout *layout = et_encoder_layout(encoder);
    uint64_t hash = 0;
    for (int f = 0; f < et_encoder_fields(encoder); f++) {
        const et_encoded_kind kind = et_encoder_field(encoder, f)->kind;
        if (target ? !et_encoded_is_target(kind) : kind > ET_ENCODED_WORDS)
            continue;
        const et_layout_field *field = &layout->field[f];
        const size_t size = (size_t)et_shape_count(field->item) * et_dtype_size(field->dtype);
        add_hash(&hash, et_checksum((const char *)data[f] + (size_t)i * size, size));
    }
    return hash;
}

static void add_encoded(void *payload, const et_batch *batch, int64_t first)
{
    hashes *k = payload;
    et_assert(first == k->read);
    for (int64_t i = 0; i < batch->filled[0]; i++)
        add_row(k, hash_encoded(k->encoder, batch->data, i, false),
                hash_encoded(k->encoder, batch->data, i, true));
}

/* Whether the model's input has a column: it is no ID, weight or target. */
static bool is_input(const et_encoder *encoder, int field)
{
    int key = -1;
    for (int n = 0; key != field; n++)
        if ((key = et_encoder_key(encoder, n, &(const char *){ NULL })) < 0)
            return et_encoder_reads(encoder, field, false);
    return false;
}

static int add_written(void *payload, const et_row *row, void *const *item)
{
    hashes *k = payload;
    const et_schema *schema = et_encoder_schema(k->encoder);
    uint64_t inputs = 0;
    if (k->read == k->from->samples->count) /* the limit of a table */
        return ET_OK;
    for (int f = 0; f < et_schema_count(schema); f++)
        for (int i = 0; is_input(k->encoder, f) && i < et_encoder_cell_count(k->encoder, f); i++)
            add_hash(&inputs, et_cell_hash(et_schema_at(schema, f),
                                           &row->cells[et_encoder_cell(k->encoder, f) + i]));
    add_row(k, inputs, hash_encoded(k->encoder, item, 0, true));
    return ET_OK;
}

ET_SORT_BY(by_key, keyed, ET_UP(inputs), a->target != b->target ? ET_UP(target) : ET_UP(part))

/* Counts of validated rows, or of the rows of one part. */
typedef struct copies {
    int64_t rows, inputs, both; /* all rows; rows with the inputs of a learned row; rows with its
                                   target too */
} copies;

/* The parts that are learned when a part is validated. */
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
static int64_t find_run(const hashes *k, int64_t begin, bool target, int *least, int *most)
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

/* counted: the part whose rows are counted; 0: all parts except 0. */
static copies count(const hashes *k, learned how, int counted)
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

static bool are_many(const copies *c)
{
    et_assert(c->both <= c->inputs && c->inputs <= c->rows);
    return c->inputs >= COPIES_LEAST && (double)c->inputs >= SHARE_LEAST * (double)c->rows;
}

/* rows: the name of the validated rows in the message. */
static void warn(const et_tabular_task *task, const hashes *k, const copies *c,
                 int64_t learned_rows, const char *rows, const char *cure)
{
    const et_schema *schema = et_encoder_schema(task->encoder);
    /* of a row to have a copy by chance: as all pairs of rows say, and pairs that are no copies */
    double chance[2] = { (double)learned_rows, (double)learned_rows };
    double pairs = 0; /* of equal rows */
    char some[64] = "";
    int part[2];
    const bool copied = (double)(c->inputs - c->both) <= OTHER_MOST * (double)c->inputs;
    for (int64_t i = 0, end; copied && i < k->count; i = end) {
        end = find_run(k, i, false, &part[0], &part[1]);
        pairs += (double)(end - i) * (double)(end - i);
    }
    for (int f = 0; f < et_schema_count(schema); f++)
        for (int i = 0; i < 2 && is_input(task->encoder, f); i++)
            chance[i] *= et_column_agreement(
                et_metadata_find(task->texts.metadata, et_schema_at(schema, f)->name), i * pairs,
                (double)k->count);
    if (!are_many(c) || !et_copies_are_many((double)c->inputs, (double)c->rows, chance))
        return;
    if (c->both < c->inputs)
        snprintf(some, sizeof some, " (%s of them with another target)",
                 et_format_count(c->inputs - c->both).text);
    et_log(ET_LOG_WARNING,
           "%s%s of the %s %s are also training rows%s, so their scores are better than for new "
           "rows; %s",
           k->every > 1 ? "about " : "", et_format_count(c->inputs).text,
           et_format_count(c->rows).text, rows, some, cure);
}

/* Reads the rows of all tables, or, if written, their files. */
static int read_hashes(hashes *k, const et_tabular_task *task, const compared *from, int tables,
                       bool written, et_error *error)
{
    int status = ET_OK;
    k->count = 0;
    for (int i = 0; i < tables && !status; i++) {
        et_samples *samples = from[i].samples;
        k->from = &from[i];
        k->read = 0;
        status = written ? et_tabular_each_row(task, from[i].paths, add_written, k, error)
                         : et_tabular_read(samples, samples->count, add_encoded, k, error);
    }
    if (!status)
        qsort(k->row, k->count, sizeof *k->row, by_key);
    return status;
}

/* Counts the copies among the rows of each of `sets` parts (0: of all parts together). */
static int find_copies(copies *c, int sets, hashes *k, const et_tabular_task *task,
                       const compared *from, int tables, learned how, et_error *error)
{
    int64_t rows = 0;
    bool some = false;
    for (int i = 0; i < tables; i++)
        rows += from[i].samples->count;
    *k = (hashes){ .encoder = task->encoder,
                   .row = et_alloc(rows, sizeof *k->row),
                   .room = rows,
                   .every = 1 + (uint64_t)rows / ROWS_MOST };
    int status = k->row ? ET_OK : et_alloc_failed(error, "keys of rows");
    for (int written = 0; written < 2 && !status && (!written || some); written++) {
        status = read_hashes(k, task, from, tables, written, error);
        for (int i = 0; i < (sets ? sets : 1) && !status; i++) {
            c[i] = count(k, how, sets ? i + 1 : 0);
            some |= are_many(&c[i]);
        }
    }
    return status;
}

static int warn_folds(const et_tabular_task *task, const unsigned char *part, et_error *error)
{
    const bool time = et_tabular_is_named(task->options.time);
    const compared all = { task->table, &task->paths, part, 0 };
    hashes k;
    copies c;
    int status =
        find_copies(&c, 0, &k, task, &all, 1, time ? LEARNED_EARLIER : LEARNED_OTHERS, error);
    if (!status)
        warn(task, &k, &c, task->table->count, "rows that folds hold out",
             time || et_tabular_is_named(task->options.groups)
                 ? "remove the copies"
                 : "remove the copies, or keep them together with --group COLUMN");
    et_free(k.row);
    return status;
}

static void warn_sets(const et_tabular_task *task, et_samples *training, const hashes *k,
                      const copies *c)
{
    const et_tabular_options *o = &task->options;
    const et_tabular_set *sets = o->validation_data.sets.items;
    const bool evaluates = task->context.evaluates;
    for (int i = 0; i < task->validations; i++) {
        char rows[200] = "held-out rows";
        const et_strings *paths = &task->validation_paths[0];
        const int64_t more = sets ? 0 : (int64_t)paths->count - 1;
        if (task->validation_tables[0])
            snprintf(rows, sizeof rows, "rows of %.140s%s%s", sets ? sets[i].name : paths->items[0],
                     more ? " and " : "", more ? et_format_many(more, "other file").text : "");
        if (task->validation_tables[i] &&
            task->validation_tables[i]->fingerprint == training->fingerprint)
            et_log(ET_LOG_WARNING,
                   "the %s%s%s are the training data: scores of learned rows are better than for "
                   "new rows; %s",
                   evaluates ? "" : "validation data (", rows, evaluates ? "" : ")",
                   evaluates ? "name a file of other rows"
                             : "name other rows, or leave --valid out: then Etude holds out rows");
        else
            warn(task, k, &c[i], training->count, rows,
                 evaluates                    ? "name rows that were not learned"
                 : task->validation_tables[0] ? "remove them from one of both"
                 : et_tabular_is_named(o->time) || et_tabular_is_named(o->groups)
                     ? "remove the copies"
                     : "remove the copies, or keep them together with --group COLUMN");
    }
}

/* training: the rows of the files `paths`; of a table with held-out rows, the learned ones. */
static int warn_parts(const et_tabular_task *task, et_samples *training, const et_strings *paths,
                      et_error *error)
{
    const bool held = !task->validation_tables[0];
    et_arena arena = ET_ARENA_INIT;
    unsigned char *parts =
        held ? et_arena_array(&arena, (size_t)task->table->count, sizeof *parts) : NULL;
    compared from[ET_TABULAR_SETS_MAX + 1] = { { held ? task->table : training, paths, parts, 0 } };
    hashes k = { .row = NULL };
    copies c[ET_TABULAR_SETS_MAX];
    int tables = 1;
    if (arena.failed)
        return et_alloc_failed(error, "parts of rows");
    if (held) {
        memset(parts, 0, task->table->count);
        for (int64_t i = 0; i < task->validation[0]->count; i++)
            parts[task->validated[i]] = 1;
    } else
        for (; tables <= task->validations; tables++)
            from[tables] = (compared){ task->validation[tables - 1],
                                       &task->validation_paths[tables - 1], NULL, tables };
    int status = find_copies(c, task->validations, &k, task, from, tables, LEARNED_FIRST, error);
    if (!status)
        warn_sets(task, training, &k, c);
    et_free(k.row);
    et_arena_release(&arena);
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
    status = training ? warn_parts(task, training, &options.paths, error) : ET_OK;
    et_samples_close(training);
    et_arena_release(&arena);
    return status;
}

/* Warns of validation rows that are also training rows. part: [rows of task->table], of folds;
 * NULL: compares the open training and validation rows. In an evaluation of other files, reads the
 * training files by options if they have at most 256 MiB. */
static int warn_copies(const et_tabular_task *task, const unsigned char *part,
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
    return training && task->validations ? warn_parts(task, training, &task->paths, error) : ET_OK;
}

/* ---- the split ---- */

typedef struct class_reading {
    int field;
    int32_t *class; /* [rows] */
} class_reading;

static void read_classes(void *payload, const et_batch *batch, int64_t first)
{
    const class_reading *r = payload;
    memcpy(r->class + first, batch->data[r->field], batch->filled[0] * sizeof *r->class);
}

/* The rows of the table on one side. */
static int open_part(et_samples **out, et_samples *table, const unsigned char *side,
                     et_tabular_side wanted, uint32_t *which, et_error *error)
{
    int64_t count = 0;
    for (int64_t i = 0; i < table->count; i++)
        if (side[i] == wanted)
            which[count++] = (uint32_t)i;
    return choose_rows(out, table, which, count, error);
}

/* Opens the training rows: all rows (side NULL), or the rows of the table that are learned. which:
 * room for the numbers of rows. */
static int open_training(et_tabular_task *task, const unsigned char *side, uint32_t *which,
                         et_error *error)
{
    et_samples *rows = task->table ? task->table : task->validation_tables[0];
    if (task->table && task->options.train_data.mix.count)
        return open_mix(task, side, error);
    return side ? open_part(&task->training, rows, side, ET_TABULAR_LEARNED, which, error)
                : et_tabular_borrow(&task->training, rows, error);
}

static int list_validated(et_tabular_task *task, const unsigned char *side, et_error *error)
{
    et_assert(task->table && task->validation[0] && !task->validated);
    const size_t count = (size_t)task->validation[0]->count;
    task->validated = et_arena_array(&task->arena, count, sizeof *task->validated);
    if (!task->validated)
        return et_alloc_failed(error, "validated rows");
    for (int64_t row = 0, at = 0; row < task->table->count; row++)
        if (side[row] == ET_TABULAR_VALIDATED)
            task->validated[at++] = (uint32_t)row;
    return ET_OK;
}

/* Rows of one time or group are on one side, so the share may be far from the set one. */
static void tell_share(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    const int64_t held = task->validation[0]->count, rows = task->table->count;
    if (task->context.evaluates || (double)held <= 2 * o->held_out * (double)rows ||
        2 * held <= rows)
        return;
    const bool times = et_tabular_is_named(o->time);
    et_log(ET_LOG_WARNING,
           "%s of %s rows are held out, so few are left to train on: rows with the same %s are "
           "never split; name another column with %s, or validation rows with --valid",
           et_format_count(held).text, et_format_count(rows).text, times ? o->time : o->groups,
           times ? "--time" : "--group");
}

static int split(et_tabular_task *task, unsigned char *side, uint32_t *which, int32_t *class,
                 const et_row_keys *keys, et_error *error)
{
    et_assert(keys && which);
    et_samples *table = task->table;
    const et_tabular_options *o = &task->options;
    const et_tabular_splitting how = { .rows = table->count,
                                       .class = class,
                                       .group = keys->group,
                                       .time = keys->time,
                                       .folds = o->n_splits,
                                       .share = o->held_out,
                                       .seed = task->context.seed };
    int status = ET_OK;
    if (class) {
        class_reading r = { et_layout_find(&table->layout, task->target.field->name), class };
        status = et_tabular_read(table, table->count, read_classes, &r, error);
    }
    if (!status)
        status = et_tabular_parts(side, &how, error);
    if (!status && o->n_splits)
        status = warn_copies(task, side, NULL, error);
    for (int64_t i = 0; !status && i < table->count; i++)
        side[i] = (unsigned char)et_tabular_side_of(&how, side[i], o->fold < 0 ? 0 : o->fold);
    const bool each = o->n_splits && o->fold < 0; /* in turn: only whether they can be made */
    if (!status)
        status = open_training(task, each ? NULL : side, which, error);
    if (each && !task->context.evaluates)
        return status;
    if (each)
        memset(side, ET_TABULAR_VALIDATED, table->count);
    if (!status)
        status = open_part(&task->validation[0], table, side, ET_TABULAR_VALIDATED, which, error);
    task->validations = !status;
    if (!status && !o->n_splits)
        tell_share(task);
    return status ? status : list_validated(task, side, error);
}

static int hold_out(et_tabular_task *task, et_error *error)
{
    et_assert(task->table);
    const size_t rows = (size_t)task->table->count;
    if (rows < 2)
        return et_fail(
            error, ET_EDATA,
            "only %zu row: too few to hold out any; name validation_data, or set task.held_out: 0",
            rows);
    et_row_keys keys = { 0 };
    et_arena arena = ET_ARENA_INIT;
    unsigned char *side = et_arena_array(&arena, rows, sizeof *side);
    uint32_t *which = et_arena_array(&arena, rows, sizeof *which);
    int32_t *class = task->target.classes ? et_arena_array(&arena, rows, sizeof *class) : NULL;
    int status = arena.failed ? et_alloc_failed(error, "rows that are held out")
                              : et_tabular_read_keys(task, &keys, error);
    if (!status)
        status = split(task, side, which, class, &keys, error);
    et_free(keys.group);
    et_free(keys.time);
    et_arena_release(&arena);
    return status;
}

bool et_tabular_has_out_of_fold(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    return o->n_splits && o->fold < 0 && !et_tabular_has_validation_data(o) &&
           et_file_exists_in(task->context.model_dir, ET_SERIES_FOLDS);
}

/* Refuses validation files together with folds in training, and an evaluation of folds that has no
 * rows to score. */
static int check_folds(const et_tabular_task *task, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const bool group = et_tabular_is_named(o->groups), time = et_tabular_is_named(o->time);
    const char *setting = o->n_splits ? "n_splits" : group ? "groups" : time ? "time" : NULL;
    if (setting && task->validation_paths[0].count && !task->context.evaluates)
        return et_fail(error, ET_ECONFIG,
                       "task.%s splits the training rows, but validation_data names files; leave "
                       "one of them out",
                       setting);
    if (o->n_splits && o->fold < 0 && !task->validation_paths[0].count && task->context.evaluates &&
        !et_tabular_has_out_of_fold(task))
        return et_fail(error, ET_ECONFIG,
                       "the model was trained on folds, so some of its models learned each row; "
                       "name a file to evaluate");
    return ET_OK;
}

/* Whether rows of the training files are validated, here or fold by fold. */
static bool splits(const et_tabular_task *task)
{
    const et_tabular_options *o = &task->options;
    return !task->validation_tables[0] && (o->n_splits || o->held_out > 0);
}

/* ---- opening ---- */

/* Checks by checksum that the rows are those of the newest checkpoint. */
static int check_same_rows(const et_tabular_task *task, et_error *error)
{
    const uint64_t was = et_identity_data(task->context.identity);
    const uint64_t is = task->training->fingerprint;
    if (!is_trained(task) || !was || was == is)
        return ET_OK;
    const char *run = task->context.model_dir, *file = task->paths.items[0];
    if (task->options.ensemble.count)
        return et_fail(error, ET_EDATA,
                       "%s was trained on other rows than %s (checksum %s, was %s); train another "
                       "run on these",
                       run, file, et_checksum_print(is).digits, et_checksum_print(was).digits);
    return et_fail(
        error, ET_EDATA,
        "%s was trained on other rows than %s, or with other held-out rows (checksum %s, was %s). "
        "Train another run from its weights, for example: etude train %s --init %s --data %s",
        run, file, et_checksum_print(is).digits, et_checksum_print(was).digits,
        et_shell_quote(et_path_print("%s-2", run).text).text, et_shell_quote(run).text,
        et_shell_quote(file).text);
}

char et_tabular_delimiter_of(const et_value *identity)
{
    const et_value *text = et_value_get(identity, ET_IDENTITY_DELIMITER);
    const bool one = text && text->kind == ET_VALUE_STRING && text->string[0] && !text->string[1];
    return one && et_csv_may_delimit(text->string[0]) ? text->string[0] : 0;
}

/* ---- weights ---- */

typedef struct weights {
    int field;
    double sum;
} weights;

static void add_weights(void *payload, const et_batch *batch, int64_t first)
{
    weights *w = payload;
    const float *weight = batch->data[w->field];
    (void)first;
    for (int64_t i = 0; i < batch->filled[0]; i++)
        w->sum += (double)weight[i];
}

/* Checks that some row has a weight above 0; otherwise there is no loss and no score. */
static int check_weights_of(const et_tabular_task *task, et_samples *rows, const char *what,
                            et_error *error)
{
    weights w = { 0, 0 };
    if (!task->target.weight)
        return ET_OK;
    w.field = et_layout_find(&rows->layout, task->target.weight);
    int status = et_tabular_read(rows, rows->count, add_weights, &w, error);
    const bool fold = task->options.n_splits && !task->validation_tables[0];
    return status || w.sum > 0
               ? status
               : et_fail(error, ET_EDATA,
                         "all weights of the %s rows%s are 0: give some of them a weight above 0%s",
                         what, fold ? " of a fold" : "", fold ? ", or ask for fewer folds" : "");
}

/* Finds the delimiter of the first training file, or without training that of the newest
 * checkpoint. Errors in the rows of the file are reported by the reader of all rows. */
static int find_delimiter(et_tabular_task *task, et_error *error)
{
    const et_identity *identity = task->context.identity;
    if (is_trained(task) && !et_path_is_jsonl(task->paths.items[0])) {
        const et_csv_options options = et_tabular_table_options(&task->options, task->missing).csv;
        et_csv_row row;
        et_csv *csv;
        int status = et_csv_open(&csv, task->paths.items[0], &options, error);
        if (status)
            return status;
        status = et_csv_next(csv, &row, NULL); /* later readers name the mistakes */
        task->delimiter = et_csv_delimiter(csv);
        et_csv_close(csv);
        if (status == ET_ENOMEM)
            return et_alloc_failed(error, "a row");
    } else if (!is_trained(task) && identity)
        task->delimiter = et_tabular_delimiter_of(identity->values);
    task->known = et_columns_known(et_encoder_row_layout(task->encoder), task->delimiter);
    return ET_OK;
}

int et_tabular_open_rows(et_tabular_task *task, et_error *error)
{
    const et_tabular_options *o = &task->options;
    const et_table_samples_options how = et_tabular_table_options(o, task->missing);
    int status;
    if ((status = check_folds(task, error)) || (status = find_delimiter(task, error)) ||
        (is_trained(task) && (status = et_tabular_open_table(task, &task->table, &task->paths,
                                                             o->train_data.limit, error))))
        return status;
    for (int i = 0; i < ET_TABULAR_SETS_MAX && !status && task->validation_paths[i].count; i++) {
        status = et_tabular_open_table(task, &task->validation_tables[i],
                                       &task->validation_paths[i], o->validation_data.limit, error);
        if (!status)
            status = et_tabular_borrow(&task->validation[i], task->validation_tables[i], error);
        task->validations += !status;
    }
    if (status ||
        (status = splits(task) ? hold_out(task, error) : open_training(task, NULL, NULL, error)) ||
        (status = check_same_rows(task, error)) ||
        (task->table && (status = check_weights_of(task, task->training, "training", error))))
        return status;
    for (int i = 0; i < task->validations && !status; i++)
        status = check_weights_of(task, task->validation[i], "validation", error);
    if (!status && (!o->n_splits || task->validation_tables[0]))
        status = warn_copies(task, NULL, &how, error);
    return status ? status : et_tabular_warn_unlearnable(task, error);
}

void et_tabular_close_rows(et_tabular_task *task)
{
    et_samples_close(task->training);
    for (int i = 0; i < ET_TABULAR_SETS_MAX; i++)
        et_samples_close(task->validation[i]);
    et_samples_close(task->table);
    for (int i = 0; i < ET_TABULAR_SETS_MAX; i++)
        et_samples_close(task->validation_tables[i]);
}
