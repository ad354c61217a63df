// Arrays cross the border by DLPack, without a copy: any object with __dlpack__ (numpy, torch, CuPy, JAX, ...).
//
// Source: the DLPack 0.x ABI, https://dmlc.github.io/dlpack/latest/c_api.html
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <string>
#include <utility>

namespace topoflow {

struct DLTensor {
  void* data;
  int32_t device_type, device_id;
  int32_t ndim;
  uint8_t code, bits;
  uint16_t lanes;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor tensor;
  void* context;
  void (*deleter)(DLManagedTensor*);
};

constexpr int32_t kCpu = 1, kCuda = 2, kCudaHost = 3;  // device_type; the last is pinned memory of the host

template <class T>
struct DType;
template <>
struct DType<double> {
  static constexpr uint8_t code = 2, bits = 64;
  static constexpr const char* name = "float64";
};
template <>
struct DType<int32_t> {
  static constexpr uint8_t code = 0, bits = 32;
  static constexpr const char* name = "int32";
};
template <>
struct DType<int64_t> {
  static constexpr uint8_t code = 0, bits = 64;
  static constexpr const char* name = "int64";
};

// An array that somebody else owns; it stays alive as long as this does.
class Tensor {
 public:
  explicit Tensor(const pybind11::handle& object) {
    const pybind11::capsule capsule = object.attr("__dlpack__")();
    managed_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
    if (!managed_) throw pybind11::error_already_set();
    PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  }
  Tensor(Tensor&& other) noexcept : managed_(std::exchange(other.managed_, nullptr)) {}
  Tensor& operator=(Tensor&&) = delete;
  ~Tensor() {
    if (managed_ && managed_->deleter) managed_->deleter(managed_);
  }

  const DLTensor& operator*() const { return managed_->tensor; }
  const DLTensor* operator->() const { return &managed_->tensor; }

  // The address of `size` contiguous Ts; TypeError for another dtype, ValueError for another shape.
  template <class T>
  T* vector(const std::string& name, int64_t size) const {
    const DLTensor& tensor = managed_->tensor;
    if (tensor.code != DType<T>::code || tensor.bits != DType<T>::bits || tensor.lanes != 1)
      throw pybind11::type_error(name + ": expected dtype " + DType<T>::name);
    if (tensor.ndim != 1 || (tensor.strides && tensor.shape[0] > 1 && tensor.strides[0] != 1))
      throw pybind11::value_error(name + ": expected one contiguous dimension");
    if (tensor.shape[0] != size)
      throw pybind11::value_error(name + ": expected [" + std::to_string(size) + "], got [" +
                                  std::to_string(tensor.shape[0]) + "]");
    return reinterpret_cast<T*>(static_cast<char*>(tensor.data) + tensor.byte_offset);
  }

 private:
  DLManagedTensor* managed_;
};

}  // namespace topoflow
