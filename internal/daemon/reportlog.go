package daemon

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/quota"
)

// reportLog logs what the client of one configuration reports. It is safe for
// concurrent use.
type reportLog struct {
	service *service

	mu     sync.Mutex
	log    *slog.Logger   // nil until opened
	client *client.Client // likewise
	told   time.Time      // when the outage began that was logged last
}

// opened is called once the configuration is loaded. What its client reports
// before that is logged without the secrets known by then.
func (r *reportLog) opened(log *slog.Logger, c *client.Client) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log, r.client = log, c
}

func (r *reportLog) logger() *slog.Logger {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		return r.service.Logger()
	}
	return r.log
}

func (r *reportLog) report(call quota.Call, err error) {
	log := r.logger()
	outage, ok := errors.AsType[*client.OutageError](err)
	switch {
	case ok:
		r.reportOutage(log, outage)
	case is[*quota.MovedError](err):
		log.Error("account moved", "reason", err.Error())
	case is[*client.RestoredError](err):
		log.Warn("ledger restored", "reason", err.Error())
	case is[*client.ReplicaError](err):
		log.Warn("replica failing", "reason", err.Error())
	case setup.Disagrees(err):
		log.Warn("the upstream disagrees with costs.yaml", "method", call.Method, "reason", err.Error())
	default:
		log.Warn("a call stays charged", "method", call.Method, "reason", err.Error())
	}
}

// reportOutage logs an outage when it begins and when it ends.
func (r *reportLog) reportOutage(log *slog.Logger, outage *client.OutageError) {
	message, told := "ledger back", false
	r.mu.Lock()
	if outage.Down {
		message, told = "ledger down", r.told.Equal(outage.Since)
		r.told = outage.Since
	}
	c := r.client
	r.mu.Unlock()
	if told {
		return
	}
	text := outage.Error()
	if c != nil {
		text = c.DescribeOutage(outage)
	}
	log.Warn(message, "reason", text)
	r.service.systemd.notify("STATUS=" + text)
}

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
