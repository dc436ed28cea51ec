package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ChangeFeedPolicy;
import com.azure.cosmos.models.CosmosBatch;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Scenarios that pull the change feed while no partition splits or merges. */
final class Feeds {

    private Feeds() {
    }

    static void add(Suite suite) {
        suite.add("feed-beginning", Feeds::beginning);
        suite.add("feed-now", Feeds::now);
        suite.add("feed-time", Feeds::time);
        suite.add("feed-pages", Feeds::pages);
        suite.add("feed-range", Feeds::range);
        suite.add("feed-key", Feeds::key);
        suite.add("feed-prefix", Feeds::prefix);
        suite.add("feed-versions", Feeds::versions);
        suite.add("feed-resume", Feeds::resume);
    }

    /** Returns the properties of a container that retains all versions. */
    static CosmosContainerProperties keepsVersions(String name) {
        CosmosContainerProperties properties = new CosmosContainerProperties(name, "/pk");
        properties.setChangeFeedPolicy(ChangeFeedPolicy.createAllVersionsAndDeletesPolicy(Duration.ofMinutes(10)));
        return properties;
    }

    private static CosmosContainer three(Suite suite, String name) {
        return suite.container(new CosmosContainerProperties(name, "/pk"), 3);
    }

    /** Writes items i[from] to i[to-1] under ten keys. */
    private static List<String> write(CosmosContainer container, int from, int to) {
        List<String> ids = new ArrayList<>();
        for (int i = from; i < to; i++) {
            container.upsertItem(Json.item("i" + i, "k" + i % 10, i));
            ids.add("i" + i);
        }
        return ids;
    }

    /** Fails unless the numbers rise within each partition key. */
    static void ordered(List<JsonNode> items, String what) {
        Map<String, Long> last = new HashMap<>();
        for (JsonNode item : items) {
            Long before = last.put(item.path("pk").asText(), item.path("n").asLong());
            Check.that(before == null || before < item.path("n").asLong(), "%s: %s comes after number %d of its key", what, item, before);
        }
    }

    private static void beginning(Suite suite) {
        CosmosContainer container = three(suite, "feed-beginning");
        Pull empty = Pull.beginning(container);
        Check.equal(List.of(), empty.drain(), "the feed of an empty container");
        List<String> ids = new ArrayList<>(write(container, 0, 120));
        for (int i = 0; i < 20; i++) { // a replaced item moves to the end of its key's feed
            container.upsertItem(Json.item("i" + i, "k" + i % 10, 1000 + i));
        }
        container.deleteItem("i30", new PartitionKey("k0"), new CosmosItemRequestOptions());
        ids.remove("i30");

        Pull pull = Pull.beginning(container);
        List<JsonNode> read = pull.drain();
        Check.eachOnce(ids, pull.ids(read), "items from the beginning");
        ordered(read, "from the beginning");
        Check.that(read.stream().allMatch(i -> i.path("_lsn").isIntegralNumber() && i.path("_ts").isIntegralNumber()), "an item of the feed has _lsn and _ts");
        Check.that(read.stream().anyMatch(i -> Json.id(i).equals("i7") && i.path("n").asInt() == 1007), "i7 is there at its last version");
        Check.eachOnce(ids, empty.ids(empty.drain()), "items read on from the empty container");
        List<String> more = write(container, 200, 230);
        Check.eachOnce(more, pull.ids(pull.drain()), "items written since");
        Check.equal(List.of(), pull.drain(), "the feed when all is read");
    }

    private static void now(Suite suite) {
        CosmosContainer container = three(suite, "feed-now");
        write(container, 0, 30);
        Pull pull = Pull.now(container);
        Check.equal(List.of(), pull.drain(), "what is older than now");
        List<String> ids = write(container, 20, 60);
        Check.eachOnce(ids, pull.ids(pull.drain()), "items written after now");
    }

