package leases

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// File is the file that `leases export` writes and `leases import` reads.
type File struct {
	// Format is FileFormat.
	Format string `json:"format"`
	// Dialect is the name of the dialect of Leases.
	Dialect string `json:"dialect"`
	// Processor is the processor's name.
	Processor string `json:"processor"`
	// Monitored is the container whose changes the leases are for. The positions are
	// valid only in a container with its rid.
	Monitored fileIdentity `json:"monitored"`
	// Time is when the file was written, by the store's clock.
	Time time.Time `json:"time"`
	// Initialised reports whether there was a marker.
	Initialised bool `json:"initialised"`
	// Leases are the documents without system properties.
	Leases []json.RawMessage `json:"leases"`
}

// fileIdentity is what a file has of a [feed.Identity].
type fileIdentity struct {
	AccountHost  string `json:"accountHost"`
	Database     string `json:"database"`
	DatabaseRID  string `json:"databaseRid"`
	Container    string `json:"container"`
	ContainerRID string `json:"containerRid"`
}

func (m fileIdentity) identity() feed.Identity {
	return feed.Identity{
		AccountHost: m.AccountHost, Database: m.Database, DatabaseRID: m.DatabaseRID,
		Container: m.Container, ContainerRID: m.ContainerRID,
	}
}

// FileFormat names the format and its version.
const FileFormat = "changefeed leases 1"

// Export returns the file for a survey.
func Export(s Survey, monitored feed.Identity) (File, error) {
	f := File{Format: FileFormat, Dialect: s.Codec.Dialect().Name(), Processor: s.Processor, Time: s.Now, Initialised: s.Marker != nil}
	monitored.AccountHost = s.Host
	f.Monitored = fileIdentity{monitored.AccountHost, monitored.Database, monitored.DatabaseRID, monitored.Container, monitored.ContainerRID}
	if len(s.Broken)+len(s.Foreign) > 0 {
		return f, fmt.Errorf("%s cannot be read or are of another dialect, and would be missing; see `changefeed leases check`", view.Plural(len(s.Broken)+len(s.Foreign), "document", "documents"))
	}
	for _, i := range s.Items {
		if err := protocol.Strange(i.Lease, s.Codec.Dialect(), s.Container); err != nil {
			return f, err // the file names the container of its positions
		}
		body, err := withoutSystem(i.Body)
		if err != nil {
			return f, err
		}
		f.Leases = append(f.Leases, body)
	}
	return f, nil
}

// withoutSystem returns a document without its system properties. The members' texts do
// not change.
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

// Parse parses a file.
func Parse(text []byte) (File, error) {
	var f File
	if err := json.Unmarshal(text, &f); err != nil {
		return f, fmt.Errorf("not a file of `changefeed leases export`: %w", err)
	}
	if f.Format != FileFormat {
		return f, fmt.Errorf("not a file of `changefeed leases export`, or of another version: its format is %.40q, not %q", f.Format, FileFormat)
	}
	return f, nil
}

// ImportPlan returns the plan that replaces the leases of a processor by those of a file.
// It creates missing leases, replaces existing ones, and deletes those that the file does
// not have. Positions may move forward and back. Without force, it returns an error if the
// file belongs to another container.
func ImportPlan(f File, s Survey, monitored feed.Identity, force bool) ([]Step, error) {
	m := f.Monitored
	if m.ContainerRID != monitored.ContainerRID && !force {
		return nil, fmt.Errorf("the file belongs to container %s/%s with rid %s, but this container's rid is %s: it is another container, or was recreated, and the positions are not valid in it; "+
			"--force imports them anyway, and changes may be lost", m.Database, m.Container, m.ContainerRID, monitored.ContainerRID)
	}
	if len(s.Broken)+len(s.Foreign) > 0 {
		return nil, errors.New("the lease container has documents that cannot be read or are of another dialect; see `changefeed leases check`")
	}
	d, err := lease.ParseDialect(f.Dialect)
	if err != nil {
		return nil, err
	}
	from, err := lease.NewCodec(d, lease.Key{Processor: f.Processor, Identity: m.identity()}, false)
	if err != nil {
		return nil, err
	}
	var steps []Step
	there := map[string]bool{}
	for _, body := range f.Leases {
		l, err := from.Decode(body)
		if err != nil {
			return nil, fmt.Errorf("cannot read a lease of the file: %w", err)
		}
		l = s.Codec.Stamped(protocol.Released(l, ""))
		l.ID = s.Codec.LeaseID(l.Token)
		if there[l.Token] {
			return nil, fmt.Errorf("the file has lease %s twice", l.Token)
		}
		there[l.Token] = true
		if i, ok := s.find(l.Token); ok {
			l.ID = i.Document.ID
			text := fmt.Sprintf("set lease %s from %s to %s", l.Token, Position(i.Lease), Position(l))
			if Position(i.Lease) == Position(l) {
				text = fmt.Sprintf("write lease %s again, at the same position (%s)", l.Token, Position(l))
			}
			steps = append(steps, Step{Op: Replace, Before: &i.Document, After: l, Text: text})
			continue
		}
		steps = append(steps, Step{Op: Create, After: l, Text: fmt.Sprintf("create lease %s at %s", l.Token, Position(l))})
	}
	for _, i := range s.Items {
		if !there[i.Token] {
			steps = append(steps, Step{Op: Delete, Before: &i.Document, Text: fmt.Sprintf("delete lease %s (%s), which is not in the file", i.Token, Position(i.Lease))})
		}
	}
	if f.Initialised && s.Marker == nil {
		steps = append(steps, Step{Op: Mark, Text: "create the marker"})
	}
	return steps, nil
}
