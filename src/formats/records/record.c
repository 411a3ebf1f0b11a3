/* TFRecord framing (tensorflow/core/lib/io/record_writer.cc), data sets of records, and logs.
 *
 * check() is the only place that reads a frame. In a data set every fault is an error. A scan of a
 * log, which may be open for writing or end where its writer was killed, distinguishes an end from
 * damage:
 *
 *   no bytes left                                end
 *   fewer than a head, or all zeros to the end   torn: the scan stops before it
 *   length beyond the end of the file            torn
 *   a crc is wrong, no sound record follows      torn
 *   a crc is wrong, a sound record follows       damage
 *
 * A power loss leaves any of the first three: the file has its new length, but only some of its new
 * bytes. Bytes that were synced have records after them sooner or later.
 *
 * A length with a right checksum may still be any number in a malicious file: memory grows with the
 * bytes that really exist, never with a length. */
#include "formats/records/record.h"

#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text/format.h"
#include "base/vector.h"
#include "formats/records/packed.h"

/* ---- checksums ---- */

/* The CRC of a byte string as in RFC 3720, appendix B.4: start with all ones, feed bytes low bit
 * first, invert at the end. The instruction `crc32` computes the same without the inversions. */

/* table[i]: the CRC register after shifting out byte i. It follows from the reflected polynomial
 * p = 0x82f63b78: eight times crc = crc & 1 ? crc >> 1 ^ p : crc >> 1, beginning at i.  */
