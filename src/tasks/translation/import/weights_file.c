#include "base/assert.h"
#include "tasks/translation/import/import_private.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/dtype.h"
#include "base/files/file.h"
#include "base/vector.h"
#include "formats/marian/marian_model.h"
#include "formats/safetensors/safetensors.h"
#include "formats/torch/torch_file.h"

struct et_weights_file {
    const char *path; /* owned, as all */
    et_safetensors *safetensors;
    et_torch_file *torch;
    et_npz *npz;
    et_marian_model *marian;
    bool *seen;   /* [count] */
    size_t limit; /* elements of a tensor */
    float *room;
    void *bytes; /* of a tensor as it is stored */
    size_t room_elements, bytes_elements;
};

/* A tensor of any of them. */
typedef struct tensor {
    const char *name;
    et_shape shape;
    et_pickle_type type;
    const char *type_name; /* for messages */
    size_t number;
} tensor;

/* ---- files ---- */

static size_t count_of(const et_weights_file *file)
{
    return file->torch    ? et_torch_file_count(file->torch)
           : file->npz    ? et_npz_count(file->npz)
           : file->marian ? et_marian_model_count(file->marian)
                          : et_safetensors_count(file->safetensors);
}

static tensor tensor_at(const et_weights_file *file, size_t i)
{
    if (file->torch) {
        const et_pickle_tensor *t = et_torch_file_at(file->torch, i);
        return (tensor){ t->name, t->shape, t->storage->kind, t->storage->type, i };
    }
    if (file->npz) {
        const et_npz_array *a = et_npz_at(file->npz, i);
        const et_pickle_type kind = a->type == ET_NPZ_FLOAT32   ? ET_PICKLE_FLOAT32
                                    : a->type == ET_NPZ_FLOAT16 ? ET_PICKLE_FLOAT16
                                                                : ET_PICKLE_OTHER;
        return (tensor){ a->name, a->shape, kind, a->type_name, i };
    }
    if (file->marian) {
        const et_marian_item *m = et_marian_model_at(file->marian, i);
        const bool read = m->type != ET_MARIAN_TYPE_OTHER && m->type != ET_MARIAN_TYPE_BYTE;
        return (tensor){ m->name, m->shape, read ? ET_PICKLE_FLOAT32 : ET_PICKLE_OTHER,
                         m->type_name, i };
    }
    const et_safetensors_tensor *t = et_safetensors_at(file->safetensors, i);
    const et_pickle_type type = t->dtype == ET_F32               ? ET_PICKLE_FLOAT32
                                : t->dtype == ET_BF16            ? ET_PICKLE_BFLOAT16
                                : t->dtype == ET_SAFETENSORS_F16 ? ET_PICKLE_FLOAT16
                                                                 : ET_PICKLE_OTHER;
    return (tensor){ t->name, t->shape, type, et_dtype_name(t->dtype), i };
}

/* From the last: of two with one name it counts. */
static bool find(const et_weights_file *file, const char *name, tensor *out)
{
    for (size_t i = count_of(file); i-- > 0;) {
        *out = tensor_at(file, i);
        if (!strcmp(out->name, name))
            return true;
    }
    return false;
}

/* The usual reason is an incomplete download, unless the message already says what to do. */
static int open_safetensors(et_weights_file *file, et_error *error)
{
    et_error why = ET_ERROR_INIT;
    int status = et_safetensors_open_foreign(&file->safetensors, file->path, &why);
    const bool cure = status == ET_EFORMAT && !strstr(why.text, "; ");
    return status
               ? et_fail(error, status, "%s%s", why.text, cure ? "; download the file again" : "")
               : ET_OK;
}

static int open_file(et_weights_file *file, et_error *error)
{
    int status = file->npz || file->marian ? ET_OK
                 : et_safetensors_is_name(file->path)
                     ? open_safetensors(file, error)
                     : et_torch_file_open(&file->torch, file->path, error);
    if (status)
        return status;
    file->limit = SIZE_MAX / sizeof(double);
    file->seen = et_alloc_zero(count_of(file) + 1, sizeof *file->seen);
    return file->seen ? ET_OK : et_alloc_failed(error, count_of(file), "a file of weights");
}

