package feed

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"time"
)

// PositionError reports that the position given to a [Reader] belongs to another
// container, which may have had the same name before it was deleted and recreated. A
// retry has no effect; start a Reader without the position.
type PositionError struct {
	// Made is the rid of the container where the position was taken, and Read that of the
	// source's.
	Made, Read string
}

func (e *PositionError) Error() string {
	return fmt.Sprintf("the position belongs to container %q, not to container %q", e.Made, e.Read)
}

// positionVersion is the version of the position's JSON form. A reader refuses later
// versions.
const positionVersion = 1

// position is the JSON form of the text that Position returns.
type position struct {
	Version int              `json:"version"`
	RID     string           `json:"rid"`
	Mode    string           `json:"mode"`
	Key     json.RawMessage  `json:"key,omitempty"`
	Range   positionRange    `json:"range"`
	Cursors []positionCursor `json:"cursors"`
}

type positionRange struct {
	Min string `json:"min"`
	Max string `json:"max"`
}

// positionCursor is the JSON form of one cursor: a part of the range with a continuation.
// If the part has not been read yet, it has a start instead.
type positionCursor struct {
	positionRange
	Continuation Continuation `json:"continuation,omitempty"`
	Start        string       `json:"start,omitempty"`
}

// startBeginning is the JSON form of a start from the beginning. Every other start is a
// time. A start from now has no form, because begin resolves it to a continuation.
const startBeginning = "beginning"

// Position returns the reader's position after all pages that it has returned, as a text
// for a later reader's [ReaderConfig.Position]. Partitions may be split and merged before
// that. The package comment describes the text. Before the first Next, Position sends the
// same first requests as Next, so that a start from now is resolved then.
func (r *Reader) Position(ctx context.Context) (string, error) {
	if err := r.begin(ctx); err != nil {
		return "", err
	}
	p := position{
		Version: positionVersion,
		RID:     r.identity.ContainerRID,
		Mode:    r.cfg.Mode.String(),
		Range:   positionRange(r.cfg.Range.OrFull()),
	}
	if r.cfg.Key != nil {
		p.Key = json.RawMessage(r.cfg.Key.String())
	}
	for _, c := range r.cursors {
		at := positionCursor{positionRange: positionRange(c.rng)}
		switch c.from.Kind() {
		case StartContinuation:
			at.Continuation = c.from.Continuation()
		case StartBeginning:
			at.Start = startBeginning
		case StartTime:
			at.Start = c.from.Time().Format(time.RFC3339)
		case StartNow: // not possible, because begin has resolved it
		}
		p.Cursors = append(p.Cursors, at)
	}
	sort.Slice(p.Cursors, func(i, j int) bool { return p.Cursors[i].Min < p.Cursors[j].Min })
	text, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("write position: %w", err)
	}
	return string(text), nil
}

// restore sets the reader's range, key, mode and cursors from a text that Position has
// returned.
func (r *Reader) restore(text string) error {
	p, err := parsePosition(text)
	if err != nil {
		return err
	}
	mode := LatestVersion
	if p.Mode == AllVersionsAndDeletes.String() {
		mode = AllVersionsAndDeletes
	}
	if r.cfg.Mode != LatestVersion && r.cfg.Mode != mode {
		return fmt.Errorf("it belongs to %s mode, not to %s mode", mode, r.cfg.Mode)
	}
	r.cfg.Mode = mode
	if rng := Range(p.Range); !r.cfg.Range.IsZero() && r.cfg.Range != rng {
		return fmt.Errorf("it belongs to range %s, not to range %s", rng, r.cfg.Range)
	}
	r.cfg.Range = Range(p.Range)
	var key PartitionKey
	if p.Key != nil {
		if key, err = ParsePartitionKey(string(p.Key)); err != nil {
			return err
		}
	}
	if r.cfg.Key != nil && r.cfg.Key.String() != key.String() {
		return fmt.Errorf("it belongs to key %s, not to key %s", key, r.cfg.Key)
	}
	r.cfg.Key = key
	r.identity.ContainerRID = p.RID
	for _, at := range p.Cursors {
		from, err := at.start()
		if err != nil {
			return err
		}
		r.cursors = append(r.cursors, &cursor{rng: Range(at.positionRange), from: from})
	}
	return nil
}

// parsePosition parses a text that Position returned. It checks the version, the mode,
// and that the cursors cover the range without overlaps. With a key, the cursors may
// leave out parts of the range that hold no such key.
func parsePosition(text string) (position, error) {
	var p position
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	if err := d.Decode(&p); err != nil {
		return position{}, fmt.Errorf("it is not a reader's position: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return position{}, errors.New("it is not a reader's position: something follows it")
	}
	if p.Version != positionVersion {
		return position{}, fmt.Errorf("it has version %d; only version %d is supported", p.Version, positionVersion)
	}
	if p.RID == "" {
		return position{}, errors.New("it names no container")
	}
	if p.Mode != LatestVersion.String() && p.Mode != AllVersionsAndDeletes.String() {
		return position{}, fmt.Errorf("unknown mode %q", p.Mode)
	}
	if len(p.Cursors) == 0 {
		return position{}, errors.New("it has no cursor")
	}
	covered := p.Range.Min
	for _, at := range p.Cursors {
		gap := at.Min != covered
		if p.Key != nil {
			gap = at.Min < covered
		}
		if gap || Range(at.positionRange).IsEmpty() {
			return position{}, fmt.Errorf("its cursors do not tile the range %s", Range(p.Range))
		}
		covered = at.Max
	}
	if covered > p.Range.Max || covered != p.Range.Max && p.Key == nil {
		return position{}, fmt.Errorf("its cursors do not tile the range %s", Range(p.Range))
	}
	return p, nil
}

// start returns the Start from which the cursor resumes.
func (p positionCursor) start() (Start, error) {
	switch {
	case p.Continuation != "" && p.Start == "":
		return After(p.Continuation), nil
	case p.Start == startBeginning && p.Continuation == "":
		return Beginning(), nil
	case p.Start != "" && p.Continuation == "":
		t, err := time.Parse(time.RFC3339, p.Start)
		if err != nil {
			return Start{}, fmt.Errorf("its start %q is neither %q nor a time", p.Start, startBeginning)
		}
		return At(t), nil
	}
	return Start{}, fmt.Errorf("its cursor of range %s has neither a continuation nor a start", Range(p.positionRange))
}
