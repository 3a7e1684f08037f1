#!/usr/bin/env python3
"""The dependency rule holds in this repository, and the checker that says so finds every kind of violation."""
import sys
import tempfile
import unittest
from pathlib import Path

root = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(root / "tests/support"), str(root / "tests/repository")]
import closing
import layers


class Repository(unittest.TestCase):
    def test_no_include_or_link_goes_the_wrong_way(self):
        self.assertEqual(layers.violations(root), [])


class Checker(unittest.TestCase):
    def planted(self, files):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return layers.violations(folder)

    def assert_one(self, files, words):
        found = self.planted(files)
        self.assertEqual(len(found), 1, found)
        self.assertIn(words, found[0])

    def test_accepts_what_is_allowed(self):
        self.assertEqual(self.planted({
            "kernels/base/a.h": "#include <vector>\n#include <sys/mman.h>\n",
            "ps/b.cc": "#include <troupe/kernels/base/a.h>\n",
            "kernels/ops/cpu/gemm.cc": "#include <cblas.h>\n",
            "tools/troupe/main.cc": "#include <tools/troupe/options.h>\n",
            "tools/troupe/options.h": "",
            "actors/CMakeLists.txt": "target_link_libraries(troupe_actors PUBLIC troupe_ps CAF::core)\n",
        }), [])

    def test_an_include_that_goes_up_is_found(self):
        self.assert_one({"kernels/a.cc": "#include <troupe/ps/b.h>\n", "ps/b.h": ""}, "kernels may not use ps")

    def test_an_include_between_tools_and_examples_is_found(self):
        self.assert_one({"tools/a.cc": "#include <examples/b.h>\n", "examples/b.h": ""}, "may not use examples")

    def test_an_include_of_tests_is_found(self):
        self.assert_one({"ps/a.cc": "#include <tests/support/b.h>\n"}, "nobody but the tests")

    def test_a_relative_include_is_found(self):
        self.assert_one({"ps/a.cc": '#include "../kernels/b.h"\n', "kernels/b.h": ""}, "relative path")

    def test_a_library_outside_its_folder_is_found(self):
        self.assert_one({"ps/param/a.cc": "#include <caf/all.hpp>\n"}, "CAF is for")
        self.assert_one({"kernels/nn/a.cc": "#include <cblas.h>\n"}, "OpenBLAS is for kernels/ops/cpu")

    def test_a_library_in_a_public_header_is_found(self):
        self.assert_one({"ps/data/a.h": "#include <zlib.h>\n"}, "public header")

    def test_a_public_header_that_needs_an_internal_one_is_found(self):
        self.assert_one({"ps/a.h": "#include <troupe/ps/internal/b.h>\n", "ps/internal/b.h": ""}, "not installed")
        self.assertEqual(self.planted({"ps/internal/a.h": "#include <troupe/ps/internal/b.h>\n",
                                       "ps/internal/b.h": ""}), [])

    def test_an_unknown_library_is_found(self):
        self.assert_one({"ps/a.cc": "#include <leveldb/db.h>\n"}, "does not know")

    def test_an_include_of_a_missing_header_is_found(self):
        self.assert_one({"ps/a.cc": "#include <troupe/ps/gone.h>\n"}, "does not exist")

    def test_a_source_that_does_not_begin_with_its_header_is_found(self):
        self.assert_one({"ps/a.h": "", "ps/a.cc": "#include <vector>\n#include <troupe/ps/a.h>\n"}, "first")

    def test_a_link_that_goes_up_is_found(self):
        self.assert_one({"ps/CMakeLists.txt": "target_link_libraries(troupe_ps PUBLIC troupe_actors)\n"},
                        "may not use actors")

    def test_a_library_linked_in_another_folder_is_found(self):
        self.assert_one({"kernels/CMakeLists.txt": "find_package(CAF REQUIRED)\n"}, "names CAF")

    def test_a_library_passed_on_to_users_is_found(self):
        self.assert_one({"ps/CMakeLists.txt": "target_link_libraries(troupe_ps PUBLIC ZLIB::ZLIB)\n"}, "is PRIVATE")


closing.run()
