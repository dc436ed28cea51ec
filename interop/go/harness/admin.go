package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// Admin calls the server's admin API, with the primary key. It is signed like everything else, as
// resource type "_changefeed" and the rest of the path as the link.
type Admin struct {
	env    Env
	client *http.Client
}

// NewAdmin returns an Admin that sends its requests by the client.
func NewAdmin(env Env, client *http.Client) *Admin { return &Admin{env, client} }

// A Partition of a container, as the admin API shows it.
type Partition struct {
	ID      string   `json:"id"`
	Min     string   `json:"min"`
	Max     string   `json:"max"`
	Parents []string `json:"parents"`
}

type partitions struct {
	Partitions []Partition `json:"partitions"`
}

// Partitions lists a container's partitions, in the order of their ranges.
func (a *Admin) Partitions(ctx context.Context, database, container string) ([]Partition, error) {
	var all partitions
	err := a.call(ctx, http.MethodGet, nil, &all, "dbs", database, "colls", container, "partitions")
	return all.Partitions, err
}

// SplitFirst splits the first partition of a container in its middle.
func (a *Admin) SplitFirst(ctx context.Context, database, container string) error {
	return a.first(ctx, database, container, "split", 2)
}

// MergeFirst merges the first two partitions of a container.
func (a *Admin) MergeFirst(ctx context.Context, database, container string) error {
	return a.first(ctx, database, container, "merge", 1)
}

func (a *Admin) first(ctx context.Context, database, container, verb string, want int) error {
	all, err := a.Partitions(ctx, database, container)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return errors.New("the container has no partitions")
	}
	var made partitions
	err = a.call(ctx, http.MethodPost, nil, &made, "dbs", database, "colls", container, "partitions", all[0].ID, verb)
	if err == nil && len(made.Partitions) != want {
		err = fmt.Errorf("%s of partition %s made %v", verb, all[0].ID, made.Partitions)
	}
	return err
}

// fault is a fault as the admin API takes and shows it.
type fault struct {
	ID           string  `json:"id,omitempty"`
	Hits         int     `json:"hits,omitempty"`
	Operation    string  `json:"operation"`
	Database     string  `json:"database"`
	Container    string  `json:"container"`
	Probability  float64 `json:"probability"`
	Status       int     `json:"status"`
	SubStatus    int     `json:"subStatus"`
	RetryAfterMS int64   `json:"retryAfterMs"`
}

// Throttle makes the server refuse three of ten creates in a container with 429 and a time to wait. The
// function it returns ends that and says how many it refused.
func (a *Admin) Throttle(ctx context.Context, database, container string, wait time.Duration) (func(context.Context) (int, error), error) {
	var set fault
	err := a.call(ctx, http.MethodPost, fault{
		Operation: "create document", Database: database, Container: container, Probability: 0.3,
		Status: http.StatusTooManyRequests, SubStatus: 3200, RetryAfterMS: wait.Milliseconds(),
	}, &set, "faults")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (int, error) {
		var all struct {
			Faults []fault `json:"faults"`
		}
		if err := a.call(ctx, http.MethodGet, nil, &all, "faults"); err != nil {
			return 0, err
		}
		for _, f := range all.Faults {
			if f.ID == set.ID {
				return f.Hits, a.call(ctx, http.MethodDelete, nil, nil, "faults", set.ID)
			}
		}
		return 0, fmt.Errorf("fault %s is gone", set.ID)
	}, nil
}

// call sends a request for the path of those segments and decodes the answer's JSON.
func (a *Admin) call(ctx context.Context, verb string, body, into any, segments ...string) error {
	plain, escaped := "", ""
	for _, s := range segments {
		plain += "/" + s
		escaped += "/" + url.PathEscape(s)
	}
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	r, err := http.NewRequestWithContext(ctx, verb, a.env.Endpoint+"/_changefeed"+escaped, bytes.NewReader(sent))
	if err != nil {
		return err
	}
	date := time.Now().UTC().Format(http.TimeFormat)
	r.Header.Set("X-Ms-Date", date)
	r.Header.Set("Authorization", Authorization(a.env.Key, verb, "_changefeed", plain[1:], date, ""))
	answer, err := a.client.Do(r)
	if err != nil {
		return fmt.Errorf("%s %s: %w", verb, plain, err)
	}
	text, err := io.ReadAll(answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return fmt.Errorf("%s %s: %w", verb, plain, err)
	}
	if answer.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", verb, plain, answer.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
