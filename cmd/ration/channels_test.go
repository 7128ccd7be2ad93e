package main

import (
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// channelCalls counts how often the upstream was asked for each channel.
func (s *stand) channelCalls() map[string]int {
	asked := map[string]int{}
	for _, a := range s.upstream.Arrivals() {
		for _, ids := range a.Query["id"] {
			for id := range strings.SplitSeq(ids, ",") {
				asked[id]++
			}
		}
	}
	return asked
}

// awaitChannels waits until n channels were asked for.
func (s *stand) awaitChannels(t *testing.T, n int) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); len(s.channelCalls()) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d channels were asked for within half a minute; want %d", len(s.channelCalls()), n)
		}
	}
}

// chartChannels counts the channels of regions' charts.
func chartChannels(data *youtubetest.Data, regions ...string) int {
	channels := map[string]bool{}
	for _, region := range regions {
		for _, v := range data.Chart(region) {
			channels[v.ChannelID] = true
		}
	}
	return len(channels)
}

// TestProcessesPayForAChannelOnce runs a process a region beside a daemon of
// all regions: charts share channels, and each is asked for once.
func TestProcessesPayForAChannelOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes at once, a second")
	}
	t.Parallel()
	data, regions := youtubetest.DefaultData(), []string{"US", "GB", "AU", "CA"}
	s := newStand(t, &youtubetest.Options{Data: data, Latency: 20 * time.Millisecond},
		"{name: all, limit: 9500, window: 24h}", "[trending, channels]", regions...)
	daemon := s.command("serve", "--jitter", "0s", "--parallel", "4")
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	defer daemon.Wait()
	defer daemon.Process.Signal(syscall.SIGTERM)
	var wg sync.WaitGroup
	for _, region := range regions {
		wg.Go(func() {
			if out, err := s.command("run", region).CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", region, err, out)
			}
		})
	}
	wg.Wait()
	s.awaitChannels(t, chartChannels(data, regions...))
	for id, n := range s.channelCalls() {
		if n != 1 {
			t.Errorf("channel %s was asked for %d times; want once", id, n)
		}
	}
}

// TestAKilledRunLosesNoChannel kills a run while it waits for channels. The
// other region goes on without these, and the next run of the killed region
// gets them at once.
func TestAKilledRunLosesNoChannel(t *testing.T) {
	t.Parallel()
	data := youtubetest.DefaultData()
	s := newStand(t, &youtubetest.Options{Data: data}, "{name: all, limit: 9500, window: 24h}", "[trending, channels]",
		"US", "GB")
	s.upstream.Fail(youtubetest.Fault{Method: "channels.list", Delay: -1, Times: 1})
	killed := s.command("run", "US")
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	s.awaitChannels(t, 1)
	lost := s.channelCalls()
	killed.Process.Kill()
	killed.Wait()
	for _, region := range []string{"GB", "US"} {
		if code, out, text := s.run(t, nil, "run", region); code != exitDone {
			t.Fatalf("%s: exit code %d: %s%s", region, code, out, text)
		}
	}
	asked := s.channelCalls()
	for id, n := range asked {
		if n != 1+lost[id] {
			t.Errorf("channel %s was asked for %d times; want %d", id, n, 1+lost[id])
		}
	}
	if want := chartChannels(data, "US", "GB"); len(asked) != want {
		t.Errorf("%d channels were asked for; want the %d of both charts", len(asked), want)
	}
}
