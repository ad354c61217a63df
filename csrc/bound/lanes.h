// Worlds of one graph side by side: the same step for all of them, as lanes of SIMD or as threads next to each other.
//   8 worlds, 3 links: rows [3][8], so that one row has the numbers of one link in all worlds
//
// A team has kLanes worlds. One call of a function works on kWide of them: on a CPU on all, in SIMD registers; on a GPU
// on one, where neighbouring threads have neighbouring worlds and read neighbouring numbers.
//
// Source: array of structures of arrays, as in Pharr and Mark, ispc: A SPMD Compiler for High-Performance CPU
// Programming, InPar 2012.
#pragma once

#include "parallel/team.h"

namespace topoflow::cpu {
typedef double Simd __attribute__((vector_size(16)));  // what every x86-64 and every 64-bit Arm has
constexpr int32_t kLanes = 8, kWide = 8;
}  // namespace topoflow::cpu
namespace topoflow::cuda {
using Simd = double;
constexpr int32_t kLanes = 16, kWide = 1;
}  // namespace topoflow::cuda

namespace topoflow::BACKEND {

// One number for each world that a call works on.
struct Wide {
  static constexpr int32_t kParts = kWide * sizeof(double) / sizeof(Simd);
  Simd part[kParts];
};

template <class F>
DEVICE Wide map_parts(const F& f) {
  Wide result;
  for (int32_t i = 0; i < Wide::kParts; ++i) result.part[i] = f(i);
  return result;
}

DEVICE Wide all(double value) {
  return map_parts([&](int32_t) { return Simd{} + value; });
}
DEVICE Wide operator+(const Wide& a, const Wide& b) {
  return map_parts([&](int32_t i) { return a.part[i] + b.part[i]; });
}
DEVICE Wide operator*(double a, const Wide& b) {
  return map_parts([&](int32_t i) { return a * b.part[i]; });
}
DEVICE Wide higher(const Wide& a, const Wide& b) {
  return map_parts([&](int32_t i) { return a.part[i] > b.part[i] ? a.part[i] : b.part[i]; });
}
DEVICE Wide lower(const Wide& a, const Wide& b) {
  return map_parts([&](int32_t i) { return a.part[i] < b.part[i] ? a.part[i] : b.part[i]; });
}

DEVICE double number(const Wide& numbers, int32_t lane) { return reinterpret_cast<const double*>(&numbers)[lane]; }

// Returns whether a is higher in any world.
DEVICE bool exceeds(const Wide& a, const Wide& b) {
  bool any_higher = false;
  for (int32_t i = 0; i < kWide; ++i) any_higher |= number(a, i) > number(b, i);
  return any_higher;
}

// Numbers [rows][kLanes] of a team.
struct Rows {
  double* start;

  DEVICE double& at(int64_t row, int32_t lane) const { return start[row * kLanes + lane]; }

  DEVICE Wide get(int64_t row, int32_t lane) const {
    return map_parts([&](int32_t i) { return reinterpret_cast<const Simd*>(&at(row, lane))[i]; });
  }
  DEVICE void set(int64_t row, int32_t lane, const Wide& value) const {
    for (int32_t i = 0; i < Wide::kParts; ++i) reinterpret_cast<Simd*>(&at(row, lane))[i] = value.part[i];
  }
};

// Calls f(row, lane) for rows first..end and every kWide-th lane.
template <class F>
DEVICE void for_each_row(const Team auto& team, int64_t first, int64_t end, const F& f) {
  constexpr int32_t calls = kLanes / kWide;
  team.for_each(static_cast<int32_t>((end - first) * calls),
                [&](int32_t i) { f(first + i / calls, i % calls * kWide); });
}

}  // namespace topoflow::BACKEND
