package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
)

// offerList is the answer to the list of an account's offers. It has those of all databases and
// containers, also of those that are none of the replay's.
type offerList struct {
	RID    string            `json:"_rid"`
	Offers []json.RawMessage `json:"Offers"`
	Count  int               `json:"_count"`
}

// offerID returns the id of an offer, or an empty text.
func offerID(offer json.RawMessage) string {
	var o struct{ ID string }
	_ = json.Unmarshal(offer, &o)
	return o.ID
}

// foreignOffers returns the ids of the offers that the account has before the replay. If the
// account refuses to list them, there are none, and the case that lists them shows the refusal.
func (r *replay) foreignOffers(ctx context.Context) ([]string, error) {
	a, err := r.send(ctx, &recorded{Method: http.MethodGet, Path: "/offers"})
	if err != nil {
		return nil, err
	}
	var list offerList
	if a.status != http.StatusOK {
		return nil, nil
	}
	if err := json.Unmarshal(a.body, &list); err != nil {
		return nil, fmt.Errorf("the list of the offers, %q: %w", a.body, err)
	}
	var ids []string
	for _, o := range list.Offers {
		ids = append(ids, offerID(o))
	}
	return ids, nil
}

// leaveOut removes the offers with ids from a list of offers. Any other answer stays as it is.
func leaveOut(body []byte, ids []string) ([]byte, error) {
	var list offerList
	if len(ids) == 0 || json.Unmarshal(body, &list) != nil {
		return body, nil
	}
	n := len(list.Offers)
	list.Offers = slices.DeleteFunc(list.Offers, func(o json.RawMessage) bool { return slices.Contains(ids, offerID(o)) })
	list.Count -= n - len(list.Offers)
	return json.Marshal(list)
}
