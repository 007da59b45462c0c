// Tables with a write tier, through LanceDB's Node client, under the names that 0.39 has for it.

import { arrow, column, connect, end, holds, lancedb, plain } from "./common.mjs";
import { range, read, refused, rows, same, schema, url } from "./common.mjs";

const db = await connect();
const unsharded = { specType: "unsharded" };
const buckets = { specType: "bucket", column: "id", numBuckets: 4 };
const upsert = (table, data) =>
  table.mergeInsert("id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute(data);

for (const [name, spec] of [["one", unsharded], ["four", buckets]]) {
  await db.createTable(name, rows([1, 2, 3]));
  const table = await db.openTable(name);
  same(await table.getLsmWriteSpec(), undefined);
  await table.setLsmWriteSpec(spec);
  await refused(() => table.setLsmWriteSpec(spec), "400", "already");
  const told = await table.getLsmWriteSpec();
  same([told.specType, told.column, told.numBuckets], [spec.specType, spec.column, spec.numBuckets]);

  // Writes, read at once.
  let done = await upsert(table, rows([3, 4], "b"));
  same([done.version, done.numRows], [0, 2]);
  same((await table.add(rows([5], "c"))).version, 0);
  const all = { 1: "a1", 2: "a2", 3: "b3", 4: "b4", 5: "c5" };
  same(await read(table), all);
  same([await table.countRows(), await table.countRows("id > 3")], [5, 2]);
  same(await read(table, "name = 'a3'"), {});
  same((await table.query().useLsm(false).toArray()).length, 3);
  same((await table.query().useLsm(true).toArray()).length, 5);
  const inserts = table.mergeInsert("id").whenNotMatchedInsertAll();
  await refused(() => inserts.execute(rows([9])), "400", "use_lsm(false)");
  done = await inserts.useLsm(false).execute(rows([9]));
  same([done.numInsertedRows, await table.countRows()], [1, 6]);

  // Updates and deletes by predicate, over all tiers.
  await table.flushLsm();
  done = await table.update({ where: "id IN (1, 3, 77)", values: { name: "it's" } });
  same([done.rowsUpdated, done.version], [2, 0]);
  done = await table.update({ where: "id = 5", valuesSql: { name: "upper(name)" } });
  same(done.rowsUpdated, 1);
  done = await table.delete("id = 4 OR id = 9 OR name = 'nobody'");
  same(done.version, 0);
  const left = { 1: "it's", 2: "a2", 3: "it's", 5: "C5" };
  same(await read(table), left);
  await refused(() => table.update({ where: "nope = 1", values: { name: "x" } }), "400", "nope");
  await refused(() => table.update({ where: "id = 1", valuesSql: { nope: "1" } }), "400", "nope");
  await refused(() => table.delete("id ="), "400");

  // Flush, statistics, and what is not done.
  await table.flushLsm();
  const stats = await table.getLsmStats(true);
  same(new Set(stats.buckets.map((bucket) => bucket.shardId)).size, stats.buckets.length);
  same([...new Set(stats.buckets.map((bucket) => bucket.status))], ["Active"]);
  const generations = stats.buckets.flatMap((bucket) => bucket.generations);
  holds(generations.length > 1 && generations.every((generation) => generation.rows > 0), stats);
  same(await read(table), left);
  await refused(() => table.compactLsm(), "501");
  await refused(() => table.checkpointLsm(), "501");
  await refused(() => table.unsetLsmWriteSpec(), "400", "rows");
  await refused(() => table.dropColumns(["name"]), "400");
}

// Queries over base, SSTable and memtable; some rows are newer than others of their key.
const table = await db.createTable("read", rows(range(0, 10)));
await table.createIndex("name", { config: lancedb.Index.btree() });
const writerConfigDefaults = { max_memtable_rows: "5000" };
await table.setLsmWriteSpec({ ...buckets, maintainedIndexes: [], writerConfigDefaults });
same((await table.getLsmWriteSpec()).writerConfigDefaults, writerConfigDefaults);
await upsert(table, rows([...range(10, 20), 3], "b"));
await table.flushLsm();
await upsert(table, rows([...range(20, 30), 13], "c"));
await table.delete("id = 5");
const descending = { columnName: "id", ascending: false };
same(await column("id", table.query().orderBy(descending).limit(4)), [29, 28, 27, 26]);
same(await column("id", table.query().orderBy({ columnName: "id" }).limit(3).offset(4)), [4, 6, 7]);
same(await column("z", table.query().where("id = 13").select({ z: "id * 10", name: "name" })), [130]);
same(await read(table, "id IN (3, 5, 13) OR name = 'b13'"), { 3: "b3", 13: "c13" });
same(await column("id", table.vectorSearch([5.2, 0]).limit(3)), [6, 4, 7]);
same(await column("id", table.vectorSearch([13.2, 0]).where("id != 13").limit(2)), [14, 12]);
same(await column("id", table.vectorSearch([13.2, 0]).where("id != 13").postfilter().limit(2)), [14]);
same((await column("id", table.vectorSearch([20.1, 0]).distanceRange(0, 1).limit(9))).sort(), [20, 21]);
same((await table.vectorSearch([1, 0]).distanceType("cosine").limit(1).toArray())[0]._distance, 0);
const several = await table.vectorSearch([1.1, 0]).addQueryVector([29.1, 0]).limit(1).toArray();
same(several.map((row) => [row.query_index, plain(row.id)]).sort(), [[0, 1], [1, 29]]);
holds((await table.query().where("id = 1").explainPlan(true)).length > 0, "a plan");
holds((await table.vectorSearch([1, 0]).limit(1).analyzePlan()).length > 0, "what it took");
await refused(() => table.vectorSearch([1, 2, 3]).limit(1).toArray(), "400", "vector");
await refused(() => table.query().where("nope = 1").toArray(), "400", "nope");
await refused(() => table.query().withRowId().toArray(), "400", "does not support with_row_id");
await refused(() => table.search("a1", "fts").toArray(), "400");
same((await table.stats()).numRows, 10);
// The tier has an index of the key, for itself.
same((await table.listIndices()).map((index) => index.name).sort(), ["headwater_key", "name_idx"]);

// The key as an edit of a column's metadata; the routes that 0.41 has, which this client does not know.
const keyless = new arrow.Schema(schema().fields.map((field) => field.clone({ metadata: new Map() })));
const none = await db.createEmptyTable("keyless", keyless);
await none.setLsmWriteSpec(unsharded);
await none.add(rows([1, 1]));
same(await none.countRows(), 2);
await refused(() => upsert(none, rows([1])), "400", "no key");
const late = await db.createEmptyTable("late", keyless);
const metadata = { "lance-schema:unenforced-primary-key:position": "1" };
await late.updateFieldMetadata([{ path: "id", metadata }]);
const post = (route, body) => {
  const headers = { "x-lancedb-database": "demo", "x-api-key": "sk_local" };
  const request = { method: "POST", headers, body: body && JSON.stringify(body) };
  return fetch(`${url}/v1/table/late/${route}/`, request);
};
same((await post("enable_rte", { sharding: { mode: "unsharded" } })).status, 200);
same((await (await post("get_rte_spec")).json()).rte_spec.sharding, { mode: "unsharded" });
same((await late.getLsmWriteSpec()).specType, "unsharded");
await Promise.all(range(0, 16).map((n) => upsert(late, rows([n, 5000], "w"))));
same([await late.countRows(), (await post("flush_rte")).status], [17, 202]);
await refused(() => late.unsetLsmWriteSpec(), "400", "rows");

// A tier without rows goes, and comes again.
const empty = await db.createEmptyTable("empty", schema());
await empty.setLsmWriteSpec(unsharded);
await empty.unsetLsmWriteSpec();
same(await empty.getLsmWriteSpec(), undefined);
await empty.setLsmWriteSpec(unsharded);
await empty.add(rows([1]));
same(await empty.countRows(), 1);
for (const name of ["one", "four", "read", "keyless", "late", "empty"]) {
  await db.dropTable(name);
}
same(await db.tableNames(), []);
end();
