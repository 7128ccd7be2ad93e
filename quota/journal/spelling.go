package journal

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/privatefile"
)

// A ledger refuses an account that looks like one that it has. While it is
// down, the journal does so, by the file HASH.account: it holds the name of
// which the ledger last granted a call, and HASH is of what look-alikes share.

// maxName is the most bytes that are read of it.
const maxName = 4 << 10

func (l *Ledger) spellingPath(account string) string {
	sum := sha256.Sum256([]byte(l.ledger + "\x00" + decide.Fold(account)))
	return filepath.Join(l.dir, hex.EncodeToString(sum[:12])+".account")
}

// keepSpelling writes the name of an account of which the ledger has granted a
// call, once in a process. It is best effort.
func (l *Ledger) keepSpelling(account string) {
	if l.dir == "" {
		return
	}
	path := l.spellingPath(account)
	if known, err := privatefile.ReadFile(path, maxName); err != nil || string(known) != account {
		_ = privatefile.Replace(path, []byte(account), false)
	}
}

// checkSpelling returns a *quota.LookAlikeError if the ledger has granted calls
// of an account that looks like this one.
func (l *Ledger) checkSpelling(account string) error {
	if l.dir == "" {
		return nil
	}
	known, err := privatefile.ReadFile(l.spellingPath(account), maxName)
	if err != nil {
		return nil // it was granted none, or a new journal
	}
	return quota.CheckLookAlike(account, string(known))
}
