"""Writes the golden files beside this script with pylance 14.0.2, the format's reference implementation.

    python make_goldens.py

Each run gives other shard ids and file tokens; commit all files of one run together. `expected.json` says
what a decoder must find in them. Files called `by_hand_*` are bytes of this script's own making, which
pylance was made to read first; everything else pylance or pyarrow wrote.
"""

import datetime
import json
import pathlib
import shutil
import tempfile
import uuid

import lance
import pyarrow as pa
import pyarrow.ipc
from lance.file import LanceFileReader
from lance.mem_wal import evaluate_sharding_spec

HERE = pathlib.Path(__file__).parent
POSITION = "lance-schema:unenforced-primary-key:position"
EXPECTED = {"made_with": {"pylance": lance.__version__, "pyarrow": pa.__version__}}


def main():
    assert lance.__version__ == "14.0.2", lance.__version__
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        rows(scratch / "rows")
        keyless(scratch / "keyless")
        fresh(scratch / "fresh")
        keys(scratch / "keys_int64", [("k", pa.int64())], INTS, bloom=True)
        keys(scratch / "keys_utf8", [("k", pa.utf8())], TEXTS, bloom=True)
        keys(scratch / "keys_hashed", HASHED_TYPES, HASHED, bloom=True)
        keys(scratch / "keys_all", ALL_TYPES, ALL, bloom=False)
        buckets(scratch / "buckets")
    text = json.dumps(EXPECTED, indent=1, sort_keys=True)
    (HERE / "expected.json").write_text(text + "\n")


def rev64(number):
    return f"{number:064b}"[::-1]


def field(name, kind, position=None, nullable=False):
    metadata = {POSITION: str(position)} if position is not None else None
    return pa.field(name, kind, nullable=nullable, metadata=metadata)


def new_table(root, schema, **sharding):
    dataset = lance.write_dataset(schema.empty_table(), str(root))
    dataset.initialize_mem_wal(max_wal_flush_interval_ms=5, **sharding)
    return dataset


def shard_files(root, shard):
    base = root / "_mem_wal" / shard
    numbered = lambda kind, end: sorted(
        (int(path.name[: -len(end)][::-1], 2), path) for path in (base / kind).glob("*" + end)
    )
    return dict(numbered("wal", ".arrow")), dict(numbered("manifest", ".binpb")), base


def keep(source, name):
    shutil.copyfile(source, HERE / name)


# A keyed table through its life: two entries, a second claim, replay and flush.
def rows(root):
    schema = pa.schema(
        [
            field("id", pa.int64(), position=1),
            field("name", pa.utf8()),
            field("score", pa.float64(), nullable=True),
            field("tags", pa.list_(pa.int32()), nullable=True),
            field("at", pa.struct([pa.field("x", pa.float32()), pa.field("y", pa.float32())]), nullable=True),
        ],
        metadata={"owner": "goldens"},
    )
    dataset = new_table(root, schema, unsharded=True)
    shard = str(uuid.uuid4())
    first = dataset.mem_wal_writer(shard, max_wal_flush_interval_ms=5)
    _, manifests, _ = shard_files(root, shard)
    keep(manifests[1], "manifest_claimed.binpb")
    first.put(
        pa.table(
            {
                "id": [1, 2, 3],
                "name": ["one", "two", "three"],
                "score": [1.5, None, -0.0],
                "tags": [[1, 2], None, []],
                "at": [{"x": 1.0, "y": 2.0}, None, {"x": None, "y": 4.0}],
            },
            schema=schema,
        )
    )
    first.delete(pa.table({"id": pa.array([2], pa.int64())}, schema=pa.schema([schema.field("id")])))
    second = dataset.mem_wal_writer(shard, max_wal_flush_interval_ms=5)
    wal, manifests, _ = shard_files(root, shard)
    assert sorted(wal) == [1, 2, 3], wal
    keep(wal[1], "wal_rows.arrow")
    keep(wal[2], "wal_tombstone.arrow")
    keep(wal[3], "wal_sentinel.arrow")
    keep(manifests[2], "manifest_taken_over.binpb")
    second.close()
    try:
        first.close()
    except OSError:
        pass  # It was fenced: that is what the sentinel is for.
    _, manifests, base = shard_files(root, shard)
    keep(manifests[max(manifests)], "manifest_flushed.binpb")
    tables = [path.name for path in base.glob("*_gen_*")]
    assert len(tables) == 1, tables
    EXPECTED["rows"] = {"shard": shard, "sstable": tables[0], "flushed_version": max(manifests)}

    stream = pa.ipc.open_stream((HERE / "wal_rows.arrow").read_bytes())
    batches = list(stream)
    for codec in ["lz4", "zstd"]:
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.ipc.new_stream(str(HERE / f"wal_{codec}.arrow"), stream.schema, options=options) as out:
            for batch in batches:
                out.write_batch(batch)


