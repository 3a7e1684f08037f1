#!/usr/bin/env python3
"""Adds up the closing lines of the tests in a CTest JUnit report, and prints the sum as one such line.

Every test closes with `N passed, N failed` (`, N skipped` may follow). One that ends badly without a failure in that
line, or prints no such line, counts as one failed. Exit status: 1 when anything failed or nothing ran.
"""
import re
import sys
import xml.etree.ElementTree as xml

CLOSING = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\s*$", re.MULTILINE)


def count(case):
    """(passed, failed, skipped) of one test, and what is odd about it, if anything."""
    ended_well = case.get("status") == "run"
    closing = CLOSING.findall(case.findtext("system-out") or "")
    if not closing:
        return (0, 1, 0), "printed no closing line" if ended_well else "ended before its closing line"
    passed, failed, skipped = (int(n or 0) for n in closing[-1])
    if failed:
        return (passed, failed, skipped), f"{failed} failed"
    if not ended_well:
        return (passed, 1, skipped), "failed after its closing line"
    return (passed, 0, skipped), None


def main(report):
    try:
        cases = xml.parse(report).getroot().findall("testcase")
    except (OSError, xml.ParseError) as error:
        print(f"{report}: no report of the tests: {error}")
        cases = []
    total = [0, 0, 0]
    for case in cases:
        numbers, oddity = count(case)
        total = [a + b for a, b in zip(total, numbers)]
        if oddity:
            print(f"{case.get('name')}: {oddity}")
    passed, failed, skipped = total
    if not cases:
        failed = 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
