#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>

#include "files.h"
#include "formats/safetensors/manifest.h"

/* "ckpt-<step>.safetensors" of step bytes, and its entry. */
static et_manifest_entry make_checkpoint(void **state, int64_t step)
{
    static const char bytes[4096];
    et_manifest_entry entry = { .step = step,
                                .time = 1.7e9 + 0.25,
                                .bytes = (uint64_t)step,
                                .checksum = 0x8000000000000000u + (uint64_t)step };
    snprintf(entry.file, sizeof entry.file, "ckpt-%lld.safetensors", (long long)step);
    put_file(in(state, entry.file), bytes, (size_t)step);
    return entry;
}

static int checkpoint_is_there(void **state, int64_t step)
{
    char name[64];
    snprintf(name, sizeof name, "ckpt-%lld.safetensors", (long long)step);
    return file_is_there(in(state, name));
}

/* A directory with checkpoints of 100, 200, 300 steps. */
static void commit_three(void **state, et_manifest *m)
{
    *m = (et_manifest){ 0 };
    for (int64_t step = 100; step <= 300; step += 100) {
        const et_manifest_entry entry = make_checkpoint(state, step);
        assert_ok(et_manifest_add(m, &entry, error));
    }
    assert_ok(et_manifest_commit(m, *state, error));
}

static void test_manifest__missing_is_empty(void **state)
{
    et_manifest m;
    assert_ok(et_manifest_load(&m, *state, error));
    assert_int_equal(m.count, 0);
    et_manifest_release(&m);
    assert_ok(et_manifest_load(&m, in(state, "absent"), error));
    et_manifest_release(&m);
}

static void test_manifest__round_trip(void **state)
{
    et_manifest m, loaded;
    commit_three(state, &m);
    assert_ok(et_manifest_load(&loaded, *state, error));
    assert_int_equal(loaded.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(loaded.entries[i].step, m.entries[i].step);
        assert_string_equal(loaded.entries[i].file, m.entries[i].file);
        assert_int_equal(loaded.entries[i].bytes, m.entries[i].bytes);
        assert_int_equal(loaded.entries[i].checksum, m.entries[i].checksum);
        assert_true(loaded.entries[i].time == m.entries[i].time);
    }
    et_manifest_release(&m);
    et_manifest_release(&loaded);
}

static void test_manifest__removed_files_go(void **state)
{
    et_manifest m;
    commit_three(state, &m);
    assert_ok(et_manifest_remove(&m, 0, error));
    assert_true(checkpoint_is_there(state, 100)); /* until the manifest is durable */
    assert_ok(et_manifest_commit(&m, *state, error));
    assert_false(checkpoint_is_there(state, 100));
    assert_true(checkpoint_is_there(state, 200) && checkpoint_is_there(state, 300));
    assert_int_equal(m.leaving_count, 0);
    et_manifest_release(&m);
}

/* As a run does that goes back: what stays is the newest then. */
static void test_manifest__newest_is_removed(void **state)
{
    et_manifest m;
    commit_three(state, &m);
    assert_ok(et_manifest_remove(&m, 2, error));
    assert_ok(et_manifest_remove(&m, 1, error));
    assert_ok(et_manifest_commit(&m, *state, error));
    assert_int_equal(m.count, 1);
    assert_true(checkpoint_is_there(state, 100));
    assert_false(checkpoint_is_there(state, 200) || checkpoint_is_there(state, 300));
    et_manifest_release(&m);
}

/* A kill between the commit and the deletions: load deletes the files under "leaving". */
static void test_manifest__kill_before_deleting(void **state)
{
    et_manifest m;
    size_t length;
    commit_three(state, &m);
    assert_ok(et_manifest_remove(&m, 0, error));
    assert_ok(et_manifest_commit(&m, *state, error));
    char *committed = get_file(in(state, "checkpoint.json"), &length);
    assert_non_null(strstr(committed, "\"leaving\""));
    make_checkpoint(state, 100);
    et_manifest_release(&m);
    assert_ok(et_manifest_load(&m, *state, error));
    assert_int_equal(m.count, 2);
    assert_false(checkpoint_is_there(state, 100));
    et_manifest_release(&m);
    free(committed);
}

/* A failed commit: the old manifest and all files stay, and the next commit succeeds. */
static void test_manifest__no_room(void **state)
{
    et_manifest m, loaded;
    commit_three(state, &m);
    assert_ok(et_manifest_remove(&m, 0, error));
    for (rlim_t room = 0; room < 100; room += 9) {
        limit_files(room);
        const int status = et_manifest_commit(&m, *state, NULL);
        unlimit_files();
        assert_int_equal(status, ET_ENOSPACE);
        assert_true(checkpoint_is_there(state, 100));
        assert_ok(et_manifest_load(&loaded, *state, error));
        assert_int_equal(loaded.count, 3);
        et_manifest_release(&loaded);
    }
    assert_ok(et_manifest_commit(&m, *state, error));
    assert_false(checkpoint_is_there(state, 100));
    et_manifest_release(&m);
}

/* If the newest file is not as listed, older ones are kept. */
static void test_manifest__keeps_the_last_good_one(void **state)
{
    et_manifest m;
    commit_three(state, &m);
    put_file(in(state, "ckpt-300.safetensors"), "", 0);
    assert_ok(et_manifest_remove(&m, 0, error));
    assert_ok(et_manifest_commit(&m, *state, error));
    assert_true(checkpoint_is_there(state, 100));
    assert_int_equal(m.leaving_count, 1);
    make_checkpoint(state, 300);
    assert_ok(et_manifest_commit(&m, *state, error));
    assert_false(checkpoint_is_there(state, 100));
    et_manifest_release(&m);
}

