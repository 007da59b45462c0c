"""Tables without a write tier, through LanceDB's synchronous client."""

import sys
from datetime import timedelta

import lancedb
import pyarrow as pa

db = lancedb.connect("db://demo", api_key="sk_local", host_override=sys.argv[1])


def ids(rows):
    return sorted(row["id"] for row in rows)


def refused(work, *words):
    try:
        work()
    except Exception as error:  # the client has no common class for what a server says
        for word in words:
            assert word in str(error), f"{word!r} is not in: {error}"
        return
    raise AssertionError(f"it was not refused: {words}")


# Create, open, list.
schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("vector", pa.list_(pa.float32(), 4))])
rows = [{"id": n, "name": f"n{n}", "vector": [n, 0.0, 0.0, 1.0]} for n in range(50)]
table = db.create_table("t", data=rows, schema=schema)
assert db.table_names() == ["t"], db.table_names()
assert list(db.list_tables().tables) == ["t"]
refused(lambda: db.create_table("t", data=rows), "already exists")
db.create_table("t", data=rows, schema=schema, exist_ok=True)
db.create_table("empty", schema=schema)
assert db.table_names() == ["empty", "t"]
assert db.open_table("empty").count_rows() == 0
refused(lambda: db.open_table("none"), "none")
table = db.open_table("t")
assert table.schema == schema, table.schema

# Add, count.
table.add([{"id": 100, "name": "more", "vector": [1.0] * 4}])
vector = pa.array([[2.0] * 4], pa.list_(pa.float32(), 4))
table.add(pa.table({"id": [101], "name": ["arrow"], "vector": vector}))
assert table.count_rows() == 52
assert table.count_rows("id >= 100") == 2
assert table.version == 3, table.version

# Query: filter, columns, limit, offset, order, row ids.
found = table.search().where("id < 3").to_list()
assert ids(found) == [0, 1, 2]
found = table.search().where("id < 10").select(["name"]).limit(4).to_arrow()
assert found.column_names == ["name"] and found.num_rows == 4
found = table.search().select({"double": "id * 2", "id": "id"}).where("id = 7").to_arrow()
assert found.column_names == ["double", "id"] and found["double"].to_pylist() == [14]
assert ids(table.search().where('"name" = \'more\'').to_list()) == [100]
assert table.search().to_arrow().num_rows == 52, "no limit is no limit"
with_id = table.search().where("id = 3").with_row_id(True).to_arrow()
assert "_rowid" in with_id.column_names
assert ids(table.take_row_ids(with_id["_rowid"].to_pylist()).to_list()) == [3]
assert ids(table.take_offsets([1, 2]).to_list()) == [1, 2]
assert table.head(3).num_rows == 3

# Vectors.
near = table.search([5.2, 0.0, 0.0, 1.0]).limit(3).to_list()
assert [row["id"] for row in near] == [5, 6, 4], near
assert abs(near[0]["_distance"] - 0.04) < 1e-4
near = table.search([5.2, 0.0, 0.0, 1.0]).where("id < 4").limit(2).to_list()
assert [row["id"] for row in near] == [3, 2]
near = table.search([5.2, 0.0, 0.0, 1.0]).metric("cosine").limit(1).to_list()
assert len(near) == 1
near = table.search([5.2, 0.0, 0.0, 1.0]).distance_range(upper_bound=1.0).limit(10).to_list()
assert ids(near) == [5, 6]
near = table.search([[1.0, 0.0, 0.0, 1.0], [9.0, 0.0, 0.0, 1.0]]).limit(2).to_arrow()
assert near.num_rows == 4 and "query_index" in near.column_names
refused(lambda: table.search([1.0, 2.0]).limit(1).to_list())

# Merge, update, delete.
done = (
    table.merge_insert("id")
    .when_matched_update_all()
    .when_not_matched_insert_all()
    .execute([{"id": n, "name": name, "vector": [0.0] * 4} for n, name in [(1, "merged"), (200, "new")]])
)
assert (done.num_updated_rows, done.num_inserted_rows) == (1, 1), done
assert table.search().where("id = 1").to_list()[0]["name"] == "merged"
done = table.update(where="id >= 100", values={"name": "it's"})
assert done.rows_updated == 3, done
done = table.update(where="id = 2", values_sql={"id": "id + 1000"})
assert done.rows_updated == 1
assert table.count_rows("name = 'it''s'") == 3
done = table.delete("id >= 100")
assert table.count_rows() == 49
assert done.version == table.version

# Indexes and text.
table.create_scalar_index("id")
table.create_fts_index("name")
table.wait_for_index(["id_idx", "name_idx"], timeout=timedelta(seconds=30))
kinds = {index.name: (index.index_type, index.columns) for index in table.list_indices()}
assert kinds["id_idx"][1] == ["id"], kinds
stats = table.index_stats("id_idx")
assert stats.num_indexed_rows == 49 and stats.num_unindexed_rows == 0, stats
assert table.index_stats("none") is None
found = table.search("n17", query_type="fts").limit(5).to_list()
assert [row["id"] for row in found] == [17], found
table.drop_index("name_idx")
refused(lambda: table.drop_index("none"), "none")

# Columns.
table.add_columns({"double": "id * 2"})
table.alter_columns({"path": "double", "rename": "twice"})
assert table.schema.names == ["id", "name", "vector", "twice"]
table.drop_columns(["twice"])
assert table.schema.names == ["id", "name", "vector"]

# Versions, plans, statistics.
assert len(table.list_versions()) > 5
table.checkout(1)
assert table.count_rows() == 50
table.checkout_latest()
assert table.count_rows() == 49
assert "id" in table.search().where("id = 1").explain_plan(True)
assert table.stats()["num_rows"] == 49

# Overwrite, drop.
table.add(rows[:5], mode="overwrite")
assert table.count_rows() == 5
db.create_table("t", data=rows[:2], schema=schema, mode="overwrite")
assert db.open_table("t").count_rows() == 2
db.drop_table("t")
db.drop_table("none")
assert db.table_names() == ["empty"]

# Databases know nothing of each other.
other = lancedb.connect("db://other", api_key="sk_local", host_override=sys.argv[1] + "/")
assert other.table_names() == []
print("ok")
