package changefeed;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** What the hosts of one mode delivered, held against what was written. Its methods are for any thread. */
final class Deliveries {

    /** A write: its number, item, key, operation, the phase it was made in, and when it was sent (milliseconds of the wall clock). */
    record Written(long n, String id, String pk, String operation, String phase, long at) {
        String change() {
            return name(operation, id, n);
        }
    }

    /** A change that a host's handler got: which, and when. */
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

    /** A change as this mode names it: latest version modes do not tell creates from replaces. */
    private String named(Written w) {
        return versions ? w.change() : name("", w.id(), w.n());
    }

    /** Those changes that every mode has to deliver: of latest version modes the last version of each item that was not deleted. */
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

    /** The expected changes that no host has delivered. */
    synchronized List<String> missing(List<Written> written) {
        return expected(written).stream().map(this::named).filter(change -> !seen.contains(change)).toList();
    }

    /**
     * No host delivers a change before an earlier one of its key was delivered by anybody: the positions in the leases never run ahead of
     * what was handled. Only changes that are sure to be delivered count.
     */
    synchronized void inOrder(String mode, List<Written> written) {
        Map<String, Long> first = new HashMap<>();
        for (Delivered d : all) {
            first.merge(d.change(), d.at(), Math::min);
        }
        Map<String, Written> before = new HashMap<>();
        for (Written w : expected(written)) {
            if (!versions && w.id().startsWith("hot")) {
                continue; // replaced meanwhile, an item moves behind later ones
            }
            Long at = first.get(named(w));
            Written earlier = before.put(w.pk(), w);
            if (earlier != null && at != null) {
                Long earlierAt = first.get(named(earlier));
                Check.that(earlierAt != null && earlierAt <= at, "%s: %s was delivered before %s of the same key", mode, named(w), named(earlier));
            }
        }
    }

    /** How many deliveries were of changes that had been delivered before. */
    synchronized int redelivered() {
        return all.size() - seen.size();
    }

    synchronized int total() {
        return all.size();
    }

    /** The longest that a change waited between its write and its delivery, in milliseconds, for the writes of each phase. */
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
     * The longest time that the deliveries of some partition stood still though a change was there to be delivered, in milliseconds. Keys stand
     * for partitions: each is in one at any time, and each partition has several that are written all the time.
     */
    synchronized long longestPause(List<Written> written) {
        Map<String, Long> first = new HashMap<>();
        for (Delivered d : all) {
            first.merge(d.change(), d.at(), Math::min);
        }
        Map<String, List<long[]>> keys = new HashMap<>(); // of each key: when delivered, when written
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
