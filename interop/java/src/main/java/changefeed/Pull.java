package changefeed;

import com.azure.cosmos.CosmosContainer;
import com.azure.cosmos.models.CosmosChangeFeedRequestOptions;
import com.azure.cosmos.models.FeedRange;
import com.azure.cosmos.models.FeedResponse;
import com.fasterxml.jackson.databind.JsonNode;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Supplier;

/**
 * Reads a change feed with the pull model, as a user would: pages until there are no new changes,
 * and later more from the last continuation.
 */
final class Pull {

    /** The default page size. */
    private static final int MANY = 100;

    private final CosmosContainer container;
    private final Supplier<CosmosChangeFeedRequestOptions> start;
    private int pageSize = MANY;
    private Iterator<FeedResponse<JsonNode>> pages;
    private String token;

    private Pull(CosmosContainer container, Supplier<CosmosChangeFeedRequestOptions> start) {
        this.container = container;
        this.start = start;
    }

    static Pull beginning(CosmosContainer container) {
        return beginning(container, FeedRange.forFullRange());
    }

    static Pull beginning(CosmosContainer container, FeedRange range) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromBeginning(range));
    }

    static Pull now(CosmosContainer container) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange()));
    }

    static Pull time(CosmosContainer container, Instant after) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromPointInTime(after, FeedRange.forFullRange()));
    }

    static Pull versions(CosmosContainer container) {
        return new Pull(container, () -> CosmosChangeFeedRequestOptions.createForProcessingFromNow(FeedRange.forFullRange()).allVersionsAndDeletes());
    }

    static Pull continued(CosmosContainer container, String token) {
        Pull pull = new Pull(container, null);
        pull.token = token;
        return pull;
    }

    Pull pages(int size) {
        this.pageSize = size;
        return this;
    }

    /** Returns the continuation after the last page. */
    String token() {
        return token;
    }

    /** Returns the next page. It is empty if there are no new changes. */
    List<JsonNode> page() {
        if (pages == null || !pages.hasNext()) {
            CosmosChangeFeedRequestOptions options = token == null ? start.get() : CosmosChangeFeedRequestOptions.createForProcessingFromContinuation(token);
            // Only one page is read at a time, because a page that is read ahead would be older than
            // the scenario's next step.
            options.setMaxItemCount(pageSize).setMaxPrefetchPageCount(1);
            pages = container.queryChangeFeed(options, JsonNode.class).iterableByPage().iterator();
        }
        if (!pages.hasNext()) {
            return List.of();
        }
        FeedResponse<JsonNode> page = pages.next();
        token = page.getContinuationToken();
        return page.getResults();
    }

    /** Reads until there are no new changes. */
    List<JsonNode> drain() {
        List<JsonNode> all = new ArrayList<>();
        for (int empty = 0; empty < 2;) { // a query may end with an empty page while newer changes wait for the next query
            List<JsonNode> page = page();
            empty = page.isEmpty() ? empty + 1 : 0;
            all.addAll(page);
        }
        return all;
    }

    List<String> ids(List<JsonNode> items) {
        return items.stream().map(Json::id).toList();
    }
}
