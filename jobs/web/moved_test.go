package web_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/ration-dev/ration/quota"
)

// TestMovedAccountOnThePage: of an account that had moved to another ledger,
// the page said that it is in cooldown until 01-01, and had a button that lifts
// that, which was refused. A question said that units return then.
func TestMovedAccountOnThePage(t *testing.T) {
	s := newScene(t, sceneOptions{})
	move := quota.Move{Account: "my-project", Ledger: "redis://there:6379/0", ID: "0123456789ab"}
	if err := s.Ledger().SetCooldown(t.Context(), move.Cooldown()); err != nil {
		t.Fatal(err)
	}
	page := s.fetch("/?" + url.Values{"call": {"videos.list"}}.Encode()).text
	said := "account &#34;my-project&#34; has moved to the ledger redis://there:6379/0; name that one"
	contains(t, page, `<div class="banner bad"><p>`+said, `<strong>It would not pass: `+said)
	for _, wrong := range []string{"is in cooldown", "Lift", "Units return at"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page says %q", wrong)
		}
	}
}
