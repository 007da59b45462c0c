"""Tables without a write tier, through LanceDB's asynchronous client."""

import asyncio
import sys

import lancedb
import pyarrow as pa


async def main():
    db = await lancedb.connect_async("db://demo", api_key="sk_local", host_override=sys.argv[1])
    schema = pa.schema([("id", pa.int64()), ("vector", pa.list_(pa.float32(), 2))])
    rows = [{"id": n, "vector": [n, 1.0]} for n in range(20)]
    table = await db.create_table("t", data=rows, schema=schema)
    assert await db.table_names() == ["t"]
    table = await db.open_table("t")
    assert await table.schema() == schema

    def batches():
        for n in range(20, 30):
            vector = pa.array([[float(n), 1.0]], pa.list_(pa.float32(), 2))
            yield pa.record_batch([pa.array([n]), vector], schema=schema)

    await table.add(pa.RecordBatchReader.from_batches(schema, batches()))
    assert await table.count_rows() == 30
    near = await table.query().nearest_to([7.1, 1.0]).limit(2).to_list()
    assert [row["id"] for row in near] == [7, 8], near
    found = await table.query().where("id > 25").select(["id"]).to_arrow()
    assert sorted(found["id"].to_pylist()) == [26, 27, 28, 29]
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    done = await merge.execute([{"id": 1, "vector": [0.0, 0.0]}, {"id": 99, "vector": [0.0, 0.0]}])
    assert (done.num_updated_rows, done.num_inserted_rows) == (1, 1), done
    done = await table.update(updates_sql={"id": "id + 1"}, where="id = 99")
    assert done.rows_updated == 1
    await table.delete("id = 100")
    assert await table.count_rows() == 30

    # Many at once.
    one = [table.add([{"id": 1000 + n, "vector": [0.0, 0.0]}]) for n in range(8)]
    await asyncio.gather(*one)
    counts = await asyncio.gather(*[table.count_rows("id >= 1000") for _ in range(8)])
    assert counts == [8] * 8, counts
    await db.drop_table("t")
    assert await db.table_names() == []


asyncio.run(main())
print("ok")
