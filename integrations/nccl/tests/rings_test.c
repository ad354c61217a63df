// Laws of the interposed all-reduce, each in a process of its own: rings_test NAME. The rings are those of the
// environment. Exits with 0 if the law holds; prints what does not hold.
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mock.h"

enum { MAX_COUNT = 1 << 16 };

typedef struct {
  int rank, ranks;
  ncclComm_t comm;
  CUstream stream;
  float *send, *receive, *seen;  // [MAX_COUNT]
  size_t count;
  ncclResult_t result;
  atomic_bool ended;
} Rank;

static Rank ranks_of_job[MOCK_MAX_RANKS];
static int ranks = 8;
static bool blocking = true, ends_with_error;
static atomic_int failures;

#define CHECK(condition, ...)                                         \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition); \
      fprintf(stderr, __VA_ARGS__);                                   \
      fputc('\n', stderr);                                            \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

// ---- what runs on a stream
// ------------------------------------------------------------------------------------------------

// Late, so that an all-reduce that does not wait for the stream reads what was there before.
static void fill(void* argument) {
  Rank* r = argument;
  usleep(500);
  for (size_t i = 0; i < r->count; ++i) r->send[i] = (float)((i * 7 + (size_t)r->rank * 13) % 101);
}

static void look(void* argument) {
  Rank* r = argument;
  memcpy(r->seen, r->receive, r->count * sizeof *r->seen);
}

static void check_sums(const Rank* r) {
  for (size_t i = 0; i < r->count; ++i) {
    float sum = 0;
    for (int q = 0; q < r->ranks; ++q) sum += (float)((i * 7 + (size_t)q * 13) % 101);
    if (r->seen[i] == sum) continue;
    CHECK(r->seen[i] == sum, "rank %d element %zu of %zu: %g, not %g", r->rank, i, r->count, r->seen[i], sum);
    return;
  }
}

static ncclResult_t all_reduce(Rank* r, size_t count) {
  r->count = count;
  mock_queue(r->stream, fill, r);
  const ncclResult_t result = ncclAllReduce(r->send, r->receive, count, ncclFloat32, ncclSum, r->comm, r->stream);
  if (!result) mock_queue(r->stream, look, r);
  return result;
}

static void reduce_and_check(Rank* r, size_t count) {
  CHECK(all_reduce(r, count) == ncclSuccess, "rank %d", r->rank);
  mock_synchronize(r->stream);
  check_sums(r);
}

// ---- jobs
// -----------------------------------------------------------------------------------------------------------------

static void open_rank(Rank* r, int rank) {
  *r = (Rank){.rank = rank, .ranks = ranks};
  r->send = calloc(3 * MAX_COUNT, sizeof *r->send);
  r->receive = r->send + MAX_COUNT;
  r->seen = r->send + 2 * MAX_COUNT;
  mock_comm(&r->comm, 0, ranks, rank, blocking);
  cuStreamCreate(&r->stream, 0);
}

static void close_rank(Rank* r) {
  mock_synchronize(r->stream);
  if (!atomic_exchange(&r->ended, true)) CHECK(!ncclCommDestroy(r->comm) || ends_with_error, "rank %d", r->rank);
  cuStreamDestroy_v2(r->stream);
}

static void (*body)(Rank*);
static pthread_barrier_t all_ranks;

static void* run_rank(void* argument) {
  Rank* r = argument;
  open_rank(r, (int)(r - ranks_of_job));
  body(r);
  close_rank(r);
  return NULL;
}

// One thread per rank.
static void run(void (*job)(Rank*)) {
  pthread_t threads[MOCK_MAX_RANKS];
  body = job;
  pthread_barrier_init(&all_ranks, NULL, (unsigned)ranks);
  for (int i = 0; i < ranks; ++i) pthread_create(&threads[i], NULL, run_rank, &ranks_of_job[i]);
  for (int i = 0; i < ranks; ++i) pthread_join(threads[i], NULL);
}

static void check_nothing_left(void) {
  CHECK(mock_comms_live == 0, "%d communicators", mock_comms_live);
  CHECK(mock_cuda_live == 0, "%d streams, events and contexts", mock_cuda_live);
}

