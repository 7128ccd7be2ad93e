package metrics

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Write writes what c and more collectors show to a file, which is replaced at
// once, or if that is "" to out. It returns the ledger's error too.
func (c *Collector) Write(out io.Writer, file string, more ...prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more, c)...)
	if file != "" {
		if err := prometheus.WriteToTextfile(file, registry); err != nil { // a new file, renamed: it follows no link
			return fmt.Errorf("metrics file %s: %w; name a file in a folder that this user may write to", file, causeOf(err))
		}
		return c.Err()
	}
	families, err := registry.Gather()
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(out, family); err != nil {
			return err
		}
	}
	return errors.Join(err, c.Err())
}

// causeOf returns an error without the name of the new file, which is random.
func causeOf(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}
