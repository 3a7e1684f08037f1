#include <algorithm>

#include <nlohmann/json.hpp>

#include <troupe/kernels/base/text.h>
#include <troupe/ps/metrics/run_status.h>

// The format: https://prometheus.io/docs/instrumenting/exposition_formats/; names: base units, counters end in _total.
namespace troupe::ps {
namespace {

using nlohmann::json;

std::string quoted(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + "\"";
}

/// One metric after another, each with all of its samples.
class Page {
 public:
  void begin(const char* name, const char* type, const char* help) {
    name_ = name;
    text_ += cat("# HELP troupe_", name, " ", help, "\n# TYPE troupe_", name, " ", type, "\n");
  }
  void sample(double value, std::initializer_list<std::pair<const char*, std::string>> labels = {}) {
    text_ += cat("troupe_", name_);
    const char* before = "{";
    for (const auto& [label, content] : labels) {
      text_ += cat(before, label, "=", quoted(content));
      before = ",";
    }
    if (labels.size() > 0) text_ += "}";
    text_ += cat(" ", json(value).dump(), "\n");
  }
  void one(const char* name, const char* type, const char* help, double value) {
    begin(name, type, help);
    sample(value);
  }
  std::string take() { return std::move(text_); }

 private:
  std::string name_, text_;
};

double number(const json& object, const char* key) { return object.at(key).get<double>(); }

void add_run(Page& page, const json& s) {
  page.begin("phase", "gauge", "1 for what the run does now.");
  page.sample(1, {{"phase", s.at("phase").get<std::string>()}});
  page.one("step", "gauge", "Training steps that are done.", number(s, "step"));
  page.one("planned_steps", "gauge", "Steps that the run will have taken.", number(s, "total_steps"));
  page.one("epoch", "gauge", "Passes over the data that are done.", number(s, "epoch"));
  page.one("samples_total", "counter", "Samples trained on.", number(s, "samples"));
  page.one("generation", "gauge", "Of the membership; a million more with every coordinator.", number(s, "generation"));
  page.begin("restarts_total", "counter", "Actors that were lost and came back.");
  for (const char* role : {"worker", "server", "coordinator"})
    page.sample(number(s, cat(role, "_restarts").c_str()), {{"role", role}});
  page.one("workers_dropped_total", "counter", "Workers that were lost and not replaced.",
           number(s, "workers_dropped"));
  page.one("checkpoints_total", "counter", "Checkpoints written.", number(s, "checkpoints"));
  page.one("checkpoint_failures_total", "counter", "Checkpoints that could not be written.",
           number(s, "checkpoints_failed"));
  page.one("skipped_steps_total", "counter", "Steps with a gradient that was not finite.", number(s, "skipped_steps"));
  double lost = 0;
  for (const json& range : s.at("lost")) lost += number(range, "updates_lost");
  page.one("lost_updates_total", "counter", "Updates lost with servers, at most.", lost);
}

void add_processes(Page& page, const json& s) {
  page.begin("node_up", "gauge", "1: the process is part of the run.");
  for (const json& n : s.at("nodes"))
    page.sample(n.at("state") == "ready" || n.at("state") == "leaving",
                {{"node", n.at("node").dump()}, {"process", n.at("name").get<std::string>()}});
  page.begin("node_silent_seconds", "gauge", "Since it was last heard of.");
  for (const json& n : s.at("nodes")) page.sample(number(n, "silent_ms") / 1000, {{"node", n.at("node").dump()}});
  for (const auto& [key, name, help] :
       {std::tuple("queued_messages", "queued_messages", "What waits in a process for its peers."),
        std::tuple("queued_bytes", "queued_bytes", "The same, in bytes.")}) {
    page.begin(name, "gauge", help);
    page.sample(number(s.at("coordinator"), key), {{"node", "coordinator"}});
    for (const json& n : s.at("nodes")) page.sample(number(n, key), {{"node", n.at("node").dump()}});
  }
  page.begin("refused_total", "counter", "Connections and messages from outside that were not taken.");
  for (const auto& [reason, count] : s.at("coordinator").at("refused").items())
    page.sample(count.get<double>(), {{"node", "coordinator"}, {"reason", reason}});
  for (const json& n : s.at("nodes"))
    page.sample(number(n, "refused_frames"), {{"node", n.at("node").dump()}, {"reason", "any"}});
}

void add_slots(Page& page, const json& s) {
  const auto by_worker = [&](const char* name, const char* key, const char* help) {
    page.begin(name, "gauge", help);
    for (const json& w : s.at("workers")) page.sample(number(w, key), {{"worker", w.at("worker").dump()}});
  };
  by_worker("worker_steps_behind", "behind", "Behind the furthest: the staleness that others may see.");
  by_worker("worker_outstanding", "outstanding", "Pieces of work dealt and not done.");
  by_worker("worker_compute_seconds", "compute_s", "Of a piece of training work, lately.");
  by_worker("worker_wait_seconds", "wait_s", "For parameters and others, of such a piece.");
  page.begin("slot_placed", "gauge", "1: it has a node; 0: it waits for one.");
  for (const json& w : s.at("workers"))
    page.sample(number(w, "node") >= 0, {{"role", "worker"}, {"index", w.at("worker").dump()}});
  for (const json& v : s.at("servers"))
    page.sample(number(v, "node") >= 0, {{"role", "server"}, {"index", v.at("server").dump()}});
  page.begin("server_replicated", "gauge", "1: a replica of it is on another node.");
  for (const json& v : s.at("servers"))
    page.sample(number(v, "replica_node") >= 0, {{"server", v.at("server").dump()}});
}

}  // namespace

Result<std::string> status_prometheus(const std::string& text) try {
  json s = json::parse(text);
  json& nodes = s.at("nodes");
  nodes.erase(std::remove_if(nodes.begin(), nodes.end(), [](const json& n) { return n.at("state") == "gone"; }),
              nodes.end());
  Page page;
  add_run(page, s);
  add_processes(page, s);
  add_slots(page, s);
  return page.take();
} catch (const json::exception& e) {
  return fail(ErrorKind::corrupt, cat("the answer is no status of a run: ", e.what()));
}

}  // namespace troupe::ps