static const uint32_t table[256] = {
    0x00000000, 0xf26b8303, 0xe13b70f7, 0x1350f3f4, 0xc79a971f, 0x35f1141c, 0x26a1e7e8, 0xd4ca64eb,
    0x8ad958cf, 0x78b2dbcc, 0x6be22838, 0x9989ab3b, 0x4d43cfd0, 0xbf284cd3, 0xac78bf27, 0x5e133c24,
    0x105ec76f, 0xe235446c, 0xf165b798, 0x030e349b, 0xd7c45070, 0x25afd373, 0x36ff2087, 0xc494a384,
    0x9a879fa0, 0x68ec1ca3, 0x7bbcef57, 0x89d76c54, 0x5d1d08bf, 0xaf768bbc, 0xbc267848, 0x4e4dfb4b,
    0x20bd8ede, 0xd2d60ddd, 0xc186fe29, 0x33ed7d2a, 0xe72719c1, 0x154c9ac2, 0x061c6936, 0xf477ea35,
    0xaa64d611, 0x580f5512, 0x4b5fa6e6, 0xb93425e5, 0x6dfe410e, 0x9f95c20d, 0x8cc531f9, 0x7eaeb2fa,
    0x30e349b1, 0xc288cab2, 0xd1d83946, 0x23b3ba45, 0xf779deae, 0x05125dad, 0x1642ae59, 0xe4292d5a,
    0xba3a117e, 0x4851927d, 0x5b016189, 0xa96ae28a, 0x7da08661, 0x8fcb0562, 0x9c9bf696, 0x6ef07595,
    0x417b1dbc, 0xb3109ebf, 0xa0406d4b, 0x522bee48, 0x86e18aa3, 0x748a09a0, 0x67dafa54, 0x95b17957,
    0xcba24573, 0x39c9c670, 0x2a993584, 0xd8f2b687, 0x0c38d26c, 0xfe53516f, 0xed03a29b, 0x1f682198,
    0x5125dad3, 0xa34e59d0, 0xb01eaa24, 0x42752927, 0x96bf4dcc, 0x64d4cecf, 0x77843d3b, 0x85efbe38,
    0xdbfc821c, 0x2997011f, 0x3ac7f2eb, 0xc8ac71e8, 0x1c661503, 0xee0d9600, 0xfd5d65f4, 0x0f36e6f7,
    0x61c69362, 0x93ad1061, 0x80fde395, 0x72966096, 0xa65c047d, 0x5437877e, 0x4767748a, 0xb50cf789,
    0xeb1fcbad, 0x197448ae, 0x0a24bb5a, 0xf84f3859, 0x2c855cb2, 0xdeeedfb1, 0xcdbe2c45, 0x3fd5af46,
    0x7198540d, 0x83f3d70e, 0x90a324fa, 0x62c8a7f9, 0xb602c312, 0x44694011, 0x5739b3e5, 0xa55230e6,
    0xfb410cc2, 0x092a8fc1, 0x1a7a7c35, 0xe811ff36, 0x3cdb9bdd, 0xceb018de, 0xdde0eb2a, 0x2f8b6829,
    0x82f63b78, 0x709db87b, 0x63cd4b8f, 0x91a6c88c, 0x456cac67, 0xb7072f64, 0xa457dc90, 0x563c5f93,
    0x082f63b7, 0xfa44e0b4, 0xe9141340, 0x1b7f9043, 0xcfb5f4a8, 0x3dde77ab, 0x2e8e845f, 0xdce5075c,
    0x92a8fc17, 0x60c37f14, 0x73938ce0, 0x81f80fe3, 0x55326b08, 0xa759e80b, 0xb4091bff, 0x466298fc,
    0x1871a4d8, 0xea1a27db, 0xf94ad42f, 0x0b21572c, 0xdfeb33c7, 0x2d80b0c4, 0x3ed04330, 0xccbbc033,
    0xa24bb5a6, 0x502036a5, 0x4370c551, 0xb11b4652, 0x65d122b9, 0x97baa1ba, 0x84ea524e, 0x7681d14d,
    0x2892ed69, 0xdaf96e6a, 0xc9a99d9e, 0x3bc21e9d, 0xef087a76, 0x1d63f975, 0x0e330a81, 0xfc588982,
    0xb21572c9, 0x407ef1ca, 0x532e023e, 0xa145813d, 0x758fe5d6, 0x87e466d5, 0x94b49521, 0x66df1622,
    0x38cc2a06, 0xcaa7a905, 0xd9f75af1, 0x2b9cd9f2, 0xff56bd19, 0x0d3d3e1a, 0x1e6dcdee, 0xec064eed,
    0xc38d26c4, 0x31e6a5c7, 0x22b65633, 0xd0ddd530, 0x0417b1db, 0xf67c32d8, 0xe52cc12c, 0x1747422f,
    0x49547e0b, 0xbb3ffd08, 0xa86f0efc, 0x5a048dff, 0x8ecee914, 0x7ca56a17, 0x6ff599e3, 0x9d9e1ae0,
    0xd3d3e1ab, 0x21b862a8, 0x32e8915c, 0xc083125f, 0x144976b4, 0xe622f5b7, 0xf5720643, 0x07198540,
    0x590ab964, 0xab613a67, 0xb831c993, 0x4a5a4a90, 0x9e902e7b, 0x6cfbad78, 0x7fab5e8c, 0x8dc0dd8f,
    0xe330a81a, 0x115b2b19, 0x020bd8ed, 0xf0605bee, 0x24aa3f05, 0xd6c1bc06, 0xc5914ff2, 0x37faccf1,
    0x69e9f0d5, 0x9b8273d6, 0x88d28022, 0x7ab90321, 0xae7367ca, 0x5c18e4c9, 0x4f48173d, 0xbd23943e,
    0xf36e6f75, 0x0105ec76, 0x12551f82, 0xe03e9c81, 0x34f4f86a, 0xc69f7b69, 0xd5cf889d, 0x27a40b9e,
    0x79b737ba, 0x8bdcb4b9, 0x988c474d, 0x6ae7c44e, 0xbe2da0a5, 0x4c4623a6, 0x5f16d052, 0xad7d5351,
};

/* crc32c("123456789") = 0xe3069283, the check value of RFC 3720's polynomial. */
uint32_t et_crc32c_table(const void *bytes, size_t length)
{
    et_assert(bytes || length == 0);
    const unsigned char *next = bytes;
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < length; i++)
        crc = table[(crc ^ next[i]) & 0xff] ^ (crc >> 8);
    return ~crc;
}

/* Without the instruction, or on another processor, the table gives the same, more slowly; event
 * files are small. */
#if defined(__x86_64__)

/* Uses builtins instead of intrinsics, because x86 headers stay in kernel/. Eight bytes an
 * instruction, then the rest one by one; a word is read by memcpy, so bytes may have any alignment.
 */
__attribute__((target("sse4.2"))) static uint32_t crc32c_instruction(const void *bytes,
                                                                     size_t length)
{
    const unsigned char *next = bytes;
    uint64_t crc = 0xffffffffu;
    for (; length >= 8; length -= 8, next += 8) {
        uint64_t word;
        memcpy(&word, next, sizeof word);
        crc = __builtin_ia32_crc32di(crc, word);
    }
    uint32_t tail = (uint32_t)crc;
    for (; length > 0; length--, next++)
        tail = __builtin_ia32_crc32qi(tail, *next);
    return ~tail;
}

