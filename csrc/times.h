// Times in whole picoseconds.
#pragma once

#include <cstdint>

namespace topoflow {

constexpr int64_t kNever = int64_t{1} << 62;  // later than every time

}  // namespace topoflow
