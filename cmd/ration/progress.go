package main

import (
	"os"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/ration-dev/ration/cmd/ration/internal/terminal"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs"
)

// bars shows a bar a region on a terminal, and nothing elsewhere. Its colours
// go to the terminal past the visibleWriter, so it escapes names itself.
type bars struct {
	writer   progress.Writer
	trackers map[string]*progress.Tracker
	done     chan struct{}
}

func (a *app) bars(regions []jobs.Region) *bars {
	b := &bars{trackers: map[string]*progress.Tracker{}}
	if !a.terminal || a.quiet || a.json || a.getenv("TERM") == "dumb" {
		return b
	}
	b.writer = progress.NewWriter()
	b.writer.SetOutputWriter(os.Stderr)
	b.writer.SetAutoStop(false)
	b.writer.SetTrackerLength(24)
	b.writer.Style().Visibility.ETA = false
	b.writer.Style().Visibility.TrackerOverall = false
	b.writer.Style().Options.PercentFormat = "%3.0f%%"
	b.writer.Style().Options.TimeInProgressPrecision = time.Second
	// What became of a region is in its message, in the words of the table below:
	// a region that a budget stopped has not failed.
	b.writer.Style().Options.Separator = " "
	b.writer.Style().Options.DoneString = ""
	b.writer.Style().Options.ErrorString = string(jobs.Failed)
	if a.getenv("NO_COLOR") == "" {
		b.writer.Style().Colors = progress.StyleColorsExample
	}
	for _, region := range regions {
		pages := int64(0)
		for _, step := range region.Steps {
			pages += int64(step.Pages)
		}
		tracker := &progress.Tracker{Message: terminal.Escape(region.Name), Total: pages, Units: progress.Units{
			Formatter: func(pages int64) string { return human.Count(pages, "page") }}}
		b.trackers[region.Name] = tracker
		b.writer.AppendTracker(tracker)
	}
	b.done = make(chan struct{})
	go func() {
		defer close(b.done)
		b.writer.Render()
	}()
	return b
}

func (b *bars) update(p jobs.Progress) {
	tracker := b.trackers[p.Region]
	if tracker == nil {
		return
	}
	tracker.SetValue(int64(p.Pages))
	switch {
	case p.Done && p.Outcome == jobs.Failed:
		tracker.UpdateMessage(terminal.Escape(p.Region))
		tracker.MarkAsErrored()
	case p.Done:
		tracker.UpdateMessage(terminal.Escape(p.Region + " " + string(p.Outcome)))
		tracker.MarkAsDone()
	case p.Step != "":
		tracker.UpdateMessage(terminal.Escape(p.Region + " " + p.Step))
	}
}

func (b *bars) stop() {
	if b.writer == nil {
		return
	}
	b.writer.Stop()
	<-b.done
}
