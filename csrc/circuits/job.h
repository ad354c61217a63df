// A job whose routes change while it runs. It is simulated in intervals between two changes; in each interval only
// the tasks that have begun and not finished are part of the simulated world.
//
// Shapes: T tasks, D dependencies, P paths, H hops, L links.
//
// Source: topoflow/engine/dynamic/reconfigure.py says whose job it is, fluid/world.h how it runs.
#pragma once

#include "fluid/batch.h"

namespace topoflow {

struct Job {
  static constexpr int32_t kNoLink = -1;  // a hop that carries nothing

  Graphs graph;    // the paths are the routes that there are now, their links may be kNoLink
  double latency;  // s, of every link
  double merge;    // as in Batch
  int64_t paths, links;
  int64_t ready_count;  // in and out, tasks in `ready`
  int64_t moving;       // out, tasks in `moved`
  const double *wait, *capacity;
  const int32_t* cancel;
  double *start, *finish, *waited, *left, *ready_at;
  int32_t *pending, *users, *ready;
  int32_t* moved;
  double* sent;
  double* end;
  int32_t *number, *ended_predecessors, *path_number, *link_number, *resource_number;
};

constexpr Field<Graphs> kJobGraphFields[] = {
    array("delay", &Graphs::delay, "T", "s"),
    array("release", &Graphs::release, "T", "s"),
    array("path", &Graphs::path, "T", "path, -1: none"),
    optional("resource", &Graphs::resource, "T", "number of the resource that a task occupies, -1: none"),
    array("after_offsets", &Graphs::after_offsets, "T+1", "where the row of each task begins in `after`"),
    array("after", &Graphs::after, "D", "tasks that a task waits for"),
    array("follower_offsets", &Graphs::follower_offsets, "T+1", "where the row of each task begins in `followers`"),
    array("followers", &Graphs::followers, "D", "`after` the other way round"),
    array("path_offsets", &Graphs::path_offsets, "P+1", "first hop of each path"),
    array("path_links", &Graphs::path_links, "H", "link of every hop, -1: it carries nothing"),
    optional("path_weight", &Graphs::path_weight, "H", "share of a flow's rate that the hop carries"),
    optional("path_limit", &Graphs::path_limit, "P", "B/s, the most that one flow gets"),
    count('T', &Graphs::tasks),
    count('D', &Graphs::dependencies)};

constexpr Field<Job> kJobFields[] = {
    array("wait", &Job::wait, "P", "s, the latency of the average byte"),
    array("capacity", &Job::capacity, "L", "B/s"),
    on_host("cancel", &Job::cancel, "1", "not 0: stop"),
    array("start", &Job::start, "T", "in and out, s; infinity: it has not begun"),
    array("finish", &Job::finish, "T", "in and out, s; infinity: it has not finished"),
    array("waited", &Job::waited, "T", "in and out, s, when a task that has begun has waited"),
    array("left", &Job::left, "T", "in and out, B"),
    array("ready_at", &Job::ready_at, "T", "in and out, s, when the last of those in `after` finished that have"),
    array("pending", &Job::pending, "T", "in and out, tasks in `after` that have not finished"),
    array("users", &Job::users, "P", "in and out, tasks on the path that have not finished"),
    array("live", &Job::ready, "T", "in and out, unfinished tasks that wait for no other, ascending"),
    array("moved", &Job::moved, "T", "out, tasks that were run, ascending"),
    array("sent", &Job::sent, "T", "out, B that each of those sent"),
    array("end", &Job::end, "T", "anything"),
    array("number", &Job::number, "T", "-1, and again afterwards"),
    array("seen", &Job::ended_predecessors, "T", "0, and again afterwards"),
    array("path_number", &Job::path_number, "P", "-1, and again afterwards"),
    array("link_number", &Job::link_number, "L+1", "-1, and again afterwards"),
    optional("resource_number", &Job::resource_number, "T", "anything; none where no task occupies a resource"),
    count('P', &Job::paths),
    count('L', &Job::links)};

namespace cpu {
// Runs the job from `now` to `until`. Returns kPaused, or the reason why it ended otherwise.
Status advance(Job& job, double now, double until);
}  // namespace cpu

}  // namespace topoflow
