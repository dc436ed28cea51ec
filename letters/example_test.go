package letters_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// A store has the letters of one processor. Those of one key are in the order of its changes,
// whatever the order in which they were put.
func Example() {
	ctx := context.Background()
	container := memory.NewLetters() // or that of store.DB.Letters or cosmos.Account.Letters
	mailer, err := container.Open(ctx, letters.Key{Processor: "mailer", Source: feed.ContainerID{Account: "shop", RID: "O7RwAKylJbY="}})
	if err != nil {
		log.Fatal(err)
	}
	for _, lsn := range []int64{12, 7} {
		err := mailer.Put(ctx, letters.Letter{
			PartitionKey: feed.PartitionKey{"ada"}, Hash: "0AB1", ItemID: "1", LSN: lsn, Time: time.Now(),
			Current: json.RawMessage(`{"id":"1","customer":"ada"}`), State: letters.Dead, Error: "no such address", Attempts: 3,
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	for l, err := range mailer.Read(ctx, letters.Query{Range: feed.Range{Min: "0A", Max: "0B"}}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(l.State, l.PartitionKey, l.ItemID, l.LSN, l.Error)
	}
	// Output:
	// dead ["ada"] 1 7 no such address
	// dead ["ada"] 1 12 no such address
}