// RANKS sends to +stride of node blocks only; shares are equal up to the 128 B at which they are cut.
static void check_peers(int local, const int* strides, int rings, double bytes) {
  const int nodes = ranks / local;
  for (int r = 0; r < ranks; ++r) {
    double total = 0;
    for (int q = 0; q < ranks; ++q) {
      double expected = 0;
      for (int j = 0; j < rings; ++j) {
        const bool last_of_node = r % local == local - 1;
        const int next = last_of_node ? (r / local + strides[j]) % nodes * local : r + 1;
        if (next == q) expected += 2.0 * (ranks - 1) / ranks * bytes / rings;
      }
      total += (double)mock_sent(r, q);
      CHECK(fabs((double)mock_sent(r, q) - expected) <= 0.02 * bytes, "%d -> %d: %ld B, expected %.0f", r, q,
            mock_sent(r, q), expected);
    }
    CHECK(fabs(total - 2.0 * (ranks - 1) / ranks * bytes) < 0.01 * bytes, "rank %d sends %.0f B of %.0f", r, total,
          bytes);
  }
}

// ---- laws
// -----------------------------------------------------------------------------------------------------------------

static void sizes_body(Rank* r) {
  static const size_t counts[] = {65536, 40001, 4096, 1023, 65521};
  for (int i = 0; i < 5; ++i) reduce_and_check(r, counts[i]);
}

static void sums_are_right_and_bytes_go_to_the_strides(void) {
  run(sizes_body);
  check_peers(1, (int[]){1, 3}, 2, 4.0 * (65536 + 40001 + 4096 + 1023 + 65521));
  CHECK(mock_calls(MOCK_SPLIT, 0) == 2, "%d splits, for one ring besides the natural one, and the vote",
        mock_calls(MOCK_SPLIT, 0));
}

static void nodes_stay_together(void) {
  run(sizes_body);
  check_peers(2, (int[]){1, 3}, 2, 4.0 * (65536 + 40001 + 4096 + 1023 + 65521));
}

static void one_body(Rank* r) { reduce_and_check(r, 65536); }

static void sixty_four_ranks_agree(void) {
  ranks = 64;
  run(one_body);
  check_peers(1, (int[]){1, 5, 27, 63}, 4, 4.0 * 65536);
}

static void untouched_without_rings(void) {
  run(one_body);
  check_peers(1, (int[]){1}, 1, 4.0 * 65536);
  CHECK(mock_calls(MOCK_SPLIT, 0) == 0, "%d splits", mock_calls(MOCK_SPLIT, 0));
}

static void types_body(Rank* r) {
  enum { N = 4001 };
  int32_t* whole = (int32_t*)(void*)r->receive;
  for (int i = 0; i < N; ++i) whole[i] = i + r->rank;
  CHECK(!ncclAllReduce(whole, whole, N, ncclInt32, ncclMax, r->comm, r->stream), "in place, int32, max");
  mock_synchronize(r->stream);
  for (int i = 0; i < N; ++i) CHECK(whole[i] == i + ranks - 1, "element %d: %d", i, whole[i]);
  double* wide = (double*)(void*)r->receive;
  for (int i = 0; i < N; ++i) wide[i] = i + 2 * r->rank;
  CHECK(!ncclAllReduce(wide, wide, N, ncclFloat64, ncclAvg, r->comm, r->stream), "in place, float64, avg");
  mock_synchronize(r->stream);
  for (int i = 0; i < N; ++i) CHECK(wide[i] == i + ranks - 1, "element %d: %g", i, wide[i]);
  // Reductions and types that are made at run time belong to one communicator, or are unknown: never spread.
  const int before = mock_calls(MOCK_ALL_REDUCE, r->rank);
  CHECK(!ncclAllReduce(wide, wide, N, ncclFloat64, ncclNumOps + 3, r->comm, r->stream), "made reduction");
  CHECK(!ncclAllReduce(wide, wide, N, ncclNumTypes + 3, ncclSum, r->comm, r->stream), "unknown type");
  CHECK(mock_calls(MOCK_ALL_REDUCE, r->rank) == before + 2, "spread");
}

