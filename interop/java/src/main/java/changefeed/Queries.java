package changefeed;

import com.azure.cosmos.CosmosClient;
import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.IntStream;

/** Scenarios of queries. For each query over all partitions the SDK first requests a plan from the server. */
final class Queries {

    private static CosmosContainer shared;
    private static final List<ObjectNode> ALL = new ArrayList<>();

    private Queries() {
    }

    static void add(Suite suite) {
        suite.add("query-filter", Queries::filter);
        suite.add("query-parameters", Queries::parameters);
        suite.add("query-paging", Queries::paging);
        suite.add("query-startswith", Queries::startsWith);
        suite.add("query-top", Queries::top);
        suite.add("query-point-order", Queries::pointOrder);
    }

    /** Returns a container of three partitions with 60 items under six keys. */
    private static synchronized CosmosContainer data(Suite suite) {
        if (shared == null) {
            CosmosContainer container = suite.container(new CosmosContainerProperties("queries", "/pk"), 3);
            for (int i = 0; i < 60; i++) {
                ObjectNode item = Json.item(String.format("%s-%02d", i % 2 == 0 ? "Even" : "odd", i), "k" + i % 6, i);
                if (i % 3 == 0) {
                    item.put("third", i % 9 == 0 ? null : "t" + i);
                }
                container.createItem(item);
                ALL.add(item);
            }
            shared = container;
        }
        return shared;
    }

    private static List<String> ids(CosmosContainer container, SqlQuerySpec query, CosmosQueryRequestOptions options) {
        return container.queryItems(query, options, JsonNode.class).stream().map(Json::id).toList();
    }

    private static List<String> where(Predicate<ObjectNode> p) {
        return ALL.stream().filter(p).map(Json::id).toList();
    }

