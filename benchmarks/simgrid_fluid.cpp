// One world on SimGrid, the peer of the fluid fidelity: flows with dependencies on links, written by fluid_speed.py.
// Prints the seconds that the engine ran (building the platform is left out), then the finish of every flow.
//
// Max-min shares as in topoflow.engine.base: CM02 without cross-traffic and without a TCP window. (With latency, CM02
// weighs a flow's share by its inverse: not the same model.)
#include <chrono>
#include <cstdio>
#include <fstream>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

int main(int argc, char** argv) {
  std::vector<std::string> options = {argv[0], "--cfg=network/model:CM02", "--cfg=network/crosstraffic:0",
                                      "--cfg=network/TCP-gamma:0", "--log=root.threshold:error"};
  std::vector<char*> arguments;
  for (auto& option : options) arguments.push_back(option.data());
  int count = static_cast<int>(arguments.size());
  sg4::Engine engine(&count, arguments.data());
  if (argc != 2) return 2;
  std::ifstream in(argv[1]);

  auto* zone = sg4::create_full_zone("zone");
  int hosts, links, pairs, flows;
  in >> hosts >> links >> pairs >> flows;
  std::vector<sg4::Host*> host(hosts);
  for (int i = 0; i < hosts; ++i) host[i] = zone->create_host("host" + std::to_string(i), 1e9)->seal();
  std::vector<const sg4::Link*> link(links);
  for (int i = 0; i < links; ++i) {
    double bandwidth, latency;
    in >> bandwidth >> latency;
    link[i] = zone->create_link("link" + std::to_string(i), bandwidth)->set_latency(latency)->seal();
  }
  for (int i = 0; i < pairs; ++i) {
    int source, target, hops;
    in >> source >> target >> hops;
    std::vector<sg4::LinkInRoute> route;
    for (int hop = 0; hop < hops; ++hop) {
      int index;
      in >> index;
      route.emplace_back(link[index]);
    }
    zone->add_route(host[source]->get_netpoint(), host[target]->get_netpoint(), nullptr, nullptr, route, false);
  }
  zone->seal();

  std::vector<sg4::CommPtr> flow(flows);
  for (int i = 0; i < flows; ++i) {
    int source, target, waits;
    uint64_t bytes;
    in >> source >> target >> bytes >> waits;
    flow[i] = sg4::Comm::sendto_init(host[source], host[target]);
    flow[i]->set_payload_size(bytes);
    for (int k = 0; k < waits; ++k) {
      int earlier;
      in >> earlier;
      flow[earlier]->add_successor(flow[i]);
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  for (auto& each : flow) each->vetoable_start();
  engine.run();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("%.9g\n", seconds.count());
  for (auto& each : flow) std::printf("%.17g\n", each->get_finish_time());
  return 0;
}
