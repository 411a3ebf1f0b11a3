#include "command/results.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/values/json.h"
#include "command/print.h"

int et_results_print(const et_value *results, et_error *error)
{
    et_strbuf text = ET_STRBUF_INIT;
    if (results && !et_value_failed(results)) {
        et_json_print(&text, results, 2);
        et_strbuf_append_char(&text, '\n');
    }
    bool whole = text.length && !text.failed;
    if (whole)
        et_print_results(stdout, text.data, text.length);
    et_strbuf_release(&text);
    if (!whole)
        return et_alloc_failed(error, 0, "results");
    return fflush(stdout) ? et_fail_errno(error, "standard output") : ET_OK;
}
