// One world on SimGrid, the peer of the fluid fidelity:
//
//     simgrid_world world=FILE.json [--cfg=maxmin/precision:1e-12 ...]
//
// prints the CPU seconds of SimGrid's engine (reading the file and building the platform are left out), then the
// finish of every task (s, 17 digits) in the order of the file. Further arguments are SimGrid's own options.
//
// Max-min shares as in topoflow.engine.base: the CM02 network model without cross-traffic and without a TCP window.
// SimGrid has one route for a pair of hosts, a world a path for a flow: each path gets a pair of hosts of its own, and
// paths that join different nodes use the same pool of hosts, since a full routing table has (hosts)^2 entries. A
// compute has a host of 1 flop/s to itself; a start time is a compute of as many seconds that the task waits for.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <exception>
#include <map>
#include <simgrid/s4u.hpp>

#include "world.h"

namespace sg4 = simgrid::s4u;

namespace {

// SimGrid's transfers have whole sizes, a world's need not: sizes and bandwidths are counted in units of 2^-20 B, which
// changes no time and rounds 1 B by 5e-7.
constexpr double UNIT = 1.0 / (1 << 20);  // B

using Pair = std::pair<sg4::Host*, sg4::Host*>;
using Path = std::vector<std::size_t>;

// Hosts and routes, made where a path first needs them.
class Platform {
 public:
  explicit Platform(const World& world) : world_(world) {
    for (std::size_t link = 0; link < world.links.size(); ++link)
      links_.push_back(
          network_->create_link("link " + std::to_string(link), world.links[link].bandwidth / UNIT)->seal());
  }

  // The hosts whose route is `path`: the i-th path from node a to node b joins the i-th sender at a to the i-th
  // receiver at b.
  Pair ends(const Path& path) {
    const auto [found, is_new] = pairs_.try_emplace(path);
    if (is_new) {
      const std::string &source = world_.links[path.front()].source, &target = world_.links[path.back()].target;
      const std::string copy = " " + std::to_string(copies_[{source, target}]++);
      found->second = {host("from " + source + copy), host("to " + target + copy)};
      add_route(found->second, path);
    }
    return found->second;
  }

  // A host that computes one second in a second, and nothing else.
  sg4::Host* computer() { return computers_->create_host("computer " + std::to_string(count_++), 1.0)->seal(); }

  void seal() {
    computers_->seal();
    network_->seal();
    root_->seal();
  }

 private:
  sg4::Host* host(const std::string& name) {
    const auto [found, is_new] = hosts_.try_emplace(name);
    if (is_new) found->second = network_->create_host(name, 1.0)->seal();
    return found->second;
  }

  void add_route(const Pair& ends, const Path& path) {
    std::vector<sg4::LinkInRoute> route;
    for (const std::size_t link : path) route.emplace_back(links_[link]);
    network_->add_route(ends.first->get_netpoint(), ends.second->get_netpoint(), nullptr, nullptr, route, false);
  }

  const World& world_;
  sg4::NetZone* root_ = sg4::create_empty_zone("root");
  sg4::NetZone* network_ = sg4::create_full_zone("network")->set_parent(root_);
  sg4::NetZone* computers_ = sg4::create_empty_zone("computers")->set_parent(root_);
  std::vector<const sg4::Link*> links_;
  std::map<std::string, sg4::Host*> hosts_;
  std::map<std::pair<std::string, std::string>, int> copies_;
  std::map<Path, Pair> pairs_;
  std::size_t count_ = 0;
};

// Only SimGrid's concrete activities may be given a successor.
void add_successor(sg4::Activity& earlier, const sg4::ActivityPtr& later) {
  if (auto* comm = dynamic_cast<sg4::Comm*>(&earlier))
    comm->add_successor(later);
  else
    dynamic_cast<sg4::Exec&>(earlier).add_successor(later);
}

struct Activities {
  std::vector<sg4::ActivityPtr> tasks;
  std::map<double, sg4::ActivityPtr> clocks;  // by the start that each keeps
};

Activities build(const World& world, Platform& platform) {
  const auto compute = [&](double seconds) {
    return sg4::Exec::init()->set_host(platform.computer())->set_flops_amount(seconds);
  };
  Activities made;
  for (const Task& task : world.tasks) {
    if (task.path.empty()) {
      made.tasks.push_back(compute(task.amount));
    } else {
      const auto [from, to] = platform.ends(task.path);
      const auto size = static_cast<uint64_t>(std::llround(task.amount / UNIT));
      made.tasks.push_back(sg4::Comm::sendto_init(from, to)->set_payload_size(size));
    }
    if (task.start > 0 && made.clocks.count(task.start) == 0) made.clocks[task.start] = compute(task.start);
  }
  for (std::size_t index = 0; index < world.tasks.size(); ++index) {
    const Task& task = world.tasks[index];
    for (const std::size_t earlier : task.after) add_successor(*made.tasks[earlier], made.tasks[index]);
    if (task.start > 0) add_successor(*made.clocks[task.start], made.tasks[index]);
  }
  return made;
}

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

void run(sg4::Engine& engine, const World& world) {
  Platform platform(world);
  const Activities activities = build(world, platform);
  platform.seal();
  const double begin = cpu_seconds();
  for (const auto& [start, clock] : activities.clocks) clock->vetoable_start();
  for (const auto& task : activities.tasks) task->vetoable_start();
  engine.run();
  std::printf("%.9g\n", cpu_seconds() - begin);
  for (const auto& task : activities.tasks) std::printf("%.17g\n", task->get_finish_time());
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<std::string> options = {argv[0], "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                      "--cfg=network/TCP-gamma:0", "--log=root.threshold:error"};
  std::string file;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("world=", 0) == 0)
      file = argument.substr(6);
    else
      options.push_back(argument);
  }
  if (file.empty()) throw std::runtime_error("usage: simgrid_world world=FILE.json [SimGrid's options]");
  const World world = read_world(file);
  std::vector<char*> arguments;
  for (auto& option : options) arguments.push_back(option.data());
  int count = static_cast<int>(arguments.size());
  sg4::Engine engine(&count, arguments.data());
  run(engine, world);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
