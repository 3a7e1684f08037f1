#!/usr/bin/env python3
"""The scripts in tools/: what they install, what they ask of whom, and how the sum of the tests is made."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/support"))
import closing


class Shellcheck(unittest.TestCase):
    @unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed (tools/install --dev)")
    def test_every_script_is_clean(self):
        tracked = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True).stdout.split()
        scripts = [name for name in tracked if (root / name).is_file() and
                   (root / name).read_bytes()[:60].startswith((b"#!/usr/bin/env bash", b"# shellcheck shell=bash"))]
        done = subprocess.run(["shellcheck", "-x", *scripts], cwd=root, capture_output=True, text=True)
        self.assertEqual(done.stdout + done.stderr, "")


class Install(unittest.TestCase):
    """Runs tools/install with programs of the test's own in place of dpkg-query, apt-get, which writes down what it is
    asked, and g++."""

    ALL_INSTALLED = "echo installed"
    ALL_BUT_ZLIB = '[[ ${*: -1} == zlib1g-dev ]] || echo installed'

    JAMMY = "ID=ubuntu\nVERSION_ID=22.04\n"

    def install(self, dpkg_query, system="ID=debian\nVERSION_ID=12\n", **others):
        with tempfile.TemporaryDirectory() as folder:
            calls, release = Path(folder, "calls"), Path(folder, "os-release")
            calls.touch()
            release.write_text(system)
            for name, body in {"dpkg-query": dpkg_query, "sudo": 'exec "$@"',
                               "apt-get": f'echo "$DEBIAN_FRONTEND $*" >> {calls}', "g++": "exit 0", **others}.items():
                Path(folder, name).write_text(f"#!/usr/bin/env bash\n{body}\n")
                Path(folder, name).chmod(0o755)
            done = subprocess.run([root / "tools/install"], capture_output=True, text=True, env={
                **os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "TROUPE_OS_RELEASE": str(release)})
            return done, calls.read_text().splitlines()

    def test_nothing_missing_says_nothing_and_asks_nobody(self):
        done, calls = self.install(self.ALL_INSTALLED)
        self.assertEqual((done.returncode, done.stdout, done.stderr, calls), (0, "", "", []))

    def test_only_what_is_missing_is_installed_and_without_questions(self):
        for system in ("ID=debian\nVERSION_ID=12\n", self.JAMMY, "ID=ubuntu\nVERSION_ID=24.04\n"):
            done, calls = self.install(self.ALL_BUT_ZLIB, system)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(len(calls), 2, calls)
            self.assertTrue(calls[0].startswith("noninteractive ") and calls[0].endswith(" update"), calls[0])
            self.assertTrue(calls[1].endswith(" install -y --no-install-recommends zlib1g-dev"), calls[1])

    def test_a_package_that_a_system_lacks_is_not_asked_of_it(self):
        done, calls = self.install("false", self.JAMMY)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(" libzmq3-dev ", calls[1])
        for absent in ("cppzmq-dev", "libtomlplusplus-dev"):
            self.assertNotIn(absent, calls[1])
            self.assertIn(f" {absent} ", self.install("false")[1][1])

    def test_what_no_package_brings_is_asked_of_the_user(self):
        for dpkg_query in (self.ALL_INSTALLED, self.ALL_BUT_ZLIB):
            done, _ = self.install(dpkg_query, self.JAMMY, **{"g++": "exit 1"})
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, r"(?s)ubuntu 22\.04.*toml\+\+.*/usr/local/include")

    def test_another_system_gets_the_list_and_nothing_is_changed(self):
        done, calls = self.install(self.ALL_BUT_ZLIB, "ID=fedora\nVERSION_ID=40\n")
        self.assertEqual((done.returncode, calls), (1, []))
        self.assertIn("fedora 40", done.stderr)
        self.assertIn("  zlib1g-dev\n", done.stderr)


class Train(unittest.TestCase):
    def test_a_config_that_is_not_there_is_named_before_anything_is_built(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("dpkg-query", "cmake", "ninja"):
                Path(folder, name).write_text("#!/bin/sh\necho called >&2\nexit 1\n")
                Path(folder, name).chmod(0o755)
            done = subprocess.run([root / "tools/train", "nowhere.toml"], cwd=folder, capture_output=True, text=True,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\Aerror: nowhere\.toml: there is no such config, .*configs\n\Z")


class Sum(unittest.TestCase):
    def sum_of(self, *cases):
        body = "".join(f'<testcase name="{name}" status="{status}"><system-out>{output}</system-out></testcase>'
                       for name, status, output in cases)
        with tempfile.NamedTemporaryFile("w", suffix=".xml") as report:
            report.write(f"<testsuite>{body}</testsuite>")
            report.flush()
            done = subprocess.run([sys.executable, root / "tools/sum_tests.py", report.name], capture_output=True,
                                  text=True)
        return done.stdout.splitlines()[-1], done.returncode

    def test_closing_lines_are_added(self):
        self.assertEqual(self.sum_of(("a", "run", "x\n3 passed, 0 failed\n"),
                                     ("b", "run", "4 passed, 0 failed, 2 skipped\n")),
                         ("7 passed, 0 failed, 2 skipped", 0))

    def test_a_failed_test_fails_the_sum(self):
        self.assertEqual(self.sum_of(("a", "run", "3 passed, 0 failed"), ("b", "fail", "1 passed, 2 failed")),
                         ("4 passed, 2 failed", 1))

    def test_a_crash_is_one_failure(self):
        self.assertEqual(self.sum_of(("a", "fail", "Running 3 test cases...")), ("0 passed, 1 failed", 1))

    def test_a_program_that_prints_no_closing_line_is_one_failure(self):
        self.assertEqual(self.sum_of(("a", "run", "all is well")), ("0 passed, 1 failed", 1))

    def test_a_bad_end_after_a_good_line_is_one_failure(self):
        self.assertEqual(self.sum_of(("a", "fail", "3 passed, 0 failed\nleak\n")), ("3 passed, 1 failed", 1))

    def test_the_last_of_several_lines_counts(self):
        self.assertEqual(self.sum_of(("a", "run", "1 passed, 0 failed\n5 passed, 0 failed\n")),
                         ("5 passed, 0 failed", 0))

    def test_a_missing_report_or_one_without_tests_is_a_failure(self):
        self.assertEqual(self.sum_of(), ("0 passed, 1 failed", 1))


closing.run()