    private static void time(Suite suite) throws Exception {
        CosmosContainer container = three(suite, "feed-time");
        write(container, 0, 20);
        long[] second = {0};
        for (int i = 20; i < 40; i++) { // the read starts after the second of the last write
            second[0] = container.upsertItem(Json.item("i" + i, "k" + i % 10, i)).getItem().path("_ts").asLong();
        }
        Check.eventually(Duration.ofSeconds(10), "the service's next second", () ->
            container.upsertItem(Json.item("tick", "clock", 0)).getItem().path("_ts").asLong() > second[0]);
        List<String> ids = new ArrayList<>(write(container, 40, 70));
        ids.add("tick");
        Pull pull = Pull.time(container, Instant.ofEpochSecond(second[0])).pages(7);
        Check.eachOnce(ids, pull.ids(pull.drain()), "items changed after the second");
        List<String> more = write(container, 0, 5);
        Check.eachOnce(more, pull.ids(pull.drain()), "items changed since");
        Check.equal(List.of(), Pull.time(container, Instant.now().plusSeconds(600)).drain(), "items of a time to come");
    }

    private static void pages(Suite suite) {
        CosmosContainer container = three(suite, "feed-pages");
        List<String> ids = new ArrayList<>(write(container, 0, 60));
        CosmosBatch batch = CosmosBatch.createCosmosBatch(new PartitionKey("together"));
        Set<String> together = new HashSet<>();
        for (int i = 0; i < 10; i++) {
            batch.createItemOperation(Json.item("b" + i, "together", i));
            together.add("b" + i);
        }
        Check.that(container.executeCosmosBatch(batch).isSuccessStatusCode(), "the batch is done");
        ids.addAll(together);
        ids.addAll(write(container, 60, 90));
        for (int size : new int[] {1, 7, 100}) {
            Pull pull = Pull.beginning(container).pages(size);
            List<JsonNode> all = new ArrayList<>();
            for (int empty = 0; empty < 2;) {
                List<JsonNode> page = pull.page();
                empty = page.isEmpty() ? empty + 1 : 0;
                Set<String> of = new HashSet<>(pull.ids(page));
                of.retainAll(together);
                Check.that(of.isEmpty() || of.equals(together), "a page of %d cuts the batch: it has %s of it", size, of);
                Check.that(!of.isEmpty() || page.size() <= size, "a page has %d items, asked for %d", page.size(), size);
                all.addAll(page);
            }
            Check.eachOnce(ids, pull.ids(all), "items in pages of " + size);
        }
    }

    private static void range(Suite suite) {
        CosmosContainer container = three(suite, "feed-range");
        List<String> ids = write(container, 0, 90);
        List<FeedRange> ranges = container.getFeedRanges();
        Check.equal(3, ranges.size(), "the number of feed ranges");
        List<String> all = new ArrayList<>();
        for (FeedRange range : ranges) {
            // A range can be stored as text.
            Pull pull = Pull.beginning(container, FeedRange.fromString(range.toString())).pages(5);
            List<JsonNode> items = pull.drain();
            Check.that(!items.isEmpty(), "range %s has items", range);
            all.addAll(pull.ids(items));
        }
        Check.eachOnce(ids, all, "items of all ranges");
    }

    private static void key(Suite suite) {
        CosmosContainer container = three(suite, "feed-key");
        write(container, 0, 100);
        Pull pull = Pull.beginning(container, FeedRange.forLogicalPartition(new PartitionKey("k3"))).pages(3);
        List<JsonNode> items = pull.drain();
        Check.equal(List.of("i3", "i13", "i23", "i33", "i43", "i53", "i63", "i73", "i83", "i93"), pull.ids(items), "the items of k3, in order");
        write(container, 100, 120);
        Check.equal(List.of("i103", "i113"), pull.ids(pull.drain()), "what was written to k3 since");
    }

