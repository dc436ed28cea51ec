package leases

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Kind is a kind of damage.
type Kind string

// The kinds of damage, by the names that `leases check` prints. [Kinds] lists all of them.
const (
	Hole           Kind = "hole"
	Overlap        Kind = "overlap"
	Duplicate      Kind = "duplicate"
	Orphan         Kind = "orphan"
	BesideParent   Kind = "child beside its parent"
	WrongMode      Kind = "wrong mode"
	MissingRange   Kind = "missing range"
	WrongRange     Kind = "wrong range"
	MissingMarker  Kind = "missing marker"
	StuckLock      Kind = "stuck lock"
	ForeignDialect Kind = "foreign dialect"
	// OtherContainer cannot be repaired: it is unknown which changes of the new container
	// were delivered.
	OtherContainer Kind = "other container"
	// MergedPartition cannot be repaired: the range of the lease is unknown, and its host
	// waits forever.
	MergedPartition Kind = "merged partition"
	CantBeRead      Kind = "unreadable"
	// LostPosition cannot be repaired: it is unknown which changes were delivered.
	LostPosition Kind = "unreadable position"
	// OtherHost cannot be repaired: both groups of hosts may be running, and it is unknown
	// which of them is the wrong one.
	OtherHost Kind = "other account host"
)

// KindText describes a kind of damage.
type KindText struct {
	Kind Kind
	// Meaning is a line of the help text.
	Meaning string
	// Repaired reports whether --repair repairs it, if positions can be compared.
	Repaired bool
}

// Kinds lists the kinds of damage. The documentation takes their number from it, and its
// table has the same order.
var Kinds = []KindText{
	{Hole, "no lease covers some keys", true},
	{Overlap, "two leases cover the same keys", true},
	{Duplicate, "one lease has two documents", true},
	{Orphan, "the container has no such partition", true},
	{BesideParent, "a split is unfinished after two expirations", true},
	{WrongMode, "a lease is for the other mode", true},
	{MissingRange, "a document has no range", true},
	{WrongRange, "a lease has another range than its partition", true},
	{MissingMarker, "the marker of a finished start is missing", true},
	{StuckLock, "the lock of a start stays", true},
	{ForeignDialect, "a document is of another dialect", false},
	{OtherContainer, "the container was recreated", false},
	{MergedPartition, "a lease without a range, after a merge", false},
	{CantBeRead, "a document that no dialect can read", false},
	{LostPosition, "the source cannot read from it", false},
	{OtherHost, "hosts at another endpoint deliver all", false},
}

// Repairs returns the number of Kinds that are repaired.
func Repairs() int {
	n := 0
	for _, k := range Kinds {
		if k.Repaired {
			n++
		}
	}
	return n
}

// Finding is one instance of damage, and its remedy.
type Finding struct {
	Kind Kind `json:"kind"`
	// Tokens are the tokens of the damaged leases.
	Tokens []string `json:"leases,omitempty"`
	// Ranges are the keys that no lease or several leases cover. For other damage they are
	// the ranges of the damaged leases, as far as they are known.
	Ranges []Keys `json:"ranges,omitempty"`
	// Text describes the damage.
	Text string `json:"text"`
	// Repairable reports whether the plan repairs it. If not, Remedy describes what to do.
	Repairable bool   `json:"repairable"`
	Remedy     string `json:"remedy,omitempty"`
}

// Keys is a range of keys, as in the other outputs.
type Keys struct {
	Min string `json:"min"`
	Max string `json:"max"`
}

// Options are facts that [Find] cannot derive from the documents.
type Options struct {
	// Mode is the processor's mode. If nil, it is the mode of most leases.
	Mode *feed.Mode
	// Range is the part of the keys that the processor covers. The zero value means all
	// keys.
	Range feed.Range
	// Start is the start of a new lease that fills a hole. It is unknown which changes of
	// such a hole were delivered. In all versions and deletes mode the start is always
	// now.
	Start feed.Start
}

// Report is the result of [Find].
type Report struct {
	// OK reports whether there are no findings.
	OK       bool      `json:"ok"`
	Findings []Finding `json:"findings"`
	// Notes describe states that are not damage, or that become damage only if they last.
	Notes []string `json:"notes,omitempty"`
	// Plan contains the steps that repair the repairable findings.
	Plan []Step `json:"plan,omitempty"`
}

