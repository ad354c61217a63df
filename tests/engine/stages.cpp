// Threads that share stages: each piece is done once in each stage, after all pieces of the stage before.
// Arguments: threads, pieces, stages. What pieces write is not atomic, so a thread sanitizer sees where order is
// missing.
#include "parallel/stages.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

int main(int, char** arguments) {
  const int threads = std::atoi(arguments[1]), pieces = std::atoi(arguments[2]), stages = std::atoi(arguments[3]);
  std::vector<int> done(pieces, 0), wrong(pieces, 0);
  int stage = 0, in_all = 0;
  topoflow::Stages all(pieces);
  const auto work = [&](int piece) {
    wrong[piece] += done[piece] != stage;
    if (stage < 2000 && (stage + piece) % 97 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
    ++done[piece];
  };
  const auto prepare = [&] {
    ++stage;
    for (const int times : done) in_all += times != stage;
    return stage < stages;
  };
  std::vector<std::thread> running;
  for (int thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      if (thread % 2 == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // some come late
      all.run(thread, work, prepare);
    });
  }
  for (std::thread& thread : running) thread.join();
  for (const int errors : wrong) in_all += errors;
  std::printf("%d stages, %d wrong\n", stage, in_all);
  return in_all != 0 || stage != stages;
}
