// The input of a batch's gradient, after the batch has run. Source: gradient.h has the mathematics.
//
// Shapes as in fluid/batch.h. A loss is any function of starts and finishes; its derivatives by them come in.
#pragma once

#include "fluid/batch.h"

namespace topoflow {

struct GradientBatch : Batch {
  int64_t all_tasks;  // S
  const double* of_start;
  double *of_finish, *of_capacity, *of_latency;
  const double* time;    // [2S] s, of the events of each world, ascending
  const int32_t* event;  // [2S] twice the task, of all worlds, and 1 more where it ends
};

constexpr Field<GradientBatch> kGradientFields[] = {
    array("of_start", &GradientBatch::of_start, "S", "d loss / d start"),
    array("of_finish", &GradientBatch::of_finish, "S", "d loss / d finish; overwritten"),
    array("of_capacity", &GradientBatch::of_capacity, "Q", "out, d loss / d capacity; nan where rates are not found"),
    array("of_latency", &GradientBatch::of_latency, "Q", "out, d loss / d latency"),
    count('S', &GradientBatch::all_tasks)};

namespace cpu {
void gradient(const GradientBatch& batch);
}
namespace cuda {
void gradient(const GradientBatch& batch);
}

}  // namespace topoflow
