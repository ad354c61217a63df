// The part of topoflow._C that simulates packets.
#include "arrays.hpp"
#include "packet/batch.h"

namespace topoflow {
namespace {

struct PacketModel {
  int32_t size, flit;
  int64_t switch_latency, nic_latency, credit_latency;
  bool cut_through, output_queues, by_message, by_age, in_order, by_free;
  double threshold;
};

int64_t packets(const py::dict& named, const PacketModel& model, int64_t budget, int64_t stream, int32_t threads) {
  Arrays arrays(named);
  PacketBatch batch{};
  arrays.take(batch, kPacketFields);
  if (batch.worlds && batch.bins != kLatencyBins)
    throw py::value_error("latencies: must have " + std::to_string(kLatencyBins) + " bins, got " +
                          std::to_string(batch.bins));
  batch.size = model.size;
  batch.flit = model.flit;
  batch.switch_latency = model.switch_latency;
  batch.nic_latency = model.nic_latency;
  batch.credit_latency = model.credit_latency;
  batch.cut_through = model.cut_through;
  batch.output_queues = model.output_queues;
  batch.by_message = model.by_message;
  batch.by_age = model.by_age;
  batch.in_order = model.in_order;
  batch.by_free = model.by_free;
  batch.threshold = model.threshold;
  batch.budget = budget;
  batch.device = arrays.first().device_id;
  batch.stream = stream;
  batch.threads = threads;

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
  module.attr("LATENCY_BINS") = kLatencyBins;
  py::class_<PacketModel>(module, "PacketModel", "How switches and NICs treat packets: B and ps.")
      .def(py::init([](int32_t size, int32_t flit, int64_t switch_latency, int64_t nic_latency, int64_t credit_latency,
                       bool cut_through, bool output_queues, bool by_message, bool by_age, bool in_order, bool by_free,
                       double threshold) {
             return PacketModel{size,          flit,       switch_latency, nic_latency, credit_latency, cut_through,
                                output_queues, by_message, by_age,         in_order,    by_free,        threshold};
           }),
           py::kw_only(), py::arg("size"), py::arg("flit"), py::arg("switch_latency"), py::arg("nic_latency"),
           py::arg("credit_latency"), py::arg("cut_through"), py::arg("output_queues"), py::arg("by_message"),
           py::arg("by_age"), py::arg("in_order"), py::arg("by_free"), py::arg("threshold"));
  module.def("packets", &packets, py::arg("arrays"), py::arg("model"), py::arg("budget"), py::arg("stream"),
             py::arg("threads"),
             "Run every world of a batch packet by packet; writes the arrays that are `out`. Returns the bytes of "
             "state that one team needs.");
  fields["packets"] = documented(kPacketFields);
}

}  // namespace topoflow
