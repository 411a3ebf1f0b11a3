/* Collectors of summaries (as TFSnippet's SummaryCollector): parts of a program add serialised
 * summaries (<etude/summary_message.h>) and histograms without knowing who collects them.
 * Collectors are on a stack; the top one collects. The stack's own collector, at the bottom, also
 * adds to the collection ET_SUMMARIES. A collection is a named list of summaries. The stack has the
 * collections of a program, as a TensorFlow graph has.
 *
 *     et_summary_stack *stack;
 *     et_summary_collector *collector;
 *     et_summary_collector_options options = { .collections = { (const char *[]){ "mine" }, 1 } };
 *     et_summary_stack_new(&stack, &error);
 *     et_summary_collector_new(&collector, stack, &options, &error);
 *     et_summary_stack_push(stack, collector, ET_AUTO_HISTOGRAM_ON, &error);
 *     et_summary_collector *top = et_summary_stack_top(stack);
 *     et_summary_collector_add(top, bytes, length, NULL, &error);
 *     if (et_summary_stack_auto_histogram(stack))
 *         et_summary_collector_add_histogram(top, "dense/kernel", kernel, true, NULL, &error);
 *     et_summary_stack_pop(stack, &error);
 *     const void *merged = et_summary_collector_merge(collector, &length);
 *     if (merged)
 *         et_loop_add_summary_bytes(loop, merged, length);
 *     merged = et_summary_stack_collection(stack, "mine", &length);
 *     et_summary_stack_clear(stack);                     before the next step
 *     et_summary_collector_free(collector);
 *     et_summary_stack_free(stack);
 *
 * Bytes and names are copied. Errors of no memory leave everything as it was. One thread. */
#ifndef ETUDE_SUMMARY_COLLECTOR_H
#define ETUDE_SUMMARY_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include <etude/error.h>
#include <etude/fields.h>
#include <etude/tensor.h>

#define ET_SUMMARIES "summaries" /* the collection of a stack's own collector */

typedef struct et_summary_stack et_summary_stack;
typedef struct et_summary_collector et_summary_collector;

typedef struct et_summary_collector_options {
    et_strings collections;     /* collections for summaries whose add names none; copied */
    bool no_add_to_collections; /* adds to no collection, even to named ones */
} et_summary_collector_options;

/* Whether layers of the program add histograms of their weights by themselves, while a collector is
 * on the stack. KEEP: as below it. */
typedef enum et_auto_histogram {
    ET_AUTO_HISTOGRAM_KEEP,
    ET_AUTO_HISTOGRAM_ON,
    ET_AUTO_HISTOGRAM_OFF,
} et_auto_histogram;

ET_API int et_summary_stack_new(et_summary_stack **out, et_error *error);
ET_API void et_summary_stack_free(et_summary_stack *stack); /* after its collectors; NULL allowed */

/* stack outlives the collector; it must be off the stack when it is freed. options NULL: zeros. */
ET_API int et_summary_collector_new(et_summary_collector **out, et_summary_stack *stack,
                                    const et_summary_collector_options *options, et_error *error);
ET_API void et_summary_collector_free(et_summary_collector *collector); /* NULL allowed */

/* Puts a collector of this stack on top. A collector may be on the stack several times. ET_EUSAGE:
 * the collector is of another stack. */
ET_API int et_summary_stack_push(et_summary_stack *stack, et_summary_collector *collector,
                                 et_auto_histogram histogram, et_error *error);
/* ET_EUSAGE: only the stack's own collector is left. */
ET_API int et_summary_stack_pop(et_summary_stack *stack, et_error *error);
ET_API et_summary_collector *et_summary_stack_top(et_summary_stack *stack);
ET_API bool et_summary_stack_auto_histogram(const et_summary_stack *stack); /* at first false */

/* Adds a serialised summary. collections: collections that also get the summary; NULL: as in the
 * collector's options; empty: none. ET_EUSAGE: there are no bytes, or a collection has no name. */
ET_API int et_summary_collector_add(et_summary_collector *collector, const void *bytes,
                                    size_t length, const et_strings *collections, et_error *error);
/* Adds the histogram of a float32, bfloat16 or int32 tensor with this name as tag. strip_scope: the
 * tag is what comes after the last "/". ET_EDATA: no element, or one that is not finite. */
ET_API int et_summary_collector_add_histogram(et_summary_collector *collector, const char *name,
                                              et_tensor tensor, bool strip_scope,
                                              const et_strings *collections, et_error *error);

/* All summaries of the collector, or of a collection, as one message, in the order of adding; valid
 * until the next add or clear. NULL: there are none. */
ET_API const void *et_summary_collector_merge(const et_summary_collector *collector,
                                              size_t *length);
ET_API const void *et_summary_stack_collection(const et_summary_stack *stack, const char *name,
                                               size_t *length);
/* Forgets all summaries of the stack's collectors and collections. */
ET_API void et_summary_stack_clear(et_summary_stack *stack);

#endif
