#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "files.h"
#include "skip.h"

#include "formats/torch/torch_file.h"
#include "formats/torch/zip_archive.h"
#include "torch_samples.h"

static const float weight[7] = { 9, 1, -2, 0.5f, 3e38f, -0.0f, 1e-40f };
static const uint16_t bias[5] = { 0x3c00, 0xc000, 0, 1, 0x7bff };

static const sample_tensor tensors[] = {
    { "a.weight", "FloatStorage", "0", 2, 3, 1, 7, weight, sizeof weight },
    { "a.bias", "HalfStorage", "1", 0, 5, 0, 5, bias, sizeof bias },
};

static bytes file;

static int open_bytes(et_torch_file **out, void **state, const bytes *from, et_error *error)
{
    put_file(in(state, "a.bin"), from->data, from->length);
    return et_torch_file_open(out, in(state, "a.bin"), error);
}

static void check_tensors(const et_torch_file *read)
{
    float values[6];
    uint16_t halves[5];
    assert_int_equal(et_torch_file_count(read), 2);
    const et_pickle_tensor *a = et_torch_file_at(read, 0), *b = et_torch_file_at(read, 1);
    assert_string_equal(a->name, "a.weight");
    assert_string_equal(b->name, "a.bias");
    assert_ok(et_torch_file_read(read, a, values, error));
    assert_memory_equal(values, weight + 1, sizeof values);
    assert_ok(et_torch_file_read(read, b, halves, error));
    assert_memory_equal(halves, bias, sizeof halves);
}

/* Built with libzip, or the case is skipped. */
static void need_zip(void **state)
{
    et_torch_file *read;
    et_error error = ET_ERROR_INIT;
    make_archive(&file, tensors, 2);
    int status = open_bytes(&read, state, &file, &error);
    if (status == ET_ECONFIG || status == ET_ENOTFOUND)
        test_skip("built without libzip");
    assert_int_equal(status, ET_OK);
    et_torch_file_close(read);
}

static void test_torch_file__archive(void **state)
{
    et_torch_file *read;
    need_zip(state);
    make_archive(&file, tensors, 2);
    assert_ok(open_bytes(&read, state, &file, error));
    check_tensors(read);
    et_torch_file_close(read);
}

static void test_torch_file__old_layout(void **state)
{
    et_torch_file *read;
    make_old(&file, tensors, 2);
    assert_ok(open_bytes(&read, state, &file, error));
    check_tensors(read);
    et_torch_file_close(read);
}

static void test_torch_file__another_file(void **state)
{
    et_torch_file *read;
    file.length = 0;
    ADD(&file, "version https://git-lfs.github.com/spec/v1\n");
    assert_fails(open_bytes(&read, state, &file, error), ET_EFORMAT,
                 "not a file of torch.save (43");
    file.length = 0;
    assert_fails(open_bytes(&read, state, &file, error), ET_EFORMAT, "not a file of torch.save (0");
    assert_fails(et_torch_file_open(&read, in(state, "none"), error), ET_ENOTFOUND, "none");
}

/* A storage of another length than the dict says is refused before it is unpacked; so is a pickle
 * that claims to be huge. */
static void test_torch_file__bombs(void **state)
{
    static bytes pickle, directory;
    static char zeros[1 << 14];
    et_torch_file *read;
    float values[6];
    need_zip(state);
    add_dict(&pickle, tensors, 1);
    file.length = 0;
    add_member(&file, &directory, "m/data.pkl", pickle.data, pickle.length, pickle.length);
    add_member(&file, &directory, "m/data/0", zeros, sizeof zeros, sizeof zeros);
    end_archive(&file, &directory, 2);
    assert_ok(open_bytes(&read, state, &file, error));
    assert_fails(et_torch_file_read(read, et_torch_file_at(read, 0), values, error), ET_EFORMAT,
                 "a.weight: ");
    et_torch_file_close(read);
    file.length = directory.length = 0;
    add_member(&file, &directory, "m/data.pkl", pickle.data, pickle.length, (size_t)1 << 31);
    end_archive(&file, &directory, 1);
    assert_fails(open_bytes(&read, state, &file, error), ET_EFORMAT, "a.bin: ");
}

