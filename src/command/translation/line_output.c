#include "command/translation/line_output.h"

#include <stdio.h>

#include "base/alloc.h"
#include "command/print.h"

int et_line_output_open(et_line_output *output, const char *path, const et_comm *comm,
                        et_error *error)
{
    const bool silent = et_comm_rank(comm) != 0;
    *output = (et_line_output){ .file = path && !silent, .silent = silent };
    int status = output->file ? et_file_writer_open(&output->writer, path, error) : ET_OK;
    output->open = !status;
    return status;
}

int et_line_output_write(et_line_output *output, et_strbuf *text, et_error *error)
{
    int status = text->failed ? et_alloc_failed(error, text->length, "translations") : ET_OK;
    if (!status && output->file) {
        status = et_file_writer_write(&output->writer, et_strbuf_text(text), text->length, error);
    } else if (!status && !output->silent) {
        et_print_results(stdout, et_strbuf_text(text), text->length);
        if (fflush(stdout))
            status = et_fail_errno(error, "standard output");
    }
    et_strbuf_reset(text);
    return status;
}

int et_line_output_close(et_line_output *output, int status, et_error *error)
{
    const bool file = output->open && output->file;
    output->open = false;
    if (file && !status)
        return et_file_writer_commit(&output->writer, error);
    if (file)
        et_file_writer_abandon(&output->writer);
    return status;
}
