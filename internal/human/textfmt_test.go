package human_test

import (
	"math"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

// TestFarInstantsDoNotOverflow: the sum of a far time and its rounding is not
// negative, and what follows the year 9999 can still be read back.
func TestFarInstantsDoNotOverflow(t *testing.T) {
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 291 * 365 * 24 * time.Hour} {
		if got := human.Duration(d); got != "290 years or more" {
			t.Errorf("Duration(%d) = %s", d, got)
		}
	}
	if got := human.Duration(math.MinInt64); got != "0s" {
		t.Errorf("Duration of what is long over: %s", got)
	}
	for _, far := range []time.Time{time.Unix(human.MaxUnix, 1), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC),
		time.Unix(1<<60, 0)} {
		if got := human.Time(far); got != "9999-12-31T23:59:59Z" {
			t.Errorf("Time(%d) = %s", far.Unix(), got)
		}
	}
}

func TestDurationNeverSaysEarlier(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 1: "1ms", 249*time.Millisecond + 1: "250ms", time.Second: "1s",
		11*time.Second + 1:            "12s",
		3*time.Minute + 5*time.Second: "3m5s", time.Hour: "1h", 3*time.Hour + 11*time.Minute + 1: "3h12m",
		24 * time.Hour: "24h",
	} {
		if got := human.Duration(d); got != want {
			t.Errorf("Duration(%d) = %s; want %s", d, got, want)
		}
	}
}

func TestDurationsInHelpHaveNoZeroUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{5 * time.Minute: "5m", 30 * time.Second: "30s", 2 * time.Hour: "2h",
		90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s", 10 * time.Hour: "10h"} {
		if got := human.Exactly(d); got != want {
			t.Errorf("%s is written %s; want %s", d, got, want)
		}
	}
}

// TestNoCharacterIsCut: a text is cut between characters, and says that it was.
func TestNoCharacterIsCut(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "a", 2: "a", 3: "aé", 4: "aéz", 9: "aéz"} {
		if got := human.Cut("aéz", n); got != want {
			t.Errorf("Cut to %d: %q; want %q", n, got, want)
		}
		if want != "aéz" {
			want += "…"
		}
		if got := human.Shorten("aéz", n); got != want {
			t.Errorf("Shorten to %d: %q; want %q", n, got, want)
		}
	}
}
