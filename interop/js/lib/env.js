// The environment of a run, and a client from endpoint and key, as a user would create it.
// NODE_EXTRA_CA_CERTS makes it trust the certificate (see ../run).
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

/** Creates a database of the test. It is deleted when the test ends. */
export async function newDatabase(t) {
  const id = `js-${process.pid}-${++databases}`;
  const { database } = await client.databases.create({ id });
  t.after(() => database.delete());
  return database;
}

/** Creates a database with one container. By default it has 20,000 RU/s and so two partitions. */
export async function newContainer(t, definition = {}) {
  const database = await newDatabase(t);
  const { container } = await database.containers.create({ id: "items", partitionKey: { paths: ["/pk"] }, throughput: 20_000, ...definition });
  return container;
}

/** Fails unless the server refuses the call with that status. */
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

/** Calls done every 50 ms until it returns true. It fails after a minute. */
export async function until(what, done) {
  const deadline = Date.now() + 60_000;
  while (!(await done())) {
    if (Date.now() > deadline) assert.fail(`not within a minute: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** Returns n items of ten keys in two partitions. */
export function spread(n, v) {
  return Array.from({ length: n }, (_, i) => ({ id: String(i), pk: `key ${i % 10}`, v }));
}

export async function upsert(container, items) {
  for (const item of items) await container.items.upsert(item);
}
