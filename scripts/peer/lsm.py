"""How pylance, the independent peer, reads a table that Headwater writes. Shared by the scripts beside this
one and by the example.

`headwater inspect TABLE --format json` lists shards and the SSTables their newest manifests name; pylance
itself cannot list them. Rows that are still in the WAL only are not read this way: `headwater flush TABLE`
first, or let pylance's `mem_wal_writer` take the shard over (`open_writer` in obey.py).
"""

import json

import lance
import pyarrow as pa
from lance.mem_wal import LsmScanner, ShardSnapshot


def scanner(table: str, report: dict) -> LsmScanner:
    """A scanner over the base table and every SSTable in a report of `inspect`; newest row per key."""
    snapshots = []
    for shard in report["shards"]:
        snapshot = ShardSnapshot(shard["id"])
        snapshot = snapshot.with_current_generation(shard["manifest"]["current_generation"])
        for sstable in shard["sstables"]:
            snapshot = snapshot.with_sstable(sstable["generation"], sstable["path"])
        snapshots.append(snapshot)
    return LsmScanner.from_snapshots(lance.dataset(table), snapshots)


def print_rows(rows: pa.Table, columns: list[str]) -> None:
    """One JSON object a row on standard output, sorted by these columns; what JSON lacks, as text."""
    for row in rows.sort_by([(column, "ascending") for column in columns]).to_pylist():
        print(json.dumps(row, default=str))
