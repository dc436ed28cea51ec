package changefeed;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Runs hosts of Java's change feed processor. It reads commands from standard input, one per
 * line. The tests interop/mixed and interop/compare send them. The program of our hosts
 * (interop/gohost) reads the same commands and prints the same lines, so that hosts of both kinds
 * can share leases.
 *
 * <pre>
 * start HOST mode=... database=... monitored=... leases=... prefix=... [from=...] [items=...] [poll=...] [...]
 * stop HOST      block HOST      unblock HOST      state HOST      quit
 * </pre>
 *
 * It answers each command with {@code ok COMMAND} or {@code failed COMMAND REASON}, and prints
 * each change that a handler receives. Tabs separate the fields. The end of standard input ends
 * the process at once.
 */
final class LiveHosts {

    private final CosmosAsyncClient client;
    private final Map<String, Host> hosts = new TreeMap<>();

    private LiveHosts(CosmosAsyncClient client) {
        this.client = client;
    }

    static void main() throws Exception {
        LiveHosts all = new LiveHosts(Env.read().client().buildAsyncClient());
        say("ready");
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            for (String line; (line = in.readLine()) != null;) {
                if (line.equals("quit")) {
                    all.client.close();
                    say("ok", line);
                    return;
                }
                try {
                    all.obey(line.trim().split("\\s+"));
                    say("ok", line);
                } catch (Exception e) {
                    say("failed", line, Suite.oneLine(e));
                }
            }
        }
        Runtime.getRuntime().halt(3); // the process that started this one has ended
    }

    private void obey(String[] words) throws Exception {
        String name = words[1];
        switch (words[0]) {
            case "start" -> {
                Map<String, String> options = new HashMap<>();
                for (String word : Arrays.asList(words).subList(2, words.length)) {
                    int at = word.indexOf('=');
                    options.put(word.substring(0, at), word.substring(at + 1));
                }
                Host host = new Host(name, options);
                hosts.put(name, host);
                host.processor.start().block(Duration.ofSeconds(60));
            }
            case "stop" -> hosts.remove(name).processor.stop().block(Duration.ofSeconds(60));
            case "block" -> hosts.get(name).blocked.set(true);
            case "unblock" -> hosts.get(name).blocked.set(false);
            case "state" -> hosts.get(name).processor.getCurrentState().block(Duration.ofSeconds(30)).forEach(s ->
                say("state", String.valueOf(s.getHostName()), s.getLeaseToken(), Integer.toString(s.getEstimatedLag()), String.valueOf(s.getContinuationToken())));
            default -> throw new IllegalArgumentException("unknown command");
        }
    }

    /** A processor in one mode, with a host name of its own. */
    private final class Host {
        private final String name;
        private final Map<String, String> options;
        private final ChangeFeedProcessor processor;
        private final AtomicBoolean blocked = new AtomicBoolean();
        private final AtomicLong handled = new AtomicLong();
        private final long until;
        private volatile long first;

        Host(String name, Map<String, String> options) {
            this.name = name;
            this.options = options;
            this.until = Long.parseLong(options.getOrDefault("until", "0"));
            this.processor = build();
        }

        private ChangeFeedProcessor build() {
            ChangeFeedProcessorOptions o = new ChangeFeedProcessorOptions().setLeasePrefix(need("prefix"));
            // Missing options keep the defaults of the SDK.
            if (options.containsKey("renew")) {
                o.setLeaseRenewInterval(millis("renew"));
            }
            if (options.containsKey("acquire")) {
                o.setLeaseAcquireInterval(millis("acquire"));
            }
            if (options.containsKey("expire")) {
                o.setLeaseExpirationInterval(millis("expire"));
            }
            if (options.containsKey("poll")) {
                o.setFeedPollDelay(millis("poll"));
            }
            if (options.containsKey("items")) {
                o.setMaxItemCount(Integer.parseInt(options.get("items")));
            }
            String from = options.getOrDefault("from", "now");
            if (from.equals("beginning")) {
                o.setStartFromBeginning(true);
            } else if (!from.equals("now")) {
                o.setStartTime(Instant.parse(from));
            }
            ChangeFeedProcessorBuilder builder = new ChangeFeedProcessorBuilder()
                .hostName(name)
                .feedContainer(client.getDatabase(need("database")).getContainer(need("monitored")))
                .leaseContainer(client.getDatabase(need("database")).getContainer(need("leases")))
                .options(o);
            String mode = need("mode");
            return switch (mode) {
                case "handleChanges" -> builder.handleChanges(items -> handle(items.size(), () -> items.forEach(i -> change("", i)))).buildChangeFeedProcessor();
                case "latestVersion" -> builder.handleLatestVersionChanges((List<ChangeFeedProcessorItem> items) ->
                    handle(items.size(), () -> items.forEach(i -> change("", i.getCurrent())))).buildChangeFeedProcessor();
                case "allVersions" -> builder.handleAllVersionsAndDeletesChanges((List<ChangeFeedProcessorItem> items) ->
                    handle(items.size(), () -> items.forEach(this::version))).buildChangeFeedProcessor();
                default -> throw new IllegalArgumentException("there is no mode " + mode);
            };
        }

        private String need(String option) {
            String value = options.get(option);
            if (value == null) {
                throw new IllegalArgumentException("start needs " + option + "=");
            }
            return value;
        }

        private Duration millis(String option) {
            return Duration.ofMillis(Long.parseLong(options.get(option)));
        }

        /** Prints a batch. If until is set, it only counts the changes. */
        private void handle(int size, Runnable print) {
            if (until == 0) {
                print.run();
                while (blocked.get()) {
                    pause();
                }
                return;
            }
            if (handled.get() == 0) {
                first = System.nanoTime();
            }
            long now = handled.addAndGet(size);
            if (now >= until && now - size < until) {
                say("reached", name, Long.toString(now), Long.toString((System.nanoTime() - first) / 1000));
            }
        }

        private void pause() {
            try {
                Thread.sleep(20);
            } catch (InterruptedException e) {
                // The processor interrupts its handlers when it stops. This handler ignores that.
                Thread.onSpinWait();
            }
        }

        private void version(ChangeFeedProcessorItem item) {
            String operation = item.getChangeFeedMetaData().getOperationType().name().toLowerCase(Locale.ROOT);
            if (!operation.equals("delete")) {
                change(operation, item.getCurrent());
                return;
            }
            // The metadata names the deleted item. Java's class exposes only a part of it.
            JsonNode metadata = item.toJsonNode().path("metadata");
            say("change", name, Long.toString(System.currentTimeMillis()), operation, metadata.path("partitionKey").path("pk").asText(), Json.id(metadata), "-1");
        }

        private void change(String operation, JsonNode item) {
            say("change", name, Long.toString(System.currentTimeMillis()), operation, item.path("pk").asText(), Json.id(item), Long.toString(item.path("n").asLong(-1)));
        }
    }

    private static synchronized void say(String... fields) {
        System.out.println(String.join("\t", fields));
        System.out.flush();
    }
}
