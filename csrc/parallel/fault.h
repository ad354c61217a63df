// What a GPU reports instead of an answer.
#pragma once

#include <stdexcept>

namespace topoflow {

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace topoflow
