package changefeed;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosDatabase;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosDatabaseProperties;
import com.azure.cosmos.models.CosmosItemRequestOptions;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.ExcludedPath;
import com.azure.cosmos.models.IndexingPolicy;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.azure.cosmos.models.ThroughputProperties;
import com.azure.cosmos.models.UniqueKey;
import com.azure.cosmos.models.UniqueKeyPolicy;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.UUID;

/** Scenarios of the quick start, and of creating, replacing and deleting databases and containers. */
final class Lifecycle {

    private Lifecycle() {
    }

    static void add(Suite suite) {
        suite.add("quickstart", Lifecycle::quickstart);
        suite.add("database-lifecycle", Lifecycle::databases);
        suite.add("container-lifecycle", s -> {
            containers(s);
            madeAnew(s);
        });
    }

    /** A document of the quick start, which the SDK maps to JSON. */
    public static final class Family {
        /** The item's id. */
        public String id;
        /** The partition key. */
        public String lastName;
        /** The member that an upsert changes. */
        public boolean registered;

        /** The JSON mapper needs this constructor. */
        public Family() {
        }

        Family(String id, String lastName, boolean registered) {
            this.id = id;
            this.lastName = lastName;
            this.registered = registered;
        }
    }

    private static void quickstart(Suite suite) {
        String name = "quickstart-" + UUID.randomUUID();
        try (CosmosClient client = suite.env.client().buildClient()) {
            client.createDatabaseIfNotExists(name);
            CosmosDatabase database = client.getDatabase(name);
            database.createContainerIfNotExists(new CosmosContainerProperties("FamilyContainer", "/lastName"),
                ThroughputProperties.createManualThroughput(400));
            CosmosContainer container = database.getContainer("FamilyContainer");

            Family andersen = new Family("Andersen-1", "Andersen", false);
            Check.equal(201, container.createItem(andersen, new PartitionKey("Andersen"), new CosmosItemRequestOptions()).getStatusCode(), "the status of the create");
            Check.equal(201, container.createItem(new Family("Wakefield-2", "Wakefield", true)).getStatusCode(), "the status of a create without the key");

            Family read = container.readItem("Andersen-1", new PartitionKey("Andersen"), Family.class).getItem();
            Check.equal("Andersen", read.lastName, "the last name read");

            read.registered = true;
            Check.equal(200, container.upsertItem(read).getStatusCode(), "the status of the upsert");

            List<Family> found = container.queryItems("SELECT * FROM Family WHERE Family.lastName IN ('Andersen', 'Wakefield', 'Johnson')",
                new CosmosQueryRequestOptions(), Family.class).stream().toList();
            Check.sameSet(List.of("Andersen-1", "Wakefield-2"), found.stream().map(f -> f.id).toList(), "families found");
            Check.that(found.stream().allMatch(f -> f.registered), "the upserted family is not as it was written");

            Check.equal(204, container.deleteItem("Andersen-1", new PartitionKey("Andersen"), new CosmosItemRequestOptions()).getStatusCode(), "the status of the delete");
            database.delete();
        }
    }

    private static void databases(Suite suite) {
        String name = "java-life-" + UUID.randomUUID();
        CosmosClient client = suite.client;
        Check.equal(201, client.createDatabaseIfNotExists(name).getStatusCode(), "the first create");
        Check.equal(200, client.createDatabaseIfNotExists(name).getStatusCode(), "the second create-if-not-exists");
        Check.refused(409, "create a database twice", () -> client.createDatabase(name));
        CosmosDatabaseProperties properties = client.getDatabase(name).read().getProperties();
        Check.equal(name, properties.getId(), "the id read");
        Check.that(properties.getResourceId() != null && properties.getETag() != null && properties.getTimestamp() != null,
            "a database has a _rid, an _etag and a _ts");
        Check.that(client.readAllDatabases().stream().anyMatch(d -> d.getId().equals(name)), "the database is in the list");
        SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM root r WHERE r.id = @id", new SqlParameter("@id", name));
        Check.equal(1L, client.queryDatabases(query, new CosmosQueryRequestOptions()).stream().count(), "databases found by id");
        client.getDatabase(name).delete();
        Check.refused(404, "read a deleted database", () -> client.getDatabase(name).read());
        Check.refused(404, "delete a deleted database", () -> client.getDatabase(name).delete());
    }