uint32_t et_crc32c(const void *bytes, size_t length)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_instruction(bytes, length)
                                            : et_crc32c_table(bytes, length);
}

#else

uint32_t et_crc32c(const void *bytes, size_t length)
{
    return et_crc32c_table(bytes, length);
}

#endif

/* As in TensorFlow, tensorflow/core/lib/hash/crc32c.h. */
uint32_t et_crc32c_mask(uint32_t crc)
{
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

/* ---- records ---- */

/* Initial memory of a reader, doubled as bytes arrive. */
#define BUFFER_FIRST ((size_t)64 << 10)

/* An unsigned number of count bytes, the lowest first, at any address. */
static uint64_t get_little(const unsigned char *bytes, int count)
{
    uint64_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint64_t)bytes[i] << (8 * i);
    return value;
}

static void put_little(unsigned char *bytes, int count, uint64_t value)
{
    for (int i = 0; i < count; i++)
        bytes[i] = (unsigned char)(value >> (8 * i));
}

/* record.h says why it is masked. */
static uint32_t masked_crc(const void *bytes, size_t length)
{
    return et_crc32c_mask(et_crc32c(bytes, length));
}

et_record_frame et_record_frame_of(const void *data, size_t length)
{
    et_record_frame frame = { { 0 }, { 0 } };
    put_little(frame.head, 8, length);
    put_little(frame.head + 8, 4, masked_crc(frame.head, 8));
    put_little(frame.tail, ET_RECORD_TAIL, masked_crc(data, length));
    return frame;
}

typedef enum fault { SOUND, BAD_LENGTH, TOO_LONG, CUT, BAD_DATA } fault;

/* Checks the record at `record`, of which `left` bytes are available. *length, of its data, is set
 * if the whole head is available and valid. */
static fault check(const unsigned char *record, uint64_t left, uint64_t most, uint64_t *length)
{
    *length = 0;
    if (left < ET_RECORD_HEAD)
        return CUT;
    if (get_little(record + 8, 4) != masked_crc(record, 8))
        return BAD_LENGTH;
    *length = get_little(record, 8);
    if (*length > most)
        return TOO_LONG;
    if (left < ET_RECORD_OVERHEAD || *length > left - ET_RECORD_OVERHEAD)
        return CUT;
    const unsigned char *data = record + ET_RECORD_HEAD;
    const uint64_t checksum = get_little(data + *length, ET_RECORD_TAIL);
    return checksum == masked_crc(data, *length) ? SOUND : BAD_DATA;
}

/* ---- records of data sets ---- */

int et_record_blame(const et_record_position *position, int status, et_error *error)
{
    return et_fail_while(error, status, "%s: record %s at byte %s%s", position->path,
                         et_format_count(position->number).text,
                         et_format_count((int64_t)position->offset).text,
                         position->gzip ? " of its unpacked data" : "");
}

/* The record at that position has the fault. */
static int refuse(const et_record_position *position, fault found, et_error *error)
{
    static const char *const texts[] = {
        [BAD_LENGTH] = ("the checksum of its length does not match: the file is damaged or not a "
                        "TFRecord file; copy it again, or name another"),
        [TOO_LONG] = "a length of 2 GiB or more: write the file again, with smaller records",
        [CUT] = "the file ends within the record: copy the file again",
        [BAD_DATA] = "the checksum of its data does not match: the file is damaged; copy it again",
    };
    return et_record_blame(position, et_fail(error, ET_EFORMAT, "%s", texts[found]), error);
}

int et_record_at(const et_record_position *position, const void *bytes, size_t size,
                 const void **data, size_t *length, et_error *error)
{
    et_assert(position->offset < size);
    const unsigned char *record = (const unsigned char *)bytes + position->offset;
    uint64_t count;
    const fault found = check(record, size - position->offset, ET_RECORD_DATA_MAX, &count);
    *data = record + ET_RECORD_HEAD;
    *length = (size_t)count;
    return found == SOUND ? ET_OK : refuse(position, found, error);
}

/* ---- data sets, written ---- */

