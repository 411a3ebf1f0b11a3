/* Flattens a table: the rows of groups and of the program's kinds of task replace the row that
 * names them. Options with the same name in several kinds share one slot. The slot takes as many
 * words as any of the kinds, and its help has a part for each. If the line names an experiment,
 * only the options of its kind are used. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/fields/fields.h"
#include "command/options/named_run.h"
#include "command/options/options.h"
#include "command/options/sets.h"
#include "engine/exec/device.h"
#include "engine/optim/options.h"

const et_option et_option_general[] = {
    ET_OPTION_SETS("steps", "N", "number of updates; 2ep: two passes over the data",
                   .settings = { "trainer.train_steps" }),
    ET_OPTION_SETS("epochs", "N", "number of passes over the data, instead of --steps",
                   .settings = { "trainer.train_epochs" }),
    ET_OPTION_SETS("metric", "NAME",
                   "validation value that chooses the best checkpoint, such as auc or "
                   "validation_auc (the same)",
                   .settings = { "trainer.best_checkpoint_eval_metric" }),
    ET_OPTION_SETS("lr", "RATE", "peak learning rate",
                   .settings = { "trainer.optimizer_config.learning_rate.peak" }),
    ET_OPTION_SETS("weight-decay", "RATE", "weight decay of the optimizer",
                   .settings = { "trainer.optimizer_config.optimizer.adamw.weight_decay_rate",
                                 ("trainer.optimizer_config.optimizer.adamw_experimental."
                                  "weight_decay"),
                                 "trainer.optimizer_config.optimizer.lamb.weight_decay_rate",
                                 "trainer.optimizer_config.optimizer.lars.weight_decay_rate",
                                 "trainer.optimizer_config.optimizer.muon.weight_decay_rate" }),
    ET_OPTION_SETS("patience", "N", "stop after N validations in a row without a better value",
                   .settings = { "trainer.early_stopping.patience" }),
    ET_OPTION_SETS("freeze", "PATTERN",
                   "do not train parameters whose names contain a match of this regular "
                   "expression, such as encoder or 'embedding|norm'",
                   .settings = { ET_SETTING_FROZEN }, .list = true),
    ET_OPTION_SETS("seed", "N", "seed of initial values, data order and dropout",
                   .settings = { "runtime.seed" }),
    ET_OPTION_END,
};

#define WORDS_MOST 1000 /* of a list */

const char *const et_option_precisions[] = { "float32", "bfloat16", "int8", NULL };

#define NO_GPU "Etude does not use a GPU"

const et_option et_option_processors[] = {
    { .field = { .name = "threads",
                 .kind = ET_FIELD_KIND_INT,
                 .minimum = 1,
                 .maximum = ET_DEVICE_THREADS_MAX,
                 .help = "number of threads (default: OMP_NUM_THREADS, or all processors); results "
                         "do not depend on it" },
      .value = "N",
      .form = ET_OPTION_FORM_THREADS },
    { .field = ET_FIELD_ONLY("device", "cpu", NO_GPU), .value = "cpu" },
    ET_OPTION_END,
};

et_option_name et_option_typed(const et_option *row)
{
    et_option_name name;
    snprintf(name.text, sizeof name.text, "%s", row->field.name);
    for (char *at = name.text; *at; at++)
        *at = *at == '_' ? '-' : *at;
    return name;
}

bool et_option_is_refused(const et_option *row)
{
    return row->field.kind == ET_FIELD_KIND_ONLY && row->field.default_string &&
           !strcmp(row->field.default_string, "null");
}

int et_option_names(const char *value)
{
    int count = 0;
    for (const char *at = value ? value : ""; *at; count++) {
        at += strcspn(at, " ");
        at += strspn(at, " ");
    }
    return count;
}

bool et_option_ends_in(const char *word, const char *endings)
{
    const size_t whole = strlen(word);
    for (const char *at = endings; at && *at;) {
        const size_t length = strcspn(at, " ");
        if (whole > length && !strncmp(word + whole - length, at, length))
            return true;
        at += length;
        at += strspn(at, " ");
    }
    return false;
}

