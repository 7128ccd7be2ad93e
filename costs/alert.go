package costs

import (
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/strictyaml"
	"github.com/ration-dev/ration/quota"
)

// Alert says where alerts about an account are sent, and which. Exactly one of
// Webhook, WebhookFile and Command is set.
type Alert struct {
	Webhook     string        // a URL, which may itself be a secret
	WebhookFile string        // holds the URL and nothing else; an absolute path after Load
	Command     []string      // a program and its arguments; a relative path is that from the folder of costs.yaml
	On          []string      // of AlertKinds
	Levels      []quota.Units // percent of a limit, lowest first
	Repeat      time.Duration // how soon an alert that is still true may be sent again
}

// The kinds of alerts.
const (
	AlertRefused    = "refused"    // a budget refuses calls, and when it does not any more
	AlertLevel      = "level"      // a budget has used a part of its limit
	AlertExhaustion = "exhaustion" // at its pace or by the schedule, a budget will be used up within its window
	AlertCooldown   = "cooldown"   // a cooldown of some minutes is in force
	AlertLedger     = "ledger"     // the ledger is down, or has forgotten
	AlertDrift      = "drift"      // an upstream's answer contradicts costs.yaml
	AlertCredential = "credential" // an upstream rejects a key
)

// AlertKinds returns the kinds of alerts.
func AlertKinds() []string {
	return []string{AlertRefused, AlertLevel, AlertExhaustion, AlertCooldown, AlertLedger, AlertDrift, AlertCredential}
}

// String describes the alert, with no more of the URL than its host.
func (a *Alert) String() string {
	to := "file " + a.WebhookFile
	switch {
	case a.Webhook != "":
		to = "webhook"
		if u, err := url.Parse(a.Webhook); err == nil {
			to += " of " + u.Hostname()
		}
	case len(a.Command) > 0:
		to = "command " + a.Command[0]
	}
	var levels []string
	for _, level := range a.Levels {
		levels = append(levels, fmt.Sprintf("%d %%", level))
	}
	return fmt.Sprintf("%s on %s, levels %s, again after %s", to, strings.Join(a.On, ", "), strings.Join(levels, ", "),
		human.Exactly(a.Repeat))
}

func (d *document) readAlert(n strictyaml.Node) {
	a := Alert{On: AlertKinds(), Levels: []quota.Units{80, 95}, Repeat: 24 * time.Hour}
	before := n.Mistakes()
	n.Fields([]strictyaml.Field{
		{Key: "webhook", Read: func(n strictyaml.Node) {
			a.Webhook = n.Text(anything)
			if err := CheckWebhook(a.Webhook); a.Webhook != "" && err != nil {
				n.Mistake("webhook: %v: write https://hooks.example.com/path", err)
			}
		}},
		{Key: "webhook_file", Read: func(n strictyaml.Node) { a.WebhookFile = d.readSecretFile(n) }},
		{Key: "command", Read: func(n strictyaml.Node) { a.Command = d.readProgram(n) }},
		{Key: "on", Read: func(n strictyaml.Node) {
			a.On = nil
			n.Items(func(n strictyaml.Node) { a.On = append(a.On, n.OneOf("alert", AlertKinds())) })
			if len(a.On) == 0 {
				n.Mistake("an empty list: write some of %s, or remove the key for all",
					strings.Join(AlertKinds(), ", "))
			}
		}},
		{Key: "levels", Read: func(n strictyaml.Node) {
			a.Levels = nil
			n.Items(func(n strictyaml.Node) { a.Levels = append(a.Levels, quota.Units(n.Int(1, 100))) })
			slices.Sort(a.Levels)
			a.Levels = slices.Compact(a.Levels)
			if len(a.Levels) == 0 {
				n.Mistake("an empty list: write percentages, such as [80, 95]")
			}
		}},
		{Key: "repeat", Read: func(n strictyaml.Node) { a.Repeat = n.Duration(10*time.Minute, 30*24*time.Hour) }},
	}...)
	if n.Mistakes() > before {
		return
	}
	ways := 0
	for _, set := range []bool{a.Webhook != "", a.WebhookFile != "", len(a.Command) > 0} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		n.Mistake("an alert goes one way: write one of webhook, webhook_file and command")
		return
	}
	d.Alert = &a
}

// CheckWebhook returns an error, which does not show the address, if it cannot
// be that of a webhook.
func CheckWebhook(address string) error {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || !isWeb(u):
		return fmt.Errorf("not the URL of a web server")
	case u.User != nil:
		return fmt.Errorf("a URL with a user name or password")
	}
	return nil
}

// readProgram reads a program and its arguments. A program alone needs no list.
func (d *document) readProgram(n strictyaml.Node) (command []string) {
	read := func(n strictyaml.Node) { command = append(command, n.Text(anything)) }
	if n.Kind() == strictyaml.Text {
		read(n)
		if words := strings.Fields(command[0]); len(words) > 1 {
			n.Mistake("command is a line, and no shell splits it: write a list, %s", strictyaml.FlowList(words))
		}
	} else {
		n.Items(read)
	}
	switch {
	case len(command) > 0:
		if strings.ContainsRune(command[0], '/') && !filepath.IsAbs(command[0]) {
			command[0] = filepath.Join(d.dir, command[0])
		}
	case n.Kind() == strictyaml.List:
		n.Mistake("no program: write [./page.sh]")
	}
	return command
}