def keyless(root):
    schema = pa.schema([field("line", pa.utf8()), field("number", pa.int16(), nullable=True)])
    dataset = new_table(root, schema, unsharded=True)
    shard = str(uuid.uuid4())
    writer = dataset.mem_wal_writer(shard, max_wal_flush_interval_ms=5)
    writer.put(pa.table({"line": ["a", "a"], "number": [7, None]}, schema=schema))
    wal, _, _ = shard_files(root, shard)
    keep(wal[1], "wal_keyless.arrow")
    writer.close()
    _, manifests, base = shard_files(root, shard)
    keep(manifests[max(manifests)], "manifest_keyless.binpb")
    (table,) = [path.name for path in base.glob("*_gen_*")]
    EXPECTED["keyless"] = {"shard": shard, "sstable": table, "flushed_version": max(manifests)}


# A shard nobody has claimed, with field values and with tags from the future; then pylance claims it.
def fresh(root):
    def varint(number):
        out = b""
        while number > 127:
            out += bytes([number & 127 | 128])
            number >>= 7
        return out + bytes([number])

    def number(tag, value):
        return varint(tag << 3) + varint(value)

    def bytes_field(tag, value):
        return varint(tag << 3 | 2) + varint(len(value)) + value

    schema = pa.schema([field("id", pa.int64(), position=1), field("v", pa.int32(), nullable=True)])
    dataset = new_table(root, schema, bucket_column="id", num_buckets=4)
    shard = uuid.uuid4()
    entry = bytes_field(1, b"bucket") + bytes_field(2, (3).to_bytes(4, "little"))
    manifest = b"".join(
        [
            number(1, 1),
            number(6, 1),
            number(10, 1),
            bytes_field(11, bytes_field(1, shard.bytes)),
            bytes_field(14, entry),
            number(500, 7),
            bytes_field(501, b"from the future"),
        ]
    )
    (HERE / "by_hand_fresh.binpb").write_bytes(manifest)
    directory = root / "_mem_wal" / str(shard) / "manifest"
    directory.mkdir(parents=True)
    (directory / f"{rev64(1)}.binpb").write_bytes(manifest)
    writer = dataset.mem_wal_writer(str(shard))
    _, manifests, _ = shard_files(root, str(shard))
    keep(manifests[2], "manifest_fresh_claimed.binpb")
    writer.close()
    EXPECTED["fresh"] = {"shard": str(shard)}


INTS = [(value,) for value in [0, 1, -1, 2**63 - 1, -(2**63), 255, 256, *range(1000, 1190, 3)]]
TEXTS = [(text,) for text in ["", "a", "b", "abcd", "abcde", "é", "\x00", "a\x00b", "鍵", "x" * 300]]
TEXTS += [(f"key {number}",) for number in range(60)]
HASHED_TYPES = [("i", pa.int32()), ("l", pa.int64()), ("t", pa.utf8()), ("b", pa.binary())]
HASHED = [(n - 30, n * 10**12, f"t{n}" if n else "", bytes(range(n % 7))) for n in range(60)]
ALL_TYPES = [
    ("i8", pa.int8()),
    ("i16", pa.int16()),
    ("i32", pa.int32()),
    ("i64", pa.int64()),
    ("u8", pa.uint8()),
    ("u16", pa.uint16()),
    ("u32", pa.uint32()),
    ("u64", pa.uint64()),
    ("flag", pa.bool_()),
    ("text", pa.utf8()),
    ("ltext", pa.large_utf8()),
    ("bin", pa.binary()),
    ("lbin", pa.large_binary()),
]
ALL = [
    (0, 0, 0, 0, 0, 0, 0, 0, False, "", "", b"", b""),
    (-128, -(2**15), -(2**31), -(2**63), 1, 1, 1, 1, True, "\x00", "a\x00", b"\x00", b"\x00\x00"),
    (
        *(127, 2**15 - 1, 2**31 - 1, 2**63 - 1, 255, 2**16 - 1, 2**32 - 1, 2**64 - 1),
        *(True, "é", "鍵", b"\xff", b"\x00\xff"),
    ),
    (-1, -1, -1, -1, 7, 8, 9, 10, False, "text", "large", b"bin", b"large"),
    (-1, -1, -1, -1, 7, 8, 9, 10, False, "tex", "tlarge", b"bin", b"large"),
]


