"""A year of flights through Headwater: small durable upserts, a crash in the middle, and all of it read back.

    make demo

builds the `headwater` command and runs this script, which
 1. creates a table with the key (time_hour, carrier, flight),
 2. streams 336,776 flights into it as small upserts, and on the way sends a tenth of them again with changed
    delays,
 3. kills the writing process once in the middle (SIGKILL) and goes on after the last acknowledged row,
 4. asks, from another process and while the stream runs, for a row that was acknowledged a moment ago,
 5. lets another process replay what is still in the WAL and flush it,
 6. reads the table back with `headwater scan`, and with pylance, an implementation that shares no code with
    Headwater's write tier, and compares every row with what was sent last.

Any difference, and any row lost or doubled, ends it with an error.
"""

import argparse
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "scripts" / "peer"))
import lsm  # noqa: E402  (how pylance reads our tables, shared with the tests)

FLIGHTS = HERE / "flights.parquet"
KEY = ["time_hour", "carrier", "flight"]
ROWS = 336_776
# A stream of files: one of flights, one of corrections, and so on.
ROWS_PER_FILE = 20_000
# Every tenth flight is corrected: half of them soon, in the same memtable, half a file later.
EVERY, FIRST = 10, 3
# Rows a write has, and rows a memtable has before it is flushed.
ROWS_PER_WRITE = 100
ROWS_PER_MEMTABLE = 50_000
# The share of the stream after which the writer is killed.
KILL_AFTER = 0.45
# And the share after which a reader asks for the newest row.
READ_AFTER = 0.7


def say(text: str) -> None:
    print(text, flush=True)


def fail(text: str) -> None:
    sys.exit(f"FAILED: {text}")


# --- what is sent ---------------------------------------------------------------------------------


def corrected(flights: pa.Table) -> pa.Table:
    """The same flights seven minutes later at both ends. Who never left has no delay, and keeps none."""
    for name in ["dep_delay", "arr_delay"]:
        index = flights.schema.get_field_index(name)
        later = pc.add(flights.column(name), pa.scalar(7.0))
        flights = flights.set_column(index, flights.schema.field(name), later)
    return flights


def split_corrections(flights: pa.Table, first_row: int) -> tuple[pa.Table, pa.Table]:
    """Corrections of one file's flights: those sent right after it, and those sent a file later."""
    rows = range(first_row, first_row + flights.num_rows)
    soon = [row - first_row for row in rows if row % (2 * EVERY) == FIRST]
    late = [row - first_row for row in rows if row % (2 * EVERY) == FIRST + EVERY]
    return corrected(flights.take(soon)), corrected(flights.take(late))


def write_ndjson(rows: pa.Table, path: pathlib.Path) -> None:
    with path.open("w") as file:
        for row in rows.to_pylist():
            file.write(json.dumps(row) + "\n")


def write_stream(flights: pa.Table, folder: pathlib.Path) -> pa.Table:
    """Writes the stream as files whose names sort in the order they are sent. Returns the keys it sends."""
    folder.mkdir()
    sent = []
    late = flights.slice(0, 0)
    for number, first_row in enumerate(range(0, flights.num_rows, ROWS_PER_FILE)):
        part = flights.slice(first_row, ROWS_PER_FILE)
        soon, next_late = split_corrections(part, first_row)
        corrections = pa.concat_tables([late, soon])
        pq.write_table(part, folder / f"{number:03}-a-flights.parquet", compression="zstd")
        write_ndjson(corrections, folder / f"{number:03}-b-corrections.ndjson")
        sent += [part.select(KEY), corrections.select(KEY)]
        late = next_late
    write_ndjson(late, folder / "999-corrections.ndjson")
    return pa.concat_tables([*sent, late.select(KEY)])


def expected_rows(flights: pa.Table) -> pa.Table:
    """What must be read back: every flight once, a tenth of them corrected."""
    is_corrected = pa.array([row % EVERY == FIRST for row in range(flights.num_rows)])
    plain, changed = flights.filter(pc.invert(is_corrected)), flights.filter(is_corrected)
    return pa.concat_tables([plain, corrected(changed)])


# --- the command ----------------------------------------------------------------------------------


