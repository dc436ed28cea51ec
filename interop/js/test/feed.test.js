import assert from "node:assert/strict";

import { ChangeFeedMode, ChangeFeedPolicy, ChangeFeedRetentionTimeSpan, ChangeFeedStartFrom, PartitionKeyKind } from "@azure/cosmos";

import { newContainer, refused, spread, until, upsert } from "../lib/env.js";
import { drain, inNewProcess, latest, page } from "../lib/feed.js";
import { scenario } from "../lib/scenario.js";

const beginning = (container, options = {}, resource) =>
  container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(resource), ...options });

/** Waits until the server stamps its writes with a later second. It returns the second before. */
async function nextSecond(container) {
  const stamp = async () => (await container.items.upsert({ id: "clock", pk: "clock", v: 0 })).resource._ts;
  const began = await stamp();
  await until("the next second", async () => (await stamp()) > began);
  return new Date(began * 1000);
}

scenario("feed-beginning", async (t) => {
  const container = await newContainer(t);
  assert.deepEqual(await drain(beginning(container)), []);
  await upsert(container, spread(40, 1));
  await upsert(container, spread(10, 2));
  const feed = beginning(container);
  const all = await drain(feed);
  assert.equal(all.length, 40);
  assert.deepEqual(new Map([...latest(all)].sort()), new Map([...latest([...spread(40, 1), ...spread(10, 2)])].sort()));
  assert.ok(all.every((i) => i._lsn > 0 && i._ts > 0 && i._etag && i._rid));
  const order = {};
  for (const { id, pk } of all) {
    const n = Number(id) < 10 ? Number(id) + 100 : Number(id);
    assert.ok(n >= (order[pk] ?? 0), `${pk}: ${id} out of order`);
    order[pk] = n;
  }
  await upsert(container, spread(5, 3));
  assert.deepEqual(new Map([...latest(await drain(feed))].sort()), new Map([...latest(spread(5, 3))].sort()));
  assert.deepEqual(await drain(feed), []);
});

scenario("feed-now", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(20, 1));
  for (const [options, want] of [
    [{ changeFeedStartFrom: ChangeFeedStartFrom.Now() }, 10],
    [{ changeFeedStartFrom: ChangeFeedStartFrom.Now("key 3") }, 1],
    [{}, 10], // the SDK's default is now
  ]) {
    const feed = container.items.getChangeFeedIterator(options);
    assert.deepEqual(await drain(feed), []);
    await upsert(container, spread(10, 2));
    assert.equal((await drain(feed)).length, want);
    await upsert(container, spread(10, 3));
    assert.ok((await drain(feed)).every((i) => i.v === 3));
  }
});

scenario("feed-time", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(20, 1));
  const start = await nextSecond(container);
  await upsert(container, spread(7, 2));
  const feed = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Time(start), maxItemCount: 3 });
  const got = latest(await drain(feed));
  got.delete("clock/clock");
  assert.deepEqual(new Map([...got].sort()), new Map([...latest(spread(7, 2))].sort()));
  await upsert(container, spread(3, 3));
  assert.equal((await drain(feed)).length, 3);
  const old = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Time(new Date(Date.now() - 864_000_000)) });
  assert.equal((await drain(old)).length, 21);
});

scenario("feed-pages", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(30, 1));
  await container.items.batch(Array.from({ length: 12 }, (_, n) => ({ operationType: "Create", resourceBody: { id: `batch ${n}`, pk: "key 3", v: 1 } })), "key 3");
  for (const maxItemCount of [1, 7, 100]) {
    const feed = beginning(container, { maxItemCount });
    let total = 0;
    for (;;) {
      const { items, end } = await page(feed);
      if (end) break;
      const inBatch = items.filter((i) => i.id.startsWith("batch")).length;
      assert.ok(inBatch === 0 || inBatch === 12, `pages of ${maxItemCount}: ${inBatch} of the batch's 12 items in one page`);
      if (inBatch === 0) assert.ok(items.length <= maxItemCount);
      total += items.length;
    }
    assert.equal(total, 42);
  }
});

scenario("feed-range", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(40, 1));
  const ranges = await container.getFeedRanges();
  assert.equal(ranges.length, 2);
  assert.deepEqual([ranges[0].minInclusive, ranges[1].maxExclusive], ["", "FF"]);
  assert.equal(ranges[0].maxExclusive, ranges[1].minInclusive);
  const parts = [];
  for (const range of ranges) parts.push(await drain(beginning(container, { maxItemCount: 3 }, range)));
  assert.ok(parts.every((p) => p.length > 0));
  assert.equal(parts[0].length + parts[1].length, 40);
  const first = new Set(parts[0].map((i) => i.pk));
  assert.ok(parts[1].every((i) => !first.has(i.pk)), "a key in both ranges");
});

