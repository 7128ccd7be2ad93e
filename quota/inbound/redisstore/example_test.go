package redisstore_test

import (
	"log"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/inbound/redisstore"
)

// All servers with this Redis share the limit.
func ExampleOpen() {
	store, err := redisstore.Open("redis://localhost:6379/0")
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := inbound.New(store, []inbound.Limit{{Calls: 60, Per: time.Minute}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/search", limiter.Handler(http.NotFoundHandler()))
}

// A Redis behind Sentinel. The limit is two integers for each client.
func ExampleNew() {
	store := redisstore.New(redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: "main", SentinelAddrs: []string{"sentinel-1:26379", "sentinel-2:26379"},
		ContextTimeoutEnabled: true,
	}))
	defer store.Close()
	limiter, err := inbound.New(store, []inbound.Limit{{Calls: 100_000, Per: 24 * time.Hour, Estimate: true}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/search", limiter.Handler(http.NotFoundHandler()))
}
