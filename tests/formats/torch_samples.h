/* Files as torch.save writes them, made without PyTorch: pickles of state dicts, zip archives
 * without compression, and the layout before PyTorch 1.6. Include after cmocka.h and files.h. */
#ifndef ETUDE_TESTS_FORMATS_TORCH_SAMPLES_H
#define ETUDE_TESTS_FORMATS_TORCH_SAMPLES_H

#include <stdbool.h>
#include <stdint.h>

#include <zlib.h>

/* Bytes that grow. */
typedef struct bytes {
    char data[1 << 18];
    size_t length;
} bytes;

static inline void add(bytes *to, const void *from, size_t length)
{
    assert_true(to->length + length <= sizeof to->data);
    memcpy(to->data + to->length, from, length);
    to->length += length;
}

/* A literal with zeros in it. */
#define ADD(to, literal) add(to, literal, sizeof(literal) - 1)

static inline void add_number(bytes *to, uint64_t number, int width)
{
    for (int i = 0; i < width; i++)
        add(to, &(char){ (char)(number >> 8 * i) }, 1);
}

static inline void add_text(bytes *to, const char *text)
{
    ADD(to, "X");
    add_number(to, strlen(text), 4);
    add(to, text, strlen(text));
}

static inline void add_int(bytes *to, int64_t number)
{
    ADD(to, "J");
    add_number(to, (uint64_t)number, 4);
}

/* "c" module, name. */
static inline void add_global(bytes *to, const char *module, const char *name)
{
    ADD(to, "c");
    add(to, module, strlen(module));
    ADD(to, "\n");
    add(to, name, strlen(name));
    ADD(to, "\n");
}

typedef struct sample_tensor {
    const char *name, *type, *key;
    int rows, columns; /* rows 0: one dimension */
    int offset, count; /* the first element, and those of the storage */
    const void *values;
    size_t bytes;
} sample_tensor;

/* _rebuild_tensor_v2(storage, offset, sizes, strides, False, OrderedDict()) */
static inline void add_tensor(bytes *to, const sample_tensor *t)
{
    add_global(to, "torch._utils", "_rebuild_tensor_v2");
    ADD(to, "((");
    add_text(to, "storage");
    add_global(to, "torch", t->type);
    add_text(to, t->key);
    add_text(to, "cpu");
    add_int(to, t->count);
    ADD(to, "tQ");
    add_int(to, t->offset);
    if (t->rows)
        add_int(to, t->rows);
    add_int(to, t->columns);
    add(to, t->rows ? "\x86" : "\x85", 1);
    if (t->rows)
        add_int(to, t->columns);
    add_int(to, 1);
    add(to, t->rows ? "\x86" : "\x85", 1);
    ADD(to, "\x89");
    add_global(to, "collections", "OrderedDict");
    ADD(to, ")RtR");
}

/* The dict, with an attribute as PyTorch gives it. */
static inline void add_dict(bytes *to, const sample_tensor *tensors, int count)
{
    ADD(to, "\x80\x02");
    add_global(to, "collections", "OrderedDict");
    ADD(to, ")Rq");
    add(to, "\0", 1);
    ADD(to, "(");
    for (int i = 0; i < count; i++) {
        add_text(to, tensors[i].name);
        add_tensor(to, &tensors[i]);
    }
    ADD(to, "u}");
    add_text(to, "_metadata");
    add_global(to, "collections", "OrderedDict");
    ADD(to, ")Rsb.");
}

/* A stored file of an archive, and its row in the archive's directory. claimed: the length that
 * both give. */
static inline void add_packed(bytes *archive, bytes *directory, const char *name, const void *data,
                              size_t length, bool deflated, size_t packed, size_t claimed)
{
    const size_t at = archive->length;
    const uint32_t crc = (uint32_t)crc32(0, data, (uInt)length);
    bytes *const both[] = { archive, directory };
    for (int i = 0; i < 2; i++) {
        if (i)
            ADD(both[i], "PK\1\2\x14\0");
        else
            ADD(both[i], "PK\3\4");
        ADD(both[i], "\x14\0\0\0");
        add_number(both[i], deflated ? 8 : 0, 2);
        ADD(both[i], "\0\0\0\0");
        add_number(both[i], crc, 4);
        add_number(both[i], packed, 4);
        add_number(both[i], claimed, 4);
        add_number(both[i], strlen(name), 2);
        ADD(both[i], "\0\0");
        if (i) {
            ADD(both[i], "\0\0\0\0\0\0\0\0\0\0");
            add_number(both[i], at, 4);
        }
        add(both[i], name, strlen(name));
    }
    add(archive, data, length);
}

static inline void add_member(bytes *archive, bytes *directory, const char *name, const void *data,
                              size_t length, size_t claimed)
{
    add_packed(archive, directory, name, data, length, false, claimed, claimed);
}

static inline void end_archive(bytes *archive, const bytes *directory, int members)
{
    const size_t at = archive->length;
    add(archive, directory->data, directory->length);
    ADD(archive, "PK\5\6\0\0\0\0");
    add_number(archive, (uint64_t)members, 2);
    add_number(archive, (uint64_t)members, 2);
    add_number(archive, directory->length, 4);
    add_number(archive, at, 4);
    ADD(archive, "\0\0");
}

/* An archive of these tensors, each with a storage of its own. */
static inline void make_archive(bytes *archive, const sample_tensor *tensors, int count)
{
    static bytes pickle, directory;
    pickle.length = directory.length = archive->length = 0;
    add_dict(&pickle, tensors, count);
    add_member(archive, &directory, "model/data.pkl", pickle.data, pickle.length, pickle.length);
    add_member(archive, &directory, "model/byteorder", "little", 6, 6);
    for (int i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "model/data/%s", tensors[i].key);
        add_member(archive, &directory, name, tensors[i].values, tensors[i].bytes,
                   tensors[i].bytes);
    }
    end_archive(archive, &directory, count + 2);
}

/* The layout before PyTorch 1.6. */
static inline void make_old(bytes *file, const sample_tensor *tensors, int count)
{
    file->length = 0;
    ADD(file, "\x80\x02\x8a\x0al\xfc\x9c"
              "F\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.\x80\x02}");
    ADD(file, "(");
    add_text(file, "protocol_version");
    add_int(file, 1001);
    add_text(file, "little_endian");
    ADD(file, "\x88u.");
    add_dict(file, tensors, count);
    ADD(file, "\x80\x02](");
    for (int i = 0; i < count; i++)
        add_text(file, tensors[i].key);
    ADD(file, "e.");
    for (int i = 0; i < count; i++) {
        add_number(file, (uint64_t)tensors[i].count, 8);
        add(file, tensors[i].values, tensors[i].bytes);
    }
}

#endif
