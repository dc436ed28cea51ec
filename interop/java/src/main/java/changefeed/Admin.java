package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.net.URI;
import java.net.URLEncoder;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.time.Duration;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A client of the server's admin API, which no SDK has. It lists, splits and merges partitions,
 * and injects faults.
 */
final class Admin {

    private static final String PREFIX = "_changefeed";
    private static final DateTimeFormatter DATE = DateTimeFormatter.ofPattern("EEE, dd MMM yyyy HH:mm:ss 'GMT'", Locale.US);

    private final Env env;
    private final String database;
    private final HttpClient http = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();

    /** A physical partition. min and max bound its range of effective partition keys. */
    record Partition(String id, String min, String max) {
    }

    /** Creates a client for the containers of one database, which the SDK's container does not expose. */
    Admin(Env env, String database) {
        this.env = env;
        this.database = database;
    }

    /** Returns the live partitions in the order of their ranges. */
    List<Partition> partitions(CosmosContainer container) throws Exception {
        return read(call("GET", null, path(container, "partitions")));
    }

    /** Splits a partition in its middle and returns its two children. */
    List<Partition> split(CosmosContainer container, String id) throws Exception {
        List<Partition> made = read(call("POST", Json.object(), path(container, "partitions", id, "split")));
        Check.equal(2, made.size(), "the number of partitions that a split makes");
        return made;
    }

    /** Merges two neighbours and returns the new partition. */
    Partition merge(CosmosContainer container, String id, String with) throws Exception {
        List<Partition> made = read(call("POST", Json.object().put("with", with), path(container, "partitions", id, "merge")));
        Check.equal(1, made.size(), "the number of partitions that a merge makes");
        return made.get(0);
    }

    /** Makes the server refuse the next count creates in the container with 429 and a retry delay. */
    void throttle(CosmosContainer container, int count, int retryAfterMs) throws Exception {
        call("POST", Json.object()
            .put("operation", "create document").put("database", database).put("container", container.getId())
            .put("count", count).put("status", 429).put("subStatus", 3200).put("retryAfterMs", retryAfterMs), List.of("faults"));
    }

    /** Returns the current faults. */
    JsonNode faults() throws Exception {
        return call("GET", null, List.of("faults"));
    }

    /** Removes all faults. */
    void clearFaults() throws Exception {
        call("DELETE", null, List.of("faults"));
    }

    private static List<Partition> read(JsonNode answer) {
        List<Partition> all = new ArrayList<>();
        answer.path("partitions").forEach(p -> all.add(new Partition(p.path("id").asText(), p.path("min").asText(), p.path("max").asText())));
        return all;
    }

    private List<String> path(CosmosContainer container, String... rest) {
        List<String> path = new ArrayList<>(List.of("dbs", database, "colls", container.getId()));
        path.addAll(List.of(rest));
        return path;
    }

    /**
     * Sends a request that is signed with the account's key. The resource type is "_changefeed",
     * and the resource link is the rest of the path.
     */
    private JsonNode call(String verb, ObjectNode body, List<String> path) throws Exception {
        String link = String.join("/", path);
        String escaped = path.stream().map(s -> URLEncoder.encode(s, StandardCharsets.UTF_8).replace("+", "%20")).collect(Collectors.joining("/"));
        String date = DATE.format(ZonedDateTime.now(ZoneOffset.UTC));
        HttpRequest request = HttpRequest.newBuilder(URI.create(env.endpoint()).resolve("/" + PREFIX + "/" + escaped))
            .timeout(Duration.ofSeconds(30))
            .header("x-ms-date", date)
            .header("Authorization", authorization(verb, link, date))
            .method(verb, body == null ? HttpRequest.BodyPublishers.noBody() : HttpRequest.BodyPublishers.ofString(body.toString()))
            .build();
        HttpResponse<String> response = http.send(request, HttpResponse.BodyHandlers.ofString());
        Check.that(response.statusCode() < 300, "admin API: %s %s: %d %s", verb, link, response.statusCode(), response.body());
        return response.body().isEmpty() ? Json.object() : Json.MAPPER.readTree(response.body());
    }

    private String authorization(String verb, String link, String date) throws GeneralSecurityException {
        String payload = verb.toLowerCase(Locale.ROOT) + "\n" + PREFIX + "\n" + link + "\n" + date.toLowerCase(Locale.ROOT) + "\n\n";
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(Base64.getDecoder().decode(env.key()), "HmacSHA256"));
        String signature = Base64.getEncoder().encodeToString(mac.doFinal(payload.getBytes(StandardCharsets.UTF_8)));
        return URLEncoder.encode("type=master&ver=1.0&sig=" + signature, StandardCharsets.UTF_8);
    }
}
