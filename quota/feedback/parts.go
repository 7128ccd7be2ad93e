package feedback

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/ration-dev/ration/quota"
)

// maxParts is the most answers that are read in one.
const maxParts = 1000

// partsOf returns the answers that an answer to a batch holds: a
// multipart/mixed body with an HTTP response in each part. isWhole is false if
// the body was cut off, if it has more than maxParts parts, or if one of them
// is not an answer. A body of more than 64 KiB is not read.
func partsOf(resp *http.Response) (parts []*http.Response, isWhole bool) {
	kind, parameters, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/mixed" || resp.ContentLength > maxBody {
		return nil, false
	}
	body, isWhole := peek(resp, maxBody, nil)
	if !isWhole {
		return nil, false
	}
	reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	buffer := bufio.NewReader(nil)
	for len(parts) < maxParts {
		part, err := reader.NextPart()
		if err != nil {
			return parts, isWhole && errors.Is(err, io.EOF)
		}
		buffer.Reset(part)
		one, err := http.ReadResponse(buffer, nil) //nolint:bodyclose // it is in memory
		if err != nil {
			return parts, false
		}
		text, err := io.ReadAll(one.Body)
		one.Body = io.NopCloser(bytes.NewReader(text)) //nolint:bodyclose // there is nothing to close
		one.ContentLength = int64(len(text))
		one.Request = resp.Request
		if one.Header.Get("Date") == "" {
			one.Header["Date"] = resp.Header["Date"]
		}
		isStatus := 100 <= one.StatusCode && one.StatusCode <= 599
		isAnswer := isStatus && !isParts(one)
		isWhole = isWhole && isAnswer && err == nil
		if isAnswer {
			parts = append(parts, one) //nolint:bodyclose // it is in memory
		}
	}
	return parts, false
}

// isParts reports whether an answer may hold others.
func isParts(resp *http.Response) bool {
	const begin = "multipart/"
	kind := single(resp.Header, "Content-Type")
	return len(kind) > len(begin) && strings.EqualFold(kind[:len(begin)], begin)
}

// readWorst reads the answers to the calls of a batch. The one that stops most
// or longest decides. If all of them are there, their number says what the
// batch cost. The same request is not sent again, since parts of it were done.
func (r *reader) readWorst(
	call quota.Call, parts []*http.Response, isWhole bool,
) (v quota.Verdict, out *outcome, h *halt) {
	for _, part := range parts {
		one, itsOutcome, itsHalt := r.read(call, part)
		isWorse := one.Never && !v.Never || one.For > v.For
		if out == nil || isWorse {
			v = one
			out, h = itsOutcome, itsHalt
		}
	}
	v.Later, v.Units = nil, 0
	v.Measures = nil
	v.Transient, v.After = false, 0
	v.Settled, v.Undocumented = false, false
	v.Free = false
	if isWhole && r.PerCall != nil {
		if each := r.PerCall(call); each > 0 {
			v.Settled, v.Units = true, min(each*quota.Units(len(parts)), quota.MaxUnits)
		}
	}
	return v, out, h
}
