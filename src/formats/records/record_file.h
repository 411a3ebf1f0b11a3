/* What <etude/records.h> leaves to the library about files: where a reader is. */
#ifndef ETUDE_FORMATS_RECORDS_RECORD_FILE_H
#define ETUDE_FORMATS_RECORDS_RECORD_FILE_H

#include <etude/records.h>

#include "formats/records/record.h"

/* Of the next record: whether the file is gzip, where the record would be. Its path is borrowed
 * from the reader. */
et_record_place et_record_reader_place(const et_record_reader *reader);

#endif