static const struct {
    const char *name;
    bool gzip;
} file_types[] = {
    { "tfrecord", false },
    { "tfrecords", false },
    { "tfrecord_compressed", true },
    { "tfrecords_gzip", true },
};
#define FILE_TYPES (sizeof file_types / sizeof *file_types)

static int find_file_type(bool *gzip, const char *name, et_error *error)
{
    *gzip = false;
    for (size_t i = 0; name && i < FILE_TYPES; i++)
        if (!strcasecmp(name, file_types[i].name)) {
            *gzip = file_types[i].gzip;
            return ET_OK;
        }
    if (!name)
        return ET_OK;
    if (!strcasecmp(name, "riegeli"))
        return et_fail(error, ET_ECONFIG,
                       "file type %s: Riegeli has no C library; use tfrecord, or "
                       "tfrecord_compressed for small files",
                       name);
    return et_fail(
        error, ET_ECONFIG,
        "unknown file type %s (known: tfrecord, tfrecords, tfrecord_compressed, tfrecords_gzip)",
        *name ? name : "\"\"");
}

struct et_record_writer {
    et_packed_writer *file;
    bool failed; /* a write did: the file is not to be kept */
};

int et_record_writer_open(et_record_writer **out, const char *path, const char *file_type,
                          et_error *error)
{
    bool gzip;
    int status;
    if ((status = et_path_check(path, error)) || (status = find_file_type(&gzip, file_type, error)))
        return status;
    et_record_writer *writer;
    if (ET_ALLOC_ZERO(writer, 1, "a record file", error))
        return ET_ENOMEM;
    status = et_packed_writer_open(&writer->file, path, gzip, error);
    if (status) {
        et_free(writer);
        return status;
    }
    *out = writer;
    return ET_OK;
}

int et_record_write(et_record_writer *writer, const void *bytes, size_t length, et_error *error)
{
    et_assert(bytes || length == 0);
    if (length > ET_RECORD_DATA_MAX)
        return et_fail(error, ET_EDATA,
                       "a record of %zu bytes is too large; write records of less than 2 GiB",
                       length);
    const et_record_frame frame = et_record_frame_of(bytes, length);
    int status = et_packed_write(writer->file, frame.head, ET_RECORD_HEAD, error);
    if (!status && length)
        status = et_packed_write(writer->file, bytes, length, error);
    if (!status)
        status = et_packed_write(writer->file, frame.tail, ET_RECORD_TAIL, error);
    writer->failed |= status != ET_OK;
    return status;
}

int et_record_write_example(et_record_writer *writer, et_example_builder *example, et_error *error)
{
    const void *bytes;
    size_t length;
    int status = et_example_serialized(example, &bytes, &length, error);
    return status ? status : et_record_write(writer, bytes, length, error);
}

int et_record_writer_close(et_record_writer *writer, et_error *error)
{
    if (writer->failed) {
        et_record_writer_abandon(writer);
        return et_fail(error, ET_EIO, "cannot write a record: no file is open");
    }
    int status = et_packed_writer_end(writer->file, ET_OK, error);
    et_free(writer);
    return status;
}

void et_record_writer_abandon(et_record_writer *writer)
{
    if (!writer)
        return;
    et_packed_writer_end(writer->file, ET_EIO, NULL); /* no commit */
    et_free(writer);
}

int et_records_write(const char *path, const char *file_type, et_example_builder *const *examples,
                     size_t count, et_error *error)
{
    et_record_writer *writer;
    int status = et_record_writer_open(&writer, path, file_type, error);
    if (status)
        return status;
    for (size_t i = 0; !status && i < count; i++)
        status = et_record_write_example(writer, examples[i], error);
    if (!status)
        return et_record_writer_close(writer, error);
    et_record_writer_abandon(writer);
    return status;
}

/* ---- data sets, read ---- */

struct et_record_reader {
    et_packed_reader *file;
    et_record_position position; /* of the next record; path owned */
    unsigned char *buffer;       /* of the record given last, its head and its tail */
    size_t capacity;
};

/* Whether a file that begins like gzip contains plain records: a first length of 35,615 (or 65,536
 * more, ...) begins with gzip's two bytes. A record has a checksum after them, gzip has not. */
static bool begins_with_record(const unsigned char *first, size_t count)
{
    uint64_t length;
    return count >= ET_RECORD_HEAD && check(first, count, UINT64_MAX, &length) != BAD_LENGTH;
}

