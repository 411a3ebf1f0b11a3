/* Marks for the compiler about the placement of functions. */
#ifndef ETUDE_BASE_INLINE_H
#define ETUDE_BASE_INLINE_H

/* Always inlined into its callers: loops are compiled for constant arguments. */
#define ET_INLINE static inline __attribute__((always_inline))

/* Never inlined: callers that skip the call do not pay for its registers and stack. */
#define ET_NOINLINE __attribute__((noinline))

#endif
