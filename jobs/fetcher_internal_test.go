package jobs

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestARedirectIsNoConfigMistake: a redirect to an unguarded host used to
// end a run as a mistake in costs.yaml, with the advice to give the key to
// that host.
func TestARedirectIsNoConfigMistake(t *testing.T) {
	web := httptest.NewServer(http.RedirectHandler("https://elsewhere.example/", http.StatusFound))
	defer web.Close()
	price := guardedOnly(func(req *http.Request) (quota.Call, error) {
		if "http://"+req.URL.Host != web.URL {
			return quota.Call{}, quota.ErrUnguarded
		}
		return quota.Call{Account: "p", Method: "m", Units: 1}, nil
	})
	guard, err := quota.NewGuard(memledger.Open(nil),
		[]quota.Budget{{Account: "p", Name: "b", Limit: 9, Window: quota.Sliding(time.Hour)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	caller := &http.Client{Transport: &quota.Transport{Guard: guard, Price: price}}
	_, err = caller.Get(web.URL)
	if _, mistake := errors.AsType[*client.ConfigError](err); !errors.Is(err, quota.ErrRedirect) || mistake {
		t.Errorf("a redirect: %v; want ErrRedirect", err)
	}
	_, err = caller.Get("http://elsewhere.example/")
	if _, mistake := errors.AsType[*client.ConfigError](err); !mistake {
		t.Errorf("a call of our own: %v; want a ConfigError", err)
	}
}
