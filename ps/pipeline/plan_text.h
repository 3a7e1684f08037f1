#pragma once
#include <string>
#include <vector>

#include <troupe/ps/pipeline/planner.h>

namespace troupe::ps {

/// What a person wants to know of a plan, a line each: memory and whether it fits, step time, both bubbles,
/// communication (of replicas also through servers), what limits it.
std::string plan_report(const PlanTask& task, const Plan& plan);

/// Plans as a table, a line each.
std::string plan_table(const std::vector<Plan>& plans);

}  // namespace troupe::ps
