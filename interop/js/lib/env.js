// The environment of a run, and what a user writes to reach the server: endpoint and key.
// The certificate is trusted by the environment (NODE_EXTRA_CA_CERTS, see ../run).
import { CosmosClient } from "@azure/cosmos";
import assert from "node:assert/strict";

function required(name) {
  const value = process.env[name];
  if (!value) throw new Error(`${name} is not set: the suite runs against a server, see interop/README.md`);
  return value;
}

export const endpoint = required("CHANGEFEED_ENDPOINT");
export const key = required("CHANGEFEED_KEY");
export const readOnlyKey = required("CHANGEFEED_READONLY_KEY");

export const client = new CosmosClient({ endpoint, key });

let databases = 0;

/** Makes a database of this test's own, deleted at its end. */
export async function newDatabase(t) {
  const id = `js-${process.pid}-${++databases}`;
  const { database } = await client.databases.create({ id });
  t.after(() => database.delete());
  return database;
}

/** Makes a database with one container in it; of 20,000 RU/s, and so of two partitions, unless said otherwise. */
export async function newContainer(t, definition = {}) {
  const database = await newDatabase(t);
  const { container } = await database.containers.create({ id: "items", partitionKey: { paths: ["/pk"] }, throughput: 20_000, ...definition });
  return container;
}

/** Fails unless the call is refused with that status. */
export async function refused(call, status) {
  try {
    await call;
  } catch (err) {
    assert.equal(err.code, status, `${err.code}: ${err.message}`);
    assert.equal(typeof err.message, "string");
    return err;
  }
  assert.fail(`not refused with ${status}`);
}

/** Asks every 50 ms until done says so; a minute is long enough for anything here. */
export async function until(what, done) {
  const deadline = Date.now() + 60_000;
  while (!(await done())) {
    if (Date.now() > deadline) assert.fail(`not within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** n items over ten keys, which two partitions share. */
export function spread(n, v) {
  return Array.from({ length: n }, (_, i) => ({ id: String(i), pk: `key ${i % 10}`, v }));
}

export async function upsert(container, items) {
  for (const item of items) await container.items.upsert(item);
}
