package server

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file converts between the JSON of a container and the properties in the store.

// keyDefinition is the JSON of a container's partition key: the member partitionKey.
type keyDefinition struct {
	Paths   []string    `json:"paths"`
	Kind    string      `json:"kind"`
	Version *keyVersion `json:"version"`
	// SystemKey reports that the container has no partition key of its own. Its documents
	// may have one at the path engine.SystemKeyPath.
	SystemKey bool `json:"systemKey,omitempty"`
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

// keyForm is an example of a partition key.
const keyForm = `{"paths":["/name"],"kind":"Hash","version":2}`

// newContainer returns the store's properties for the JSON m of a new container. It also
// adds missing members to the partition key in m. versions is the retention of a
// container that sets none. keyless reports whether the partition key may be missing.
func newContainer(m *object, versions time.Duration, keyless bool) (p storetype.ContainerProperties, err error) {
	key := m.get("partitionKey")
	if key == nil && keyless {
		key = jsontext.Value(systemKey)
	}
	if key == nil {
		return p, badRequest("Shared throughput collection should have a partition key")
	}
	if p.KeyPaths, p.KeyVersion, p.SystemKey, err = readKeyDefinition(key); err != nil {
		return p, err
	}
	m.set("partitionKey", completeKey(key, p.KeyVersion))
	if p.UniqueKeys, err = readUniqueKeys(m.get("uniqueKeyPolicy")); err != nil {
		return p, err
	}
	return p, readSettings(*m, &p, versions)
}

// systemKey is the partition key that newer clients are shown of a container without one.
const systemKey = `{"paths":["` + engine.SystemKeyPath + `"],"kind":"Hash","version":2,"systemKey":true}`

// readKeyDefinition returns the paths and the version in the JSON of a partition key, and
// whether it is a system key. Without a version in the JSON, the version of the kind Hash
// is 1, as in the service.
func readKeyDefinition(v jsontext.Value) (paths []string, hash storetype.KeyVersion, system bool, err error) {
	var def keyDefinition
	if err := json.Unmarshal(v, &def); err != nil {
		return nil, 0, false, badRequest("partitionKey is %.60s; send an object of the form %s", v, keyForm)
	}
	if len(def.Paths) == 0 {
		return nil, 0, false, badRequest("the partition key of the container has no paths")
	}
	if hash, err = def.hash(); err != nil {
		return nil, 0, false, err
	}
	if def.SystemKey && (!slices.Equal(def.Paths, []string{engine.SystemKeyPath}) || hash == storetype.MultiHash) {
		return nil, 0, false, badRequest("the system key of a container is %s; leave out systemKey for another partition key", systemKey)
	}
	return def.Paths, hash, def.SystemKey, nil
}

// hash returns the version in a partition key.
func (def keyDefinition) hash() (storetype.KeyVersion, error) {
	version := keyVersion(1)
	switch {
	case def.Version != nil:
		version = *def.Version
	case def.Kind == "MultiHash": // it has no version 1
		version = 2
	}
	switch {
	case def.Kind == "MultiHash" && version == 2:
		return storetype.MultiHash, nil
	case def.Kind == "MultiHash":
		return 0, badRequest("a partition key of the kind MultiHash has version 2, not %d", version)
	case def.Kind != "" && def.Kind != "Hash":
		return 0, badRequest("the kind of a partition key is Hash or MultiHash, not %.40q", def.Kind)
	case len(def.Paths) > 1:
		return 0, badRequest("a partition key of the kind Hash has one path, not %d: use the kind MultiHash for several", len(def.Paths))
	case version == 1:
		return storetype.HashV1, nil
	case version == 2:
		return storetype.HashV2, nil
	}
	return 0, badRequest("the version of a partition key is 1 or 2, not %d", version)
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
		return nil, badRequest(`the unique key policy is %.60s; send an object of the form {"uniqueKeys":[{"paths":["/name"]}]}`, v)
	}
	keys = [][]string{} // nil would mean that the container keeps its unique keys
	for _, k := range policy.UniqueKeys {
		keys = append(keys, k.Paths)
	}
	return keys, nil
}

// completeKey returns the JSON of a partition key with its kind, and the version as a
// number. Like the service, it does not add a version 1 that the client left out. SDKs
// then hash with the version that they take for the default, as they do with the service.
func completeKey(v jsontext.Value, hash storetype.KeyVersion) jsontext.Value {
	m, err := parseObject(v)
	if err != nil {
		return v // readKeyDefinition has parsed it before, so it cannot fail
	}
	kind, version := kindOf(hash)
	m.setDefault("kind", strconv.Quote(kind))
	if version == 1 && m.get("version") == nil {
		m = slices.DeleteFunc(m, func(x member) bool { return x.name == "version" }) // it can be null
	} else {
		m.set("version", number(int(version)))
	}
	return m.json()
}

func kindOf(hash storetype.KeyVersion) (kind string, version keyVersion) {
	switch hash {
	case storetype.MultiHash:
		return "MultiHash", 2
	case storetype.HashV1:
		return "Hash", 1
	default:
		return "Hash", 2
	}
}

