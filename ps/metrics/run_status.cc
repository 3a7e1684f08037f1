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

int64_t number(const json& object, const char* key) { return object.at(key).get<int64_t>(); }

/// Counts of what has happened, and nothing of what has not.
std::string headline(const json& s) {
  std::string out =
      cat(s.at("phase").get<std::string>(), ", step ", number(s, "step"), " of ", number(s, "total_steps"), ", epoch ",
          number(s, "epoch"), ", generation ", number(s, "generation"), ", ", number(s, "worker_restarts"),
          " worker and ", number(s, "server_restarts"), " server restarts, ", number(s, "checkpoints"), " checkpoints");
  for (const auto& [key, words] :
       {std::pair("coordinator_restarts", " coordinator restarts"), std::pair("workers_dropped", " workers dropped"),
        std::pair("checkpoints_failed", " checkpoints failed"), std::pair("skipped_steps", " steps skipped")})
    if (const int64_t count = number(s, key); count > 0) out += cat(", ", count, words);
  out += "\n";
  const json& refused = s.at("coordinator").at("refused");
  std::string why;
  for (const auto& [reason, count] : refused.items())
    why += cat(why.empty() ? "" : ", ", count.get<int64_t>(), " ", reason);
  return why.empty() ? out : out + "refused by the coordinator (see the log): " + why + "\n";
}

using Rows = std::vector<std::vector<std::string>>;

Rows node_rows(const json& s) {
  Rows rows{{"node", "process", "state", "heard", "queued", "refused", "holds"}};
  const auto queued = [](const json& n) {
    return cat(number(n, "queued_messages"), " (", human_bytes(number(n, "queued_bytes")), ")");
  };
  for (const json& n : s.at("nodes")) {
    std::string holds;
    for (const json& slot : n.at("holds")) holds += (holds.empty() ? "" : ", ") + slot.get<std::string>();
    rows.push_back({cat(number(n, "node")), n.at("name").get<std::string>(), n.at("state").get<std::string>(),
                    cat(number(n, "silent_ms"), " ms ago"), queued(n), cat(number(n, "refused_frames")), holds});
  }
  int64_t refused = 0;
  for (const auto& [reason, count] : s.at("coordinator").at("refused").items()) refused += count.get<int64_t>();
  rows.push_back({"-", "coordinator", "", "", queued(s.at("coordinator")), cat(refused), ""});
  return rows;
}

std::string milliseconds(const json& object, const char* key) {
  return fixed(1000 * object.at(key).get<double>(), 1) + " ms";
}

Rows worker_rows(const json& s) {
  Rows rows{{"worker", "on", "next step", "behind", "under way", "computes", "waits"}};
  for (const json& w : s.at("workers"))
    rows.push_back({cat(number(w, "worker")), place(number(w, "node")), cat(number(w, "next_step")),
                    cat(number(w, "behind")), cat(number(w, "outstanding")), milliseconds(w, "compute_s"),
                    milliseconds(w, "wait_s")});
  return rows;
}

Rows server_rows(const json& s) {
  Rows rows{{"server", "on", "replica on"}};
  for (const json& v : s.at("servers"))
    rows.push_back({cat(number(v, "server")), place(number(v, "node")),
                    number(v, "replica_node") < 0 ? "-" : place(number(v, "replica_node"))});
  return rows;
}

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
              {"workers_dropped", s.workers_dropped},
              {"checkpoints", s.checkpoints},
              {"checkpoints_failed", s.checkpoints_failed},
              {"skipped_steps", s.skipped_steps},
              {"coordinator",
               {{"queued_messages", s.coordinator.queued_messages},
                {"queued_bytes", s.coordinator.queued_bytes},
                {"refused", s.coordinator.refused}}},
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
                                 {"outstanding", w.outstanding},
                                 {"compute_s", w.compute_s},
                                 {"wait_s", w.wait_s}});
  for (const auto& v : s.servers)
    object["servers"].push_back({{"server", v.server}, {"node", v.node}, {"replica_node", v.replica_node}});
  for (const LostRange& l : s.lost) object["lost"].push_back(lost_range_json<json>(l));
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::string> status_text(const std::string& text) try {
  const json s = json::parse(text);
  std::string out = headline(s);
  if (const auto waits = s.at("waits_for").get<std::string>(); !waits.empty()) out += "waits for " + waits + "\n";
  for (const auto& rows : {node_rows(s), worker_rows(s), server_rows(s)})
    if (rows.size() > 1) out += "\n" + text_table(rows);
  if (!s.at("lost").empty()) out += "\n";
  for (const json& l : s.at("lost")) out += "lost: " + describe(lost_range(l)) + "\n";
  return out;
} catch (const json::exception& e) {
  return fail(ErrorKind::corrupt, cat("the answer is no status of a run: ", e.what()));
}

}  // namespace troupe::ps
