/* The reader. Rules, in the order in which they are checked (those of the public reader,
 * safetensors/src/tensor.rs, and two stricter ones marked *):
 *  (1) the file has 8 bytes; the header's length is within the limit and within the file
 *  (2) a sealed file's header equals its checksum
 *  (3) the header is one JSON object, from '{' to '}', then spaces only; no key twice
 *  (4) `__metadata__` maps strings to strings
 *  (5) a tensor has dtype, shape and data_offsets, and *nothing else; its name is *printable
 *  (6) the product of shape and element size does not overflow and equals end - begin
 *  (7) sorted by begin, each tensor begins where the one before ends, the first at 0
 *  (8) the last one ends where the file does
 *  (9) a sealed file has a checksum for each tensor and no other, and tensors are aligned
 * Nothing is allocated from a number in the file; the header's own size bounds all memory.
 *
 * Example of a header, sealed, with one tensor of 2 by 3 float32 (spaces pad it to 64):
 *   {"__metadata__":{"format":"etude-1","header_checksum":"4fbd...","checksum/w":"0c91..."},
 *    "w":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}
 *
 * The file is mapped, not read: a restore copies each tensor once, from the page cache to its
 * destination, and a command that needs one tensor of a large file reads no other. The disadvantage
 * is that a file that is truncated while it is mapped kills the reader; Etude replaces its files
 * only by rename.
 *
 * The parsed header is in an arena of the file: names and metadata that callers get point into it,
 * and are valid until close. */
#include "formats/safetensors/safetensors.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/assert.h"
#include "base/files/checksum.h"
#include "base/files/file.h"
#include "base/map.h"
#include "base/plain.h"
#include "base/stages.h"
#include "base/text/format.h"
#include "base/text/unicode.h"
#include "base/values/json.h"
#include "formats/safetensors/safetensors_private.h"

/* 0xc2 0x80 to 0xc2 0x9f are the control characters U+0080 to U+009F, which terminals obey too.
 * Returns the bytes of the control character at name; 0: none. */
static size_t control(const unsigned char *name)
{
    if (name[0] == 0xc2 && name[1] >= 0x80 && name[1] < 0xa0)
        return 2;
    return name[0] < ' ' || name[0] == 0x7f;
}

static bool has_controls(const char *name)
{
    const unsigned char *next = (const unsigned char *)name;
    while (*next && !control(next))
        next++;
    return *next;
}

static bool is_utf8(const char *name)
{
    return et_utf8_valid(name, strlen(name), NULL);
}

bool et_tensor_name_sound(const char *name)
{
    return !has_controls(name) && is_utf8(name);
}

const char *et_tensor_name_fault(const char *name)
{
    if (!is_utf8(name))
        return "is not UTF-8";
    if (has_controls(name))
        return "has control characters";
    return strcmp(name, ET_TENSOR_METADATA) ? NULL : "is reserved by the file format";
}

et_tensor_name et_tensor_name_escaped(const char *name)
{
    et_tensor_name escaped = { .text = "" };
    et_plain_copy(escaped.text, sizeof escaped.text, name);
    return escaped;
}

/* The seal begins every header that Etude writes, at byte 8 of the file:
 *
 *   {"__metadata__":{"format":"etude-1","header_checksum":"................"
 *                                                          ^ et_safetensors_seal_position
 *
 * So its digits are found without parsing JSON, and a header with any flipped bit fails before a
 * parser sees it. The seal is valid JSON, and readers of the public format ignore it. */

static const char seal[] = ET_SAFETENSORS_SEAL;

/* Whether length + header, size bytes in all, begin as a sealed file's do: byte for byte. A program
 * that read and wrote the file again will have other spaces or another order, and has unsealed it.
 */
static bool seal_found(const char *head, size_t size)
{
    return size >= et_safetensors_seal_position() + ET_CHECKSUM_DIGITS &&
           memcmp(head + ET_SAFETENSORS_PREFIX, seal, sizeof seal - 1) == 0;
}

size_t et_safetensors_seal_position(void)
{
    return ET_SAFETENSORS_PREFIX + sizeof seal - 1;
}

