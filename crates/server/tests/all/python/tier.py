"""Tables with a write tier, through LanceDB's synchronous client, under the names that 0.40 has for it."""

import pyarrow as pa
from common import ID, KEY, SCHEMA, VECTOR, connect, end, holds, named, refused, rows, same
from lancedb import LsmWriteSpec

db = connect()


def read(table):
    return named(table.search().to_list())


def upsert(table, data):
    return table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all().execute(data)


def flushed(table):
    """The rows in the SSTables of each shard."""
    buckets = table.get_lsm_stats(include_generation_rows=True)["buckets"]
    holds(all(bucket["status"] == "Active" for bucket in buckets), buckets)
    return [sum(entry["rows"] for entry in bucket["generations"]) for bucket in buckets]


for name, spec in [
    ("one", LsmWriteSpec.unsharded()),
    ("four", LsmWriteSpec.bucket("id", 4)),
    ("each", LsmWriteSpec.identity("id")),
]:
    table = db.create_table(name, data=rows(1, 2, 3), schema=SCHEMA)
    same(table.get_lsm_write_spec(), None)
    same(table.get_lsm_stats(), None)
    refused(table.flush_lsm, "400", "no write tier")
    refused(table.unset_lsm_write_spec, "400", "no write tier")
    refused(lambda: table.search().use_lsm(True).to_list(), "400", "no write tier")
    table.set_lsm_write_spec(spec)
    refused(lambda: table.set_lsm_write_spec(spec), "400", "already")
    same(table.get_lsm_write_spec().spec_type, spec.spec_type)

    # Writes, read at once.
    done = upsert(table, rows(3, 4, name="b"))
    same((done.version, done.num_rows, done.num_inserted_rows), (0, 2, 0))
    same(table.add(rows(5, name="c")).version, 0)
    expected = {1: "a1", 2: "a2", 3: "b3", 4: "b4", 5: "c5"}
    same(read(table), expected)
    same((table.count_rows(), table.count_rows("id > 3")), (5, 2))
    done = upsert(table, pa.table({"id": [4], "name": ["part4"]}))
    same((done.num_rows, table.search().where("id = 4").to_list()[0]["vector"]), (1, [4.0, 0.0]))
    upsert(table, rows(4, name="b"))

    # Merges: upserts by the key, or into the base.
    inserts = table.merge_insert("id").when_not_matched_insert_all()
    refused(lambda: inserts.execute(rows(9)), "400", "use_lsm(false)")
    some = table.merge_insert("id").when_matched_update_all(where="target.id > 1")
    refused(lambda: some.when_not_matched_insert_all().execute(rows(9)), "400", "use_lsm(false)")
    other = table.merge_insert("name").when_matched_update_all().when_not_matched_insert_all()
    refused(lambda: other.execute(rows(9)), "400", "(id)")
    done = table.merge_insert("id").when_not_matched_insert_all().use_lsm(False).execute(rows(1, 9))
    same((done.num_inserted_rows, table.count_rows()), (1, 6))
    refused(lambda: table.add([{"id": 10, "other": 1}]))
    refused(lambda: table.add([{"id": None, "name": "x"}]))

    # Flush, statistics.
    table.flush_lsm()
    same(sum(flushed(table)), 5)  # three rows, one of them written three times
    same(read(table), {**expected, 9: "a9"})

    # Updates and deletes by condition, of rows in every tier.
    upsert(table, rows(6, name="d"))
    done = table.update(where="id IN (1, 3, 6, 77)", values={"name": "it's"})
    same((done.rows_updated, done.version), (3, 0))
    same(table.update(where="name = 'c5'", values_sql={"name": "upper(name)"}).rows_updated, 1)
    same(table.update(where="id = 2", values={"vector": [7.0, 7.0], "name": None}).rows_updated, 1)
    same(table.update(where="name = 'b3'", values={"name": "x"}).rows_updated, 0)
    same(table.search().where("id = 2").to_list()[0]["vector"], [7.0, 7.0])
    done = table.delete("id = 9 OR name = 'b4'")
    same(done.version, 0)
    left = {1: "it's", 2: None, 3: "it's", 5: "C5", 6: "it's"}
    same(read(table), left)
    refused(lambda: table.update(where="nope = 1", values={"name": "x"}), "400", "nope")
    refused(lambda: table.update(where="id = 1", values_sql={"name": "nope || 'x'"}), "400", "nope")
    refused(lambda: table.update(where="id = 1", values={"nope": 1}), "400", "nope")
    refused(lambda: table.update(where="id = 1", values={"name": 1, "id": None}), "400", "id")
    refused(lambda: table.update(where="id = 1", values={"vector": [1.0, 2.0, 3.0]}), "400", "vector")
    refused(lambda: table.delete("nope = 1"), "400", "nope")
    refused(lambda: table.delete("id ="), "400")
    same(read(table), left)
    table.flush_lsm()
    same(read(table), left)

    # What is not there yet, or not while there is a tier.
    refused(table.compact_lsm, "501")
    refused(table.checkpoint_lsm, "501")
    refused(table.unset_lsm_write_spec, "400", "rows")
    refused(lambda: table.add(rows(1), mode="overwrite"), "400", "overwrite")
    refused(lambda: table.add_columns({"x": "id"}), "400", "write tier")
    refused(lambda: table.alter_columns({"path": "name", "rename": "x"}), "400", "write tier")
    refused(lambda: table.drop_columns(["name"]), "400", "write tier")

