"""Reads of base, SSTables and memtables together, through LanceDB's synchronous client."""

from common import SCHEMA, connect, end, holds, ids, named, refused, rows, same
from lancedb import LsmWriteSpec
from lancedb.query import ColumnOrdering

db = connect()

for name, spec in [("one", LsmWriteSpec.unsharded()), ("four", LsmWriteSpec.bucket("id", 4))]:
    # A third in the base, a third in SSTables, a third in memtables; 3 and 13 twice, 5 deleted.
    table = db.create_table(name, data=rows(*range(10)), schema=SCHEMA)
    table.create_scalar_index("name")
    table.set_lsm_write_spec(spec)
    upsert = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    upsert.execute(rows(*range(10, 20), 3, name="b"))
    table.flush_lsm()
    upsert.execute(rows(*range(20, 30), 13, name="c"))
    table.delete("id = 5")

    # Filters, columns, orders, limits.
    same((table.count_rows(), len(table.search().to_list())), (29, 29))
    same(named(table.search().where("id IN (3, 5, 13)").to_list()), {3: "b3", 13: "c13"})
    same(table.search().where("name IN ('a3', 'b13', 'a5')").to_list(), [])
    same(table.count_rows("name LIKE 'c%'"), 11)
    found = table.search().where("id < 20").select(["name"]).limit(4).to_arrow()
    same((found.column_names, found.num_rows), (["name"], 4))
    found = table.search().select({"z": "id * 10", "name": "upper(name)"}).where("id = 13").to_list()
    same(found, [{"z": 130, "name": "C13"}])
    down = [ColumnOrdering(column_name="id", ascending=False)]
    same(ids(table.search().order_by(down).limit(3).offset(2).to_list()), [27, 26, 25])
    up = [ColumnOrdering(column_name="id")]
    same(ids(table.search().where("id > 3").order_by(up).limit(2).to_list()), [4, 6])
    same(sum(batch.num_rows for batch in table.search().to_batches(10)), 29)
    same(table.head(3).num_rows, 3)
    same(sorted(ids(table.search().use_lsm(False).limit(100).to_list())), list(range(10)))
    same(len(table.search().use_lsm(True).limit(100).to_list()), 29)

    # Vectors.
    same(ids(table.search([5.2, 0.0]).limit(3).to_list()), [6, 4, 7])
    near = table.search([13.2, 0.0]).select(["name"]).limit(1).to_list()
    same(near[0]["name"], "c13")
    holds(abs(near[0]["_distance"] - 0.04) < 1e-4, near)
    same(ids(table.search([13.2, 0.0]).where("id != 13").limit(2).to_list()), [14, 12])
    after = table.search([13.2, 0.0]).where("id != 13", prefilter=False).limit(2).to_list()
    same(ids(after), [14])
    near = table.search([20.1, 0.0]).distance_range(lower_bound=0.5, upper_bound=2.0).limit(9).to_list()
    same(ids(near), [21, 19])
    same(table.search([7.0, 0.0]).metric("cosine").where("id = 23").limit(1).to_list()[0]["_distance"], 0)
    same(ids(table.search([1.0, 0.0]).metric("dot").limit(2).to_list()), [29, 28])
    same(ids(table.search([1.1, 0.0]).limit(2).offset(1).to_list()), [2, 0])
    near = table.search([[1.1, 0.0], [13.1, 0.0], [29.1, 0.0]]).limit(1).to_list()
    same(sorted((row["query_index"], row["id"]) for row in near), [(0, 1), (1, 13), (2, 29)])
    same(ids(table.search([5.2, 0.0]).use_lsm(False).limit(1).to_list()), [5])
    near = table.search([13.2, 0.0]).select({"z": "id * 10"}).limit(1).to_list()
    same(near[0]["z"], 130)

    # Plans, statistics, indexes; those of the base are those of a plain table.
    holds("id" in table.search().where("id = 1").explain_plan(True), "a plan")
    holds(table.search([1.0, 2.0]).limit(1).explain_plan(), "a plan")
    holds("output_rows" in table.search([1.0, 2.0]).limit(1).analyze_plan(), "what it took")
    same(table.stats()["num_rows"], 10)
    holds(len(table.list_versions()) >= 2)
    same(sorted(index.name for index in table.list_indices()), ["headwater_key", "name_idx"])
    same(table.index_stats("name_idx").num_indexed_rows, 10)
    table.create_index(metric="l2", num_partitions=1, vector_column_name="vector", index_type="IVF_FLAT")
    same(ids(table.search([5.2, 0.0]).limit(3).to_list()), [6, 4, 7])
    table.drop_index("vector_idx")
    refused(lambda: table.drop_index("vector_idx"), "vector_idx")

    # What is wrong, or not done.
    refused(lambda: table.search().where("nope = 1").to_list(), "400", "nope")
    refused(lambda: table.search().where("id + 1").to_list(), "400")
    refused(lambda: table.search().select(["nope"]).to_list(), "nope")
    refused(lambda: table.search().select({"x": "nope + 1"}).to_list(), "400", "nope")
    refused(lambda: table.count_rows("nope = 1"), "400", "nope")
    refused(lambda: table.search([1.0, 2.0, 3.0]).limit(1).to_list(), "400", "vector")
    refused(lambda: table.search([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]).limit(1).to_list(), "400", "vector")
    refused(lambda: table.search([1.0, 2.0], vector_column_name="name").to_list(), "400", "name")
    refused(lambda: table.search([1.0, 2.0], vector_column_name="nope").to_list(), "nope")
    refused(lambda: table.search().with_row_id(True).to_list(), "400", "does not support with_row_id")
    refused(lambda: table.take_row_ids([1]).to_list(), "400")
    refused(lambda: table.search("a1", query_type="fts").to_list(), "400", "full-text search")
    # Refused for the row ids first, asked again without, and then for what is not there yet.
    both = table.search(query_type="hybrid").vector([1.0, 0.0]).text("a1").limit(1)
    refused(both.to_list, "400", "full-text search")
    table.checkout(1)
    refused(lambda: table.search().to_list(), "400", "use_lsm(false)")
    refused(table.count_rows, "400", "use_lsm(false)")
    same(len(table.search().use_lsm(False).limit(100).to_list()), 10)
    table.checkout_latest()
    same(table.count_rows(), 29)
    db.drop_table(name)
end()
