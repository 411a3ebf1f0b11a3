#include "data/vocabulary.h"

#include "base/alloc.h"
#include "base/file.h"

void et_pieces_release(et_pieces *pieces)
{
    et_free(pieces->ids);
    *pieces = (et_pieces)ET_PIECES_INIT;
}

int et_vocabulary_open(et_vocabulary **out, const char *path, et_error *error)
{
    char *bytes;
    size_t length;
    int status = et_file_read(&bytes, &length, path, ET_VOCABULARY_BYTES_MAX, error);
    if (status)
        return status;
    status = et_vocabulary_parse(out, bytes, length, path, error);
    et_free(bytes);
    return status;
}

int32_t et_vocabulary_start(const et_vocabulary *vocabulary)
{
    if (et_vocabulary_pad(vocabulary) >= 0)
        return et_vocabulary_pad(vocabulary);
    if (et_vocabulary_bos(vocabulary) >= 0)
        return et_vocabulary_bos(vocabulary);
    return et_vocabulary_eos(vocabulary);
}
