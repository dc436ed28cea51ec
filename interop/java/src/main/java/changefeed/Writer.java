package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * Writes numbered changes on a thread of its own and records the acknowledged ones. Then it compares
 * them with the changes that a read delivered. Every third change of a key replaces the key's hot
 * item. The others are new items.
 */
final class Writer implements AutoCloseable {

    static final int KEYS = 6;

    /** An acknowledged change. operation is "create", "replace" or "delete". */
    record Write(String id, String pk, long n, String operation) {
    }

    private final CosmosContainer container;
    private final boolean hierarchical;
    private final boolean deletes;
    private final List<Write> log = new ArrayList<>();
    private final Set<String> hot = new HashSet<>();
    private Set<String> onlyKeys;
    private int from;
    private long next;
    private Thread thread;
    private volatile boolean done;
    private volatile Exception failed;

    Writer(CosmosContainer container, boolean hierarchical, boolean deletes) {
        this.container = container;
        this.hierarchical = hierarchical;
        this.deletes = deletes;
    }

    /** Writes this many changes and returns. */
    void write(int count) {
        for (int i = 0; i < count; i++) {
            one();
        }
    }

    void start() {
        thread = new Thread(() -> {
            try {
                while (!done) {
                    one();
                    Thread.sleep(2);
                }
            } catch (Exception e) {
                failed = e;
            }
        }, "writer");
        thread.start();
    }

    /** Ends the thread. Afterwards the log contains all its writes. */
    void finish() throws Exception {
        done = true;
        thread.join();
        if (failed != null) {
            throw new Check.Failure("a write failed", failed);
        }
    }

    @Override
    public void close() throws Exception {
        done = true;
        if (thread != null) {
            thread.join();
        }
    }

    private void one() {
        long n = next++;
        String pk = "k" + n % KEYS;
        boolean again = n / KEYS % 3 == 2;
        String id = again ? "hot-" + pk : "i" + n;
        String operation = again && hot.contains(id) ? "replace" : "create";
        ObjectNode item = hierarchical
            ? Json.object().put("id", id).put("tenant", pk).put("user", "u" + n / KEYS % 4 * (again ? 0 : 1)).put("session", again ? 0 : n).put("pk", pk).put("n", n)
            : Json.item(id, pk, n);
        container.upsertItem(item);
        record(new Write(id, pk, n, operation));
        if (again) {
            hot.add(id);
        } else if (deletes && n / KEYS % 3 == 1) {
            container.deleteItem(id, new PartitionKey(pk), new CosmosItemRequestOptions());
            record(new Write(id, pk, n, "delete"));
        }
    }

    private void record(Write w) {
        synchronized (log) {
            log.add(w);
        }
    }

    private List<Write> log() {
        synchronized (log) {
            return List.copyOf(log);
        }
    }

    /** Excludes the changes that were written so far. */
    void expectOnlyFromHere() {
        from = log().size();
    }

    void expectOnlyKeys(Set<String> keys) {
        onlyKeys = keys;
    }

    private List<Write> expected() {
        List<Write> all = log();
        List<Write> expected = new ArrayList<>();
        Map<String, Integer> last = new HashMap<>();
        for (int i = from; i < all.size(); i++) {
            Write w = all.get(i);
            if (onlyKeys != null && !onlyKeys.contains(w.pk())) {
                continue;
            }
            if (!deletes) { // only the last version of an item must be delivered
                Integer before = last.put(w.id(), expected.size());
                if (before != null) {
                    expected.set(before, null);
                }
            }
            expected.add(w);
        }
        expected.removeIf(java.util.Objects::isNull);
        return expected;
    }

    private static String name(String operation, String id, long n) {
        return operation + " " + id + (operation.equals("delete") ? "" : "=" + n);
    }

    /** Returns the names of the delivered changes: id and number, with the operation if all versions are read. */
    private Set<String> delivered(List<JsonNode> read) {
        Set<String> names = new HashSet<>();
        for (JsonNode change : read) {
            if (deletes) {
                JsonNode current = change.path("current");
                JsonNode metadata = change.path("metadata");
                String operation = metadata.path("operationType").asText();
                names.add(name(operation, Json.id(operation.equals("delete") ? metadata : current), current.path("n").asLong()));
            } else {
                names.add(name("", Json.id(change), change.path("n").asLong()));
            }
        }
        return names;
    }

    /** Returns the expected changes that were not read. */
    Set<String> missing(List<JsonNode> read) {
        Set<String> missing = new TreeSet<>();
        expected().forEach(w -> missing.add(name(deletes ? w.operation() : "", w.id(), w.n())));
        missing.removeAll(delivered(read));
        return missing;
    }

    /** Fails if a change is missing or belongs to another key, or if a key's changes are out of order. */
    void verify(List<JsonNode> read, boolean versions) {
        Set<String> missing = missing(read);
        Check.that(missing.isEmpty(), "%d changes are lost, among them %s", missing.size(), missing.stream().limit(5).toList());
        Map<String, Long> last = new HashMap<>();
        for (JsonNode change : read) {
            JsonNode item = versions ? change.path("current") : change;
            if (!item.has("n") || item.path("pk").asText().equals("clock")) {
                continue;
            }
            String pk = item.path("pk").asText();
            Check.that(onlyKeys == null || onlyKeys.contains(pk), "an item of key %s is delivered", pk);
            // A prefix may cover several partitions. Only the items of a full key are in order.
            String ordered = hierarchical ? pk + "/" + item.path("user").asText() + "/" + item.path("session").asText() : pk;
            Long before = last.put(ordered, item.path("n").asLong());
            Check.that(before == null || before < item.path("n").asLong(), "key %s: number %d comes after %d", ordered, item.path("n").asLong(), before);
        }
    }
}
