#!/usr/bin/env python3
"""Every test that docs/reliability.md names is there."""
import re
import sys
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(root / "tests/support"))
import closing


def missing(page):
    suites = {}
    for path in (root / "tests").rglob("*_test.cc"):
        text = path.read_text()
        for suite in re.findall(r"BOOST_(?:AUTO|FIXTURE)_TEST_SUITE\((\w+)", text):
            suites.setdefault(suite, set()).update(re.findall(r"BOOST_AUTO_TEST_CASE\((\w+)", text))
    for suite, name in re.findall(r"`(\w+)/([A-Z]\w+)`", page):
        if name not in suites.get(suite, ()):
            yield f"{suite}/{name}"
    for file, name in re.findall(r"`(\w+\.py): (\w+)`", page):
        path = root / "tests/cli" / file
        if not path.is_file() or f"def {name}(" not in path.read_text():
            yield f"{file}: {name}"


class Page(unittest.TestCase):
    def test_every_test_that_it_names_is_there(self):
        page = (root / "docs/reliability.md").read_text()
        self.assertGreater(len(re.findall(r"`\w+/[A-Z]\w+`", page)), 15)
        self.assertEqual(list(missing(page)), [])

    def test_one_that_is_not_is_found(self):
        self.assertEqual(list(missing("`shard/NoSuchTest`, `none.py: test_none`")), ["shard/NoSuchTest", "none.py: test_none"])


closing.run()
