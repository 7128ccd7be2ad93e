package report

import (
	"strings"

	"github.com/ration-dev/ration/quota"
)

// WithoutPackage returns the text of an error without the package's name in
// front of the errors of package quota, for readers who do not write Go.
func WithoutPackage(text string) string { return withoutPackage.Replace(text) }

// withoutPackage is made once, since a logger asks it for each attribute.
var withoutPackage = func() *strings.Replacer {
	var pairs []string
	for _, err := range []error{
		quota.ErrRefused, quota.ErrNeverFits, quota.ErrInDoubt, quota.ErrLedgerDown, quota.ErrLedgerBusy,
		quota.ErrLedgerClosed, quota.ErrLedgerConfig,
		quota.ErrLedgerLost, quota.ErrUnguarded, quota.ErrPaid, quota.ErrRedirect, quota.ErrGuardedTwice,
		quota.ErrBadCall, quota.ErrCorrecting,
		quota.ErrBadToken, quota.ErrClaimed, quota.ErrClaimLost, quota.ErrReused,
	} {
		pairs = append(pairs, err.Error(), strings.TrimPrefix(err.Error(), "quota: "))
	}
	return strings.NewReplacer(pairs...)
}()
