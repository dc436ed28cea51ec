package changefeed;

import com.azure.cosmos.ChangeFeedProcessor;
import com.azure.cosmos.ChangeFeedProcessorBuilder;
import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncContainer;
import com.azure.cosmos.models.ChangeFeedProcessorItem;
import com.azure.cosmos.models.ChangeFeedProcessorOptions;
import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * A process that is one host of the change feed processor in each mode. It prints each change that
 * a handler receives. A line of standard input stops it. The end of standard input ends it at once.
 */
final class ProcessorHost {

    /** The names of the modes, which are also the prefixes of their leases. */
    static final List<String> MODES = List.of("changes", "latest", "versions");

    private ProcessorHost() {
    }

    /** Runs the host. args are its name, the database, the monitored container and the lease container. */
    static void main(List<String> args) throws Exception {
        String host = args.get(0);
        CosmosAsyncClient client = Env.read().client().buildAsyncClient();
        CosmosAsyncContainer monitored = client.getDatabase(args.get(1)).getContainer(args.get(2));
        CosmosAsyncContainer leases = client.getDatabase(args.get(1)).getContainer(args.get(3));
        List<ChangeFeedProcessor> processors = new ArrayList<>();
        for (String mode : MODES) {
            ChangeFeedProcessor processor = processor(host, mode, monitored, leases);
            processor.start().block(Duration.ofSeconds(60));
            processors.add(processor);
            say("started\t" + mode);
        }
        try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            if (in.readLine() == null) {
                Runtime.getRuntime().halt(3); // the process that started this one has ended
            }
        }
        for (ChangeFeedProcessor processor : processors) {
            processor.stop().block(Duration.ofSeconds(60));
        }
        say("stopped");
        client.close();
    }

    private static ChangeFeedProcessor processor(String host, String mode, CosmosAsyncContainer monitored, CosmosAsyncContainer leases) {
        // The intervals are short, in the proportions of the defaults, so that another host acquires
        // a dead host's leases within seconds.
        ChangeFeedProcessorOptions options = new ChangeFeedProcessorOptions()
            .setLeasePrefix(mode + "-")
            .setLeaseRenewInterval(Duration.ofSeconds(2))
            .setLeaseAcquireInterval(Duration.ofSeconds(1))
            .setLeaseExpirationInterval(Duration.ofSeconds(6))
            .setFeedPollDelay(Duration.ofMillis(250))
            .setMaxItemCount(25);
        if (!mode.equals("versions")) {
            options.setStartFromBeginning(true);
        }
        ChangeFeedProcessorBuilder builder = new ChangeFeedProcessorBuilder()
            .hostName(host).feedContainer(monitored).leaseContainer(leases).options(options);
        return switch (mode) {
            case "changes" -> builder.handleChanges(items -> items.forEach(i -> change(mode, "", i))).buildChangeFeedProcessor();
            case "latest" -> builder.handleLatestVersionChanges((List<ChangeFeedProcessorItem> items) ->
                items.forEach(i -> change(mode, "", i.getCurrent()))).buildChangeFeedProcessor();
            case "versions" -> builder.handleAllVersionsAndDeletesChanges((List<ChangeFeedProcessorItem> items) -> items.forEach(i -> {
                String operation = i.getChangeFeedMetaData().getOperationType().name().toLowerCase(Locale.ROOT);
                change(mode, operation, operation.equals("delete") ? i.toJsonNode().path("metadata") : i.getCurrent());
            })).buildChangeFeedProcessor();
            default -> throw new IllegalArgumentException(mode);
        };
    }

    private static void change(String mode, String operation, JsonNode item) {
        say(String.join("\t", "change", mode, Long.toString(System.currentTimeMillis()), operation, Json.id(item), Long.toString(item.path("n").asLong(-1))));
    }

    private static synchronized void say(String line) {
        System.out.println(line);
        System.out.flush();
    }
}
