"""Tables with a write tier, through LanceDB's clients, under the names that 0.40 has for it."""

import asyncio
import sys

import lancedb
import pyarrow as pa
from lancedb import LsmWriteSpec

KEY = {b"lance-schema:unenforced-primary-key:position": b"1"}
schema = pa.schema([pa.field("id", pa.int64(), metadata=KEY), ("name", pa.string())])
db = lancedb.connect("db://demo", api_key="sk_local", host_override=sys.argv[1])


def rows(*ids, name="a"):
    return [{"id": n, "name": f"{name}{n}"} for n in ids]


def read(table):
    return {row["id"]: row["name"] for row in table.search().limit(1000).to_list()}


def refused(work, *words):
    try:
        work()
    except Exception as error:  # the client has no common class for what a server says
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return
    raise AssertionError(f"it was not refused: {words}")


def upsert(table, data):
    return table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)


for name, spec in [("one", LsmWriteSpec.unsharded()), ("four", LsmWriteSpec.bucket("id", 4))]:
    table = db.create_table(name, data=rows(1, 2, 3), schema=schema)
    assert table.get_lsm_write_spec() is None
    assert table.get_lsm_stats() is None
    table.set_lsm_write_spec(spec)
    refused(lambda: table.set_lsm_write_spec(spec), "already")
    assert table.get_lsm_write_spec().spec_type == spec.spec_type

    # Writes, read at once.
    done = upsert(table, rows(3, 4, name="b"))
    assert (done.version, done.num_rows) == (0, 2), done
    table.add(rows(5, name="c"))
    expected = {1: "a1", 2: "a2", 3: "b3", 4: "b4", 5: "c5"}
    assert read(table) == expected, read(table)
    assert table.count_rows() == 5
    assert table.count_rows("id > 3") == 2
    assert [row["name"] for row in table.search().where("id = 3").select(["name"]).to_list()] == ["b3"]

    # The base alone.
    base = table.search().use_lsm(False).limit(100).to_list()
    assert sorted(row["id"] for row in base) == [1, 2, 3]
    inserts = table.merge_insert("id").when_not_matched_insert_all()
    refused(lambda: inserts.execute(rows(9)), "use_lsm(false)")

    # Flush, statistics.
    table.flush_lsm()
    stats = table.get_lsm_stats(include_generation_rows=True)
    assert sum(entry["rows"] for bucket in stats["buckets"] for entry in bucket["generations"]) == 3, stats
    assert all(bucket["status"] == "Active" for bucket in stats["buckets"]), stats
    assert read(table) == expected
    refused(table.compact_lsm, "501")
    refused(table.unset_lsm_write_spec, "rows")
    upsert(table, rows(1, name="d"))
    assert read(table) == {**expected, 1: "d1"}

# Many clients at once.
async def at_once():
    db = await lancedb.connect_async("db://demo", api_key="sk_local", host_override=sys.argv[1])
    table = await db.open_table("four")

    async def write(n):
        merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
        await merge.execute(rows(1000 + n, 5000, name=f"w{n}-"))

    await asyncio.gather(*[write(n) for n in range(16)])
    assert await table.count_rows("id >= 1000") == 17


asyncio.run(at_once())

# A tier without rows goes, and comes again.
table = db.create_table("empty", schema=schema)
table.set_lsm_write_spec(LsmWriteSpec.unsharded())
table.unset_lsm_write_spec()
assert table.get_lsm_write_spec() is None
table.set_lsm_write_spec(LsmWriteSpec.unsharded())
table.add(rows(1))
assert table.count_rows() == 1
db.drop_table("one")
db.drop_table("four")
db.drop_table("empty")
assert db.table_names() == []
print("ok")
