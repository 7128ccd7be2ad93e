package metrics

import "github.com/ration-dev/ration/quota"

// Observe counts a decision that no guard has made.
func (c *Collector) Observe(d quota.Decision) { c.observe(d) }