/* A bit of the values: the archive's checksum is another. */
static void test_torch_file__damaged_values(void **state)
{
    static bytes whole;
    et_torch_file *read;
    float values[6];
    need_zip(state);
    make_archive(&whole, tensors, 2);
    char *at = memmem(whole.data, whole.length, tensors[0].values, tensors[0].bytes);
    assert_non_null(at);
    at[5] ^= 1;
    assert_ok(open_bytes(&read, state, &whole, error));
    assert_fails(et_torch_file_read(read, et_torch_file_at(read, 0), values, error), ET_EFORMAT,
                 "its checksum is another");
    et_torch_file_close(read);
}

/* Nothing is unpacked, so a name has no meaning for the disk. */
static void test_torch_file__names_that_lead_outside(void **state)
{
    static bytes pickle, directory;
    et_torch_file *read;
    float values[6];
    need_zip(state);
    sample_tensor outside = tensors[0];
    outside.key = "../../../etc/passwd";
    add_dict(&pickle, &outside, 1);
    file.length = 0;
    add_member(&file, &directory, "../m/data.pkl", pickle.data, pickle.length, pickle.length);
    end_archive(&file, &directory, 1);
    assert_ok(open_bytes(&read, state, &file, error));
    assert_fails(et_torch_file_read(read, et_torch_file_at(read, 0), values, error), ET_EFORMAT,
                 "not in the archive");
    et_torch_file_close(read);
}

static void test_torch_file__no_pickle(void **state)
{
    static bytes directory;
    et_torch_file *read;
    need_zip(state);
    file.length = 0;
    add_member(&file, &directory, "m/readme", "x", 1, 1);
    end_archive(&file, &directory, 1);
    assert_fails(open_bytes(&read, state, &file, error), ET_EFORMAT, "without data.pkl");
}

/* Of either layout: every byte damaged, and every length. */
static void damage(void **state, const bytes *whole)
{
    static bytes from;
    for (size_t i = 0; i < whole->length; i++)
        for (int how = 0; how < 3; how++) {
            et_torch_file *read;
            et_error error = ET_ERROR_INIT;
            char values[256];
            memcpy(from.data, whole->data, whole->length);
            from.length = how == 2 ? i : whole->length;
            from.data[i] = (char)(from.data[i] ^ (how == 0 ? 1 : how == 1 ? 0x80 : 0));
            if (open_bytes(&read, state, &from, &error)) {
                assert_non_null(strstr(error.text, "a.bin"));
                continue;
            }
            for (size_t t = 0; t < et_torch_file_count(read); t++) {
                const et_pickle_tensor *tensor = et_torch_file_at(read, t);
                if ((uint64_t)et_shape_count(tensor->shape) * tensor->storage->width <=
                    sizeof values)
                    (void)et_torch_file_read(read, tensor, values, &error);
            }
            et_torch_file_close(read);
        }
}

static void test_torch_file__every_byte_may_be_damaged(void **state)
{
    static bytes whole;
    make_old(&whole, tensors, 2);
    damage(state, &whole);
    make_archive(&whole, tensors, 2);
    damage(state, &whole);
}

int main(void)
{
    const struct CMUnitTest tests_[] = {
        cmocka_unit_test(test_torch_file__archive),
        cmocka_unit_test(test_torch_file__old_layout),
        cmocka_unit_test(test_torch_file__another_file),
        cmocka_unit_test(test_torch_file__bombs),
        cmocka_unit_test(test_torch_file__damaged_values),
        cmocka_unit_test(test_torch_file__names_that_lead_outside),
        cmocka_unit_test(test_torch_file__no_pickle),
        cmocka_unit_test(test_torch_file__every_byte_may_be_damaged),
    };
    return cmocka_run_group_tests(tests_, make_directory, remove_directory);
}
