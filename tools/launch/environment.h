#pragma once
#include <map>
#include <optional>
#include <string>

#include <troupe/kernels/base/result.h>

namespace troupe::launch {

/// Which process of how many this one is, as whoever started it says.
struct Place {
  int rank = 0;
  int size = 1;
  std::string rendezvous;  ///< HOST:PORT where rank 0's coordinator listens; IPv6 in brackets
  std::string source;      ///< "Slurm"
  bool one_host = false;   ///< all ranks are known to be on one host, and the rendezvous is its loopback
};

/// Reads the place from the variables of a process. Where several say something, the first of these counts:
///
///     source      rank, size                                     rendezvous
///     Troupe      TROUPE_RANK, TROUPE_SIZE                       TROUPE_COORDINATOR
///     torchrun    RANK, WORLD_SIZE                               MASTER_ADDR:MASTER_PORT (one more under torchrun
///                                                                itself, whose own store has that port)
///     Open MPI    OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE     one host: its loopback, port from the job's id;
///                                                                within a Slurm job: as there
///     PMI         PMI_RANK, PMI_SIZE                             within a Slurm job: as there
///     Slurm       SLURM_PROCID, SLURM_NTASKS (of a step: srun)   first host of SLURM_STEP_NODELIST or
///                                                                SLURM_JOB_NODELIST, port from job and step id
///     Kubernetes  JOB_COMPLETION_INDEX, TROUPE_NODES
///
/// Slurm comes after the MPI launchers because those start their own helpers as a step: a process of theirs has the
/// helper's SLURM_PROCID. TROUPE_COORDINATOR, where set, is the rendezvous of all of them. The command line stands
/// above all of this, and is the caller's to apply.
///
/// None: no variable says anything. Fails on a rank without a size or the reverse, on what is no number, a rank that is
/// not below its size, and on a place of more than one process without a rendezvous; names the variables.
Result<std::optional<Place>> place_from_environment(const std::map<std::string, std::string>& variables);

/// The same port for all processes of a job, another for most other jobs: from 15000 to 30999, which is below those
/// that Linux gives out by itself.
int port_of_job(const std::string& job);

}  // namespace troupe::launch
