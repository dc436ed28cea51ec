package server

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/engine"
)

// This file converts between the JSON of a container and the properties in the store.

// keyDefinition is the JSON of a container's partition key: the member partitionKey.
type keyDefinition struct {
	Paths   []string    `json:"paths"`
	Kind    string      `json:"kind"`
	Version *keyVersion `json:"version"`
}

// keyVersion is the version of a partition key's hash: 1 or 2. In JSON it is a number, or
// a string such as "V2", which Java's SDK writes.
type keyVersion int

// UnmarshalJSON parses a number, or a string with a number after an optional V.
func (v *keyVersion) UnmarshalJSON(text []byte) error {
	plain := strings.TrimLeft(strings.Trim(string(text), `"`), "vV")
	n, err := strconv.Atoi(plain)
	if err != nil {
		return fmt.Errorf("version %.40s is not 1 or 2", text)
	}
	*v = keyVersion(n)
	return nil
}

// newContainer returns the store's properties for the JSON m of a new container. It also
// adds missing members to the partition key in m. versions is the retention of a
// container that sets none.
func newContainer(m *object, versions time.Duration) (p engine.ContainerProperties, err error) {
	key := m.get("partitionKey")
	if key == nil {
		return p, badRequest(`the container has no partition key: send "partitionKey":{"paths":["/name"],"kind":"Hash","version":2}`)
	}
	if p.KeyPaths, p.KeyVersion, err = readKeyDefinition(key); err != nil {
		return p, err
	}
	m.set("partitionKey", completeKey(key, p.KeyVersion))
	if p.UniqueKeys, err = readUniqueKeys(m.get("uniqueKeyPolicy")); err != nil {
		return p, err
	}
	return p, readSettings(*m, &p, versions)
}

// readKeyDefinition returns the paths and the version in the JSON of a partition key. If
// the JSON has no version, it returns version 2, although the service assumes version 1.
// SDKs use the version in the answer, and not all of them implement version 1 in the same
// way.
func readKeyDefinition(v jsontext.Value) (paths []string, hash engine.KeyVersion, err error) {
	var def keyDefinition
	if err := json.Unmarshal(v, &def); err != nil {
		return nil, 0, badRequest("cannot read the partition key of the container: %v", err)
	}
	if len(def.Paths) == 0 {
		return nil, 0, badRequest("the partition key of the container has no paths")
	}
	version := keyVersion(2)
	if def.Version != nil {
		version = *def.Version
	}
	switch {
	case def.Kind == "MultiHash" && version == 2:
		return def.Paths, engine.MultiHash, nil
	case def.Kind == "MultiHash":
		return nil, 0, badRequest("a partition key of the kind MultiHash has version 2, not %d", version)
	case def.Kind != "" && def.Kind != "Hash":
		return nil, 0, badRequest("the kind of a partition key is Hash or MultiHash, not %.40q", def.Kind)
	case len(def.Paths) > 1:
		return nil, 0, badRequest("a partition key of the kind Hash has one path, not %d: use the kind MultiHash for several", len(def.Paths))
	case version == 1:
		return def.Paths, engine.HashV1, nil
	case version == 2:
		return def.Paths, engine.HashV2, nil
	}
	return nil, 0, badRequest("the version of a partition key is 1 or 2, not %d", version)
}

// uniqueKeyPolicy is the JSON of a container's unique keys: the member uniqueKeyPolicy.
type uniqueKeyPolicy struct {
	UniqueKeys []uniqueKey `json:"uniqueKeys"`
}

type uniqueKey struct {
	Paths []string `json:"paths"`
}

// readUniqueKeys returns the paths of each unique key in the JSON of a unique key policy.
// The store validates them.
func readUniqueKeys(v jsontext.Value) (keys [][]string, err error) {
	if v == nil {
		return nil, nil
	}
	var policy uniqueKeyPolicy
	if err := json.Unmarshal(v, &policy); err != nil {
		return nil, badRequest("cannot read the unique key policy of the container: %v; send \"uniqueKeyPolicy\":{\"uniqueKeys\":[{\"paths\":[\"/name\"]}]}", err)
	}
	keys = [][]string{} // nil would mean that the container keeps its unique keys
	for _, k := range policy.UniqueKeys {
		keys = append(keys, k.Paths)
	}
	return keys, nil
}

