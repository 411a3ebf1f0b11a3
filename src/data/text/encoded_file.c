/* encoded_file.h has the layout. Wide elements come before narrow ones and the header is a multiple
 * of 8 bytes, so every array is aligned in a mapping, which begins at a page. The file is used as
 * it is: a start copies and converts nothing.
 *
 * A file is checked in three steps; each trusts only what the earlier ones have checked: the header
 * by its own checksum; the sizes in it against the length of the file (before any array is read);
 * then contents, by checksum and by their rules. The last check is for malicious files: an offset
 * or an id out of bounds would read anywhere. */
#include "data/text/encoded_file.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "base/files/checksum.h"

_Static_assert(sizeof(et_encoded_header) == 160, "the header has no holes");

/* A begin for each side of each pair, and the end of the last. */
static size_t offset_count(int64_t pairs)
{
    return 2 * (size_t)pairs + 1;
}

/* Bytes after the header. No overflow: the caller limits pairs and tokens. */
static size_t payload_size(const et_encoded_header *head)
{
    return offset_count(head->pairs) * sizeof(uint64_t) +
           (head->source_files + head->target_files) * sizeof(int64_t) +
           (size_t)head->pairs * sizeof(uint32_t) + head->tokens * head->width;
}

/* The same order as in list_parts and in payload_size. Pointers lose their const: parts are the
 * same struct for memory that is owned, and nothing writes through it here. */
void et_encoded_file_parts(et_encoded_parts *parts, const void *file)
{
    const et_encoded_header *head = file;
    char *at = (char *)(uintptr_t)(head + 1);
    et_assert((uintptr_t)at % sizeof(uint64_t) == 0);
    *parts = (et_encoded_parts){ .pairs = head->pairs,
                                 .token_count = head->tokens,
                                 .width = (int)head->width,
                                 .counts = head->counts,
                                 .sizes = head->sizes };
    parts->offsets = (uint64_t *)at;
    at += offset_count(head->pairs) * sizeof(uint64_t);
    parts->file_lines[0] = (int64_t *)at;
    at += head->source_files * sizeof(int64_t);
    parts->file_lines[1] = (int64_t *)at;
    at += head->target_files * sizeof(int64_t);
    parts->lines = (uint32_t *)at;
    at += (size_t)head->pairs * sizeof(uint32_t);
    parts->tokens = at;
}

/* ---- soundness ---- */

/* Each function returns whether its part is valid. The order of the calls in et_encoded_file_fault
 * decides what each may rely on. */

/* A file of another byte order has another magic, one of another version another layout; both
 * are "header" to the reader and are made again. */
static bool header_is_sound(const et_mapping *mapping)
{
    const et_encoded_header *head = mapping->data;
    return mapping->length >= sizeof *head && head->magic == ET_ENCODED_MAGIC &&
           head->version == ET_ENCODED_VERSION &&
           head->header_checksum == et_checksum(head, offsetof(et_encoded_header, header_checksum));
}

/* tokens is compared with the length first, so that the product with the width cannot overflow. */
static bool size_is_sound(const et_mapping *mapping, const size_t files[2])
{
    const et_encoded_header *head = mapping->data;
    return (head->width == 2 || head->width == 4) && head->source_files == files[0] &&
           head->target_files == files[1] && head->pairs >= 1 && head->pairs <= UINT32_MAX &&
           head->tokens <= mapping->length && payload_size(head) == mapping->length - sizeof *head;
}

/* Offsets run from 0 to the number of tokens, so that every side is within the tokens. */
static bool offsets_rise(const et_encoded_parts *parts)
{
    size_t last = offset_count(parts->pairs) - 1;
    for (size_t i = 0; i < last; i++)
        if (parts->offsets[i] > parts->offsets[i + 1])
            return false;
    return parts->offsets[0] == 0 && parts->offsets[last] == parts->token_count;
}

/* The largest id in one pass, for the compiler to make vector code of: no branch in the loop. */
static uint32_t largest_id(const et_encoded_parts *parts, uint64_t begin, uint64_t end)
{
    uint32_t largest = 0;
    const uint16_t *narrow = parts->tokens;
    const uint32_t *wide = parts->tokens;
    for (uint64_t i = begin; parts->width == 2 && i < end; i++)
        largest = narrow[i] > largest ? narrow[i] : largest;
    for (uint64_t i = begin; parts->width == 4 && i < end; i++)
        largest = wide[i] > largest ? wide[i] : largest;
    return largest;
}

/* Compares token by token only if a vocabulary is smaller than the largest id. */
static bool ids_are_below(const et_encoded_parts *parts, const uint32_t tokens[2])
{
    const uint32_t least = tokens[0] < tokens[1] ? tokens[0] : tokens[1];
    if (largest_id(parts, 0, parts->token_count) < least)
        return true;
    for (int64_t i = 0; i < 2 * parts->pairs; i++)
        if (largest_id(parts, parts->offsets[i], parts->offsets[i + 1]) >= tokens[i % 2])
            return false;
    return true;
}

