package metrics

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Write writes what c and more collectors show to a file, which is replaced at
// once, or if that is "" to out. It returns the ledger's error too. An error of
// the file is an *fs.PathError.
func (c *Collector) Write(out io.Writer, file string, more ...prometheus.Collector) error {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more, c)...)
	if file != "" {
		err := prometheus.WriteToTextfile(file, registry) // a new file, renamed: it follows no link
		return errors.Join(fileError(file, err), c.Err())
	}
	families, err := registry.Gather()
	for _, family := range families {
		if _, unwritten := expfmt.MetricFamilyToText(out, family); unwritten != nil {
			return errors.Join(unwritten, err, c.Err())
		}
	}
	return errors.Join(err, c.Err())
}

// fileError returns the error of a file, without the name of the new one, which
// is random. Other errors it returns as they are.
func fileError(file string, err error) error {
	var cause error
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		cause = failed.Err
	} else if failed, ok := errors.AsType[*os.LinkError](err); ok {
		cause = failed.Err
	} else {
		return err
	}
	if errors.Is(cause, fs.ErrExist) { // by rename, of a folder
		cause = syscall.EISDIR
	}
	return fmt.Errorf("%w; name a file in a folder that this user may write to",
		&fs.PathError{Op: "metrics file", Path: file, Err: cause})
}
