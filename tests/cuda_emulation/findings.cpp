#include "findings.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>

namespace emulation {
namespace {

constexpr int kExitCode = 86;  // of a program that nobody asked for its findings

class Findings {
 public:
  ~Findings() {
    if (kinds_.empty()) return;
    for (const std::string& one : kinds_) std::fprintf(stderr, "cuda emulation: %s\n", one.c_str());
    std::fflush(stderr);
    _exit(kExitCode);
  }

  void add(const std::string& text) {
    const std::lock_guard lock(mutex_);
    kinds_.insert(text);
  }

  std::string take() {
    const std::lock_guard lock(mutex_);
    std::string all;
    for (const std::string& one : kinds_) all += one + "\n";
    kinds_.clear();
    return all;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> kinds_;
} findings;

}  // namespace

std::string offset(Site site) {
  Dl_info info{};
  char text[32];
  if (!dladdr(site, &info)) return "@0@";
  std::snprintf(text, sizeof text, "@%zx@", static_cast<const char*>(site) - static_cast<char*>(info.dli_fbase) - 1);
  return text;
}

void report(const std::string& what, const std::vector<Site>& sites) {
  std::string text = what + ":";
  for (const Site site : sites) text += " " + offset(site);
  findings.add(text);
}

}  // namespace emulation

// One line per finding since the last call. The text is valid until the next call.
extern "C" __attribute__((visibility("default"))) const char* emulation_findings() {
  static std::string text;
  text = emulation::findings.take();
  return text.c_str();
}