/* In three pieces, so that the header need not be copied to put zeros into it. */
int et_safetensors_seal_compute(uint64_t *out, const char *head, size_t size, et_error *error)
{
    static const char zeros[] = "0000000000000000";
    const size_t digits = et_safetensors_seal_position();
    const size_t rest = digits + ET_CHECKSUM_DIGITS;
    et_assert(size >= rest && sizeof zeros - 1 == ET_CHECKSUM_DIGITS);
    et_checksum_stream *stream;
    const int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    et_checksum_stream_add(stream, head, digits);
    et_checksum_stream_add(stream, zeros, ET_CHECKSUM_DIGITS);
    et_checksum_stream_add(stream, head + rest, size - rest);
    *out = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return ET_OK;
}

/* In the spelling of the public format. ORDER et_dtype. */
const char *et_safetensors_dtype_name(et_dtype dtype)
{
    static const char *const names[ET_SAFETENSORS_F16 + 1] = {
        [ET_F32] = "F32", [ET_BF16] = "BF16", [ET_I32] = "I32",
        [ET_U8] = "U8",   [ET_I8] = "I8",     [ET_SAFETENSORS_F16] = "F16",
    };
    et_assert(dtype <= ET_SAFETENSORS_F16);
    return names[dtype];
}

size_t et_safetensors_element(et_dtype dtype)
{
    return dtype == ET_SAFETENSORS_F16 ? 2 : et_dtype_size(dtype);
}

/* At most INT64_MAX, so that sums of two never overflow uint64_t. */
bool et_safetensors_bytes(uint64_t *out, et_dtype dtype, et_shape shape)
{
    et_assert(shape.rank >= 0 && shape.rank <= ET_RANK_MAX);
    uint64_t bytes = et_safetensors_element(dtype);
    for (int i = 0; i < shape.rank; i++) {
        et_assert(shape.size[i] >= 0);
        if (__builtin_mul_overflow(bytes, (uint64_t)shape.size[i], &bytes))
            return false;
    }
    *out = bytes;
    return bytes <= INT64_MAX;
}

/* Members are filled in the order of the rules. After a failure the rest is zero, which close
 * accepts. */
struct et_safetensors {
    char *path;                     /* owned; for messages */
    et_mapping mapping;             /* the whole file, read-only */
    bool borrowed;                  /* the mapping is the caller's memory */
    et_arena arena;                 /* parsed header, tensors */
    const et_value *metadata;       /* NULL: none */
    et_safetensors_tensor *tensors; /* in the order of the data */
    size_t count;                   /* of tensors */
    et_map names;                   /* to index in tensors */
    uint64_t data_position;         /* of the data in the file */
    bool sealed; /* it begins with the seal, and the header's checksum is right */
};

bool et_safetensors_is_name(const char *path)
{
    return et_path_ends(path, ET_SAFETENSORS_SUFFIX);
}

/* name: the tensor concerned, or NULL. A file of another kind looks like a damaged one, so the
 * message mentions both. */
static int bad_header(const et_safetensors *file, const char *name, const char *what,
                      et_error *error)
{
    return name == NULL
               ? et_fail(error, ET_EFORMAT, "%s: not a safetensors file, or damaged: %s",
                         file->path, what)
               : et_fail(error, ET_EFORMAT, "%s: not a safetensors file, or damaged: %s: %s",
                         file->path, name, what);
}

