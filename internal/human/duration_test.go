package human_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/human"
)

const day = 24 * time.Hour

func TestDurationsAreReadWithDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "500ms": 500 * time.Millisecond, "30s": 30 * time.Second, "1.5h": 90 * time.Minute,
		"1h30m": 90 * time.Minute,
		"1d":    day, "7d": 7 * day, "1d12h": 36 * time.Hour, "0.5d": 12 * time.Hour, "1d0.5h": day + 30*time.Minute,
		"400d":  400 * day,
		"1d1ns": day + 1, "250us": 250 * time.Microsecond, "250µs": 250 * time.Microsecond, "0d": 0,
	} {
		for name, parse := range map[string]func(string) (time.Duration, error){"Parse": human.ParseDuration,
			"ParseSeconds": human.ParseSeconds} {
			if got, err := parse(text); err != nil || got != want {
				t.Errorf("%s(%q) = %v, %v; want %v", name, text, got, err, want)
			}
		}
	}
}

func TestAPlainNumberIsSecondsWhereSecondsAreMeant(t *testing.T) {
	for text, want := range map[string]time.Duration{"5": 5 * time.Second, "0": 0, "300": 5 * time.Minute,
		"0.5": 500 * time.Millisecond} {
		if got, err := human.ParseSeconds(text); err != nil || got != want {
			t.Errorf("ParseSeconds(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"5", "300", "0.5"} {
		if got, err := human.ParseDuration(text); !errors.Is(err, human.ErrDuration) {
			t.Errorf("Parse(%q) = %v, %v; a number alone has no unit", text, got, err)
		}
	}
}

func TestMalformedDurationsAreRejected(t *testing.T) {
	for _, text := range []string{"", " ", "d", "s", "-1s", "+1s", "-1d", ".5s", "5.", "1.d", "1d-1h", "1d+1h", "1d.5h",
		"1d5", "5m1d", "1h1d", "1d2d", "1D", "1w", "1 d", "1d 1h",
		"1e3s", "1..5d", "1,5d", "1_000s", "0x1s", "Infs", "NaNd", "106752d", "99999999999999d", "106751d24h",
		strings.Repeat("9", 400) + "d"} {
		for name, parse := range map[string]func(string) (time.Duration, error){"Parse": human.ParseDuration,
			"ParseSeconds": human.ParseSeconds} {
			got, err := parse(text)
			if !errors.Is(err, human.ErrDuration) || got != 0 {
				t.Errorf("%s(%q) = %v, %v", name, text, got, err)
			} else if len(err.Error()) > 250 || !strings.Contains(err.Error(), "such as 30") {
				t.Errorf("%s(%q): %v", name, text, err)
			}
		}
	}
	if got, err := human.ParseDuration("106751d"); err != nil || got != 106751*day {
		t.Errorf("the longest whole days: %v, %v", got, err)
	}
}

// TestErrorsOfDurationsSayWhatIsWrong: a duration that is negative or too long
// is called that, and quoted as it was written.
func TestErrorsOfDurationsSayWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{"-1h": "negative, and ", "-1d12h": "negative, and ",
		"-5": "negative, and ",
		"-x": "", "x": "", "1d5": "", "5.": "", "99999999999": "too long, and ", "106752d": "too long, and ",
		"106751d24h": "too long, and "} {
		want = fmt.Sprintf("%q is %snot a duration; ", text, want)
		if _, err := human.ParseSeconds(text); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v; want %s", text, err, want)
		}
	}
	if _, err := human.ParseDuration("5"); err == nil || !strings.HasPrefix(err.Error(), `"5" is not a duration; `) {
		t.Errorf("a number without a unit: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"1d12h", "0.5d", "5", "1h", "106751d23h47m16s", "1d1d"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := human.ParseDuration(text)
		seconds, secondsErr := human.ParseSeconds(text)
		switch {
		case (err == nil) == errors.Is(err, human.ErrDuration) || d < 0 || seconds < 0:
			t.Errorf("%q: %v, %v", text, d, err)
		case err == nil && text != "0" && (secondsErr != nil || seconds != d):
			t.Errorf("%q: %v, but in seconds %v, %v", text, d, seconds, secondsErr)
		}
		if standard, standardErr := time.ParseDuration(text); err == nil && standardErr == nil && standard != d {
			t.Errorf("%q: %v, but %v in the standard library", text, d, standard)
		}
	})
}
