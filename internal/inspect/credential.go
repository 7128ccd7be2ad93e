package inspect

import (
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/alert"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/human"
)

// CheckAlerts warns of alerts that cannot be sent.
func (c *Checkup) CheckAlerts(table *costs.Table) {
	for _, u := range table.Upstreams() {
		if u.Alert == nil {
			continue
		}
		if err := alert.Check(u.Alert); err != nil {
			c.Add(Warning, "correct alert: in costs.yaml, or the file that it names", "alerts of %s cannot be sent: %s",
				human.Name(u.Account), c.Message(err))
		}
	}
}

// CheckCredentials checks the files with the credentials that the gateway adds
// to requests: that they can be read, and by this user alone.
func (c *Checkup) CheckCredentials(table *costs.Table) {
	for _, u := range table.Upstreams() {
		if u.Credential == nil {
			continue
		}
		if _, err := gateway.ReadCredential(u.Credential); err != nil {
			c.Fail(&client.ConfigError{Err: err})
			continue
		}
		c.Add(OK, "", "credential of %s: %s", human.Name(u.Name), human.Name(u.Credential.String()))
	}
}
