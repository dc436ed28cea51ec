package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.TimeUnit;

/**
 * Scenarios of Java's change feed processor. All three modes read one monitored container at the
 * same time. Two hosts start, a third joins, one is killed, and a partition splits, while writes
 * continue. The three scenarios share one run, and each checks its mode.
 */
final class Processors {

    private static final int PARTITIONS = 4;
    private static final int KEYS = 24;
    private static final Duration DEADLINE = Duration.ofSeconds(120);
    private static final String HOT = "hot-";

    private static Processors shared;

    private final Suite suite;
    private final CosmosContainer monitored;
    private final CosmosContainer leases;
    private final Map<String, Deliveries> deliveries = new HashMap<>();
    private final List<Deliveries.Written> written = new ArrayList<>();
    private final List<Host> hosts = new ArrayList<>();
    private final long began = System.nanoTime();
    private volatile String phase = "start";
    private volatile boolean done;
    private volatile Exception failed;

    private Processors(Suite suite) {
        this.suite = suite;
        this.monitored = suite.container(Feeds.keepsVersions("monitored"), PARTITIONS);
        this.leases = suite.container(new CosmosContainerProperties("leases", "/id"), 1);
        for (String mode : ProcessorHost.MODES) {
            deliveries.put(mode, new Deliveries(mode.equals("versions")));
        }
    }

    static void add(Suite suite) {
        for (String mode : ProcessorHost.MODES) {
            suite.add("processor-" + mode, s -> {
                if (shared == null) {
                    shared = new Processors(s);
                    shared.run();
                }
                shared.judge(mode);
            });
        }
    }

    private void run() throws Exception {
        Thread writer = new Thread(this::write, "writer");
        try {
            // The hosts start one after the other. If several find no leases, all but one wait for 15 s
            // in each mode.
            Host a = new Host("java-a");
            a.started();
            Host b = new Host("java-b");
            b.started();
            // All versions are read from now on, which is the moment when each lease has its first position.
            Check.eventually(DEADLINE, "every lease of all versions has a position", () -> {
                List<JsonNode> all = leases("versions");
                return all.size() == PARTITIONS && all.stream().allMatch(l -> l.path("ContinuationToken").isTextual());
            });
            phase("two hosts");
            writer.start();
            Check.eventually(DEADLINE, "two hosts share the leases", () -> owners(Set.of("java-a", "java-b")));
            Thread.sleep(1000);

            phase("third joins");
            Host c = new Host("java-c");
            c.started();
            phase("third started");
            Check.eventually(DEADLINE, "three hosts share the leases", () -> owners(Set.of("java-a", "java-b", "java-c")));
            Thread.sleep(1000);

            phase("one killed");
            b.kill();
            Check.eventually(DEADLINE, "the dead host's leases are taken over", () -> owners(Set.of("java-a", "java-c")));
            Thread.sleep(1000);

            phase("split");
            suite.admin.split(monitored, suite.admin.partitions(monitored).get(1).id());
            Check.eventually(DEADLINE, "every mode has the leases of the two new partitions", () -> {
                for (String mode : ProcessorHost.MODES) {
                    if (leases(mode).size() != PARTITIONS + 1) {
                        return false;
                    }
                }
                return owners(Set.of("java-a", "java-c"));
            });

            phase("after");
            Thread.sleep(2000);
            done = true;
            writer.join();
            if (failed != null) {
                throw new Check.Failure("a write failed", failed);
            }
            long end = System.nanoTime() + DEADLINE.toNanos();
            while (System.nanoTime() < end && deliveries.values().stream().anyMatch(d -> !d.missing(written()).isEmpty())) {
                Thread.sleep(50);
            }
            a.quit();
            c.quit();
        } finally {
            done = true;
            writer.join();
            hosts.forEach(Host::kill);
        }
    }

    private void phase(String name) {
        phase = name;
        System.out.printf("    %5.1f s  %s%n", (System.nanoTime() - began) / 1e9, name);
    }

