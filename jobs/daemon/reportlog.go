package daemon

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs/setup"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
)

// reportLog logs what the client of one configuration reports. It is safe for
// concurrent use.
type reportLog struct {
	service *service
	log     *slog.Logger
	client  *client.Client

	mu   sync.Mutex
	told time.Time // when the outage began that was logged last
}

func (r *reportLog) report(call quota.Call, err error) {
	outage, ok := errors.AsType[*client.OutageError](err)
	switch {
	case ok:
		r.reportOutage(outage)
	case is[*journal.RestoredError](err):
		r.log.Warn("ledger restored", "reason", err.Error())
	case is[*journal.UnwrittenError](err):
		r.log.Warn("journal not written", "reason", err.Error())
	case is[*quota.ClockError](err):
		r.log.Warn("the clock of this host is wrong", "reason", err.Error())
	case setup.Disagrees(err):
		r.log.Warn("the upstream disagrees with costs.yaml", "method", call.Method, "reason", err.Error())
	default:
		r.log.Warn("a call stays charged", "method", call.Method, "reason", err.Error())
	}
}

// reportOutage logs an outage when it begins and when it ends.
func (r *reportLog) reportOutage(outage *client.OutageError) {
	message := "ledger back"
	if outage.Down {
		message = "ledger down"
		r.mu.Lock()
		told := r.told.Equal(outage.Since)
		r.told = outage.Since
		r.mu.Unlock()
		if told {
			return
		}
	}
	text := r.client.DescribeOutage(outage)
	r.log.Warn(message, "reason", text)
	r.service.systemd.notify("STATUS=" + text)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