// Find returns the damage of a survey, and a plan for its repair. The plan never moves a
// position forward. If two leases cover the same key, the older position wins.
func Find(s Survey, o Options) Report {
	f := &finder{draft: newDraft(s), options: o, report: Report{Findings: []Finding{}}}
	f.foreign()
	f.unreadable()
	f.positions()
	f.otherHosts()
	f.lock()
	// Positions of another container cannot be compared with positions of this one, so
	// all other checks are omitted.
	if !f.strange() && (len(s.Items) > 0 || s.Marker != nil) {
		f.duplicates()
		f.ranges()
		f.modes()
		f.orphans()
		f.merged()
		f.families()
		f.overlaps()
		f.holes()
		f.marker()
	}
	f.report.OK, f.report.Plan = len(f.report.Findings) == 0, f.ordered()
	return f.report
}

type finder struct {
	*draft
	options Options
	report  Report
}

// add adds a finding to the report.
func (f *finder) add(finding Finding) {
	finding.Repairable = finding.Remedy == ""
	if finding.Ranges == nil {
		for _, i := range f.survey.Items {
			if keys := Keys(i.Range); !i.Range.IsZero() && slices.Contains(finding.Tokens, i.Token) && !slices.Contains(finding.Ranges, keys) {
				finding.Ranges = append(finding.Ranges, keys)
			}
		}
	}
	f.report.Findings = append(f.report.Findings, finding)
}

// found adds a finding to the report. repair plans its repair. If repair returns an
// error, the error's text becomes the remedy.
func (f *finder) found(k Kind, tokens []string, text string, repair func() error) {
	f.foundAt(Finding{Kind: k, Tokens: tokens, Text: text}, repair)
}

// foundAt does what found does with a finding that has its ranges.
func (f *finder) foundAt(finding Finding, repair func() error) {
	if err := f.attempt(repair); err != nil {
		finding.Remedy = err.Error()
	}
	f.add(finding)
}

func (f *finder) foreign() {
	by := map[lease.Dialect][]string{}
	for _, d := range f.survey.Foreign {
		by[d.Dialect] = append(by[d.Dialect], strings.TrimPrefix(d.ID, f.survey.Codec.LeasePrefix()))
	}
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		if len(by[d]) == 0 {
			continue
		}
		f.add(Finding{
			Kind: ForeignDialect, Tokens: by[d],
			Text: fmt.Sprintf("%s in %s, among leases in %s: all leases of a processor must be in one dialect", view.Plural(len(by[d]), "lease is", "leases are"), d, f.survey.Codec.Dialect()),
			Remedy: fmt.Sprintf("stop the hosts of one dialect; convert these leases with `changefeed leases convert --dialect %s --to %s --to-processor NAME`, or delete them",
				d.Name(), f.survey.Codec.Dialect().Name()),
		})
	}
}

func (f *finder) unreadable() {
	for _, u := range f.survey.Unreadable {
		f.add(Finding{
			Kind: CantBeRead, Tokens: []string{u.Token}, Text: fmt.Sprintf("the document %s cannot be read: %v", u.ID, u.Err),
			Remedy: "repair it by hand, or delete it with `changefeed leases delete`; until then no hole is filled, because its keys are unknown",
		})
	}
}

// positions finds leases whose positions the source cannot read.
func (f *finder) positions() {
	for _, i := range f.survey.Items {
		err := f.survey.Refused[i.Token]
		lost, ok := errors.AsType[*feed.HistoryLostError](err)
		switch {
		case ok:
			f.add(Finding{
				Kind: LostPosition, Tokens: []string{i.Token},
				Text:   fmt.Sprintf("the position %s of lease %s is not in the feed: %s", shortened(string(i.Continuation)), i.Token, lost.Reason),
				Remedy: fmt.Sprintf("decide what to do about the changes that are lost, and set a position with `changefeed leases reset %s`", i.Token),
			})
		case err != nil:
			f.add(Finding{
				Kind: LostPosition, Tokens: []string{i.Token},
				Text:   fmt.Sprintf("nobody can read the position %q of lease %s: %v", shortened(string(i.Continuation)), i.Token, err),
				Remedy: fmt.Sprintf("set a position with `changefeed leases reset %s`", i.Token),
			})
		}
	}
}

// otherHosts finds leases of the same processor that hosts at another endpoint have made.
func (f *finder) otherHosts() {
	for _, host := range f.survey.OtherHosts {
		f.add(Finding{
			Kind: OtherHost,
			Text: fmt.Sprintf("the processor %q has leases under the account host %s, too, and these are under %s: the hosts at either endpoint deliver every change",
				f.survey.Processor, host, f.survey.Host),
			Remedy: "stop the hosts at one of the endpoints, delete their leases with `changefeed leases delete --all` at that endpoint, and give all hosts the same one",
		})
	}
}

