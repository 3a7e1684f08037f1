#include <boost/test/unit_test.hpp>

#include <tools/launch/environment.h>

#include <troupe/kernels/base/text.h>

using namespace troupe;
using namespace troupe::launch;

BOOST_AUTO_TEST_SUITE(environment)

namespace {

using Variables = std::map<std::string, std::string>;

/// "SOURCE RANK/SIZE at RENDEZVOUS", "none", or what was wrong.
std::string place(const Variables& variables) {
  const auto found = place_from_environment(variables);
  if (!found) return found.error().message;
  if (!*found) return "none";
  return cat((*found)->source, ' ', (*found)->rank, '/', (*found)->size, " at ", (*found)->rendezvous);
}

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

const Variables kTroupe = {{"TROUPE_RANK", "1"}, {"TROUPE_SIZE", "2"}, {"TROUPE_COORDINATOR", "own:7"}};
const Variables kTorch = {{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "torch"}, {"MASTER_PORT", "29500"}};
const Variables kSlurm = {{"SLURM_PROCID", "3"},
                          {"SLURM_NTASKS", "4"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NODELIST", "n[07-08]"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "4"},
                            {"OMPI_COMM_WORLD_SIZE", "5"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "5"},
                            {"PMIX_NAMESPACE", "prterun-1"}};
const Variables kPmi = {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}};
const Variables kKubernetes = {
    {"JOB_COMPLETION_INDEX", "6"}, {"TROUPE_NODES", "7"}, {"TROUPE_COORDINATOR", "k8s:7077"}};

}  // namespace

BOOST_AUTO_TEST_CASE(EverySourceIsRead) {
  BOOST_TEST(place({{"PATH", "/bin"}}) == "none");
  BOOST_TEST(place(kTroupe) == "Troupe 1/2 at own:7");
  BOOST_TEST(place(kTorch) == "torchrun 2/3 at torch:29500");
  BOOST_TEST(place(kSlurm) == cat("Slurm 3/4 at n07:", port_of_job("77.0")));
  BOOST_TEST(place(kOpenMpi) == cat("Open MPI 4/5 at 127.0.0.1:", port_of_job("prterun-1")));
  BOOST_TEST(place(kPmi + Variables{{"TROUPE_COORDINATOR", "p:1"}}) == "PMI 5/6 at p:1");
  BOOST_TEST(place(kKubernetes) == "Kubernetes 6/7 at k8s:7077");
}

BOOST_AUTO_TEST_CASE(TheFirstOfSeveralCounts) {
  Variables all = kKubernetes + kSlurm + kPmi + kOpenMpi + kTorch + kTroupe;
  all["TROUPE_COORDINATOR"] = "c:1";
  for (const auto& [source, variable] :
       {std::pair("Troupe", "TROUPE"), std::pair("torchrun", "RANK"), std::pair("Open MPI", "OMPI_COMM_WORLD"),
        std::pair("PMI", "PMI"), std::pair("Slurm", "SLURM"), std::pair("Kubernetes", "JOB_COMPLETION")}) {
    BOOST_TEST(place(all).starts_with(source), place(all));
    std::erase_if(all, [&](const auto& entry) {
      return entry.first.starts_with(variable) && entry.first != "TROUPE_COORDINATOR" && entry.first != "TROUPE_NODES";
    });
    all.erase(std::string(variable) == "RANK" ? "WORLD_SIZE" : "");
  }
}

BOOST_AUTO_TEST_CASE(AnMpiLauncherWithinASlurmJobMeetsAtItsFirstHost) {
  Variables variables = kSlurm + kOpenMpi;
  variables["SLURM_JOB_NODELIST"] = "m[1-2]";
  variables["OMPI_COMM_WORLD_LOCAL_SIZE"] = "1";
  BOOST_TEST(place(variables) == cat("Open MPI 4/5 at m1:", port_of_job("77")));
}

BOOST_AUTO_TEST_CASE(OneHostMeetsAtItsLoopback) {
  BOOST_TEST(place(kSlurm + Variables{{"SLURM_STEP_NODELIST", "n07"}}) ==
             cat("Slurm 3/4 at 127.0.0.1:", port_of_job("77.0")));
}

BOOST_AUTO_TEST_CASE(TorchrunKeepsItsOwnPort) {
  BOOST_TEST(place(kTorch + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}}) == "torchrun 2/3 at torch:29501");
  BOOST_TEST(place(kTorch + Variables{{"MASTER_ADDR", "fd00::1"}}) == "torchrun 2/3 at [fd00::1]:29500");
}

BOOST_AUTO_TEST_CASE(ContradictionsAreNamed) {
  BOOST_TEST(place(kTroupe + Variables{{"TROUPE_RANK", "2"}}) ==
             "TROUPE_RANK=2 is not below TROUPE_SIZE=2: ranks count from 0");
  BOOST_TEST(place(kTorch + Variables{{"RANK", "x"}}) == "RANK=x: must be a number from 0 to 65535");
  BOOST_TEST(place(kTorch + Variables{{"WORLD_SIZE", "-1"}}) == "WORLD_SIZE=-1: must be a number from 1 to 65536");
  BOOST_TEST(place(kTorch + Variables{{"MASTER_PORT", "65536"}}) ==
             "MASTER_PORT=65536: must be a number from 1 to 65535");
  BOOST_TEST(place({{"RANK", "0"}}) == "RANK is set, but WORLD_SIZE is not: set both, or neither");
  BOOST_TEST(place({{"PMI_SIZE", "2"}}) == "PMI_SIZE is set, but PMI_RANK is not: set both, or neither");
  BOOST_TEST(place(kSlurm + Variables{{"SLURM_STEP_NODELIST", "n[2-1]"}}).starts_with("SLURM_STEP_NODELIST: nodelist"));
}

BOOST_AUTO_TEST_CASE(APlaceWithoutARendezvousIsAnErrorForMoreThanOne) {
  BOOST_TEST(
      place(kPmi).starts_with("PMI says that there are 6 processes, but not where they meet: set TROUPE_COORDINATOR"));
  BOOST_TEST(place({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}) == "PMI 0/1 at ");
}

BOOST_AUTO_TEST_CASE(ABatchScriptIsNoStep) {
  Variables script = kSlurm;
  script.erase("SLURM_STEP_ID");
  BOOST_TEST(place(script).starts_with("this is Slurm job 77, but not a step of it"));
}

BOOST_AUTO_TEST_CASE(TheNumberOfNodesAloneIsNoPlace) { BOOST_TEST(place({{"TROUPE_NODES", "4"}}) == "none"); }

BOOST_AUTO_TEST_CASE(TheSameJobHasTheSamePort) {
  BOOST_TEST(port_of_job("1.0") == port_of_job("1.0"));
  BOOST_TEST(port_of_job("1.0") != port_of_job("1.1"));
  for (const char* job : {"", "1", "99999.4294967291"}) {
    BOOST_TEST(port_of_job(job) >= 15000);
    BOOST_TEST(port_of_job(job) < 31000);
  }
}

BOOST_AUTO_TEST_SUITE_END()
