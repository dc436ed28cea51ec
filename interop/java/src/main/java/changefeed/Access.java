package changefeed;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

/** Scenarios of wrong keys, read-only keys and throttling. */
final class Access {

    private Access() {
    }

    static void add(Suite suite) {
        suite.add("throttling", Access::throttling);
        suite.add("wrong-key", Access::wrongKey);
        suite.add("read-only-key", Access::readOnlyKey);
    }

    private static void throttling(Suite suite) throws Exception {
        CosmosContainer container = suite.container("throttling");
        suite.admin.throttle(container, 12, 20);
        List<String> ids = new ArrayList<>();
        ExecutorService pool = Executors.newFixedThreadPool(4);
        try {
            List<Future<Integer>> writes = new ArrayList<>();
            for (int i = 0; i < 40; i++) {
                String id = "i" + i;
                ids.add(id);
                writes.add(pool.submit(() -> container.createItem(Json.item(id, "p", 1)).getStatusCode()));
            }
            for (Future<Integer> w : writes) {
                Check.equal(201, w.get(), "the status of a write");
            }
        } finally {
            pool.shutdownNow();
            suite.admin.clearFaults();
        }
        Check.eachOnce(ids, container.readAllItems(new PartitionKey("p"), JsonNode.class).stream().map(Json::id).toList(), "items written");
    }

    private static void wrongKey(Suite suite) throws Exception {
        String wrong = Base64.getEncoder().encodeToString(new byte[64]);
        ExecutorService one = Executors.newSingleThreadExecutor();
        try {
            Future<String> refused = one.submit(() -> {
                try (CosmosClient client = suite.env.client(wrong).buildClient()) {
                    client.getDatabase(suite.database.getId()).read();
                    return "nothing";
                } catch (RuntimeException e) { // the SDK wraps the answer to its first request in a plain exception
                    return e.getMessage();
                }
            });
            // The SDK would retry an outage for minutes. The deadline shows that it takes the answer
            // for a refusal.
            String message = refused.get(30, TimeUnit.SECONDS);
            Check.that(message.contains("StatusCode: Unauthorized") && message.contains("Server used the following payload"), "a wrong key is refused with: %s", message);
        } finally {
            one.shutdownNow();
        }
    }

    private static void readOnlyKey(Suite suite) {
        CosmosContainer full = suite.container("read-only-key");
        full.createItem(Json.item("i", "p", 1));
        try (CosmosClient client = suite.env.client(suite.env.readOnlyKey()).buildClient()) {
            CosmosContainer container = client.getDatabase(suite.database.getId()).getContainer("read-only-key");
            PartitionKey p = new PartitionKey("p");
            Check.equal(1, container.readItem("i", p, JsonNode.class).getItem().path("n").asInt(), "the item read");
            Check.equal(1, container.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), JsonNode.class).stream().toList().size(), "items found");
            Pull pull = Pull.beginning(container);
            Check.equal(List.of("i"), pull.ids(pull.drain()), "the feed");
            Check.refused(403, "create", () -> container.createItem(Json.item("j", "p", 1)));
            Check.refused(403, "replace", () -> container.replaceItem(Json.item("i", "p", 2), "i", p, new CosmosItemRequestOptions()));
            Check.refused(403, "delete", () -> container.deleteItem("i", p, new CosmosItemRequestOptions()));
            Check.refused(403, "delete the container", container::delete);
        }
        Check.equal(1, full.readItem("i", new PartitionKey("p"), JsonNode.class).getItem().path("n").asInt(), "the item after refusals");
    }
}
