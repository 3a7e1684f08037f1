#!/usr/bin/env python3
"""What is committed is small, names nobody's own folders, says of what kind each to-do is; C++ has no long lines."""
import re
import subprocess
import sys
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/support"))
import closing

MAX_BYTES = 1_000_000
MAX_COLUMNS = 120  # as .clang-format has it, which breaks no comments
CPP = (".h", ".cc", ".cu", ".capnp")
# Written in pieces, so that this file does not find itself.
SOMEBODYS_FOLDER = re.compile(r"(?<![\w.$}*-])/(?:wor" r"k|hom" r"e|roo" r"t|tmp/wt)/")
TODO_WITHOUT_KIND = re.compile(r"\bTO" r"DO\b(?!\((?:now|soon|perf|security)\))")


def faults(name, data):
    if len(data) > MAX_BYTES:
        yield f"{name} has {len(data)} bytes, more than {MAX_BYTES}"
    if b"\0" in data[:8000]:
        return
    for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
        if SOMEBODYS_FOLDER.search(line):
            yield f"{name}:{number} names a folder of one machine: {line.strip()[:120]}"
        if TODO_WITHOUT_KIND.search(line):
            yield f"{name}:{number} has a to-do without (now|soon|perf|security): {line.strip()[:120]}"
        if name.endswith(CPP) and len(line) > MAX_COLUMNS:
            yield f"{name}:{number} has {len(line)} columns, more than {MAX_COLUMNS}: {line.strip()[:120]}"


class Repository(unittest.TestCase):
    def test_every_tracked_file_is_clean(self):
        listing = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True)
        if listing.returncode:
            self.skipTest("not a git checkout: " + listing.stderr.strip())
        names = [name for name in listing.stdout.split("\0") if name and (root / name).is_file()]
        self.assertEqual([fault for name in names for fault in faults(name, (root / name).read_bytes())], [])


class Checker(unittest.TestCase):
    def count(self, text, name="planted"):
        return len(list(faults(name, text.encode())))

    def test_a_folder_of_one_machine_is_found(self):
        for folder in ("wor" "k", "hom" "e", "roo" "t"):
            self.assertEqual(self.count(f'open("/{folder}/someone/data")'), 1, folder)

    def test_folders_that_every_machine_has_are_accepted(self):
        self.assertEqual(self.count("/usr/share/datasets/fashion-mnist\n$HOME/home/x\na/work/b\n"), 0)

    def test_a_todo_needs_a_kind(self):
        self.assertEqual(self.count("// TO" "DO: later"), 1)
        self.assertEqual(self.count("// TO" "DO(perf): when a profile shows it"), 0)

    def test_a_long_line_of_cpp_is_found(self):
        self.assertEqual(self.count("x" * 121, "a.cc"), 1)
        self.assertEqual(self.count("\u00b7" * 120, "a.h"), 0)
        self.assertEqual(self.count("x" * 121, "a.py"), 0)

    def test_a_large_file_is_found(self):
        self.assertEqual(self.count("x" * (MAX_BYTES + 1)), 1)


closing.run()
