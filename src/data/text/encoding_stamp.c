/* A note is 32 bytes next to the cache: a stamp of the files (a checksum of their stat results and
 * of everything else that the key depends on), and the key that was found for them.
 *
 *   magic | stamp | key | checksum of these three      uint64 each, the machine's byte order
 *
 * The note trusts the clock of the file system: a file whose contents change gets another ctime,
 * which no program can set. Two changes within one tick of that clock look like one. So a file is
 * noted only when its last change is SETTLE_SECONDS ago (git does the same for its index: "racy
 * git"). */
#include "data/text/encoding_stamp.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/files/checksum.h"

#define MAGIC UINT64_C(0x316e656573757445) /* "Etuseen1" in little-endian bytes */
/* As long as the coarsest times of file systems in use: FAT counts two seconds. */
#define SETTLE_SECONDS 2

/* The whole of the small file, in the machine's byte order. */
typedef struct note {
    uint64_t magic, stamp, key; /* key: et_encoded.key */
    uint64_t checksum;          /* of the bytes before it */
} note;

/* The system's facts about one file. A write changes the status change time, which no program can
 * set. The stamp contains all facts: a different file with the same name has another inode or
 * device. */
typedef struct facts {
    uint64_t device, inode, length;
    int64_t modified[2], changed[2]; /* seconds, nanoseconds */
} facts;

/* The checksum of magic, stamp and key, as in memory. */
static uint64_t checksum_of(const note *kept)
{
    return et_checksum(kept, offsetof(note, checksum));
}

/* Adds one file to the stamp. false: the file is missing or not regular, so nothing is noted. */
static bool look_at(et_encoding_stamp *seen, const char *path, et_checksum_stream *stream)
{
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode))
        return false;
    facts one = { (uint64_t)info.st_dev,
                  (uint64_t)info.st_ino,
                  (uint64_t)info.st_size,
                  { info.st_mtim.tv_sec, info.st_mtim.tv_nsec },
                  { info.st_ctim.tv_sec, info.st_ctim.tv_nsec } };
    et_checksum_stream_add(stream, &one, sizeof one);
    if (info.st_ctim.tv_sec > time(NULL) - SETTLE_SECONDS)
        seen->settled = false;
    return true;
}

/* The count separates the lists, as in the key. */
static bool look_at_all(et_encoding_stamp *seen, const et_strings *files,
                        et_checksum_stream *stream)
{
    uint64_t count = files->count;
    et_checksum_stream_add(stream, &count, sizeof count);
    for (size_t i = 0; i < files->count; i++)
        if (!look_at(seen, files->items[i], stream))
            return false;
    return true;
}

static bool look_at_records(et_encoding_stamp *seen, const et_corpus_paths *paths,
                            et_checksum_stream *stream)
{
    if (!paths->records.count)
        return true;
    et_checksum_stream_add(stream, paths->source_feature, strlen(paths->source_feature) + 1);
    et_checksum_stream_add(stream, paths->target_feature, strlen(paths->target_feature) + 1);
    return look_at_all(seen, &paths->records, stream);
}

/* The cache is examined too: if it was written since, it must be checked again. */
bool et_encoding_stamp_take(et_encoding_stamp *seen, uint64_t key_facts,
                            const et_corpus_paths *paths, const char *cache_path)
{
    et_checksum_stream *stream;
    *seen = (et_encoding_stamp){ .settled = true };
    if (et_checksum_stream_open(&stream, NULL))
        return false;
    et_checksum_stream_add(stream, &key_facts, sizeof key_facts);
    bool all = look_at_all(seen, &paths->source, stream) &&
               look_at_all(seen, &paths->target, stream) &&
               look_at_all(seen, &paths->tsv, stream) && look_at_records(seen, paths, stream) &&
               look_at(seen, cache_path, stream);
    seen->stamp = et_checksum_stream_value(stream);
    et_checksum_stream_close(stream);
    return all;
}

/* Returns -1 on any failure: then there is no note. Notes are not written by rename, because a torn
 * note has the wrong checksum. */
static int open_note(const char *cache_path, int flags)
{
    et_arena arena = ET_ARENA_INIT;
    const char *path = et_arena_printf(&arena, "%s.seen", cache_path);
    int fd = path ? open(path, flags | O_CLOEXEC | O_NOCTTY, 0666) : -1;
    et_arena_release(&arena);
    return fd;
}

/* *key is written in any case and means something only if the result is true. */
bool et_encoding_stamp_recall(const et_encoding_stamp *seen, const char *cache_path, uint64_t *key)
{
    _Static_assert(sizeof(note) == 32, "the note has no holes");
    note kept = { 0 };
    int fd = open_note(cache_path, O_RDONLY);
    if (fd < 0)
        return false;
    bool whole = read(fd, &kept, sizeof kept) == (ssize_t)sizeof kept;
    close(fd);
    *key = kept.key;
    return whole && kept.magic == MAGIC && kept.checksum == checksum_of(&kept) &&
           kept.stamp == seen->stamp;
}

void et_encoding_stamp_note(const et_encoding_stamp *seen, const char *cache_path, uint64_t key)
{
    note kept = { MAGIC, seen->stamp, key, 0 };
    kept.checksum = checksum_of(&kept);
    int fd = seen->settled ? open_note(cache_path, O_WRONLY | O_CREAT | O_TRUNC) : -1;
    if (fd < 0)
        return;
    ssize_t written = write(fd, &kept, sizeof kept); /* a torn note has the wrong checksum and
                                                      * counts as no note */
    (void)written;
    close(fd);
}
