/* The table of words of other tools: what a row names exists in this program, so that no cure is
 * stale, and each word can be reached. */
#include <stdlib.h>
#include <string.h>

#include <etude/multitask_kind.h>
#include <etude/tabular.h>

#include "base/arena.h"
#include "base/fields/fields.h"
#include "base/main.h"
#include "command/command.h"
#include "command/options/options.h"
#include "systems/modelgarden/experiment.h"
#include "tasks/translation/settings/translation_kind.h"

enum { LINES_MAX = 200 };

/* The command lines of all commands; of several with one name each. */
static et_arena arena;
static et_program program = { .name = "etude",
                              .commands = et_commands_general,
                              .synonyms = et_synonyms };
static const et_command *command[LINES_MAX];
static et_command_line line[LINES_MAX];
static et_call call[LINES_MAX];
static int lines;

static void add_commands(const et_command *row)
{
    et_error error = ET_ERROR_INIT;
    for (; row && row->name; row++) {
        if (!row->usage)
            continue;
        assert_true(lines < LINES_MAX);
        call[lines] = (et_call){ .program = &program, .command = row->name };
        command[lines] = row;
        void *options = et_arena_alloc(&arena, row->usage->size + 1);
        assert_non_null(options);
        assert_int_equal(
            et_command_line_open(&line[lines], row->usage, options, &call[lines], &arena, &error),
            ET_OK);
        lines++;
    }
}

static int open_program(void **state)
{
    static const et_task_kind *kinds[] = { &et_translation_kind, &et_tabular_kind, NULL };
    et_multitask_kind *several;
    et_error error = ET_ERROR_INIT;
    arena = (et_arena)ET_ARENA_INIT;
    assert_int_equal(et_multitask_kind_new(&several, kinds, 2, &error), ET_OK);
    kinds[2] = et_multitask_kind_row(several);
    program.kinds = kinds;
    program.count = 3;
    add_commands(et_commands_general);
    add_commands(et_translation_kind.commands);
    add_commands(et_tabular_kind.commands);
    *state = several;
    return 0;
}

static int close_program(void **state)
{
    et_multitask_kind_free(*state);
    et_arena_release(&arena);
    return 0;
}

static bool is_command(const char *name, size_t length)
{
    for (int i = 0; i < lines; i++)
        if (strlen(command[i]->name) == length && !strncmp(command[i]->name, name, length))
            return true;
    return false;
}

/* Whether a command of the row, or the one that is named, has the option. */
static bool has_option(const et_synonym *row, const char *only, const char *name, size_t length)
{
    for (int i = 0; i < lines; i++)
        if ((only ? !strcmp(command[i]->name, only) : et_synonym_is_for(row, command[i]->name)) &&
            et_command_line_find(&line[i], name, length))
            return true;
    return false;
}

static bool is_setting(const char *path, size_t length)
{
    for (int k = 0; k < 2; k++) {
        et_experiment experiment;
        et_error error = ET_ERROR_INIT;
        const char *name = program.kinds[k]->experiments->name;
        assert_int_equal(et_experiment_begin(&experiment, &program, name, &arena, &error), ET_OK);
        const et_fields *table = experiment.table;
        const et_field *field = NULL;
        for (const char *at = path; table && at < path + length;) {
            size_t part = strcspn(at, ".=");
            part = part < (size_t)(path + length - at) ? part : (size_t)(path + length - at);
            field = et_fields_find(table, at, part);
            table = field ? field->nested : NULL;
            at += part;
            if (*at == '=')
                break;
            at++;
        }
        if (field && field->kind != ET_FIELD_KIND_ONLY)
            return true;
    }
    return false;
}

/* ---- texts ---- */

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