static void types_and_reductions(void) { run(types_body); }

static void group_body(Rank* r) {
  // In a group, communicators cannot be split: the first group passes, rings exist after it.
  for (int i = 0; i < 3; ++i) {
    r->count = 30000;
    ncclGroupStart();
    ncclGroupStart();
    mock_queue(r->stream, fill, r);
    CHECK(!ncclAllReduce(r->send, r->receive, 20000, ncclFloat32, ncclSum, r->comm, r->stream), "group");
    CHECK(!ncclGroupEnd(), "inner");
    CHECK(!ncclAllReduce(r->send + 20000, r->receive + 20000, 10000, ncclFloat32, ncclSum, r->comm, r->stream),
          "group");
    CHECK(!ncclGroupEnd(), "outer");
    mock_queue(r->stream, look, r);
    mock_synchronize(r->stream);
    check_sums(r);
    CHECK(mock_calls(MOCK_ALL_REDUCE, r->rank) == 2 + 4 * i, "group %d", i);
  }
  // A simulated group runs nothing.
  const int before = mock_calls(MOCK_ALL_REDUCE, r->rank);
  ncclGroupStart();
  CHECK(!ncclAllReduce(r->send, r->receive, 20000, ncclFloat32, ncclSum, r->comm, r->stream), "simulated");
  CHECK(!ncclGroupSimulateEnd(NULL), "simulated");
  reduce_and_check(r, 20000);
  CHECK(mock_calls(MOCK_ALL_REDUCE, r->rank) == before + 4, "after a simulation");
}

static void groups(void) { run(group_body); }

// One thread drives all ranks, as a process with several GPUs does.
static void one_thread(void) {
  for (int i = 0; i < ranks; ++i) open_rank(&ranks_of_job[i], i);
  for (int round = 0; round < 3; ++round) {
    ncclGroupStart();
    for (int i = 0; i < ranks; ++i) CHECK(!all_reduce(&ranks_of_job[i], 30000), "rank %d", i);
    CHECK(!ncclGroupEnd(), "round %d", round);
    for (int i = 0; i < ranks; ++i) {
      Rank* r = &ranks_of_job[i];
      mock_queue(r->stream, look, r);
      mock_synchronize(r->stream);
      check_sums(r);
    }
  }
  CHECK(mock_calls(MOCK_SPLIT, 3) == 2, "%d splits", mock_calls(MOCK_SPLIT, 3));
  for (int i = 0; i < ranks; ++i) close_rank(&ranks_of_job[i]);
}

static void graph_body(Rank* r) {
  // Captured before there are rings: passed on, and no split.
  mock_begin_capture(r->stream);
  CHECK(!all_reduce(r, 30000), "captured");
  MockGraph first = mock_end_capture(r->stream);
  CHECK(mock_calls(MOCK_SPLIT, r->rank) == 0, "split while captured");
  reduce_and_check(r, 30000);
  mock_begin_capture(r->stream);
  CHECK(!all_reduce(r, 40000), "captured with rings");
  MockGraph second = mock_end_capture(r->stream);  // aborts if the rings' streams were not joined
  mock_begin_capture(r->stream);
  mock_queue(r->stream, fill, r);
  CHECK(!ncclGroupStart(), "a captured group");
  CHECK(!ncclAllReduce(r->send, r->receive, 40000, ncclFloat32, ncclSum, r->comm, r->stream), "in a captured group");
  CHECK(!ncclGroupEnd(), "the end of a captured group");
  mock_queue(r->stream, look, r);
  MockGraph third = mock_end_capture(r->stream);
  MockGraph graphs[] = {second, first, third, second};
  for (int i = 0; i < 4; ++i) {
    mock_launch(graphs[i], r->stream);
    mock_synchronize(r->stream);
    check_sums(r);
  }
  reduce_and_check(r, 30000);
  mock_free_graph(first);
  mock_free_graph(second);
  mock_free_graph(third);
}

static void graphs(void) { run(graph_body); }

