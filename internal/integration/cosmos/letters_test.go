package cosmos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/letters/letterstest"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestLettersConform(t *testing.T) { letterstest.RunInBubble(t, newLettersFixture) }

// newLettersFixture returns a letters container of two partitions on a new server.
func newLettersFixture(t *testing.T) letterstest.Fixture {
	s := changefeedtest.NewServer(t)
	a := account(t, s, cosmos.Options{})
	c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "letters", KeyPaths: []string{letters.KeyPath}, Partitions: 2})
	others := 0
	return letterstest.Fixture{
		Container: a.Letters("db", "letters", cosmos.LetterOptions{}),
		Documents: func(ctx context.Context) (n int, err error) {
			stats, err := c.PartitionStats(ctx)
			for _, p := range stats {
				n += int(p.Items)
			}
			return n, err
		},
		Remove: func(ctx context.Context, pk, id string) error {
			_, err := c.Delete(ctx, feed.PartitionKey{pk}, id, storetype.WriteOptions{})
			return err
		},
		Split: func(ctx context.Context) error {
			_, err := c.Split(ctx, "0", "")
			return err
		},
		With: func(paths []string, ttl int) letters.Container {
			others++
			id := fmt.Sprint("other", others)
			changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: id, KeyPaths: paths, DefaultTTL: ttl})
			return a.Letters("db", id, cosmos.LetterOptions{})
		},
	}
}

// lettersServer returns a server with an empty letters container, and an account whose requests
// pass through see.
func lettersServer(t *testing.T, see func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)) (*changefeedtest.Server, *cosmos.Account) {
	t.Helper()
	s := changefeedtest.NewServer(t)
	changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "letters", KeyPaths: []string{letters.KeyPath}, Partitions: 2})
	return s, account(t, s, cosmos.Options{ClientOptions: azcore.ClientOptions{Transport: through{s.Client(), see}}})
}

// through is a transport that passes each request to see.
type through struct {
	client *http.Client
	see    func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error)
}

func (t through) Do(r *http.Request) (*http.Response, error) {
	return t.see(r, func() (*http.Response, error) { return t.client.Do(r) })
}

var lettersKey = letters.Key{Processor: "mailer", Source: feed.ContainerID{Account: "shop", RID: "r"}}

func newLetter(customer string, lsn int64) letters.Letter {
	return letters.Letter{
		PartitionKey: feed.PartitionKey{customer}, Hash: "01", ItemID: "1", LSN: lsn, Operation: feed.Delete, State: letters.Dead,
	}
}

// A new owner must read every letter that the one before it has written, in whichever partition
// and from whichever replica.
func TestLettersAreReadInTheSessionOfThePut(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *changefeedtest.Server) {
		var sent string
		_, a := lettersServer(t, func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			sent = r.Header.Get(wire.HeaderSessionToken)
			return send()
		})
		ctx, container := t.Context(), a.Letters("db", "letters", cosmos.LetterOptions{})
		first, err := container.Open(ctx, lettersKey)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if err := first.Put(ctx, newLetter(fmt.Sprint(i), 1)); err != nil {
				t.Fatal(err)
			}
		}
		session := first.Session("")
		second, err := container.Open(ctx, lettersKey)
		if err != nil {
			t.Fatal(err)
		}
		second.Session(session)
		for _, err := range second.Read(ctx, letters.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, partition := range []string{"0", "1"} {
			put, known := wire.SessionLSN(session, partition)
			read, _ := wire.SessionLSN(sent, partition)
			if !known || put == 0 || read < put {
				t.Errorf("partition %s: the session of the puts is %q, and the read was sent with %q", partition, session, sent)
			}
		}
		third, err := container.Open(ctx, lettersKey)
		if err != nil {
			t.Fatal(err)
		}
		err = third.Put(ctx, newLetter("0", 1)) // the service refuses it, because the letter exists
		if err != nil || third.Session("") == "" {
			t.Errorf("the session of a put that found the letter is %q (%v)", third.Session(""), err)
		}
	})
}