/* All that a text names; how much it is. */
static int check_text(const et_synonym *row)
{
    static const char *const folders[] = { "tabular/", "translation/", "wmt_transformer/" };
    static const char *const groups[] = { "task.", "trainer.", "runtime." };
    char of[32] = ""; /* the command inside of backquotes */
    int found = 0, number;
    for (const char *at = row->text; *at; at++) {
        const bool starts = at == row->text || strchr(" `(", at[-1]);
        if (begins(at, "`etude ")) {
            const char *name = at + 7;
            const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz");
            if (!is_command(name, length))
                fail_msg("%s: no command %.*s", row->words, (int)length, name);
            snprintf(of, sizeof of, "%.*s", (int)length, name);
            found++;
        } else if (*at == '`' && at > row->text && at[-1] != ' ')
            *of = 0;
        if (starts && begins(at, "--")) {
            const size_t length = strspn(at + 2, "abcdefghijklmnopqrstuvwxyz-");
            if (!has_option(row, *of ? of : NULL, at + 2, length))
                fail_msg("%s: no option --%.*s", row->words, (int)length, at + 2);
            found++;
        }
        for (int i = 0; starts && i < 3; i++)
            if (begins(at, folders[i])) {
                char name[64];
                snprintf(name, sizeof name, "%.*s", (int)strspn(at, "abcdefghijklmnopqrstuvwxyz_/"),
                         at);
                if (!et_experiment_find(&program, name, &number))
                    fail_msg("%s: no experiment %s", row->words, name);
                found++;
            }
        for (int i = 0; starts && i < 3; i++)
            if (begins(at, groups[i])) {
                const size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_.0123456789");
                if (!is_setting(at, length))
                    fail_msg("%s: no setting %.*s", row->words, (int)length, at);
                found++;
            }
    }
    return found;
}

static void test_synonyms__texts(void **state)
{
    (void)state;
    for (const et_synonym *row = et_synonyms; row->of; row++) {
        assert_true(row->words && *row->words);
        assert_true(!row->text != !row->same);
        /* What Etude does not have may have no cure. */
        if (row->text && !check_text(row) && !strstr(row->text, "Etude") &&
            !strstr(row->text, "never overwritten") && !strstr(row->text, "resumed"))
            fail_msg("%s: the text names nothing: %s", row->words, row->text);
    }
}

static void test_synonyms__same(void **state)
{
    (void)state;
    for (const et_synonym *row = et_synonyms; row->of; row++)
        if (row->same &&
            (strchr(row->same, '.') ? !is_setting(row->same, strlen(row->same))
                                    : !has_option(row, NULL, row->same, strlen(row->same))))
            fail_msg("%s: there is no %s", row->words, row->same);
}

/* ---- words ---- */

/* Whether the row is the one that a command takes for a word. */
static bool reaches(const et_synonym *row, int i, const char *word, size_t length)
{
    if (!et_synonym_is_for(row, command[i]->name) || et_command_line_find(&line[i], word, length))
        return false;
    const char *option = !row->same ? NULL : strchr(row->same, '.') ? "set" : row->same;
    if (option && !et_command_line_find(&line[i], option, strlen(option)))
        return false;
    for (const et_synonym *other = et_synonyms; other != row; other++) {
        const char *target = !other->same ? NULL : strchr(other->same, '.') ? "set" : other->same;
        if (other->of == row->of && et_synonym_has(other, word, length) &&
            et_synonym_is_for(other, command[i]->name) &&
            (!target || et_command_line_find(&line[i], target, strlen(target))))
            return false;
    }
    return true;
}

static void check_word(const et_synonym *row, const char *word, size_t length)
{
    char name[64];
    int number;
    bool reached = false;
    snprintf(name, sizeof name, "%.*s", (int)length, word);
    switch (row->of) {
    case ET_SYNONYM_OPTION:
        for (int i = 0; i < lines && !reached; i++)
            reached = reaches(row, i, word, length);
        if (!reached)
            fail_msg("--%s is never reached: it is an option, or another row has it", name);
        return;
    case ET_SYNONYM_COMMAND:
        if (is_command(name, length) || et_synonym_find(&program, row->of, name) != row)
            fail_msg("%s is a command, or twice in the table", name);
        return;
    default:
        if (et_experiment_find(&program, name, &number) ||
            et_synonym_find(&program, row->of, name) != row)
            fail_msg("%s is an experiment, or twice in the table", name);
    }
}

static void test_synonyms__reached(void **state)
{
    (void)state;
    for (const et_synonym *row = et_synonyms; row->of; row++) {
        for (const char *at = row->words; *at; at += strspn(at, " ")) {
            check_word(row, at, strcspn(at, " "));
            at += strcspn(at, " ");
        }
        for (const char *at = row->commands ? row->commands : ""; *at; at += strspn(at, " ")) {
            if (!is_command(at, strcspn(at, " ")))
                fail_msg("%s: no command %s", row->words, at);
            at += strcspn(at, " ");
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_synonyms__texts),
        cmocka_unit_test(test_synonyms__same),
        cmocka_unit_test(test_synonyms__reached),
    };
    return cmocka_run_group_tests(tests, open_program, close_program);
}
