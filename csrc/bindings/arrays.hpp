// Arrays and settings of Python by name, as the bindings take them.
#pragma once

#include <pybind11/pybind11.h>

#include <array>
#include <set>
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
  template <class Struct, size_t kFields>
  void take(Struct& to, const Field<Struct> (&table)[kFields]) {
    for (const Field<Struct>& field : table) take(to, field);
  }

  int64_t size(const char* name) const { return py::len(find(name)); }
  const DLTensor& first() const { return *tensors_[0]; }

  // Returns whether they lie on the CPU; throws ValueError if no kernel can reach them.
  bool on_cpu() const;

  Dimensions of;

 private:
  template <class Struct>
  void take(Struct& to, const Field<Struct>& field) {
    const Member<Struct>& member = field.member;
    if (member.count32) {
      to.*member.count32 = static_cast<int32_t>(of[field.letter]);
    } else if (member.count64) {
      to.*member.count64 = of[field.letter];
    } else if (const int64_t size = this->size(field.name); field.presence != Presence::kOptional || size > 0) {
      const int64_t items = of.items(field.shape, size);
      const Tensor& array = tensor(field.name, field.presence == Presence::kOnHost);
      if (member.float64) to.*member.float64 = array.vector<double>(field.name, items);
      if (member.int32) to.*member.int32 = array.vector<int32_t>(field.name, items);
      if (member.int64) to.*member.int64 = array.vector<int64_t>(field.name, items);
      if (member.out_float64) to.*member.out_float64 = array.vector<double>(field.name, items);
      if (member.out_int32) to.*member.out_int32 = array.vector<int32_t>(field.name, items);
      if (member.out_int64) to.*member.out_int64 = array.vector<int64_t>(field.name, items);
    }
  }

  const Tensor& tensor(const char* name, bool on_host);
  py::object find(const char* name) const;

  py::dict named_;
  std::vector<Tensor> tensors_;
};

// Returns the name of a setting's type.
template <class T>
const char* type_name() {
  if constexpr (std::is_same_v<T, bool>)
    return "bool";
  else
    return DType<T>::name;
}

// Calls f(member) with the member of a setting, a pointer to one of four types.
template <class Struct, class F>
auto with_member(const Setting<Struct>& setting, const F& f) {
  if (setting.boolean) return f(setting.boolean);
  if (setting.int32) return f(setting.int32);
  if (setting.int64) return f(setting.int64);
  return f(setting.float64);
}

// Settings by name; each must be named by one of the tables.
class NamedSettings {
 public:
  explicit NamedSettings(const py::dict& named) : named_(named) {}

  // Sets all members of `to` that the table names.
  template <class Struct, size_t kSettings>
  void take(Struct& to, const Setting<Struct> (&table)[kSettings]) {
    for (const Setting<Struct>& setting : table) {
      with_member(setting, [&]<class T>(T Struct::* member) { to.*member = value<T>(setting.name); });
      names_.insert(setting.name);
    }
  }

  // Raises ValueError if there are settings that no table names.
  void check_all_taken() const {
    for (const auto& [name, value] : named_)
      if (!names_.contains(name.cast<std::string>()))
        throw py::value_error(name.cast<std::string>() + ": the kernel has no such setting");
  }

 private:
  template <class T>
  T value(const char* name) const {
    if (!named_.contains(name)) throw py::value_error(std::string(name) + ": setting is missing");
    try {
      return named_[name].cast<T>();
    } catch (const py::cast_error&) {
      throw py::type_error(std::string(name) + ": must be " + type_name<T>() + ", got " +
                           py::repr(named_[name]).cast<std::string>());
    }
  }

  py::dict named_;
  std::set<std::string> names_;
};

template <class Struct>
const char* dtype(const Member<Struct>& member) {
  if (member.float64 || member.out_float64) return DType<double>::name;
  return member.int32 || member.out_int32 ? DType<int32_t>::name : DType<int64_t>::name;
}

template <class Struct, size_t kFields>
void document(py::list& to, const Field<Struct> (&table)[kFields]) {
  for (const Field<Struct>& field : table)
    if (field.name) to.append(py::make_tuple(field.name, dtype(field.member), field.shape, field.about));
}

template <class Struct, size_t kSettings>
void document(py::list& to, const Setting<Struct> (&table)[kSettings]) {
  for (const Setting<Struct>& setting : table)
    with_member(setting,
                [&]<class T>(T Struct::*) { to.append(py::make_tuple(setting.name, type_name<T>(), setting.about)); });
}

// Returns (name, dtype, shape, content) of every array of these tables, and (name, type, content) of every setting.
template <class... Tables>
py::list documented(const Tables&... tables) {
  py::list documentation;
  (document(documentation, tables), ...);
  return documentation;
}

}  // namespace topoflow
