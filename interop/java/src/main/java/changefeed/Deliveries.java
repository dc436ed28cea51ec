package changefeed;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Compares the changes that the hosts of one mode delivered with the written ones. It is thread-safe. */
final class Deliveries {

    /** An acknowledged write. phase is the phase of the test, and at is the time of sending, in milliseconds. */
    record Written(long n, String id, String pk, String operation, String phase, long at) {
        String change() {
            return name(operation, id, n);
        }
    }

    /** A change that a host's handler received. at is the time in milliseconds. */
    private record Delivered(String host, String change, long at) {
    }

    private final boolean versions;
    private final List<Delivered> all = new ArrayList<>();
    private final Set<String> seen = new HashSet<>();

    Deliveries(boolean versions) {
        this.versions = versions;
    }

    private static String name(String operation, String id, long n) {
        return operation + " " + id + (operation.equals("delete") ? "" : "=" + n);
    }

    synchronized void add(String host, long at, String operation, String id, long n) {
        String change = name(operation, id, n);
        all.add(new Delivered(host, change, at));
        seen.add(change);
    }

    synchronized long from(String host) {
        return all.stream().filter(d -> d.host().equals(host)).count();
    }

    /** Returns the name of a change in this mode. In latest version modes creates and replaces look the same. */
    private String named(Written w) {
        return versions ? w.change() : name("", w.id(), w.n());
    }

    /**
     * Returns the changes that the mode must deliver. In latest version modes they are the last
     * versions of the items that were not deleted.
     */
    private List<Written> expected(List<Written> written) {
        if (versions) {
            return written;
        }
        Map<String, Written> last = new LinkedHashMap<>();
        for (Written w : written) {
            last.remove(w.id());
            if (!w.operation().equals("delete")) {
                last.put(w.id(), w);
            }
        }
        return new ArrayList<>(last.values());
    }

    /** Returns the expected changes that no host has delivered. */
    synchronized List<String> missing(List<Written> written) {
        return expected(written).stream().map(this::named).filter(change -> !seen.contains(change)).toList();
    }

    /**
     * Fails if a host delivered a change before any host delivered an earlier one of the same
     * key. Then the position of a lease was ahead of the handled changes. Only expected changes
     * count.
     */
    synchronized void inOrder(String mode, List<Written> written) {
        Map<String, Long> first = new HashMap<>();
        for (Delivered d : all) {
            first.merge(d.change(), d.at(), Math::min);
        }
        Map<String, Written> before = new HashMap<>();
        for (Written w : expected(written)) {
            if (!versions && w.id().startsWith("hot")) {
                continue; // an item that is replaced moves behind later ones
            }
            Long at = first.get(named(w));
            Written earlier = before.put(w.pk(), w);
            if (earlier != null && at != null) {
                Long earlierAt = first.get(named(earlier));
                Check.that(earlierAt != null && earlierAt <= at, "%s: %s was delivered before %s of the same key", mode, named(w), named(earlier));
            }
        }
    }

    /** Returns the number of repeated deliveries. */
    synchronized int redelivered() {
        return all.size() - seen.size();
    }

    synchronized int total() {
        return all.size();
    }

    /** Returns, by phase, the longest time from a write to its delivery, in milliseconds. */
    synchronized Map<String, Long> longestWait(List<Written> written) {
        Map<String, Long> first = new HashMap<>();
        for (Delivered d : all) {
            first.merge(d.change(), d.at(), Math::min);
        }
        Map<String, Long> longest = new LinkedHashMap<>();
        for (Written w : expected(written)) {
            Long at = first.get(named(w));
            if (at != null) {
                longest.merge(w.phase(), at - w.at(), Math::max);
            }
        }
        return longest;
    }

    /**
     * Returns the longest time, in milliseconds, in which a partition had a change and none was
     * delivered. It measures by key, because a key is always in one partition. Each partition
     * has several keys, and all keys are written all the time.
     */
    synchronized long longestPause(List<Written> written) {
        Map<String, Long> first = new HashMap<>();
        for (Delivered d : all) {
            first.merge(d.change(), d.at(), Math::min);
        }
        Map<String, List<long[]>> keys = new HashMap<>(); // by key: the times of delivery and of sending
        for (Written w : expected(written)) {
            Long at = first.get(named(w));
            if (at != null) {
                keys.computeIfAbsent(w.pk(), k -> new ArrayList<>()).add(new long[] {at, w.at()});
            }
        }
        long longest = 0;
        for (List<long[]> of : keys.values()) {
            of.sort((x, y) -> Long.compare(x[0], y[0]));
            long before = 0;
            for (int i = 0; i < of.size(); i++) {
                long pending = Long.MAX_VALUE; // the oldest change that waited for this delivery
                for (int j = i; j < of.size(); j++) {
                    pending = Math.min(pending, of.get(j)[1]);
                }
                longest = Math.max(longest, of.get(i)[0] - Math.max(before, pending));
                before = of.get(i)[0];
            }
        }
        return longest;
    }
}
