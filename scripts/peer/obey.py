"""pylance as a peer that does what it is told. Driven by the interoperability tests, which need it alive
beside our writer, and dead at a moment of their choice.

One JSON command a line on standard input, one JSON answer a line on standard output: {"ok": …}, or
{"error": …} with what pylance raised. Rows are lists of values in the order of the columns; bytes are
hexadecimal text.
"""

import json
import os
import sys

import lance
import lsm
import pyarrow as pa
import pyarrow.types as types

KEY = "lance-schema:unenforced-primary-key:position"
# Of each table the one writer that is open, by address.
writers = {}


def is_bytes(of: pa.DataType) -> bool:
    return types.is_binary(of) or types.is_large_binary(of)


def in_columns(schema: pa.Schema, rows: list[list]) -> pa.Table:
    """Rows as a table of this schema."""
    columns = []
    for place, field in enumerate(schema):
        values = [row[place] for row in rows]
        if is_bytes(field.type):
            values = [None if value is None else bytes.fromhex(value) for value in values]
        columns.append(pa.array(values, field.type))
    return pa.Table.from_arrays(columns, schema=schema)


def in_rows(table: pa.Table, columns: list[str]) -> list[list]:
    """The same the other way round, in the order of these columns."""
    lists = []
    for name in columns:
        values = table[name].to_pylist()
        if is_bytes(table[name].type):
            values = [None if value is None else value.hex() for value in values]
        lists.append(values)
    return [list(row) for row in zip(*lists)]


def all_rows(scanner, columns: list[str]) -> dict:
    """What a scan gives, and what the count of the same scanner says."""
    return {"rows": in_rows(scanner.to_table(), columns), "count": scanner.count_rows()}


def create(table: str, fields: list, rows: list, sharding: dict) -> None:
    """A table of (name, type, place in the key or null) with these rows in its base, and a write tier."""
    columns = []
    for name, of, place in fields:
        marker = None if place is None else {KEY: str(place)}
        columns.append(pa.field(name, pa.type_for_alias(of), nullable=place is None, metadata=marker))
    dataset = lance.write_dataset(in_columns(pa.schema(columns), rows), table)
    dataset.initialize_mem_wal(**sharding)


def set_metadata(table: str, metadata: dict) -> None:
    """Replaces the schema metadata of the base, as a newer LanceDB may."""
    lance.dataset(table).update_schema_metadata(metadata, replace=True)


def open_writer(table: str, shard: str, knobs: dict) -> None:
    """Claims the shard and replays its WAL. Short waits: each put is one entry as soon as it can be."""
    knobs = {"max_wal_flush_interval_ms": 5, **knobs}
    writers[table] = lance.dataset(table).mem_wal_writer(shard, **knobs)


def put(table: str, rows: list) -> None:
    writers[table].put(in_columns(lance.dataset(table).schema, rows))


def delete(table: str, columns: list, rows: list) -> None:
    schema = lance.dataset(table).schema
    keys = pa.schema([schema.field(name) for name in columns])
    writers[table].delete(in_columns(keys, rows))


def scan(table: str) -> dict:
    """All rows the open writer sees."""
    return all_rows(writers[table].lsm_scanner(), lance.dataset(table).schema.names)


def memtable(table: str) -> dict:
    """What the open writer has in memory."""
    return writers[table].memtable_stats()


def close(table: str) -> None:
    writers.pop(table).close()


def read(report: dict) -> dict:
    """All rows of base and SSTables, whoever wrote them; `report` is one of `headwater inspect`."""
    table = report["table"]
    return all_rows(lsm.scanner(table, report), lance.dataset(table).schema.names)


def die() -> None:
    """Ends as in a crash: nothing is flushed, nothing closed, and no answer given."""
    os._exit(0)


COMMANDS = [create, set_metadata, open_writer, put, delete, scan, memtable, close, read, die]


def main() -> None:
    commands = {command.__name__: command for command in COMMANDS}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": commands[request.pop("do")](**request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
