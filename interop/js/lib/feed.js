// Reads change feeds as a user's loop does.
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { StatusCodes } from "@azure/cosmos";

/** Reads once. An empty page means that no range had new changes. */
export async function page(iterator) {
  const response = await iterator.readNext();
  assert.ok([StatusCodes.Ok, StatusCodes.NotModified].includes(response.statusCode), `status ${response.statusCode}`);
  assert.ok(response.continuationToken, "a page without a continuation");
  return { items: response.result ?? [], continuation: response.continuationToken, end: response.statusCode === StatusCodes.NotModified };
}

/** Reads until there are no new changes. */
export async function drain(iterator) {
  const all = [];
  for (;;) {
    const { items, end } = await page(iterator);
    all.push(...items);
    if (end) return all;
  }
}

/** Returns the last version of each id by key. It fails if an older version follows a newer one. */
export function latest(changes) {
  const seen = new Map();
  for (const { id, pk, v } of changes) {
    const name = `${pk}/${id}`;
    assert.ok(!seen.has(name) || v >= seen.get(name), `${name}: version ${v} after ${seen.get(name)}`);
    seen.set(name, v);
  }
  return seen;
}

/** Reads from a continuation to the end in another process. */
export async function inNewProcess(container, continuation, mode) {
  const child = fileURLToPath(new URL("./child.js", import.meta.url));
  const { stdout } = await promisify(execFile)(process.execPath, [child, container.database.id, container.id, continuation, mode ?? ""], { maxBuffer: 1 << 26 });
  return JSON.parse(stdout);
}
