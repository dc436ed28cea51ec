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

// A self-signed certificate is created once and used again, so that clients need to trust
// it only once. It is not an authority: a client that trusts it trusts only this server.
// Somebody who steals its key cannot impersonate any other server.
const (
	// certificateLife is less than 398 days, the maximum that some platforms accept.
	certificateLife = 397 * 24 * time.Hour
	// renewBefore is the time before its end at which the certificate is replaced.
	renewBefore = 30 * 24 * time.Hour
	// clockSlack is the maximum time by which a client's clock may be late.
	clockSlack = time.Hour
)

// identity is the server's certificate, with its key.
type identity struct {
	// path is the certificate's PEM file, for clients. It is empty if the user gave the
	// certificate, or if it is only in memory.
	path string
	// unkept is the error because of which the certificate is only in memory. It is nil
	// if there was none.
	unkept error
	// make creates or loads the certificate. It is nil if the user gave the certificate.
	make func(now time.Time) (*tls.Certificate, error)

	mu      sync.Mutex // guards current
	current *tls.Certificate
}

// identity loads the certificate that the flags name, or creates one.
func (c Config) identity() (*identity, error) {
	if cert, key, pair := strings.Cut(c.TLS, ","); pair {
		loaded, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, refuse("--tls %s is invalid: %v", c.TLS, err)
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
	// A server without data needs no directory, so the certificate stays in memory.
	id := &identity{unkept: err, make: func(now time.Time) (*tls.Certificate, error) { return certificateInMemory(hosts, now) }}
	_, err = id.get(time.Now())
	return id, err
}

// keptIdentity loads a certificate for hosts from the directory dir, or creates one
// there.
func keptIdentity(dir string, hosts []string) (*identity, error) {
	// The path must be absolute, because users paste it elsewhere.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("find the certificate's directory: %w", err)
	}
	// The file name depends on the host names, so that servers with different names do
	// not replace each other's certificates.
	base := filepath.Join(dir, "localhost")
	if more := hosts[len(localHosts):]; len(more) > 0 {
		base = filepath.Join(dir, strings.ReplaceAll(strings.Join(more, "+"), ":", "_"))
	}
	id := &identity{path: base + ".crt"}
	id.make = func(now time.Time) (*tls.Certificate, error) { return certificateIn(base, hosts, now) }
	_, err = id.get(time.Now())
	return id, err
}

// localHosts are the names of the local machine.
var localHosts = []string{"localhost", "127.0.0.1", "::1"}

// hosts returns the names by which clients reach the server. The certificate is valid for
// them. The names of the local machine come first.
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

// listener returns a listener that uses TLS on the connections of l.
func (id *identity) listener(l net.Listener) net.Listener {
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return id.get(time.Now())
		},
	})
}

// get returns the certificate. If the server has created it, get renews it before it
// expires.
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

// certificateIn loads the certificate base.crt and its key base.key. It creates both if
// they are missing, about to expire, or for other names.
func certificateIn(base string, hosts []string, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(base+".crt", base+".key")
	if err == nil && covers(pair.Leaf, hosts) && now.Before(pair.Leaf.NotAfter.Add(-renewBefore)) && !now.Before(pair.Leaf.NotBefore) {
		_ = os.Chmod(base+".crt", publicFile) // if the file belongs to another user, its mode stays
		return &pair, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && errors.Is(err, fs.ErrPermission) {
		return nil, fmt.Errorf("read the certificate: %w", err)
	}
	cert, key, err := newCertificate(hosts, now)
	if err != nil {
		return nil, fmt.Errorf("create the certificate: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return nil, fmt.Errorf("write the certificate: %w", err)
	}
	// The key is written first. A crash between the two writes leaves a pair that does
	// not match, which is replaced.
	if err := replaceFile(base+".key", key, secretFile); err != nil {
		return nil, fmt.Errorf("write the certificate's key: %w", err)
	}
	if err := replaceFile(base+".crt", cert, publicFile); err != nil {
		return nil, fmt.Errorf("write the certificate: %w", err)
	}
	made, err := tls.X509KeyPair(cert, key)
	return &made, err
}

// certificateInMemory creates a certificate that is not stored.
func certificateInMemory(hosts []string, now time.Time) (*tls.Certificate, error) {
	cert, key, err := newCertificate(hosts, now)
	if err != nil {
		return nil, fmt.Errorf("create the certificate: %w", err)
	}
	made, err := tls.X509KeyPair(cert, key)
	return &made, err
}

// covers reports whether a certificate is valid for all hosts.
func covers(cert *x509.Certificate, hosts []string) bool {
	return !slices.ContainsFunc(hosts, func(host string) bool { return cert.VerifyHostname(host) != nil })
}

// newCertificate creates a self-signed certificate and its key, in PEM.
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
	_ = pem.Encode(&b, &pem.Block{Type: kind, Bytes: der}) // a buffer accepts every write
	return b.Bytes()
}

// secretFile is the file mode of a certificate's key. publicFile is the mode of
// the certificate, which clients of other users read.
const (
	secretFile = 0o600
	publicFile = 0o644
)

// replaceFile replaces the content of a file atomically.
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
