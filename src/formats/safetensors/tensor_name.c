#include "formats/safetensors/tensor_name.h"

#include <stddef.h>
#include <string.h>

#include "base/plain.h"
#include "base/text/unicode.h"

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
