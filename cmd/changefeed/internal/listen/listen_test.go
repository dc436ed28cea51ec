package listen_test

import (
	"errors"
	"net"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/listen"
	"github.com/changefeed-go/changefeed/internal/memnet"
)

func TestConnectionsBeyondTheNumberWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network memnet.Network
		inner, err := network.Listen("a:1")
		if err != nil {
			t.Fatal(err)
		}
		l := listen.AtMost(inner, 2)
		accepted, ended := make(chan net.Conn, 9), make(chan error, 1)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}()
		for range 3 {
			go func() {
				if c, err := network.Dial(t.Context(), "tcp", "a:1"); err == nil {
					t.Cleanup(func() { _ = c.Close() })
				}
			}()
		}
		synctest.Wait()
		if n := len(accepted); n != 2 {
			t.Errorf("%d connections are open", n)
		}
		first := <-accepted
		for range 2 { // the second Close does nothing
			_ = first.Close()
		}
		synctest.Wait()
		if n := len(accepted); n != 2 {
			t.Errorf("%d connections are open after one was closed", n)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("an Accept that waits ends with %v", err)
		}
		for range 2 {
			_ = (<-accepted).Close()
		}
	})
}