et_option_slot *et_command_line_find(const et_command_line *line, const char *name, size_t length)
{
    et_assert(line->count >= 0 && name);
    for (int i = 0; i < line->count; i++) {
        const et_option *row = line->slots[i].row;
        if (!et_option_is_plain(row) &&
            (et_same_name(name, length, row->field.name) || et_same_name(name, length, row->alias)))
            return &line->slots[i];
    }
    return NULL;
}

/* The name of a value in help: as given, its choices, or a word for its kind. */
static const char *value_of(const et_option *row, et_arena *arena)
{
    static const char *const kinds[] = {
        [ET_FIELD_KIND_INT] = "n", [ET_FIELD_KIND_FLOAT] = "x", [ET_FIELD_KIND_STRING] = "text"
    };
    const et_field_kind kind = row->field.kind;
    const char *const *choice = row->field.choices;
    if (row->value || row->form == ET_OPTION_FORM_SETS || kind == ET_FIELD_KIND_BOOL)
        return row->value;
    if (!choice)
        return kind < sizeof kinds / sizeof kinds[0] && !et_option_is_plain(row) ? kinds[kind]
                                                                                 : NULL;
    const char *text = *choice++;
    while (text && *choice)
        text = et_arena_printf(arena, "%s|%s", text, *choice++);
    return text;
}

/* ---- words ---- */

/* Words that one use of the option takes. */
static int weight(const et_option *row)
{
    const char *dots = row->value ? strstr(row->value, "...") : NULL;
    return dots && dots > row->value && dots[-1] != ',' ? WORDS_MOST : et_option_names(row->value);
}

/* Lets the option take the words of one more row of its name. */
static void allow(et_option_slot *slot, const et_option *row)
{
    const bool list = row->value && strstr(row->value, ",...");
    const bool files =
        row->form == ET_OPTION_FORM_FILES || (list && !strncmp(row->value, "FILE", 4));
    const int most = list && files ? WORDS_MOST : weight(row);
    slot->most = most > slot->most ? most : slot->most;
    slot->files |= files;
    if (row->sets && row->sets->pairs)
        slot->least = et_option_names(row->value);
    if (row->sets && (row->sets->pairs || row->sets->endings))
        slot->alone = ".csv .csv.gz .tsv .tsv.gz";
}

/* ---- rows ---- */

static bool has_member(const et_option *row)
{
    return row->form != ET_OPTION_FORM_THREADS && row->form != ET_OPTION_FORM_REFUSED &&
           row->form != ET_OPTION_FORM_SETS && row->field.kind != ET_FIELD_KIND_ONLY;
}

static et_option_slot *add_row(et_command_line *line, const et_option *row, void *base)
{
    et_option_slot *slot = &line->slots[line->count++];
    *slot = (et_option_slot){
        .row = row, .base = base, .value = value_of(row, line->arena), .help = row->field.help
    };
    if (has_member(row))
        slot->member = et_field_member(&row->field, base);
    if (et_option_takes_words(row))
        allow(slot, row);
    if (!line->keeps)
        switch (slot->row->form) {
        case ET_OPTION_FORM_VALUE:
        case ET_OPTION_FORM_FLAG:
        case ET_OPTION_FORM_TIME:
            if (slot->row->field.kind != ET_FIELD_KIND_ONLY)
                et_field_reset(&slot->row->field, slot->base);
            break;
        default: /* zeros */
            break;
        }
    return slot;
}

