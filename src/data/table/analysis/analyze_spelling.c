/* Finds entries with similar spelling: str.lower() and str.strip() of Python make them equal. */
#include "data/table/analysis/analyze_private.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/text/strbuf.h"
#include "base/text/unicode.h"

typedef struct folding {
    et_codes codes, lower;
    et_arena arena; /* of texts, which are keys of seen */
    et_map seen;    /* to entries */
} folding;

/* NULL: no memory. */
static const char *fold(folding *f, const char *text, size_t length, et_error *error)
{
    et_strbuf out = ET_STRBUF_INIT;
    char bytes[4];
    const char *folded = NULL;
    if (et_codes_decode(&f->codes, text, length, error) ||
        et_codes_lower(&f->lower, &f->codes, error))
        return NULL;
    size_t begin = 0, end = f->lower.count;
    while (begin < end && et_unicode_is_space(f->lower.items[begin]))
        begin++;
    while (end > begin && et_unicode_is_space(f->lower.items[end - 1]))
        end--;
    for (size_t i = begin; i < end; i++) {
        size_t count = et_utf8_encode(bytes, f->lower.items[i]);
        for (size_t k = 0; k < count; k++)
            et_strbuf_append_char(&out, bytes[k]);
    }
    if (!out.failed)
        folded = et_arena_strdup(&f->arena, et_strbuf_text(&out));
    et_strbuf_release(&out);
    return folded;
}

static bool look_at(folding *f, et_alike *alike, const et_entries *entries, size_t i,
                    et_error *error)
{
    const et_entry *entry = &entries->entry[i];
    const char *text = fold(f, et_entries_text(entries, entry), entry->length, error);
    int64_t before;
    if (!text)
        return false;
    if (!et_map_get(&f->seen, text, &before))
        return et_map_put(&f->seen, text, (int64_t)i);
    if (!alike->count++) {
        alike->first = (size_t)before;
        alike->second = i;
    }
    return true;
}

int et_entries_alike(et_alike *out, const et_entries *entries, size_t count, et_error *error)
{
    folding f = { .codes = ET_CODES_INIT, .lower = ET_CODES_INIT, .arena = ET_ARENA_INIT };
    int status = ET_OK;
    *out = (et_alike){ 0 };
    for (size_t i = 0; i < count && !status; i++)
        if (!look_at(&f, out, entries, i, error))
            status = et_alloc_failed(error, f.arena.used, "the spellings of a column");
    et_map_release(&f.seen);
    et_arena_release(&f.arena);
    et_codes_release(&f.codes);
    et_codes_release(&f.lower);
    return status;
}
