package journal_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/internal/straced"
)

var (
	aofWrite = regexp.MustCompile(`^\d+ +write\(\d+<[^>]*/appendonly\.aof(?:\.\d+\.incr\.aof)?>, .* = (\d+)$`)
	aofSync  = regexp.MustCompile(`^(\d+) +fdatasync\(\d+<[^>]*/appendonly\.aof(?:\.\d+\.incr\.aof)?>(\) += 0)?`)
	syncDone = regexp.MustCompile(`^(\d+) +<\.\.\. fdatasync resumed>\) += 0`)
)

// syncedBytes returns how much of its AOF a server has written, and how much of
// that was synced, by the trace of its system calls.
func syncedBytes(t *testing.T, trace string) (written, synced int64) {
	t.Helper()
	text, err := os.ReadFile(trace)
	must(t, err)
	syncing := map[string]int64{} // by thread, what was written when its sync began
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if m := aofWrite.FindStringSubmatch(line); m != nil {
			n, err := strconv.ParseInt(m[1], 10, 64)
			must(t, err)
			written += n
		} else if m := aofSync.FindStringSubmatch(line); m != nil {
			syncing[m[1]] = written
			if m[2] != "" {
				synced = written
			}
		} else if m := syncDone.FindStringSubmatch(line); m != nil {
			synced = syncing[m[1]]
		}
	}
	return written, synced
}

// TestPowerCutOfRedisGrantsTwice: a power cut leaves of the AOF what was
// synced, which with everysec is not what was granted last. The host restores
// the rest.
func TestPowerCutOfRedisGrantsTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for Redis to sync its AOF, a second")
	}
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace")
	by := straced.Command(t, trace, "-D", "-y", "-s", "0", "-e", "trace=write,fdatasync")
	server := redistest.StartBy(t, by, aof...)
	u, h := startUpstream(t), redisHost(t, server)
	g := h.process()
	u.spend(t, g, 100)
	redistest.Await(t, "a sync", func() bool {
		_, synced := syncedBytes(t, trace)
		return synced > 0
	})
	u.spend(t, g, 200)
	server.Stop()
	file, _ := aofFile(t, server)
	info, err := os.Stat(file)
	must(t, err)
	var synced int64
	redistest.Await(t, "the end of the trace", func() bool {
		var written int64
		written, synced = syncedBytes(t, trace)
		return written == info.Size()
	})
	must(t, os.Truncate(file, synced))
	server.Restart(t)
	bare := redisHost(t, server).process()
	t.Logf("%d of 300 calls were on the disk", usedOf(t, bare))
	u.exhaust(t, g)
	if n := u.hits.Load(); n != 500 {
		t.Errorf("%d calls reached the upstream; want 500", n)
	}
}
