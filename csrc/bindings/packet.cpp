// The part of topoflow._C that simulates packets.
#include "arrays.hpp"
#include "packet/batch.h"

namespace topoflow {
namespace {

struct PacketModel {
  int32_t size, flit;
  int64_t switch_latency, nic_latency, credit_latency;
  bool cut_through, output_queues, by_message, in_turn, by_age, by_arrival, in_order, by_free;
  double threshold;
  int32_t samples;
  TransportSettings transport;
  bool is_sst;
  int64_t setup, match;
};

int64_t packets(const py::dict& named, const PacketModel& model, int64_t budget, int64_t stream, int32_t threads,
                int32_t grain) {
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
  batch.in_turn = model.in_turn;
  batch.by_age = model.by_age;
  batch.by_arrival = model.by_arrival;
  batch.in_order = model.in_order;
  batch.by_free = model.by_free;
  batch.threshold = model.threshold;
  batch.samples = model.samples;
  batch.transport = model.transport;
  batch.is_sst = model.is_sst;
  batch.setup = model.setup;
  batch.match = model.match;
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

void bind_transport(py::module_& module) {
  py::class_<TransportSettings>(module, "Transport", "Ports that lose or mark packets, and what messages do about it.")
      .def(py::init([](bool is_on, int32_t loss, int32_t control, int64_t timeout, int32_t mark_from, int32_t mark_to,
                       int64_t mark_most, bool mark_leaving, int64_t timer, int64_t bytes, int64_t alpha_timer,
                       int64_t notice, int32_t gain, int32_t recoveries) {
             return TransportSettings{.is_on = is_on,
                                      .loss = loss,
                                      .control = control,
                                      .timeout = timeout,
                                      .mark_from = mark_from,
                                      .mark_to = mark_to,
                                      .mark_most = mark_most,
                                      .mark_leaving = mark_leaving,
                                      .timer = timer,
                                      .bytes = bytes,
                                      .alpha_timer = alpha_timer,
                                      .notice = notice,
                                      .gain = gain,
                                      .recoveries = recoveries};
           }),
           py::kw_only(), py::arg("is_on"), py::arg("loss"), py::arg("control"), py::arg("timeout"),
           py::arg("mark_from"), py::arg("mark_to"), py::arg("mark_most"), py::arg("mark_leaving"), py::arg("timer"),
           py::arg("bytes"), py::arg("alpha_timer"), py::arg("notice"), py::arg("gain"), py::arg("recoveries"));
}

}  // namespace

void bind_packet(py::module_& module, py::dict& fields) {
  module.attr("BLOCKED") = static_cast<int>(kBlocked);
  module.attr("TOO_LONG") = static_cast<int>(kTooLong);
  module.attr("NEVER") = kNever;
  module.attr("MOST_LOSSES") = kMostLosses;
  module.attr("LATENCY_BINS") = kLatencyBins;
  bind_transport(module);
  py::class_<PacketModel>(module, "PacketModel", "How switches and NICs treat packets: B and ps.")
      .def(py::init([](int32_t size, int32_t flit, int64_t switch_latency, int64_t nic_latency, int64_t credit_latency,
                       bool cut_through, bool output_queues, bool by_message, bool in_turn, bool by_age,
                       bool by_arrival, bool in_order, bool by_free, double threshold, int32_t samples,
                       const TransportSettings& transport, bool is_sst, int64_t setup, int64_t match) {
             return PacketModel{.size = size,
                                .flit = flit,
                                .switch_latency = switch_latency,
                                .nic_latency = nic_latency,
                                .credit_latency = credit_latency,
                                .cut_through = cut_through,
                                .output_queues = output_queues,
                                .by_message = by_message,
                                .in_turn = in_turn,
                                .by_age = by_age,
                                .by_arrival = by_arrival,
                                .in_order = in_order,
                                .by_free = by_free,
                                .threshold = threshold,
                                .samples = samples,
                                .transport = transport,
                                .is_sst = is_sst,
                                .setup = setup,
                                .match = match};
           }),
           py::kw_only(), py::arg("size"), py::arg("flit"), py::arg("switch_latency"), py::arg("nic_latency"),
           py::arg("credit_latency"), py::arg("cut_through"), py::arg("output_queues"), py::arg("by_message"),
           py::arg("in_turn"), py::arg("by_age"), py::arg("by_arrival"), py::arg("in_order"), py::arg("by_free"),
           py::arg("threshold"), py::arg("samples"), py::arg("transport"), py::arg("is_sst"), py::arg("setup"),
           py::arg("match"));
  module.def("packets", &packets, py::arg("arrays"), py::arg("model"), py::arg("budget"), py::arg("stream"),
             py::arg("threads"), py::arg("grain"),
             "Run every world of a batch packet by packet; writes the arrays that are `out`. Where there are fewer "
             "worlds than threads, several share a world of `grain` ports for each of them. Returns the bytes of state "
             "that one world needs.");
  fields["packets"] = documented(kPacketFields);
}

}  // namespace topoflow
