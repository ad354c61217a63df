// topoflow._C: check, launch, return.
#include <pybind11/pybind11.h>

namespace py = pybind11;

namespace topoflow {

void bind_fluid(py::module_& module, py::dict& fields);
void bind_bound(py::module_& module, py::dict& fields);
void bind_screen(py::module_& module, py::dict& fields);
void bind_circuits(py::module_& module, py::dict& fields);
void bind_packet(py::module_& module, py::dict& fields);

}  // namespace topoflow

PYBIND11_MODULE(_C, module) {
  module.doc() = "Kernels of topoflow; topoflow.engine wraps them. FIELDS has the arrays of each.";
#ifdef TOPOFLOW_CUDA
  module.attr("has_cuda") = true;
#else
  module.attr("has_cuda") = false;
#endif
  py::dict fields;
  topoflow::bind_fluid(module, fields);
  topoflow::bind_bound(module, fields);
  topoflow::bind_screen(module, fields);
  topoflow::bind_circuits(module, fields);
  topoflow::bind_packet(module, fields);
  module.attr("FIELDS") = fields;
}