/* Every pair names a line that the files have. */
static bool lines_are_below(const et_encoded_parts *parts, const size_t files[2])
{
    for (int side = 0; side < 2; side++) {
        /* How many pairs the files of this side hold together. */
        uint64_t lines = 0;
        for (size_t i = 0; i < files[side]; i++)
            lines += (uint64_t)parts->file_lines[side][i];
        for (int64_t i = 0; i < parts->pairs; i++)
            if (parts->lines[i] >= lines)
                return false;
    }
    return true;
}

/* Another key is no fault: the text or a setting changed and the file is outdated. */
const char *et_encoded_file_fault(const et_mapping *mapping, uint64_t key, const size_t files[2],
                                  const uint32_t tokens[2], bool *current)
{
    const et_encoded_header *head = mapping->data;
    et_encoded_parts parts;
    *current = false;
    if (!header_is_sound(mapping))
        return "header";
    if (head->key != key)
        return NULL;
    /* From here on a fault means damage: the header claims to be the wanted file. */
    *current = true;
    if (!size_is_sound(mapping, files))
        return "size";
    if (head->payload != et_checksum(head + 1, mapping->length - sizeof *head))
        return "checksum";
    et_encoded_file_parts(&parts, head);
    if (!offsets_rise(&parts))
        return "offsets";
    if (!ids_are_below(&parts, tokens))
        return "ids";
    if (!lines_are_below(&parts, files))
        return "lines";
    /* Sizes depend on the offsets, so they are computed again and compared. */
    et_encoded_sizes sizes = et_encoded_measure(&parts);
    return memcmp(&sizes, &head->sizes, sizeof sizes) ? "sizes" : NULL;
}

/* Reads one page of the file, whatever its length. */
bool et_encoded_file_is_still_sound(const et_mapping *mapping, uint64_t key, const size_t files[2])
{
    const et_encoded_header *head = mapping->data;
    return header_is_sound(mapping) && head->key == key && size_is_sound(mapping, files);
}

/* ---- writing ---- */

/* The same five parts in the same order, twice. */

/* A run of bytes of the payload: bytes are borrowed. */
typedef struct part {
    const void *bytes;
    size_t length;
} part;

/* offsets, source lines, target lines, lines of pairs, tokens. */
#define PARTS 5

/* In the order of the file. */
static void list_parts(part list[PARTS], const et_encoded_parts *parts, const size_t files[2])
{
    list[0] = (part){ parts->offsets, offset_count(parts->pairs) * sizeof(uint64_t) };
    list[1] = (part){ parts->file_lines[0], files[0] * sizeof(int64_t) };
    list[2] = (part){ parts->file_lines[1], files[1] * sizeof(int64_t) };
    list[3] = (part){ parts->lines, (size_t)parts->pairs * sizeof(uint32_t) };
    list[4] = (part){ parts->tokens, parts->token_count * (size_t)parts->width };
}

/* Two passes over the payload, one for the checksum and one to write it: the header comes first
 * in the file, and the data is in memory. */
static int make_header(et_encoded_header *head, const et_encoded_parts *parts, uint64_t key,
                       const size_t files[2], et_error *error)
{
    part list[PARTS];
    et_checksum_stream *stream;
    int status = et_checksum_stream_open(&stream, error);
    if (status)
        return status;
    list_parts(list, parts, files);
    for (int i = 0; i < PARTS; i++)
        et_checksum_stream_add(stream, list[i].bytes, list[i].length);
    *head = (et_encoded_header){ .magic = ET_ENCODED_MAGIC,
                                 .version = ET_ENCODED_VERSION,
                                 .width = (uint32_t)parts->width,
                                 .key = key,
                                 .pairs = parts->pairs,
                                 .tokens = parts->token_count,
                                 .source_files = files[0],
                                 .target_files = files[1],
                                 .counts = parts->counts,
                                 .sizes = parts->sizes,
                                 .payload = et_checksum_stream_value(stream) };
    /* Last, over all that is before it, the checksum of the payload included. */
    head->header_checksum = et_checksum(head, offsetof(et_encoded_header, header_checksum));
    et_checksum_stream_close(stream);
    return ET_OK;
}

/* A temporary name until all is written: a kill leaves the old cache or the new one. */
int et_encoded_file_write(const et_encoded_parts *parts, uint64_t key, const size_t files[2],
                          const char *path, et_error *error)
{
    part list[PARTS];
    et_encoded_header head;
    et_file_writer writer;
    int status = make_header(&head, parts, key, files, error);
    if (!status)
        status = et_file_writer_open(&writer, path, error);
    if (status)
        return status;
    et_assert(parts->pairs > 0 && (parts->width == 2 || parts->width == 4));
    list_parts(list, parts, files);
    status = et_file_writer_write(&writer, &head, sizeof head, error);
    for (int i = 0; !status && i < PARTS; i++)
        status = et_file_writer_write(&writer, list[i].bytes, list[i].length, error);
    if (!status)
        return et_file_writer_commit(&writer, error);
    et_file_writer_abandon(&writer);
    return status;
}
