// A process that receives only a continuation. It reads the new changes and prints them.
import { ChangeFeedStartFrom, CosmosClient } from "@azure/cosmos";

import { drain } from "./feed.js";

const [database, container, continuation, changeFeedMode] = process.argv.slice(2);
const client = new CosmosClient({ endpoint: process.env.CHANGEFEED_ENDPOINT, key: process.env.CHANGEFEED_KEY });
const iterator = client.database(database).container(container).items.getChangeFeedIterator({
  maxItemCount: 5,
  changeFeedStartFrom: ChangeFeedStartFrom.Continuation(continuation),
  ...(changeFeedMode && { changeFeedMode }),
});
process.stdout.write(JSON.stringify(await drain(iterator)));
