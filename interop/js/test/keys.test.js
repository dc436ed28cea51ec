import assert from "node:assert/strict";

import { ChangeFeedStartFrom, CosmosClient } from "@azure/cosmos";

import { throttle } from "../lib/admin.js";
import { client, endpoint, newContainer, readOnlyKey, refused, spread, upsert } from "../lib/env.js";
import { drain } from "../lib/feed.js";
import { scenario } from "../lib/scenario.js";

/** Returns a client that counts its requests, including retries, by a plugin of the SDK. */
function counted(key, requests) {
  const plugin = async (context, diagnosticNode, next) => {
    requests.count++;
    if (context.method === "POST" && context.resourceType === "docs") requests.writes++;
    return next(context);
  };
  return new CosmosClient({ endpoint, key, plugins: [{ on: "request", plugin }] });
}

scenario("throttling", async (t) => {
  const container = await newContainer(t);
  const requests = { count: 0, writes: 0 };
  const writer = counted(process.env.CHANGEFEED_KEY, requests).database(container.database.id).container(container.id);
  await writer.items.create({ id: "up", pk: "warm", v: 0 });
  const before = requests.writes;
  const end = await throttle(container, 5);
  try {
    await Promise.all([0, 1, 2, 3].map(async (w) => {
      for (let n = 0; n < 20; n++) await writer.items.create({ id: `${w}-${n}`, pk: `key ${n}`, v: n });
    }));
  } finally {
    const refusals = await end();
    assert.ok(refusals > 0, "nothing was throttled");
    assert.equal(requests.writes - before, 80 + refusals);
  }
  assert.equal((await drain(container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning() }))).length, 81);
});

scenario("wrong-key", async () => {
  for (const key of ["d3Jvbmc=", Buffer.alloc(64).toString("base64")]) {
    const requests = { count: 0, writes: 0 };
    const err = await refused(counted(key, requests).databases.createIfNotExists({ id: "never" }), 401);
    assert.ok(err.message.length > 20, "the refusal says nothing");
    assert.ok(requests.count <= 4, `${requests.count} requests until the refusal came through`);
  }
  await refused(client.database("never").read(), 404);
});

scenario("read-only-key", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(10, 1));
  const account = new CosmosClient({ endpoint, key: readOnlyKey });
  const reading = account.database(container.database.id).container(container.id);
  assert.equal((await reading.item("3", "key 3").read()).resource.v, 1);
  assert.equal((await reading.items.query("SELECT * FROM c").fetchAll()).resources.length, 10);
  assert.equal((await reading.items.query("SELECT * FROM c", { forceQueryPlan: true }).fetchAll()).resources.length, 10);
  assert.equal((await drain(reading.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning() }))).length, 10);
  await refused(reading.items.upsert({ id: "3", pk: "key 3", v: 2 }), 403);
  await refused(reading.item("3", "key 3").delete(), 403);
  await refused(reading.item("3", "key 3").patch([{ op: "incr", path: "/v", value: 1 }]), 403);
  await refused(account.databases.create({ id: "never" }), 403);
});

/** Returns a credential with tokens in the form of the local emulators: the key's text is the signature. */
function emulatorCredential(key) {
  return {
    async getToken() {
      const now = Math.floor(Date.now() / 1000);
      const header = { typ: "JWT", alg: "RS256", x5t: "CosmosEmulatorPrimaryMaster", kid: "CosmosEmulatorPrimaryMaster" };
      const claims = { sub: "localhost", tid: "EmulatorFederation", ver: "1.0", scp: "user_impersonation", nbf: now, exp: now + 7200, iat: now, aud: "https://localhost.localhost" };
      const parts = [JSON.stringify(header), JSON.stringify(claims), key];
      return { token: parts.map((p) => Buffer.from(p).toString("base64url")).join("."), expiresOnTimestamp: (now + 7200) * 1000 };
    },
  };
}

scenario("emulator-token", async (t) => {
  const container = await newContainer(t);
  const by = (key) => new CosmosClient({ endpoint, aadCredentials: emulatorCredential(key) }).database(container.database.id).container(container.id);
  if (endpoint.startsWith("http:")) {
    // The SDK sends tokens only over TLS.
    await assert.rejects(by(process.env.CHANGEFEED_KEY).items.create({ id: "1", pk: "p" }), /https|TLS|secure/i);
    return;
  }
  await by(process.env.CHANGEFEED_KEY).items.create({ id: "1", pk: "p", v: 1 });
  assert.equal((await by(process.env.CHANGEFEED_KEY).item("1", "p").read()).resource.v, 1);
  await refused(by("d3Jvbmc=").item("1", "p").read(), 401);
});
