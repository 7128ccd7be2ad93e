package sqlitestore_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"time"

	"github.com/ration-dev/ration/quota/inbound"
	"github.com/ration-dev/ration/quota/inbound/sqlitestore"
)

// All processes of this host that open the file share the limit.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "inbound")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := sqlitestore.Open(filepath.Join(folder, "inbound.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	limiter, err := inbound.New(store, []inbound.Limit{{Calls: 1, Per: time.Hour}}, nil)
	if err != nil {
		log.Fatal(err)
	}
	handler := limiter.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for range 2 {
		answer := httptest.NewRecorder()
		handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/search", nil))
		fmt.Println(answer.Code)
	}
	// Output:
	// 200
	// 429
}