    private static void prefix(Suite suite) {
        CosmosContainer container = suite.container(Items.hierarchy("feed-prefix"), 3);
        List<String> wanted = new ArrayList<>();
        for (int i = 0; i < 90; i++) {
            ObjectNode item = Json.object().put("id", "i" + i).put("tenant", "t" + i % 5).put("user", "u" + i % 9).put("session", i).put("n", i);
            container.createItem(item);
            if (i % 5 == 2) {
                wanted.add("i" + i);
            }
        }
        Pull pull = Pull.beginning(container, FeedRange.forLogicalPartition(new PartitionKeyBuilder().add("t2").build())).pages(4);
        Check.eachOnce(wanted, pull.ids(pull.drain()), "items below the prefix of one");
        PartitionKey two = new PartitionKeyBuilder().add("t2").add("u7").build();
        Pull deeper = Pull.beginning(container, FeedRange.forLogicalPartition(two));
        Check.eachOnce(List.of("i7", "i52"), deeper.ids(deeper.drain()), "items below the prefix of two");
        container.createItem(Json.object().put("id", "late").put("tenant", "t2").put("user", "u0").put("session", 0));
        container.createItem(Json.object().put("id", "other").put("tenant", "t3").put("user", "u0").put("session", 0));
        Check.equal(List.of("late"), pull.ids(pull.drain()), "what was written below the prefix since");
    }

    private static void versions(Suite suite) {
        CosmosContainer container = suite.container(keepsVersions("feed-versions"), 2);
        Check.equal(10, (int) container.read().getProperties().getChangeFeedPolicy().getRetentionDurationForAllVersionsAndDeletesPolicy().toMinutes(), "the retention");
        container.createItem(Json.item("older", "p", 0));
        Pull pull = Pull.versions(container).pages(2);
        Check.equal(List.of(), pull.drain(), "versions older than now");
        container.createItem(Json.item("i", "p", 1));
        container.replaceItem(Json.item("i", "p", 2), "i", new PartitionKey("p"), new CosmosItemRequestOptions());
        container.upsertItem(Json.item("i", "p", 3));
        container.deleteItem("i", new PartitionKey("p"), new CosmosItemRequestOptions());
        container.upsertItem(Json.item("i", "p", 4));
        container.deleteItem("older", new PartitionKey("p"), new CosmosItemRequestOptions());

        List<String> seen = new ArrayList<>();
        long lsn = 0;
        for (JsonNode change : pull.drain()) {
            JsonNode metadata = change.path("metadata");
            String operation = metadata.path("operationType").asText();
            seen.add(operation + " " + (operation.equals("delete") ? Json.id(metadata) : Json.id(change.path("current")) + "=" + change.path("current").path("n").asInt()));
            Check.that(metadata.path("lsn").asLong() > lsn && metadata.path("crts").asLong() > 0, "a change has a higher lsn and a time: %s", metadata);
            lsn = metadata.path("lsn").asLong();
        }
        Check.equal(List.of("create i=1", "replace i=2", "replace i=3", "delete i", "create i=4", "delete older"), seen, "the changes");
        Check.refused(400, "all versions from the beginning",
            () -> container.queryChangeFeed(com.azure.cosmos.models.CosmosChangeFeedRequestOptions
                .createForProcessingFromContinuation(tokenOfBeginning(container)).setMaxItemCount(1), JsonNode.class).stream().toList());
    }

    /** Returns a token of a read of all versions, with a position that no server created. */
    private static String tokenOfBeginning(CosmosContainer container) throws Exception {
        Pull pull = Pull.versions(container);
        pull.drain();
        String state = new String(java.util.Base64.getUrlDecoder().decode(pull.token()), java.nio.charset.StandardCharsets.UTF_8);
        ObjectNode json = (ObjectNode) Json.MAPPER.readTree(state);
        for (JsonNode part : json.path("Continuation").path("Continuation")) {
            ((ObjectNode) part).put("token", "\"not a position\"");
        }
        return java.util.Base64.getUrlEncoder().encodeToString(Json.MAPPER.writeValueAsBytes(json));
    }

    private static void resume(Suite suite) throws Exception {
        CosmosContainer container = three(suite, "feed-resume");
        List<String> ids = new ArrayList<>(write(container, 0, 80));
        Pull pull = Pull.beginning(container).pages(6);
        List<String> read = new ArrayList<>();
        for (int i = 0; i < 5; i++) {
            read.addAll(pull.ids(pull.page()));
        }
        Check.that(read.size() < ids.size(), "the first process stops in the middle");
        try (Resume.Process child = Resume.start(suite, container.getId(), pull.token())) {
            ids.addAll(write(container, 80, 100));
            child.await(ids.size() - read.size());
            child.quit();
            read.addAll(pull.ids(child.items()));
        }
        Check.eachOnce(ids, read, "items of both processes");
    }
}