// readSettings reads the properties of a container that can be replaced, from its JSON m
// into p. versions is the retention of a container that sets none.
func readSettings(m object, p *storetype.ContainerProperties, versions time.Duration) error {
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
func replaceProperties(p *storetype.ContainerProperties, m object, versions time.Duration) error {
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
	unique, err := readUniqueKeys(m.get("uniqueKeyPolicy"))
	switch {
	case err != nil:
		return err
	case !sameUniqueKeys(unique, p.UniqueKeys): // also if the policy is left out
		return refuse(byBackend, http.StatusForbidden, wire.SubNone,
			"The unique index cannot be modified. To change the unique index, remove the collection and re-create a new one.")
	}
	if err := readSettings(m, p, versions); err != nil {
		return err
	}
	e.Resource = storedMembers(m)
	p.Extra, err = e.json()
	return err
}

// sameUniqueKeys reports whether two lists have the same unique keys. Neither their order nor
// that of their paths matters.
func sameUniqueKeys(a, b [][]string) bool {
	sorted := func(keys [][]string) []string {
		var all []string
		for _, paths := range keys {
			all = append(all, strings.Join(slices.Sorted(slices.Values(paths)), "\n"))
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(sorted(a), sorted(b))
}

// sameKey returns an error if the JSON v of a partition key differs from the container's
// own key. Members that v does not have are not compared.
func sameKey(v jsontext.Value, p storetype.ContainerProperties, key jsontext.Value) error {
	var def keyDefinition
	if err := json.Unmarshal(v, &def); err != nil {
		return badRequest("partitionKey is %.60s; send an object of the form %s", v, keyForm)
	}
	kind, version := kindOf(p.KeyVersion)
	if !slices.Equal(def.Paths, p.KeyPaths) || def.Kind != "" && def.Kind != kind || def.Version != nil && *def.Version != version || def.SystemKey && !p.SystemKey {
		return badRequest("the partition key of a container cannot be changed: it is %s", key)
	}
	return nil
}

// keyOf returns the JSON of a container's partition key, as the client sent it. If the
// container was created without the server, it derives the JSON from the properties.
func keyOf(p storetype.ContainerProperties, sent object) jsontext.Value {
	if v := sent.get("partitionKey"); v != nil {
		return v
	}
	kind, version := kindOf(p.KeyVersion)
	return mustJSON(keyDefinition{p.KeyPaths, kind, &version, p.SystemKey})
}

// uniquePolicyOf returns the JSON of a container's unique keys, as the client sent it or
// else derived from the properties. It returns nil if the container has no unique keys.
func uniquePolicyOf(p storetype.ContainerProperties, sent object) jsontext.Value {
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

// containerMembers are the members of a container that clients may set, in the order of the
// service's answers. Those after geospatialConfig were never recorded. Other members are
// accepted and dropped.
var containerMembers = []string{
	"indexingPolicy", "partitionKey", "defaultTtl", "uniqueKeyPolicy", "conflictResolutionPolicy", "geospatialConfig",
	"changeFeedPolicy", "analyticalStorageTtl", "computedProperties", "vectorEmbeddingPolicy", "fullTextPolicy", "clientEncryptionPolicy",
	"materializedViewDefinition",
}

// containerBody returns the JSON of a container for an answer. It has the members that
// the client sent, and defaults for missing ones. Members that the store also holds have
// the value in the store, because a program can change them without the server.
// A system key is left out for clients that do not know it.
func (x *request) containerBody(database string, p storetype.ContainerProperties) []byte {
	all := readExtra(p.Extra).sent()
	policy := all.get("changeFeedPolicy")
	all.set("changeFeedPolicy", jsontext.Value("null"))
	all.setRetention(policy, p.Retention)
	all.set("partitionKey", keyOf(p, all))
	if p.SystemKey && x.beforeSystemKeys() {
		all.set("partitionKey", jsontext.Value("null"))
	}
	all.setUnlessNil("uniqueKeyPolicy", uniquePolicyOf(p, all))
	all.set("indexingPolicy", completePolicy(all.get("indexingPolicy")))
	all.setDefault("conflictResolutionPolicy", defaultConflicts)
	all.setDefault("geospatialConfig", defaultGeography)
	all.set("defaultTtl", jsontext.Value("null"))
	if p.DefaultTTL != 0 {
		all.set("defaultTtl", number(p.DefaultTTL))
	}
	m := object{{"id", jsonString(p.ID)}}
	for _, name := range containerMembers {
		m.setUnlessNil(name, all.get(name))
	}
	m.set("_rid", jsonString(p.RID))
	m.set("_ts", jsontext.Value(strconv.FormatInt(p.Modified.Unix(), 10)))
	m.set("_self", jsonString(containerSelf(database, p.RID)))
	m.set("_etag", jsonString(p.ETag))
	for _, link := range []string{"docs", "sprocs", "triggers", "udfs", "conflicts"} {
		m.set("_"+link, jsonString(link+"/"))
	}
	return m.json()
}

// completePolicy returns an indexing policy with the members that the client left out, as the
// service completes it. A policy of the mode none has no paths.
func completePolicy(sent jsontext.Value) jsontext.Value {
	if sent == nil {
		return jsontext.Value(defaultIndexing)
	}
	policy, err := parseObject(sent)
	if err != nil {
		return sent
	}
	whole, err := parseObject([]byte(defaultIndexing))
	if err != nil {
		return sent
	}
	isNone := strings.EqualFold(string(policy.get("indexingMode")), `"none"`)
	var m object
	for _, e := range whole {
		value := policy.get(e.name)
		if value == nil && isNone && strings.HasSuffix(e.name, "Paths") {
			continue
		}
		if value == nil {
			value = e.value
		}
		m.set(e.name, value)
	}
	for _, e := range policy {
		if whole.get(e.name) == nil {
			m.set(e.name, e.value)
		}
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
