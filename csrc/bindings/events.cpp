// The part of topoflow._C that reads the events of a profile.
#include "events/events.h"

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

namespace topoflow {
namespace {

template <class T>
py::array_t<T> to_array(std::vector<T>& column) {
  auto* values = new std::vector<T>(std::move(column));
  const py::capsule owner(values, [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  return py::array_t<T>(static_cast<py::ssize_t>(values->size()), values->data(), owner);
}

py::object read_events(const py::bytes& text, int64_t begin, int64_t end, const py::function& matters) {
  const std::string_view all = text;
  if (begin < 0 || end < begin || end > static_cast<int64_t>(all.size())) throw py::value_error("end: must be in text");
  EventReader reader(all.data(), begin, end, [&](std::string_view category, std::string_view name) {
    return matters(py::bytes(category), py::bytes(name)).cast<bool>();
  });
  if (!reader.read()) return py::none();
  EventColumns& columns = reader.columns;
  py::list lanes;
  for (const auto& [process, thread] : columns.lanes)
    lanes.append(py::make_tuple(py::bytes(process), py::bytes(thread)));
  py::dict result;
  result["number"] = to_array(columns.number);
  result["text"] = to_array(columns.text);
  result["lane"] = to_array(columns.lane);
  result["start"] = to_array(columns.start);
  result["end"] = to_array(columns.end);
  result["correlation"] = to_array(columns.correlation);
  result["args_begin"] = to_array(columns.args_begin);
  result["args_end"] = to_array(columns.args_end);
  result["names_collective"] = to_array(columns.names_collective);
  result["odd_number"] = to_array(columns.odd_number);
  result["odd_begin"] = to_array(columns.odd_begin);
  result["odd_end"] = to_array(columns.odd_end);
  result["lanes"] = lanes;
  return result;
}

}  // namespace

void bind_events(py::module_& module) {
  module.attr("NO_CORRELATION") = kNoCorrelation;
  module.def("read_events", &read_events, py::arg("text"), py::arg("begin"), py::arg("end"), py::arg("matters"),
             "The complete events of a list in columns; None if it is no JSON.");
}

}  // namespace topoflow
