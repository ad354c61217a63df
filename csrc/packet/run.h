// Worlds of packets, one for each team; on a CPU several threads share a world where there are fewer worlds than these.
// Source: world.h has the physics, part.h says how threads share a world.
#pragma once

#include "parallel/worlds.h"
#include "sst.h"
#include "world.h"
#ifndef TOPOFLOW_ON_GPU
#include <deque>
#include <memory>
#include <new>

#include "parallel/stages.h"
#endif

namespace topoflow::BACKEND {
namespace packet {

// Windows between two looks at `cancel`, which a GPU reads across the bus. One of 110,592 nodes takes 0.1 s.
#ifdef TOPOFLOW_ON_GPU
constexpr int32_t kWindows = 256;
#else
constexpr int32_t kWindows = 1;
#endif

// Packets follow paths, in virtual output queues, without a transport. Compilers leave out the code of other features.
struct Plain {
  static constexpr bool kIsPlain = true, kInputQueues = false, kAddresses = false, kTransport = false;
};
// Packets may do anything that the settings say.
struct General {
  static constexpr bool kIsPlain = false, kInputQueues = true, kAddresses = true, kTransport = true;
};

// Returns whether a world is of the kind Plain.
DEVICE bool is_plain(const PacketBatch& batch, int32_t world) {
  return batch.model.output_queues && batch.address.routing[world] == kByPaths && !batch.transport.is_on;
}

// The kinds of worlds. Each has a kernel of its own: nvcc compiles them side by side, in files of cuda/.
template <class Kind>
struct Model {
  using World = packet::World<Kind, Whole>;
  DEVICE static bool has(const PacketBatch& batch, int32_t world) {
    return !batch.model.is_sst && is_plain(batch, world) == Kind::kIsPlain;
  }
  DEVICE static int64_t state_bytes(const PacketBatch& batch, int32_t world, int32_t parts = 1) {
    return State(Memory(nullptr), batch, world, Share{parts}).bytes;
  }
};
struct PlainModel : Model<Plain> {};
struct GeneralModel : Model<General> {};
struct SstModel {
  using World = Sst;
  DEVICE static bool has(const PacketBatch& batch, int32_t) { return batch.model.is_sst; }
  DEVICE static int64_t state_bytes(const PacketBatch& batch, int32_t world) {
    return SstState(Memory(nullptr), batch, world).bytes;
  }
};

// Returns 1 for a world of this kind, else 0.
template <class Kind>
struct IsOfKind {
  PacketBatch batch;
  DEVICE int64_t operator()(int32_t world) const { return Kind::has(batch, world); }
};

// Returns the B of state of a world; 0 for one of another kind.
template <class Kind>
struct StateBytes {
  PacketBatch batch;
  DEVICE int64_t operator()(int32_t world) const {
    return Kind::has(batch, world) ? Kind::state_bytes(batch, world) : 0;
  }
};

// B of stack that a GPU's thread needs beside what the kernel begins with: whoever asks how full a buffer is lets the
// port before it send first, and what it sends may ask at the next router (Router::occupied), so calls are as deep as a
// route has ports; where nobody asks, as one such round. Functions that may call themselves are in no count of nvcc's:
// all of a round took 1,160 B (-Xptxas=-v of nvcc 13.0, sm_90).
struct StackBytes {
  PacketBatch batch;
  DEVICE int64_t operator()(int32_t world) const {
    const bool asks = batch.address.routing[world] >= kAdaptive && batch.address.hops[world] > 1;
    return kRound * (asks ? int64_t{batch.address.hops[world]} : 1);
  }

 private:
  static constexpr int32_t kRound = 1536;
};

template <class Kind>
struct Run {
  static constexpr int kThreads = 32;  // of a team on a GPU
  static constexpr int kTeams = 32;    // that a multiprocessor has registers for: all that it can have

  PacketBatch batch;
  std::byte* memory;
  int64_t bytes;  // of one team