static void state_body(Rank* r) {
  reduce_and_check(r, 30000);
  ncclResult_t state;
  CHECK(!ncclCommGetAsyncError(r->comm, &state) && state == ncclSuccess, "healthy");
  CHECK(!ncclCommFinalize(r->comm), "finalize");
}

static void finalize_reaches_the_rings(void) {
  run(state_body);
  CHECK(mock_finalized == 2 * ranks, "%d", mock_finalized);
}

static void revoke_body(Rank* r) {
  reduce_and_check(r, 30000);
  pthread_barrier_wait(&all_ranks);
  CHECK(!ncclCommRevoke(r->comm, 0), "revoke");
  const int before = mock_calls(MOCK_ALL_REDUCE, r->rank);
  ncclAllReduce(r->send, r->receive, 30000, ncclFloat32, ncclSum, r->comm, r->stream);
  CHECK(mock_calls(MOCK_ALL_REDUCE, r->rank) == before + 1, "spread on what was revoked");
}

static void revoke_reaches_the_rings(void) {
  run(revoke_body);
  CHECK(mock_revoked == 2 * ranks, "%d", mock_revoked);
}

static void shrink_body(Rank* r) {
  reduce_and_check(r, 30000);
  ncclComm_t made;
  pthread_barrier_wait(&all_ranks);
  CHECK(!ncclCommShrink(r->comm, NULL, 0, &made, NULL, NCCL_SHRINK_ABORT), "shrink");
}

static void shrinking_ends_the_rings(void) {
  run(shrink_body);
  CHECK(mock_aborted == ranks, "%d", mock_aborted);
}

static void error_body(Rank* r) {
  reduce_and_check(r, 30000);
  // The ring's communicator is the second that the rank has; its error is the communicator's.
  ncclResult_t state;
  mock_set_error(r->comm, ncclRemoteError);
  CHECK(!ncclCommGetAsyncError(r->comm, &state) && state == ncclRemoteError, "own error");
}

static void errors_are_seen(void) { run(error_body); }

// Rank 0 does not take part, the others wait on the device: aborting ends them.
static void stuck_body(Rank* r) {
  reduce_and_check(r, 30000);
  pthread_barrier_wait(&all_ranks);
  if (r->rank) CHECK(!all_reduce(r, 30000), "rank %d", r->rank);
  r->ended = true;
  CHECK(!ncclCommAbort(r->comm), "abort");
}

static void abort_ends_what_is_under_way(void) {
  run(stuck_body);
  CHECK(mock_aborted == 2 * ranks, "%d", mock_aborted);
}

// Rank 0 compares settings and never splits, or not even that; another thread aborts the others while they wait for it.
static MockNcclCall waits_in;

static void unsplit_body(Rank* r) {
  mock_hold(r->comm);
  if (waits_in == MOCK_SPLIT) reduce_and_check(r, 1);
  pthread_barrier_wait(&all_ranks);
  if (r->rank) CHECK(all_reduce(r, 30000) != ncclSuccess, "rank %d", r->rank);
}

static void* abort_the_others(void* argument) {
  for (int i = 1; i < ranks; ++i) {
    while (mock_calls(waits_in, i) == 0) usleep(100);
    if (!atomic_exchange(&ranks_of_job[i].ended, true)) CHECK(!ncclCommAbort(ranks_of_job[i].comm), "abort");
  }
  return argument;
}

static void abort_while_waiting(MockNcclCall call) {
  pthread_t thread;
  waits_in = call;
  pthread_create(&thread, NULL, abort_the_others, NULL);
  run(unsplit_body);
  pthread_join(thread, NULL);
  for (int i = 0; i < ranks; ++i) mock_drop(ranks_of_job[i].comm);
}

static void abort_ends_a_split(void) { abort_while_waiting(MOCK_SPLIT); }
static void abort_ends_a_comparison(void) { abort_while_waiting(MOCK_ALL_GATHER); }

// A fault of one rank: the sums are right everywhere, or the rank that has the fault gets an error; nobody waits for
// ever.
static atomic_bool broken;
static int faulty_rank;
static bool fault_returned;

