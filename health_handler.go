package changefeed

import (
	"fmt"
	"net/http"
)

// HealthHandler returns a handler for probes such as Kubernetes'. Two paths answer GET and
// HEAD:
//
//   - /alive has status 200 until Run has returned, and 503 from then on. Use it for a
//     liveness probe, after whose failure the program is restarted. [Processor.Healthy] is not
//     asked, because a restart helps neither against an outage of the service
//     nor against a slow handler, and would only add a start to them.
//   - /ready has status 200 while the processor is healthy and the leases exist, and 503
//     otherwise. Use it for a readiness probe, which holds up a rolling update while a new
//     host cannot work, and for alerts.
//
// The body says why in one line. No answer takes any I/O, so probes cost no requests.
//
// A program with several processors passes them all, and each of them must then be alive
// or ready. Other paths have status 404, so in a mux with other handlers the two paths are
// registered one by one, or the handler gets "/".
func HealthHandler(p *Processor, more ...*Processor) http.Handler {
	all := append([]*Processor{p}, more...)
	mux := http.NewServeMux()
	mux.Handle("GET /alive", probe("alive", all, (*Processor).alive))
	mux.Handle("GET /ready", probe("ready", all, (*Processor).ready))
	return mux
}

// probe returns a handler that answers with word while check returns nil for all of them,
// and with the first error otherwise.
func probe(word string, all []*Processor, check func(*Processor) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		for _, p := range all {
			if err := check(p); err != nil {
				http.Error(w, fmt.Sprintf("processor %q: %v", p.cfg.Processor, err), http.StatusServiceUnavailable)
				return
			}
		}
		_, _ = fmt.Fprintln(w, word)
	})
}