    private static void containers(Suite suite) {
        CosmosDatabase database = suite.database;
        CosmosContainerProperties wanted = new CosmosContainerProperties("life", "/pk");
        wanted.setDefaultTimeToLiveInSeconds(-1);
        wanted.setIndexingPolicy(new IndexingPolicy().setExcludedPaths(List.of(new ExcludedPath("/secret/*"), new ExcludedPath("/\"_etag\"/?"))));
        wanted.setUniqueKeyPolicy(new UniqueKeyPolicy().setUniqueKeys(List.of(new UniqueKey(List.of("/mail")))));
        Check.equal(201, database.createContainerIfNotExists(wanted).getStatusCode(), "the first create");
        Check.equal(200, database.createContainerIfNotExists(wanted).getStatusCode(), "the second create-if-not-exists");
        Check.refused(409, "create a container twice", () -> database.createContainer(wanted));
        CosmosContainer container = database.getContainer("life");

        CosmosContainerProperties read = container.read().getProperties();
        Check.equal("/pk", read.getPartitionKeyDefinition().getPaths().get(0), "the partition key path");
        Check.equal(-1, read.getDefaultTimeToLiveInSeconds(), "the default ttl");
        Check.that(read.getIndexingPolicy().getExcludedPaths().stream().anyMatch(p -> p.getPath().equals("/secret/*")), "an excluded path is kept");
        Check.equal(1, read.getUniqueKeyPolicy().getUniqueKeys().size(), "the unique keys kept");

        Check.that(database.readAllContainers().stream().anyMatch(c -> c.getId().equals("life")), "the container is in the list");
        SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM root r WHERE r.id = @id", new SqlParameter("@id", "life"));
        Check.equal(1L, database.queryContainers(query, new CosmosQueryRequestOptions()).stream().count(), "containers found by id");

        read.setDefaultTimeToLiveInSeconds(3600);
        Check.equal(200, container.replace(read).getStatusCode(), "the status of the replace");
        CosmosContainerProperties replaced = container.read().getProperties();
        Check.equal(3600, replaced.getDefaultTimeToLiveInSeconds(), "the default ttl after the replace");
        Check.that(replaced.getIndexingPolicy().getExcludedPaths().stream().anyMatch(p -> p.getPath().equals("/secret/*")), "the replace keeps the excluded path");
        Check.equal(read.getResourceId(), replaced.getResourceId(), "the rid after the replace");

        Check.equal(204, container.delete().getStatusCode(), "the status of the delete");
        Check.refused(404, "read a deleted container", container::read);
        ObjectNode item = Json.object().put("id", "a").put("pk", "p");
        Check.refused(404, "create an item in a container that is not there", () -> database.getContainer("never").createItem(item));
        Check.refused(404, "read an item of a container that is not there",
            () -> database.getContainer("never").readItem("a", new PartitionKey("p"), JsonNode.class));
    }

    /**
     * A client has cached the rid and the partitions of a container. Another client recreates it
     * under the same name. The first client must find the new container.
     */
    private static void madeAnew(Suite suite) {
        PartitionKey p = new PartitionKey("p");
        try (CosmosClient other = suite.env.client().buildClient()) {
            CosmosContainer known = other.getDatabase(suite.database.getId()).getContainer("made-anew");
            for (int round = 0; round < 3; round++) {
                String id = "i" + round;
                CosmosContainer container = suite.container(new CosmosContainerProperties("made-anew", "/pk"), 1 + round);
                container.createItem(Json.item(id, "p", round));
                switch (round) { // the first request afterwards must detect the change, whatever its kind
                    case 0 -> Check.equal(round, known.readItem(id, p, JsonNode.class).getItem().path("n").asInt(), "the item");
                    case 1 -> Check.equal(1L, known.queryItems("SELECT * FROM c", new CosmosQueryRequestOptions(), JsonNode.class).stream().count(), "items found");
                    default -> Check.equal(201, known.upsertItem(Json.item("late", "p", round)).getStatusCode(), "the status of a write");
                }
                Pull pull = Pull.beginning(known);
                Check.that(pull.ids(pull.drain()).contains(id), "the feed has %s", id);
                container.delete();
            }
        }
    }
}