static void fault_body(Rank* r) {
  mock_hold(r->comm);
  pthread_barrier_wait(&all_ranks);
  for (int i = 0; i < 3 && !broken; ++i) {
    const ncclResult_t result = all_reduce(r, 9000);
    if (result) {
      if (r->rank == faulty_rank) fault_returned = true;
      broken = true;
      break;
    }
    mock_synchronize(r->stream);
    if (!broken) check_sums(r);
  }
}

static void* watch(void* argument) {  // as a framework does: an error of one rank ends the job
  while (!broken) {
    if (atomic_load((atomic_bool*)argument)) return NULL;
    usleep(200);
  }
  for (int i = 0; i < ranks; ++i)
    if (ranks_of_job[i].comm && !atomic_exchange(&ranks_of_job[i].ended, true)) ncclCommAbort(ranks_of_job[i].comm);
  return NULL;
}

static void faults(void) {
  char* spelled = getenv("FAULT");  // call, nth, rank, error, after
  int call, nth, error, after;
  if (sscanf(spelled, "%d,%d,%d,%d,%d", &call, &nth, &faulty_rank, &error, &after) != 5) abort();
  ends_with_error = call == MOCK_DESTROY;
  mock_fail((MockNcclCall)call, faulty_rank, nth, error, after);
  atomic_bool done = false;
  pthread_t thread;
  pthread_create(&thread, NULL, watch, &done);
  run(fault_body);
  done = true;
  pthread_join(thread, NULL);
  for (int i = 0; i < ranks; ++i) mock_drop(ranks_of_job[i].comm);
  printf("%s\n", fault_returned ? "error" : broken ? "error elsewhere" : "right");
}

static void cuda_faults(void) {
  char* spelled = getenv("FAULT");  // call, nth
  int call, nth;
  if (sscanf(spelled, "%d,%d", &call, &nth) != 2) abort();
  mock_fail_cuda((MockCudaCall)call,
                 call == MOCK_STREAM_CREATE ? nth + ranks : nth);  // each rank makes one stream itself
  faulty_rank = -1;
  atomic_bool done = false;
  pthread_t thread;
  pthread_create(&thread, NULL, watch, &done);
  run(fault_body);
  done = true;
  pthread_join(thread, NULL);
  for (int i = 0; i < ranks; ++i) mock_drop(ranks_of_job[i].comm);
  printf("%s\n", broken ? "error" : "right");
}

static void communicators_that_do_not_block(void) {
  blocking = false;
  run(sizes_body);
  check_peers(1, (int[]){1}, 1, 4.0 * (65536 + 40001 + 4096 + 1023 + 65521));
}

static const struct {
  const char* name;
  void (*law)(void);
  bool leaves_nothing;
} laws[] = {
    {"sums", sums_are_right_and_bytes_go_to_the_strides, true},
    {"nodes", nodes_stay_together, true},
    {"many", sixty_four_ranks_agree, true},
    {"untouched", untouched_without_rings, true},
    {"types", types_and_reductions, true},
    {"groups", groups, true},
    {"one_thread", one_thread, true},
    {"graphs", graphs, true},
    {"finalize", finalize_reaches_the_rings, true},
    {"revoke", revoke_reaches_the_rings, true},
    {"shrink", shrinking_ends_the_rings, true},
    {"errors", errors_are_seen, true},
    {"stuck", abort_ends_what_is_under_way, true},
    {"abort_split", abort_ends_a_split, true},
    {"abort_comparison", abort_ends_a_comparison, true},
    {"faults", faults, false},
    {"cuda_faults", cuda_faults, false},
    {"not_blocking", communicators_that_do_not_block, true},
};

int main(int count, char** arguments) {
  for (size_t i = 0; i < sizeof laws / sizeof *laws; ++i) {
    if (count != 2 || strcmp(arguments[1], laws[i].name)) continue;
    laws[i].law();
    for (int r = 0; r < ranks; ++r) free(ranks_of_job[r].send);
    if (laws[i].leaves_nothing) check_nothing_left();
    return failures != 0;
  }
  fprintf(stderr, "no such law\n");
  return 2;
}
