package replicate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
)

// aside is the file of documents that were set aside, one JSON object a line, because the
// target refused them. It is safe for concurrent use. A nil aside sets nothing aside.
type aside struct {
	mu   sync.Mutex // guards the fields below
	file *os.File
	// reasons maps the name of each document that was set aside in this run to the reason
	// of its last line. A batch that is delivered again does not write a second line.
	reasons map[string]string
}

// asideRecord is a line of the file.
type asideRecord struct {
	ID     string            `json:"id"`
	Key    []json.RawMessage `json:"key"` // in the source
	Reason string            `json:"reason"`
}

// openAside opens the file, and creates it if it does not exist. Lines of earlier runs
// stay. It returns nil for an empty name.
func openAside(name string) (*aside, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // nil sets nothing aside
	}
	file, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, refuse("cannot set documents aside: %v; give another --set-aside", err)
	}
	return &aside{file: file, reasons: map[string]string{}}, nil
}

// take sets the document of the plan p aside if err is a refusal of that document alone.
// It returns err otherwise. The line is on disk when take returns, because the position of
// the batch is stored next.
func (a *aside) take(p *plan, err error) error {
	if a == nil || !refusal(err) {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p.aside = true
	name, reason := p.name(), err.Error()
	if a.reasons[name] == reason {
		return nil
	}
	line, failed := json.Marshal(asideRecord{ID: p.id, Key: keyJSON(p.source.PartitionKey), Reason: reason})
	if failed == nil {
		_, failed = a.file.Write(append(line, '\n'))
	}
	if failed == nil {
		failed = a.file.Sync()
	}
	if failed != nil {
		return &asideError{fmt.Errorf("cannot set the document with %s aside: %w; make room, or give another --set-aside, and run again", name, failed)}
	}
	a.reasons[name] = reason
	return nil
}

// keyJSON returns the components of a key as JSON. An undefined component is {}, as in the
// header of a request.
func keyJSON(key feed.PartitionKey) []json.RawMessage {
	all := make([]json.RawMessage, len(key))
	for i, v := range key {
		all[i] = json.RawMessage(`{}`)
		if v == any(feed.Undefined) {
			continue
		}
		if raw, err := json.Marshal(v); err == nil { // a string, number, boolean or null
			all[i] = raw
		}
	}
	return all
}

// refusal reports whether err concerns one document only, and no retry can fix it.
func refusal(err error) bool {
	var (
		collision *CollisionError
		refused   *refusedError
	)
	return errors.As(err, &collision) || errors.As(err, &refused)
}

// close closes the file. It returns a *[SetAsideError] if documents were set aside.
func (a *aside) close() error {
	if a == nil {
		return nil
	}
	err := a.file.Close()
	if n := len(a.reasons); n > 0 {
		err = errors.Join(&SetAsideError{Documents: n, File: a.file.Name()}, err)
	}
	return err
}

// asideError reports that a refused document could not be set aside, which ends the run.
type asideError struct{ err error }

func (e *asideError) Error() string { return e.err.Error() }

// Unwrap returns the error underneath.
func (e *asideError) Unwrap() error { return e.err }

// SetAsideError reports that the copy lacks documents, or has old versions of them,
// because the target refused them and [Config.SetAside] is set.
type SetAsideError struct {
	// Documents is the number of documents that this run set aside in File.
	Documents int
	File      string
}

func (e *SetAsideError) Error() string {
	what := "1 document was"
	if e.Documents != 1 {
		what = fmt.Sprintf("%d documents were", e.Documents)
	}
	return fmt.Sprintf("%s refused and set aside in %s; write them to the target by hand, or change them in the source, which copies them again", what, e.File)
}