# The same rows as a WAL entry, as `_pk_index` values and, where the reference hashes the types, as a bloom
# filter. Columns are in another order than the key, so that the order of the key is seen to count.
def keys(root, types, values, bloom):
    name = root.name
    columns = list(zip(*values))
    fields = [field(column, kind, position=place + 1) for place, (column, kind) in enumerate(types)]
    arrays = [pa.array(list(values), kind) for values, (_, kind) in zip(columns, types)]
    order = list(reversed(range(len(types))))
    payload = field("payload", pa.int32(), nullable=True)
    schema = pa.schema([fields[place] for place in order] + [payload])
    dataset = new_table(root, schema, unsharded=True)
    shard = str(uuid.uuid4())
    writer = dataset.mem_wal_writer(shard, max_wal_flush_interval_ms=5)
    payloads = pa.array(range(len(values)), pa.int32())
    writer.put(pa.table([arrays[place] for place in order] + [payloads], schema=schema))
    writer.close()
    wal, _, base = shard_files(root, shard)
    keep(wal[1], f"wal_{name}.arrow")
    (table,) = base.glob("*_gen_*")
    if bloom:
        keep(table / "bloom_filter.bin", f"bloom_{name}.bin")
    pages = LanceFileReader(str(table / "_pk_index" / "page_data.lance")).read_all().to_table()
    if len(types) > 1:
        encoded = dict(zip(pages["ids"].to_pylist(), pages["values"].to_pylist()))
        assert len(encoded) == len(values)
        EXPECTED[name] = [encoded[row].hex() for row in range(len(values))]


def buckets(root):
    stamp = datetime.datetime(2001, 2, 3, 4, 5, 6, tzinfo=datetime.timezone.utc)
    nan = float("nan")
    columns = {
        "bool": pa.array([True, False, None, True], pa.bool_()),
        "i8": pa.array([1, -1, None, -128], pa.int8()),
        "i16": pa.array([1, -1, None, -(2**15)], pa.int16()),
        "i32": pa.array([1, 2, 3, -(2**31)], pa.int32()),
        "i64": pa.array([1, 2, 3, -(2**63)], pa.int64()),
        "u8": pa.array([1, 255, None, 128], pa.uint8()),
        "u16": pa.array([1, 2**16 - 1, None, 2**15], pa.uint16()),
        "u32": pa.array([1, 2**32 - 1, None, 2**31], pa.uint32()),
        "u64": pa.array([1, 2**64 - 1, None, 2**63], pa.uint64()),
        "f32": pa.array([1.25, -0.0, nan, None], pa.float32()),
        "f64": pa.array([1.25, -0.0, nan, None], pa.float64()),
        "date32": pa.array([1, 0, None, -1], pa.date32()),
        "time32s": pa.array([1, 0, None, 86399], pa.time32("s")),
        "time32ms": pa.array([1, 0, None, 86399999], pa.time32("ms")),
        "time64us": pa.array([1, 0, None, 86399999999], pa.time64("us")),
        "time64ns": pa.array([1, 0, None, 86399999999999], pa.time64("ns")),
        "ts_s": pa.array([1, -1, None, stamp], pa.timestamp("s")),
        "ts_ms": pa.array([1, -1, None, stamp], pa.timestamp("ms", tz="UTC")),
        "ts_us": pa.array([1, -1, None, stamp], pa.timestamp("us")),
        "ts_ns": pa.array([1, -1, None, stamp], pa.timestamp("ns", tz="Europe/Berlin")),
        "text": pa.array(["a", "abcde", "é", None], pa.utf8()),
        "ltext": pa.array(["", "abcd", "鍵鍵鍵", "b"], pa.large_utf8()),
    }
    batch = pa.record_batch(columns)
    dataset = lance.write_dataset(pa.Table.from_batches([batch]), str(root))
    ids = {one.name(): one.id() for one in dataset.lance_schema.fields()}
    for count in [1, 4, 8, 1000]:
        for name in columns:
            spec = {
                "spec_id": 1,
                "fields": [
                    {
                        "field_id": "bucket",
                        "source_ids": [ids[name]],
                        "transform": "bucket",
                        "expression": None,
                        "result_type": "int32",
                        "parameters": {"num_buckets": str(count)},
                    }
                ],
            }
            found = evaluate_sharding_spec(batch, spec, dataset.lance_schema)
            batch = batch.append_column(f"{name}/{count}", found.column(0))
    with pa.ipc.new_stream(str(HERE / "buckets.arrow"), batch.schema) as out:
        out.write_batch(batch)


main()
