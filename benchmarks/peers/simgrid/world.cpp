#include "world.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <unordered_map>

using nlohmann::json;

namespace {

[[noreturn]] void fail(const std::string& place, const std::string& law, const json& got) {
  throw std::runtime_error(place + ": " + law + ", got " + got.dump());
}

Link read_link(const json& row, const std::string& place) {
  const double latency = row.value("latency", 0.0);
  if (latency != 0) fail(place + ".latency", "must be 0, as SimGrid weighs a flow's share by it", latency);
  return {row.at("src"), row.at("dst"), row.at("bandwidth")};
}

std::vector<std::size_t> read_path(const json& row, std::size_t links, const std::string& place) {
  if (!row.contains("path")) fail(place + ".path", "must be given", row);
  for (const json& link : row["path"])
    if (link.get<std::size_t>() >= links) fail(place + ".path", "must be links", link);
  return row["path"];
}

Task read_task(const json& row, std::size_t links, const std::string& place) {
  const std::string type = row.at("type");
  const double start = row.value("start", 0.0);
  if (type == "transfer") return {read_path(row, links, place), row.at("bytes"), start, {}};
  if (type != "compute") fail(place + ".type", "must be transfer or compute", type);
  if (row.contains("server")) fail(place + ".server", "must be left out (write the order as after)", row["server"]);
  return {{}, row.at("seconds"), start, {}};
}

}  // namespace

World read_world(const std::string& file) try {
  std::ifstream stream(file);
  if (!stream) throw std::runtime_error("must be a file that can be read");
  const json content = json::parse(stream);
  World world;
  for (const json& row : content.at("links"))
    world.links.push_back(read_link(row, "links[" + std::to_string(world.links.size()) + "]"));
  std::unordered_map<std::string, std::size_t> index;
  for (const json& row : content.at("tasks")) {
    const std::string place = "tasks[" + std::to_string(world.tasks.size()) + "]";
    index[row.at("id")] = world.tasks.size();
    world.tasks.push_back(read_task(row, world.links.size(), place));
  }
  for (std::size_t task = 0; task < world.tasks.size(); ++task)
    for (const json& id : content["tasks"][task].value("after", json::array())) {
      const auto found = index.find(id.get<std::string>());
      if (found == index.end()) fail("tasks[" + std::to_string(task) + "].after", "must be ids of tasks", id);
      world.tasks[task].after.push_back(found->second);
    }
  return world;
} catch (const std::exception& error) {
  throw std::runtime_error(file + ": " + error.what());
}
