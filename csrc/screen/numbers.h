// The random numbers, log and exp of chains alone, for tests of each device.
//
// Source: parallel/random.h and parallel/elementary.h.
#pragma once

#include "coflows.h"

namespace topoflow {

struct NumbersBatch {
  Where where;
  int32_t numbers;
  int64_t key[2], high, highest;
  const double *log_of, *exp_of;
  double *uniform, *log, *exp;
};

constexpr Field<NumbersBatch> kNumbersFields[] = {
    array("log_of", &NumbersBatch::log_of, "I", "positive numbers"),
    array("exp_of", &NumbersBatch::exp_of, "I", "numbers up to 709"),
    array("uniform", &NumbersBatch::uniform, "I", "out, what Philox draws"),
    array("log", &NumbersBatch::log, "I", "out"),
    array("exp", &NumbersBatch::exp, "I", "out"),
    count('I', &NumbersBatch::numbers)};

namespace cpu {
void numbers(const NumbersBatch& batch);
}
namespace cuda {
void numbers(const NumbersBatch& batch);
}

}  // namespace topoflow
