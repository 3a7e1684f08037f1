#!/usr/bin/env python3
"""Faults for the simulator to find: each is an edit of the actors' own sources, made in copies that only
troupe-sim-bugs is built from, so that production code holds no trace of them.

    bugs.py SOURCE_ROOT OUTPUT_FOLDER     writes the edited copies and bug_list.cc

An edit's first text must occur exactly once in its file. Where it does not any more, because the file has changed,
say the same fault in the new words, or drop the fault and say why.
"""
import sys
from pathlib import Path

SHARD, STORE, GATE = "ps/param/shard.cc", "ps/param/shard_store.cc", "ps/param/consistency.cc"
REPLICATION = "ps/control/replicated_store.cc"
WORKER, COORDINATOR, DEALER = "ps/control/worker_core.cc", "ps/control/coordinator_core.cc", "ps/data/dealer.cc"
CARRIER, NODE = "actors/coordinator.cc", "actors/node.cc"
BOUNDARY, ROSTER, HOLDINGS = "ps/control/coordinator_boundary.cc", "ps/control/roster.cc", "ps/param/holdings.cc"
MEMBERSHIP, HOST = "ps/control/coordinator_membership.cc", "ps/control/worker_core_host.cc"
COLLECTIVE = "ps/control/coordinator_collective.cc"
RELOAD, RELOADED = "ps/control/coordinator_reload.cc", "ps/param/reloaded_image.cc"

