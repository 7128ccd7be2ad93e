package redisledger_test

import (
	"os"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestLuaHasOtherConstants: the scripts repeat constants of Go.
func TestLuaHasOtherConstants(t *testing.T) {
	micros := func(d time.Duration) int64 { return d.Microseconds() }
	for file, constants := range map[string]map[string]int64{
		"layout":   {"SLACK": micros(quota.MaxStepBack), "LEAD": micros(quota.MaxClockLead), "REMEMBERED": decide.ClientMemory / 1000},
		"limits":   {"HOLD": micros(quota.LimitHold), "RECORD": micros(quota.LimitRecord), "MOST": decide.MaxAskedLimits},
		"refusals": {"NOTE": int64(quota.EntryNote)},
		"learn":    {"MOST": redisledger.MostItems, "OTHER": redisledger.OtherLabel, "HISTORY": micros(quota.MaxHistory)},
	} {
		text, err := os.ReadFile("lua/" + file + ".lua")
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range constants {
			if got := constant(t, string(text), name); got != want {
				t.Errorf("%s.lua: %s is %d; want %d", file, name, got, want)
			}
		}
	}
}

// constant returns the value of a name in a local statement of Lua.
func constant(t *testing.T, text, name string) int64 {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^local ([A-Z, ]+) = ([0-9, ]+)`).FindAllStringSubmatch(text, -1) {
		names, values := regexp.MustCompile(`[A-Z]+`).FindAllString(m[1], -1), regexp.MustCompile(`[0-9]+`).FindAllString(m[2], -1)
		for i := range min(len(names), len(values)) {
			if names[i] != name {
				continue
			}
			n, err := strconv.ParseInt(values[i], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("no constant %s", name)
	return 0
}
