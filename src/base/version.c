#include <etude/version.h>

const char *et_version(void)
{
    return ET_VERSION;
}
