// log and exp with the same bits on a CPU and a GPU, whose libraries differ in the last one: made of sums, products and
// quotients alone, each rounded as IEEE 754 says (no fused multiply-add: csrc/CMakeLists.txt). Both are within 2 units
// in the last place of the true value.
//
// Source: reduction and series as in Muller, "Elementary functions", 3rd edition, 2016, chapters 3 (polynomials) and 11
// (Cody and Waite's reduction); the coefficients are those of Taylor.
#pragma once

#include "backend.h"

namespace topoflow::BACKEND {

// ln 2 in two parts: the first has 40 bits after the point, so that a product with an exponent is exact.
constexpr double kLn2High = 0x1.62e42fefa2p-1, kLn2Low = 0x1.9ef35793c7673p-41;

// Of a positive number that is finite and not subnormal: x = 2^k m, m within 1/sqrt(2) .. sqrt(2), and
//   ln m = 2 artanh s = 2 (s + s^3/3 + s^5/5 + ..)   s = (m - 1) / (m + 1), at most 0.172: s^25/25 < 2^-68 s
HD double natural_log(double x) {
  int64_t bits;
  memcpy(&bits, &x, sizeof(bits));
  int64_t k = (bits >> 52) - 1023;
  bits = (bits & 0xFFFFFFFFFFFFF) | int64_t{1023} << 52;
  double m;
  memcpy(&m, &bits, sizeof(m));
  if (m > 1.4142135623730951) {
    m /= 2;
    ++k;
  }
  const double s = (m - 1) / (m + 1), z = s * s;
  double tail = 1.0 / 23;
  tail = tail * z + 1.0 / 21;
  tail = tail * z + 1.0 / 19;
  tail = tail * z + 1.0 / 17;
  tail = tail * z + 1.0 / 15;
  tail = tail * z + 1.0 / 13;
  tail = tail * z + 1.0 / 11;
  tail = tail * z + 1.0 / 9;
  tail = tail * z + 1.0 / 7;
  tail = tail * z + 1.0 / 5;
  tail = tail * z + 1.0 / 3;
  const auto exponent = static_cast<double>(k);
  return exponent * kLn2High + (2 * s + (2 * s * (z * tail) + exponent * kLn2Low));
}

// Of a number up to 709: x = k ln 2 + r, |r| at most 0.347, and the series of e^r, whose r^14/14! is below 2^-57.
// 0 where the result would be subnormal.
HD double exponential(double x) {
  if (x < -708) return 0;
  const double nearest = x * 1.4426950408889634 + (x < 0 ? -0.5 : 0.5);
  const auto k = static_cast<int64_t>(nearest);
  const auto exponent = static_cast<double>(k);
  const double r = (x - exponent * kLn2High) - exponent * kLn2Low;
  double sum = 1.0 / 6227020800;
  sum = sum * r + 1.0 / 479001600;
  sum = sum * r + 1.0 / 39916800;
  sum = sum * r + 1.0 / 3628800;
  sum = sum * r + 1.0 / 362880;
  sum = sum * r + 1.0 / 40320;
  sum = sum * r + 1.0 / 5040;
  sum = sum * r + 1.0 / 720;
  sum = sum * r + 1.0 / 120;
  sum = sum * r + 1.0 / 24;
  sum = sum * r + 1.0 / 6;
  sum = sum * r + 1.0 / 2;
  sum = sum * r + 1.0;
  const int64_t bits = (k + 1023) << 52;
  double scale;
  memcpy(&scale, &bits, sizeof(scale));
  return (1 + r * sum) * scale;
}

}  // namespace topoflow::BACKEND
