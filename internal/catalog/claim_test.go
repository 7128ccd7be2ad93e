package catalog

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// claimed fails unless a claim for a region gets the wanted channels, in order.
func claimed(t testing.TB, c *Catalog, region string, limit int, want ...string) {
	t.Helper()
	got, err := c.ClaimChannels(t.Context(), region, limit)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("region %q, limit %d: %v (-want +got):\n%s", region, limit, err, diff)
	}
}

// Channels are claimed once within the retention, the missing ones too.
func TestKnownChannelsAreNotClaimed(t *testing.T) {
	c, k := openTest(t)
	commit(t, c, Page{Videos: []Video{{ID: "a", ChannelID: "UC1"}, {ID: "b", ChannelID: "UC2"}, {ID: "c"},
		{ID: "d", ChannelID: "UC1"}}})
	commit(t, c, Page{Region: "GB", Videos: []Video{{ID: "e", ChannelID: "UC3"}}})
	claimed(t, c, "US", 50, "UC1", "UC2")
	claimed(t, c, "US", 1, "UC1")
	claimed(t, c, "GB", 50, "UC3")
	commit(t, c, Page{Step: "channels", Channels: []Channel{{ID: "UC1", Title: "One", Subscribers: count(7)}},
		MissingChannels: []string{"UC2"}, Done: true})
	claimed(t, c, "US", 50)
	if left := one[int](t, c, "SELECT count(*) FROM claims WHERE region = 'US'"); left != 0 {
		t.Errorf("%d claims are left of committed channels; want none", left)
	}
	if n, err := c.Counts(t.Context()); err != nil || n.Channels != 1 {
		t.Errorf("got %+v, %v, want one channel found", n, err)
	}
	k.t = k.t.Add(DefaultRetention)
	claimed(t, c, "US", 50)
	k.t = k.t.Add(time.Millisecond)
	claimed(t, c, "US", 50, "UC1", "UC2")
}

// shared commits a video of each channel for two regions.
func shared(t testing.TB, c *Catalog, channels ...string) {
	t.Helper()
	for _, region := range []string{"US", "GB"} {
		var videos []Video
		for _, id := range channels {
			videos = append(videos, Video{ID: "v" + id, ChannelID: id})
		}
		commit(t, c, Page{Region: region, Videos: videos})
	}
}

func TestTwoRegionsClaimAChannelOnce(t *testing.T) {
	c, k := openTest(t)
	shared(t, c, "UC1", "UC2", "UC3")
	claimed(t, c, "US", 2, "UC3", "UC2")
	claimed(t, c, "GB", 50, "UC1")
	claimed(t, c, "US", 50, "UC3", "UC2") // already its own
	// A committed page ends the claims on its channels only.
	commit(t, c, Page{Step: "channels", Channels: []Channel{{ID: "UC3"}}})
	if err := c.ReleaseClaims(t.Context(), "US"); err != nil {
		t.Fatal(err)
	}
	claimed(t, c, "GB", 50, "UC2", "UC1")
	k.t = k.t.Add(time.Minute)
	if err := c.RenewClaims(t.Context(), "GB"); err != nil {
		t.Fatal(err)
	}
	k.t = k.t.Add(ClaimTime - time.Millisecond)
	claimed(t, c, "US", 50)
	k.t = k.t.Add(time.Millisecond)
	claimed(t, c, "US", 50, "UC2", "UC1")
	// GB does not renew claims that have passed to another region.
	if err := c.RenewClaims(t.Context(), "GB"); err != nil {
		t.Fatal(err)
	}
	claimed(t, c, "GB", 50)
}

// A clock that was set back does not prolong a claim.
func TestClaimsLapseWhenTheClockIsSetBack(t *testing.T) {
	c, k := openTest(t)
	shared(t, c, "UC1")
	claimed(t, c, "US", 50, "UC1")
	k.t = k.t.Add(-time.Hour)
	claimed(t, c, "GB", 50, "UC1")
}

// childClaim claims every channel that it can get for a region, a few at a
// time, and prints their ids. Then it waits to be killed if the test says so.
func childClaim(path, region string) error {
	c, err := Open(path, &Options{Now: func() time.Time { return day0 }})
	if err != nil {
		return err
	}
	for number := range 40 {
		ids, err := c.ClaimChannels(context.Background(), region, 3)
		if err != nil {
			return err
		}
		if len(ids) == 0 {
			fmt.Println()
			break
		}
		for _, id := range ids {
			fmt.Println(id)
		}
		if region == "killed" {
			fmt.Println()
			break
		}
		page := Page{Region: region, Tick: tick, Step: "channels", Number: number, MissingChannels: ids}
		if err := c.Commit(context.Background(), page); err != nil {
			return err
		}
	}
	if region == "killed" {
		select {}
	}
	return c.Close()
}

// readClaims returns the ids that a child prints, up to an empty line.
func readClaims(lines *bufio.Scanner) (ids []string) {
	for lines.Scan() && lines.Text() != "" {
		ids = append(ids, lines.Text())
	}
	return ids
}

// Processes that claim at once get every channel, and none twice.
func TestProcessesClaimAChannelOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	c := openAt(t, path, &clock{t: day0})
	regions := []string{"US", "GB", "DE", "FR"}
	for _, region := range regions {
		p := Page{Region: region}
		for i := range 40 {
			p.Videos = append(p.Videos, Video{ID: fmt.Sprint("v", i), ChannelID: fmt.Sprint("UC", i)})
		}
		commit(t, c, p)
	}
	var all []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, region := range regions {
		cmd := spawn(path, "claim "+region)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			ids := readClaims(bufio.NewScanner(stdout))
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v", region, err)
			}
			mu.Lock()
			defer mu.Unlock()
			all = append(all, ids...)
		})
	}
	wg.Wait()
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != 40 || len(all) != 40 {
		t.Errorf("%d claims of %d channels; want one of each of the 40: %v", len(all), n, all)
	}
}

// The claims of a killed process pass to the next run of its region at once,
// and to other regions after ClaimTime.
func TestClaimsOfAKilledProcessLapse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	k := &clock{t: day0}
	c := openAt(t, path, k)
	commit(t, c, Page{Region: "killed", Videos: []Video{{ID: "a", ChannelID: "UC1"}}})
	commit(t, c, Page{Region: "GB", Videos: []Video{{ID: "a", ChannelID: "UC1"}}})
	cmd := spawn(path, "claim killed")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if ids := readClaims(bufio.NewScanner(stdout)); !slices.Equal(ids, []string{"UC1"}) {
		t.Errorf("the child claimed %v; want UC1", ids)
	}
	cmd.Process.Signal(os.Kill)
	cmd.Wait()
	claimed(t, c, "GB", 50)
	claimed(t, c, "killed", 50, "UC1")
	k.t = day0.Add(ClaimTime)
	claimed(t, c, "GB", 50, "UC1")
}
