package harness

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// starting is the longest time that a server may take to print "ready". stopping is the
// longest time from SIGTERM to the end of its process.
const (
	starting = 30 * time.Second
	stopping = 30 * time.Second
)

// Server is a process of `changefeed serve`. If TLS is set, the store is in a directory,
// which also contains the certificate. Otherwise the store is in memory. Containers
// retain all versions, as in an account with continuous backup, because some of the SDKs'
// samples need that. Start and Stop may be called once each.
type Server struct {
	// Binary is the path of the command. Work is a directory for the store and its
	// certificate.
	Binary, Work string
	// TLS reports whether the server uses TLS, with a self-signed certificate.
	TLS bool
	// Flags are additional flags of `changefeed serve`.
	Flags []string
	// Key and ReadOnlyKey are the account's keys. NewKey creates one.
	Key, ReadOnlyKey string

	// Endpoint is the URL that the server printed. Certificate is the path of its
	// certificate. It is empty without TLS.
	Endpoint, Certificate string
	// Metrics is the URL of the server's metrics, if Flags contain --metrics.
	Metrics string

	cmd    *exec.Cmd
	log    bytes.Buffer
	exited chan error
}

// NewKey returns an account key in the service's form: 64 random bytes in base64.
func NewKey() string {
	secret := make([]byte, 64)
	_, _ = rand.Read(secret) // never fails
	return base64.StdEncoding.EncodeToString(secret)
}

// Start starts the server and returns when it has printed "ready".
func (s *Server) Start(ctx context.Context) error {
	args := []string{"serve", "--listen", "127.0.0.1:0", "--key", s.Key, "--read-only-key", s.ReadOnlyKey, "--keep-versions", "10m", "--allow-origin", "http://localhost:3000"}
	if s.TLS {
		args = append(args, "--tls", "self-signed", "--data", filepath.Join(s.Work, "data"))
	} else {
		args = append(args, "--tls", "off", "--memory")
	}
	args = append(args, s.Flags...)
	// The process outlives ctx, so that Stop can stop it.
	s.cmd = exec.CommandContext(context.WithoutCancel(ctx), s.Binary, args...)
	s.cmd.Stderr = &s.log
	banner, err := s.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	ready := make(chan error, 1)
	var reader sync.WaitGroup
	reader.Go(func() { ready <- s.readBanner(banner) })
	s.exited = make(chan error, 1)
	go func() { // ends with the process; Stop waits for it
		reader.Wait()
		s.exited <- s.cmd.Wait()
	}()
	select {
	case err = <-ready:
	case <-time.After(starting):
		err = fmt.Errorf("not ready after %s", starting)
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	if err != nil {
		return errors.Join(err, s.Stop())
	}
	return nil
}

// readBanner reads the endpoint and the certificate's path from the server's output. It
// returns when the server prints "ready".
func (s *Server) readBanner(banner io.Reader) error {
	for lines := bufio.NewScanner(banner); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), " ")
		switch name {
		case "endpoint":
			s.Endpoint = strings.TrimSpace(value)
		case "certificate":
			s.Certificate = strings.TrimSpace(value)
		case "metrics":
			s.Metrics = strings.TrimSpace(value)
		case "ready":
			if s.Endpoint == "" || s.TLS != (s.Certificate != "") {
				return errors.New("the banner lacks the endpoint or the certificate")
			}
			return nil
		}
	}
	return errors.New("the server ended before it was ready")
}

// Stop stops the server with SIGTERM. If the exit status is not 0, it returns an error
// with the server's log.
func (s *Server) Stop() error {
	if s.cmd.Process.Signal(syscall.SIGTERM) != nil {
		<-s.exited //nolint:errcheck // ProcessState has the same status
		return fmt.Errorf("the server had ended before SIGTERM: %s\n%s", s.cmd.ProcessState, s.log.Bytes())
	}
	select {
	case err := <-s.exited:
		if err != nil {
			return fmt.Errorf("the server: %w\n%s", err, s.log.Bytes())
		}
		return nil
	case <-time.After(stopping):
		late := fmt.Errorf("the server had not ended %s after SIGTERM", stopping)
		return errors.Join(late, s.cmd.Process.Kill(), <-s.exited)
	}
}
