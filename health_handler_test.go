package changefeed

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// answers sends a request to the handler of processors. The answer must have this status, and
// its body must contain text.
func answers(t *testing.T, h http.Handler, method, path string, status int, text string) {
	t.Helper()
	synctest.Wait()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
	body := answer.Body.String()
	if answer.Code != status || !strings.Contains(body, text) || strings.Count(body, "\n") > 1 {
		t.Errorf("%s %s: status %d, %q; want status %d, %q", method, path, answer.Code, body, status, text)
	}
}

// An outage must not restart every host, because the restarts would add a start of each to
// what the service has to do when it returns.
func TestProcessorInAnOutageIsAliveButNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := &unlisted{fakeStore: newFakeStore()}
		leases.down.Store(true)
		p := probed(t, Config{Source: onePartition(10), Leases: leases})
		h := HealthHandler(p)
		pause(time.Minute)
		expect(t, p, "")
		answers(t, h, "GET", "/ready", 503, `processor "test": changefeed: not ready: the leases have not been found`)
		pause(10 * time.Minute)
		answers(t, h, "GET", "/ready", 503, "not healthy: the leases could not be listed for 11m")
		answers(t, h, "GET", "/alive", 200, "alive\n")
		leases.down.Store(false)
		pause(20 * time.Second)
		answers(t, h, "GET", "/ready", 200, "ready\n")
		leases.down.Store(true)
		pause(3 * time.Minute)
		answers(t, h, "GET", "/ready", 503, "not healthy")
		answers(t, h, "GET", "/alive", 200, "alive")
	})
}

// Until the first leases exist, a rolling update must not end the hosts of before.
func TestProcessorIsReadyOnceItsLeasesExist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		leases.setBefore(func(fakeWrite) error { return errors.New("403: writes are forbidden") })
		p := probed(t, Config{Source: onePartition(10), Leases: leases})
		h := HealthHandler(p)
		pause(time.Minute)
		expect(t, p, "") // a listing has succeeded
		answers(t, h, "GET", "/ready", 503, "not ready: the leases have not been found or created yet")
		leases.setBefore(nil)
		pause(20 * time.Second)
		answers(t, h, "GET", "/ready", 200, "ready")
	})
}

func TestProcessorIsAliveUntilRunHasReturned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := New(Config{Processor: "idle", Source: onePartition(10), Leases: newFakeStore(), Handler: &collector{}})
		if err != nil {
			t.Fatal(err)
		}
		h := HealthHandler(p)
		answers(t, h, "GET", "/alive", 200, "alive") // the program may have more to do before it calls Run
		answers(t, h, "GET", "/ready", 503, "Run was not called")
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		pause(time.Minute)
		answers(t, h, "GET", "/ready", 200, "ready")
		stop()
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		answers(t, h, "GET", "/alive", 503, `processor "idle": changefeed: not healthy: Run has returned`)
		answers(t, h, "GET", "/ready", 503, "Run has returned")
	})
}

func TestHealthHandlerJudgesEveryProcessor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probed(t, Config{Source: onePartition(10), Leases: newFakeStore()})
		idle, err := New(Config{Processor: "idle", Source: onePartition(10), Leases: newFakeStore(), Handler: &collector{}})
		if err != nil {
			t.Fatal(err)
		}
		pause(time.Minute)
		answers(t, HealthHandler(p), "GET", "/ready", 200, "ready")
		answers(t, HealthHandler(p, idle), "GET", "/ready", 503, `processor "idle": changefeed: not healthy: Run was not called`)
		answers(t, HealthHandler(p, idle), "GET", "/alive", 200, "alive")
	})
}

func TestHealthHandlerServesTwoPathsToGetAndHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := probed(t, Config{Source: onePartition(10), Leases: newFakeStore()})
		pause(time.Minute)
		for _, path := range []string{"/alive", "/ready"} {
			answers(t, HealthHandler(p), "HEAD", path, 200, "")
			answers(t, HealthHandler(p), "POST", path, 405, "")
		}
		answers(t, HealthHandler(p), "GET", "/", 404, "")
		answers(t, HealthHandler(p), "GET", "/metrics", 404, "")
	})
}
