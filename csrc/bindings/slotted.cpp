// The part of topoflow._C that simulates slots.
#include "arrays.hpp"
#include "slotted/batch.h"

namespace topoflow {
namespace {

int64_t slots(const py::dict& named, int64_t budget, int64_t stream, int32_t threads) {
  Arrays arrays(named);
  SlottedBatch batch{};
  arrays.take(batch, kSlottedFields);
  batch.budget = budget;
  batch.device = arrays.first().device_id;
  batch.stream = stream;
  batch.threads = threads;

  [[maybe_unused]] const bool on_cpu = arrays.on_cpu();
  const py::gil_scoped_release release;
#ifdef TOPOFLOW_CUDA
  if (!on_cpu) return cuda::slots(batch);
#endif
  return cpu::slots(batch);
}

}  // namespace

void bind_slotted(py::module_& module, py::dict& fields) {
  module.attr("REQUEST_GRANT") = static_cast<int>(kRequestGrant);
  module.attr("IDEAL") = static_cast<int>(kIdeal);
  module.attr("DIRECT") = static_cast<int>(kDirect);
  module.attr("ACK_NACK") = static_cast<int>(kAckNack);
  module.attr("ROTOR_LB") = static_cast<int>(kRotorLB);
  module.attr("OPERA") = static_cast<int>(kOpera);
  module.attr("PROTOCOLS") = static_cast<int>(kProtocols);
  module.attr("TURNS") = static_cast<int>(kTurns);
  module.attr("ARRIVAL") = static_cast<int>(kArrival);
  module.attr("MOST_RESERVATIONS") = kMaxReservations;
  module.attr("MOST_SAMPLES") = kMaxSamples;
  module.def("slots", &slots, py::arg("arrays"), py::arg("budget"), py::arg("stream"), py::arg("threads"),
             "Run every world of a batch slot by slot; writes the arrays that are `out`. Returns the bytes of state "
             "that one team needs.");
  fields["slots"] = documented(kSlottedFields);
}

}  // namespace topoflow
