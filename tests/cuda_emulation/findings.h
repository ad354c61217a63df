// What device code did wrong, kept until the tests ask for it.
#pragma once

#include <string>
#include <vector>

namespace emulation {

using Site = const void*;  // an address of code: where a thread was

// One kind of mistake at the same sites is one finding, however often it happens.
void report(const std::string& what, const std::vector<Site>& sites);

}  // namespace emulation