# name: [(file, text, text with the fault where bug("name") holds)]
BUGS = {
    # A push that comes again is applied again.
    "no_dedup": [
        (SHARD, "if (push.step < owed) return on_repeated(e, push, taken);",
         'if (push.step < owed && !bug("no_dedup")) return on_repeated(e, push, taken);'),
        (SHARD, "if (taken) return refuse_malformed(", 'if (taken && !bug("no_dedup")) return refuse_malformed('),
        (SHARD, "workers[worker].window.take(push.sequence, window_width(parcels.size(), *layout));",
         'if (!bug("no_dedup") || push.step >= p.clock.at(worker)) '
         "workers[worker].window.take(push.sequence, window_width(parcels.size(), *layout));"),
    ],
    # A server that was replaced goes on storing.
    "no_fence": [
        (STORE, "TROUPE_TRY(fence_.pass(generation));\n    events_.push_back(event);",
         'if (!bug("no_fence")) TROUPE_TRY(fence_.pass(generation));\n    events_.push_back(event);')],
    # A push is acknowledged before the replica has it (with --replication).
    "ack_before_replica": [
        (REPLICATION, "uint64_t safe() const override { return safe_; }",
         'uint64_t safe() const override { return bug("ack_before_replica") ? appended_ : safe_; }')],
    # A push is acknowledged now and stored when the next one comes.
    "ack_before_store": [
        (SHARD, "if (promise(generation, e)) take(e, push);",
         'if (bug("ack_before_store")) {\n'
         '      take(e, push);\n'
         '      if (late && late->generation == generation) promise(generation, *late);\n'
         '      late = e;\n'
         '    } else if (promise(generation, e)) take(e, push);'),
        (SHARD, "Outbox out;\n", "Outbox out;\n  std::optional<Envelope> late;\n"),
    ],
    # A bounded read may be one step staler than its bound.
    "staleness_off_by_one": [
        (GATE, "return clock.slowest() >= step - policy.staleness;",
         'return clock.slowest() >= step - policy.staleness - bug("staleness_off_by_one");')],
    # What was said under another generation is obeyed.
    "stale_layout_accepted": [
        (SHARD, "if (!serving || e.generation != generation) return on_other_generation(e);",
         'if (!serving || (e.generation != generation && !bug("stale_layout_accepted"))) return on_other_generation(e);')],
    # A copy of a push counts for the worker that a synchronous step still waits for.
    "barrier_counts_duplicate": [
        (SHARD, "++duplicates_dropped;\n    acknowledge(e, push);",
         '++duplicates_dropped;\n    acknowledge(e, push);\n'
         '    HeldParcel& held = parcels.at(push.parcel);\n'
         '    if (!bug("barrier_counts_duplicate") || !is_sync(push.parcel) || held.pending.empty()) return;\n'
         '    for (WorkerId w = 0; w < workers.size(); ++w)\n'
         '      if (held.clock.at(w) == held.version) {\n'
         '        held.clock.advance(w, held.version + 1);\n'
         '        break;\n'
         '      }\n'
         '    settle(push.parcel, held);')],
    # A worker that was replaced is still listened to.
    "no_incarnation_check": [
        (MEMBERSHIP, "who.index < slots_.size() && worker(who.index) == who;",
         'who.index < slots_.size() && (worker(who.index) == who || bug("no_incarnation_check"));')],
    # A process that was taken for dead is listened to as if it were not.
    "dead_node_heard": [
        (ROSTER, "found->second.node != envelope.from || found->second.state == Member::State::gone",
         'found->second.node != envelope.from || (found->second.state == Member::State::gone && !bug("dead_node_heard"))')],
    # A replica takes over though its node was lost in the same moment.
    "dead_replica_promoted": [
        (MEMBERSHIP, "beside && roster_.knows(*beside);", 'beside && (roster_.knows(*beside) || bug("dead_replica_promoted"));')],
    # A server moves before its replica is in step.
    "move_does_not_wait": [
        (MEMBERSHIP, "  slot.acknowledged = true;\n",
         '  slot.acknowledged = true;\n'
         '  if (bug("move_does_not_wait") && moving_.count(who.index) > 0)\n'
         '    return move_to_replica(out, who.index);\n')],
    # A replica that has taken over still follows the server before it.
    "promotion_keeps_incarnation": [
        (MEMBERSHIP, "  ++membership_.servers[s];\n  roster_.vacate(Role::replica, s);",
         '  if (!bug("promotion_keeps_incarnation")) ++membership_.servers[s];\n  roster_.vacate(Role::replica, s);')],
    # A replica takes over that is not in step.
    "unsynced_replica_promoted": [
        (MEMBERSHIP, "!replicas_.empty() && replicas_[s].synced == server(s) && beside",
         '!replicas_.empty() && (replicas_[s].synced == server(s) || (bug("unsynced_replica_promoted") && '
         'replicas_[s].acknowledged)) && beside')],
    # A worker does what a coordinator says whose place another has taken.
    "old_coordinator_obeyed": [
        (WORKER, "if (!membership_.layout || envelope.generation < membership_.generation) return out;",
         'if (!membership_.layout || (envelope.generation < membership_.generation && '
         '!(bug("old_coordinator_obeyed") && envelope.from.role == Role::coordinator))) return out;')],
    # What a worker had read ahead from a server that was lost is used, though another goes on from older parameters.
    "lost_reads_used": [
        (WORKER, "    if (in_use && work->kind == Work::Kind::train) continue;",
         '    if ((in_use && work->kind == Work::Kind::train) || bug("lost_reads_used")) continue;')],
    # A server that goes on from a checkpoint knows nothing of how far the workers are.
    "reload_forgets_clocks": [
        (RELOADED, "p.version = furthest;", 'p.version = furthest - (bug("reload_forgets_clocks") && furthest > 0);')],
    # What was lost is not said.
    "loss_not_reported": [
        (RELOAD, "result_.lost.push_back(lost);", 'if (!bug("loss_not_reported")) result_.lost.push_back(lost);')],
    # Servers wait for a worker that was dropped.
    "dropped_worker_awaited": [
        (HOLDINGS, "p.clock.set_present(w, incarnations[w] != 0 && ",
         'p.clock.set_present(w, (incarnations[w] != 0 || bug("dropped_worker_awaited")) && ')],
    # What a dropped worker had begun is not dealt again.
    "dropped_work_forgotten": [
        (DEALER, "for (const Deal& deal : slots_[worker].again) cursor_.returned.push_back(deal.range);",
         'for (const Deal& deal : slots_[worker].again)\n'
         '    if (!bug("dropped_work_forgotten")) cursor_.returned.push_back(deal.range);')],
    # Those who are left go on from an earlier step than one who was dropped had reached.
    "rebase_after_resize": [
        (BOUNDARY, "  membership_.rebase = step;\n", '  membership_.rebase = bug("rebase_after_resize") ? furthest() : step;\n')],
    # The answer to an early heartbeat is taken for the answer to Ready.
    "any_answer_is_readys": [
        (NODE, "if (ack.number == 0) state().ready.reset();",
         'if (ack.number == 0 || (bug("any_answer_is_readys") && state().phase == Phase::member)) state().ready.reset();')],
    # A step that the group decided to skip is applied.
    "skip_ignored": [
        (SHARD, "const bool update = total > 0 && !verdict.skip;",
         'const bool update = total > 0 && (!verdict.skip || bug("skip_ignored"));')],
    # What a lost worker had not completed is not dealt again.
    "restart_forgets_work": [
        (DEALER, "slot.again.insert(slot.again.begin(), slot.outstanding.begin(), slot.outstanding.end());",
         'if (!bug("restart_forgets_work"))\n'
         '    slot.again.insert(slot.again.begin(), slot.outstanding.begin(), slot.outstanding.end());')],
    # A resumed run begins its epoch anew.
    "resume_forgets_place": [
        (DEALER, "  cursor_ = start_;", '  if (bug("resume_forgets_place")) start_.begin = 0;\n  cursor_ = start_;')],
    # A late reply is taken for the answer to a newer request.
    "late_pull_taken": [
        (WORKER, "parcel.pulling->ticket != reply.ticket",
         '(parcel.pulling->ticket != reply.ticket && !bug("late_pull_taken"))')],
    # A sum of a host is said again in a new generation, in which everybody pushes alone.
    "sum_said_again": [
        (HOST, "const auto covers = [&](const Push& push) { return !covered_by(push, parcel.slices.size()).empty(); };",
         'const auto covers = [&](const Push& push) {\n'
         '      return !bug("sum_said_again") && !covered_by(push, parcel.slices.size()).empty();\n    };')],
    # A member whose gradients are in a sum is not among those whom it covers.
    "member_not_covered": [
        (HOST, "cover(push, std::span(host_step_->members).subspan(1));",
         'cover(push, std::span(host_step_->members).subspan(bug("member_not_covered") ? 2 : 1));')],
    # The members of a host compute with the weights that they were given for the step before.
    "old_weights_given": [
        (HOST, "  host_step_.reset();\n  if (host_.phase",
         '  const auto old = bug("old_weights_given") && host_step_ ? host_step_->next : std::map<LayerId, Tensor>{};\n'
         '  host_step_.reset();\n  if (host_.phase'),
        (HOST, "HostStep{work, membership_.generation, host_.members, {}, 0, {}};",
         'HostStep{work, membership_.generation, host_.members, {}, 0, old};'),
    ],
    # A step that a worker may have pushed before it was started again is in a sum of its host.
    "repeated_step_summed": [
        (COLLECTIVE, "if (membership_.workers[x] > 1) first = ",
         'if (membership_.workers[x] > 1 && !bug("repeated_step_summed")) first = ')],
    # So is one whose verdict waits for all to have done it.
    "lost_step_summed": [
        (COLLECTIVE, "first = std::max(first, back.since);",
         'first = std::max(first, bug("lost_step_summed") ? 0 : back.since);')],
    # A stage of an asynchronous pipeline computes with the newest version that it has, not with the schedule's.
    "newest_version": [
        (WORKER, "const PullReply& reply = parcels_[parcel].arrived.at(version);",
         'const PullReply& reply = bug("newest_version") ? parcels_[parcel].arrived.rbegin()->second\n'
         '                                                   : parcels_[parcel].arrived.at(version);')],
    # Its push leaves before the version that it replaces has come: nobody gets that one any more.
    "version_missed": [
        (WORKER, "if (parcel.pulling && parcel.pulling->step <= parcel.queued.front().step) return;",
         'if (!bug("version_missed") && parcel.pulling && parcel.pulling->step <= parcel.queued.front().step) return;')],
    # Behind a boundary it reads versions from before.
    "version_before_boundary": [
        (WORKER, "std::max(work.step - options_.weight_lag, work.since)",
         'std::max(work.step - options_.weight_lag, bug("version_before_boundary") ? 0 : work.since)')],
    # A late acknowledgement is taken for that of a newer push.
    "any_ack_taken": [
        (WORKER, "parcel.unacked->sequence != ack.sequence",
         '(parcel.unacked->sequence != ack.sequence && !bug("any_ack_taken"))')],
    # A push that was lost is not said again.
    "push_not_repeated": [
        (WORKER, "if (state.unacked && !state.held) send(",
         'if (state.unacked && !state.held && !bug("push_not_repeated")) send(')],
    # A verdict that was lost is not asked for again.
    "verdict_not_repeated": [
        (WORKER, "if (partial_) to_coordinator(out, *partial_);",
         'if (partial_ && !bug("verdict_not_repeated")) to_coordinator(out, *partial_);')],
    # Others see what the coordinator did about what it was told before its journal holds that.
    "effects_before_journal": [
        (CARRIER, "  if (!keep(self, input)) return;\n  auto effects = ps::tell(*self->state.parts.core, input);\n"
                  "  if (effects) carry(self, std::move(*effects));",
         '  if (!bug("effects_before_journal") && !keep(self, input)) return;\n'
         '  auto effects = ps::tell(*self->state.parts.core, input);\n'
         '  if (effects) carry(self, std::move(*effects));\n'
         '  if (bug("effects_before_journal")) return void(keep(self, input));\n'
         '  if (effects) return;')],
    # A checkpoint is taken while work is under way.
    "boundary_not_drained": [
        (COORDINATOR, "if (outstanding_ > 0) return false;",
         'if (outstanding_ > 0 && !bug("boundary_not_drained")) return false;')],
    # A checkpoint is taken while the last step waits for its verdict.
    "snapshot_does_not_wait": [
        (SHARD, "if (snapshot_wanted && !in_a_step()) give_snapshot();",
         'if (snapshot_wanted && (!in_a_step() || bug("snapshot_does_not_wait"))) give_snapshot();')],
}

