"""Makes a table with pylance alone, and one shard of it that holds an SSTable and a live WAL.

Usage: write_shard.py TABLE SHARD ; the process ends as in a crash. Afterwards the live rows are (1, a),
(3, c2), (5, e), (6, f): rows 2 and 4 are deleted, one in the SSTable and one in the WAL.
"""

import os
import sys

import lance
import pyarrow as pa

KEY = {b"lance-schema:unenforced-primary-key": b"true"}
SCHEMA = pa.schema(
    [pa.field("id", pa.int64(), nullable=False, metadata=KEY), pa.field("name", pa.string())]
)


def rows(*pairs: tuple[int, str]) -> pa.Table:
    ids, names = zip(*pairs)
    return pa.table({"id": pa.array(ids, pa.int64()), "name": pa.array(names, pa.string())}, schema=SCHEMA)


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())}, schema=pa.schema([SCHEMA.field("id")]))


def main() -> None:
    table, shard = sys.argv[1:]
    dataset = lance.write_dataset(SCHEMA.empty_table(), table, schema=SCHEMA)
    dataset.initialize_mem_wal(unsharded=True)

    writer = dataset.mem_wal_writer(shard, max_wal_flush_interval_ms=5)
    writer.put(rows((1, "a"), (2, "b"), (3, "c"), (4, "d"), (5, "e")))
    writer.delete(keys(2))
    writer.close()

    writer = dataset.mem_wal_writer(shard, max_wal_flush_interval_ms=5)
    writer.put(rows((3, "c2"), (6, "f")))
    writer.delete(keys(4))
    os._exit(0)


if __name__ == "__main__":
    main()
