package server

import (
	"encoding/json"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// The bounds of provisioned throughput, in RU/s: those of the service.
const (
	leastManual, manualStep       = 400, 100
	leastAutoscale, autoscaleStep = 1_000, 1_000
	mostThroughput                = 1_000_000
	// perPartition is what one physical partition carries: a container is made with as
	// many as its throughput needs.
	perPartition = 10_000
)

// throughput is what is provisioned for a database or container.
type throughput struct {
	// rate is in RU/s; of autoscale the maximum. 0: nothing is provisioned.
	rate int
	// autoscale are the settings as the client sent them, at least {"maxThroughput":rate}; nil: manual.
	autoscale json.RawMessage
}

// throughput is what the headers of a creation ask for.
func (x *exchange) throughput() (throughput, error) {
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
		return throughput{}, badRequest("the header x-ms-offer-throughput is %.40q, which is no number", manual)
	}
	return manually(rate)
}

// manually checks a manual throughput.
func manually(rate int) (throughput, error) {
	if rate < leastManual || rate > mostThroughput || rate%manualStep != 0 {
		return throughput{}, badRequest("The offer should have valid throughput values between %d and %d inclusive in increments of %d; it is %d",
			leastManual, mostThroughput, manualStep, rate)
	}
	return throughput{rate: rate}, nil
}

// autoscaled checks the settings of an autoscale throughput.
func autoscaled(settings json.RawMessage) (throughput, error) {
	var s struct {
		MaxThroughput int `json:"maxThroughput"`
	}
	if err := json.Unmarshal(settings, &s); err != nil {
		return throughput{}, badRequest("the autoscale settings are no JSON object with a number maxThroughput: %v", err)
	}
	if s.MaxThroughput < leastAutoscale || s.MaxThroughput > mostThroughput || s.MaxThroughput%autoscaleStep != 0 {
		return throughput{}, badRequest("maxThroughput of autoscale is a number between %d and %d inclusive in increments of %d; it is %d",
			leastAutoscale, mostThroughput, autoscaleStep, s.MaxThroughput)
	}
	return throughput{s.MaxThroughput, settings}, nil
}

// partitions is how many physical partitions the throughput needs.
func (t throughput) partitions() int { return (t.rate + perPartition - 1) / perPartition }

// least is the lowest rate that the offer can be replaced by.
func (t throughput) least() int {
	if t.autoscale != nil {
		return leastAutoscale
	}
	return leastManual
}

// content is what an offer says of it.
func (t throughput) content() jsontext.Value {
	if t.autoscale == nil {
		return members{{"offerThroughput", number(t.rate)}}.json()
	}
	settings, err := parseMembers(t.autoscale)
	if err != nil {
		settings = nil // it was checked when it came in
	}
	// The rate may have been changed without us, through the store.
	settings.set("maxThroughput", number(t.rate))
	// At rest an autoscale offer provides a tenth of its maximum.
	return members{{"offerThroughput", number(t.rate / 10)}, {"offerAutopilotSettings", settings.json()}}.json()
}

func number(n int) jsontext.Value { return jsontext.Value(strconv.Itoa(n)) }
