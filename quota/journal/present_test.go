package journal

import (
	"errors"
	"io/fs"
	"os"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestFileThatIsADayAhead: a file that a clock ahead by a day has begun is
// appended to, also just before an hour ends, and one that is further ahead
// once its time is near.
func TestFileThatIsADayAhead(t *testing.T) {
	begin := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for _, ahead := range []time.Duration{0, time.Hour, 24 * time.Hour, 30 * time.Hour} {
		now := begin.Add(ahead)
		f := newFiles(t.TempDir(), "l", "a", time.Hour, func() time.Time { return now })
		if err := f.append(false, record{kind: givenUp}); err != nil {
			t.Fatal(err)
		}
		for _, after := range []time.Duration{0, -20 * time.Millisecond, 0, 6 * time.Hour} {
			now = begin.Add(after)
			want := f.hourOf(begin)
			if ahead <= 24*time.Hour || after > 0 {
				want = f.hourOf(begin.Add(max(ahead, after)))
			}
			if err := f.append(false, record{kind: givenUp}); err != nil {
				t.Fatal(err)
			}
			if f.hour != want {
				t.Errorf("begun %s ahead: appended at %s to the file of hour %+d; want %+d", ahead, after, f.hour-f.hourOf(begin), want-f.hourOf(begin))
			}
		}
	}
}

// TestRestampOfARestoration: a call of an outage was restored while the log's
// clock was ahead, and is in a file between the clock's hour and the latest.
func TestRestampOfARestoration(t *testing.T) {
	begin := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	now := begin.Add(time.Hour)
	f := newFiles(t.TempDir(), "l", "a", time.Hour, func() time.Time { return now })
	id, at := quota.ID{Client: 1, Seq: 1}, begin.UnixMicro()
	err := f.append(false, record{kind: owed, at: at, id: id, units: 1, calls: 1, method: "m"},
		record{kind: dated, at: at, calls: quota.Units((90 * time.Minute).Microseconds()), id: id})
	now = begin.Add(2 * time.Hour)
	err = errors.Join(err, f.append(false, record{kind: givenUp, at: 1}))
	now = begin.Add(10 * time.Minute)
	err = errors.Join(err, f.appendAhead(record{kind: stamped, at: now.UnixMicro()}))
	s := newState()
	if err := errors.Join(err, s.catchUp(f)); err != nil {
		t.Fatal(err)
	}
	if back := s.grants[id].back; back > now.UnixMicro() {
		t.Errorf("restored %s after the restamp", time.Duration(back-now.UnixMicro())*time.Microsecond)
	}
	if _, err := os.Lstat(f.path(f.hourOf(now))); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v; want nothing in the file of the present hour", err)
	}
}
