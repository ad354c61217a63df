// Loads a library that is linked with NCCL, privately, as frameworks load theirs: late_test LIBRARY LAW.
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char** arguments) {
  void* library = count == 3 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*run)(int, char**) = library ? (int (*)(int, char**))dlsym(library, "run_law") : NULL;
  if (!run) return fprintf(stderr, "%s\n", dlerror()), 2;
  return run(2, arguments + 1);
}
