// The complete events of a profile, read from the text of its list without an object for each.
//   {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 2, "dur": 1.5, "args": {"correlation": 9}}
//     -> number 0, text 0 (kernel, gemm), lane 0 (0, 7), start 2000 ns, end 3500 ns, correlation 9, where its args lie
//
// Events whose category and name do not matter are passed over, and so is what is not complete ("ph" is not "X").
// Of an event that is irregular (a field is missing, given twice or of another type, or a name has an escape) only the
// place in the text is returned: the caller decodes it and reports the error. The text must be JSON; whether strings
// are UTF-8 is not checked.
//
// Source: RFC 8259; Trace Event Format (Google); pytorch/kineto libkineto/src/output_json.cpp.
#pragma once

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace topoflow {

constexpr int64_t kNoCorrelation = std::numeric_limits<int64_t>::min();

struct EventColumns {
  std::vector<int64_t> number;                // of the event in the list
  std::vector<int32_t> text, lane;            // which category and name, which pid and tid
  std::vector<int64_t> start, end;            // ns
  std::vector<int64_t> correlation;           // or kNoCorrelation
  std::vector<int64_t> args_begin, args_end;  // B of the text; equal without args
  std::vector<uint8_t> names_collective;      // whether the args have a "Collective name"
  std::vector<int64_t> odd_number, odd_begin, odd_end;
  std::vector<std::pair<std::string, std::string>> lanes;  // pid and tid as JSON
};

class EventReader {
 public:
  // The list is text[begin, end) without its brackets; text[end] must exist. `matters` is asked once for each pair of
  // category and name (as JSON), in the order of their numbers.
  using Matters = std::function<bool(std::string_view, std::string_view)>;
  EventReader(const char* text, int64_t begin, int64_t end, Matters matters)
      : text_(text), at_(text + begin), end_(text + end), matters_(std::move(matters)) {}

  // Fills in `columns`; returns whether the list is JSON.
  bool read() {
    space();
    if (at_ == end_) return true;
    for (int64_t number = 0;; ++number) {
      if (!event(number)) return false;
      space();
      if (at_ >= end_) return at_ == end_;
      if (*at_++ != ',') return false;
      space();
    }
  }

  EventColumns columns;

 private:
  struct Value {
    const char *begin = nullptr, *end = nullptr;
    bool escaped = false;  // it is a string with a backslash

    bool is_present() const { return begin; }
    bool is_string() const { return begin && *begin == '"'; }
    bool is_number() const { return begin && (*begin == '-' || (*begin >= '0' && *begin <= '9')); }
    std::string_view view() const { return {begin, static_cast<size_t>(end - begin)}; }
    template <size_t N>
    bool is(const char (&content)[N]) const {  // of a string
      return end - begin == N + 1 && std::memcmp(begin + 1, content, N - 1) == 0;
    }
  };
  static constexpr int kMaxDepth = 512;

  bool event(int64_t number) {
    const char* begin = at_;
    Value ph, cat, name, pid, tid, ts, dur, args, correlation, collective;
    bool odd = *at_ != '{';
    const auto into = [&](Value& field) {
      odd |= field.is_present();
      return value(field, 2);
    };
    const auto argument = [&](const Value& key) {
      odd |= key.escaped;
      if (key.is("correlation")) return into(correlation);
      if (key.is("Collective name")) return into(collective);
      return value(ignored_, 3);
    };
    const auto member = [&](const Value& key) {
      odd |= key.escaped;
      if (key.is("ph")) return into(ph);
      if (key.is("cat")) return into(cat);
      if (key.is("name")) return into(name);
      if (key.is("pid")) return into(pid);
      if (key.is("tid")) return into(tid);
      if (key.is("ts")) return into(ts);
      if (key.is("dur")) return into(dur);
      if (!key.is("args")) return value(ignored_, 2);
      odd |= args.is_present();
      if (*at_ != '{') return into(args);
      args.begin = at_;
      const bool read = object(argument);
      args.end = at_;
      return read;
    };
    if (odd ? !value(ignored_, 1) : !object(member)) return false;
    odd |= ph.escaped;
    if (!odd && !(ph.is_string() && ph.is("X"))) return true;
    int64_t start = 0, length = 0, shared = kNoCorrelation;
    if (!odd && cat.is_string() && name.is_string()) {
      const int32_t text = number_of(texts_, cat, name);
      if (text == static_cast<int32_t>(matter_.size())) matter_.push_back(matters_(cat.view(), name.view()));
      if (!matter_[text]) return true;
      const bool is_plain = (pid.is_string() || pid.is_number()) && (tid.is_string() || tid.is_number()) &&
                            nanoseconds(ts, start) && nanoseconds(dur, length) && length >= 0 && *dur.begin != '-' &&
                            (!args.is_present() || *args.begin == '{') &&
                            (!correlation.is_present() || integer(correlation, shared));
      if (is_plain) {
        const int32_t lane = number_of(lanes_, pid, tid);
        if (lane == static_cast<int32_t>(columns.lanes.size())) columns.lanes.emplace_back(pid.view(), tid.view());
        columns.number.push_back(number);
        columns.text.push_back(text);
        columns.lane.push_back(lane);
        columns.start.push_back(start);
        columns.end.push_back(start + length);
        columns.correlation.push_back(shared);
        columns.args_begin.push_back(args.is_present() ? args.begin - text_ : 0);
        columns.args_end.push_back(args.is_present() ? args.end - text_ : 0);
        columns.names_collective.push_back(collective.is_present() && *collective.begin != 'n');
        return true;
      }
    }
    columns.odd_number.push_back(number);
    columns.odd_begin.push_back(begin - text_);
    columns.odd_end.push_back(at_ - text_);
    return true;
  }

  using Numbers = std::unordered_map<std::string, int32_t>;

  int32_t number_of(Numbers& numbers, const Value& first, const Value& second) {
    key_.assign(first.view()).append(second.view());
    return numbers.try_emplace(key_, static_cast<int32_t>(numbers.size())).first->second;
  }

  // Converts microseconds as Python's round(float(text) * 1000) does.
  bool nanoseconds(const Value& number, int64_t& into) const {
    if (!number.is_number()) return false;
    double time = 0;
    if (!short_decimal(number, time)) {
      char* stop;
      time = std::strtod(number.begin, &stop);
      if (stop != number.end) return false;  // a locale with another decimal point
    }
    time *= 1000;
    if (!(std::abs(time) < 0x1p61)) return false;
    into = static_cast<int64_t>(std::nearbyint(time));
    return true;
  }

  // Up to 2^53 and 10^22 are doubles, whose quotient is rounded once.
  static bool short_decimal(const Value& number, double& into) {
    static constexpr double kPowers[] = {1,   1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,
                                         1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17};
    const char* at = number.begin + (*number.begin == '-');
    if (number.end - at > 18) return false;
    int64_t digits = 0;
    const char* point = nullptr;
    for (; at < number.end; ++at) {
      if (*at == '.')
        point = at + 1;
      else if (*at >= '0' && *at <= '9')
        digits = digits * 10 + (*at - '0');
      else
        return false;
    }
    if (digits > int64_t{1} << 53) return false;
    into = static_cast<double>(*number.begin == '-' ? -digits : digits) / kPowers[point ? number.end - point : 0];
    return true;
  }

  static bool integer(const Value& number, int64_t& into) {
    const char* at = number.begin + (*number.begin == '-');
    if (!number.is_number() || number.end - at > 18) return false;
    into = 0;
    for (; at < number.end; ++at) {
      if (*at < '0' || *at > '9') return false;
      into = into * 10 + (*at - '0');
    }
    if (*number.begin == '-') into = -into;
    return true;
  }

  void space() {
    while (*at_ == ' ' || *at_ == '\n' || *at_ == '\r' || *at_ == '\t') ++at_;
  }

  bool value(Value& into, int depth) {
    into.begin = at_;
    bool read = false;
    if (*at_ == '"') return string(into);
    if (depth > kMaxDepth) return false;
    if (*at_ == '{') {
      read = object([&](const Value&) {
        Value member;
        return value(member, depth + 1);
      });
    } else if (*at_ == '[') {
      read = list(depth);
    } else {
      read = word("true") || word("false") || word("null") || digits();
    }
    into.end = at_;
    return read;
  }

  template <class Member>
  bool object(const Member& member) {
    ++at_;
    space();
    if (*at_ == '}') return ++at_, true;
    for (;; space()) {
      Value key;
      if (*at_ != '"' || !string(key)) return false;
      space();
      if (*at_++ != ':') return false;
      space();
      if (!member(key)) return false;
      space();
      if (*at_ == '}') return ++at_, true;
      if (*at_++ != ',') return false;
    }
  }

  bool list(int depth) {
    ++at_;
    space();
    if (*at_ == ']') return ++at_, true;
    for (;; space()) {
      Value item;
      if (!value(item, depth + 1)) return false;
      space();
      if (*at_ == ']') return ++at_, true;
      if (*at_++ != ',') return false;
    }
  }

  bool string(Value& into) {
    into.begin = at_++;
    into.escaped = false;
    for (;; ++at_) {
      skip_plain();
      const auto byte = static_cast<unsigned char>(*at_);
      if (byte == '"') break;
      if (byte < 0x20) return false;
      if (byte != '\\') continue;
      into.escaped = true;
      ++at_;
      if (*at_ == 'u') {
        for (int digit = 0; digit < 4; ++digit)
          if (!std::isxdigit(static_cast<unsigned char>(*++at_))) return false;
      } else if (!*at_ || !std::strchr("\"\\/bfnrt", *at_)) {
        return false;
      }
    }
    into.end = ++at_;
    return true;
  }

  // Moves towards the next quote, backslash or control character of a string, 8 characters at once.
  void skip_plain() {
    constexpr uint64_t kOnes = 0x0101010101010101, kHighs = kOnes << 7;
    if constexpr (std::endian::native != std::endian::little) return;
    for (uint64_t bytes; end_ - at_ >= 8; at_ += 8) {
      std::memcpy(&bytes, at_, 8);
      const uint64_t quotes = bytes ^ kOnes * '"', escapes = bytes ^ kOnes * '\\';
      // The lowest bit is of the first such byte; higher ones may be wrong by a carry.
      const uint64_t stops =
          kHighs & (((quotes - kOnes) & ~quotes) | ((escapes - kOnes) & ~escapes) | ((bytes - kOnes * 0x20) & ~bytes));
      if (stops) return void(at_ += std::countr_zero(stops) / 8);
    }
  }

  bool word(std::string_view expected) {
    if (*at_ != expected[0] || std::strncmp(at_, expected.data(), expected.size()) != 0) return false;
    at_ += expected.size();
    return true;
  }

  bool digits() {
    if (*at_ == '-') ++at_;
    if (*at_ == '0')
      ++at_;
    else if (!some_digits())
      return false;
    if (*at_ == '.' && (++at_, !some_digits())) return false;
    if (*at_ != 'e' && *at_ != 'E') return true;
    ++at_;
    if (*at_ == '+' || *at_ == '-') ++at_;
    return some_digits();
  }

  bool some_digits() {
    const char* begin = at_;
    while (*at_ >= '0' && *at_ <= '9') ++at_;
    return at_ > begin;
  }

  const char *text_, *at_, *end_;
  Matters matters_;
  Numbers texts_, lanes_;
  std::vector<bool> matter_;
  std::string key_;
  Value ignored_;
};

}  // namespace topoflow
