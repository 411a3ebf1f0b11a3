/* Marks for the compiler about the placement of functions. */
#ifndef ETUDE_BASE_INLINE_H
#define ETUDE_BASE_INLINE_H

/* Into whoever calls it: its loops are compiled for the constants that it is given there. */
#define ET_INLINE static inline __attribute__((always_inline))

/* Never into whoever calls it: what it needs, registers and room on the stack, is not paid for
 * where it is not called. */
#define ET_APART __attribute__((noinline)) static

#endif
