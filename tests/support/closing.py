"""The closing line for test scripts: `closing.run()` runs the unittest cases of the calling script and ends the
process."""
import sys
import unittest


def run():
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = unittest.TextTestRunner(stream=sys.stdout).run(suite)
    bad = [test for test, _ in result.failures + result.errors] + result.unexpectedSuccesses
    # A case may fail in several subtests; it is one case all the same.
    failed = len({getattr(test, "test_case", test).id() for test in bad})
    skipped = len(result.skipped)
    passed = max(0, result.testsRun - failed - skipped)
    if result.testsRun == 0:
        failed = max(1, failed)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""), flush=True)
    sys.exit(1 if failed else 0)