scenario("feed-key", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(40, 1));
  for (let n = 0; n < 10; n++) {
    const feed = beginning(container, { maxItemCount: 3 }, `key ${n}`);
    assert.deepEqual((await drain(feed)).map((i) => [i.id, i.pk]), [n, n + 10, n + 20, n + 30].map((id) => [String(id), `key ${n}`]));
    await upsert(container, [{ id: "more", pk: `key ${n}`, v: 9 }, { id: "more", pk: "another", v: n }]);
    assert.deepEqual((await drain(feed)).map((i) => i.pk), [`key ${n}`]);
  }
  for (const pk of ['é/"日本"', 7, true]) {
    await container.items.create({ id: "1", pk });
    assert.deepEqual((await drain(beginning(container, {}, pk))).map((i) => i.pk), [pk]);
  }
});

scenario("feed-prefix", async (t) => {
  const container = await newContainer(t, { partitionKey: { paths: ["/tenant", "/user"], kind: PartitionKeyKind.MultiHash, version: 2 } });
  for (const tenant of ["t1", "t2", "t3"]) {
    for (let user = 0; user < 8; user++) await container.items.create({ id: "1", tenant, user: String(user), v: 1 });
  }
  for (const tenant of ["t1", "t2", "t3"]) {
    const changes = await drain(beginning(container, { maxItemCount: 3 }, [tenant]));
    assert.equal(changes.length, 8);
    assert.ok(changes.every((i) => i.tenant === tenant));
    assert.equal((await drain(beginning(container, {}, [tenant, "5"]))).length, 1);
  }
});

scenario("feed-versions", async (t) => {
  const container = await newContainer(t, { defaultTtl: -1, changeFeedPolicy: new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(5)) });
  assert.equal((await container.read()).resource.changeFeedPolicy.retentionDuration, 5);
  await container.items.create({ id: "before", pk: "p", v: 0 });
  const options = { changeFeedMode: ChangeFeedMode.AllVersionsAndDeletes, maxItemCount: 2 };
  const feed = container.items.getChangeFeedIterator({ ...options, changeFeedStartFrom: ChangeFeedStartFrom.Now() });
  assert.deepEqual(await drain(feed), []);
  await container.items.create({ id: "1", pk: "p", v: 1 });
  await container.item("1", "p").replace({ id: "1", pk: "p", v: 2 });
  await container.items.upsert({ id: "1", pk: "p", v: 3 });
  await container.item("1", "p").patch([{ op: "incr", path: "/v", value: 1 }]);
  await container.item("1", "p").delete();
  await container.items.upsert({ id: "1", pk: "p", v: 6 });
  await container.items.create({ id: "short", pk: "q", ttl: 1 });
  const changes = await drain(feed);
  const of = (id) => changes.filter((c) => c.current?.id === id || c.metadata.id === id);
  assert.deepEqual(of("1").map((c) => c.metadata.operationType), ["create", "replace", "replace", "replace", "delete", "create"]);
  assert.deepEqual(of("1").map((c) => c.current?.v), [1, 2, 3, 4, undefined, 6]);
  const removed = of("1")[4];
  assert.deepEqual([removed.metadata.id, removed.metadata.partitionKey], ["1", { pk: "p" }]);
  assert.ok(of("1").every((c) => c.metadata.lsn > 0 && c.metadata.crts > 0));
  assert.deepEqual(of("1").map((c) => c.metadata.lsn), of("1").map((c) => c.metadata.lsn).sort((a, b) => a - b));
  const expired = changes.filter((c) => c.metadata.timeToLiveExpired);
  await until("the expiry in the feed", async () => expired.push(...(await drain(feed))) > 0);
  assert.deepEqual(expired.map((c) => [c.metadata.operationType, c.metadata.timeToLiveExpired, c.metadata.id]), [["delete", true, "short"]]);
  for (const changeFeedStartFrom of [ChangeFeedStartFrom.Beginning(), ChangeFeedStartFrom.Time(new Date())]) {
    await refused(drain(container.items.getChangeFeedIterator({ ...options, changeFeedStartFrom })), 400);
  }
});

scenario("feed-resume", async (t) => {
  const container = await newContainer(t);
  await upsert(container, spread(40, 1));
  const feed = beginning(container, { maxItemCount: 4 });
  const first = await page(feed);
  const second = await page(feed);
  await upsert(container, [{ id: "late", pk: "key 1", v: 1 }, { id: "late", pk: "key 2", v: 1 }]);
  const rest = await inNewProcess(container, second.continuation);
  const all = [...first.items, ...second.items, ...rest];
  assert.equal(all.length, 42);
  assert.equal(latest(all).size, 42);
});
