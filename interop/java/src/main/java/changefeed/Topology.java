package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Base64;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/** Scenarios in which partitions split or merge in the middle of each kind of read, while writes continue. */
final class Topology {

    /** The number of changes that are read before the partitions change. AFTER is the number afterwards. */
    private static final int BEFORE = 30;
    private static final int AFTER = 100;

    private Topology() {
    }

    /** The kind of a read. */
    private enum Kind { BEGINNING, NOW, TIME, PAGES, RANGE, KEY, PREFIX, VERSIONS, RESUME }

    static void add(Suite suite) {
        for (Kind kind : Kind.values()) {
            String name = kind.name().toLowerCase(java.util.Locale.ROOT);
            suite.add("split-" + name, s -> run(s, kind, true));
            suite.add("merge-" + name, s -> run(s, kind, false));
        }
    }

    private static void run(Suite suite, Kind kind, boolean split) throws Exception {
        String name = (split ? "split-" : "merge-") + kind.name().toLowerCase(java.util.Locale.ROOT);
        // A key or a prefix is in one partition. The container has one partition before a split, and
        // two before a merge, so that the change affects it.
        int partitions = split && (kind == Kind.KEY || kind == Kind.PREFIX) ? 1 : 2;
        CosmosContainer container = suite.container(switch (kind) {
            case PREFIX -> Items.hierarchy(name);
            case VERSIONS -> Feeds.keepsVersions(name);
            default -> new CosmosContainerProperties(name, "/pk");
        }, partitions);

        // A single key receives a sixth of the writes.
        int after = kind == Kind.KEY || kind == Kind.PREFIX ? AFTER / 3 : AFTER;
        int before = kind == Kind.KEY || kind == Kind.PREFIX ? BEFORE / 3 : BEFORE;
        try (Writer writer = new Writer(container, kind == Kind.PREFIX, kind == Kind.VERSIONS)) {
            writer.write(BEFORE + 30);
            Pull pull = open(container, kind, writer);
            writer.start();
            List<JsonNode> read = new ArrayList<>();
            readUntil(pull, read, before, "changes before the partitions change");
            change(suite, container, split);
            if (kind == Kind.RESUME) {
                try (Resume.Process child = Resume.start(suite, container.getId(), pull.token())) {
                    child.await(after);
                    writer.finish();
                    Check.eventually(Duration.ofSeconds(60), "the resumed process has read everything", () -> {
                        List<JsonNode> all = new ArrayList<>(read);
                        all.addAll(child.items());
                        return writer.missing(all).isEmpty();
                    });
                    child.quit();
                    read.addAll(child.items());
                }
            } else {
                readUntil(pull, read, read.size() + after, "changes after the partitions changed");
                writer.finish();
                read.addAll(pull.drain());
            }
            writer.verify(read, kind == Kind.VERSIONS);
        }
        int now = container.getFeedRanges().size();
        Check.equal(split ? partitions + 1 : 1, suite.admin.partitions(container).size(), "the number of partitions");
        Check.that(now >= 1, "there are feed ranges");
    }

    /** Opens the read, and sets the writes of the writer that it must deliver. */
    private static Pull open(CosmosContainer container, Kind kind, Writer writer) throws Exception {
        switch (kind) {
            case BEGINNING, RESUME:
                return Pull.beginning(container).pages(10);
            case PAGES:
                return Pull.beginning(container).pages(2);
            case NOW: {
                Pull pull = Pull.now(container).pages(10);
                Check.equal(List.of(), pull.drain(), "what is older than now");
                writer.expectOnlyFromHere();
                return pull;
            }
            case VERSIONS: {
                Pull pull = Pull.versions(container).pages(10);
                Check.equal(List.of(), pull.drain(), "versions older than now");
                writer.expectOnlyFromHere();
                return pull;
            }
            case TIME: {
                long[] second = {container.upsertItem(Json.item("clock", "clock", 0)).getItem().path("_ts").asLong()};
                Check.eventually(Duration.ofSeconds(10), "the service's next second",
                    () -> container.upsertItem(Json.item("clock", "clock", 0)).getItem().path("_ts").asLong() > second[0]);
                writer.expectOnlyFromHere();
                return Pull.time(container, Instant.ofEpochSecond(second[0])).pages(10);
            }
            case RANGE: {
                FeedRange first = container.getFeedRanges().stream().filter(Topology::isFirst).findFirst().orElseThrow();
                Set<String> keys = new HashSet<>();
                Pull.beginning(container, first).drain().forEach(i -> keys.add(i.path("pk").asText()));
                writer.expectOnlyKeys(keys);
                return Pull.beginning(container, first).pages(5);
            }
            case KEY:
                writer.expectOnlyKeys(Set.of("k1"));
                return Pull.beginning(container, FeedRange.forLogicalPartition(new PartitionKey("k1"))).pages(3);
            case PREFIX:
                writer.expectOnlyKeys(Set.of("k1"));
                return Pull.beginning(container, FeedRange.forLogicalPartition(new PartitionKeyBuilder().add("k1").build())).pages(3);
            default:
                throw new IllegalStateException(kind.name());
        }
    }

    /** Reports whether the feed range begins at the least key. */
    private static boolean isFirst(FeedRange range) {
        return new String(Base64.getDecoder().decode(range.toString()), StandardCharsets.UTF_8).contains("\"min\":\"\"");
    }

    private static void readUntil(Pull pull, List<JsonNode> read, int count, String what) throws Exception {
        long end = System.nanoTime() + Duration.ofSeconds(60).toNanos();
        while (read.size() < count) {
            Check.that(System.nanoTime() < end, "%s: only %d of %d", what, read.size(), count);
            List<JsonNode> page = pull.page();
            read.addAll(page);
            if (page.isEmpty()) {
                Thread.sleep(10);
            }
        }
    }

    private static void change(Suite suite, CosmosContainer container, boolean split) throws Exception {
        List<Admin.Partition> partitions = suite.admin.partitions(container);
        if (split) {
            suite.admin.split(container, partitions.get(0).id());
        } else {
            suite.admin.merge(container, partitions.get(0).id(), partitions.get(1).id());
        }
    }
}
