package setup_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/quota"
)

// stage is a Stage that fetches one page, and whose ledger holds units.
type stage struct {
	endpoint string
	held     quota.Units
	err      error // what broke the run
}

func (s *stage) Act(ctx context.Context) error {
	query := url.Values{"part": {"id"}, "chart": {"mostPopular"}, "regionCode": {"US"}, "key": {"k"}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.endpoint+"/youtube/v3/videos?"+query.Encode(), nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	return s.err
}

func (s *stage) ShowStatus(context.Context) error { return nil }

func (s *stage) Held(context.Context) (quota.Units, error) { return s.held, nil }

// TestTheDemoFailsIfItIsWrong: the demo fails if the ledger does not hold what
// the upstream counted, if the small budget stops nothing, and if a page is
// fetched twice.
func TestTheDemoFailsIfItIsWrong(t *testing.T) {
	for want, c := range map[string]struct {
		held  quota.Units
		small error // what breaks the runs of the small budget
		again error // and its second
	}{
		"the upstream counted 1 unit, the ledger holds 2; please report this": {2, nil, nil},
		"the small budget should have stopped the run":                        {1, nil, nil},
		"1 page took 2 calls; please report this": {1,
			&quota.RefusedError{Account: "p", Budget: "six-seconds"}, nil},
	} {
		dir := t.TempDir()
		var said strings.Builder
		d := &setup.Demo{Dir: dir, Say: func(format string, args ...any) { fmt.Fprintf(&said, format+"\n", args...) },
			NewStage: func(folder, endpoint string) setup.Stage {
				for _, name := range []string{"costs.yaml", "regions.yaml"} {
					if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
						t.Error(err)
					}
				}
				if _, err := costs.Load(filepath.Join(folder, "costs.yaml")); err != nil {
					t.Error(err)
				}
				if folder == dir {
					return &stage{endpoint: endpoint, held: c.held}
				}
				return &stopped{stage{endpoint: endpoint}, []error{c.small, c.again}}
			}}
		if err := d.Play(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %q, after\n%s", err, want, &said)
		}
		if boasts := strings.Contains(said.String(), "the ledger holds the same"); boasts != (c.held == 1) {
			t.Errorf("%d units held, and it says\n%s", c.held, &said)
		}
	}
}

// stopped is a stage whose runs break one after the other.
type stopped struct {
	stage
	errs []error
}

func (s *stopped) Act(ctx context.Context) error {
	s.err, s.errs = s.errs[0], s.errs[1:]
	return s.stage.Act(ctx)
}
