package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.CosmosException;
import com.azure.cosmos.models.CosmosContainerProperties;
import com.azure.cosmos.models.CosmosQueryRequestOptions;
import com.azure.cosmos.models.FeedResponse;
import com.azure.cosmos.models.PartitionKey;
import com.azure.cosmos.models.PartitionKeyBuilder;
import com.azure.cosmos.models.PartitionKeyDefinition;
import com.azure.cosmos.models.PartitionKeyDefinitionVersion;
import com.azure.cosmos.models.PartitionKind;
import com.azure.cosmos.models.SqlParameter;
import com.azure.cosmos.models.SqlQuerySpec;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Locale;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/** Queries over several partitions. The SDK combines the partitions' results by the server's plan. */
final class Planned {

    /** The page sizes. 0 means the default of the SDK. */
    private static final int[] SIZES = {0, 1, 7, 1000};

    private static CosmosContainer shared;
    private static final List<ObjectNode> ALL = new ArrayList<>();

    private Planned() {
    }

    static void add(Suite suite) {
        suite.add("query-order", Planned::order);
        suite.add("query-offset", Planned::offset);
        suite.add("query-distinct", Planned::distinct);
        suite.add("query-aggregates", Planned::aggregates);
        suite.add("query-aggregates-named", Planned::named);
        suite.add("query-group", Planned::group);
        suite.add("query-join", Planned::join);
        suite.add("query-within-key", Planned::withinKey);
        suite.add("query-prefix", Planned::prefix);
        suite.add("query-refused", Planned::refused);
        suite.add("query-resume", Planned::resume);
        suite.add("query-split", Planned::split);
    }

    private static final List<String> NAMES = List.of("apple", "Apricot", "banana", "it's", "plum", "quince");

    /** Returns a container of three partitions with 60 fruits under six keys. */
    private static synchronized CosmosContainer data(Suite suite) {
        if (shared == null) {
            shared = fill(suite.container(new CosmosContainerProperties("planned", "/pk"), 3), ALL);
        }
        return shared;
    }

    private static CosmosContainer fill(CosmosContainer container, List<ObjectNode> written) {
        for (int n = 0; n < 60; n++) {
            String name = NAMES.get(n % 6);
            ObjectNode item = Json.item(String.format("%02d", n), name, n).put("name", name);
            item.putArray("tags").add("t" + n % 3);
            item.putObject("inner").put("x y", n % 4);
            if (n % 2 == 0) {
                item.put("price", n / 4.0);
            }
            container.createItem(item);
            written.add(item);
        }
        return container;
    }

    /** Returns a text that is the same for equal values, whatever the order of members or the type of a number. */
    private static String text(JsonNode value) {
        if (value.isNumber()) {
            return value.decimalValue().stripTrailingZeros().toPlainString();
        }
        if (value.isArray()) {
            List<String> parts = new ArrayList<>();
            value.forEach(v -> parts.add(text(v)));
            return parts.toString();
        }
        if (value.isObject()) {
            TreeMap<String, String> members = new TreeMap<>();
            value.fields().forEachRemaining(m -> members.put(m.getKey(), text(m.getValue())));
            return members.toString();
        }
        return value.toString();
    }

    private static List<String> texts(String json) {
        try {
            List<String> all = new ArrayList<>();
            Json.MAPPER.readTree(json).forEach(v -> all.add(text(v)));
            return all;
        } catch (com.fasterxml.jackson.core.JsonProcessingException e) {
            throw new IllegalArgumentException(json, e);
        }
    }

    private static List<String> texts(IntStream numbers) {
        return numbers.mapToObj(String::valueOf).toList();
    }

    private static List<JsonNode> ask(CosmosContainer container, SqlQuerySpec query, CosmosQueryRequestOptions options, int size) {
        List<JsonNode> found = new ArrayList<>();
        var pages = container.queryItems(query, options, JsonNode.class);
        for (FeedResponse<JsonNode> page : size == 0 ? pages.iterableByPage() : pages.iterableByPage(size)) {
            Check.that(size == 0 || page.getResults().size() <= size, "%s: a page of %d, asked for %d", query.getQueryText(), page.getResults().size(), size);
            found.addAll(page.getResults());
        }
        return found;
    }

