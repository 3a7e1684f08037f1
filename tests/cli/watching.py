#!/usr/bin/env python3
"""What an operator sees of a run that runs: who was refused, and the numbers that Prometheus fetches."""
import json
import re
import sys
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from cluster_runs import LONG, Cluster
from program import TINY, settings


class Watched(Cluster):
    def fetch(self, address):
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as page:
            self.assertEqual(page.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
            return page.read().decode()

    def metrics_address(self):
        found = re.search(r"metrics are at http://(\S+)/metrics", (self.folder / "run/log.txt").read_text())
        return found.group(1) if found else None

    def test_whoever_was_refused_is_counted_and_in_the_log_of_both_sides(self):
        for keys in ("run.keys", "other.keys"):
            self.assertEqual(self.troupe("keys", keys).returncode, 0)
        address = self.coordinate(*LONG, "--keys", "run.keys", nodes=1)
        code, _, err = self.ended(self.node(address, 0, "--keys", "other.keys", "--give-up", "2"))
        self.assertEqual(code, 1)
        self.assertRegex(err, rf"error: the run at {re.escape(address)}: its coordinator has not answered for \d s: .*"
                              "has other keys")
        status = json.loads(self.troupe("status", "run", "--json", "--keys", "run.keys").stdout)
        self.assertGreater(sum(status["coordinator"]["refused"].values()), 0)
        self.assertRegex(self.troupe("status", "run", "--keys", "run.keys").stdout, "refused by the coordinator .*: [1-9]")
        self.assertRegex((self.folder / "run/log.txt").read_text(), r"warning coordinator: refused \S+: ")
        node = self.node(address, 0, "--keys", "run.keys")
        self.wait_for(lambda: "step" in self.troupe("status", "run", "--keys", "run.keys").stdout)
        self.assertEqual(self.troupe("stop", "run", "--keys", "run.keys").returncode, 0)
        self.assertEqual(self.ended(node)[0], 0)

    def test_prometheus_may_fetch_what_status_says(self):
        address = self.coordinate(*LONG, "metrics.listen=127.0.0.1:0", nodes=1)
        self.node(address)
        self.wait_for(lambda: self.status()["step"] > 0)
        text = self.fetch(self.wait_for(self.metrics_address))
        self.assertRegex(text, r'(?m)^troupe_phase\{phase="\w.*"\} 1\.0$')
        self.assertRegex(text, r"(?m)^troupe_step [1-9]\d*\.0$")
        self.assertRegex(text, r'(?m)^troupe_worker_compute_seconds\{worker="1"\} \S+$')
        said = self.troupe("status", "run", "--prometheus").stdout
        names = lambda page: re.findall(r"(?m)^# TYPE (\w+)", page)
        self.assertEqual(names(said), names(text))

    def test_a_run_in_one_process_serves_its_metrics_too(self):
        self.write("tiny.toml", TINY)
        self.coordinator = self.start("train", "tiny.toml", "--run-dir", "run",
                                      *settings((*LONG, "metrics.listen=127.0.0.1:0")))
        address = self.wait_for(self.metrics_address)
        self.wait_for(lambda: re.search(r"(?m)^troupe_step [1-9]", self.fetch(address)))
        self.coordinator.terminate()
        self.assertEqual(self.ended(self.coordinator)[0], 130)

    def test_metrics_for_others_than_this_host_are_refused(self):
        self.write("tiny.toml", TINY)
        done = self.troupe("train", "tiny.toml", "--set", "metrics.listen=0.0.0.0:0")
        self.assert_refused(done, "error: metrics.listen = 0.0.0.0:0 (command line): whoever reaches it reads the run's "
                                  "numbers: use loopback, as 127.0.0.1:9464, or, in a run of several processes, say "
                                  "--insecure-network where you trust that network")


closing.run()