static void add_sets(et_command_line *line, et_option_settings *settings, const et_option *rows,
                     const char *kind)
{
    for (const et_option *row = rows; row && row->field.name; row++) {
        const char *name = row->field.name;
        et_option_slot *slot = et_command_line_find(line, name, strlen(name));
        if (slot) {
            /* Joins another row with the same name to a slot. The slot's help has a part for each
             * kind, and the row with the most words becomes the slot's row. kind: the kind of the
             * row; NULL: all kinds. */
            const bool same = !strcmp(slot->value ? slot->value : "", row->value ? row->value : "");
            if (kind && strcmp(slot->row->field.help, row->field.help) != 0)
                slot->help = et_arena_printf(
                    line->arena, "%s; of a %s task: %s%s%s", slot->help ? slot->help : "", kind,
                    same || !row->value ? "" : row->value, same ? "" : ", ", row->field.help);
            allow(slot, row);
            if (weight(row) > weight(slot->row)) {
                slot->row = row;
                slot->value = row->value;
            }
            continue;
        }
        slot = add_row(line, row, NULL);
        slot->member = &settings->words[settings->count];
        settings->names[settings->count++] = name;
    }
}

static int count_rows(const et_option *rows, const et_program *program)
{
    int count = 0;
    for (const et_option *row = rows; row && row->field.name; row++) {
        count++;
        if (row->form == ET_OPTION_FORM_GROUP)
            count += count_rows(row->rows, program);
        for (int i = 0; row->form == ET_OPTION_FORM_KINDS && i < program->count; i++)
            count += count_rows(program->kinds[i]->options, program);
        if (row->form == ET_OPTION_FORM_KINDS)
            count += count_rows(et_option_general, program);
    }
    return count;
}

/* row: of form KINDS. If memory is out, the arena remembers it. */
static void add_kinds(et_command_line *line, const et_option *row, et_option_settings *settings)
{
    const et_program *program = line->call->program;
    const et_task_kind *kind = et_kind_named(line->call);
    const et_option only[] = { *row, ET_OPTION_END };
    const size_t most = (size_t)count_rows(only, program);
    settings->names = et_arena_array(line->arena, most, sizeof *settings->names);
    settings->words = et_arena_array(line->arena, most, sizeof *settings->words);
    if (line->arena->failed)
        return;
    for (int i = 0; i < program->count; i++)
        if (!kind || kind == program->kinds[i])
            add_sets(line, settings, program->kinds[i]->options, program->kinds[i]->name);
    add_sets(line, settings, et_option_general, NULL);
}

static void add_rows(et_command_line *line, const et_option *rows, void *base)
{
    for (const et_option *row = rows; row->field.name; row++) {
        void *member = (char *)base + row->field.offset;
        if (row->form == ET_OPTION_FORM_GROUP)
            add_rows(line, row->rows, member);
        else if (row->form == ET_OPTION_FORM_KINDS)
            add_kinds(line, row, member);
        else
            add_row(line, row, base);
    }
}

int et_command_line_open(et_command_line *out, const et_usage *usage, void *options,
                         const et_call *call, et_arena *arena, et_error *error)
{
    et_assert(usage && usage->options && call);
    const int count = count_rows(usage->options, call->program);
    *out = (et_command_line){ .call = call, .arena = arena, .keeps = !usage->size };
    out->slots = et_arena_array(arena, (size_t)count + 1, sizeof *out->slots);
    if (!out->slots)
        return et_alloc_failed(error, "options");
    if (usage->size)
        memset(options, 0, usage->size);
    add_rows(out, usage->options, options);
    et_assert(out->count <= count);
    return arena->failed ? et_alloc_failed(error, "options") : ET_OK;
}

/* ---- decisions ---- */

const et_option et_decision_options[] = {
    ET_OPTION_REAL(et_decision_args, threshold, "threshold", "T", 1e-9, 1,
                   "for two classes: predict the positive one if its probability is at least T"),
    ET_OPTION_LIST(et_decision_args, costs, "costs", "CLASS:PREDICTION=COST,...",
                   "costs of errors (others: 1); predict the class with the least expected cost"),
    ET_OPTION_END,
};

bool et_decision_is_given(const et_decision_args *args)
{
    return args->threshold > 0 || args->costs.count;
}
