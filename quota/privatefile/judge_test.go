package privatefile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStrangersFile is about a file of another user, as every user can test
// it: the judge works for a stranger who does not trust root.
func TestStrangersFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs.yaml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := newJudge()
	if err != nil {
		t.Fatal(err)
	}
	j.us, j.trusted = j.us+1, []uint32{j.us + 1}
	if err := j.path(path); err != nil {
		t.Fatal(err)
	}
	err = j.verdict()
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