/*   (1) Byte by byte, so that it is little-endian on any machine. */
static int read_length(et_safetensors *file, et_error *error)
{
    const unsigned char *bytes = file->mapping.data;
    if (file->mapping.length < ET_SAFETENSORS_PREFIX)
        return bad_header(file, NULL, "shorter than 8 bytes", error);
    /* The first eight bytes, the lowest first. */
    uint64_t length = 0;
    for (int i = 0; i < ET_SAFETENSORS_PREFIX; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    if (length > ET_SAFETENSORS_HEADER_MAX)
        return bad_header(file, NULL, "the length of its header is more than 100,000,000", error);
    if (length > file->mapping.length - ET_SAFETENSORS_PREFIX)
        return bad_header(file, NULL, "it ends within its header", error);
    file->data_position = length + ET_SAFETENSORS_PREFIX;
    return ET_OK;
}

/* (2) Checked before the header is parsed, so that a flipped bit is reported as damage and not as a
 * syntax error. Text from the file is printed only if it is printable. */
static int check_seal(et_safetensors *file, et_error *error)
{
    const char *head = file->mapping.data;
    file->sealed = seal_found(head, file->data_position);
    if (!file->sealed)
        return ET_OK;
    uint64_t found;
    const int status = et_safetensors_seal_compute(&found, head, file->data_position, error);
    if (status)
        return status;
    const et_checksum_text text = et_checksum_print(found);
    const size_t position = et_safetensors_seal_position();
    if (memcmp(text.digits, head + position, ET_CHECKSUM_DIGITS) == 0)
        return ET_OK;
    /* The text in the file may have any bytes by now, including control codes for a terminal. */
    et_checksum_text said = { "" };
    for (int i = 0; i < ET_CHECKSUM_DIGITS; i++) {
        const char c = head[position + (size_t)i];
        said.digits[i] = c > ' ' && c < 0x7f ? c : '?';
    }
    return et_fail(error, ET_EFORMAT,
                   "%s: damaged: header: checksum %s, file says %s (byte 0 to %s)", file->path,
                   text.digits, said.digits,
                   et_format_count((int64_t)file->data_position - 1).text);
}

/*   (3) Trailing spaces are the padding; the parser itself refuses a key that comes twice. */
static int parse_header(const et_value **out, et_safetensors *file, et_error *error)
{
    const char *text = (const char *)file->mapping.data + ET_SAFETENSORS_PREFIX;
    size_t length = file->data_position - ET_SAFETENSORS_PREFIX;
    /* The parser gets only the object. A header that does not begin with its bracket has leading
     * spaces, which the format does not allow. */
    while (length > 0 && text[length - 1] == ' ')
        length--;
    if (length < 2 || text[0] != '{' || text[length - 1] != '}')
        return bad_header(file, NULL, "its header is not a JSON object", error);
    et_value *header;
    const int status = et_json_parse(&header, &file->arena, text, length, "header", error);
    *out = header;
    return status ? et_fail_while(error, status, status == ET_EFORMAT ? "%s: damaged" : "%s",
                                  file->path)
                  : status;
}

/* (4) Kept unchanged: checksums and callers' keys are looked up in it. */
static int check_metadata(et_safetensors *file, const et_value *metadata, et_error *error)
{
    if (metadata->kind != ET_VALUE_DICT)
        return bad_header(file, ET_TENSOR_METADATA, "is not an object", error);
    for (const et_value *v = metadata->first; v != NULL; v = v->next) {
        if (v->kind != ET_VALUE_STRING)
            return bad_header(file, ET_TENSOR_METADATA, "has entries that are not strings", error);
    }
    file->metadata = metadata;
    return ET_OK;
}

/* Types of the public format that we have not get their own message and its cure. */
static int read_dtype(et_safetensors_tensor *tensor, const et_safetensors *file,
                      const et_value *value, et_error *error)
{
    /* Every other type that the public reader knows (safetensors/src/tensor.rs, enum Dtype). */
    static const char *const others[] = { "BOOL",    "F4",      "F6_E2M3", "F6_E3M2", "F8_E5M2",
                                          "F8_E4M3", "F8_E8M0", "I16",     "U16",     "F16",
                                          "U32",     "C64",     "F64",     "I64",     "U64" };
    if (value == NULL || value->kind != ET_VALUE_STRING)
        return bad_header(file, tensor->name, "dtype is not a string", error);
    /* The types that our tensors have. */
    for (et_dtype d = 0; d < ET_DTYPE_COUNT; d++) {
        if (strcmp(value->string, et_safetensors_dtype_name(d)) == 0) {
            tensor->dtype = d;
            return ET_OK;
        }
    }
    tensor->dtype = ET_SAFETENSORS_F16;
    if (!file->sealed && strcmp(value->string, "F16") == 0)
        return ET_OK;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(value->string, others[i]) == 0)
            return et_fail(error, ET_EFORMAT,
                           "%s: %s: dtype %s is not supported; convert to F32, BF16, I32, U8 or I8",
                           file->path, tensor->name, others[i]);
    }
    return bad_header(file, tensor->name, "unknown dtype", error);
}

