#include "environment.h"

#include <cstdint>
#include <vector>

#include <troupe/kernels/base/parse.h>
#include <troupe/kernels/base/text.h>

#include "nodelist.h"

namespace troupe::launch {
namespace {

constexpr int kMostRanks = 65536;

using Variables = std::map<std::string, std::string>;

/// The variable's value; empty where it is not set, or set to nothing.
std::string value(const Variables& variables, const std::string& name) {
  const auto found = variables.find(name);
  return found == variables.end() ? "" : found->second;
}

Result<int> number(const Variables& variables, const std::string& name, int least, int most) {
  const std::string text = value(variables, name);
  const auto found = number_from<int64_t>(text);
  if (!found || *found < least || *found > most)
    return fail(ErrorKind::invalid, cat(name, "=", text, ": must be a number from ", least, " to ", most));
  return static_cast<int>(*found);
}

std::string joined(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos && !host.starts_with('[');
  return v6 ? cat('[', host, "]:", port) : cat(host, ':', port);
}

struct Source {
  const char* name;
  const char* rank;
  const char* size;
  Status (*rendezvous)(const Variables&, Place&);  ///< fills it in where it can; Place has rank and size
};

Status no_rendezvous(const Variables&, Place&) { return {}; }

Status torchrun_rendezvous(const Variables& variables, Place& place) {
  const std::string host = value(variables, "MASTER_ADDR");
  if (host.empty()) return {};
  // torchrun keeps a store of its own on this port; other launchers leave it to the program.
  const int after = value(variables, "TORCHELASTIC_USE_AGENT_STORE") == "True" ? 1 : 0;
  const auto port = number(variables, "MASTER_PORT", 1, 65535 - after);
  if (!port) return tl::unexpected(port.error());
  place.rendezvous = joined(host, *port + after);
  return {};
}

/// The first of the hosts in the variable `list`, and a port that belongs to `job`.
Status take_nodelist(const Variables& variables, const std::string& list, const std::string& job, Place& place) {
  const auto hosts = expand_nodelist(value(variables, list));
  if (!hosts) return fail(list, hosts.error());
  place.one_host = hosts->size() == 1;
  place.rendezvous = joined(place.one_host ? "127.0.0.1" : hosts->front(), port_of_job(job));
  return {};
}

Status slurm_rendezvous(const Variables& variables, Place& place) {
  const bool step = !value(variables, "SLURM_STEP_NODELIST").empty();
  return take_nodelist(variables, step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST",
                       cat(value(variables, "SLURM_JOB_ID"), '.', value(variables, "SLURM_STEP_ID")), place);
}

/// An MPI launcher within a Slurm job: the step is that of its helpers, and differs from host to host.
Status slurm_job_rendezvous(const Variables& variables, Place& place) {
  if (value(variables, "SLURM_JOB_NODELIST").empty()) return {};
  return take_nodelist(variables, "SLURM_JOB_NODELIST", value(variables, "SLURM_JOB_ID"), place);
}

Status open_mpi_rendezvous(const Variables& variables, Place& place) {
  std::string job = value(variables, "PMIX_NAMESPACE");
  if (job.empty()) job = value(variables, "OMPI_MCA_ess_base_jobid");
  const bool one_host = value(variables, "OMPI_COMM_WORLD_LOCAL_SIZE") == value(variables, "OMPI_COMM_WORLD_SIZE");
  if (job.empty() || !one_host) return slurm_job_rendezvous(variables, place);
  place.one_host = true;
  place.rendezvous = joined("127.0.0.1", port_of_job(job));
  return {};
}

const std::vector<Source>& sources() {
  static const std::vector<Source> all = {
      {"Troupe", "TROUPE_RANK", "TROUPE_SIZE", no_rendezvous},
      {"torchrun", "RANK", "WORLD_SIZE", torchrun_rendezvous},
      {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", open_mpi_rendezvous},
      {"PMI", "PMI_RANK", "PMI_SIZE", slurm_job_rendezvous},
      {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", slurm_rendezvous},
      {"Kubernetes", "JOB_COMPLETION_INDEX", "TROUPE_NODES", no_rendezvous},
  };
  return all;
}

/// The script of a batch job has the variables of a rank 0 too, but nobody has started the other ranks.
bool in_slurm_step(const Variables& variables) { return !value(variables, "SLURM_STEP_ID").empty(); }

/// Of a job script that is not under srun there is a hint to give.
Status not_in_a_step(const Variables& variables) {
  return fail(ErrorKind::invalid,
              cat("this is Slurm job ", value(variables, "SLURM_JOB_ID"),
                  ", but not a step of it, so that nobody has "
                  "started the other processes: write srun before the command, or say --processes or --hosts"));
}

Result<Place> read(const Source& source, const Variables& variables) {
  if (value(variables, source.rank).empty() || value(variables, source.size).empty()) {
    const bool rank = !value(variables, source.rank).empty();
    return fail(ErrorKind::invalid, cat(rank ? source.rank : source.size, " is set, but ",
                                        rank ? source.size : source.rank, " is not: set both, or neither"));
  }
  const auto size = number(variables, source.size, 1, kMostRanks);
  if (!size) return tl::unexpected(size.error());
  const auto rank = number(variables, source.rank, 0, kMostRanks - 1);
  if (!rank) return tl::unexpected(rank.error());
  if (*rank >= *size)
    return fail(ErrorKind::invalid,
                cat(source.rank, "=", *rank, " is not below ", source.size, "=", *size, ": ranks count from 0"));
  Place place{.rank = *rank, .size = *size, .source = source.name};
  place.rendezvous = value(variables, "TROUPE_COORDINATOR");
  if (place.rendezvous.empty()) TROUPE_TRY(source.rendezvous(variables, place));
  if (place.rendezvous.empty() && *size > 1)
    return fail(ErrorKind::invalid, cat(source.name, " says that there are ", *size,
                                        " processes, but not where they meet: set "
                                        "TROUPE_COORDINATOR=HOST:PORT, HOST being that of rank 0"));
  return place;
}

}  // namespace

Result<std::optional<Place>> place_from_environment(const Variables& variables) {
  for (const Source& source : sources()) {
    const bool slurm = std::string_view(source.name) == "Slurm";
    if (slurm && !in_slurm_step(variables)) continue;
    // TROUPE_NODES alone tells how many nodes a run waits for; it is only half of a place beside an index.
    const bool kubernetes = std::string_view(source.name) == "Kubernetes";
    const bool said = !value(variables, source.rank).empty() || (!kubernetes && !value(variables, source.size).empty());
    if (!said) continue;
    auto place = read(source, variables);
    if (!place) return tl::unexpected(place.error());
    return std::optional<Place>(std::move(*place));
  }
  if (!value(variables, "SLURM_JOB_ID").empty()) return tl::unexpected(not_in_a_step(variables).error());
  return std::optional<Place>();
}

int port_of_job(const std::string& job) {
  uint32_t hash = 2166136261u;  // FNV-1a
  for (const char c : job) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return 15000 + static_cast<int>(hash % 16000);
}

}  // namespace troupe::launch
