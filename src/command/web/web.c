#include "command/web/web.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"

#define LOOPBACK "127.0.0.1"

int et_web_open(et_web *web, const et_web_args *args, et_error *error)
{
    const char *address = args->listen ? args->listen : LOOPBACK;
    *web = (et_web){ .listener = { .fd = -1 } };
    int status = et_listener_open(&web->listener, address, (int)args->port, error);
    if (!status && args->token_file)
        status = et_http_token_read(web->token, args->token_file, error);
    web->made = !status && !args->token_file && !et_address_is_loopback(address);
    if (web->made)
        status = et_http_token_make(web->token, error);
    if (status) {
        et_web_close(web);
        return status;
    }
    web->guard = (et_http_guard){ .token = *web->token ? web->token : NULL,
                                  .hosts = args->hosts.items,
                                  .host_count = args->hosts.count };
    et_assert(web->guard.token || et_address_is_loopback(address));
    return ET_OK;
}

int et_web_tell(const et_web *web, const char *page, et_error *error)
{
    if (web->made)
        fprintf(stderr, "token        %s\n", web->token);
    printf("%s%s\n", web->listener.url, page);
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}

void et_web_close(et_web *web)
{
    et_listener_close(&web->listener);
    memset(web->token, 0, sizeof web->token);
}
