package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemIdentity;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosItemResponse;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.stream.IntStream;

/** Scenarios of items with odd ids, odd keys, hierarchical keys and ETags. */
final class Items {

    private static final CosmosItemRequestOptions PLAIN = new CosmosItemRequestOptions();

    private Items() {
    }

    static void add(Suite suite) {
        suite.add("items-ids", Items::ids);
        suite.add("items-keys", Items::keys);
        suite.add("read-many", Items::readMany);
        suite.add("items-hierarchical", Items::hierarchical);
        suite.add("etag-races", Items::etagRaces);
    }

    private static void ids(Suite suite) {
        CosmosContainer container = suite.container("items-ids");
        List<String> ids = List.of("plain", "with space in it", "50% + 1", "a%20b", "it's \"quoted\"", "Grüße, 日本 😀",
            "a+b&c=d;e,f@g$h:i!j*(k)", "[1]{2}|^`~<>", "..", "x".repeat(255));
        for (String id : ids) {
            ObjectNode item = Json.item(id, "p", 1);
            Check.equal(201, container.createItem(item).getStatusCode(), "the status of the create of " + id);
            Check.refused(409, "create twice " + id, () -> container.createItem(item));
            CosmosItemResponse<ObjectNode> read = container.readItem(id, new PartitionKey("p"), ObjectNode.class);
            Check.equal(item, Json.user(read.getItem()), "the item read by " + id);
            Check.equal(read.getETag(), read.getItem().path("_etag").asText(), "the etag in header and body of " + id);
            item.put("n", 2);
            Check.equal(200, container.replaceItem(item, id, new PartitionKey("p"), PLAIN).getStatusCode(), "the status of the replace of " + id);
            item.put("n", 3);
            Check.equal(200, container.upsertItem(item).getStatusCode(), "the status of the upsert of " + id);
            Check.equal(item, Json.user(container.readItem(id, new PartitionKey("p"), ObjectNode.class).getItem()), "the item after the upsert of " + id);
        }
        List<String> listed = container.readAllItems(new PartitionKey("p"), JsonNode.class).stream().map(Json::id).toList();
        Check.eachOnce(ids, listed, "ids read by readAllItems");
        for (String id : ids) {
            Check.equal(204, container.deleteItem(id, new PartitionKey("p"), PLAIN).getStatusCode(), "the status of the delete of " + id);
            Check.refused(404, "read deleted " + id, () -> container.readItem(id, new PartitionKey("p"), ObjectNode.class));
            Check.refused(404, "delete deleted " + id, () -> container.deleteItem(id, new PartitionKey("p"), PLAIN));
            Check.refused(404, "replace deleted " + id, () -> container.replaceItem(Json.item(id, "p", 4), id, new PartitionKey("p"), PLAIN));
        }
    }

