package server

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file serves /offers and /offers/<rid>. Clients list, read and replace the
// throughput of databases and containers that were created with one.
//
// A replacement takes effect immediately and does not change the number of partitions.
// The content determines the kind (manual or autoscale). The headers by which some SDKs
// request the other kind are supported, too. An offer is created and deleted with its
// resource, so POST and DELETE are not supported. store.Options.EnforceThroughput enforces
// throughput.

// offer is the throughput of one database or container, as clients read and replace it.
type offer struct {
	throughput
	// rid is the rid of the offer. owner and self are the rid and the path of the
	// database or container.
	rid, owner, self string
	etag             string
	modified         int64
	// database or container is set, and the other is nil. It is the resource that has the
	// throughput.
	database  *storetype.DatabaseProperties
	container *engine.Container
}

// offerRID derives the rid of an offer from the rid of its database or container. SDKs
// expect a rid of three bytes, too few for the owner's rid. So it consists of the owner's
// number in the store and a mark of its kind. For numbers of eight million and more, it
// has six bytes.
func offerRID(owner string) (string, error) {
	b, err := layout.RIDEncoding.DecodeString(owner)
	if err != nil || len(b) != 4 && len(b) != 8 {
		return "", fmt.Errorf("rid %q does not belong to a database or container", owner)
	}
	n, kind := uint64(binary.BigEndian.Uint32(b)), uint64(0)
	if len(b) == 8 {
		n, kind = uint64(binary.BigEndian.Uint32(b[4:])&^(1<<31)), 1
	}
	size := 3
	if n >= 1<<23 {
		size = 6
	}
	b = binary.BigEndian.AppendUint64(nil, n<<1|kind)
	return layout.RIDEncoding.EncodeToString(b[8-size:]), nil
}

// databaseOffer returns the offer of a database, or nil if the database was created
// without throughput.
func databaseOffer(d storetype.DatabaseProperties) (*offer, error) {
	if d.Throughput == 0 {
		return nil, nil //nolint:nilnil // a database without an offer is not an error
	}
	rid, err := offerRID(d.RID)
	return &offer{
		throughput: throughput{d.Throughput, readExtra(d.Extra).Autoscale}, rid: rid, owner: d.RID, self: databaseSelf(d.RID),
		etag: d.ETag, modified: d.Modified.Unix(), database: &d,
	}, err
}

// containerOffer returns the offer of a container, or nil if the container was created
// without throughput.
func containerOffer(ctx context.Context, c *engine.Container) (*offer, error) {
	p, err := c.Properties(ctx)
	if err != nil || p.Throughput == 0 {
		return nil, err
	}
	rid, err := offerRID(p.RID)
	return &offer{
		throughput: throughput{p.Throughput, readExtra(p.Extra).Autoscale}, rid: rid, owner: p.RID,
		self: containerSelf(c.Identity().DatabaseRID, p.RID), etag: p.ETag, modified: p.Modified.Unix(), container: c,
	}, err
}

// body returns the JSON of the offer for an answer.
func (o *offer) body() []byte {
	m := object{
		{"resource", jsonString(o.self)},
		{"offerType", jsonString("Invalid")},
		{"offerResourceId", jsonString(o.owner)},
		{"offerVersion", jsonString("V2")},
		{"content", o.content()},
		{"id", jsonString(o.rid)},
	}
	m.setSystem(o.rid, "offers/"+o.rid+"/", o.etag, o.modified)
	return m.json()
}

// allOffers returns the offers of all databases and containers, sorted by rid.
func (s *Server) allOffers(ctx context.Context) (all []*offer, err error) {
	add := func(o *offer, err error) error {
		if o != nil {
			all = append(all, o)
		}
		return err
	}
	databases, err := s.db.Databases(ctx)
	for _, d := range databases {
		err = errors.Join(err, add(databaseOffer(d)))
	}
	if err == nil {
		err = eachContainer(ctx, s.db, func(c *engine.Container) error { return add(containerOffer(ctx, c)) })
	}
	slices.SortFunc(all, func(a, b *offer) int { return strings.Compare(a.rid, b.rid) })
	return all, err
}

