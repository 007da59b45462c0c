"""A year of flights through the server, sent and read by an unmodified LanceDB client.

    make run

builds the `headwater` command and runs this script, which
 1. starts `headwater serve` on an empty directory and connects LanceDB's own client to it,
 2. creates a table with the key (time_hour, carrier, flight) and gives it a write tier,
 3. sends 336,776 flights as upserts, and on the way a tenth of them again with changed delays,
 4. kills the server once in the middle (SIGKILL) and starts it again, while the client goes on,
 5. asks, while the stream runs, for a row that was acknowledged a moment ago,
 6. reads the table back through the client, and compares every row with what was sent last.

Any difference, and any row lost or doubled, ends it with an error. `make demo` shows the same without a
server.
"""

import pathlib
import signal
import socket
import subprocess
import threading
import time

import lancedb
import pyarrow as pa
import pyarrow.parquet as pq
from run import EVERY, FLIGHTS, KEY, KILL_AFTER, READ_AFTER, ROWS, ROWS_PER_FILE
from run import compare, expected_rows, fail, say, split_corrections, work

ROWS_PER_WRITE = 1_000
# How often a write is sent again while the server is away, and the wait between.
ATTEMPTS, PAUSE = 50, 0.2
POSITION = b"lance-schema:unenforced-primary-key:position"


class Server:
    """`headwater serve` on a port of its own."""

    def __init__(self, binary: pathlib.Path, folder: pathlib.Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.command = [binary, "serve", "--data", folder / "data", "--port", str(self.port), "--no-auth"]
        self.log = folder / "server.log"
        self.process = self.start()

    def start(self) -> subprocess.Popen:
        """Returns when the server says where it is."""
        with self.log.open("a") as log:
            process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=log, text=True)
        line = process.stdout.readline().strip()
        if not line:
            fail(f"the server did not start: {self.log.read_text()[-2000:]}")
        say(line)
        return process

    def kill(self) -> None:
        self.process.kill()
        if self.process.wait() != -signal.SIGKILL:
            fail(f"the server ended by itself with {self.process.returncode}")
        say("SIGKILL for the server; it is started again while the client goes on.")
        self.process = self.start()

    def stop(self) -> None:
        self.process.terminate()
        if self.process.wait(timeout=120) != 128 + signal.SIGTERM and self.process.returncode != 0:
            fail(f"the server went down with {self.process.returncode}: {self.log.read_text()[-2000:]}")


def with_key(schema: pa.Schema) -> pa.Schema:
    """The schema with the key marked, as LanceDB's clients mark one."""
    for position, name in enumerate(KEY, 1):
        index = schema.get_field_index(name)
        field = schema.field(index).with_nullable(False).with_metadata({POSITION: str(position)})
        schema = schema.set(index, field)
    return schema


def stream(flights: pa.Table) -> list[pa.Table]:
    """All rows in the order they are sent: flights, and corrections soon after them and a file later."""
    parts, late = [], flights.slice(0, 0)
    for first_row in range(0, flights.num_rows, ROWS_PER_FILE):
        part = flights.slice(first_row, ROWS_PER_FILE)
        soon, next_late = split_corrections(part, first_row)
        parts += [part, late, soon]
        late = next_late
    return [rows for rows in [*parts, late] if rows.num_rows]


def upsert(table: lancedb.table.Table, rows: pa.Table) -> int:
    """Sends rows until they are acknowledged; an upsert may be sent again. Returns how often it was."""
    merge = table.merge_insert(KEY).when_matched_update_all().when_not_matched_insert_all()
    for attempt in range(ATTEMPTS):
        try:
            merge.execute(rows)
        except Exception as error:  # noqa: BLE001  (each way to be cut off is a kind of its own)
            if attempt + 1 == ATTEMPTS:
                fail(f"a write was refused {ATTEMPTS} times: {error}")
            time.sleep(PAUSE)
        else:
            return attempt
    return ATTEMPTS


def read_beside(table: lancedb.table.Table, sent: pa.Table) -> None:
    """Asks for the row acknowledged last."""
    last = sent.slice(sent.num_rows - 1).to_pylist()[0]
    where = " AND ".join(f"{name} = {last[name]!r}" for name in KEY)
    started = time.monotonic()
    found = table.search().where(where).to_list()
    if len(found) != 1 or found[0]["dep_delay"] != last["dep_delay"]:
        fail(f"for a row that was acknowledged came back: {found}")
    say(f"While it runs, the row acknowledged last, in {1000 * (time.monotonic() - started):.0f} ms:")
    say(f"  {str(found[0])[:100]}…")


def send(server: Server, table: lancedb.table.Table, flights: pa.Table) -> tuple[int, float, int]:
    """Sends the stream, with a kill in it. Returns rows, seconds, and how many writes were sent again."""
    parts = stream(flights)
    total = sum(part.num_rows for part in parts)
    say(f"The stream has {total:,} rows: {ROWS:,} flights, every {EVERY}th again with changed delays.")
    acknowledged, again, killer, has_read = 0, 0, None, False
    started = time.monotonic()
    for part in parts:
        for first in range(0, part.num_rows, ROWS_PER_WRITE):
            rows = part.slice(first, ROWS_PER_WRITE)
            again += upsert(table, rows)
            acknowledged += rows.num_rows
            if killer is None and acknowledged >= KILL_AFTER * total:
                say(f"{acknowledged:,} rows acknowledged in {time.monotonic() - started:.1f} s.")
                killer = threading.Thread(target=server.kill)
                killer.start()
            if not has_read and acknowledged >= READ_AFTER * total:
                has_read = True
                read_beside(table, rows)
    seconds = time.monotonic() - started
    if killer is None or not has_read:
        fail("the stream ended before anything happened")
    killer.join()
    return acknowledged, seconds, again


def demonstrate(binary: pathlib.Path, folder: pathlib.Path) -> None:
    flights = pq.read_table(FLIGHTS)
    flights = flights.cast(with_key(flights.schema))
    server = Server(binary, folder)
    try:
        client = lancedb.connect("db://demo", api_key="none", host_override=f"http://127.0.0.1:{server.port}")
        table = client.create_table("flights", schema=flights.schema)
        table.set_lsm_write_spec(lancedb.LsmWriteSpec.unsharded())
        rows, seconds, again = send(server, table, flights)
        started = time.monotonic()
        counted = table.count_rows()
        if counted != ROWS:
            fail(f"the client counts {counted:,} rows, expected {ROWS:,}")
        compare(table.search().limit(2 * ROWS).to_arrow(), expected_rows(flights), "lancedb")
        read_seconds = time.monotonic() - started
        newest = flights.slice(flights.num_rows - 1).to_pylist()[0]
        where = " AND ".join(f"{name} = {newest[name]!r}" for name in KEY)
        say("\nThe newest flight, read by the client:")
        say(f"  {table.search().where(where).to_list()[0]}")
    finally:
        server.stop()
    say("")
    say(f"acknowledged   {rows:,} rows through HTTP, {ROWS_PER_WRITE:,} each, {rows / seconds:,.0f} rows/s")
    say(f"sent again     {again} times while the server was away")
    say(f"read back      {ROWS:,} live rows, each with its newest values, by lancedb {lancedb.__version__}")
    say(f"               (counted, read and compared in {read_seconds:.1f} s)")


if __name__ == "__main__":
    work(__doc__, demonstrate)
