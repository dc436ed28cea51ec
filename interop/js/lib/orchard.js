// The data of the queries: 60 fruits of six keys in two partitions.
import { newContainer } from "./env.js";

export const names = ["apple", "Apricot", "banana", "it's", "plum", "quince"];

/** Creates a container with the fruits. */
export async function orchard(t) {
  const container = await newContainer(t);
  const all = Array.from({ length: 60 }, (_, n) => ({
    id: String(n).padStart(2, "0"), pk: names[n % 6], n, name: names[n % 6], tags: [`t${n % 3}`], inner: { "x y": n % 4 }, ...(n % 2 === 0 && { price: n / 4 }),
  }));
  for (const fruit of all) await container.items.create(fruit);
  return { container, all };
}

export const ids = (items) => items.map((i) => i.id).sort();