// offers returns the list of all offers, sorted by rid, for the operation that lists
// them.
func (s *Server) offers(x *request) (resourceList, error) {
	l := resourceList{name: "Offers"}
	all, err := s.allOffers(x.r.Context())
	for _, o := range all {
		l.add(o.rid, o.body())
	}
	return l, err
}

// offer returns the offer whose rid is in the path.
func (x *request) offer() (*offer, error) {
	all, err := x.s.allOffers(x.r.Context())
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(o *offer) bool { return o.rid == x.path.IDs[0] })
	if i < 0 {
		return nil, failure(http.StatusNotFound, wire.SubNone, "there is no offer %.60q", x.path.IDs[0])
	}
	return all[i], nil
}

func (s *Server) readOffer(x *request) error {
	o, err := x.offer()
	if err != nil {
		return err
	}
	return x.sendOffer(o)
}

func (s *Server) replaceOffer(x *request) error {
	o, err := x.offer()
	if err != nil {
		return err
	}
	body, err := x.body(maxMetadataBody)
	if err != nil {
		return err
	}
	m, err := parseObject(body)
	if err != nil {
		return err
	}
	t, err := x.replacement(o, m)
	if err != nil {
		return err
	}
	if o.database != nil {
		err = x.changeDatabase(*o.database, t)
	} else {
		err = x.changeContainer(o.container, func(p *storetype.ContainerProperties) error {
			e := readExtra(p.Extra)
			e.Autoscale, p.Throughput = t.autoscale, t.rate
			p.Extra, err = e.json()
			return err
		})
	}
	if err != nil {
		return err
	}
	if o, err = x.offer(); err != nil {
		return err
	}
	return x.sendOffer(o)
}

// replacement returns the throughput in the JSON m, which replaces the offer old. It
// returns an error if m belongs to another resource or has an invalid throughput.
func (x *request) replacement(old *offer, m object) (throughput, error) {
	if v := m.get("offerResourceId"); v != nil && string(v) != string(jsonString(old.owner)) {
		return throughput{}, badRequest("an offer cannot be moved to another resource; it belongs to %s", old.owner)
	}
	var content struct {
		Throughput int             `json:"offerThroughput"`
		Autoscale  json.RawMessage `json:"offerAutopilotSettings"`
	}
	if v := m.get("content"); v == nil || json.Unmarshal(v, &content) != nil {
		return throughput{}, badRequest(`the offer has no content of the form {"offerThroughput":400} or {"offerAutopilotSettings":{"maxThroughput":4000}}`)
	}
	settings := content.Autoscale
	if string(settings) == "null" {
		settings = nil
	}
	switch {
	case x.flag(wire.HeaderOfferToManual):
		if content.Throughput <= 0 || content.Throughput == old.rate/10 && old.autoscale != nil {
			content.Throughput = old.rate // on a change from autoscale to manual, the maximum becomes the rate
		}
		return manually(content.Throughput)
	case settings != nil:
		return autoscaled(settings)
	case x.flag(wire.HeaderOfferToAutopilot):
		most := (old.rate + autoscaleStep - 1) / autoscaleStep * autoscaleStep
		return autoscaled(json.RawMessage(fmt.Sprintf(`{"maxThroughput":%d}`, most)))
	}
	return manually(content.Throughput)
}

// changeDatabase stores a new throughput of a database. If another request changes the
// database in between, it tries again. It returns an error if the If-Match of the request
// does not hold.
func (x *request) changeDatabase(d storetype.DatabaseProperties, t throughput) error {
	for {
		if err := x.checkIfMatch(d.ETag); err != nil {
			return err
		}
		e := readExtra(d.Extra)
		e.Autoscale, d.Throughput = t.autoscale, t.rate
		var err error
		if d.Extra, err = e.json(); err != nil {
			return err
		}
		if _, err = x.s.db.ReplaceDatabase(x.r.Context(), d); !errors.Is(err, storetype.ErrPreconditionFailed) {
			return err
		}
		if d, err = x.s.db.Database(x.r.Context(), d.ID); err != nil {
			return err
		}
	}
}

func (x *request) sendOffer(o *offer) error {
	h := x.w.Header()
	h.Set(wire.HeaderMinThroughput, strconv.Itoa(o.least()))
	h.Set(wire.HeaderOfferReplacePending, "false")
	return x.sendResource(http.StatusOK, o.etag, o.body())
}

