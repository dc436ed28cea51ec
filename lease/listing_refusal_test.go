package lease

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// sample returns a codec of dialect d, and a lease with a position that the dialect can
// represent.
func sample(t testing.TB, d Dialect) (Codec, Lease) {
	c := codecIn(t, d, 0)
	l := Lease{Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: `"3"`}
	if d == JavaLatestVersion {
		l.Token, l.PartitionID = "-FF", ""
	}
	return c, l
}

func TestListingReportsLeasesOfOtherDialects(t *testing.T) {
	all := []Dialect{DotNet, JavaHandleChanges, JavaLatestVersion}
	for _, d := range all {
		c, own := sample(t, d)
		for _, other := range all {
			if other == d {
				continue
			}
			oc, theirs := sample(t, other)
			var l Listing
			at := time.Unix(7, 0)
			c.List(&l, c.LeaseID(own.Token), at, c.Encode(own))
			c.List(&l, c.LeaseID("broken"), at, []byte(`{"id":"x"}`))
			c.List(&l, oc.MarkerID(), at, oc.Marker())
			c.List(&l, "something else", at, []byte(`{}`))
			if len(l.Leases) != 1 || len(l.Unreadable) != 1 || len(l.Foreign) != 0 || !l.Initialized.IsZero() || l.Refusal(d) != nil {
				t.Errorf("%s beside a marker of %s: %+v, %v", d, other, l, l.Refusal(d))
			}
			c.List(&l, c.MarkerID(), at, c.Marker())
			c.List(&l, oc.LeaseID(theirs.Token), at, oc.Encode(theirs))
			refusal, ok := errors.AsType[*DialectError](l.Refusal(d))
			if !ok || !strings.Contains(refusal.Found, oc.LeaseID(theirs.Token)) || !strings.Contains(refusal.Remedy, other.Name()) {
				t.Errorf("%s beside a lease of %s: %v", d, other, l.Refusal(d))
			}
			if len(l.Leases) != 1 || !l.Initialized.Equal(at) {
				t.Errorf("%s beside a lease of %s: %+v", d, other, l)
			}
		}
	}
}

// If the account's host is in lower case, leases of DotNet and JavaLatestVersion have the
// same ids. A listing must still recognise leases of the other dialect, by the form of
// the documents.
func TestLeasesWithTheSameIDsAreDistinguishedByTheirForm(t *testing.T) {
	k := testKey
	k.Identity.AccountHost = "host.example.com"
	codecs := map[Dialect]Codec{}
	for _, d := range []Dialect{DotNet, JavaLatestVersion} {
		c, err := NewCodec(d, k, false)
		if err != nil {
			t.Fatal(err)
		}
		codecs[d] = c
	}
	part := Lease{Token: "-FF", Range: feed.Full()}
	for d, c := range codecs {
		other := codecs[JavaLatestVersion]
		if d == JavaLatestVersion {
			other = codecs[DotNet]
		}
		for _, l := range []Lease{part, part.At(`"3"`), part.At(`"3"`).Acquired("java-a")} {
			var listing Listing
			c.List(&listing, other.LeaseID(l.Token), time.Unix(7, 0), other.Encode(l))
			if len(listing.Foreign) != 1 || listing.Foreign[0].Dialect != other.Dialect() || len(listing.Unreadable) != 1 || len(listing.Leases) != 0 {
				t.Errorf("%s decodes %s as %+v", d, other.Encode(l), listing)
			}
		}
	}
}

func TestOnlyHandleChangesRefusesAMarkerWithoutLeases(t *testing.T) {
	marked := Listing{Initialized: time.Unix(7, 0)}
	for d, refused := range map[Dialect]bool{DotNet: false, JavaHandleChanges: true, JavaLatestVersion: false} {
		if err := marked.Refusal(d); (err != nil) != refused || marked.upgraded(d) != refused {
			t.Errorf("%s: a marker without a lease: %v", d, err)
		}
		if err := (Listing{}).Refusal(d); err != nil {
			t.Errorf("%s: an empty store: %v", d, err)
		}
		broken := marked
		broken.Unreadable = []Unreadable{{Token: "0"}}
		if err := broken.Refusal(d); err != nil {
			t.Errorf("%s: an unreadable lease: %v", d, err)
		}
	}
}