  DEVICE void operator()(const Team auto& team, int32_t team_index, int32_t i) const {
    const int32_t world = batch.run.order[i];
    if (!Kind::has(batch, world)) return;
    typename Kind::World simulation(batch, world, memory + team_index * bytes);
    team.set(&batch.out.status[world], kRunning);
    team.for_each(1, [&](int32_t) {
      simulation.begin();
      simulation.begin_region();
    });
    while (team.get(&batch.out.status[world]) == kRunning) {
      if (team.poll(batch.run.cancel)) {
        team.set(&batch.out.status[world], kCancelled);
      } else {
        team.for_each(1, [&](int32_t) { batch.out.status[world] = simulation.advance(kWindows); });
      }
    }
    team.for_each(1, [&](int32_t) {
      simulation.add_counts();
      simulation.end();
    });
  }
};

// Runs the worlds of this kind. Returns the bytes of state that one team needs.
template <class Kind>
int64_t run_kind(const PacketBatch& batch) {
  const DeviceGuard guard(batch.device);
  if (max_bytes<IsOfKind<Kind>>(batch) == 0) return 0;
#ifdef TOPOFLOW_ON_GPU
  reserve_stack(first_stack<Run<Kind>>() + max_bytes<StackBytes>(batch));
#endif
  return run_worlds<Run<Kind>, StateBytes<Kind>>(batch);
}

#ifdef TOPOFLOW_ON_GPU

extern template int64_t run_kind<PlainModel>(const PacketBatch& batch);
extern template int64_t run_kind<GeneralModel>(const PacketBatch& batch);
extern template int64_t run_kind<SstModel>(const PacketBatch& batch);

#else

// A world that threads share.
class Shared {
 public:
  virtual ~Shared() = default;
  // Runs the world to its end; all of its threads call this, with numbers from 0 on.
  virtual void run(int32_t thread) = 0;
};

template <class Kind>
class SharedWorld : public Shared {
 public:
  SharedWorld(const PacketBatch& batch, int32_t world, int32_t parts, std::byte* memory)
      : batch_(batch), world_(world), all_(batch, world, parts), notices_(parts), stages_(parts) {
    for (int32_t part = 0; part < parts; ++part) parts_.emplace_back(batch, world, memory, Part(all_, part));
    if (Kind::kIsPlain && parts_[0].may_fast_forward()) fast_forward_ = FastForward(true);
  }

  // Its parts, as FastForward has them.
  auto& first() { return parts_[0]; }
  template <class F>
  void for_each_part(const F& f) {
    for (PartWorld& part : parts_) f(part);
  }

  void run(int32_t thread) override {
    stages_.run(thread, [&](int32_t part) { work(part); }, [&] { return prepare(); });
  }

 private:
  enum Stage { kBegin, kMail, kTasks, kPorts };

  using PartWorld = World<Kind, Part>;
  struct alignas(64) PaddedWorld : PartWorld {  // shares no cache line with another part
    using PartWorld::PartWorld;
  };
  struct alignas(64) PaddedNotice : Notice {};

  void work(int32_t part) {
    PartWorld& world = parts_[part];
    switch (stage_) {
      case kBegin:
        if (part == 0) world.begin();
        break;
      case kMail:
        if (is_first_) world.begin_region();
        world.accept_mail();
        static_cast<Notice&>(notices_[part]) = world.notice();
        break;
      case kTasks:
        world.begin_window(next_.first, fast_forward_.latest_end());
        world.run_tasks();
        break;
      case kPorts:
        if (!has_task_events()) world.begin_window(next_.first, fast_forward_.latest_end());
        world.run_ports();
        break;
    }
  }

  // Sets the next stage once all parts have ended this one; returns whether there is one.
  bool prepare() {
    if (stage_ == kMail) {
      if (const Status status = next_window(); status != kRunning) {
        end(status);
        return false;
      }
      stage_ = has_task_events() ? kTasks : kPorts;
    } else {
      stage_ = stage_ == kTasks ? kPorts : kMail;
    }
    return true;
  }

  // Finds the first event of all parts; returns kRunning if there is another window.
  Status next_window() {
    next_ = notices_[0];
    for (const PaddedNotice& notice : notices_) {
      next_.first = std::min(next_.first, notice.first);
      next_.tasks = std::min(next_.tasks, notice.tasks);
      next_.gives_up |= notice.gives_up;
    }
    is_first_ = false;
    if (ThreadTeam().poll(batch_.run.cancel)) return kCancelled;
    const Status status = parts_[0].status_of(next_);
    if constexpr (Kind::kIsPlain) {
      if (status != kRunning) fast_forward_.end(*this);
      if (status == kRunning && fast_forward_.is_on()) next_.first = fast_forward_.begin_window(*this, next_);
    }
    return status;
  }

