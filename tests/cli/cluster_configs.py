#!/usr/bin/env python3
"""configs/cluster: every file parses, and every command in it is one that troupe has."""
import re
import shlex
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))
import closing
from program import TINY, Case, build, root

try:
    import yaml
except ImportError:
    yaml = None

FOLDER = root / "configs/cluster"
COMMAND = re.compile(r"(?:^|[\s\"'/])troupe (train|node|launch|keys)\b([^|&;]*)")


def commands(text):
    """Every `troupe COMMAND ...` in it, comments too, as (command, options)."""
    joined = re.sub(r"\\\n\s*", " ", text)
    for line in joined.splitlines():
        for name, rest in COMMAND.findall(line.lstrip("# ")):
            yield name, re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest)


class Known(Case):
    def options_of(self, command):
        done = self.troupe(command, "--help")
        self.assertEqual(done.returncode, 0, f"troupe {command} --help: {done.stderr}")
        return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", done.stdout))

    def assert_known(self, found, name):
        self.assertTrue(found, f"no command in {name}")
        for command, options in found:
            self.assertLessEqual(set(options), self.options_of(command), f"{name}: troupe {command}")


class Commands(Known):
    def test_every_option_in_the_files_is_one_of_its_command(self):
        for file in sorted(FOLDER.iterdir()):
            if file.is_file():
                with self.subTest(file.name):
                    self.assert_known(list(commands(file.read_text())), file.name)


class Hostfile(Case):
    def test_its_hosts_are_launched_on(self):
        self.write("tiny.toml", TINY)
        done = self.troupe("launch", "tiny.toml", "--hosts", FOLDER / "hosts.txt", "--keys", "k",
                           "--listen", "10.0.0.1:0",
                           "--dry-run")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.split(" -- ")[1].split()[0] for line in done.stdout.splitlines()[1:]],
                         ["node1", "node1", "node2", "node2"])


class Slurm(Case):
    def test_the_batch_script_parses_and_starts_what_launch_takes(self):
        script = FOLDER / "troupe.sbatch"
        done = subprocess.run(["bash", "-n", script], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        line = next(line for line in script.read_text().splitlines() if line.startswith("exec srun"))
        options = re.findall(r"--[a-z-]+", line.split(" launch ")[1])
        self.assertTrue(options)
        helped = self.troupe("launch", "--help").stdout
        for option in options:
            self.assertIn(option, helped)


@unittest.skipUnless(yaml, "python3-yaml is not installed (tools/install --test)")
class Kubernetes(Known):
    def documents(self):
        for file in sorted((FOLDER / "kubernetes").glob("*.yaml")):
            for document in yaml.safe_load_all(file.read_text()):
                yield file.name, document

    def test_the_kinds_that_a_run_needs_are_there_and_listed(self):
        kinds = [document["kind"] for _, document in self.documents()]
        for kind in ("StatefulSet", "Job", "Service", "NetworkPolicy", "Kustomization"):
            self.assertIn(kind, kinds)
        listed = next(document for _, document in self.documents() if document["kind"] == "Kustomization")
        self.assertEqual(sorted(listed["resources"]), sorted(
            file.name for file in (FOLDER / "kubernetes").glob("*.yaml") if file.name != "kustomization.yaml"))
        self.assertEqual({secret["name"] for secret in listed["secretGenerator"]}, self.mounted("secret", "secretName"))
        self.assertEqual({config["name"] for config in listed["configMapGenerator"]}, self.mounted("configMap", "name"))

    def pods(self):
        for name, document in self.documents():
            if "template" in document.get("spec", {}):
                yield name, document, document["spec"]["template"]["spec"]

    def mounted(self, kind, key):
        return {volume[kind][key] for _, _, pod in self.pods() for volume in pod["volumes"] if kind in volume}

    def test_every_command_is_one_that_troupe_has(self):
        for name, _, pod in self.pods():
            (container,) = pod["containers"]
            words = container["command"]
            text = words[2] if words[:2] == ["/bin/sh", "-c"] else shlex.join(words)
            self.assert_known(list(commands(text)), name)

    def test_nodes_and_places_agree(self):
        count, waits_for = 0, 0
        for name, document, pod in self.pods():
            text = " ".join(pod["containers"][0]["command"])
            if document["kind"] == "StatefulSet":
                count += document["spec"]["replicas"]
                servers = document["spec"]["replicas"]
            elif document["spec"].get("completionMode") == "Indexed":
                count += document["spec"]["completions"]
                first = int(re.search(r"\$\(\((\d+) \+ JOB_COMPLETION_INDEX\)\)", text).group(1))
            else:
                waits_for = int(re.search(r"--nodes (\d+)", text).group(1))
        self.assertEqual((count, first), (waits_for, servers))

    def test_every_volume_that_is_mounted_is_there(self):
        for name, _, pod in self.pods():
            there = {volume["name"] for volume in pod["volumes"]}
            for container in pod["containers"] + pod["initContainers"]:
                self.assertLessEqual({mount["name"] for mount in container["volumeMounts"]}, there, name)


class Systemd(Case):
    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not there")
    def test_the_unit_is_one_that_systemd_takes(self):
        unit = (FOLDER / "troupe-node@.service").read_text()
        self.write("troupe-node@.service", unit.replace("/usr/local/bin/troupe", str(build / "troupe")))
        done = subprocess.run(["systemd-analyze", "verify", "--man=no", self.folder / "troupe-node@.service"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


closing.run()
