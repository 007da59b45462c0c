// What the scripts have in common: LanceDB's Node client from where `make node` put it, a connection to the
// server whose url is the script's argument, and checks that count themselves.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join } from "node:path";
import { inspect } from "node:util";

const packages = process.env.HEADWATER_NODE ?? join(process.env.HOME, ".cache/headwater/node");
// An import would look beside this file, and the packages are not in the checkout.
const load = createRequire(join(packages, "package.json"));

function installed(name) {
  try {
    return load(name);
  } catch (cause) {
    throw new Error(`${name} cannot be loaded from ${packages}: run \`make node\``, { cause });
  }
}

export const lancedb = installed("@lancedb/lancedb");
export const arrow = installed("apache-arrow");
export const url = process.argv[2];

export function connect(name = "demo", host = url) {
  return lancedb.connect(`db://${name}`, { apiKey: "sk_local", hostOverride: host });
}

// The mark of the primary key.
export const KEY = new Map([["lance-schema:unenforced-primary-key:position", "1"]]);

export function schema() {
  const item = new arrow.Field("item", new arrow.Float32(), true);
  return new arrow.Schema([
    new arrow.Field("id", new arrow.Int64(), true, KEY),
    new arrow.Field("name", new arrow.Utf8(), true),
    new arrow.Field("vector", new arrow.FixedSizeList(2, item), true),
  ]);
}

// Rows with these ids; the vector of an id is [id, 0].
export function rows(ids, name = "a") {
  const made = ids.map((id) => ({ id: BigInt(id), name: `${name}${id}`, vector: [id, 0] }));
  return lancedb.makeArrowTable(made, { schema: schema() });
}

// The ids from `first` up to, and without, `end`.
export function range(first, end) {
  return Array.from({ length: end - first }, (_, n) => first + n);
}

// What a query or its rows hold in one column, in their order.
export async function column(name, query) {
  return (await query.toArray()).map((row) => plain(row[name]));
}

// Ids and names, by id.
export async function read(table, where) {
  const query = where ? table.query().where(where) : table.query();
  const found = (await query.select(["id", "name"]).toArray()).map((row) => [plain(row.id), row.name]);
  return Object.fromEntries(found);
}

export function plain(value) {
  return typeof value === "bigint" ? Number(value) : value;
}

let checks = 0;

export function same(found, expected) {
  checks += 1;
  assert.deepEqual(found, expected);
}

export function holds(condition, what) {
  checks += 1;
  assert.ok(condition, inspect(what));
}

// What is done fails, and its text has all of these words.
export async function refused(work, ...words) {
  checks += 1;
  let done;
  try {
    done = await work();
  } catch (error) {
    for (const word of words) {
      assert.ok(String(error).includes(word), `${inspect(word)} is not in: ${error}`);
    }
    return;
  }
  assert.fail(`it was not refused (${words}): ${inspect(done)}`);
}

export function end() {
  console.log(`${checks} checks`);
  console.log("ok");
}