// strange finds leases whose positions belong to another container of the same name. It
// reports whether there are any.
func (f *finder) strange() bool {
	before := len(f.report.Findings)
	for _, i := range f.items {
		var other *lease.DialectError
		if errors.As(protocol.Strange(i.Lease, f.survey.Codec.Dialect(), f.survey.Container), &other) {
			f.add(Finding{Kind: OtherContainer, Tokens: []string{i.Token}, Text: other.Found, Remedy: other.Remedy})
		}
	}
	return len(f.report.Findings) > before
}

// lockTime is the time to live of the lock that .NET's and Java's processors create.
const lockTime = 30 * time.Second

func (f *finder) lock() {
	l := f.survey.Lock
	if l == nil {
		return
	}
	life := max(l.TTL, lockTime)
	age := f.survey.Now.Sub(l.Modified)
	if age < 2*life {
		f.report.Notes = append(f.report.Notes, fmt.Sprintf("a host has held the lock of the first start for %s", age.Round(time.Second)))
		return
	}
	why := "the lease container's time to live is off"
	if l.TTL == 0 {
		why = "the lock has no time to live of its own"
	}
	f.found(StuckLock, nil, fmt.Sprintf("the lock of the first start is %s old, but should have expired after %s: %s", age.Round(time.Second), life, why), func() error {
		f.steps = append(f.steps, Step{Op: Unlock, Before: l, Text: "delete the lock"})
		return nil
	})
}

func (f *finder) duplicates() {
	byToken := map[string][]Item{}
	for _, i := range f.items {
		byToken[i.Token] = append(byToken[i.Token], i)
	}
	for _, token := range slices.Sorted(maps.Keys(byToken)) {
		same := byToken[token]
		if len(same) < 2 {
			continue
		}
		// Of several documents for one token, hosts use the one whose id is derived from
		// the token.
		id := f.survey.Codec.LeaseID(token)
		keep := max(0, slices.IndexFunc(same, func(i Item) bool { return i.Document.ID == id && i.Key == id }))
		f.found(Duplicate, []string{token}, fmt.Sprintf("%d documents are lease %s: %s", len(same), token, addresses(same)), func() error {
			oldest := same[0]
			for _, i := range same[1:] {
				order, err := older(i.Lease, oldest.Lease)
				if err != nil {
					return err
				}
				if order < 0 {
					oldest = i
				}
			}
			f.setBack(same[keep], oldest.Lease)
			for n, i := range same {
				if n == keep {
					continue
				}
				f.remove(i, fmt.Sprintf("delete %s, a second document of lease %s (%s)", address(i), token, Position(i.Lease)))
				if i.Range.IsZero() || i.Range == same[keep].Range {
					continue
				}
				if err := f.inherit(i); err != nil { // the two documents cover different keys
					return err
				}
			}
			return nil
		})
	}
}

// setBack plans to move lease i back to the position of from. It does nothing if the
// positions are equal.
func (f *finder) setBack(i Item, from lease.Lease) {
	if order, err := older(i.Lease, from); err == nil && order == 0 {
		return
	}
	start, _ := startOf(from) // if from has no start, the hosts' configuration determines it
	f.replace(i, f.survey.repositioned(i.Lease, start), fmt.Sprintf("set lease %s back from %s to %s", i.Token, Position(i.Lease), Position(from)))
}

func (f *finder) ranges() {
	d := f.survey.Codec.Dialect()
	if d == lease.JavaHandleChanges {
		return // leases of this dialect have no range
	}
	ofV2 := 0
	for _, i := range slices.Clone(f.items) {
		i, _ := f.now(i)
		if hasRange(i.Body, d) {
			f.compareRange(i)
			continue
		}
		if byV2(i.Body) && !i.Range.IsZero() { // its partition says which keys it has
			ofV2++
			continue
		}
		f.found(MissingRange, []string{i.Token}, fmt.Sprintf("lease %s has no range of keys", i.Token), func() error {
			if i.Range.IsZero() {
				return fmt.Errorf("the partition %s no longer exists, and a later merge hides its range: a host that reads the lease continues; or stop the hosts, run `changefeed leases delete %s`, and let check fill the hole", i.PartitionID, i.Token)
			}
			f.replace(i, i.Lease, fmt.Sprintf("write the range %s into lease %s", i.Range, i.Token))
			return nil
		})
	}
	if ofV2 > 0 {
		f.report.Notes = append(f.report.Notes, fmt.Sprintf("%s no range of keys, as .NET's V2 library writes them; hosts of .NET V3 and of this project add it when they acquire the lease",
			view.Plural(ofV2, "lease has", "leases have")))
	}
}

