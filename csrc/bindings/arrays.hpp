// Arrays of Python by name, as the bindings take them.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <string>
#include <type_traits>
#include <vector>

#include "fields.h"
#include "tensor.hpp"

namespace topoflow {

namespace py = pybind11;

// How many of each letter of a shape (fields.h) there are.
class Dimensions {
 public:
  Dimensions() { known_.fill(kUnknown); }

  int64_t& operator[](char letter) { return known_[static_cast<unsigned char>(letter) % known_.size()]; }

  // How many items an array of this shape has. A letter that is unknown becomes what an array of `size` items says.
  int64_t items(const std::string& shape, int64_t size);

 private:
  static constexpr int64_t kUnknown = -1;
  std::array<int64_t, 128> known_;
};

// Arrays by name; all must lie on the device of the first.
class Arrays {
 public:
  explicit Arrays(const py::dict& named) : named_(named) {}
  Arrays(Arrays&&) = default;
  Arrays(const Arrays&) = delete;

  // Fills in all members of `to` that the table names.
  template <class Struct, class... Fields>
  void take(Struct& to, const std::tuple<Fields...>& table) {
    std::apply([&](const Fields&... fields) { (take(to, fields), ...); }, table);
  }

  int64_t size(const char* name) const { return py::len(find(name)); }
  const DLTensor& first() const { return *tensors_[0]; }

  // Whether they lie on the CPU; ValueError where no kernel can reach them.
  bool on_cpu() const;

  Dimensions of;

 private:
  template <class Struct, class Base, class T>
  void take(Struct& to, const ArrayField<Base, T>& field) {
    const int64_t size = this->size(field.name);
    if (field.presence == Presence::kOptional && size == 0) return;
    to.*field.member = tensor(field.name, field.presence == Presence::kOnHost)
                           .template vector<std::remove_const_t<T>>(field.name, of.items(field.shape, size));
  }
  template <class Struct, class Base, class T>
  void take(Struct& to, const CountField<Base, T>& field) {
    to.*field.member = static_cast<T>(of[field.letter]);
  }

  const Tensor& tensor(const char* name, bool on_host);
  py::object find(const char* name) const;

  py::dict named_;
  std::vector<Tensor> tensors_;
};

template <class Struct, class T>
void document(py::list& to, const ArrayField<Struct, T>& field) {
  to.append(py::make_tuple(field.name, DType<std::remove_const_t<T>>::name, field.shape, field.about));
}
template <class Struct, class T>
void document(py::list&, const CountField<Struct, T>&) {}

// (name, dtype, shape, what is in it) of every array of these tables.
template <class... Tables>
py::list documented(const Tables&... tables) {
  py::list found;
  (std::apply([&](const auto&... fields) { (document(found, fields), ...); }, tables), ...);
  return found;
}

}  // namespace topoflow
