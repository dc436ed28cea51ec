package changefeed;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** A process that receives only a continuation. It reads the later changes until a line arrives on standard input. */
final class Resume {

    private Resume() {
    }

    /** Prints each item as a line of JSON. args are the database, the container and the continuation. */
    static void main(List<String> args) throws Exception {
        try (CosmosClient client = Env.read().client().buildClient()) {
            CosmosContainer container = client.getDatabase(args.get(0)).getContainer(args.get(1));
            Pull pull = Pull.continued(container, args.get(2)).pages(5);
            while (System.in.available() == 0) {
                List<JsonNode> page = pull.page();
                for (JsonNode item : page) {
                    System.out.println(Json.MAPPER.writeValueAsString(item));
                }
                System.out.flush();
                if (page.isEmpty()) {
                    Thread.sleep(50);
                }
            }
        }
    }

    static Process start(Suite suite, String container, String token) throws IOException {
        return new Process(Child.start(Child.Trust.TRUSTSTORE, List.of("resume", suite.database.getId(), container, token)));
    }

    /** The process as the suite that started it sees it. */
    static final class Process implements AutoCloseable {
        private final java.lang.Process process;
        private final Thread reader;
        private final List<JsonNode> items = new ArrayList<>();

        Process(java.lang.Process process) {
            this.process = process;
            this.reader = new Thread(this::read, "resumed process");
            reader.setDaemon(true);
            reader.start();
        }

        private void read() {
            try (BufferedReader lines = process.inputReader(StandardCharsets.UTF_8)) {
                for (String line; (line = lines.readLine()) != null;) {
                    JsonNode item = Json.MAPPER.readTree(line);
                    synchronized (items) {
                        items.add(item);
                    }
                }
            } catch (IOException e) {
                throw new UncheckedIOException(e);
            }
        }

        List<JsonNode> items() {
            synchronized (items) {
                return List.copyOf(items);
            }
        }

        /** Waits until the process has printed at least count items. */
        void await(int count) throws Exception {
            Check.eventually(Duration.ofSeconds(60), count + " items of the resumed process", () -> {
                Check.that(process.isAlive(), "the resumed process ended early with %d items", items().size());
                return items().size() >= count;
            });
        }

        /** Asks the process to end and waits for its last line. */
        void quit() throws Exception {
            process.getOutputStream().write('\n');
            process.getOutputStream().flush();
            Check.that(process.waitFor(30, java.util.concurrent.TimeUnit.SECONDS), "the resumed process ends when asked");
            Check.equal(0, process.exitValue(), "the exit status of the resumed process");
            reader.join();
        }

        @Override
        public void close() {
            process.destroyForcibly();
        }
    }
}
