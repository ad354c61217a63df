// What device code did wrong, kept until the tests ask for it.
#pragma once

#include <string>
#include <vector>

namespace emulation {

using Site = const void*;  // an address of code: where a thread was

// "@1a2b@": the offset in this library, as addr2line takes it. A return address is one past its call.
std::string offset(Site site);

// One kind of mistake at the same sites is one finding, however often it happens.
void report(const std::string& what, const std::vector<Site>& sites);

}  // namespace emulation
