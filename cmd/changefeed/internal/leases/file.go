package leases

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// File is what `leases export` writes and `leases import` reads.
type File struct {
	// Format is FileFormat.
	Format string `json:"format"`
	// Dialect is that of Leases, by its name.
	Dialect string `json:"dialect"`
	// Processor is the processor's name.
	Processor string `json:"processor"`
	// Monitored is the container whose changes the leases are for. Its rid says whether
	// their positions mean anything in another.
	Monitored fileIdentity `json:"monitored"`
	// Time is when it was written, by the store's clock.
	Time time.Time `json:"time"`
	// Initialised tells that there was a marker.
	Initialised bool `json:"initialised"`
	// Leases are the documents, without what the store adds.
	Leases []json.RawMessage `json:"leases"`
}

// fileIdentity is a [feed.Identity] as files have it.
type fileIdentity struct {
	AccountHost  string `json:"accountHost"`
	Database     string `json:"database"`
	DatabaseRID  string `json:"databaseRid"`
	Container    string `json:"container"`
	ContainerRID string `json:"containerRid"`
}

// FileFormat names the format and its version.
const FileFormat = "changefeed leases 1"

// Export makes a file of a survey.
func Export(s Survey, monitored feed.Identity) (File, error) {
	f := File{Format: FileFormat, Dialect: s.Codec.Dialect().Name(), Processor: s.Processor, Time: s.Now, Initialised: s.Marker != nil}
	monitored.AccountHost = s.Host
	f.Monitored = fileIdentity(monitored)
	if len(s.Broken)+len(s.Foreign) > 0 {
		return f, fmt.Errorf("%s can't be understood or are of another dialect, and would be missing: see `changefeed leases check`", view.Plural(len(s.Broken)+len(s.Foreign), "document", "documents"))
	}
	for _, i := range s.Items {
		if err := i.Strange(s.Codec.Dialect(), s.Container); err != nil {
			return f, err // the file says of which container its positions are
		}
		body, err := withoutSystem(i.Body)
		if err != nil {
			return f, err
		}
		f.Leases = append(f.Leases, body)
	}
	return f, nil
}

// withoutSystem is a document without the properties that the store adds. Members keep their texts.
func withoutSystem(body []byte) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	for _, name := range []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"} {
		delete(members, name)
	}
	return json.Marshal(members)
}

// Parse reads a file. Error: it isn't one.
func Parse(text []byte) (File, error) {
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("it is no file of `changefeed leases export`: %w", err)
	}
	if f.Format != FileFormat {
		return f, fmt.Errorf("it is no file of `changefeed leases export`, or of another version: its format is %.40q, and not %q", f.Format, FileFormat)
	}
	return f, nil
}

// ImportPlan is what makes the leases of a store those of a file: what is missing is created, what is
// there replaced, and what the file doesn't have deleted. Positions move forward and back. Error: a lease is live, and it isn't
// forced; the file is of another container.
func ImportPlan(f File, s Survey, monitored feed.Identity, force bool) ([]Step, error) {
	m := f.Monitored
	if m.ContainerRID != monitored.ContainerRID && !force {
		return nil, fmt.Errorf("the file is of the container %s/%s with the rid %s, and this one's is %s: it is another, or was made anew, and positions of the one mean nothing in the other; "+
			"--force imports them nevertheless, and changes may be lost", m.Database, m.Container, m.ContainerRID, monitored.ContainerRID)
	}
	if err := s.refuseLive("import", s.Items, force); err != nil {
		return nil, err
	}
	if len(s.Broken)+len(s.Foreign) > 0 {
		return nil, errors.New("the store has documents that can't be understood or are of another dialect: see `changefeed leases check`")
	}
	d, err := lease.ParseDialect(f.Dialect)
	if err != nil {
		return nil, err
	}
	from, err := lease.NewCodec(d, lease.Key{Processor: f.Processor, Identity: feed.Identity(m)}, false)
	if err != nil {
		return nil, err
	}
	var steps []Step
	there := map[string]bool{}
	for _, body := range f.Leases {
		l, err := from.Decode(body)
		if err != nil {
			return nil, fmt.Errorf("a lease of the file can't be understood: %w", err)
		}
		l = s.Codec.Stamped(l.Released(""))
		l.ID = s.Codec.LeaseID(l.Token)
		if there[l.Token] {
			return nil, fmt.Errorf("the file has lease %s twice", l.Token)
		}
		there[l.Token] = true
		if i, ok := s.find(l.Token); ok {
			l.ID = i.Document.ID
			steps = append(steps, Step{Op: Replace, Before: &i.Document, After: l, Text: fmt.Sprintf("set lease %s from %s to %s", l.Token, Position(i.Lease), Position(l))})
			continue
		}
		steps = append(steps, Step{Op: Create, After: l, Text: fmt.Sprintf("create lease %s at %s", l.Token, Position(l))})
	}
	for _, i := range s.Items {
		if !there[i.Token] {
			steps = append(steps, Step{Op: Delete, Before: &i.Document, Text: fmt.Sprintf("delete lease %s (%s), which the file doesn't have", i.Token, Position(i.Lease))})
		}
	}
	if f.Initialised && s.Marker == nil {
		steps = append(steps, Step{Op: Mark, Text: "create the marker"})
	}
	return steps, nil
}
