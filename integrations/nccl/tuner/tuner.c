// A tuner plugin that lets NCCL reduce in rings: all-reduces as large as the smallest share of those that are spread
// (see rings/) take NCCL's ring algorithm, and where the environment says so one protocol and one number of channels.
// The order of a ring cannot be set here: it is that of the communicator's ranks.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../abi/tuner_abi.h"
#include "../rings/settings.h"

enum { ANY_PROTOCOL = -1 };

static int protocol = ANY_PROTOCOL, channels_asked;
static size_t smallest_share;
static const _Atomic int* settings_differ;  // of the preloaded library; NULL: it is not loaded

static void read_environment(void) {
  static const char* const names[] = {"LL", "LL128", "Simple"};
  static int said_protocol, said_channels;
  const Settings* asked = settings();
  const char* name = getenv("TOPOFLOW_NCCL_PROTOCOL");
  const char* count = getenv("TOPOFLOW_NCCL_CHANNELS");
  double weight = 1;
  settings_differ = dlsym(RTLD_DEFAULT, "topoflow_nccl_settings_differ");
  for (int r = 0; r < asked->rings; ++r) weight = asked->weight[r] < weight ? asked->weight[r] : weight;
  smallest_share = (size_t)((double)asked->threshold * weight);
  for (int p = 0; name && p < 3; ++p)
    if (!strcmp(name, names[p])) protocol = p;
  if (name && protocol == ANY_PROTOCOL)
    say_once(&said_protocol, "TOPOFLOW_NCCL_PROTOCOL: must be LL, LL128 or Simple, got %.60s; NCCL chooses", name);
  char* end = NULL;
  const long value = count ? strtol(count, &end, 10) : 0;
  if (count && (end == count || *end || value < 1 || value > 64))
    say_once(&said_channels, "TOPOFLOW_NCCL_CHANNELS: must be from 1 to 64, got %.60s; NCCL chooses", count);
  else
    channels_asked = (int)value;
}

static int start(void** context) {
  static char some;
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  *context = &some;
  pthread_once(&once, read_environment);
  return 0;
}

static int start4(size_t ranks, size_t nodes, TunerLog log, void** context) {
  (void)ranks, (void)nodes, (void)log;
  return start(context);
}

static int start5(void** context, uint64_t id, size_t ranks, size_t nodes, TunerLog log, void* domains,
                  void* constants) {
  (void)id, (void)ranks, (void)nodes, (void)log, (void)domains, (void)constants;
  return start(context);
}

// NCCL takes the cheapest entry of the table. Those of the ring keep their costs, so that it still chooses the protocol
// by size. Every rank of a communicator must choose alike, so nothing is changed once ranks were found to have other
// settings than this one, nor where no rank compares them.
static int get(void* context, int function, size_t bytes, int operations, float** costs, int algorithms, int protocols,
               int registered, int* channels) {
  (void)context, (void)operations, (void)registered;
  float* table = (float*)costs;  // [algorithms, protocols]
  if (!settings_differ || *settings_differ) return 0;
  if (!settings()->on || function != FUNCTION_ALL_REDUCE || bytes < smallest_share || algorithms <= ALGORITHM_RING)
    return 0;
  const float* ring = table + ALGORITHM_RING * protocols;
  bool can_ring = false;
  for (int p = 0; p < protocols; ++p) can_ring = can_ring || ring[p] != kIgnored;
  if (!can_ring) return 0;
  const bool one = protocol != ANY_PROTOCOL && protocol < protocols && ring[protocol] != kIgnored;
  for (int a = 0; a < algorithms; ++a)
    for (int p = 0; p < protocols; ++p)
      if (a != ALGORITHM_RING || (one && p != protocol)) table[a * protocols + p] = kIgnored;
  if (channels_asked) *channels = channels_asked;
  return 0;
}

static int finish(void* context) { return (void)context, 0; }

__attribute__((visibility("default"))) const Tuner4 ncclTunerPlugin_v4 = {"topoflow", start4, get, finish};
__attribute__((visibility("default"))) const Tuner5 ncclTunerPlugin_v5 = {"topoflow", start5, get, finish};