class Command:
    """The `headwater` command on one table."""

    def __init__(self, binary: pathlib.Path, table: pathlib.Path) -> None:
        self.binary, self.table = binary, table

    def run(self, name: str, *arguments: str, quiet: bool = False) -> str:
        """Runs a command to its end and returns what it printed; its failure is ours."""
        done = subprocess.run([self.binary, name, self.table, *arguments], stdout=subprocess.PIPE, text=True)
        if done.returncode != 0:
            fail(f"`headwater {name}` ended with {done.returncode}")
        if not quiet:
            say(done.stdout.rstrip())
        return done.stdout

    def inspect(self) -> dict:
        return json.loads(self.run("inspect", "--format", "json", quiet=True))

    def ingest(self, stream: pathlib.Path, skip_rows: int) -> subprocess.Popen:
        """Starts an ingest that tells its progress on a pipe and leaves the rest in the WAL at its end."""
        arguments = ["--format", "json", "--no-flush", "--batch-rows", str(ROWS_PER_WRITE)]
        arguments += ["--set", f"freeze.max_rows={ROWS_PER_MEMTABLE}", "--skip-rows", str(skip_rows)]
        command = [self.binary, "ingest", self.table, str(stream / "*"), *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def events(process: subprocess.Popen) -> Iterator[dict]:
    """The lines of progress of an ingest. A line that a kill cut short is none."""
    for line in process.stdout:
        if line.endswith("\n"):
            yield json.loads(line)


def ingest_and_kill(command: Command, stream: pathlib.Path, total: int) -> tuple[int, float]:
    """Ingests, kills the process in the middle, and returns the rows acknowledged by then and the seconds."""
    started, acknowledged = time.monotonic(), 0
    process = command.ingest(stream, skip_rows=0)
    for event in events(process):
        acknowledged = event["rows_acknowledged"]
        if acknowledged >= KILL_AFTER * total:
            process.kill()
            break
    seconds = time.monotonic() - started
    for event in events(process):  # what it had said before the kill reached it
        acknowledged = event["rows_acknowledged"]
    if process.wait() != -signal.SIGKILL:
        fail(f"the writer ended by itself with {process.returncode}, the kill came too late or it failed")
    return acknowledged, seconds


def ingest_rest(command: Command, stream: pathlib.Path, skip_rows: int, keys: pa.Table) -> dict:
    """Ingests from a row on to the end, and reads beside it; returns the last event."""
    process = command.ingest(stream, skip_rows)
    last, asked = {}, False
    for event in events(process):
        last = event
        acknowledged = skip_rows + event["rows_acknowledged"]
        if not asked and acknowledged >= READ_AFTER * keys.num_rows:
            asked = True
            read_beside_the_writer(command, keys, acknowledged)
    if process.wait() != 0 or last.get("event") != "done":
        fail(f"the second writer ended with {process.returncode}: {last}")
    return last


def read_beside_the_writer(command: Command, keys: pa.Table, acknowledged: int) -> None:
    """Asks for the row acknowledged last, from another process, while the writer goes on."""
    key = ",".join(str(keys.column(name)[acknowledged - 1]) for name in KEY)
    say(f"While it runs, row {acknowledged:,} of the stream, acknowledged a moment ago:")
    say(f"$ headwater get flights {key}")
    started = time.monotonic()
    shown = command.run("get", key, "--format", "json", quiet=True).splitlines()
    if len(shown) != 1:
        fail(f"{len(shown)} rows came back for a key that was acknowledged")
    row = json.loads(shown[0])
    say(f"{json.dumps(row)[:100]}…")
    say(f"(a process of its own, in {time.monotonic() - started:.2f} s; the writer was not disturbed)")


# --- reading back ---------------------------------------------------------------------------------


def check_rows(table: pathlib.Path, report: dict, expected: pa.Table) -> None:
    """Compares what pylance reads, row by row and column by column, with what was sent last."""
    unflushed = sum(shard["wal"]["unflushed_rows"] for shard in report["shards"])
    if unflushed:
        fail(f"{unflushed} rows are still in the WAL only")
    problems = [problem for shard in report["shards"] for problem in shard["problems"]]
    if problems:
        fail(f"`headwater inspect` found {problems}")
    compare(lsm.scanner(str(table), report).to_table(), expected, "pylance")


def check_own_read(command: Command, expected: pa.Table) -> None:
    """The same through `headwater count` and `headwater scan`."""
    counted = json.loads(command.run("count", "--format", "json", quiet=True))["rows"]
    if counted != ROWS:
        fail(f"`headwater count` says {counted:,} rows, expected {ROWS:,}")
    scan = [command.binary, "scan", command.table, "--format", "arrow"]
    done = subprocess.run(scan, stdout=subprocess.PIPE, check=True)
    compare(pa.ipc.open_stream(done.stdout).read_all(), expected, "headwater scan")


def compare(found: pa.Table, expected: pa.Table, reader: str) -> None:
    """Row by row and column by column."""
    found = found.select(expected.column_names).cast(expected.schema)
    if found.num_rows != ROWS:
        fail(f"{reader} reads {found.num_rows:,} rows, expected {ROWS:,}")
    order = [(name, "ascending") for name in KEY]
    found, expected = found.sort_by(order).combine_chunks(), expected.sort_by(order).combine_chunks()
    for name in expected.column_names:
        if not found.column(name).equals(expected.column(name)):
            differs = [row for row, (a, b) in enumerate(zip(found[name], expected[name])) if a != b]
            row = differs[0] if differs else 0
            shown = found.slice(row, 1).to_pylist(), expected.slice(row, 1).to_pylist()
            say(f"read      {shown[0]}\nexpected  {shown[1]}")
            fail(f"{reader}: column {name} differs in {len(differs):,} rows; the first is shown above")


def demonstrate(binary: pathlib.Path, folder: pathlib.Path) -> None:
    command = Command(binary, folder / "table")
    flights = pq.read_table(FLIGHTS)
    stream = folder / "stream"
    keys = write_stream(flights, stream)
    total = keys.num_rows
    again = total - ROWS
    say(f"The stream has {total:,} rows: {ROWS:,} flights, {again:,} of them again with changed delays.")

    say("\n$ headwater init")
    command.run("init", "--schema", str(FLIGHTS), "--key", ",".join(KEY))

    say(f"\n$ headwater ingest, {ROWS_PER_WRITE} rows a write, killed in the middle")
    acknowledged, seconds = ingest_and_kill(command, stream, total)
    say(f"SIGKILL after {acknowledged:,} acknowledged rows in {seconds:.1f} s.")
    crashed = command.inspect()
    left = sum(shard["wal"]["unflushed_rows"] for shard in crashed["shards"])
    say(f"It left {left:,} rows in the WAL alone; the next writer replays them.")
    # Nothing is collected yet, so the WAL still has every row the first writer acknowledged.
    logged = sum(shard["wal"]["rows"] for shard in crashed["shards"])
    if logged < acknowledged:
        fail("the WAL has fewer rows than were acknowledged")
    if logged > acknowledged:
        more = logged - acknowledged
        say(f"The WAL has {more:,} rows more than were acknowledged: writes on their way then.")
        say("They are read like any other; sent again, they replace themselves.")

    say(f"\n$ headwater ingest --skip-rows {acknowledged}, to the end")
    done = ingest_rest(command, stream, acknowledged, keys)
    say(f"{done['rows_acknowledged']:,} rows acknowledged in {done['seconds']:.1f} s.")

    check_own_read(command, expected_rows(flights))
    say("`headwater scan` reads every row, base, SSTables and WAL together, each with its newest values.")

    say("\n$ headwater flush")
    command.run("flush")
    say("\n$ headwater inspect")
    command.run("inspect")

    report = command.inspect()
    started = time.monotonic()
    check_rows(command.table, report, expected_rows(flights))
    check_own_read(command, expected_rows(flights))
    read_seconds = time.monotonic() - started

    rows, seconds = acknowledged + done["rows_acknowledged"], seconds + done["seconds"]
    puts = sum(shard["wal"]["entries"] for shard in report["shards"])
    generations = sum(len(shard["sstables"]) for shard in report["shards"])
    say("")
    rate, later = rows / seconds, done["rows_per_second"]
    say(f"acknowledged   {rows:,} rows, {rate:,.0f} rows/s ({later:,.0f} after the crash)")
    say(f"PUTs           {puts:,} WAL entries, {rows / puts:,.0f} rows each")
    say(f"generations    {generations}")
    say(f"read back      {ROWS:,} live rows, each with its newest values, by `headwater scan` and by pylance")
    say(f"               (read and compared in {read_seconds:.1f} s)")


def work(description: str, demonstrate: Callable[[pathlib.Path, pathlib.Path], None]) -> None:
    """Reads the arguments, and demonstrates with the command in a folder, which goes unless it was named."""
    arguments = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    arguments.add_argument("--headwater", type=pathlib.Path, required=True, help="the built command")
    arguments.add_argument("--folder", type=pathlib.Path, help="where to work; kept (default: scratch)")
    given = arguments.parse_args()
    folder = given.folder or pathlib.Path(tempfile.mkdtemp(prefix="headwater-flights-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        demonstrate(given.headwater.resolve(), folder)
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)
        else:
            say(f"\nEverything is kept in {folder}")


if __name__ == "__main__":
    work(__doc__, demonstrate)