LIST = """#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace troupe::sim {{
namespace {{

constexpr std::array<std::string_view, {count}> kNames = {{{names}}};
std::string_view seeded;

}}  // namespace

bool bug(std::string_view name) {{ return seeded == name; }}

bool has_bugs() {{ return true; }}

bool seed_bug(const std::string& name) {{
  const auto found = std::ranges::find(kNames, name);
  if (found != kNames.end()) seeded = *found;
  return found != kNames.end();
}}

std::string bug_names() {{
  std::string names;
  for (const std::string_view name : kNames) names += (names.empty() ? "" : " ") + std::string(name);
  return names;
}}

}}  // namespace troupe::sim
"""


def main():
    root, out = Path(sys.argv[1]), Path(sys.argv[2])
    edits = [edit for bug in BUGS.values() for edit in bug]
    for path in sorted({file for file, _, _ in edits}):
        text = (root / path).read_text()
        for file, before, after in edits:
            if file != path:
                continue
            if text.count(before) != 1:
                sys.exit(f"{path} holds {text.count(before)} times, not once: {before!r} (tools/sim/bugs.py)")
            text = text.replace(before, after)
        head = ("#include <optional>\n#include <string_view>\nnamespace troupe::sim { bool bug(std::string_view); }\n"
                "using troupe::sim::bug;\n")
        (out / Path(path).name).write_text(head + text)
    names = ", ".join(f'"{name}"' for name in BUGS)
    (out / "bug_list.cc").write_text(LIST.format(count=len(BUGS), names=names))


main()
