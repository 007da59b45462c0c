"""Takes a shard over with pylance's writer, which fences the writer before it and replays the WAL.

Usage: take_over.py TABLE SHARD COLUMN… ; prints the live rows it sees, one JSON object a line, sorted by the
columns. Closes the writer, so its memtable becomes an SSTable.
"""

import sys

import lance
import lsm


def main() -> None:
    table, shard, columns = sys.argv[1], sys.argv[2], sys.argv[3:]
    writer = lance.dataset(table).mem_wal_writer(shard)
    rows = writer.lsm_scanner().to_table()
    writer.close()
    lsm.print_rows(rows, columns)


if __name__ == "__main__":
    main()