/* Sizes may be 0: an empty tensor. The product is checked with the offsets. */
static int read_shape(et_safetensors_tensor *tensor, const et_safetensors *file,
                      const et_value *value, et_error *error)
{
    if (value == NULL || value->kind != ET_VALUE_LIST)
        return bad_header(file, tensor->name, "shape is not a list", error);
    /* The public format has no limit of dimensions, et_shape has. */
    if (value->count > ET_RANK_MAX)
        return et_fail(error, ET_EFORMAT,
                       "%s: %s: %zu dimensions are not supported; at most %d are", file->path,
                       tensor->name, value->count, ET_RANK_MAX);
    for (const et_value *v = value->first; v != NULL; v = v->next) {
        if (v->kind != ET_VALUE_INT || v->integer < 0)
            return bad_header(file, tensor->name, "a size in shape is not a count", error);
        tensor->shape.size[tensor->shape.rank++] = v->integer;
    }
    return ET_OK;
}

/* (6) position is relative to the data for now; place_tensors adds the begin of the data. */
static int read_offsets(et_safetensors_tensor *tensor, const et_safetensors *file,
                        const et_value *value, et_error *error)
{
    const et_value *begin = value && value->kind == ET_VALUE_LIST ? value->first : NULL;
    const et_value *end = begin ? begin->next : NULL;
    if (end == NULL || value->count != 2 || begin->kind != ET_VALUE_INT ||
        end->kind != ET_VALUE_INT)
        return bad_header(file, tensor->name, "data_offsets is not a pair of counts", error);
    if (begin->integer < 0 || end->integer < begin->integer)
        return bad_header(file, tensor->name, "data_offsets decrease", error);
    uint64_t bytes;
    if (!et_safetensors_bytes(&bytes, tensor->dtype, tensor->shape))
        return bad_header(file, tensor->name, "its shape is too large", error);
    /* Both ends are not negative and end >= begin, so the difference fits. */
    if (bytes != (uint64_t)(end->integer - begin->integer))
        return bad_header(file, tensor->name, "shape and data_offsets give different lengths",
                          error);
    tensor->position = (uint64_t)begin->integer;
    tensor->bytes = bytes;
    return ET_OK;
}

/*   (5) The name comes first, for the messages of the rest. */
static int read_tensor(et_safetensors_tensor *tensor, const et_safetensors *file,
                       const et_value *value, et_error *error)
{
    if (!et_tensor_name_sound(value->key))
        return bad_header(file, NULL, "a name has control characters", error);
    tensor->name = value->key;
    if (value->kind != ET_VALUE_DICT || value->count != 3)
        return bad_header(file, tensor->name, "is not an object of dtype, shape, data_offsets",
                          error);
    int status;
    if ((status = read_dtype(tensor, file, et_value_get(value, "dtype"), error)) ||
        (status = read_shape(tensor, file, et_value_get(value, "shape"), error)))
        return status;
    return read_offsets(tensor, file, et_value_get(value, "data_offsets"), error);
}

/* The array has room for one more than there are tensors if `__metadata__` is among the keys. */
static int read_header(et_safetensors *file, et_error *error)
{
    const et_value *header = NULL;
    int status = parse_header(&header, file, error);
    if (status)
        return status;
    /* Allocates for as many tensors as the header has keys, a number bounded by its length: no
     * number in the file decides an allocation. */
    file->tensors = et_arena_array(&file->arena, header->count, sizeof *file->tensors);
    if (file->tensors == NULL)
        return et_alloc_failed(error, "a list of tensors");
    for (const et_value *v = header->first; v != NULL && !status; v = v->next) {
        if (strcmp(v->key, ET_TENSOR_METADATA) == 0)
            status = check_metadata(file, v, error);
        else
            status = read_tensor(&file->tensors[file->count++], file, v, error);
    }
    return status;
}

/* In the order of the data. Empty tensors share their position with the next one, so they come
 * before it; names decide among them, so that the order is one. */
static int by_position(const void *left, const void *right)
{
    const et_safetensors_tensor *a = left, *b = right;
    if (a->position != b->position)
        return a->position < b->position ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1; /* empty ones first */
    return strcmp(a->name, b->name);
}