// compareRange compares the range of lease i with that of its partition. A host reads the
// whole partition, whatever the range is. So the lease's position is that of the partition,
// and a repair only writes the right range.
func (f *finder) compareRange(i Item) {
	at := slices.IndexFunc(f.survey.Partitions, func(p feed.Partition) bool { return p.ID == i.PartitionID })
	if i.PartitionID == "" || at < 0 || f.survey.Partitions[at].Range == i.Range {
		return
	}
	right := f.survey.Partitions[at].Range
	f.found(WrongRange, []string{i.Token}, fmt.Sprintf("lease %s has the range %s, but its partition has %s: leases within the range wait for it, and other keys have no lease",
		i.Token, i.Range, right), func() error {
		l := i.Lease
		l.Range = right
		f.replace(i, l, fmt.Sprintf("write the range %s into lease %s", right, i.Token))
		return nil
	})
}

func (f *finder) modes() {
	if f.survey.Codec.Dialect() == lease.JavaHandleChanges {
		return // this dialect has only one mode
	}
	mode, sure := f.mode()
	for _, i := range slices.Clone(f.items) {
		i, _ := f.now(i)
		if i.Continuation == "" && f.survey.Codec.Dialect() == lease.JavaLatestVersion {
			continue // the mode is decided when the lease gets its first position
		}
		if i.Mode == mode && sure {
			continue
		}
		if !sure {
			f.add(Finding{
				Kind: WrongMode, Text: "half of the leases are in latest version mode, and half in all versions and deletes mode",
				Remedy: "name the processor's mode with --mode",
			})
			return
		}
		f.found(WrongMode, []string{i.Token}, fmt.Sprintf("lease %s is in %s mode, but the processor is in %s mode", i.Token, i.Mode, mode), func() error {
			l := i.Lease
			if f.survey.Codec.Dialect() == lease.JavaLatestVersion {
				l = stripped(l)
			}
			l.Mode = mode
			f.replace(i, l, fmt.Sprintf("write %s mode into lease %s", mode, i.Token))
			return nil
		})
	}
}

// mode returns the processor's mode: the one in the options, or that of most leases. It
// returns false if neither determines a mode.
func (f *finder) mode() (feed.Mode, bool) {
	if f.options.Mode != nil {
		return *f.options.Mode, true
	}
	n := map[feed.Mode]int{}
	for _, i := range f.items {
		if i.Continuation != "" || f.survey.Codec.Dialect() != lease.JavaLatestVersion {
			n[i.Mode]++
		}
	}
	latest, all := n[feed.LatestVersion], n[feed.AllVersionsAndDeletes]
	if all > latest {
		return feed.AllVersionsAndDeletes, true
	}
	return feed.LatestVersion, latest > all || all == 0
}

func (f *finder) marker() {
	if f.survey.Marker != nil || len(f.items) == 0 {
		return
	}
	f.found(MissingMarker, nil, "the marker, which reports that the leases are complete, is missing: hosts of .NET or Java would create all leases again", func() error {
		if len(f.gaps()) > 0 || f.uncertain() {
			return fmt.Errorf("it is created when the leases cover everything")
		}
		f.steps = append(f.steps, Step{Op: Mark, Text: "create the marker"})
		return nil
	})
}

// uncertain reports whether there are documents that may cover keys but cannot be
// decoded.
func (f *finder) uncertain() bool {
	return len(f.survey.Unreadable)+len(f.survey.Foreign) > 0
}

func addresses(items []Item) string {
	texts := make([]string, len(items))
	for n, i := range items {
		texts[n] = fmt.Sprintf("%s (%s)", address(i), Position(i.Lease))
	}
	return strings.Join(texts, ", ")
}

// address returns a document's id, and its partition key if that differs.
func address(i Item) string {
	if i.Key != i.Document.ID {
		return fmt.Sprintf("%s with the partition key %s", i.Document.ID, i.Key)
	}
	return i.Document.ID
}

// Right returns the line that reports that a survey has no damage.
func (s Survey) Right() string {
	return fmt.Sprintf("no damage found in the %s of the processor %q", view.Plural(len(s.Items), "lease", "leases"), s.Processor)
}