/* A run that went back to 100 and saves 200 again: 300 goes, the new 200 stays. */
static void test_manifest__going_back(void **state)
{
    et_manifest m;
    commit_three(state, &m);
    const et_manifest_entry again = make_checkpoint(state, 200);
    assert_ok(et_manifest_add(&m, &again, error));
    assert_int_equal(m.count, 2);
    assert_ok(et_manifest_commit(&m, *state, error));
    assert_true(checkpoint_is_there(state, 200));
    assert_false(checkpoint_is_there(state, 300));
    et_manifest_release(&m);
}

static void test_manifest__every_flipped_bit(void **state)
{
    et_manifest m;
    size_t length;
    commit_three(state, &m);
    et_manifest_release(&m);
    char *bytes = get_file(in(state, "checkpoint.json"), &length);
    for (size_t bit = 0; bit < 8 * length; bit++) {
        bytes[bit / 8] ^= (char)(1 << bit % 8);
        put_file(in(state, "checkpoint.json"), bytes, length);
        if (et_manifest_load(&m, *state, NULL) != ET_EFORMAT)
            fail_msg("bit %zu of byte %zu was not found", bit % 8, bit / 8);
        bytes[bit / 8] ^= (char)(1 << bit % 8);
    }
    for (size_t cut = 0; cut < length - 1; cut++) {
        put_file(in(state, "checkpoint.json"), bytes, cut);
        assert_int_equal(et_manifest_load(&m, *state, NULL), ET_EFORMAT);
    }
    free(bytes);
}

static void test_manifest__damage_is_named(void **state)
{
    et_manifest m;
    static const char *const texts[] = { "", "x", "[]", "{}",
                                         "{\"format\": \"etude-checkpoints-1\"}" };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        put_file(in(state, "checkpoint.json"), texts[i], strlen(texts[i]));
        assert_fails(et_manifest_load(&m, *state, error), ET_EFORMAT, "checkpoint.json");
    }
}

/* Names that lead out of the directory are not believed even with a right checksum. */
static void test_manifest__hostile_names(void **state)
{
    static const char *const names[] = { "../x", "/etc/passwd", "..", ".", "a\nb", "a/b" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        et_manifest m;
        commit_three(state, &m);
        snprintf(m.entries[1].file, sizeof m.entries[1].file, "%s", names[i]);
        assert_ok(et_manifest_commit(&m, *state, error));
        et_manifest_release(&m);
        assert_fails(et_manifest_load(&m, *state, error), ET_EFORMAT, "must be a plain name");
    }
}

/* Temporary files of dead processes and of our own process are deleted, others stay. */
static void test_manifest__sweep(void **state)
{
    const pid_t child = fork();
    if (child == 0)
        _exit(0);
    assert_true(child > 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    const struct {
        long owner;
        int stays;
    } cases[] = { { child, 0 }, { getpid(), 0 }, { getppid(), 1 } };
    static const char *const others[] = { "x.tmp.", "x.tmp.12x", ".tmp.1", "x.tmp.-1", "x.tmp.0" };
    for (size_t i = 0; i < 5; i++)
        put_file(in(state, others[i]), "x", 1);
    for (size_t i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "ckpt-%zu.safetensors.tmp.%ld", i, cases[i].owner);
        put_file(in(state, name), "x", 1);
        et_manifest_sweep(*state);
        assert_int_equal(file_is_there(in(state, name)), cases[i].stays);
        unlink(in(state, name));
    }
    for (size_t i = 0; i < 5; i++)
        assert_true(file_is_there(in(state, others[i])));
}

static void test_manifest__rebuild(void **state)
{
    et_manifest m;
    commit_three(state, &m);
    et_manifest_release(&m);
    put_file(in(state, "ckpt-9999999999999999999999.safetensors"), "x", 1);
    put_file(in(state, "ckpt-12.safetensors.tmp.1"), "x", 1);
    put_file(in(state, "ckpt-.safetensors"), "x", 1);
    assert_ok(et_manifest_rebuild(&m, *state, "ckpt-", error));
    assert_int_equal(m.count, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(m.entries[i].step, 100 * (i + 1));
        assert_int_equal(m.entries[i].bytes, 100 * (i + 1));
        assert_int_equal(m.entries[i].checksum, 0);
    }
    et_manifest_release(&m);
    assert_int_equal(et_manifest_rebuild(&m, in(state, "absent"), "ckpt-", NULL), ET_ENOTFOUND);
}

#define case_in_directory(name)                                                                    \
    cmocka_unit_test_setup_teardown(name, make_directory, remove_directory)

int main(void)
{
    const struct CMUnitTest tests[] = {
        case_in_directory(test_manifest__missing_is_empty),
        case_in_directory(test_manifest__round_trip),
        case_in_directory(test_manifest__removed_files_go),
        case_in_directory(test_manifest__newest_is_removed),
        case_in_directory(test_manifest__kill_before_deleting),
        case_in_directory(test_manifest__no_room),
        case_in_directory(test_manifest__keeps_the_last_good_one),
        case_in_directory(test_manifest__going_back),
        case_in_directory(test_manifest__every_flipped_bit),
        case_in_directory(test_manifest__damage_is_named),
        case_in_directory(test_manifest__hostile_names),
        case_in_directory(test_manifest__sweep),
        case_in_directory(test_manifest__rebuild),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
