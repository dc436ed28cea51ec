package serve

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A self-signed certificate is made once and used again, so that clients need to
// trust it once. It is no authority: trusting it trusts this one server, and
// whoever steals its key can pose as nobody else.
const (
	// certificateLife is short of the 398 days that some platforms accept at most.
	certificateLife = 397 * 24 * time.Hour
	// renewBefore its end it is made anew.
	renewBefore = 30 * 24 * time.Hour
	// clockSlack is how far a client's clock may be behind.
	clockSlack = time.Hour
)

// identity is the server's certificate, with its key.
type identity struct {
	// path is the certificate's file (PEM), for clients; empty when they need none of ours, and when
	// it is in memory only.
	path string
	// unkept is why the certificate is in memory only; nil if it is not.
	unkept error
	// make makes or loads the certificate.
	make func(now time.Time) (*tls.Certificate, error)

	mu      sync.Mutex // guards current
	current *tls.Certificate
}

// identity loads the certificate that the flags say, or makes one.
func (c Config) identity() (*identity, error) {
	if cert, key, pair := strings.Cut(c.TLS, ","); pair {
		loaded, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, refuse("--tls %s can't be used: %v", c.TLS, err)
		}
		return &identity{current: &loaded}, nil
	}
	hosts := c.hosts()
	if c.Data != "" {
		return keptIdentity(c.Data, hosts)
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		var id *identity
		if id, err = keptIdentity(filepath.Join(cache, "changefeed"), hosts); err == nil {
			return id, nil
		}
	}
	// A server without data needs no directory, and so none to keep a certificate in.
	id := &identity{unkept: err, make: func(now time.Time) (*tls.Certificate, error) { return certificateInMemory(hosts, now) }}
	_, err = id.get(time.Now())
	return id, err
}

// keptIdentity loads a certificate for hosts from the directory dir, or makes one there.
func keptIdentity(dir string, hosts []string) (*identity, error) {
	// For lines that are pasted elsewhere.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find a place for the certificate: %w", err)
	}
	// One file per set of names, so that servers with different ones don't replace each other's.
	base := filepath.Join(dir, "localhost")
	if more := hosts[len(localHosts):]; len(more) > 0 {
		base = filepath.Join(dir, strings.ReplaceAll(strings.Join(more, "+"), ":", "_"))
	}
	id := &identity{path: base + ".crt"}
	id.make = func(now time.Time) (*tls.Certificate, error) { return certificateIn(base, hosts, now) }
	_, err = id.get(time.Now())
	return id, err
}

// localHosts are the names of one's own machine.
var localHosts = []string{"localhost", "127.0.0.1", "::1"}

// hosts returns the names that the server is reached by, which the certificate is for. The names
// of one's own machine come first.
func (c Config) hosts() []string {
	hosts := slices.Clone(localHosts)
	add := func(host string) {
		ip := net.ParseIP(host)
		if host != "" && (ip == nil || !ip.IsUnspecified()) && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if host, _, err := net.SplitHostPort(c.Listen); err == nil {
		add(host)
	}
	if u, err := url.Parse(c.PublicEndpoint); err == nil {
		add(u.Hostname())
	}
	for _, host := range c.Hosts {
		add(host)
	}
	return hosts
}

// listener speaks TLS on the connections of l.
func (id *identity) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return id.get(time.Now())
		},
	})
}

// get returns the certificate; one that we made is renewed in time.
func (id *identity) get(now time.Time) (*tls.Certificate, error) {
	id.mu.Lock()
	current := id.current
	id.mu.Unlock()
	if current != nil && (id.make == nil || now.Before(current.Leaf.NotAfter.Add(-renewBefore))) {
		return current, nil
	}
	made, err := id.make(now)
	if err != nil {
		return nil, err
	}
	id.mu.Lock()
	id.current = made
	id.mu.Unlock()
	return made, nil
}

// certificateIn loads the certificate base.crt with its key base.key, or makes both when
// they are missing, about to expire, or for other names.
func certificateIn(base string, hosts []string, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(base+".crt", base+".key")
	if err == nil && covers(pair.Leaf, hosts) && now.Before(pair.Leaf.NotAfter.Add(-renewBefore)) && !now.Before(pair.Leaf.NotBefore) {
		_ = os.Chmod(base+".crt", publicFile) // one of somebody else is used as it is
		return &pair, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	cert, key, err := newCertificate(hosts, now)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return nil, fmt.Errorf("keep the certificate: %w", err)
	}
	// The key first: a crash between the two leaves a pair that doesn't fit, which is made anew.
	if err := replaceFile(base+".key", key, secretFile); err != nil {
		return nil, fmt.Errorf("keep the certificate's key: %w", err)
	}
	if err := replaceFile(base+".crt", cert, publicFile); err != nil {
		return nil, fmt.Errorf("keep the certificate: %w", err)
	}
	made, err := tls.X509KeyPair(cert, key)
	return &made, err
}

// certificateInMemory makes a certificate that is kept nowhere.
func certificateInMemory(hosts []string, now time.Time) (*tls.Certificate, error) {
	cert, key, err := newCertificate(hosts, now)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	made, err := tls.X509KeyPair(cert, key)
	return &made, err
}

// covers reports whether a certificate is good for all hosts.
func covers(cert *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return cert.VerifyHostname(host) != nil })
}

// newCertificate makes a self-signed certificate and its key, in PEM.
func newCertificate(hosts []string, now time.Time) (cert, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	template := x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: hosts[len(hosts)-1], Organization: []string{"changefeed, self-signed"}},
		NotBefore:             now.Add(-clockSlack),
		NotAfter:              now.Add(certificateLife),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	template.Subject.CommonName = template.DNSNames[0]
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, private.Public(), private)
	if err != nil {
		return nil, nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, nil, err
	}
	return pemOf("CERTIFICATE", der), pemOf("PRIVATE KEY", pkcs8), nil
}

func pemOf(kind string, der []byte) []byte {
	var b bytes.Buffer
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // a buffer takes everything
	return b.Bytes()
}

// The modes of a certificate's key, and of the certificate, which clients of other users read.
const (
	secretFile = 0o600
	publicFile = 0o644
)

// replaceFile writes a file with a mode, whole or not at all.
func replaceFile(name string, content []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
