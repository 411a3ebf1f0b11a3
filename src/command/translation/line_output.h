/* Output of lines: standard output, flushed after each write, or a file that becomes visible when
 * it is complete. With several ranks only rank 0 writes.
 *
 *     et_line_output_open(&output, path, comm, &error);    path NULL: standard output
 *     et_line_output_write(&output, &text, &error);
 *     status = et_line_output_close(&output, status, &error);   after a failure there is no file
 */
#ifndef ETUDE_COMMAND_TRANSLATION_LINE_OUTPUT_H
#define ETUDE_COMMAND_TRANSLATION_LINE_OUTPUT_H

#include <etude/comm.h>

#include "base/files/file.h"
#include "base/text/strbuf.h"

typedef struct et_line_output {
    bool file, open;
    bool silent; /* another rank's */
    et_file_writer writer;
} et_line_output;

/* comm NULL: this process alone. */
int et_line_output_open(et_line_output *output, const char *path, const et_comm *comm,
                        et_error *error);

/* All of text, which is empty afterwards. ET_ENOMEM: text is not whole. */
int et_line_output_write(et_line_output *output, et_strbuf *text, et_error *error);

/* status: of the work; returns the first failure. A closed output (zeros) is allowed. */
int et_line_output_close(et_line_output *output, int status, et_error *error);

#endif
