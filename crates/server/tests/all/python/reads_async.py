"""Reads of base, SSTables and memtables together, through LanceDB's asynchronous client."""

import asyncio

from common import SCHEMA, connect_async, end, holds, ids, named, refused_async, rows, same
from lancedb import LsmWriteSpec
from lancedb.query import ColumnOrdering


async def over_all_tiers(db):
    """A third in the base, a third in SSTables, a third in memtables; 3 and 13 twice, 5 deleted."""
    table = await db.create_table("t", data=rows(*range(10)), schema=SCHEMA)
    await table.set_lsm_write_spec(LsmWriteSpec.bucket("id", 4))
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    await upsert.execute(rows(*range(10, 20), 3, name="b"))
    await table.flush_lsm()
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    await upsert.execute(rows(*range(20, 30), 13, name="c"))
    await table.delete("id = 5")
    return table


async def rows_and_columns(table):
    same((await table.count_rows(), len(await table.query().to_list())), (29, 29))
    found = await table.query().where("id IN (3, 5, 13)").to_list()
    same(named(found), {3: "b3", 13: "c13"})
    found = await table.query().where("id < 20").select(["name"]).limit(4).to_arrow()
    same((found.column_names, found.num_rows), (["name"], 4))
    found = await table.query().select({"z": "id * 10", "name": "upper(name)"}).where("id = 13").to_list()
    same(found, [{"z": 130, "name": "C13"}])
    down = [ColumnOrdering(column_name="id", ascending=False)]
    same(ids(await table.query().order_by(down).limit(3).offset(2).to_list()), [27, 26, 25])
    stream = await table.query().to_batches(max_batch_length=7)
    same(sum([batch.num_rows async for batch in stream]), 29)
    same(len(await table.query().use_lsm(False).limit(100).to_list()), 10)
    same(len(await table.query().use_lsm(True).limit(100).to_list()), 29)
    holds("id" in await table.query().where("id = 1").explain_plan(True), "a plan")
    same((await table.stats())["num_rows"], 10)


async def nearest(table):
    def near(*vector):
        return table.query().nearest_to([float(x) for x in vector])

    same(ids(await near(5.2, 0).limit(3).to_list()), [6, 4, 7])
    same(ids(await near(13.2, 0).where("id != 13").limit(2).to_list()), [14, 12])
    same(ids(await near(13.2, 0).where("id != 13").postfilter().limit(2).to_list()), [14])
    same(ids(await near(20.1, 0).distance_range(0.5, 2.0).limit(9).to_list()), [21, 19])
    same((await near(1, 0).distance_type("cosine").where("id = 23").to_list())[0]["_distance"], 0)
    same(ids(await near(1, 0).distance_type("dot").limit(2).to_list()), [29, 28])
    same(ids(await near(5.2, 0).use_lsm(False).limit(1).to_list()), [5])
    several = await table.query().nearest_to([[1.1, 0.0], [29.1, 0.0]]).limit(1).to_list()
    same(sorted((row["query_index"], row["id"]) for row in several), [(0, 1), (1, 29)])
    holds("output_rows" in await near(1, 0).limit(1).analyze_plan(), "what it took")


async def refusals(table):
    await refused_async(table.query().where("nope = 1").to_list(), "400", "nope")
    await refused_async(table.query().select(["nope"]).to_list(), "nope")
    await refused_async(table.query().nearest_to([1.0, 2.0, 3.0]).to_list(), "400", "vector")
    await refused_async(table.query().nearest_to([1.0, 2.0]).column("name").to_list(), "400", "name")
    await refused_async(table.query().with_row_id().to_list(), "400", "does not support with_row_id")
    await refused_async(table.query().nearest_to_text("a1").to_list(), "400", "full-text search")
    both = table.query().nearest_to([1.0, 2.0]).nearest_to_text("a1")
    await refused_async(both.to_list(), "400", "full-text search")
    await table.checkout(1)
    await refused_async(table.query().to_list(), "400", "use_lsm(false)")
    await table.checkout_latest()
    same(await table.count_rows(), 29)


async def main():
    db = await connect_async()
    table = await over_all_tiers(db)
    await rows_and_columns(table)
    await nearest(table)
    await refusals(table)
    await db.drop_table("t")


asyncio.run(main())
end()
