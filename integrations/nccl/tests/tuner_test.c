// Drives the tuner plugin as NCCL does: tuner_test PLUGIN FUNCTION BYTES CAN_RING DIFFER. Prints the channels and the
// table of costs afterwards. DIFFER: whether ranks were found to have different settings.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "../abi/tuner_abi.h"

int main(int count, char** arguments) {
  enum { ALGORITHMS = 7, PROTOCOLS = 3 };
  void* plugin = count == 6 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!plugin) return fprintf(stderr, "%s\n", dlerror()), 2;
  const Tuner4* four = dlsym(plugin, "ncclTunerPlugin_v4");
  const Tuner5* five = dlsym(plugin, "ncclTunerPlugin_v5");
  float table[ALGORITHMS][PROTOCOLS];
  for (int a = 0; a < ALGORITHMS; ++a)
    for (int p = 0; p < PROTOCOLS; ++p)
      table[a][p] = a == ALGORITHM_RING && !atoi(arguments[4]) ? kIgnored : (float)(10 * a + p + 1);
  _Atomic int* differ = dlsym(RTLD_DEFAULT, "topoflow_nccl_settings_differ");
  if (differ) *differ = atoi(arguments[5]);
  void* context = NULL;
  int channels = 0;
  if (four->init(8, 8, NULL, &context) || four->finalize(context)) return 1;
  if (five->init(&context, 1, 8, 8, NULL, NULL, NULL)) return 1;
  if (five->get(context, atoi(arguments[2]), (size_t)atol(arguments[3]), 1, (float**)table, ALGORITHMS, PROTOCOLS, 0,
                &channels))
    return 1;
  printf("%d", channels);
  for (int a = 0; a < ALGORITHMS; ++a)
    for (int p = 0; p < PROTOCOLS; ++p) printf(" %g", (double)table[a][p]);
  printf("\n");
  return five->finalize(context);
}