/* (7) and (8) No hole, no overlap, no rest: every byte of the file belongs to one thing. */
static int locate_tensors(et_safetensors *file, et_error *error)
{
    /* The required begin of the next tensor, relative to the data. */
    uint64_t expected = 0;
    if (file->count > 0)
        qsort(file->tensors, file->count, sizeof *file->tensors, by_position);
    for (size_t i = 0; i < file->count; i++) {
        et_safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->position != expected)
            return bad_header(file, tensor->name,
                              tensor->position < expected ? "overlaps the tensor before it"
                                                          : "leaves a gap before it",
                              error);
        expected += tensor->bytes; /* both are below 2^63 */
        if (expected > file->mapping.length - file->data_position)
            return bad_header(file, tensor->name, "the file ends within it", error);
        tensor->position += file->data_position;
        tensor->data = (const char *)file->mapping.data + tensor->position;
    }
    if (expected != file->mapping.length - file->data_position)
        return bad_header(file, NULL, "bytes follow the last tensor", error);
    return ET_OK;
}

/* Names are unique already: they were keys of one object. */
static int index_names(et_safetensors *file, et_error *error)
{
    for (size_t i = 0; i < file->count; i++) {
        if (!et_map_put(&file->names, file->tensors[i].name, (int64_t)i))
            return et_alloc_failed(error, "names of tensors");
    }
    return ET_OK;
}

/*   (9) As many checksums as tensors, each of a tensor that is there; keys are unique, so each
 *       has its own. */
static int read_checksums(et_safetensors *file, et_error *error)
{
    et_assert(file->sealed && file->metadata);
    const size_t prefix = strlen(ET_SAFETENSORS_KEY_TENSOR);
    size_t found = 0;
    const et_value *v = file->metadata->first;
    for (; v != NULL; v = v->next) {
        int64_t index;
        if (strncmp(v->key, ET_SAFETENSORS_KEY_TENSOR, prefix) != 0)
            continue;
        if (!et_map_get(&file->names, v->key + prefix, &index) ||
            !et_checksum_parse(&file->tensors[index].checksum, v->string))
            return bad_header(file, ET_TENSOR_METADATA, "a checksum belongs to no tensor", error);
        found++;
    }
    /* Each key named a tensor, and no key comes twice, so equal numbers mean one for each. */
    if (found != file->count)
        return bad_header(file, ET_TENSOR_METADATA, "a tensor has no checksum", error);
    for (size_t i = 0; i < file->count; i++) {
        const et_safetensors_tensor *tensor = &file->tensors[i];
        if (tensor->position % et_dtype_size(tensor->dtype) != 0)
            return bad_header(file, tensor->name, "is not aligned", error);
    }
    return ET_OK;
}

/* A file that carries parts of a seal is ours and damaged, or changed by another program. */
static int check_unsealed(const et_safetensors *file, bool foreign, et_error *error)
{
    const char *format = et_safetensors_metadata(file, ET_SAFETENSORS_KEY_FORMAT);
    /* The seal's own key, or a format of our name: either is written by no other program. */
    const bool ours = et_safetensors_metadata(file, ET_SAFETENSORS_KEY_HEADER) != NULL ||
                      (format != NULL && strncmp(format, "etude", 5) == 0);
    if (foreign && !ours)
        return ET_OK;
    if (format != NULL && strncmp(format, "etude-", 6) == 0 &&
        strcmp(format, ET_SAFETENSORS_FORMAT) != 0)
        return et_fail(error, ET_EFORMAT,
                       "%s: written in a format that this version does not read (\"%.32s\"; it "
                       "reads \"%s\"), or damaged",
                       file->path, et_tensor_name_sound(format) ? format : "?",
                       ET_SAFETENSORS_FORMAT);
    return et_fail(error, ET_EFORMAT,
                   ours ? "%s: damaged: the header does not match its checksum"
                        : "%s: has no checksums: not written by Etude, or "
                          "damaged",
                   file->path);
}

/* The order of the rules. */
static int read_file(et_safetensors *file, bool foreign, et_error *error)
{
    static int (*const rules[])(et_safetensors *, et_error *) = { read_length, check_seal,
                                                                  read_header, locate_tensors,
                                                                  index_names };
    int status = ET_OK;
    ET_STAGES_RUN(status, rules, file, error);
    if (status)
        return status;
    return file->sealed ? read_checksums(file, error) : check_unsealed(file, foreign, error);
}