  bool has_task_events() const { return next_.tasks < next_.first + batch_.run.window[world_]; }

  void end(Status status) {
    for (PartWorld& world : parts_) world.add_counts();
    parts_[0].end();
    batch_.out.status[world_] = status;
  }

  const PacketBatch& batch_;
  const int32_t world_;
  Partition all_;
  std::deque<PaddedWorld> parts_;
  std::vector<PaddedNotice> notices_;  // [parts]
  Notice next_{};
  Stage stage_ = kBegin;
  bool is_first_ = true;  // the first window
  FastForward fast_forward_{false};
  Stages stages_;
};

// Threads that share each world: those that there are for each, but no more than it has ports for. A world has a part
// for each thread that is asked for; if fewer come, these do all parts.
class Sharing {
 public:
  explicit Sharing(const PacketBatch& batch) : batch_(batch), bytes_(0) {
    if (batch.model.is_sst) return;  // a world of it has one thread
    const int32_t threads = max_teams<Run<PlainModel>>(0, batch.threads).teams;
    threads_ = batch.worlds > 0 ? threads / batch.worlds : 0;
    int32_t max_parts = 0;
    for (int32_t world = 0; world < batch.worlds; ++world) {
      const int64_t world_bytes = PlainModel::state_bytes(batch, world, parts_of(world));
      bytes_ = world_bytes > bytes_ ? world_bytes : bytes_;
      max_parts = parts_of(world) > max_parts ? parts_of(world) : max_parts;
    }
    // A single world is simulated in any case: only the memory that its parts add counts, most of it never touched.
    const bool fits = batch.worlds == 1 ? bytes_ - PlainModel::state_bytes(batch, 0) <= kUntouched * batch.budget
                                        : bytes_ * batch.worlds <= batch.budget;
    if (max_parts < 2 || !fits) threads_ = 1;
  }

  bool is_worthwhile() const { return threads_ > 1; }

  // Runs every world, all at once. Returns the bytes of state that one needs.
  int64_t run() {
    const Array<std::byte> memory(batch_.worlds * bytes_);
    std::vector<std::unique_ptr<Shared>> worlds;
    for (int32_t world = 0; world < batch_.worlds; ++world) {
      batch_.out.status[world] = kRunning;
      worlds.push_back(shared(world, memory.data() + world * bytes_));
    }
#pragma omp parallel num_threads(threads_* batch_.worlds)
    {  // there may be fewer than we asked for
      const int32_t threads_per_world = count() > batch_.worlds ? count() / batch_.worlds : 1;
      for (int32_t world = number() / threads_per_world; world < batch_.worlds; world += count() / threads_per_world)
        worlds[world]->run(number() % threads_per_world);
    }
    return bytes_;
  }

 private:
  int32_t parts_of(int32_t world) const {
    const int64_t room = (batch_.ports.port_offsets[world + 1] - batch_.ports.port_offsets[world]) / batch_.grain;
    const int64_t parts = room < threads_ ? room : threads_;
    return parts > 1 ? static_cast<int32_t>(parts) : 1;
  }

  std::unique_ptr<Shared> shared(int32_t world, std::byte* memory) const {
    if (is_plain(batch_, world)) return std::make_unique<SharedWorld<Plain>>(batch_, world, parts_of(world), memory);
    return std::make_unique<SharedWorld<General>>(batch_, world, parts_of(world), memory);
  }

#ifdef _OPENMP
  static int32_t count() { return omp_get_num_threads(); }
  static int32_t number() { return omp_get_thread_num(); }
#else
  static int32_t count() { return 1; }
  static int32_t number() { return 0; }
#endif

  static constexpr int64_t kUntouched = 4;  // ours: sweep3d on 110,592 nodes adds 3 GiB

  const PacketBatch& batch_;
  int32_t threads_ = 1;  // of a world at most
  int64_t bytes_;        // of a world
};

#endif

}  // namespace packet

}  // namespace topoflow::BACKEND
