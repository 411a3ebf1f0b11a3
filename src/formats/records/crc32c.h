/* CRC-32C (Castagnoli, reflected polynomial 0x82f63b78), as in TFRecord files: with the SSE4.2
 * instruction if the processor has it, else with a table. Thread-safe. */
#ifndef ETUDE_FORMATS_RECORDS_CRC32C_H
#define ETUDE_FORMATS_RECORDS_CRC32C_H

#include <stddef.h>
#include <stdint.h>

uint32_t et_crc32c(const void *bytes, size_t length);

/* The same by table, on any processor. */
uint32_t et_crc32c_table(const void *bytes, size_t length);

/* What TFRecord stores, so that a checksum of bytes that hold checksums is not degenerate:
 * rotated right by 15 bits, plus 0xa282ead8. */
uint32_t et_crc32c_mask(uint32_t crc);

#endif
