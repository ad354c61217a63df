// The part of topoflow._C that reads the events of a profile.
#include "events/events.h"

#include <pybind11/functional.h>
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

namespace topoflow {
namespace {

template <class T>
py::array_t<T> moved(std::vector<T>& column) {
  auto* kept = new std::vector<T>(std::move(column));
  const py::capsule owner(kept, [](void* pointer) { delete static_cast<std::vector<T>*>(pointer); });
  return py::array_t<T>(static_cast<py::ssize_t>(kept->size()), kept->data(), owner);
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
  py::dict found;
  found["number"] = moved(columns.number);
  found["text"] = moved(columns.text);
  found["lane"] = moved(columns.lane);
  found["start"] = moved(columns.start);
  found["end"] = moved(columns.end);
  found["correlation"] = moved(columns.correlation);
  found["args_begin"] = moved(columns.args_begin);
  found["args_end"] = moved(columns.args_end);
  found["names_collective"] = moved(columns.names_collective);
  found["odd_number"] = moved(columns.odd_number);
  found["odd_begin"] = moved(columns.odd_begin);
  found["odd_end"] = moved(columns.odd_end);
  found["lanes"] = lanes;
  return found;
}

}  // namespace

void bind_events(py::module_& module) {
  module.attr("NO_CORRELATION") = kNoCorrelation;
  module.def("read_events", &read_events, py::arg("text"), py::arg("begin"), py::arg("end"), py::arg("matters"),
             "The complete events of a list in columns; None if it is no JSON.");
}

}  // namespace topoflow
