package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestThePageSaysThatAnAccountHasMoved: of an account that has moved to another
// ledger, the page says that, with no button to lift a cooldown, and a question
// has the same answer.
func TestThePageSaysThatAnAccountHasMoved(t *testing.T) {
	ledger := memledger.Open(nil)
	s := newScene(t, sceneOptions{opened: ledger})
	move := quota.MovedError{Account: "my-project", Ledger: "redis://there:6379/0"}
	if err := testledger.CloseAccount(t.Context(), ledger, move); err != nil {
		t.Fatal(err)
	}
	page := s.fetch("/?" + url.Values{"call": {"videos.list"}}.Encode()).text
	said := "account &#34;my-project&#34; has moved to the ledger redis://there:6379/0; name that one"
	contains(t, page, `<div id="state"><p class="banner bad" role="alert"><strong>`+said,
		`<strong>It would not pass: `+said)
	for _, wrong := range []string{"is in cooldown", "Lift", "Units return at"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page says %q", wrong)
		}
	}
}
