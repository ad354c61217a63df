// Arrays of Python by name, as the bindings take them.
#pragma once

#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "tensor.hpp"

namespace topoflow {

namespace py = pybind11;

// Arrays by name; all must lie on the device of the first.
class Arrays {
 public:
  explicit Arrays(const py::dict& named) : named_(named) {}
  Arrays(Arrays&&) = default;
  Arrays(const Arrays&) = delete;

  template <class T>
  T* take(const char* name, int64_t size) {
    const Tensor& tensor = tensors_.emplace_back(find(name));
    if (tensor->device_type != tensors_[0]->device_type || tensor->device_id != tensors_[0]->device_id)
      throw py::value_error(std::string(name) + ": must lie on the device of the other arrays");
    return tensor.vector<T>(name, size);
  }

  // What Python writes while a kernel reads it: for CUDA it lies in pinned memory, which some call the CPU's.
  const int32_t* take_flag(const char* name) {
    const Tensor& tensor = tensors_.emplace_back(find(name));
    if (tensor->device_type != kCpu && tensor->device_type != kCudaHost)
      throw py::value_error(std::string(name) + ": must lie in memory of the host");
    return tensor.vector<int32_t>(name, 1);
  }

  // nullptr for an empty array: nothing of the kind in the batch.
  template <class T>
  T* take_or_none(const char* name, int64_t size) {
    return this->size(name) > 0 ? take<T>(name, size) : nullptr;
  }

  int64_t size(const char* name) const { return py::len(find(name)); }
  const DLTensor& first() const { return *tensors_[0]; }

  // Whether they lie on the CPU; ValueError where no kernel can reach them.
  bool on_cpu() const {
    const int32_t type = first().device_type;
    if (type != kCpu && type != kCuda)
      throw py::value_error("device: must be CPU or CUDA, got DLPack device type " + std::to_string(type));
#ifndef TOPOFLOW_CUDA
    if (type == kCuda)
      throw py::value_error(
          "device: topoflow._C was built without CUDA; put nvcc on the path and run pip install again");
#endif
    return type == kCpu;
  }

 private:
  py::object find(const char* name) const {
    if (!named_.contains(name)) throw py::value_error(std::string(name) + ": array is missing");
    return named_[name];
  }

  py::dict named_;
  std::vector<Tensor> tensors_;
};

}  // namespace topoflow