    private void judge(String mode) {
        Deliveries of = deliveries.get(mode);
        List<Deliveries.Written> all = written();
        Check.that(!all.isEmpty() && done && failed == null, "%s: the run of the hosts did not come to its end", mode);
        List<String> missing = of.missing(all);
        Check.that(missing.isEmpty(), "%s: %d of %d changes never arrived, among them %s", mode, missing.size(), all.size(), missing.stream().limit(5).toList());
        of.inOrder(mode, all);
        for (String host : List.of("java-a", "java-b", "java-c")) {
            Check.that(of.from(host) > 0, "%s: host %s delivered changes", mode, host);
        }
        System.out.printf("    %s: %d writes, %d deliveries, %d of them again; longest pause of a partition %d ms; longest wait of a change, by phase (ms): %s%n",
            mode, all.size(), of.total(), of.redelivered(), of.longestPause(all), of.longestWait(all));
    }

    /** Returns the lease documents of a mode. */
    private List<JsonNode> leases(String mode) {
        SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM c WHERE STARTSWITH(c.id, @prefix) AND IS_DEFINED(c.LeaseToken)", new SqlParameter("@prefix", mode + "-"));
        return leases.queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class).stream().toList();
    }

    /** Reports whether exactly these hosts own all leases in every mode. */
    private boolean owners(Set<String> wanted) {
        for (String mode : ProcessorHost.MODES) {
            Set<String> owners = new HashSet<>();
            leases(mode).forEach(l -> owners.add(l.path("Owner").asText("")));
            if (!owners.equals(wanted)) {
                return false;
            }
        }
        return true;
    }

    private List<Deliveries.Written> written() {
        synchronized (written) {
            return List.copyOf(written);
        }
    }

    private void log(long n, String id, String pk, String operation, long at) {
        synchronized (written) {
            written.add(new Deliveries.Written(n, id, pk, operation, phase, at));
        }
    }

    /** Writes new items, replaces the hot item of each key, and deletes items: about a hundred writes a second. */
    private void write() {
        Set<String> hot = new HashSet<>();
        try {
            for (long n = 0; !done; n++) {
                String pk = "k" + n % KEYS;
                long round = n / KEYS;
                String id = round % 3 == 1 ? HOT + pk : "i" + n;
                long at = System.currentTimeMillis();
                monitored.upsertItem(Json.item(id, pk, n));
                log(n, id, pk, hot.contains(id) ? "replace" : "create", at);
                if (id.startsWith(HOT)) {
                    hot.add(id);
                } else if (round % 6 == 2) {
                    at = System.currentTimeMillis();
                    monitored.deleteItem(id, new PartitionKey(pk), new CosmosItemRequestOptions());
                    log(n, id, pk, "delete", at);
                }
                Thread.sleep(7);
            }
        } catch (Exception e) {
            failed = e;
        }
    }

    /** A running host process. */
    private final class Host {
        private final String name;
        private final Process process;
        private final Thread reader;
        private final Set<String> started = new HashSet<>();

        Host(String name) throws IOException {
            this.name = name;
            process = Child.start(Child.Trust.EMULATOR_SWITCH, List.of("host", name, suite.database.getId(), monitored.getId(), leases.getId()));
            hosts.add(this);
            reader = new Thread(this::read, name);
            reader.setDaemon(true);
            reader.start();
        }

        private void read() {
            try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
                for (String line; (line = lines.readLine()) != null;) {
                    String[] f = line.split("\t", -1);
                    if (f[0].equals("started")) {
                        synchronized (started) {
                            started.add(f[1]);
                        }
                    } else if (f[0].equals("change") && f.length == 6) { // the last line of a killed host may be incomplete
                        deliveries.get(f[1]).add(name, Long.parseLong(f[2]), f[3], f[4], Long.parseLong(f[5]));
                    }
                }
            } catch (IOException e) {
                if (process.isAlive()) {
                    throw new UncheckedIOException(e);
                }
            }
        }

        void started() throws Exception {
            Check.eventually(DEADLINE, name + " starts its processors", () -> {
                Check.that(process.isAlive(), "%s ended while it started, with %s", name, process.isAlive() ? "" : process.exitValue());
                synchronized (started) {
                    return started.size() == ProcessorHost.MODES.size();
                }
            });
        }

        void kill() {
            process.destroyForcibly();
        }

        void quit() throws Exception {
            process.getOutputStream().write('\n');
            process.getOutputStream().flush();
            Check.that(process.waitFor(30, TimeUnit.SECONDS), "%s stops when asked", name);
            Check.equal(0, process.exitValue(), "the exit status of " + name);
            reader.join();
        }
    }
}
