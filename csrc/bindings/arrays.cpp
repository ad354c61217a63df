#include "arrays.hpp"

#include <algorithm>
#include <stdexcept>

namespace topoflow {

int64_t Dimensions::items(const std::string& shape, int64_t size) {
  int64_t product = 1, *unknown = nullptr, more = 0;
  for (size_t i = 0, end; i < shape.size(); i = end + 1) {
    end = std::min(shape.find(',', i), shape.size());
    const std::string one = shape.substr(i, end - i);  // "2", "T" or "T+1"
    if (one[0] >= '0' && one[0] <= '9') {
      product *= std::stoll(one);
    } else if (int64_t& known = (*this)[one[0]]; known != kUnknown) {
      product *= known + (one.size() > 1);
    } else if (unknown) {
      throw std::logic_error("shape: must have one unknown letter at most, got " + shape);
    } else {
      unknown = &known, more = one.size() > 1;
    }
  }
  if (!unknown) return product;
  *unknown = std::max<int64_t>(product > 0 ? size / product - more : 0, 0);
  return product * (*unknown + more);
}

const Tensor& Arrays::tensor(const char* name, bool on_host) {
  const Tensor& tensor = tensors_.emplace_back(find(name));
  if (on_host) {  // for CUDA it lies in pinned memory, which some call the CPU's
    if (tensor->device_type != kCpu && tensor->device_type != kCudaHost)
      throw py::value_error(std::string(name) + ": must lie in memory of the host");
  } else if (tensor->device_type != first().device_type || tensor->device_id != first().device_id) {
    throw py::value_error(std::string(name) + ": must lie on the device of the other arrays");
  }
  return tensor;
}

bool Arrays::on_cpu() const {
  const int32_t type = first().device_type;
  if (type != kCpu && type != kCuda)
    throw py::value_error("device: must be CPU or CUDA, got DLPack device type " + std::to_string(type));
#ifndef TOPOFLOW_CUDA
  if (type == kCuda)
    throw py::value_error("device: topoflow._C was built without CUDA; put nvcc on the path and run pip install again");
#endif
  return type == kCpu;
}

py::object Arrays::find(const char* name) const {
  if (!named_.contains(name)) throw py::value_error(std::string(name) + ": array is missing");
  return named_[name];
}

}  // namespace topoflow
