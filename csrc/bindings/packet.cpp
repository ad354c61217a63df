// The part of topoflow._C that simulates packets.
#include "arrays.hpp"
#include "packet/batch.h"

namespace topoflow {
namespace {

int64_t packets(const py::dict& named, const py::dict& settings, int64_t budget, int64_t stream, int32_t threads,
                int32_t grain) {
  PacketBatch batch{};
  NamedSettings model(settings);
  model.take(batch.model, kPacketSettings);
  model.take(batch.transport, kTransportSettings);
  model.check_all_taken();
  Arrays arrays(named);
  arrays.take(batch.tasks, kPacketTaskFields);
  arrays.take(batch.paths, kPathFields);
  arrays.take(batch.ports, kPortFields);
  arrays.take(batch.flows, kFlowFields);
  arrays.take(batch.address, kAddressFields);
  arrays.take(batch.run, kRunFields);
  arrays.take(batch.out, kAnswerFields);
  arrays.take(batch, kPacketCounts);
  if (batch.worlds && batch.bins != kLatencyBins)
    throw py::value_error("latencies: must have " + std::to_string(kLatencyBins) + " bins, got " +
                          std::to_string(batch.bins));
  batch.budget = budget;
  batch.device = arrays.first().device_id;
  batch.stream = stream;
  batch.threads = threads;
  batch.grain = grain;

  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::packets(batch);
#endif
  return cpu::packets(batch);
}

}  // namespace

void bind_packet(py::module_& module, py::dict& fields) {
  module.attr("BLOCKED") = static_cast<int>(kBlocked);
  module.attr("TOO_LONG") = static_cast<int>(kTooLong);
  module.attr("NEVER") = kNever;
  module.attr("MOST_LOSSES") = kMaxLosses;
  module.attr("LATENCY_BINS") = kLatencyBins;
  module.attr("PACKET_SETTINGS") = documented(kPacketSettings, kTransportSettings);
  module.def("packets", &packets, py::arg("arrays"), py::arg("settings"), py::arg("budget"), py::arg("stream"),
             py::arg("threads"), py::arg("grain"),
             "Run every world of a batch packet by packet; writes the arrays that are `out`. Where there are fewer "
             "worlds than threads, several share a world of `grain` ports for each of them. Returns the bytes of state "
             "that one world needs.");
  fields["packets"] =
      documented(kPacketTaskFields, kPathFields, kPortFields, kFlowFields, kAddressFields, kRunFields, kAnswerFields);
}

}  // namespace topoflow