int et_record_reader_open(et_record_reader **out, const char *path, et_error *error)
{
    int fd, status = et_path_check(path, error);
    if (status)
        return status;
    et_record_reader *reader = et_alloc_zero(1, sizeof *reader);
    char *name = et_strdup(path);
    if (reader)
        reader->position = (et_record_position){ .path = name, .number = 1 };
    status =
        reader && name ? et_file_open(&fd, path, error) : et_alloc_failed(error, "a record file");
    if (!status)
        status = et_packed_reader_open(&reader->file, fd, name, begins_with_record, error);
    if (status) {
        et_free(name);
        et_free(reader);
        return status;
    }
    reader->position.gzip = et_packed_reader_is_gzip(reader->file);
    *out = reader;
    return ET_OK;
}

/* Reads until the buffer has `want` bytes, *have so far; fewer at the end of the file. */
static int read_up_to(et_record_reader *reader, size_t want, size_t *have, et_error *error)
{
    int status = ET_OK;
    size_t got = 1;
    while (!status && *have < want && got) {
        /* Room for one byte more: doubling, since a damaged file may want anything. */
        if (!ET_VECTOR_GROW(reader->buffer, reader->capacity, *have ? *have + 1 : BUFFER_FIRST))
            return et_alloc_failed(error, "a record");
        size_t room = reader->capacity < want ? reader->capacity : want;
        status = et_packed_read(reader->file, reader->buffer + *have, room - *have, &got, error);
        *have += got;
    }
    return status == ET_EFORMAT ? et_record_blame(&reader->position, status, error) : status;
}

int et_record_read(et_record_reader *reader, const void **bytes, size_t *length, et_error *error)
{
    size_t have = 0;
    uint64_t size;
    *bytes = NULL;
    *length = 0;
    int status = read_up_to(reader, ET_RECORD_HEAD, &have, error);
    if (status || !have)
        return status;
    fault found = check(reader->buffer, have, ET_RECORD_DATA_MAX, &size);
    const size_t whole = (size_t)size + ET_RECORD_OVERHEAD;
    if (found == CUT && have == ET_RECORD_HEAD) {
        status = read_up_to(reader, whole, &have, error);
        if (status)
            return status;
        found = check(reader->buffer, have, ET_RECORD_DATA_MAX, &size);
    }
    if (found != SOUND)
        return refuse(&reader->position, found, error);
    reader->position.offset += whole;
    reader->position.number++;
    *bytes = reader->buffer + ET_RECORD_HEAD;
    *length = (size_t)size;
    return ET_OK;
}

et_record_position et_record_reader_position(const et_record_reader *reader)
{
    return reader->position;
}

void et_record_reader_close(et_record_reader *reader)
{
    if (!reader)
        return;
    et_packed_reader_close(reader->file);
    et_free((char *)(uintptr_t)reader->position.path);
    et_free(reader->buffer);
    et_free(reader);
}

int et_record_list_next(et_record_list *list, et_record_position *position, const void **bytes,
                        size_t *length, et_error *error)
{
    *bytes = NULL;
    for (; list->file < list->paths.count; list->file++) {
        int status = list->reader ? ET_OK
                                  : et_record_reader_open(&list->reader,
                                                          list->paths.items[list->file], error);
        if (status)
            return status;
        *position = et_record_reader_position(list->reader);
        status = et_record_read(list->reader, bytes, length, error);
        if (status || *bytes)
            return status;
        et_record_list_close(list);
    }
    return ET_OK;
}

void et_record_list_close(et_record_list *list)
{
    et_record_reader_close(list->reader);
    list->reader = NULL;
}

/* ---- logs, read ---- */

/* Scanning a mapping: records are returned in place, and nothing is copied. */

/* An empty file has no records and is no error. */
int et_record_scan_open(et_record_scan *scan, const char *path, et_error *error)
{
    *scan = (et_record_scan){ 0 };
    const int status = et_mapping_open(&scan->mapping, path, error);
    if (status)
        return status;
    scan->path = et_strdup(path);
    if (scan->path == NULL) {
        et_mapping_close(&scan->mapping);
        return et_alloc_failed(error, "a path");
    }
    return ET_OK;
}

