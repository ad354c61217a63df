// The arrays of a struct, said once: what each is called in Python, its shape, and what is in it. The bindings take,
// check and document arrays by these tables.
//
//   struct Queue { int64_t tasks; const double* delay; const int64_t* offsets; };
//   constexpr std::tuple kQueue{array("delay", &Queue::delay, "T", "s"),
//                               array("offsets", &Queue::offsets, "T+1", "..."), count('T', &Queue::tasks)};
//
// A shape is dimensions with commas between them, each a number or a letter, with +1 where there is one more of them
// than the letter says; the array is flat and has as many items as their product. The first array of a table that has
// an unknown letter says how large that is.
#pragma once

#include <cstdint>
#include <tuple>

namespace topoflow {

enum class Presence {
  kRequired,
  kOptional,  // empty: nullptr
  kOnHost     // in memory of the host, which Python writes while a kernel reads it
};

template <class Struct, class T>
struct ArrayField {
  const char* name;
  T* Struct::* member;
  const char* shape;
  const char* about;
  Presence presence;
};

// How many of a dimension there are.
template <class Struct, class T>
struct CountField {
  char letter;
  T Struct::* member;
};

template <class Struct, class T>
constexpr ArrayField<Struct, T> array(const char* name, T* Struct::* member, const char* shape, const char* about) {
  return {name, member, shape, about, Presence::kRequired};
}
template <class Struct, class T>
constexpr ArrayField<Struct, T> optional(const char* name, T* Struct::* member, const char* shape, const char* about) {
  return {name, member, shape, about, Presence::kOptional};
}
template <class Struct, class T>
constexpr ArrayField<Struct, T> on_host(const char* name, T* Struct::* member, const char* shape, const char* about) {
  return {name, member, shape, about, Presence::kOnHost};
}
template <class Struct, class T>
constexpr CountField<Struct, T> count(char letter, T Struct::* member) {
  return {letter, member};
}

}  // namespace topoflow