    /** Fails unless the condition selects the items that match p, over all partitions and under one key. */
    private static void selects(CosmosContainer container, String condition, Predicate<ObjectNode> p) {
        SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM c WHERE " + condition);
        Check.eachOnce(where(p), ids(container, query, new CosmosQueryRequestOptions()), condition);
        Check.eachOnce(where(p.and(i -> i.path("pk").asText().equals("k3"))),
            ids(container, query, new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("k3"))), condition + " under one key");
    }

    private static int n(ObjectNode item) {
        return item.path("n").asInt();
    }

    private static void filter(Suite suite) {
        CosmosContainer c = data(suite);
        selects(c, "c.n = 33", i -> n(i) == 33);
        selects(c, "c.n != 33", i -> n(i) != 33);
        selects(c, "c.n < 10 OR c.n >= 55", i -> n(i) < 10 || n(i) >= 55);
        selects(c, "c.n <= 30 AND c.n > 20", i -> n(i) <= 30 && n(i) > 20);
        selects(c, "NOT (c.n > 5)", i -> n(i) <= 5);
        selects(c, "c.pk IN ('k1', \"k3\")", i -> i.path("pk").asText().equals("k1") || i.path("pk").asText().equals("k3"));
        selects(c, "c.n BETWEEN 7 AND 9", i -> n(i) >= 7 && n(i) <= 9);
        selects(c, "IS_DEFINED(c.third)", i -> i.has("third"));
        selects(c, "c.third <> null", i -> i.path("third").isTextual());
        selects(c, "IS_NULL(c.third)", i -> i.path("third").isNull());
        selects(c, "c[\"n\"] = 12 AND c.pk = 'k0'", i -> n(i) == 12);
        selects(c, "CONTAINS(c.id, 'dd-1') OR ENDSWITH(c.id, '00')", i -> Json.id(i).contains("dd-1") || Json.id(i).endsWith("00"));

        List<JsonNode> projected = c.queryItems("SELECT c.id, c.n AS number FROM c WHERE c.n < 3", new CosmosQueryRequestOptions(), JsonNode.class).stream().toList();
        Check.equal(3, projected.size(), "projected items");
        Check.that(projected.stream().allMatch(p -> p.size() == 2 && p.path("number").isInt()), "a projection has the two members: %s", projected);
        List<Integer> values = c.queryItems("SELECT VALUE c.n FROM c WHERE c.n < 3", new CosmosQueryRequestOptions(), Integer.class).stream().toList();
        Check.eachOnce(List.of(0, 1, 2), values, "values");

        List<String> byRange = new ArrayList<>();
        for (FeedRange range : c.getFeedRanges()) {
            byRange.addAll(ids(c, new SqlQuerySpec("SELECT * FROM c WHERE c.n < 40"), new CosmosQueryRequestOptions().setFeedRange(range)));
        }
        Check.eachOnce(where(i -> n(i) < 40), byRange, "items by feed range");
    }

    private static void parameters(Suite suite) {
        CosmosContainer c = suite.container("query-parameters");
        String tricky = "O'Reilly \"x\" OR 1=1 \\ @other";
        ObjectNode item = Json.item("i", "p", 1).put("text", tricky).put("float", 1.5).put("flag", true).putNull("nothing");
        item.putArray("list").add(1).add("two");
        item.putObject("nested").put("a", "b");
        c.createItem(item);
        c.createItem(Json.item("other", "p", 2).put("text", "plain").put("float", 2.5).put("flag", false).put("nothing", 0));
        String[] names = {"text", "float", "flag", "nothing", "n", "list", "nested"};
        Object[] values = {tricky, 1.5, true, null, 1, item.get("list"), item.get("nested")};
        for (int i = 0; i < names.length; i++) {
            SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM c WHERE c." + names[i] + " = @value", new SqlParameter("@value", values[i]));
            Check.equal(List.of("i"), ids(c, query, new CosmosQueryRequestOptions()), "items by the parameter for " + names[i]);
        }
        SqlQuerySpec two = new SqlQuerySpec("SELECT * FROM c WHERE c.n >= @min AND c.text != @not",
            Arrays.asList(new SqlParameter("@min", 1), new SqlParameter("@not", tricky)));
        Check.equal(List.of("other"), ids(c, two, new CosmosQueryRequestOptions()), "items by two parameters");
        Check.refused(400, "a query that is no query", () -> ids(c, new SqlQuerySpec("SELECT FROM WHERE"), new CosmosQueryRequestOptions()));
    }

    private static void paging(Suite suite) {
        CosmosContainer c = data(suite);
        for (int size : new int[] {1, 7, 100}) {
            List<String> read = new ArrayList<>();
            String token = null;
            int pages = 0;
            do {
                // Each page is a new query with the continuation. Some of them use a new client.
                try (CosmosClient fresh = pages % 20 == 1 ? suite.env.client().buildClient() : null) {
                    CosmosContainer reader = fresh == null ? c : fresh.getDatabase(suite.database.getId()).getContainer(c.getId());
                    FeedResponse<JsonNode> page = reader.queryItems("SELECT * FROM c WHERE c.n >= 10", new CosmosQueryRequestOptions(), JsonNode.class)
                        .iterableByPage(token, size).iterator().next();
                    Check.that(page.getResults().size() <= size, "a page of %d items, asked for %d", page.getResults().size(), size);
                    page.getResults().forEach(i -> read.add(Json.id(i)));
                    token = page.getContinuationToken();
                }
                Check.that(++pages < 200, "the continuation never ends");
            } while (token != null);
            Check.eachOnce(where(i -> n(i) >= 10), read, "items in pages of " + size);
        }
        List<String> keyed = new ArrayList<>();
        CosmosQueryRequestOptions one = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("k2"));
        for (FeedResponse<JsonNode> page : c.queryItems("SELECT * FROM c", one, JsonNode.class).iterableByPage(3)) {
            Check.that(page.getResults().size() <= 3, "a page of %d items, asked for 3", page.getResults().size());
            page.getResults().forEach(i -> keyed.add(Json.id(i)));
        }
        Check.eachOnce(where(i -> i.path("pk").asText().equals("k2")), keyed, "items of one key in pages");
        Check.refused(400, "a continuation that is none",
            () -> c.queryItems("SELECT * FROM c", one, JsonNode.class).iterableByPage("no continuation", 3).iterator().next());
    }

    private static void startsWith(Suite suite) {
        CosmosContainer c = data(suite);
        selects(c, "STARTSWITH(c.id, 'Even-1')", i -> Json.id(i).startsWith("Even-1"));
        selects(c, "STARTSWITH(c.id, 'even')", i -> false);
        selects(c, "STARTSWITH(c.id, 'eVEN-2', true)", i -> Json.id(i).startsWith("Even-2"));
        SqlQuerySpec query = new SqlQuerySpec("SELECT * FROM c WHERE STARTSWITH(c.id, @prefix)", new SqlParameter("@prefix", "odd-3"));
        Check.eachOnce(where(i -> Json.id(i).startsWith("odd-3")), ids(c, query, new CosmosQueryRequestOptions()), "items by a parameter");
    }

    private static void top(Suite suite) {
        CosmosContainer c = data(suite);
        for (int top : new int[] {1, 10, 59}) {
            List<String> found = ids(c, new SqlQuerySpec("SELECT TOP " + top + " * FROM c"), new CosmosQueryRequestOptions());
            Check.equal(top, found.size(), "items of TOP " + top);
            Check.equal((long) top, found.stream().distinct().count(), "different items of TOP " + top);
        }
        List<String> few = ids(c, new SqlQuerySpec("SELECT TOP @n * FROM c WHERE c.n < 20", new SqlParameter("@n", 5)), new CosmosQueryRequestOptions());
        Check.equal(5, few.size(), "items of TOP with a parameter");
        Check.that(where(i -> n(i) < 20).containsAll(few), "items of TOP match: %s", few);
        Check.eachOnce(where(i -> n(i) < 4), ids(c, new SqlQuerySpec("SELECT TOP 50 * FROM c WHERE c.n < 4"), new CosmosQueryRequestOptions()), "TOP of more than there are");
        List<String> keyed = ids(c, new SqlQuerySpec("SELECT TOP 4 * FROM c"), new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("k1")));
        Check.equal(4, keyed.size(), "items of TOP under one key");
    }

    private static void pointOrder(Suite suite) {
        CosmosContainer c = data(suite);
        CosmosQueryRequestOptions one = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("k4"));
        List<String> ascending = where(i -> i.path("pk").asText().equals("k4"));
        List<String> descending = new ArrayList<>(ascending);
        java.util.Collections.reverse(descending);
        Check.equal(descending, ids(c, new SqlQuerySpec("SELECT * FROM c ORDER BY c.n DESC"), one), "items in descending order");
        Check.equal(ascending, ids(c, new SqlQuerySpec("SELECT * FROM c ORDER BY c.n"), one), "items in ascending order");
        Check.equal(ascending.subList(3, 7), ids(c, new SqlQuerySpec("SELECT * FROM c ORDER BY c.n OFFSET 3 LIMIT 4"), one), "items by offset and limit");
        Check.equal(List.of(ascending.size()), c.queryItems("SELECT VALUE COUNT(1) FROM c", one, Integer.class).stream().toList(), "the count");
        Check.equal(List.of((int) IntStream.range(0, 60).filter(i -> i % 6 == 4 && i > 30).count()),
            c.queryItems("SELECT VALUE COUNT(1) FROM c WHERE c.n > 30", one, Integer.class).stream().toList(), "the count of a filter");
    }
}