# Specs that cannot be.
table = db.create_table("t", data=rows(1), schema=SCHEMA)
refused(lambda: table.set_lsm_write_spec(LsmWriteSpec.bucket("nope", 4)), "400", "nope")
refused(lambda: table.set_lsm_write_spec(LsmWriteSpec.bucket("id", 2000)), "400", "1024")
unknown = LsmWriteSpec.unsharded().with_maintained_indexes(["nope"])
refused(lambda: table.set_lsm_write_spec(unknown), "400", "nope")
wrong = LsmWriteSpec.unsharded().with_writer_config_defaults({"max_memtable_rows": "many"})
refused(lambda: table.set_lsm_write_spec(wrong), "400", "max_memtable_rows")
same(table.get_lsm_write_spec(), None)
defaults = {"max_memtable_rows": "5000"}
table.create_scalar_index("name")
told = LsmWriteSpec.bucket("id", 4).with_maintained_indexes(["name_idx"])
table.set_lsm_write_spec(told.with_writer_config_defaults(defaults))
told = table.get_lsm_write_spec()
same((told.maintained_indexes, told.writer_config_defaults), (["name_idx"], defaults))
same((told.column, told.num_buckets), ("id", 4))

# Without a key, rows are added; with one of several columns, it is all of them that count.
table = db.create_table("keyless", schema=pa.schema([("id", pa.int64()), ("name", pa.string()), VECTOR]))
table.set_lsm_write_spec(LsmWriteSpec.unsharded())
table.add(rows(1, 1))
same(table.count_rows(), 2)
refused(lambda: upsert(table, rows(1)), "400", "no key")
second = {b"lance-schema:unenforced-primary-key:position": b"2"}
pair = pa.schema([ID, pa.field("name", pa.string(), metadata=second), ("value", pa.int64())])
table = db.create_table("pairs", data=[{"id": 1, "name": "a", "value": 1}], schema=pair)
table.set_lsm_write_spec(LsmWriteSpec.unsharded())
merge = table.merge_insert(["id", "name"]).when_matched_update_all().when_not_matched_insert_all()
merge.execute([{"id": 1, "name": "a", "value": 2}, {"id": 1, "name": "b", "value": 3}])
same({row["name"]: row["value"] for row in table.search().to_list()}, {"a": 2, "b": 3})
refused(lambda: upsert(table, [{"id": 1, "name": "a", "value": 2}]), "400", "(id, name)")

# The key as an edit of metadata; it is for good.
table = db.create_table("late", schema=pa.schema([("id", pa.int64()), ("name", pa.string()), VECTOR]))
mark = {key.decode(): value.decode() for key, value in KEY.items()}
table.update_field_metadata({"path": "id", "metadata": mark})
refused(lambda: table.update_field_metadata({"path": "name", "metadata": mark}), "400")
table.set_lsm_write_spec(LsmWriteSpec.unsharded())
upsert(table, rows(1, 1))
same(table.count_rows(), 1)

# A tier without rows goes, and comes again; a table made anew has nothing of the old one.
table = db.create_table("empty", schema=SCHEMA)
table.set_lsm_write_spec(LsmWriteSpec.unsharded())
table.unset_lsm_write_spec()
same(table.get_lsm_write_spec(), None)
table.set_lsm_write_spec(LsmWriteSpec.unsharded())
table.add(rows(1))
same(table.count_rows(), 1)
table = db.create_table("empty", data=rows(7), schema=SCHEMA, mode="overwrite")
same((read(table), table.get_lsm_write_spec()), ({7: "a7"}, None))
for name in db.table_names():
    db.drop_table(name)
same(db.table_names(), [])
refused(lambda: read(table), "empty")
end()
