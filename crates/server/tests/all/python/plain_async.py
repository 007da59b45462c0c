"""Tables without a write tier, through LanceDB's asynchronous client."""

import asyncio
from datetime import timedelta

import pyarrow as pa
from common import connect_async, end, holds, ids, named, refused_async, rows, same
from lancedb.index import FTS, BTree, IvfFlat
from lancedb.query import ColumnOrdering

schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("vector", pa.list_(pa.float32(), 2))])


async def creation(db):
    table = await db.create_table("t", data=rows(*range(20)), schema=schema)
    same(await db.table_names(), ["t"])
    same((await db.list_tables()).tables, ["t"])
    await refused_async(db.create_table("t", data=rows(1), schema=schema), "already exists")
    await db.create_table("t", data=rows(1), schema=schema, exist_ok=True)
    await refused_async(db.open_table("none"), "none")
    table = await db.open_table("t")
    same(await table.schema(), schema)

    def batches():
        for n in range(20, 30):
            yield pa.RecordBatch.from_pylist(rows(n), schema=schema)

    await table.add(pa.RecordBatchReader.from_batches(schema, batches()))
    same(await table.count_rows(), 30)
    same(await table.count_rows("id >= 20"), 10)
    await refused_async(table.count_rows("nope = 1"), "400", "nope")
    return table


async def queries(table):
    found = await table.query().where("id > 25").select(["id"]).to_arrow()
    same((found.column_names, sorted(found["id"].to_pylist())), (["id"], [26, 27, 28, 29]))
    found = await table.query().select({"double": "id * 2"}).where("id = 7").to_list()
    same(found, [{"double": 14}])
    down = [ColumnOrdering(column_name="id", ascending=False)]
    same(ids(await table.query().order_by(down).limit(3).offset(1).to_list()), [28, 27, 26])
    with_id = await table.query().where("id = 3").with_row_id().to_list()
    same(ids(await table.take_row_ids([with_id[0]["_rowid"]]).to_list()), [3])
    same(ids(await table.take_offsets([1, 2]).to_list()), [1, 2])
    stream = await table.query().to_batches(max_batch_length=7)
    same(sum([batch.num_rows async for batch in stream]), 30)
    await refused_async(table.query().where("nope = 1").to_list(), "400", "nope")
    await refused_async(table.query().select(["nope"]).to_list(), "nope")
    near = table.query().nearest_to([7.1, 0.0])
    same(ids(await near.limit(2).to_list()), [7, 8])
    near = table.query().nearest_to([7.1, 0.0]).where("id < 7")
    same(ids(await near.limit(2).to_list()), [6, 5])
    near = table.query().nearest_to([7.1, 0.0]).where("id < 8").postfilter()
    same(ids(await near.limit(3).to_list()), [7, 6])
    near = table.query().nearest_to([7.1, 0.0]).distance_range(0.1, 2.0)
    same(ids(await near.limit(9).to_list()), [8, 6])
    near = table.query().nearest_to([7.1, 0.0]).distance_type("cosine").limit(1)
    same((await near.to_list())[0]["_distance"], 0)
    several = await table.query().nearest_to([[1.1, 0.0], [9.1, 0.0]]).limit(1).to_list()
    same(sorted((row["query_index"], row["id"]) for row in several), [(0, 1), (1, 9)])
    await refused_async(table.query().nearest_to([1.0, 2.0, 3.0]).to_list(), "400", "vector")
    holds("id" in await table.query().where("id = 1").explain_plan(True), "a plan")
    holds("output_rows" in await near.analyze_plan(), "what it took")


async def changes(table):
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    done = await upsert.execute(rows(1, 99, name="merged"))
    same((done.num_updated_rows, done.num_inserted_rows), (1, 1))
    found = await table.query().where("id IN (1, 99)").to_list()
    same(named(found), {1: "merged1", 99: "merged99"})
    done = await table.update(updates_sql={"id": "id + 1"}, where="id = 99")
    same(done.rows_updated, 1)
    done = await table.update({"name": "it's"}, where="id = 100")
    same((done.rows_updated, await table.count_rows("name = 'it''s'")), (1, 1))
    await refused_async(table.update({"nope": 1}, where="id = 1"), "400", "nope")
    done = await table.delete("id = 100")
    same((await table.count_rows(), done.version), (30, await table.version()))
    await refused_async(table.delete("nope = 1"), "400", "nope")
    await asyncio.gather(*[table.add(rows(1000 + n)) for n in range(8)])
    same(await asyncio.gather(*[table.count_rows("id >= 1000") for _ in range(8)]), [8] * 8)


async def indexes(table):
    await table.create_index("id", config=BTree())
    await table.create_index("name", config=FTS())
    await table.create_index("vector", config=IvfFlat(num_partitions=1))
    names = ["id_idx", "name_idx", "vector_idx"]
    await table.wait_for_index(names, timeout=timedelta(seconds=30))
    same(sorted(index.name for index in await table.list_indices()), names)
    stats = await table.index_stats("id_idx")
    same((stats.num_indexed_rows, stats.num_unindexed_rows), (38, 0))
    same(await table.index_stats("none"), None)
    same(ids(await table.query().nearest_to_text("a17").limit(5).to_list()), [17])
    both = table.query().nearest_to([18.1, 0.0]).nearest_to_text("a18").limit(3)
    same((await both.to_list())[0]["id"], 18)
    await table.drop_index("name_idx")
    await refused_async(table.drop_index("none"), "none")
    await refused_async(table.create_index("nope", config=BTree()), "nope")


async def columns_and_versions(table):
    await table.add_columns({"double": "id * 2"})
    await table.alter_columns({"path": "double", "rename": "twice"})
    same((await table.query().where("id = 4").to_list())[0]["twice"], 8)
    await table.drop_columns(["twice"])
    same((await table.schema()).names, ["id", "name", "vector"])
    await refused_async(table.drop_columns(["nope"]), "400", "nope")
    versions = [version["version"] for version in await table.list_versions()]
    same(versions, list(range(1, await table.version() + 1)))
    await table.checkout(1)
    same(await table.count_rows(), 20)
    await table.checkout_latest()
    same(await table.count_rows(), 38)
    stats = await table.stats()
    same((stats["num_rows"], stats["num_indices"]), (38, 2))


async def main():
    db = await connect_async()
    table = await creation(db)
    await queries(table)
    await changes(table)
    await indexes(table)
    await columns_and_versions(table)
    await table.add(rows(1, 2), mode="overwrite")
    same(await table.count_rows(), 2)
    await db.drop_table("t")
    await db.drop_table("none")
    same(await db.table_names(), [])
    await refused_async(table.count_rows(), "t")


asyncio.run(main())
end()