func TestLettersNeedSessionConsistency(t *testing.T) {
	for level, refused := range map[string]bool{"Strong": false, "BoundedStaleness": false, "Session": false, "ConsistentPrefix": true, "Eventual": true} {
		inBubble(t, func(t *testing.T, _ *changefeedtest.Server) {
			_, a := lettersServer(t, func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
				response, err := send()
				if err != nil || r.URL.Path != "/" {
					return response, err
				}
				body, err := io.ReadAll(response.Body)
				body = bytes.ReplaceAll(body, []byte(`"defaultConsistencyLevel":"Session"`), fmt.Appendf(nil, `"defaultConsistencyLevel":%q`, level))
				response.Body, response.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
				return response, err
			})
			_, err := a.Letters("db", "letters", cosmos.LetterOptions{}).Open(t.Context(), lettersKey)
			var named *letters.ContainerError
			if errors.As(err, &named) != refused {
				t.Errorf("with %s consistency: %v", level, err)
			}
			if refused {
				wantWords(t, err, level, "session consistency")
			}
		})
	}
}

func TestMissingLettersContainerIsCreatedOnlyOnRequest(t *testing.T) {
	inBubble(t, func(t *testing.T, s *changefeedtest.Server) {
		a, ctx := account(t, s, cosmos.Options{}), t.Context()
		if _, err := s.DB.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db"}); err != nil {
			t.Fatal(err)
		}
		_, err := a.Letters("db", "letters", cosmos.LetterOptions{}).Open(ctx, lettersKey)
		wantWords(t, err, "no container letters", "partitioned by /pk", "LetterOptions.Create")
		opened, err := a.Letters("db", "letters", cosmos.LetterOptions{Create: true, Throughput: 500}).Open(ctx, lettersKey)
		if err != nil {
			t.Fatal(err)
		}
		if err := opened.Put(ctx, newLetter("ada", 1)); err != nil {
			t.Fatal(err)
		}
		c, err := s.DB.Container(ctx, "db", "letters")
		if err != nil {
			t.Fatal(err)
		}
		p, err := c.Properties(ctx)
		if err != nil || fmt.Sprint(p.KeyPaths) != "[/pk]" || p.DefaultTTL != 0 || !bytes.Contains(p.Extra, []byte("/hash/?")) {
			t.Errorf("the container has the properties %+v (%v)", p, err)
		}
		if _, err := a.Letters("db", "letters", cosmos.LetterOptions{Create: true}).Open(ctx, lettersKey); err != nil {
			t.Errorf("opened again: %v", err)
		}
		if err := s.DB.DeleteContainer(ctx, "db", "letters"); err != nil {
			t.Fatal(err)
		}
		if err := opened.Put(ctx, newLetter("ada", 2)); err == nil || errors.Is(err, feed.ErrNotFound) {
			t.Errorf("put into a deleted container: %v; want an error that is no feed.ErrNotFound", err)
		}
		if err := opened.Delete(ctx, letters.Letter{ID: "1", Group: "1"}); err == nil {
			t.Error("a letter in a deleted container counts as deleted")
		}
	})
}

// A put, a delete and a read may be repeated after any error.
func TestLettersSurviveFaults(t *testing.T) {
	inBubble(t, func(t *testing.T, _ *changefeedtest.Server) {
		n := 0
		_, a := lettersServer(t, func(r *http.Request, send func() (*http.Response, error)) (*http.Response, error) {
			if n++; n%3 == 0 && strings.Contains(r.URL.Path, "/docs") {
				if response, err := send(); err == nil {
					_ = response.Body.Close()
				}
				return nil, errors.New("the answer is lost")
			}
			return send()
		})
		ctx := t.Context()
		insist := func(what string, do func() error) {
			t.Helper()
			var err error
			for range 10 {
				if err = do(); err == nil {
					return
				}
			}
			t.Fatalf("%s: %v", what, err)
		}
		var s letters.Store
		insist("open", func() (err error) {
			s, err = a.Letters("db", "letters", cosmos.LetterOptions{}).Open(ctx, lettersKey)
			return err
		})
		for i := range int64(20) {
			insist("put", func() error { return s.Put(ctx, newLetter("ada", i+1)) })
		}
		var all []letters.Letter
		read := func() error {
			all = nil
			for l, err := range s.Read(ctx, letters.Query{}) {
				if err != nil {
					return err
				}
				all = append(all, l)
			}
			return nil
		}
		insist("read", read)
		if len(all) != 20 {
			t.Fatalf("%d letters were put; want 20", len(all))
		}
		for _, l := range all {
			insist("delete", func() error { return s.Delete(ctx, l) })
		}
		insist("read", read)
		if len(all) != 0 {
			t.Errorf("%d letters are left", len(all))
		}
	})
}
