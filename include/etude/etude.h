/* All of Etude's public headers. Each also stands alone. To add one: include it here, in
 * alphabetical order. */
#ifndef ETUDE_ETUDE_H
#define ETUDE_ETUDE_H

#include <etude/action.h>
#include <etude/allocator.h>
#include <etude/annealing.h>
#include <etude/checkpoint.h>
#include <etude/command.h>
#include <etude/controller.h>
#include <etude/data.h>
#include <etude/device.h>
#include <etude/dtype.h>
#include <etude/error.h>
#include <etude/events.h>
#include <etude/experiment.h>
#include <etude/export.h>
#include <etude/fields.h>
#include <etude/flows.h>
#include <etude/graph.h>
#include <etude/group.h>
#include <etude/log.h>
#include <etude/loop.h>
#include <etude/loop_evaluator.h>
#include <etude/loop_log.h>
#include <etude/loop_trainer.h>
#include <etude/metrics.h>
#include <etude/nn.h>
#include <etude/ops.h>
#include <etude/ops_elementwise.h>
#include <etude/ops_image.h>
#include <etude/ops_layout.h>
#include <etude/ops_loss.h>
#include <etude/ops_random.h>
#include <etude/optimizer.h>
#include <etude/params.h>
#include <etude/pass.h>
#include <etude/results.h>
#include <etude/run.h>
#include <etude/score.h>
#include <etude/state.h>
#include <etude/statistics.h>
#include <etude/summary.h>
#include <etude/task.h>
#include <etude/tensor.h>
#include <etude/trainer.h>
#include <etude/translator.h>
#include <etude/value.h>
#include <etude/version.h>

#endif
