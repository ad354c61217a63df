// All-reduces of ranks whose settings may differ, against the mock NCCL. Each line of standard input is a job: a field
// per rank, separated by tabs, "RINGS;WEIGHTS;THRESHOLD;RANKS_PER_NODE", or "-" for a rank without settings; after a
// "~" the rank is 2 s late. Prints for each job "rings" if the all-reduces of all ranks were spread, "own" if those of
// none were, and otherwise "mixed" or "wrong"; a job that hangs is for who started this to end.
#include "../rings/settings.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mock.h"

enum { COUNT = 6000, CALLS = 4, LINE_SIZE = 1 << 16 };
static const size_t counts[CALLS] = {10, COUNT, 3000, COUNT};

typedef struct {
  int rank, ranks, job;
  Settings settings;
  bool grouped;  // the all-reduces are one group
  bool late;
  bool right;
  int spread;  // calls of NCCL's own all-reduce beyond one each
} Rank;

// Of the rank whose thread asks, in place of those of the process.
static __thread const Settings* of_thread;
const Settings* settings(void) { return of_thread; }

static void fill(Rank* r, int32_t* data, size_t count) {
  for (size_t i = 0; i < count; ++i) data[i] = (int32_t)(i * 7 + (size_t)r->rank * 13) % 101;
}

static bool is_right(const Rank* r, const int32_t* data, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    int32_t sum = 0;
    for (int q = 0; q < r->ranks; ++q) sum += (int32_t)(i * 7 + (size_t)q * 13) % 101;
    if (data[i] != sum) return false;
  }
  return true;
}

static void reduce_all(Rank* r, ncclComm_t comm, CUstream stream) {
  int32_t* data[CALLS];
  const int before = mock_calls(MOCK_ALL_REDUCE, r->rank);
  r->right = true;
  if (r->grouped) r->right = !ncclGroupStart();
  for (int c = 0; c < CALLS; ++c) {
    data[c] = malloc(COUNT * sizeof **data);
    fill(r, data[c], counts[c]);
    r->right = !ncclAllReduce(data[c], data[c], counts[c], ncclInt32, ncclSum, comm, stream) && r->right;
  }
  if (r->grouped) r->right = !ncclGroupEnd() && r->right;
  mock_synchronize(stream);
  for (int c = 0; c < CALLS; ++c) {
    r->right = r->right && is_right(r, data[c], counts[c]);
    free(data[c]);
  }
  r->spread += mock_calls(MOCK_ALL_REDUCE, r->rank) - before - CALLS;
}

static void* run_rank(void* argument) {
  Rank* r = argument;
  ncclComm_t comm;
  CUstream stream;
  of_thread = &r->settings;
  r->spread = 0;
  mock_comm(&comm, r->job % 16, r->ranks, r->rank, true);
  cuStreamCreate(&stream, 0);
  if (r->late) sleep(2);
  reduce_all(r, comm, stream);
  const bool first = r->right;
  reduce_all(r, comm, stream);
  r->right = !ncclCommDestroy(comm) && first && r->right;
  cuStreamDestroy_v2(stream);
  return NULL;
}

static void parse(char* field, Settings* out) {
  char* value[4] = {NULL};
  char error[400];
  *out = (Settings){0};
  if (!strcmp(field, "-")) return;
  for (int i = 0; i < 4; ++i) {
    value[i] = strsep(&field, ";");
    if (!value[i]) fprintf(stderr, "four values are needed\n"), exit(2);
    if (!*value[i]) value[i] = NULL;
  }
  if (!parse_settings(value[0], value[1], value[2], value[3], out, error, sizeof error))
    fprintf(stderr, "%s\n", error), exit(2);
}

static const char* run_job(Rank* job, int ranks) {
  pthread_t threads[MOCK_MAX_RANKS];
  for (int i = 0; i < ranks; ++i) pthread_create(&threads[i], NULL, run_rank, &job[i]);
  for (int i = 0; i < ranks; ++i) pthread_join(threads[i], NULL);
  bool right = true, same = true;
  for (int i = 0; i < ranks; ++i) {
    right = right && job[i].right;
    same = same && job[i].spread == job[0].spread;
    for (int r = 0; r < job[i].settings.rings; ++r) free((void*)job[i].settings.ring[r].order);
  }
  return !right ? "wrong" : !same ? "mixed" : job[0].spread ? "rings" : "own";
}

int main(void) {
  static char line[LINE_SIZE];
  static Rank job[MOCK_MAX_RANKS];
  for (int number = 0; fgets(line, sizeof line, stdin); ++number) {
    char* rest = line;
    int ranks = 0;
    line[strcspn(line, "\n")] = 0;
    for (char* field; (field = strsep(&rest, "\t")); ++ranks) {
      job[ranks].late = *field == '~';
      parse(field + job[ranks].late, &job[ranks].settings);
    }
    for (int i = 0; i < ranks; ++i)
      job[i].rank = i, job[i].ranks = ranks, job[i].job = number, job[i].grouped = number % 2;
    printf("%s\n", run_job(job, ranks));
    fflush(stdout);
  }
  return mock_comms_live || mock_cuda_live;
}
