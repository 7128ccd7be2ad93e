package privatefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestUntrustedOwner checks a file as another user who trusts neither us nor
// root. It does not need a second user.
func TestUntrustedOwner(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := newChecker()
	if err != nil {
		t.Fatal(err)
	}
	c.us, c.trusted = c.us+1, []uint32{c.us + 1}
	if err := c.checkPath(path); err != nil {
		t.Fatal(err)
	}
	err = c.err()
	if err == nil || !strings.Contains(err.Error(), path+": it belongs to user ") || !strings.Contains(err.Error(), TrustVariable+"=") {
		t.Errorf("%v; want the file's owner named", err)
	}
}

func TestOwnGroup(t *testing.T) {
	for o, want := range map[owner]bool{
		{uid: 54321, gid: 54321}: true,
		{uid: 54321, gid: 54322}: false,
		{uid: 0, gid: 0}:         false, // containers give it to arbitrary users
	} {
		if got := ownGroup(o); got != want && hasOwners {
			t.Errorf("group %d of user %d: %t", o.gid, o.uid, got)
		}
	}
}