    private static void keys(Suite suite) {
        CosmosContainer container = suite.container(new CosmosContainerProperties("items-keys", "/pk"), 3);
        Map<PartitionKey, ObjectNode> items = new LinkedHashMap<>();
        for (String pk : List.of("a/b", "a\\b", "say \"hi\"", "it's", "Grüße, 日本 😀", " ", "", "a?b#c", "x".repeat(1000))) {
            items.put(new PartitionKey(pk), Json.object().put("pk", pk));
        }
        items.put(new PartitionKey(42), Json.object().put("pk", 42));
        items.put(new PartitionKey(-0.25), Json.object().put("pk", -0.25));
        items.put(new PartitionKey(1e21), Json.object().put("pk", 1e21));
        items.put(new PartitionKey(true), Json.object().put("pk", true));
        items.put(new PartitionKey(false), Json.object().put("pk", false));
        items.put(new PartitionKeyBuilder().addNullValue().build(), Json.object().putNull("pk"));
        items.put(PartitionKey.NONE, Json.object());

        int n = 0;
        for (Map.Entry<PartitionKey, ObjectNode> e : items.entrySet()) {
            e.getValue().put("id", "same").put("n", n++);
            Check.equal(201, container.createItem(e.getValue(), e.getKey(), PLAIN).getStatusCode(), "the status of the create under " + e.getKey());
        }
        for (Map.Entry<PartitionKey, ObjectNode> e : items.entrySet()) {
            ObjectNode read = container.readItem("same", e.getKey(), ObjectNode.class).getItem();
            Check.equal(e.getValue().path("n"), read.path("n"), "the item under " + e.getKey());
            List<JsonNode> found = container.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions().setPartitionKey(e.getKey()), JsonNode.class)
                .stream().toList();
            if (e.getKey() != PartitionKey.NONE) { // for NONE the SDK sends no key, and queries all partitions
                Check.equal(1, found.size(), "items found under " + e.getKey());
                Check.equal(e.getValue().path("n"), found.get(0).path("n"), "the item found under " + e.getKey());
            }
        }
        Check.refused(404, "read under a key that has no item", () -> container.readItem("same", new PartitionKey("other"), JsonNode.class));
        Check.refused(400, "create under a key that is not the item's",
            () -> container.createItem(Json.item("wrong", "p", 1), new PartitionKey("q"), PLAIN));
        for (PartitionKey key : items.keySet()) {
            Check.equal(204, container.deleteItem("same", key, PLAIN).getStatusCode(), "the status of the delete under " + key);
        }
    }

    private static void readMany(Suite suite) {
        CosmosContainer container = suite.container(new CosmosContainerProperties("read-many", "/pk"), 3);
        List<CosmosItemIdentity> wanted = new ArrayList<>();
        List<Integer> numbers = new ArrayList<>();
        for (int i = 0; i < 60; i++) {
            String pk = i % 7 == 0 ? "it's / \"k" + i + "\"" : "k" + i % 5;
            container.createItem(Json.item("i" + i, pk, i));
            if (i % 2 == 0) {
                wanted.add(new CosmosItemIdentity(new PartitionKey(pk), "i" + i));
                numbers.add(i);
            }
        }
        wanted.add(new CosmosItemIdentity(new PartitionKey("k1"), "nothing"));
        wanted.add(new CosmosItemIdentity(new PartitionKey("nothing"), "i1"));
        Check.eachOnce(numbers, container.readMany(wanted, JsonNode.class).getResults().stream().map(i -> i.path("n").asInt()).toList(), "items read");

        CosmosContainer byId = suite.container(new CosmosContainerProperties("read-many-ids", "/id"), 2);
        List<CosmosItemIdentity> ids = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
            byId.createItem(Json.item("i" + i, "p", i));
            ids.add(new CosmosItemIdentity(new PartitionKey("i" + i * 2), "i" + i * 2));
        }
        Check.eachOnce(IntStream.range(0, 10).map(i -> i * 2).boxed().toList(),
            byId.readMany(ids, JsonNode.class).getResults().stream().map(i -> i.path("n").asInt()).toList(), "items read of a container by id");
    }

    /** Returns the properties of a container with the key /tenant, /user, /session. */
    static CosmosContainerProperties hierarchy(String name) {
        return new CosmosContainerProperties(name, new PartitionKeyDefinition()
            .setPaths(List.of("/tenant", "/user", "/session"))
            .setKind(PartitionKind.MULTI_HASH)
            .setVersion(PartitionKeyDefinitionVersion.V2));
    }

    private static void hierarchical(Suite suite) {
        CosmosContainer container = suite.container(hierarchy("items-hierarchical"), 3);
        for (int t = 0; t < 3; t++) {
            for (int u = 0; u < 3; u++) {
                for (int s = 0; s < 3; s++) {
                    ObjectNode item = Json.object().put("id", "i").put("tenant", "t/" + t).put("user", "ü" + u).put("session", s);
                    PartitionKey full = new PartitionKeyBuilder().add("t/" + t).add("ü" + u).add(s).build();
                    Check.equal(201, container.createItem(item, full, PLAIN).getStatusCode(), "the status of a create");
                    Check.equal(item, Json.user(container.readItem("i", full, ObjectNode.class).getItem()), "the item read");
                }
            }
        }
        PartitionKey full = new PartitionKeyBuilder().add("t/1").add("ü2").add(0).build();
        Check.equal(1, count(container, "SELECT * FROM c", full), "items under a full key");
        Check.equal(3, count(container, "SELECT * FROM c", new PartitionKeyBuilder().add("t/1").add("ü2").build()), "items under a prefix of two");
        Check.equal(9, count(container, "SELECT * FROM c", new PartitionKeyBuilder().add("t/1").build()), "items under a prefix of one");
        Check.equal(3, count(container, "SELECT * FROM c WHERE c.session = 1", new PartitionKeyBuilder().add("t/1").build()), "items filtered under a prefix");
        Check.equal(9, count(container, "SELECT * FROM c WHERE c.tenant = 't/2'", null), "items of a tenant in all partitions");
        Check.equal(27, count(container, "SELECT * FROM c", null), "items in all");
    }

    private static int count(CosmosContainer container, String query, PartitionKey key) {
        CosmosQueryRequestOptions options = new CosmosQueryRequestOptions();
        if (key != null) {
            options.setPartitionKey(key);
        }
        return container.queryItems(query, options, JsonNode.class).stream().toList().size();
    }

    private static void etagRaces(Suite suite) throws Exception {
        CosmosContainer container = suite.container("etag-races");
        PartitionKey pk = new PartitionKey("p");
        String etag = container.createItem(Json.item("raced", "p", 0)).getETag();
        ExecutorService pool = Executors.newFixedThreadPool(2);
        try {
            for (int round = 1; round <= 25; round++) {
                String expected = etag;
                List<Callable<String>> writers = new ArrayList<>();
                for (int w = 0; w < 2; w++) {
                    ObjectNode mine = Json.item("raced", "p", 2L * round + w);
                    writers.add(() -> container.replaceItem(mine, "raced", pk, new CosmosItemRequestOptions().setIfMatchETag(expected)).getETag());
                }
                List<String> won = new ArrayList<>();
                for (Future<String> f : pool.invokeAll(writers)) {
                    try {
                        won.add(f.get());
                    } catch (java.util.concurrent.ExecutionException e) {
                        Check.refused(412, "the writer that lost round " + round, () -> {
                            throw (Exception) e.getCause();
                        });
                    }
                }
                Check.equal(1, won.size(), "the number of writers that won round " + round);
                String now = container.readItem("raced", pk, JsonNode.class).getETag();
                Check.equal(won.get(0), now, "the etag after round " + round);
                etag = now;
            }
        } finally {
            pool.shutdownNow();
        }
        String current = etag;
        CosmosItemResponse<JsonNode> unchanged = container.readItem("raced", pk, new CosmosItemRequestOptions().setIfNoneMatchETag(current), JsonNode.class);
        Check.equal(304, unchanged.getStatusCode(), "the status of a read with the current etag");
        Check.equal(null, unchanged.getItem(), "the item of a read with the current etag");
        container.upsertItem(Json.item("raced", "p", 1000));
        CosmosItemResponse<JsonNode> changed = container.readItem("raced", pk, new CosmosItemRequestOptions().setIfNoneMatchETag(current), JsonNode.class);
        Check.equal(200, changed.getStatusCode(), "the status of a read with an older etag");
        Check.equal(1000, changed.getItem().path("n").asInt(), "the item of a read with an older etag");
        Check.refused(412, "delete with an older etag", () -> container.deleteItem("raced", pk, new CosmosItemRequestOptions().setIfMatchETag(current)));
        Check.refused(412, "upsert with an older etag",
            () -> container.upsertItem(Json.item("raced", "p", 1), pk, new CosmosItemRequestOptions().setIfMatchETag(current)));
    }
}
