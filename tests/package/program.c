/* A user's program: C and C++ both compile it. */
#include <etude/etude.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
    et_error error = ET_ERROR_INIT;
    int status = et_fail(&error, ET_EDATA, "line %d", 3);
    puts(et_version());
    return strcmp(et_version(), ET_VERSION) != 0 || status != ET_EDATA ||
           strcmp(error.text, "line 3") != 0;
}