// completeKey returns the JSON of a partition key with its missing members added, and the
// version as a number. Without this, SDKs would assume different versions.
func completeKey(v jsontext.Value, hash engine.KeyVersion) jsontext.Value {
	m, err := parseObject(v)
	if err != nil {
		return v // readKeyDefinition has parsed it before, so it cannot fail
	}
	kind, version := kindOf(hash)
	m.setDefault("kind", strconv.Quote(kind))
	m.set("version", number(int(version)))
	return m.json()
}

func kindOf(hash engine.KeyVersion) (kind string, version keyVersion) {
	switch hash {
	case engine.MultiHash:
		return "MultiHash", 2
	case engine.HashV1:
		return "Hash", 1
	default:
		return "Hash", 2
	}
}

// readSettings reads the properties of a container that can be replaced, from its JSON m
// into p. versions is the retention of a container that sets none.
func readSettings(m object, p *engine.ContainerProperties, versions time.Duration) error {
	p.DefaultTTL, p.Retention = 0, 0
	if v := m.get("defaultTtl"); v != nil {
		if err := json.Unmarshal(v, &p.DefaultTTL); err != nil || p.DefaultTTL == 0 || p.DefaultTTL < -1 || p.DefaultTTL > math.MaxInt32 {
			return badRequest("defaultTtl is %.40s; it is a number of seconds from 1 to %d, or -1 if items do not expire by default", v, math.MaxInt32)
		}
	}
	retention, _, err := readRetention(m.get("changeFeedPolicy"))
	p.Retention = retention
	if m.get("changeFeedPolicy") == nil {
		p.Retention = versions
	}
	return err
}

// maxRetention is the longest retention in minutes, about 292 years. A time.Duration
// cannot hold more.
const maxRetention = int64(math.MaxInt64 / time.Minute)

// readRetention returns the retention in the JSON of a change feed policy. plain is the
// policy with the retention as a number of minutes, which all SDKs can read. The
// JavaScript SDK sends an object instead of a number if its user passes a plain object.
func readRetention(policy jsontext.Value) (d time.Duration, plain jsontext.Value, err error) {
	if policy == nil {
		return 0, nil, nil
	}
	m, err := parseObject(policy)
	if err != nil {
		return 0, nil, badRequest("changeFeedPolicy is not an object")
	}
	v := m.get("retentionDuration")
	if v == nil {
		return 0, policy, nil
	}
	if v.Kind() == '{' {
		var o struct {
			Minutes json.RawMessage `json:"retentionInMinutes"`
		}
		if err := json.Unmarshal(v, &o); err == nil {
			v = jsontext.Value(o.Minutes)
			m.set("retentionDuration", v)
		}
	}
	minutes, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || minutes < 0 || minutes > maxRetention {
		return 0, nil, badRequest("changeFeedPolicy.retentionDuration is %.60s; send a whole number of minutes, up to %d", m.get("retentionDuration"), maxRetention)
	}
	return time.Duration(minutes) * time.Minute, m.json(), nil
}

// replaceProperties replaces the properties of a container by those in the JSON m. The
// partition key always stays the same.
func replaceProperties(p *engine.ContainerProperties, m object, versions time.Duration) (err error) {
	m = slices.Clone(m)
	e := readExtra(p.Extra)
	sent := e.sent()
	key := keyOf(*p, sent)
	if v := m.get("partitionKey"); v != nil {
		if err := sameKey(v, *p, key); err != nil {
			return err
		}
	}
	m.set("partitionKey", key)
	// A replacement without a unique key policy keeps the current one.
	if v := m.get("uniqueKeyPolicy"); v == nil {
		m.setUnlessNil("uniqueKeyPolicy", uniquePolicyOf(*p, sent))
	} else if p.UniqueKeys, err = readUniqueKeys(v); err != nil {
		return err
	}
	if err := readSettings(m, p, versions); err != nil {
		return err
	}
	e.Resource = storedMembers(m)
	p.Extra, err = e.json()
	return err
}

