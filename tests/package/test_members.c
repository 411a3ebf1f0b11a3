/* Shared code of the cases in members_*.c, and a directory for all of them. */
#include "members.h"

#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

static et_error failure = ET_ERROR_INIT;
et_error *const error = &failure;

void ok(int status)
{
    if (status)
        fail_msg("%d: %s", status, failure.text);
}

double number(const et_value *dict, const char *key)
{
    double value;
    ok(et_value_read_float(dict, key, &value, error));
    return value;
}

static float x[ROWS * 2];
static int32_t labels[ROWS];

int open_rows(et_source **out, bool training)
{
    const et_array arrays[] = { { "x", ET_F32, x, et_shape_1(2) },
                                { "labels", ET_I32, labels, et_shape_scalar() } };
    const et_batches_options options = { .repeat = training, .capacity = { BATCH } };
    et_samples *samples;
    for (int i = 0; i < ROWS; i++) {
        labels[i] = i % CLASSES;
        x[2 * i] = (float)(labels[i] - 1);
        x[2 * i + 1] = (float)i / ROWS;
    }
    int status = et_arrays_open(&samples, arrays, 2, ROWS, error);
    return status ? status : et_batches_open(out, samples, &options, error);
}

static char home[4096];

static int set_up(void **state)
{
    char directory[] = "members.XXXXXX";
    (void)state;
    return !getcwd(home, sizeof home) || !mkdtemp(directory) || chdir(directory);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static int tear_down(void **state)
{
    char here[4096];
    (void)state;
    return !getcwd(here, sizeof here) || chdir(home) ||
           nftw(here, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members__trainer),    cmocka_unit_test(test_members__task_by_hand),
        cmocka_unit_test(test_members__translator), cmocka_unit_test(test_members__translation),
        cmocka_unit_test(test_members__loop),       cmocka_unit_test(test_members__tables),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
