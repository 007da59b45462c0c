"""Tables with a write tier, through LanceDB's asynchronous client, under the names that 0.40 has for it."""

import asyncio

from common import SCHEMA, connect_async, end, holds, named, refused_async, rows, same
from lancedb import LsmWriteSpec


async def read(table):
    return named(await table.query().to_list())


def upsert(table, data):
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    return merge.execute(data)


async def one(db, name, spec):
    table = await db.create_table(name, data=rows(1, 2, 3), schema=SCHEMA)
    same(await table.get_lsm_write_spec(), None)
    same(await table.get_lsm_stats(), None)
    await refused_async(table.flush_lsm(), "400", "no write tier")
    await table.set_lsm_write_spec(spec)
    await refused_async(table.set_lsm_write_spec(spec), "400", "already")
    same((await table.get_lsm_write_spec()).spec_type, spec.spec_type)

    # Writes, read at once.
    done = await upsert(table, rows(3, 4, name="b"))
    same((done.version, done.num_rows), (0, 2))
    same((await table.add(rows(5, name="c"))).version, 0)
    same(await read(table), {1: "a1", 2: "a2", 3: "b3", 4: "b4", 5: "c5"})
    same((await table.count_rows(), await table.count_rows("id > 3")), (5, 2))
    inserts = table.merge_insert("id").when_not_matched_insert_all()
    await refused_async(inserts.execute(rows(9)), "400", "use_lsm(false)")
    done = await table.merge_insert("id").when_not_matched_insert_all().use_lsm(False).execute(rows(9))
    same((done.num_inserted_rows, await table.count_rows()), (1, 6))
    await table.flush_lsm()
    stats = await table.get_lsm_stats(include_generation_rows=True)
    same(sum(entry["rows"] for bucket in stats["buckets"] for entry in bucket["generations"]), 3)

    # Updates and deletes by condition, of rows in every tier.
    await upsert(table, rows(6, name="d"))
    done = await table.update({"name": "it's"}, where="id IN (1, 3, 6, 77)")
    same((done.rows_updated, done.version), (3, 0))
    done = await table.update(updates_sql={"name": "upper(name)"}, where="name = 'c5'")
    same(done.rows_updated, 1)
    same((await table.delete("id = 9 OR name = 'b4'")).version, 0)
    left = {1: "it's", 2: "a2", 3: "it's", 5: "C5", 6: "it's"}
    same(await read(table), left)
    await refused_async(table.update({"name": "x"}, where="nope = 1"), "400", "nope")
    await refused_async(table.update({"nope": 1}, where="id = 1"), "400", "nope")
    await refused_async(table.update({"vector": [1.0, 2.0, 3.0]}, where="id = 1"), "400", "vector")
    await refused_async(table.delete("nope = 1"), "400", "nope")
    await table.flush_lsm()
    same(await read(table), left)

    # What is not there yet, or not while there is a tier.
    await refused_async(table.compact_lsm(), "501")
    await refused_async(table.checkpoint_lsm(), "501")
    await refused_async(table.unset_lsm_write_spec(), "400", "rows")
    await refused_async(table.add(rows(1), mode="overwrite"), "400", "overwrite")
    await refused_async(table.drop_columns(["name"]), "400", "write tier")


async def at_once(table):
    """Many clients: one key of them all, and one of each."""
    await asyncio.gather(*[upsert(table, rows(1000 + n, 5000, name=f"w{n}-")) for n in range(16)])
    same(await table.count_rows("id >= 1000"), 17)

    # Rows are counted up by conditional writes: none is lost.
    await upsert(table, [{"id": 0, "name": "", "vector": [0.0, 0.0]}])
    one_more = [table.update(updates_sql={"name": "name || 'x'"}, where="id = 0") for _ in range(8)]
    same([done.rows_updated for done in await asyncio.gather(*one_more)], [1] * 8)
    same((await table.query().where("id = 0").to_list())[0]["name"], "x" * 8)

    # Reads while rows are written and flushed see each of the two rows of a write, or none.
    async def writes():
        for n in range(10):
            await upsert(table, rows(7000, 7001, name=f"r{n}-"))
            await table.flush_lsm()

    async def reads():
        for _ in range(20):
            found = await table.query().where("id IN (7000, 7001)").to_list()
            holds(len(found) in (0, 2), found)

    await asyncio.gather(writes(), reads())


async def main():
    db = await connect_async()
    await one(db, "one", LsmWriteSpec.unsharded())
    await one(db, "four", LsmWriteSpec.bucket("id", 4))
    await at_once(await db.open_table("four"))
    for name in await db.table_names():
        await db.drop_table(name)
    same(await db.table_names(), [])


asyncio.run(main())
end()