/* After a crash of the machine, a file may have got its new length and not yet its bytes. */
static bool only_zeros(const unsigned char *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

/* Whether a sound record begins at any byte after the first. Only in a malicious file is long data
 * with a wrong checksum read again and again. So the search ends after reading 64 times the
 * existing bytes, and the file counts as having sound records. */
static bool sound_follows(const unsigned char *bytes, size_t length)
{
    uint64_t size, work = 0;
    for (size_t at = 1; at + ET_RECORD_OVERHEAD <= length; at++) {
        const fault found = check(bytes + at, length - at, UINT64_MAX, &size);
        work += found == BAD_DATA ? size : 0;
        if (found == SOUND || work / 64 > length)
            return true;
    }
    return false;
}

/* The message has the byte where the record begins, so that a user can cut it out. */
static int damaged(const et_record_scan *scan, const char *what, et_error *error)
{
    return et_fail(error, ET_EFORMAT,
                   "%s: damaged: the checksum of a record's %s does not match "
                   "(record at byte %s)",
                   scan->path, what, et_format_count((int64_t)scan->offset).text);
}

/* offset moves past the record only when all of it is sound. */
int et_record_scan_next(et_record_scan *scan, const void **bytes, size_t *length, et_error *error)
{
    et_assert(scan->offset <= scan->mapping.length);
    /* offset never exceeds the length: each record's length was compared with the rest. */
    const size_t left = scan->mapping.length - scan->offset;
    *bytes = NULL;
    *length = 0;
    if (left == 0)
        return ET_OK;
    const unsigned char *record = (const unsigned char *)scan->mapping.data + scan->offset;
    /* Before any checksum: of zeros, length 0 has a crc that is not 0. */
    scan->torn = left < ET_RECORD_HEAD || only_zeros(record, left);
    if (scan->torn)
        return ET_OK;
    uint64_t size;
    const fault found = check(record, left, UINT64_MAX, &size);
    scan->torn = found == CUT || (found != SOUND && !sound_follows(record, left));
    if (scan->torn)
        return ET_OK;
    if (found != SOUND)
        return damaged(scan, found == BAD_LENGTH ? "length" : "data", error);
    scan->offset += size + ET_RECORD_OVERHEAD;
    *bytes = record + ET_RECORD_HEAD;
    *length = size;
    return ET_OK;
}

/* Results of read are invalid from here on. */
void et_record_scan_close(et_record_scan *scan)
{
    et_mapping_close(&scan->mapping);
    et_free(scan->path);
    *scan = (et_record_scan){ 0 };
}

/* ---- logs, written ---- */

/* Appending, through append.h: offset is the place of the next record. */

/* The end of the last complete record of a file. Reads the whole file, so it is only used if a file
 * is shorter than it should be, or has no known offset. */
static int whole_length(uint64_t *out, const char *path, et_error *error)
{
    et_record_scan scan;
    int status = et_record_scan_open(&scan, path, error);
    if (status)
        return status;
    const void *bytes = NULL;
    size_t length;
    do
        status = et_record_scan_next(&scan, &bytes, &length, error);
    while (!status && bytes != NULL);
    *out = scan.offset;
    et_record_scan_close(&scan);
    return status;
}

/* The buffer's memory is kept from record to record. */
int et_record_log_open(et_record_log *log, const char *path, int64_t offset, et_error *error)
{
    log->buffer = (et_strbuf)ET_STRBUF_INIT;
    return et_append_open(&log->file, path, offset, whole_length, error);
}

/* bytes may be NULL if length is 0: an empty record. */
int et_record_log_write(et_record_log *log, const void *bytes, size_t length, et_error *error)
{
    et_assert(bytes || length == 0);
    const et_record_frame frame = et_record_frame_of(bytes, length);
    /* Framed in memory first: one call of write, so that a kill rarely tears a record. */
    et_strbuf *buffer = &log->buffer;
    et_strbuf_reset(buffer);
    et_strbuf_append_bytes(buffer, frame.head, ET_RECORD_HEAD);
    et_strbuf_append_bytes(buffer, bytes, length);
    et_strbuf_append_bytes(buffer, frame.tail, ET_RECORD_TAIL);
    if (buffer->failed) {
        et_strbuf_release(buffer);
        return et_alloc_failed(error, "a record");
    }
    return et_append_write(&log->file, buffer->data, buffer->length, error);
}

int et_record_log_flush(et_record_log *log, et_error *error)
{
    return et_append_flush(&log->file, error);
}

int et_record_log_close(et_record_log *log, et_error *error)
{
    et_strbuf_release(&log->buffer);
    return et_append_close(&log->file, error);
}
