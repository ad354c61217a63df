// A world as a file gives it: links, and transfers with explicit paths and computes that wait for each other. The
// docs/world_files.md of topoflow has the format; of it, this peer takes what max-min sharing without latency needs and refuses the
// rest.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

struct Link {
  std::string source;
  std::string target;
  double bandwidth;  // B/s
};

struct Task {
  std::vector<std::size_t> path;   // links; empty: a compute
  double amount;                   // bytes of a transfer, seconds of a compute
  double start;                    // s, not before
  std::vector<std::size_t> after;  // tasks
};

struct World {
  std::vector<Link> links;
  std::vector<Task> tasks;
};

// Throws std::runtime_error with one line that names the file, the place and the law.
World read_world(const std::string& file);
