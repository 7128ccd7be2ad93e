package cli

import (
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/progress"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
)

// Bars shows one bar for each region. Its colours and cursor movements would
// not pass a cli.Writer, so it escapes names itself. The zero Bars
// shows nothing.
type Bars struct {
	writer   progress.Writer
	trackers map[string]*progress.Tracker
	done     chan struct{}
}

// StartBars shows bars on out until Stop.
func StartBars(out io.Writer, regions []jobs.Region, colours bool) *Bars {
	b := &Bars{trackers: map[string]*progress.Tracker{}, writer: progress.NewWriter()}
	b.writer.SetOutputWriter(out)
	b.writer.SetAutoStop(false)
	b.writer.SetTrackerLength(24)
	b.writer.Style().Visibility.ETA = false
	b.writer.Style().Visibility.TrackerOverall = false
	b.writer.Style().Options.PercentFormat = "%3.0f%%"
	b.writer.Style().Options.TimeInProgressPrecision = time.Second
	// What became of a region is in its message, in the words of the table
	// below: a region that a budget stopped has not failed.
	b.writer.Style().Options.Separator = " "
	b.writer.Style().Options.DoneString = ""
	b.writer.Style().Options.ErrorString = string(jobs.Failed)
	if colours {
		b.writer.Style().Colors = progress.StyleColorsExample
	}
	for _, region := range regions {
		pages := int64(0)
		for _, step := range region.Steps {
			pages += int64(step.Pages)
		}
		tracker := &progress.Tracker{Message: Escape(region.Name), Total: pages, Units: progress.Units{
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

// Update shows how far a region has got. It implements jobs.Runner.Progress.
func (b *Bars) Update(p jobs.Progress) {
	tracker := b.trackers[p.Region]
	if tracker == nil {
		return
	}
	tracker.SetValue(int64(p.Pages))
	switch {
	case p.Done && p.Outcome == jobs.Failed:
		tracker.UpdateMessage(Escape(p.Region))
		tracker.MarkAsErrored()
	case p.Done:
		tracker.UpdateMessage(Escape(p.Region + " " + string(p.Outcome)))
		tracker.MarkAsDone()
	case p.Step != "":
		tracker.UpdateMessage(Escape(p.Region + " " + p.Step))
	}
}

// Log prints a line above the bars.
func (b *Bars) Log(line string) { b.writer.Log("%s", Escape(line)) }

// Shown reports whether there are bars on the terminal.
func (b *Bars) Shown() bool { return b.writer != nil }

// Stop waits until the last state is shown.
func (b *Bars) Stop() {
	if b.writer == nil {
		return
	}
	for {
		b.writer.Stop() // does nothing before the writer has begun
		select {
		case <-b.done:
			return
		case <-time.After(time.Millisecond):
		}
	}
}
