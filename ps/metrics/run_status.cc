#include <troupe/ps/metrics/run_status.h>

#include <nlohmann/json.hpp>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/human.h>
#include <troupe/ps/metrics/internal/lost_range_json.h>

namespace troupe::ps {
namespace {

using nlohmann::json;

LostRange lost_range(const json& l) {
  const auto number = [&](const char* key) { return l.at(key).get<int64_t>(); };
  return {number("server"),  l.at("layer").get<std::string>(), number("begin"), number("end"), number("from_step"),
          number("to_step"), number("updates"),                number("updates_lost")};
}

std::string place(int64_t node) { return node < 0 ? "waits" : cat("node ", node); }

}  // namespace

std::string status_json(const RunStatus& s) {
  json object{{"phase", s.phase},
              {"waits_for", s.waits_for},
              {"generation", s.generation},
              {"step", s.step},
              {"total_steps", s.total_steps},
              {"epoch", s.epoch},
              {"samples", s.samples},
              {"worker_restarts", s.worker_restarts},
              {"server_restarts", s.server_restarts},
              {"coordinator_restarts", s.coordinator_restarts},
              {"checkpoints", s.checkpoints},
              {"nodes", json::array()},
              {"workers", json::array()},
              {"servers", json::array()},
              {"lost", json::array()}};
  for (const auto& n : s.nodes)
    object["nodes"].push_back({{"node", n.node},
                               {"name", n.name},
                               {"state", n.state},
                               {"silent_ms", n.silent_ms},
                               {"queued_messages", n.queued_messages},
                               {"queued_bytes", n.queued_bytes},
                               {"refused_frames", n.refused_frames},
                               {"holds", n.holds}});
  for (const auto& w : s.workers)
    object["workers"].push_back({{"worker", w.worker},
                                 {"node", w.node},
                                 {"next_step", w.next_step},
                                 {"behind", w.behind},
                                 {"outstanding", w.outstanding}});
  for (const auto& v : s.servers)
    object["servers"].push_back({{"server", v.server}, {"node", v.node}, {"replica_node", v.replica_node}});
  for (const LostRange& l : s.lost) object["lost"].push_back(lost_range_json<json>(l));
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string status_text(const std::string& text) try {
  const json s = json::parse(text);
  const auto number = [](const json& object, const char* key) { return object.at(key).get<int64_t>(); };
  std::string out = cat(s.at("phase").get<std::string>(), ", step ", number(s, "step"), " of ",
                        number(s, "total_steps"), ", epoch ", number(s, "epoch"), ", generation ",
                        number(s, "generation"), ", ", number(s, "worker_restarts"), " worker and ",
                        number(s, "server_restarts"), " server restarts, ", number(s, "checkpoints"),
                        " checkpoints\n");
  if (const auto waits = s.at("waits_for").get<std::string>(); !waits.empty()) out += "waits for " + waits + "\n";
  std::vector<std::vector<std::string>> nodes{{"node", "process", "state", "heard", "queued", "refused", "holds"}};
  for (const json& n : s.at("nodes")) {
    std::string holds;
    for (const json& slot : n.at("holds")) holds += (holds.empty() ? "" : ", ") + slot.get<std::string>();
    nodes.push_back({cat(number(n, "node")), n.at("name").get<std::string>(), n.at("state").get<std::string>(),
                     cat(number(n, "silent_ms"), " ms ago"),
                     cat(number(n, "queued_messages"), " (", human_bytes(number(n, "queued_bytes")), ")"),
                     cat(number(n, "refused_frames")), holds});
  }
  std::vector<std::vector<std::string>> workers{{"worker", "on", "next step", "behind", "under way"}};
  for (const json& w : s.at("workers"))
    workers.push_back({cat(number(w, "worker")), place(number(w, "node")), cat(number(w, "next_step")),
                       cat(number(w, "behind")), cat(number(w, "outstanding"))});
  std::vector<std::vector<std::string>> servers{{"server", "on", "replica on"}};
  for (const json& v : s.at("servers"))
    servers.push_back({cat(number(v, "server")), place(number(v, "node")),
                       number(v, "replica_node") < 0 ? "-" : place(number(v, "replica_node"))});
  for (const auto* rows : {&nodes, &workers, &servers})
    if (rows->size() > 1) out += "\n" + text_table(*rows);
  if (!s.at("lost").empty()) out += "\n";
  for (const json& l : s.at("lost")) out += "lost: " + describe(lost_range(l)) + "\n";
  return out;
} catch (const json::exception& e) {
  return cat("no status: ", e.what(), "\n");
}

}  // namespace troupe::ps