/* One of npz and marian, or neither; both become the file's. */
static int make_file(et_weights_file **out, et_npz *npz, et_marian_model *marian, const char *path,
                     et_error *error)
{
    *out = NULL;
    et_weights_file *file = et_alloc_zero(1, sizeof *file);
    if (!file) {
        et_npz_close(npz);
        et_marian_model_close(marian);
        return et_alloc_failed(error, sizeof *file, "a file of weights");
    }
    file->npz = npz;
    file->marian = marian;
    file->path = path ? et_strdup(path) : NULL;
    int status = file->path ? open_file(file, error)
                            : et_alloc_failed(error, sizeof *file, "a file of weights");
    if (status)
        et_weights_file_close(file);
    else
        *out = file;
    return status;
}

int et_weights_file_open(et_weights_file **out, const char *path, et_error *error)
{
    et_assert(out && path);
    return make_file(out, NULL, NULL, path, error);
}

int et_weights_file_take_npz(et_weights_file **out, et_npz *npz, const char *path, et_error *error)
{
    et_assert(out && npz);
    return make_file(out, npz, NULL, path, error);
}

int et_weights_file_take_marian(et_weights_file **out, et_marian_model *model, const char *path,
                                et_error *error)
{
    et_assert(out && model);
    return make_file(out, NULL, model, path, error);
}

void et_weights_file_close(et_weights_file *file)
{
    if (!file)
        return;
    et_safetensors_close(file->safetensors);
    et_torch_file_close(file->torch);
    et_npz_close(file->npz);
    et_marian_model_close(file->marian);
    et_free((char *)file->path);
    et_free(file->seen);
    et_free(file->room);
    et_free(file->bytes);
    et_free(file);
}

bool et_weights_file_find(const et_weights_file *file, const char *name, et_shape *shape)
{
    et_assert(name && shape);
    tensor t;
    const bool there = find(file, name, &t);
    if (there)
        *shape = t.shape;
    return there;
}

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

const char *et_weights_file_next(const et_weights_file *file, const char *ending, size_t *i)
{
    et_assert(ending && i);
    while (*i < count_of(file)) {
        const char *name = tensor_at(file, (*i)++).name;
        if (et_path_ends(name, ending))
            return name;
    }
    return NULL;
}

const char *et_weights_file_precision(const et_weights_file *file, const char *const *except,
                                      size_t count)
{
    et_assert(except || !count);
    et_pickle_type type = ET_PICKLE_OTHER;
    for (size_t i = 0; i < count_of(file); i++) {
        const tensor t = tensor_at(file, i);
        if (is_among(t.name, except, count))
            continue;
        if (type != ET_PICKLE_OTHER && t.type != type)
            return NULL;
        type = t.type;
    }
    return type == ET_PICKLE_FLOAT16 ? "float16" : type == ET_PICKLE_BFLOAT16 ? "bfloat16" : NULL;
}

void et_weights_file_limit(et_weights_file *file, size_t elements)
{
    file->limit = elements;
}

int et_weights_file_refuse(const et_weights_file *file, const char *name, const char *what,
                           et_error *error)
{
    et_assert(name && what);
    return et_fail(error, ET_EFORMAT, "%s: %s %s", file->path, name, what);
}

/* ---- values ---- */

static int check_tensor(const et_weights_file *file, const tensor *t, et_error *error)
{
    if (t->type == ET_PICKLE_OTHER)
        return et_fail(error, ET_EFORMAT, "%s: %s has the type %s, but only %s are supported",
                       file->path, t->name, t->type_name,
                       file->marian ? "float32, float16 and intgemm8"
                                    : "float32, float16 and bfloat16");
    if ((uint64_t)et_shape_count(t->shape) > file->limit)
        return et_fail(error, ET_EFORMAT, "%s: %s has %lld elements, more than the model",
                       file->path, t->name, (long long)et_shape_count(t->shape));
    return ET_OK;
}

