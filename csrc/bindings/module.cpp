// topoflow._C: check, launch, return.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "parallel/architectures.h"
#include "parallel/fault.h"

namespace py = pybind11;

namespace topoflow {

void bind_fluid(py::module_& module, py::dict& fields);
void bind_bound(py::module_& module, py::dict& fields);
void bind_screen(py::module_& module, py::dict& fields);
void bind_circuits(py::module_& module, py::dict& fields);
void bind_packet(py::module_& module, py::dict& fields);
void bind_slotted(py::module_& module, py::dict& fields);
void bind_events(py::module_& module);
void bind_recording(py::module_& module);

}  // namespace topoflow

PYBIND11_MODULE(_C, module) {
  module.doc() =
      "Kernels of topoflow, which topoflow.engine wraps, and a reader of profiles. FIELDS has the arrays of each "
      "kernel.";
  py::register_exception<topoflow::Fault>(module, "Fault", PyExc_RuntimeError);
#ifdef TOPOFLOW_CUDA
  module.attr("has_cuda") = true;
  module.attr("architectures") = py::cast(topoflow::cuda::architectures());
  module.def("has_kernels_for", &topoflow::cuda::has_kernels_for, py::arg("device"),
             "Whether the kernels were compiled for this GPU.");
#else
  module.attr("has_cuda") = false;
#endif
  py::dict fields;
  topoflow::bind_fluid(module, fields);
  topoflow::bind_bound(module, fields);
  topoflow::bind_screen(module, fields);
  topoflow::bind_circuits(module, fields);
  topoflow::bind_packet(module, fields);
  topoflow::bind_slotted(module, fields);
  topoflow::bind_events(module);
  topoflow::bind_recording(module);
  module.attr("FIELDS") = fields;
}
