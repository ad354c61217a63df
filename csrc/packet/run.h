// Worlds of packets, one for each team; on a CPU several threads share a world where there are fewer worlds than these.
// Source: world.h has the physics, part.h says how threads share a world.
#pragma once

#include "parallel/worlds.h"
#include "sst.h"
#include "world.h"

namespace topoflow::BACKEND {
namespace packet {

constexpr int32_t kWindows = 256;  // between two looks at `cancel`

struct StateBytes {
  PacketBatch batch;
  int32_t threads = 1;  // of a world
  DEVICE int64_t operator()(int32_t world) const {
    return batch.is_sst ? SstState(Memory(nullptr), batch, world).bytes
                        : State(Memory(nullptr), batch, world, Share{threads}).bytes;
  }
};

// B of stack that a GPU's thread needs beside what the kernel begins with: whoever asks how full a buffer is lets the
// port before it send first, and what it sends may ask at the next router (World::occupied), so calls are as deep as a
// route has ports; where nobody asks, as one such round. Functions that may call themselves are in no count of nvcc's:
// all of a round took 1,160 B (-Xptxas=-v of nvcc 13.0, sm_90).
struct StackBytes {
  PacketBatch batch;
  DEVICE int64_t operator()(int32_t world) const {
    const bool asks = batch.routing[world] >= kAdaptive && batch.hops[world] > 1;
    return kRound * (asks ? int64_t{batch.hops[world]} : 1);
  }

 private:
  static constexpr int32_t kRound = 1536;
};

// Calls f(World) with the kind that a world is of.
template <class Own, class F>
DEVICE void with_world(const PacketBatch& batch, int32_t world, std::byte* memory, const Own& own, const F& f) {
  if constexpr (Own::kAlone)
    if (batch.is_sst) return f(Sst(batch, world, memory));
  if (batch.output_queues && batch.routing[world] == kByPaths && !batch.transport.is_on) {
    f(World<true, Own>(batch, world, memory, own));
  } else {
    f(World<false, Own>(batch, world, memory, own));
  }
}

struct Run {
  static constexpr int kThreads = 32;  // of a team on a GPU
  static constexpr int kTeams = 32;    // that a multiprocessor has registers for: all that it can have

  PacketBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t place, int32_t i) const {
    const int32_t world = batch.order[i];
    with_world(batch, world, memory + place * bytes, Whole(), [&](auto one) { run(team, world, one); });
  }

 private:
  template <class World>
  DEVICE void run(const Team auto& team, int32_t world, World& one) const {
    team.set(&batch.status[world], kRunning);
    team.for_each(1, [&](int32_t) {
      one.begin();
      one.begin_own();
    });
    while (team.get(&batch.status[world]) == kRunning) {
      if (team.poll(batch.cancel)) {
        team.set(&batch.status[world], kCancelled);
      } else {
        team.for_each(1, [&](int32_t) { batch.status[world] = one.advance(kWindows); });
      }
    }
    team.for_each(1, [&](int32_t) {
      one.add_counts();
      one.end();
    });
  }
};

#ifndef TOPOFLOW_ON_GPU

// Threads that share each world: those that there are for each, but no more than it has ports for.
class Sharing {
 public:
  explicit Sharing(const PacketBatch& batch) : batch_(batch), bytes_(0) {
    if (batch.is_sst) return;  // a world of it has one thread
    const int32_t all = most_teams<Run>(0, batch.threads).teams;
    threads_ = batch.worlds > 0 ? all / batch.worlds : 0;
    int32_t most = 0;
    for (int32_t world = 0; world < batch.worlds; ++world) {
      const int64_t own = StateBytes{batch, threads_of(world)}(world);
      bytes_ = own > bytes_ ? own : bytes_;
      most = threads_of(world) > most ? threads_of(world) : most;
    }
    if (most < 2 || bytes_ * batch.worlds > batch.budget) threads_ = 1;
  }

  bool is_wanted() const { return threads_ > 1; }

  // Runs every world, all at once. Returns the bytes of state that one needs.
  int64_t run() {
    const Array<std::byte> memory(batch_.worlds * bytes_);
    std::vector<std::unique_ptr<Partition>> partitions;
    int32_t each = 1;
#pragma omp parallel num_threads(threads_* batch_.worlds)
    {
#pragma omp single
      {
        each = count() > batch_.worlds ? count() / batch_.worlds : 1;  // there may be fewer than we asked for
        if (each < threads_) threads_ = each;
        for (int32_t world = 0; world < batch_.worlds; ++world)
          partitions.push_back(std::make_unique<Partition>(batch_, world, threads_of(world)));
      }
      const int32_t step = count() / each;
      for (int32_t world = number() / each; number() < step * each && world < batch_.worlds; world += step) {
        const int32_t rank = number() % each;
        if (rank < threads_of(world)) run(world, *partitions[world], rank, memory.data() + world * bytes_);
      }
    }
    return bytes_;
  }

 private:
  int32_t threads_of(int32_t world) const {
    const int64_t room = (batch_.port_offsets[world + 1] - batch_.port_offsets[world]) / batch_.grain;
    const int64_t found = room < threads_ ? room : threads_;
    return found > 1 ? static_cast<int32_t>(found) : 1;
  }

  void run(int32_t world, Partition& all, int32_t rank, std::byte* memory) const {
    with_world(batch_, world, memory, Part(all, rank), [&](auto one) { run(world, all, rank, one); });
  }

  template <class World>
  void run(int32_t world, Partition& all, int32_t rank, World& one) const {
    if (rank == 0) {
      batch_.status[world] = kRunning;
      one.begin();
    }
    all.barrier.wait();
    one.begin_own();
    Status status = kRunning;
    while (status == kRunning) {
      if (rank == 0) all.is_cancelled = ThreadTeam().poll(batch_.cancel);
      all.barrier.wait();
      status = all.is_cancelled ? kCancelled : one.advance(kWindows);
    }
    for (int32_t turn = 0; turn < all.threads; ++turn) {
      all.barrier.wait();
      if (turn == rank) one.add_counts();
    }
    if (rank > 0) return;
    one.end();
    batch_.status[world] = status;
  }

#ifdef _OPENMP
  static int32_t count() { return omp_get_num_threads(); }
  static int32_t number() { return omp_get_thread_num(); }
#else
  static int32_t count() { return 1; }
  static int32_t number() { return 0; }
#endif

  const PacketBatch& batch_;
  int32_t threads_ = 1;  // of a world at most
  int64_t bytes_;        // of a world
};

#endif

}  // namespace packet

int64_t packets(const PacketBatch& batch) {
#ifdef TOPOFLOW_ON_GPU
  const DeviceGuard guard(batch.device);
  reserve_stack(first_stack<packet::Run>() + most_bytes<packet::StackBytes>(batch));
#else
  if (packet::Sharing sharing(batch); sharing.is_wanted()) return sharing.run();
#endif
  return run_worlds<packet::Run, packet::StateBytes>(batch);
}

}  // namespace topoflow::BACKEND
