/* The ops of a CPU: the table of its device. */
#ifndef ETUDE_ENGINE_EXEC_CPU_CPU_OPS_H
#define ETUDE_ENGINE_EXEC_CPU_CPU_OPS_H

#include "engine/exec/device.h"

/* [ET_OP_COUNT] */
extern const et_op_functions et_cpu_ops[];
extern const et_overlap et_cpu_overlaps[];

#endif
