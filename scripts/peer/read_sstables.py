"""Reads a table through pylance's LsmScanner: base plus the SSTables that `headwater inspect` names.

Takes on standard input the JSON of `headwater inspect --format json`; prints the live rows, one JSON object a
line, sorted by the columns given as arguments.
"""

import json
import sys

import lsm


def main() -> None:
    report = json.load(sys.stdin)
    lsm.print_rows(lsm.scanner(report["table"], report).to_table(), sys.argv[1:])


if __name__ == "__main__":
    main()
