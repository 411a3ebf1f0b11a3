/* All of Etude's public headers. Each also stands alone. To add one: include it here, in
 * alphabetical order. */
#ifndef ETUDE_ETUDE_H
#define ETUDE_ETUDE_H

#include <etude/allocator.h>
#include <etude/dtype.h>
#include <etude/error.h>
#include <etude/export.h>
#include <etude/graph.h>
#include <etude/log.h>
#include <etude/nn.h>
#include <etude/ops.h>
#include <etude/ops_image.h>
#include <etude/ops_layout.h>
#include <etude/ops_random.h>
#include <etude/params.h>
#include <etude/score.h>
#include <etude/tensor.h>
#include <etude/translator.h>
#include <etude/version.h>

#endif
