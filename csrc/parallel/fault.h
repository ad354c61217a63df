// An error that a GPU reports.
#pragma once

#include <stdexcept>

namespace topoflow {

struct Fault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace topoflow
