/* A separate file, so that a new version number compiles only one file. */
#include <etude/version.h>

const char *et_version(void)
{
    return ET_VERSION;
}

int et_version_number(void)
{
    return ET_VERSION_NUMBER;
}
