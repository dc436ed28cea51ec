package changefeed;

import com.azure.cosmos.CosmosAsyncClient;
import com.azure.cosmos.CosmosAsyncUser;
import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosClientBuilder;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.ContainerChildResourceType;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosPermissionProperties;
import com.azure.cosmos.models.CosmosPermissionRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.CosmosUserProperties;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PermissionMode;
import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;

/**
 * Scenarios of users, permissions and resource tokens. Permissions need the asynchronous client,
 * because the SDK's synchronous one does not have them.
 */
final class Tokens {

    private static final String NAME = "resource-token";

    private Tokens() {
    }

    static void add(Suite suite) {
        suite.add(NAME, Tokens::resourceToken);
    }

    private static CosmosPermissionProperties permission(String id, PermissionMode mode) {
        return new CosmosPermissionProperties().setId(id).setPermissionMode(mode).setContainerName(NAME);
    }

    /** Creates a permission. The returned properties contain its token. */
    private static CosmosPermissionProperties grant(CosmosAsyncUser user, CosmosPermissionProperties wanted) {
        return user.createPermission(wanted, new CosmosPermissionRequestOptions()).block().getProperties();
    }

    private static void resourceToken(Suite suite) {
        CosmosContainer full = suite.container(NAME);
        PartitionKey p = new PartitionKey("p");
        PartitionKey q = new PartitionKey("q");
        full.createItem(Json.item("i", "p", 1));
        full.createItem(Json.item("j", "q", 1));
        // A replace uses the link in the properties, so they must come from the server.
        CosmosUserProperties ada = suite.database.createUser(new CosmosUserProperties().setId("ada")).getProperties();
        suite.database.getUser("ada").replace(ada.setId("lovelace"));
        Check.equal(List.of("lovelace"), suite.database.readAllUsers().stream().map(CosmosUserProperties::getId).toList(), "the users");
        try (CosmosAsyncClient client = suite.env.client().buildAsyncClient()) {
            CosmosAsyncUser user = client.getDatabase(suite.database.getId()).getUser("lovelace");
            CosmosPermissionProperties whole = grant(user, permission("whole", PermissionMode.READ));
            CosmosPermissionProperties part = grant(user, permission("part", PermissionMode.ALL).setResourcePartitionKey(p));
            CosmosPermissionProperties item = grant(user, permission("item", PermissionMode.READ)
                .setResourcePath(ContainerChildResourceType.ITEM, "j").setResourcePartitionKey(q));
            Check.equal(3L, user.readAllPermissions().count().block(), "permissions");

            with(suite, suite.env.withoutKey().resourceToken(whole.getToken()), reading -> {
                Check.equal(1, reading.readItem("i", p, JsonNode.class).getItem().path("n").asInt(), "the item read");
                Check.equal(2, reading.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), JsonNode.class).stream().toList().size(), "items found");
                Check.refused(403, "upsert", () -> reading.upsertItem(Json.item("i", "p", 2)));
                Check.refused(403, "delete the container", reading::delete);
            });
            // A client with permissions refuses requests that none of them allows, without the server.
            Map<CosmosClientBuilder, Integer> refusals = Map.of(
                suite.env.withoutKey().resourceToken(part.getToken()), 403, suite.env.withoutKey().permissions(List.of(part)), 401);
            refusals.forEach((by, status) ->
                with(suite, by, writing -> {
                    writing.upsertItem(Json.item("i", "p", 2));
                    CosmosQueryRequestOptions inP = new CosmosQueryRequestOptions().setPartitionKey(p);
                    Check.equal(1, writing.queryItems("SELECT * FROM c", inP, JsonNode.class).stream().toList().size(), "items of the key");
                    Check.refused(status, "read of another key", () -> writing.readItem("j", q, JsonNode.class));
                    Check.refused(status, "upsert of another key", () -> writing.upsertItem(Json.item("j", "q", 2)));
                }));
            with(suite, suite.env.withoutKey().resourceToken(item.getToken()), one -> {
                Check.equal(1, one.readItem("j", q, JsonNode.class).getItem().path("n").asInt(), "the item of the token");
                Check.refused(403, "read of another item", () -> one.readItem("i", p, JsonNode.class));
                Check.refused(403, "delete", () -> one.deleteItem("j", q, new CosmosItemRequestOptions()));
            });
            with(suite, suite.env.withoutKey().resourceToken(whole.getToken()), reading -> {
                reading.readItem("i", p, JsonNode.class);
                user.getPermission("whole").delete(new CosmosPermissionRequestOptions()).block();
                Check.refused(403, "read after the permission's end", () -> reading.readItem("i", p, JsonNode.class));
            });
        }
        suite.database.getUser("lovelace").delete();
        Check.equal(2, full.readItem("i", p, JsonNode.class).getItem().path("n").asInt(), "the item at the end");
    }

    @FunctionalInterface
    private interface Use {
        void of(CosmosContainer container);
    }

    /** Uses the container with a client of its own. */
    private static void with(Suite suite, CosmosClientBuilder by, Use use) {
        try (CosmosClient client = by.buildClient()) {
            use.of(client.getDatabase(suite.database.getId()).getContainer(NAME));
        }
    }
}
