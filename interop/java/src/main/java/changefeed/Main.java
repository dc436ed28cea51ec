package changefeed;

import java.util.Arrays;
import java.util.List;

/**
 * The main program of the suite. Without arguments it runs every scenario, and with names it runs
 * those. Three arguments select a child process: {@code resume} continues a change feed,
 * {@code host} runs a host of the change feed processor, and {@code live} runs hosts that read
 * commands from a test.
 */
public final class Main {

    private Main() {
    }

    /**
     * Runs the suite, or one of its child processes.
     *
     * @param args names of scenarios, or a child's name and its arguments
     * @throws Exception if the suite cannot run at all
     */
    public static void main(String[] args) throws Exception {
        List<String> rest = Arrays.asList(args);
        if (args.length > 0 && args[0].equals("resume")) {
            Resume.main(rest.subList(1, rest.size()));
            System.exit(0);
        }
        if (args.length > 0 && args[0].equals("host")) {
            ProcessorHost.main(rest.subList(1, rest.size()));
            System.exit(0);
        }
        if (args.length > 0 && args[0].equals("live")) {
            LiveHosts.main();
            System.exit(0);
        }
        int failed;
        try (Suite suite = new Suite(Env.read())) {
            Lifecycle.add(suite);
            Items.add(suite);
            Writes.add(suite);
            Queries.add(suite);
            Planned.add(suite);
            Throughput.add(suite);
            Feeds.add(suite);
            Topology.add(suite);
            Access.add(suite);
            Tokens.add(suite);
            Processors.add(suite);
            failed = suite.run(rest);
        }
        // Threads of the SDK may outlive its clients.
        System.exit(failed == 0 ? 0 : 1);
    }
}
