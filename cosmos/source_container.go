package cosmos

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/internal/epk"
)

// This file reads the container: GET /dbs/x/colls/y. The response contains its rid, which
// lease ids contain, and its partition key. It is read once, and again if a response
// suggests that the container is another one.

// known returns the container's properties. It requests them at the first use.
func (s *Source) known(ctx context.Context) (*properties, error) {
	if p := s.current(); p != nil {
		return p, ctx.Err()
	}
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if p := s.current(); p != nil {
		return p, nil
	}
	p, err := s.readContainer(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.properties = p
	return p, nil
}

func (s *Source) current() *properties {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.properties
}

// verify returns nil if the container is still the one that was read first.
func (s *Source) verify(ctx context.Context, p *properties) error {
	now, err := s.readContainer(ctx)
	if err != nil {
		return err
	}
	if now.rid != p.rid {
		return s.recreated(p, now.rid)
	}
	return nil
}

func (s *Source) recreated(p *properties, is string) error {
	return &RecreatedError{Database: s.database, Container: s.container, OldRID: p.rid, NewRID: is}
}

// readContainer requests the container from the service.
func (s *Source) readContainer(ctx context.Context) (*properties, error) {
	const op = "read the container"
	a, err := s.account.client.do(ctx, &call{span: "Source.ReadContainer", op: op, path: s.path(), early: true})
	if err != nil {
		return nil, err
	}
	if a.status != http.StatusOK {
		return nil, s.refusal(actionMetadata).failure(op, a)
	}
	p, err := parseContainer(a.body)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", op, s.what(), err)
	}
	return p, nil
}

// parseContainer returns the properties in a container's body.
func parseContainer(body []byte) (*properties, error) {
	var c struct {
		RID          string `json:"_rid"`
		PartitionKey struct {
			Paths   []string `json:"paths"`
			Kind    string   `json:"kind"`
			Version int      `json:"version"`
			System  bool     `json:"systemKey"`
		} `json:"partitionKey"`
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return nil, err
	}
	paths, err := parseKeyPaths(c.PartitionKey.Paths)
	if err != nil {
		return nil, err
	}
	p := &properties{rid: c.RID, keyPaths: paths, hash: epk.V2, systemKey: c.PartitionKey.System}
	switch key := c.PartitionKey; {
	case key.Kind == "MultiHash":
		p.hash = epk.MultiHash
	case key.Kind != "" && key.Kind != "Hash":
		return nil, fmt.Errorf("its partition key is of the kind %.40q, which is not supported", key.Kind)
	case key.Version < 2: // a missing version means version 1
		p.hash = epk.V1
	}
	p.databaseRID, err = databaseOf(c.RID)
	return p, err
}

// databaseOf returns the rid of the database of a container. It is the first half of the
// container's rid, so no request is needed. A rid is eight bytes in base64, with "-"
// instead of "/".
func databaseOf(container string) (string, error) {
	b, err := base64.StdEncoding.DecodeString(strings.ReplaceAll(container, "-", "/"))
	if err != nil || len(b) != 8 {
		return "", errors.New("its _rid is not the rid of a container")
	}
	return strings.ReplaceAll(base64.StdEncoding.EncodeToString(b[:4]), "/", "-"), nil
}
