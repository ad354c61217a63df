// The part of topoflow._C that is about circuits which change while a job runs; on the CPU only.
#include "arrays.hpp"
#include "circuits/choose.h"
#include "circuits/job.h"

namespace topoflow {
namespace {

py::tuple advance(const py::dict& named, int64_t ready, double now, double until, double latency, double merge) {
  Arrays arrays(named);
  Job job{};
  arrays.take(job.graph, kJobGraphFields);
  arrays.take(job, kJobFields);
  job.latency = latency;
  job.merge = merge;
  job.ready_count = ready;
  if (!arrays.on_cpu()) throw py::value_error("device: must be CPU");
  Status status;
  {
    const py::gil_scoped_release release;
    status = cpu::advance(job, now, until);
  }
  return py::make_tuple(static_cast<int>(status), job.ready_count, job.moving);
}

void choose_circuits(const py::dict& named, int32_t degree, double discount) {
  Arrays arrays(named);
  Circuits circuits{};
  arrays.take(circuits, kCircuitsFields);
  circuits.degree = degree;
  circuits.discount = discount;
  const py::gil_scoped_release release;
  circuits();
}

}  // namespace

void bind_circuits(py::module_& module, py::dict& fields) {
  module.def("advance", &advance, py::arg("arrays"), py::arg("ready"), py::arg("now"), py::arg("until"),
             py::arg("latency"), py::arg("merge"),
             "Run a job from one pause to the next. Returns its status, how many of its tasks are ready, and how many "
             "have moved.");
  module.def("choose_circuits", &choose_circuits, py::arg("arrays"), py::arg("degree"), py::arg("discount"),
             "The circuits that serve a demand best.");
  fields["advance"] = documented(kJobGraphFields, kJobFields);
  fields["choose_circuits"] = documented(kCircuitsFields);
}

}  // namespace topoflow
