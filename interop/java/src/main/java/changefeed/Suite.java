package changefeed;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.ThroughputProperties;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Runs the scenarios by name, with one client and one database, and writes the report. */
final class Suite implements AutoCloseable {

    @FunctionalInterface
    interface Scenario {
        void run(Suite suite) throws Exception;
    }

    final Env env;
    final CosmosClient client;
    final CosmosDatabase database;
    final Admin admin;
    private final Map<String, Scenario> scenarios = new LinkedHashMap<>();

    Suite(Env env) {
        this.env = env;
        this.client = env.client().buildClient();
        String name = "java-" + UUID.randomUUID();
        client.createDatabase(name);
        this.database = client.getDatabase(name);
        this.admin = new Admin(env, name);
    }

    void add(String name, Scenario scenario) {
        if (scenarios.put(name, scenario) != null) {
            throw new IllegalStateException("two scenarios are called " + name);
        }
    }

    /** Runs the named scenarios, or all of them. It returns the number of failures. */
    int run(List<String> names) throws IOException {
        for (String name : names) {
            if (!scenarios.containsKey(name)) {
                throw new IllegalArgumentException("there is no scenario " + name);
            }
        }
        List<String> failed = new ArrayList<>();
        int passed = 0;
        for (Map.Entry<String, Scenario> s : scenarios.entrySet()) {
            if (!names.isEmpty() && !names.contains(s.getKey())) {
                continue;
            }
            long start = System.nanoTime();
            String outcome = "ok";
            try {
                s.getValue().run(this);
                passed++;
            } catch (Exception | AssertionError e) {
                outcome = "failed\t" + oneLine(e);
                failed.add(s.getKey());
            }
            System.out.printf("%-22s %5.1f s  %s%n", s.getKey(), (System.nanoTime() - start) / 1e9, outcome);
            report(s.getKey() + "\t" + outcome + "\n");
        }
        System.out.printf("%d passed, %d failed%n", passed, failed.size());
        return failed.size();
    }

    /** Returns the messages of an error and its causes in one line. */
    static String oneLine(Throwable e) {
        StringBuilder text = new StringBuilder();
        for (Throwable t = e; t != null; t = t.getCause()) {
            String line = String.valueOf(t.getMessage()).lines().findFirst().orElse("");
            text.append(text.isEmpty() ? "" : " <- ").append(t.getClass().getSimpleName()).append(": ")
                .append(line, 0, Math.min(line.length(), 400));
        }
        if (!(e instanceof Check.Failure) && e.getStackTrace().length > 0) {
            for (StackTraceElement at : e.getStackTrace()) {
                if (at.getClassName().startsWith("changefeed.")) {
                    text.append(" at ").append(at);
                    break;
                }
            }
        }
        return text.toString().replaceAll("\\s+", " ");
    }

    private void report(String line) throws IOException {
        if (env.report() != null) {
            Files.writeString(Path.of(env.report()), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        }
    }

    /** Creates a container of one partition with the partition key path /pk. */
    CosmosContainer container(String name) {
        return container(new CosmosContainerProperties(name, "/pk"), 1);
    }

    /** Creates a container with this many partitions. The service creates one per 10,000 RU/s. */
    CosmosContainer container(CosmosContainerProperties properties, int partitions) {
        ThroughputProperties throughput = ThroughputProperties.createManualThroughput(partitions == 1 ? 400 : 10_000 * partitions);
        database.createContainer(properties, throughput);
        return database.getContainer(properties.getId());
    }

    @Override
    public void close() {
        try {
            database.delete();
        } finally {
            client.close();
        }
    }
}
