// A partition splits, or two merge, in the middle of each kind of read, while a writer continues.
import assert from "node:assert/strict";

import { ChangeFeedMode, ChangeFeedPolicy, ChangeFeedRetentionTimeSpan, ChangeFeedStartFrom, PartitionKeyKind } from "@azure/cosmos";

import { mergeFirst, splitFirst } from "../lib/admin.js";
import { newContainer, spread, until, upsert } from "../lib/env.js";
import { drain, inNewProcess, latest, page } from "../lib/feed.js";
import { scenario } from "../lib/scenario.js";

const every = () => true;

/**
 * The kinds of reads. start returns the start, wants reports whether the read must deliver an item,
 * and old reports whether it must deliver earlier writes.
 */
const readers = {
  beginning: { start: () => ChangeFeedStartFrom.Beginning(), old: true },
  now: { start: () => ChangeFeedStartFrom.Now() },
  time: {
    start: async (container) => {
      const stamp = async () => (await container.items.upsert({ id: "clock", pk: "clock", v: 0 })).resource._ts;
      const began = await stamp();
      await until("the next second", async () => (await stamp()) > began);
      return ChangeFeedStartFrom.Time(new Date(began * 1000));
    },
  },
  pages: { start: () => ChangeFeedStartFrom.Beginning(), old: true, maxItemCount: 1 },
  range: {
    start: async (container, reader) => {
      const [range] = await container.getFeedRanges();
      const mine = new Set((await drain(container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(range) }))).map((i) => i.pk));
      reader.wants = (i) => mine.has(i.pk);
      return ChangeFeedStartFrom.Beginning(range);
    },
    old: true,
  },
  key: { start: () => ChangeFeedStartFrom.Beginning("key 4"), old: true, maxItemCount: 1, wants: (i) => i.pk === "key 4" },
  versions: { start: () => ChangeFeedStartFrom.Now(), mode: ChangeFeedMode.AllVersionsAndDeletes },
  resume: { start: () => ChangeFeedStartFrom.Beginning(), old: true, finish: inNewProcess },
};

async function survives(t, reader, change) {
  const policy = new ChangeFeedPolicy(ChangeFeedRetentionTimeSpan.fromMinutes(5));
  const container = await newContainer(t, reader.mode && { changeFeedPolicy: policy });
  let written = spread(60, 1);
  await upsert(container, written);
  const changeFeedStartFrom = await reader.start(container, reader);
  const wants = reader.wants ?? every;
  const feed = container.items.getChangeFeedIterator({
    changeFeedStartFrom, maxItemCount: reader.maxItemCount ?? 5, ...(reader.mode && { changeFeedMode: reader.mode }),
  });
  const got = [];
  let continuation;
  const read = async () => {
    const p = await page(feed);
    continuation = p.continuation;
    got.push(...p.items);
  };
  if (!reader.old) {
    await read(); // the first read determines what "now" is
    written = spread(20, 2);
    await upsert(container, written);
  }
  await read();
  await read();

  const during = [];
  let changed = false;
  const writer = (async () => {
    for (let v = 10, more = 40; more > 0; v++) {
      if (changed) more--;
      const item = { id: String(v % 13), pk: `key ${v % 10}`, v };
      await container.items.upsert(item);
      during.push(item);
    }
  })();
  try {
    await read();
    await change(container);
    await read();
  } finally {
    changed = true;
  }
  await read();
  await writer;
  got.push(...(reader.finish ? await reader.finish(container, continuation) : await drain(feed)));

  const all = [...written, ...during].filter(wants);
  if (reader.mode) {
    const versions = (items) => items.map((i) => `${i.pk}/${i.id}/${i.v}`).sort();
    assert.deepEqual(versions(got.map((c) => c.current)), versions(all));
    latest(got.map((c) => c.current));
    return;
  }
  const want = new Map(all.map((i) => [`${i.pk}/${i.id}`, i.v]));
  const seen = latest(got);
  seen.delete("clock/clock");
  assert.deepEqual(new Map([...seen].sort()), new Map([...want].sort()));
  const times = new Map();
  for (const i of got.filter((g) => g.pk !== "clock")) {
    const name = `${i.pk}/${i.id} version ${i.v}`;
    times.set(name, (times.get(name) ?? 0) + 1);
    assert.equal(times.get(name), 1, `${name} came twice`);
  }
}

/** Does the same as survives for a prefix of a hierarchical key. */
async function prefixSurvives(t, change) {
  const container = await newContainer(t, { partitionKey: { paths: ["/tenant", "/user"], kind: PartitionKeyKind.MultiHash, version: 2 } });
  const write = async (v) => {
    for (let user = 0; user < 20; user++) {
      for (const tenant of ["t1", "t2"]) await container.items.upsert({ id: "1", tenant, user: String(user), v });
    }
  };
  await write(1);
  const feed = container.items.getChangeFeedIterator({ changeFeedStartFrom: ChangeFeedStartFrom.Beginning(["t1"]), maxItemCount: 3 });
  const got = [];
  const read = async () => got.push(...(await page(feed)).items);
  await read();
  await read();
  await change(container);
  await read();
  await write(2);
  got.push(...(await drain(feed)));
  assert.ok(got.every((i) => i.tenant === "t1"));
  const seen = latest(got.map(({ user, v }) => ({ id: user, pk: "t1", v })));
  assert.equal(seen.size, 20);
  assert.ok([...seen.values()].every((v) => v === 2));
}

for (const [name, reader] of Object.entries(readers)) {
  scenario(`split-${name}`, (t) => survives(t, { ...reader }, splitFirst));
  scenario(`merge-${name}`, (t) => survives(t, { ...reader }, mergeFirst));
}
scenario("split-prefix", (t) => prefixSurvives(t, splitFirst));
scenario("merge-prefix", (t) => prefixSurvives(t, mergeFirst));
