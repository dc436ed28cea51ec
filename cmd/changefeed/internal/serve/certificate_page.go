package serve

import (
	"bytes"
	"net/http"
	"strconv"
	"time"
)

// certificatePath is where Microsoft's emulators publish their certificate, and where
// Testcontainers and many scripts look for it.
const certificatePath = "/_explorer/emulator.pem"

// certificatePage answers requests for the server's certificate, and passes all others to
// next. It needs no signature, because a client cannot sign a request before it trusts the
// server. A certificate is public: every TLS handshake shows it.
func certificatePage(id *identity, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != certificatePath || r.Method != http.MethodGet && r.Method != http.MethodHead {
			next.ServeHTTP(w, r)
			return
		}
		certificate, err := id.get(time.Now())
		if err != nil {
			http.Error(w, "the certificate cannot be read: "+err.Error(), http.StatusInternalServerError)
			return
		}
		var chain bytes.Buffer
		for _, der := range certificate.Certificate {
			chain.Write(pemOf("CERTIFICATE", der))
		}
		w.Header().Set("Content-Type", "application/x-pem-file")
		w.Header().Set("Content-Length", strconv.Itoa(chain.Len()))
		_, _ = w.Write(chain.Bytes()) // an error means that the connection has ended
	})
}
