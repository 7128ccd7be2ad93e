package redisledger

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
)

// ErrFull is the error of a full log.
var ErrFull = errFull

// Patience is how long one decision may take.
const Patience = patience

// OpenPatient is Open of a ledger that waits a minute for each answer: on a
// busy machine a batch would be sent again, and what it then says of refusals
// includes what it granted the first time.
func OpenPatient(url string, o *Options) (*Ledger, error) { return open(url, o, time.Minute) }

// NewPatient is New of such a ledger.
func NewPatient(client redis.UniversalClient) *Ledger { return newLedger(client, nil, time.Minute) }

// MostItems is how many coverages the store keeps of each scope, and OtherLabel
// the number of unknown labels.
const (
	MostItems  = mostItems
	OtherLabel = otherLabel
)

// IsSumming reports whether a Sums that caches records is in progress.
func IsSumming(l *Ledger) bool {
	if !l.sums.mu.TryLock() {
		return true
	}
	l.sums.mu.Unlock()
	return false
}

// SetHost sets the clock of the ledger's host, which is not the server's.
func SetHost(l *Ledger, now func() time.Time) { l.host = now }

// CommonLua is the common beginning of all scripts.
var CommonLua = baseLua

// Scripts are the texts of all scripts, by the name of their main file.
var Scripts = map[string]string{
	"learn": learnScript.text, "spend": spendScript.text, "settle": settleScript.text, "standings": standingsScript.text,
	"entries": entriesScript.text, "restamp": restampScript.text,
	"snapshot": snapshotScript.text, "restore": restoreScript.text,
	"cooldown": cooldownScript.text, "recool": recoolScript.text, "relimit": relimitScript.text,
}

// LogKey returns the key of an account's log.
func LogKey(l *Ledger, account string) string { return l.names(account, "").log }

// Explain returns the text of the error that ends an operation with err.
func Explain(err error) string { return (&Ledger{}).failed(err, classify(err), false).Error() }

// Dial dials as a client of one server does.
func Dial(ctx context.Context, addr string, config *tls.Config) (net.Conn, error) {
	return checkDial(redis.NewDialer(&redis.Options{DialTimeout: dialTimeout, TLSConfig: config}), true)(ctx, "tcp", addr)
}