/* A file that fails is closed completely; close accepts any state. memory: NULL if path names a
 * file. */
static int open_file(et_safetensors **out, const char *path, const et_mapping *memory, bool foreign,
                     et_error *error)
{
    *out = NULL;
    et_safetensors *file = et_alloc_zero(1, sizeof *file);
    if (file == NULL || (file->path = et_strdup(path)) == NULL) {
        et_free(file);
        return et_alloc_failed(error, "a checkpoint");
    }
    file->borrowed = memory != NULL;
    if (memory != NULL)
        file->mapping = *memory;
    int status = memory != NULL ? ET_OK : et_mapping_open(&file->mapping, path, error);
    if (!status)
        status = read_file(file, foreign, error);
    if (status)
        et_safetensors_close(file);
    else
        *out = file;
    return status;
}

/* Refuses files without a seal: a checkpoint without checksums is faulty. */
int et_safetensors_open(et_safetensors **out, const char *path, et_error *error)
{
    return open_file(out, path, NULL, false, error);
}

int et_safetensors_open_memory(et_safetensors **out, const void *bytes, size_t length,
                               const char *name, et_error *error)
{
    const et_mapping memory = { bytes, length };
    return open_file(out, name, &memory, false, error);
}

int et_safetensors_open_foreign(et_safetensors **out, const char *path, et_error *error)
{
    return open_file(out, path, NULL, true, error);
}

/* The mapping is closed last, because other members point into it. */
void et_safetensors_close(et_safetensors *file)
{
    if (file == NULL)
        return;
    et_map_release(&file->names);
    et_arena_release(&file->arena);
    if (!file->borrowed)
        et_mapping_close(&file->mapping);
    et_free(file->path);
    et_free(file);
}

/* Reads the tensor's bytes, which may be the first time that they come from the disk. */
int et_safetensors_verify_tensor(const et_safetensors *file, const et_safetensors_tensor *tensor,
                                 et_error *error)
{
    if (!file->sealed)
        return ET_OK;
    const uint64_t found = et_checksum(tensor->data, tensor->bytes);
    if (found == tensor->checksum)
        return ET_OK;
    return et_fail(error, ET_EFORMAT, "%s: damaged: %s: checksum %s, file says %s (byte %s)",
                   file->path, tensor->name, et_checksum_print(found).digits,
                   et_checksum_print(tensor->checksum).digits,
                   et_format_count((int64_t)tensor->position).text);
}

/* In the order of the data, so that the disk is read front to back. */
void et_safetensors_forget(const et_safetensors *file, const et_safetensors_tensor *tensor)
{
    if (!file->borrowed)
        et_mapping_forget(&file->mapping, tensor->data, tensor->bytes);
}

int et_safetensors_unlock(const et_safetensors *file, const et_safetensors_tensor *tensor,
                          et_error *error)
{
    et_assert(!file->borrowed);
    return et_mapping_unlock(&file->mapping, tensor->data, tensor->bytes, error);
}

int et_safetensors_verify(const et_safetensors *file, et_error *error)
{
    for (size_t i = 0; i < file->count; i++) {
        const int status = et_safetensors_verify_tensor(file, &file->tensors[i], error);
        if (status)
            return status;
        et_safetensors_forget(file, &file->tensors[i]);
    }
    return ET_OK;
}

bool et_safetensors_sealed(const et_safetensors *file)
{
    return file->sealed;
}

bool et_safetensors_in_memory(const et_safetensors *file)
{
    return file->borrowed;
}

size_t et_safetensors_count(const et_safetensors *file)
{
    return file->count;
}

const et_safetensors_tensor *et_safetensors_at(const et_safetensors *file, size_t index)
{
    et_assert(index < file->count);
    return &file->tensors[index];
}

/* By a map: a restore asks for every tensor of the state. */
const et_safetensors_tensor *et_safetensors_find(const et_safetensors *file, const char *name)
{
    int64_t index;
    return et_map_get(&file->names, name, &index) ? &file->tensors[index] : NULL;
}

/* Values are strings, by rule (4). */
const char *et_safetensors_metadata(const et_safetensors *file, const char *key)
{
    const et_value *value = et_value_get(file->metadata, key);
    return value == NULL ? NULL : value->string;
}