    /** Fails unless the query returns these results in this order, in pages of every size. */
    private static void returns(CosmosContainer container, SqlQuerySpec query, List<String> want) {
        for (int size : SIZES) {
            List<String> got = ask(container, query, new CosmosQueryRequestOptions(), size).stream().map(Planned::text).toList();
            Check.equal(want, got, query.getQueryText() + " in pages of " + size);
        }
    }

    private static void returns(CosmosContainer container, String query, List<String> want) {
        returns(container, new SqlQuerySpec(query), want);
    }

    /** Fails unless the query returns these results in any order, in pages of every size. */
    private static void has(CosmosContainer container, String query, List<String> want) {
        for (int size : SIZES) {
            List<String> got = ask(container, new SqlQuerySpec(query), new CosmosQueryRequestOptions(), size).stream().map(Planned::text).sorted().toList();
            Check.equal(want.stream().sorted().toList(), got, query + " in pages of " + size);
        }
    }

    private static List<String> numbers(Comparator<ObjectNode> by) {
        return ALL.stream().sorted(by).map(i -> i.path("n").asText()).toList();
    }

    private static <T extends Comparable<T>> Comparator<ObjectNode> by(Function<ObjectNode, T> key) {
        return Comparator.comparing(key);
    }

    private static void order(Suite suite) {
        CosmosContainer c = data(suite);
        Comparator<ObjectNode> name = by(i -> i.path("name").asText());
        Comparator<ObjectNode> n = by(i -> i.path("n").asInt());
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.n", numbers(n));
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.n DESC", numbers(n.reversed()));
        returns(c, "SELECT VALUE c.n FROM c WHERE c.n >= 10 AND c.n < 30 ORDER BY c.n", texts(IntStream.range(10, 30)));
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.name, c.n", numbers(name.thenComparing(n)));
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.name ASC, c.n DESC", numbers(name.thenComparing(n.reversed())));
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.inner['x y'] DESC, c.id",
            numbers(by((ObjectNode i) -> i.path("inner").path("x y").asInt()).reversed().thenComparing(n)));
        returns(c, "SELECT TOP 7 VALUE c.n FROM c ORDER BY c.n DESC", texts("[59, 58, 57, 56, 55, 54, 53]"));
        returns(c, "SELECT TOP 100 VALUE c.price FROM c WHERE IS_DEFINED(c.price) ORDER BY c.price",
            IntStream.range(0, 30).mapToObj(i -> text(Json.object().numberNode(i / 2.0))).toList());
        returns(c, "SELECT VALUE c.n FROM c WHERE c.n > 100 ORDER BY c.n", List.of());
        returns(c, new SqlQuerySpec("SELECT VALUE c.n FROM c WHERE c.n >= @low ORDER BY c.n", new SqlParameter("@low", 57)), texts("[57, 58, 59]"));
        // Items without a price come first. Every item appears once.
        for (int size : SIZES) {
            List<JsonNode> found = ask(c, new SqlQuerySpec("SELECT * FROM c ORDER BY c.price"), new CosmosQueryRequestOptions(), size);
            Check.eachOnce(ALL.stream().map(Json::id).toList(), found.stream().map(Json::id).toList(), "items by a price that some lack");
            List<Double> prices = found.stream().map(i -> i.path("price").asDouble(-1)).toList();
            Check.equal(prices.stream().sorted().toList(), prices, "prices, and -1 for none");
        }
    }

    private static void offset(Suite suite) {
        CosmosContainer c = data(suite);
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 13 LIMIT 9", texts(IntStream.range(13, 22)));
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.n DESC OFFSET 0 LIMIT 3", texts("[59, 58, 57]"));
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 58 LIMIT 9", texts("[58, 59]"));
        returns(c, "SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 60 LIMIT 9", List.of());
        returns(c, new SqlQuerySpec("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET @o LIMIT @l", new SqlParameter("@o", 4), new SqlParameter("@l", 2)), texts("[4, 5]"));
        for (int size : SIZES) {
            List<JsonNode> found = ask(c, new SqlQuerySpec("SELECT * FROM c WHERE c.n < 50 OFFSET 10 LIMIT 25"), new CosmosQueryRequestOptions(), size);
            Check.equal(25, found.size(), "items of OFFSET LIMIT in pages of " + size);
            Check.equal(25, new HashSet<>(found.stream().map(Json::id).toList()).size(), "different ones");
            Check.that(found.stream().allMatch(i -> i.path("n").asInt() < 50), "items of OFFSET LIMIT match");
        }
    }

    private static void distinct(Suite suite) {
        CosmosContainer c = data(suite);
        List<String> quoted = NAMES.stream().map(n -> text(Json.object().textNode(n))).toList();
        has(c, "SELECT DISTINCT VALUE c.name FROM c", quoted);
        has(c, "SELECT DISTINCT c.name FROM c WHERE c.n < 2", texts("[{\"name\": \"apple\"}, {\"name\": \"Apricot\"}]"));
        returns(c, "SELECT DISTINCT VALUE c.name FROM c ORDER BY c.name", quoted.stream().sorted().toList());
        for (int size : SIZES) {
            for (String query : List.of("SELECT DISTINCT TOP 4 VALUE c.name FROM c", "SELECT DISTINCT VALUE c.name FROM c OFFSET 1 LIMIT 4")) {
                List<String> found = ask(c, new SqlQuerySpec(query), new CosmosQueryRequestOptions(), size).stream().map(Planned::text).toList();
                Check.equal(4, found.size(), query);
                Check.equal(4, new HashSet<>(found).size(), query + ": different ones");
            }
        }
        TreeSet<String> pairs = new TreeSet<>();
        ALL.forEach(i -> pairs.add(text(Json.object().<ObjectNode>set("tags", i.get("tags")).set("inner", i.get("inner")))));
        has(c, "SELECT DISTINCT c.tags, c.inner FROM c", List.copyOf(pairs));
    }

    private static void aggregates(Suite suite) {
        CosmosContainer c = data(suite);
        returns(c, "SELECT VALUE COUNT(1) FROM c", List.of("60"));
        returns(c, "SELECT VALUE COUNT(c.price) FROM c", List.of("30"));
        returns(c, "SELECT VALUE COUNT(1) FROM c WHERE c.n >= 45", List.of("15"));
        returns(c, "SELECT VALUE SUM(c.n) FROM c", List.of("1770"));
        returns(c, "SELECT VALUE SUM(c.price) FROM c", List.of("217.5"));
        returns(c, "SELECT VALUE AVG(c.n) FROM c", List.of("29.5"));
        returns(c, "SELECT VALUE MIN(c.n) FROM c WHERE c.n > 33", List.of("34"));
        returns(c, "SELECT VALUE MAX(c.price) FROM c", List.of("14.5"));
        returns(c, "SELECT VALUE MIN(c.name) FROM c", List.of("\"Apricot\""));
        returns(c, "SELECT VALUE MAX(c.n) FROM c WHERE c.name = 'plum'", List.of("58")); // two of the partitions have no such item
        returns(c, "SELECT VALUE COUNT(1) FROM c WHERE c.n > 100", List.of("0"));
        returns(c, "SELECT VALUE SUM(c.n) FROM c WHERE c.n > 100", List.of("0"));
        returns(c, "SELECT VALUE COUNT(1) FROM (SELECT DISTINCT VALUE c.name FROM c)", List.of("6"));
    }

    private static void named(Suite suite) {
        CosmosContainer c = data(suite);
        returns(c, "SELECT COUNT(1) AS many, SUM(c.n), AVG(c.n) AS mean, MIN(c.name) AS least, MAX(c.price) AS most FROM c",
            texts("[{\"many\": 60, \"$1\": 1770, \"mean\": 29.5, \"least\": \"Apricot\", \"most\": 14.5}]"));
        returns(c, "SELECT COUNT(1) AS many FROM (SELECT DISTINCT c.name, c.inner['x y'] FROM c)", texts("[{\"many\": 12}]"));
    }

    private static void group(Suite suite) {
        CosmosContainer c = data(suite);
        ArrayNode groups = Json.MAPPER.createArrayNode();
        for (int i = 0; i < 6; i++) {
            groups.addObject().put("name", NAMES.get(i)).put("many", 10).put("total", 270 + 10 * i).put("mean", 27 + i).put("least", i).put("most", 54 + i);
        }
        has(c, "SELECT c.name, COUNT(1) AS many, SUM(c.n) AS total, AVG(c.n) AS mean, MIN(c.n) AS least, MAX(c.n) AS most FROM c GROUP BY c.name",
            texts(groups.toString()));
        TreeSet<String> pairs = new TreeSet<>();
        ALL.forEach(i -> pairs.add(text(Json.object().put("name", i.path("name").asText()).put("k", i.path("inner").path("x y").asInt()))));
        has(c, "SELECT c.name, c.inner['x y'] AS k FROM c GROUP BY c.name, c.inner['x y']", List.copyOf(pairs));
        ArrayNode upper = Json.MAPPER.createArrayNode();
        for (int i = 0; i < 6; i++) {
            upper.addObject().put("name", NAMES.get(i).toUpperCase(Locale.ROOT)).put("many", i % 2 == 0 ? 2 : 0);
        }
        has(c, "SELECT UPPER(c.name) AS name, COUNT(c.price) AS many FROM c WHERE c.n < 12 GROUP BY UPPER(c.name)", texts(upper.toString()));
        has(c, "SELECT c.name, COUNT(1) AS many FROM c WHERE c.n > 100 GROUP BY c.name", List.of());
    }

    private static void join(Suite suite) {
        CosmosContainer c = suite.container(new CosmosContainerProperties("joins", "/pk"), 3);
        List<String> pairs = new ArrayList<>();
        for (int n = 0; n < 12; n++) {
            ObjectNode item = Json.item(String.valueOf(n), "key " + n, n);
            ArrayNode children = item.putArray("children");
            for (int k = 0; k < n % 4; k++) {
                children.addObject().put("name", "child " + k).put("grade", k);
                if (k > 0) {
                    pairs.add(text(Json.object().put("id", String.valueOf(n)).put("name", "child " + k)));
                }
            }
            item.putArray("list").add(n).add(n + 1);
            c.createItem(item);
        }
        has(c, "SELECT c.id, x.name FROM c JOIN x IN c.children WHERE x.grade > 0", pairs);
        has(c, "SELECT VALUE x FROM x IN c.list", texts(IntStream.concat(IntStream.range(0, 12), IntStream.range(1, 13))));
        has(c, "SELECT VALUE x.grade * 10 + y FROM c JOIN x IN c.children JOIN y IN c.list WHERE c.n = 7", texts("[7, 8, 17, 18, 27, 28]"));
        has(c, "SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.children WHERE x.grade = 2)", texts("[\"11\", \"3\", \"7\"]"));
        has(c, "SELECT ARRAY(SELECT VALUE x.name FROM x IN c.children) AS names FROM c WHERE c.n IN (4, 6)",
            texts("[{\"names\": []}, {\"names\": [\"child 0\", \"child 1\"]}]"));
        has(c, "SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN c.children) FROM c WHERE c.n < 4", texts("[0, 1, 2, 3]"));
        has(c, "SELECT VALUE s FROM c JOIN (SELECT VALUE x.grade FROM x IN c.children WHERE x.grade > 1) s", texts("[2, 2, 2]"));
        returns(c, "SELECT VALUE COUNT(1) FROM c JOIN x IN c.children", List.of("18"));
        returns(c, "SELECT VALUE c.n FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.children) ORDER BY c.n DESC", texts("[11, 10, 9, 7, 6, 5, 3, 2, 1]"));
    }

    private static void withinKey(Suite suite) {
        CosmosContainer c = data(suite);
        CosmosQueryRequestOptions one = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKey("plum"));
        String[][] wants = {
            {"SELECT DISTINCT VALUE c.tags[0] FROM c", "[\"t1\"]"},
            {"SELECT c.inner['x y'] AS k, COUNT(1) AS many FROM c GROUP BY c.inner['x y']", "[{\"k\": 0, \"many\": 5}, {\"k\": 2, \"many\": 5}]"},
            {"SELECT COUNT(1) AS many, SUM(c.n) AS total, MAX(c.n) AS most FROM c", "[{\"many\": 10, \"total\": 310, \"most\": 58}]"},
            {"SELECT VALUE AVG(c.n) FROM c", "[31]"},
        };
        for (String[] want : wants) {
            for (int size : SIZES) {
                List<String> got = ask(c, new SqlQuerySpec(want[0]), one, size).stream().map(Planned::text).sorted().toList();
                Check.equal(texts(want[1]), got, want[0] + " under one key in pages of " + size);
            }
        }
    }

    private static void prefix(Suite suite) throws Exception {
        PartitionKeyDefinition key = new PartitionKeyDefinition().setPaths(List.of("/tenant", "/user"))
            .setKind(PartitionKind.MULTI_HASH).setVersion(PartitionKeyDefinitionVersion.V2);
        CosmosContainer c = suite.container(new CosmosContainerProperties("prefixes", key), 2);
        for (int n = 0; n < 40; n++) {
            c.createItem(Json.object().put("id", String.valueOf(n % 20)).put("tenant", "t" + (1 + n / 20)).put("user", "u" + n % 20)
                .put("n", n % 20).put("half", n % 20 / 2));
        }
        String[][] wants = {
            {"SELECT VALUE c.n FROM c WHERE c.n < 5", "[0, 1, 2, 3, 4]"}, {"SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4", "[3, 4, 5, 6]"},
            {"SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", "[0, 1, 2]"}, {"SELECT VALUE COUNT(1) FROM c", "[20]"}, {"SELECT VALUE SUM(c.n) FROM c", "[190]"},
            {"SELECT DISTINCT VALUE c.half FROM c WHERE c.n < 6", "[0, 1, 2]"},
            {"SELECT c.half, COUNT(1) AS many FROM c WHERE c.n < 3 GROUP BY c.half", "[{\"half\": 0, \"many\": 2}, {\"half\": 1, \"many\": 1}]"},
        };
        CosmosQueryRequestOptions one = new CosmosQueryRequestOptions().setPartitionKey(new PartitionKeyBuilder().add("t1").build());
        for (String when : List.of("before a split", "after a split")) {
            for (String[] want : wants) {
                for (int size : SIZES) {
                    List<String> got = ask(c, new SqlQuerySpec(want[0]), one, size).stream().map(Planned::text).sorted().toList();
                    Check.equal(texts(want[1]), got, want[0] + " under a prefix in pages of " + size + " " + when);
                }
            }
            suite.admin.split(c, suite.admin.partitions(c).get(0).id());
        }
    }

    private static void refused(Suite suite) {
        CosmosContainer c = data(suite);
        String[][] names = {
            {"SELECT ST_DISTANCE(c.a, c.b) FROM c", "ST_DISTANCE"}, {"SELECT * FROM c WHERE FULLTEXTCONTAINS(c.name, 'plum')", "FULLTEXTCONTAINS"},
            {"SELECT VectorDistance(c.v, [1]) FROM c", "VECTORDISTANCE"}, {"SELECT VALUE NOSUCH(c.n) FROM c", "NOSUCH"},
            {"SELECT VALUE udf.mine(c.n) FROM c", "UDF"},
        };
        for (String[] name : names) {
            CosmosException refusal = Check.refused(400, name[0], () -> ask(c, new SqlQuerySpec(name[0]), new CosmosQueryRequestOptions(), 0));
            Check.that(refusal.getMessage().toUpperCase(Locale.ROOT).contains(name[1]), "%s is refused with: %s", name[0], refusal.getMessage());
        }
        // The SDK cannot combine the results of these queries over several partitions.
        for (String query : List.of("SELECT VALUE SUM(c.n) / 2 FROM c", "SELECT VALUE {'all': COUNT(1)} FROM c", "SELECT * FROM c ORDER BY LOWER(c.name)")) {
            Check.refused(400, query, () -> ask(c, new SqlQuerySpec(query), new CosmosQueryRequestOptions(), 0));
        }
    }

    private static void resume(Suite suite) {
        CosmosContainer c = data(suite);
        Comparator<ObjectNode> n = by(i -> i.path("n").asInt());
        Comparator<ObjectNode> name = by(i -> i.path("name").asText());
        resumed(suite, c, "SELECT c.n FROM c ORDER BY c.n", numbers(n));
        resumed(suite, c, "SELECT c.n FROM c ORDER BY c.n DESC", numbers(n.reversed()));
        resumed(suite, c, "SELECT c.n FROM c ORDER BY c.name, c.n", numbers(name.thenComparing(n)));
        resumed(suite, c, "SELECT c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 40", texts(IntStream.range(3, 43)));
        resumed(suite, c, "SELECT TOP 33 c.n FROM c ORDER BY c.n", texts(IntStream.range(0, 33)));
        // Each name has ten items, so only the set is compared.
        List<String> names = read(suite, c, "SELECT c.n FROM c ORDER BY c.name DESC", 7);
        Check.eachOnce(numbers(n), names, "items of equal names, resumed");
    }

    private static void resumed(Suite suite, CosmosContainer container, String query, List<String> want) {
        for (int size : new int[] {7, 23}) {
            Check.equal(want, read(suite, container, query, size), query + ", resumed in pages of " + size);
        }
    }

    /** Reads each page by a new query with the continuation. A new client reads one of the pages. */
    private static List<String> read(Suite suite, CosmosContainer container, String query, int size) {
        List<String> found = new ArrayList<>();
        String token = null;
        int pages = 0;
        do {
            try (var fresh = pages == 3 ? suite.env.client().buildClient() : null) {
                CosmosContainer reader = fresh == null ? container : fresh.getDatabase(suite.database.getId()).getContainer(container.getId());
                Iterator<FeedResponse<JsonNode>> next = reader.queryItems(query, new CosmosQueryRequestOptions(), JsonNode.class).iterableByPage(token, size).iterator();
                if (!next.hasNext()) {
                    break;
                }
                FeedResponse<JsonNode> page = next.next();
                page.getResults().forEach(i -> found.add(i.path("n").asText()));
                token = page.getContinuationToken();
            }
            Check.that(++pages < 200, "%s: the continuation never ends", query);
        } while (token != null);
        return found;
    }

    private static void split(Suite suite) throws Exception {
        int made = 0;
        for (String query : List.of("SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c ORDER BY c.n DESC")) {
            CosmosContainer c = fill(suite.container(new CosmosContainerProperties("split while queried " + ++made, "/pk"), 2), new ArrayList<>());
            List<Integer> found = new ArrayList<>();
            int pages = 0;
            for (FeedResponse<Integer> page : c.queryItems(query, new CosmosQueryRequestOptions(), Integer.class).iterableByPage(4)) {
                found.addAll(page.getResults());
                pages++;
                if (pages == 2 || pages == 5) {
                    suite.admin.split(c, suite.admin.partitions(c).get(0).id());
                }
            }
            Stream<Integer> want = IntStream.range(0, 60).boxed();
            if (query.contains("ORDER BY")) {
                Check.equal(want.sorted(Comparator.reverseOrder()).toList(), found, query + " over two splits");
            } else {
                Check.eachOnce(want.toList(), found, query + " over two splits");
            }
        }
    }
}