static float value_at(const void *bytes, size_t i, et_pickle_type type)
{
    float wide;
    uint16_t half;
    if (type == ET_PICKLE_FLOAT32) {
        memcpy(&wide, (const char *)bytes + 4 * i, sizeof wide);
        return wide;
    }
    memcpy(&half, (const char *)bytes + 2 * i, sizeof half);
    return type == ET_PICKLE_FLOAT16 ? et_half_to_float(half) : et_bf16_to_float(half);
}

static int read_values(et_weights_file *file, const tensor *t, et_error *error)
{
    const size_t count = (size_t)et_shape_count(t->shape);
    int status = check_tensor(file, t, error);
    if (!status) {
        float *room = et_vector_grow(file->room, &file->room_elements, count + 1, sizeof *room, 1);
        file->room = room ? room : file->room;
        void *bytes = file->bytes;
        if (!file->safetensors)
            bytes = et_vector_grow(bytes, &file->bytes_elements, count + 1, sizeof(float), 1);
        file->bytes = bytes ? bytes : file->bytes;
        status = room && (bytes || file->safetensors)
                     ? ET_OK
                     : et_alloc_failed(error, count * sizeof *room, "a tensor");
    }
    if (status)
        return status;
    const void *bytes = file->bytes;
    if (file->torch)
        status = et_torch_file_read(file->torch, et_torch_file_at(file->torch, t->number),
                                    file->bytes, error);
    else if (file->npz)
        status = et_npz_read(file->npz, et_npz_at(file->npz, t->number), file->bytes, error);
    else if (file->marian)
        status = et_marian_model_read(file->marian, et_marian_model_at(file->marian, t->number),
                                      file->bytes, error);
    else
        bytes = et_safetensors_at(file->safetensors, t->number)->data;
    for (size_t i = 0; i < count && !status; i++) {
        file->room[i] = value_at(bytes, i, t->type);
        if (!isfinite(file->room[i]))
            status = et_weights_file_refuse(file, t->name, "has values that are not finite", error);
    }
    return status;
}

int et_weights_file_read(et_weights_file *file, const char *name, const float **values,
                         et_error *error)
{
    et_assert(name && values);
    tensor t;
    if (!find(file, name, &t))
        return et_fail(error, ET_EFORMAT, "%s: there is no tensor %s; download the file again",
                       file->path, name);
    file->seen[t.number] = true;
    int status = read_values(file, &t, error);
    *values = file->room;
    return status;
}

int et_weights_file_need(et_weights_file *file, const char *name, et_shape shape,
                         const float **values, et_error *error)
{
    et_assert(name && values);
    et_shape there;
    char is[ET_SHAPE_TEXT_MAX], wanted[ET_SHAPE_TEXT_MAX];
    if (et_weights_file_find(file, name, &there) && !et_shape_equal(there, shape))
        return et_fail(error, ET_EFORMAT,
                       "%s: %s has the shape %s, but its settings give %s; take the settings and "
                       "the weights of one model",
                       file->path, name, et_shape_print(there, is), et_shape_print(shape, wanted));
    return et_weights_file_read(file, name, values, error);
}

/* Texts, and the multipliers of rows, which products here do not need. */
static bool is_besides(const et_weights_file *file, size_t i)
{
    if (file->marian)
        return et_marian_model_at(file->marian, i)->type == ET_MARIAN_TYPE_BYTE ||
               et_path_ends(et_marian_model_at(file->marian, i)->name, ET_MARIAN_MULTIPLIER);
    return file->npz && et_npz_at(file->npz, i)->type == ET_NPZ_BYTE;
}

int et_weights_file_check_seen(const et_weights_file *file, et_error *error)
{
    for (size_t i = 0; i < count_of(file); i++)
        if (!file->seen[i] && !is_besides(file, i))
            return et_weights_file_refuse(file, tensor_at(file, i).name,
                                          "does not belong to a supported part of a model", error);
    return ET_OK;
}