// sameKey returns an error if the JSON v of a partition key differs from the container's
// own key. Members that v does not have are not compared.
func sameKey(v jsontext.Value, p engine.ContainerProperties, key jsontext.Value) error {
	var def keyDefinition
	if err := json.Unmarshal(v, &def); err != nil {
		return badRequest("cannot read the partition key of the container: %v", err)
	}
	kind, version := kindOf(p.KeyVersion)
	if !slices.Equal(def.Paths, p.KeyPaths) || def.Kind != "" && def.Kind != kind || def.Version != nil && *def.Version != version {
		return badRequest("the partition key of a container cannot be changed: it is %s", key)
	}
	return nil
}

// keyOf returns the JSON of a container's partition key, as the client sent it. If the
// container was created without the server, it derives the JSON from the properties.
func keyOf(p engine.ContainerProperties, sent object) jsontext.Value {
	if v := sent.get("partitionKey"); v != nil {
		return v
	}
	kind, version := kindOf(p.KeyVersion)
	return mustJSON(keyDefinition{p.KeyPaths, kind, &version})
}

// uniquePolicyOf returns the JSON of a container's unique keys, as the client sent it or
// else derived from the properties. It returns nil if the container has no unique keys.
func uniquePolicyOf(p engine.ContainerProperties, sent object) jsontext.Value {
	if len(p.UniqueKeys) == 0 {
		return nil
	}
	if v := sent.get("uniqueKeyPolicy"); v != nil {
		return v
	}
	var policy uniqueKeyPolicy
	for _, paths := range p.UniqueKeys {
		policy.UniqueKeys = append(policy.UniqueKeys, uniqueKey{paths})
	}
	return mustJSON(policy)
}

// mustJSON returns the JSON of a value that contains only strings and numbers, which
// cannot fail.
func mustJSON(v any) jsontext.Value {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// These are the policies, in JSON, of a container that was created without them.
const (
	defaultIndexing  = `{"indexingMode":"consistent","automatic":true,"includedPaths":[{"path":"/*"}],"excludedPaths":[{"path":"/\"_etag\"/?"}]}`
	defaultConflicts = `{"mode":"LastWriterWins","conflictResolutionPath":"/_ts","conflictResolutionProcedure":""}`
	defaultGeography = `{"type":"Geography"}`
)

// containerBody returns the JSON of a container for an answer. It has the members that
// the client sent, and defaults for missing ones. Members that the store also holds are
// written last, with the value in the store. A program can change them through the store,
// without the server.
func containerBody(database string, p engine.ContainerProperties) []byte {
	sent := readExtra(p.Extra).sent()
	m := object{{"id", jsonString(p.ID)}}
	for _, s := range sent {
		if s.value.Kind() != 'n' && s.name != "defaultTtl" && s.name != "changeFeedPolicy" {
			m = append(m, s)
		}
	}
	m.setRetention(sent.get("changeFeedPolicy"), p.Retention)
	m.set("partitionKey", keyOf(p, sent))
	m.setUnlessNil("uniqueKeyPolicy", uniquePolicyOf(p, sent))
	m.setDefault("indexingPolicy", defaultIndexing)
	m.setDefault("conflictResolutionPolicy", defaultConflicts)
	m.setDefault("geospatialConfig", defaultGeography)
	if p.DefaultTTL != 0 {
		m.set("defaultTtl", number(p.DefaultTTL))
	}
	m.setSystem(p.RID, containerSelf(database, p.RID), p.ETag, p.Modified.Unix())
	for _, link := range []string{"docs", "sprocs", "triggers", "udfs", "conflicts"} {
		m.set("_"+link, jsonString(link+"/"))
	}
	return m.json()
}

// setRetention sets the change feed policy in the JSON m to the retention. If the policy
// that the client sent has the same retention, it is kept as it is.
func (m *object) setRetention(sent jsontext.Value, retention time.Duration) {
	was, plain, err := readRetention(sent)
	switch {
	case err == nil && plain != nil && was == retention:
		m.set("changeFeedPolicy", plain)
	case retention > 0:
		m.set("changeFeedPolicy", jsontext.Value(fmt.Sprintf(`{"retentionDuration":%d}`, int64((retention+time.Minute-1)/time.Minute))))
	}
}
