package decide

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// CheckClock returns a *quota.ClockError if the ledger's clock, which shows
// now, is too far ahead of both the caller's and the newest stamp of the log, 0
// for none. A caller that is zero has no clock.
func CheckClock(account, key string, caller time.Time, now, newest int64) error {
	const lead = int64(quota.MaxClockLead / time.Microsecond)
	if caller.IsZero() || now-caller.UnixMicro() <= lead || now-newest <= lead {
		return nil
	}
	e := &quota.ClockError{Account: account, Key: key, Ledger: Time(now), Caller: caller}
	if newest > 0 {
		e.Newest = Time(newest)
	}
	return e
}
