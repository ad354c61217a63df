// The arrays and settings of a struct, said once: what each is called in Python, its shape, and what is in it. The
// bindings take, check and document them by these tables.
//
//   struct Queue { int64_t tasks; const double* delay; const int64_t* offsets; };
//   constexpr Field<Queue> kQueue[] = {array("delay", &Queue::delay, "T", "s"),
//                                      array("offsets", &Queue::offsets, "T+1", "..."), count('T', &Queue::tasks)};
//
// A shape is dimensions with commas between them, each a number or a letter, with +1 where there is one more of them
// than the letter says; the array is flat and has as many items as their product. The first array of a table that has
// an unknown letter says how large that is.
#pragma once

#include <cstdint>

namespace topoflow {

enum class Presence {
  kRequired,
  kOptional,  // empty: nullptr
  kOnHost     // in memory of the host, which Python writes while a kernel reads it
};

// A member of a struct: an array of one of three types, which a kernel reads (const) or writes, or the number of a
// dimension's items. All have one type, so that a table is an array: a std::tuple of a hundred takes compilers seconds.
template <class Struct>
struct Member {
  const double* Struct::* float64 = nullptr;
  const int32_t* Struct::* int32 = nullptr;
  const int64_t* Struct::* int64 = nullptr;
  double* Struct::* out_float64 = nullptr;
  int32_t* Struct::* out_int32 = nullptr;
  int64_t* Struct::* out_int64 = nullptr;
  int32_t Struct::* count32 = nullptr;
  int64_t Struct::* count64 = nullptr;

  constexpr Member(const double* Struct::* member) : float64(member) {}  // NOLINT(google-explicit-constructor)
  constexpr Member(const int32_t* Struct::* member) : int32(member) {}   // NOLINT(google-explicit-constructor)
  constexpr Member(const int64_t* Struct::* member) : int64(member) {}   // NOLINT(google-explicit-constructor)
  constexpr Member(double* Struct::* member) : out_float64(member) {}    // NOLINT(google-explicit-constructor)
  constexpr Member(int32_t* Struct::* member) : out_int32(member) {}     // NOLINT(google-explicit-constructor)
  constexpr Member(int64_t* Struct::* member) : out_int64(member) {}     // NOLINT(google-explicit-constructor)
  constexpr Member(int32_t Struct::* member) : count32(member) {}        // NOLINT(google-explicit-constructor)
  constexpr Member(int64_t Struct::* member) : count64(member) {}        // NOLINT(google-explicit-constructor)
};

template <class Struct>
struct Field {
  Member<Struct> member;
  const char *name, *shape, *about;  // of an array
  Presence presence;
  char letter;  // of a count
};

template <class Struct, class T>
constexpr Field<Struct> array(const char* name, T* Struct::* member, const char* shape, const char* about) {
  return {member, name, shape, about, Presence::kRequired, 0};
}
template <class Struct, class T>
constexpr Field<Struct> optional(const char* name, T* Struct::* member, const char* shape, const char* about) {
  return {member, name, shape, about, Presence::kOptional, 0};
}
template <class Struct, class T>
constexpr Field<Struct> on_host(const char* name, T* Struct::* member, const char* shape, const char* about) {
  return {member, name, shape, about, Presence::kOnHost, 0};
}
template <class Struct, class T>
constexpr Field<Struct> count(char letter, T Struct::* member) {
  return {member, nullptr, nullptr, nullptr, Presence::kRequired, letter};
}

// A member of a struct that Python gives as a number or a boolean.
template <class Struct>
struct Setting {
  const char *name, *about;
  bool Struct::* boolean = nullptr;
  int32_t Struct::* int32 = nullptr;
  int64_t Struct::* int64 = nullptr;
  double Struct::* float64 = nullptr;
};

template <class Struct>
constexpr Setting<Struct> setting(const char* name, bool Struct::* member, const char* about) {
  return {.name = name, .about = about, .boolean = member};
}
template <class Struct>
constexpr Setting<Struct> setting(const char* name, int32_t Struct::* member, const char* about) {
  return {.name = name, .about = about, .int32 = member};
}
template <class Struct>
constexpr Setting<Struct> setting(const char* name, int64_t Struct::* member, const char* about) {
  return {.name = name, .about = about, .int64 = member};
}
template <class Struct>
constexpr Setting<Struct> setting(const char* name, double Struct::* member, const char* about) {
  return {.name = name, .about = about, .float64 = member};
}

}  // namespace topoflow
