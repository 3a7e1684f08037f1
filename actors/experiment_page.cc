#include <troupe/actors/internal/experiment_impl.h>

#include <troupe/ps/control/ask_coordinator.h>
#include <troupe/ps/transport/memory_transport.h>

// What Prometheus fetches: the coordinator is asked for it, as `troupe status` asks.
namespace troupe {
namespace {

constexpr ps::Endpoint kScraper{ps::Role::client, 0, 2};  // tools that ask have odd incarnations

}  // namespace

Status Experiment::Impl::open_page() {
  const std::string& listen = config().metrics.listen;
  if (listen.empty()) return {};
  const bool trusted = options.spread && options.spread->network.insecure;
  if (!ps::is_loopback(listen) && !trusted)
    return fail(ErrorKind::invalid,
                cat("metrics.listen = ", listen, " (", sources().of("metrics.listen"),
                    "): whoever reaches it reads the run's numbers: use loopback, as 127.0.0.1:9464, or, in a run of "
                    "several processes, say --insecure-network where you trust that network"));
  if (!parts.transport) parts.transport = std::make_shared<ps::MemoryTransport>();
  auto opened = ps::HttpPage::open(
      {listen, "/metrics", "text/plain; version=0.0.4; charset=utf-8"},
      [transport = parts.transport]() -> std::optional<std::string> {
        const auto status = ps::ask_coordinator(*transport, kScraper, ps::StatusRequest{}, std::chrono::seconds(1));
        auto text = status ? ps::status_prometheus(*status) : status;
        return text ? std::optional(std::move(*text)) : std::nullopt;
      });
  if (!opened) return fail("metrics.listen", opened.error());
  page = std::move(*opened);
  notes.push_back(cat("metrics are at http://", page->address(), "/metrics"));
  return {};
}

}  // namespace troupe
