// A placement: which choice of holders each layer has, and the buckets of gradients that follow from it.
//   buckets of at least 1 B, then 25 B; gradients of 2, 10, 20, 3 B in the order of the backward pass, one group
//     -> 2 | 10 + 20 | 3
//
// Source: topoflow/traffic/lower.py and buckets.py.
#pragma once

#include <type_traits>

#include "parallel/team.h"
#include "strategies.h"

namespace topoflow::BACKEND {

class Placement {
 public:
  HD Placement(const Strategies& strategies, int32_t* placement) : s_(strategies), placement_(placement) {}

  DEVICE int32_t choice(int32_t layer) const { return placement_[layer]; }
  DEVICE int32_t holders(int32_t choice) const {
    return static_cast<int32_t>(s_.row_offsets[choice + 1] - s_.row_offsets[choice]);
  }
  DEVICE int64_t rows(int32_t layer) const { return s_.row_offsets[choice(layer)]; }
  DEVICE bool crosses(int64_t edge) const { return choice(s_.source[edge]) != choice(s_.consumer[edge]); }

  // Returns [N] the holder that computes the samples of each server.
  DEVICE const int32_t* hosts(int32_t layer) const { return s_.host + int64_t{choice(layer)} * s_.servers; }

  // Returns whether a gradient of the layer is reduced among GPUs.
  DEVICE bool reduces(int32_t layer) const {
    return s_.gradient[layer] > 0 && (s_.inside[layer] || holders(choice(layer)) > 1);
  }

  // B that a group of holders reduces if the layers have the choices of `target` [Y].
  DEVICE double reduced(const int32_t* target, int32_t choice) const {
    double bytes = 0;
    for (int32_t layer = 0; layer < s_.layers; ++layer)
      if (target[layer] == choice && (s_.inside[layer] || holders(choice) > 1)) bytes += s_.gradient[layer];
    return bytes;
  }

  // f(i, server) for each holder of the layer; consecutive servers are a case of their own, for the compiler.
  template <class F>
  DEVICE void on_holders(const Team auto& team, int32_t layer, const F& f) const {
    const int32_t* holder = s_.holder + rows(layer);
    const int32_t count = holders(choice(layer)), first = holder[0];
    if (holder[count - 1] - first == count - 1) return team.for_each(count, [=](int32_t i) { f(i, first + i); });
    team.for_each(count, [=](int32_t i) { f(i, holder[i]); });
  }

  // bucket [Y] becomes B of the bucket that the layer's backward pass completes, negative for a group's first, 0: none.
  // Overwrites three numbers of each group: size, opened, and last [K], the layer that completes its last bucket.
  DEVICE void fill_buckets(const Team auto& team, double* bucket, double* size, double* opened, double* last) const {
    if constexpr (std::remove_cvref_t<decltype(team)>::kAlone)
      follow_all(bucket, size, opened, last);
    else  // threads of a GPU follow all groups at once
      team.for_each(s_.layers, [=, this](int32_t layer) { follow_group(layer, bucket); });
  }

 protected:
  // B from which on a group's bucket is complete.
  DEVICE double bucket_limit(bool opened) const { return opened ? s_.bucket_bytes : s_.first_bucket_bytes; }

  DEVICE void follow_all(double* bucket, double* size, double* opened, double* last) const {
    for (int32_t layer = s_.layers - 1; layer >= 0; --layer) {
      const int32_t group = choice(layer);
      size[group] = opened[group] = 0;
      if (reduces(layer)) last[group] = layer;
    }
    for (int32_t layer = s_.layers - 1; layer >= 0; --layer) {
      const int32_t group = choice(layer);
      bucket[layer] = 0;
      if (!reduces(layer)) continue;
      size[group] += s_.gradient[layer];
      if (size[group] < bucket_limit(opened[group] > 0) && last[group] != layer) continue;
      bucket[layer] = opened[group] > 0 ? size[group] : -size[group];
      opened[group] = 1;
      size[group] = 0;
    }
  }

  // The same for the layer's group, if the layer is its first in the backward pass.
  DEVICE void follow_group(int32_t layer, double* bucket) const {
    const int32_t group = choice(layer);
    for (int32_t other = layer + 1; other < s_.layers; ++other)
      if (choice(other) == group) return;
    double size = 0;
    bool opened = false;
    int32_t last = -1;  // the layer that the open bucket ends with so far
    for (int32_t member = layer; member >= 0; --member) {
      if (choice(member) != group) continue;
      bucket[member] = 0;
      if (!reduces(member)) continue;
      size += s_.gradient[member];
      last = member;
      if (size < bucket_limit(opened)) continue;
      bucket[member] = opened ? size : -size;
      opened = true;
      size = 0;
      last = -1;
    }
    if (last >= 0) bucket[last] = opened ? size : -size;
  }

  // The links of a path get B / unit more, or less: `sign` times.
  DEVICE void load_path(const Team auto& team, int64_t* load, int32_t path, double bytes, int64_t sign) const {
    const int64_t end = s_.path_offsets[path + 1], whole = sign * static_cast<int64_t>(bytes);
    for (int64_t hop = s_.path_offsets[path]; hop < end; ++hop)
      team.atomic_add(&load[s_.path_links[hop]],
                      s_.path_weight ? sign * static_cast<int64_t>(s_.path_weight[hop] * bytes) : whole);
  }

  const Strategies& s_;
  int32_t* placement_;
};

// Takes the first `numbers` of a team's memory, which then begins after them.
HD double* take(double*& memory, int64_t numbers) {
  double* const start = memory;
  memory += numbers;
  return start;
}

// The largest of n numbers, none of them negative; 0 if there is none.
template <class F>
DEVICE double latest(const Team auto& team, int32_t n, const F& f) {
  const double lowest = team.min(n, [&](int32_t i) { return -f(i); });
  return lowest < 0 ? -lowest : 0;
}

DEVICE double later_of(double a, double b) { return a > b ? a : b; }

}  // namespace topoflow::BACKEND
