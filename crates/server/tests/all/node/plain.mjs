// Tables without a write tier, through LanceDB's Node client.

import { column, connect, end, holds, lancedb, plain } from "./common.mjs";
import { range, read, refused, rows, same, schema, url } from "./common.mjs";

const db = await connect();

// Create, open, list.
let table = await db.createTable("t", rows(range(0, 50)));
await db.createEmptyTable("empty", schema());
same(await db.tableNames(), ["empty", "t"]);
same((await db.listTables()).tables, ["empty", "t"]);
same(await db.tableNames({ limit: 1, startAfter: "empty" }), ["t"]);
same(await (await db.openTable("empty")).countRows(), 0);
await refused(() => db.createTable("t", rows([1])), "already exists");
await db.createTable("t", rows([1]), { existOk: true });
await refused(() => db.openTable("none"), "none");
table = await db.openTable("t");
const fields = (await table.schema()).fields.map((field) => `${field.name} ${field.type}`);
same(fields, ["id Int64", "name Utf8", "vector FixedSizeList[2]<Float32>"]);

// Add, count.
same((await table.add(rows([100, 101], "new"))).version, 2);
same(await table.countRows(), 52);
same(await table.countRows("id >= 100"), 2);
await refused(() => table.countRows("nope = 1"), "400", "nope");
await refused(() => table.countRows("id >"), "400");

// Query: filter, columns, expressions, limit, offset, order, row ids.
same((await column("id", table.query().where("id < 3"))).sort(), [0, 1, 2]);
let found = await table.query().where("id < 10").select(["name"]).limit(4).toArrow();
same([found.schema.fields.map((field) => field.name), found.numRows], [["name"], 4]);
same(await column("double", table.query().where("id = 7").select({ double: "id * 2" })), [14]);
const order = { columnName: "id", ascending: false, nullsFirst: false };
same(await column("id", table.query().orderBy(order).limit(3).offset(2)), [49, 48, 47]);
same((await table.query().toArray()).length, 52);
const [row] = await table.query().where("id = 3").withRowId().toArray();
same(await column("id", table.takeRowIds([row._rowid])), [3]);
same(await column("id", table.takeOffsets([1, 2])), [1, 2]);
let batches = 0;
for await (const batch of table.query()) {
  batches += batch.numRows;
}
same(batches, 52);
await refused(() => table.query().where("nope = 1").toArray(), "400", "nope");
await refused(() => table.query().select(["nope"]).toArray(), "nope");

// Vectors.
same(await column("id", table.vectorSearch([5.2, 0]).limit(3)), [5, 6, 4]);
found = await table.search([5.2, 0]).limit(1).toArray();
holds(Math.abs(found[0]._distance - 0.04) < 1e-4, found[0]);
same(await column("id", table.vectorSearch([5.2, 0]).where("id < 4").limit(2)), [3, 2]);
same(await column("id", table.vectorSearch([5.2, 0]).where("id < 5").postfilter().limit(3)), [4]);
same(await column("id", table.vectorSearch([5.2, 0]).distanceRange(0, 1).limit(9)), [5, 6]);
same((await table.vectorSearch([1, 0]).distanceType("cosine").limit(1).toArray())[0]._distance, 0);
found = await table.vectorSearch([1.1, 0]).addQueryVector([9.1, 0]).limit(1).toArray();
same(found.map((row) => [row.query_index, plain(row.id)]).sort(), [[0, 1], [1, 9]]);
await refused(() => table.vectorSearch([1, 2, 3]).limit(1).toArray(), "400");

// Merge, update, delete.
const upsert = table.mergeInsert("id").whenMatchedUpdateAll().whenNotMatchedInsertAll();
let done = await upsert.execute(rows([1, 200], "merged"));
same([done.numUpdatedRows, done.numInsertedRows], [1, 1]);
same(await read(table, "id IN (1, 200)"), { 1: "merged1", 200: "merged200" });
done = await table.mergeInsert("id").whenNotMatchedInsertAll().execute(rows([1, 201], "inserted"));
same([done.numUpdatedRows, done.numInsertedRows], [0, 1]);
done = await table.update({ where: "id >= 100", values: { name: "it's" } });
same(done.rowsUpdated, 4);
done = await table.update({ where: "id = 2", valuesSql: { id: "id + 1000" } });
same([done.rowsUpdated, await table.countRows("id = 1002")], [1, 1]);
same(await table.countRows("name = 'it''s'"), 4);
await refused(() => table.update({ where: "nope = 1", values: { name: "x" } }), "400", "nope");
done = await table.delete("id >= 100");
same([done.version, await table.countRows()], [await table.version(), 49]);
await refused(() => table.delete("nope = 1"), "400", "nope");

// Indexes, and text.
await table.createIndex("id", { config: lancedb.Index.btree() });
await table.createIndex("name", { config: lancedb.Index.fts() });
await table.waitForIndex(["id_idx", "name_idx"], 30);
const indexes = (await table.listIndices()).map((index) => [index.name, index.columns, index.indexType]);
same(indexes.sort(), [["id_idx", ["id"], "BTree"], ["name_idx", ["name"], "FTS"]]);
const stats = await table.indexStats("id_idx");
same([stats.numIndexedRows, stats.numUnindexedRows, stats.indexType], [49, 0, "BTREE"]);
same(await table.indexStats("none"), undefined);
same(await column("id", table.search("a17", "fts").limit(5)), [17]);
await table.dropIndex("name_idx");
await refused(() => table.dropIndex("none"), "none");

// Columns.
await table.addColumns([{ name: "double", valueSql: "id * 2" }]);
await table.alterColumns([{ path: "double", rename: "twice" }]);
same(await column("twice", table.query().where("id = 4")), [8]);
await table.dropColumns(["twice"]);
same((await table.schema()).names, ["id", "name", "vector"]);
await refused(() => table.dropColumns(["nope"]), "400", "nope");

// Versions, plans, statistics.
holds((await table.listVersions()).length > 5, await table.listVersions());
await table.checkout(1);
same(await table.countRows(), 50);
await table.checkoutLatest();
same(await table.countRows(), 49);
holds((await table.query().where("id = 1").explainPlan(true)).includes("id"), "a plan");
holds((await table.vectorSearch([1, 0]).limit(1).analyzePlan()).includes("output_rows"), "what it took");
const told = await table.stats();
same([told.numRows, told.numIndices], [49, 1]);
same(await table.getLsmWriteSpec(), undefined);
same(await table.getLsmStats(), undefined);
await refused(() => table.flushLsm(), "400", "no write tier");
await refused(() => table.unsetLsmWriteSpec(), "400", "no write tier");
await refused(() => table.query().useLsm(true).toArray(), "400", "no write tier");

// Overwrite, drop. Databases know nothing of each other.
await table.add(rows([1, 2, 3]), { mode: "overwrite" });
same(await table.countRows(), 3);
await db.createTable("t", rows([7]), { mode: "overwrite" });
same(await read(await db.openTable("t")), { 7: "a7" });
same(await (await connect("other", `${url}/`)).tableNames(), []);
await db.dropTable("t");
await db.dropTable("none");
same(await db.tableNames(), ["empty"]);
await refused(() => table.countRows(), "t");
await db.dropTable("empty");
end();
