package lease

import (
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
			if len(l.Leases) != 1 || len(l.Unreadable) != 1 || len(l.Foreign) != 0 || !l.Initialized.IsZero() {
				t.Errorf("%s beside a marker of %s: %+v", d, other, l)
			}
			c.List(&l, c.MarkerID(), at, c.Marker())
			c.List(&l, oc.LeaseID(theirs.Token), at, oc.Encode(theirs))
			if len(l.Foreign) != 1 || l.Foreign[0] != (Foreign{oc.LeaseID(theirs.Token), other}) || len(l.Leases) != 1 || !l.Initialized.Equal(at) {
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
	owned := at(part, `"3"`)
	owned.Owner = "java-a"
	for d, c := range codecs {
		other := codecs[JavaLatestVersion]
		if d == JavaLatestVersion {
			other = codecs[DotNet]
		}
		for _, l := range []Lease{part, at(part, `"3"`), owned} {
			var listing Listing
			c.List(&listing, other.LeaseID(l.Token), time.Unix(7, 0), other.Encode(l))
			if len(listing.Foreign) != 1 || listing.Foreign[0].Dialect != other.Dialect() || len(listing.Unreadable) != 1 || len(listing.Leases) != 0 {
				t.Errorf("%s decodes %s as %+v", d, other.Encode(l), listing)
			}
		}
	}
}