// These are the limits of provisioned throughput, in RU/s, as in the service.
const (
	leastManual, manualStep       = 400, 100
	leastAutoscale, autoscaleStep = 1_000, 1_000
	mostThroughput                = 1_000_000
	// perPartition is the throughput that one physical partition provides, in RU/s. It
	// determines the number of partitions of a new container.
	perPartition = 10_000
)

// throughput is the provisioned throughput of a database or container, manual or
// autoscale.
type throughput struct {
	// rate is the throughput in RU/s. For autoscale it is the maximum. 0 means that none
	// is provisioned.
	rate int
	// autoscale holds the autoscale settings as the client sent them, with the maximum in
	// the member maxThroughput. nil means that the throughput is manual.
	autoscale json.RawMessage
}

// throughput parses the throughput in the headers of a request that creates a database or
// container.
func (x *request) throughput() (throughput, error) {
	manual, settings := x.header(wire.HeaderOfferThroughput), x.header(wire.HeaderOfferAutopilot)
	switch {
	case manual != "" && settings != "":
		return throughput{}, badRequest("x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings exclude each other")
	case settings != "":
		return autoscaled(json.RawMessage(settings))
	case manual == "":
		return throughput{}, nil
	}
	rate, err := strconv.Atoi(manual)
	if err != nil {
		return throughput{}, badRequest("the header x-ms-offer-throughput is %.40q, which is not a number", manual)
	}
	return manually(rate)
}

// manually returns a manual throughput with the given rate in RU/s, or an error if the
// rate is invalid.
func manually(rate int) (throughput, error) {
	if rate < leastManual || rate > mostThroughput || rate%manualStep != 0 {
		return throughput{}, badRequest("The offer should have valid throughput values between %d and %d inclusive in increments of %d; it is %d",
			leastManual, mostThroughput, manualStep, rate)
	}
	return throughput{rate: rate}, nil
}

// autoscaled returns the throughput in the JSON of autoscale settings, or an error if
// they are invalid.
func autoscaled(settings json.RawMessage) (throughput, error) {
	var s struct {
		MaxThroughput int `json:"maxThroughput"`
	}
	if err := json.Unmarshal(settings, &s); err != nil {
		return throughput{}, badRequest("the autoscale settings are %.60s; they must be an object with a number maxThroughput", settings)
	}
	if s.MaxThroughput < leastAutoscale || s.MaxThroughput > mostThroughput || s.MaxThroughput%autoscaleStep != 0 {
		return throughput{}, badRequest("maxThroughput of autoscale must be a number between %d and %d inclusive in increments of %d; it is %d",
			leastAutoscale, mostThroughput, autoscaleStep, s.MaxThroughput)
	}
	return throughput{s.MaxThroughput, settings}, nil
}

// partitions returns the number of physical partitions for the throughput, rounded up.
func (t throughput) partitions() int { return (t.rate + perPartition - 1) / perPartition }

// least returns the lowest throughput, in RU/s, to which a client may reduce the offer.
func (t throughput) least() int {
	if t.autoscale != nil {
		return leastAutoscale
	}
	return leastManual
}

// content returns the JSON of the offer's member content: the rate, and for autoscale the
// settings.
func (t throughput) content() jsontext.Value {
	if t.autoscale == nil {
		// The store does not record what was provisioned before.
		least := object{{"maxThroughputEverProvisioned", number(t.rate)}, {"maxConsumedStorageEverInKB", number(0)}}
		return object{
			{"offerThroughput", number(t.rate)},
			{"offerIsRUPerMinuteThroughputEnabled", jsontext.Value("false")},
			{"offerMinimumThroughputParameters", least.json()},
		}.json()
	}
	settings, err := parseObject(t.autoscale)
	if err != nil {
		settings = nil // cannot fail, because the settings were valid when they were stored
	}
	// A program can change the rate through the store. Then the settings that the client
	// sent still have the previous rate.
	settings.set("maxThroughput", number(t.rate))
	// offerThroughput is a tenth of the maximum, which an idle autoscale offer provides.
	return object{{"offerThroughput", number(t.rate / 10)}, {"offerAutopilotSettings", settings.json()}}.json()
}

func number(n int) jsontext.Value { return jsontext.Value(strconv.Itoa(n)) }
