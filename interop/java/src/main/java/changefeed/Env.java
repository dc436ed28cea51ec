package changefeed;

import com.azure.cosmos.CosmosClientBuilder;

/** The environment variables of a run. interop/README.md describes them. */
record Env(String endpoint, String key, String readOnlyKey, String report) {

    static Env read() {
        return new Env(need("CHANGEFEED_ENDPOINT"), need("CHANGEFEED_KEY"), need("CHANGEFEED_READONLY_KEY"),
            System.getenv("CHANGEFEED_REPORT"));
    }

    private static String need(String name) {
        String value = System.getenv(name);
        if (value == null || value.isEmpty()) {
            throw new IllegalStateException(name + " is not set: the suite runs against a server, see interop/README.md");
        }
        return value;
    }

    /** Returns the builder of a client as a user would write it: endpoint, key, gateway mode. */
    CosmosClientBuilder client() {
        return client(key);
    }

    CosmosClientBuilder client(String anyKey) {
        return withoutKey().key(anyKey);
    }

    /** Returns the builder of a client that still needs a key or a token. */
    CosmosClientBuilder withoutKey() {
        return new CosmosClientBuilder()
            .endpoint(endpoint)
            .gatewayMode()
            .contentResponseOnWriteEnabled(true);
    }
}
