package youtubetest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxControl is the largest body of a request to Control.
const maxControl = 1 << 20

// Control returns a handler that shows and sets over HTTP what the methods of
// the Server do, for tests in other languages:
//
//	GET /meter          {"used":{"default":3},"total":3,"resets":"2026-11-21T08:00:00Z"}
//	GET /arrivals       one object a line: when, which method, region, units and status
//	POST /faults        one Fault, or a list of them; its keys are those of ParseFault
//	DELETE /faults      ends all of them
//	POST /limits        {"default":100} sets limits
//	POST /spend         {"default":100} spends as another program of the project would
//
// A request that changes something must say Content-Type: application/json,
// which no foreign web page can.
func (s *Server) Control() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /meter", func(w http.ResponseWriter, _ *http.Request) {
		writeControl(w, map[string]any{"used": s.Used(), "total": s.Total(), "resets": s.Resets().UTC()})
	})
	mux.HandleFunc("GET /arrivals", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/jsonl")
		lines := json.NewEncoder(w)
		for _, a := range s.Arrivals() {
			_ = lines.Encode(map[string]any{"at": a.At.UTC(), "method": a.Method, "path": a.Path, "query": a.Query,
				"region": a.Region,
				"key_in": a.KeyIn, "bucket": a.Bucket, "units": a.Units, "status": a.Status, "fault": a.Fault})
		}
	})
	mux.HandleFunc("POST /faults", s.change(func(body []byte) error {
		faults, err := parseFaults(body)
		if err == nil {
			s.Fail(faults...)
		}
		return err
	}))
	mux.HandleFunc("DELETE /faults", func(w http.ResponseWriter, _ *http.Request) {
		s.ClearFaults()
		w.WriteHeader(http.StatusNoContent)
	})
	mux.HandleFunc("POST /limits", s.change(func(body []byte) error { return s.eachBucket(body, s.SetLimit) }))
	mux.HandleFunc("POST /spend", s.change(func(body []byte) error { return s.eachBucket(body, s.SpendElsewhere) }))
	return mux
}

func writeControl(w http.ResponseWriter, answer any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer)
}

// change returns a handler that applies the body of a request.
func (s *Server) change(apply func(body []byte) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxControl))
		switch {
		case strings.TrimSpace(kind) != "application/json":
			err = errors.New("say Content-Type: application/json")
		case err == nil:
			err = apply(body)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// eachBucket calls f for each bucket in a JSON object of units.
func (s *Server) eachBucket(body []byte, f func(bucket string, units int64)) error {
	var units map[string]int64
	if err := decodeStrict(body, &units); err != nil {
		return err
	}
	known := s.Used()
	for bucket, n := range units {
		if _, ok := known[bucket]; !ok || n < 0 {
			return fmt.Errorf("%q: %d: give 0 or more units of a bucket that the model has", bucket, n)
		}
	}
	for bucket, n := range units {
		f(bucket, n)
	}
	return nil
}

// deliveries are the names of a Fault's deliveries.
var deliveries = map[string]Delivery{"": Whole, "whole": Whole, "dropped": Dropped, "cut_short": CutShort,
	"stalled": Stalled, "halved": Halved}

// faultJSON is a Fault in a request or a flag.
type faultJSON struct {
	Method   string      `json:"method"`
	Region   string      `json:"region"`
	Skip     int         `json:"skip"`
	Every    int         `json:"every"`
	Times    int         `json:"times"`
	Delay    string      `json:"delay"` // such as 2s
	Status   int         `json:"status"`
	Reason   string      `json:"reason"`
	Body     string      `json:"body"`
	Header   faultHeader `json:"header"`
	Delivery string      `json:"delivery"` // dropped, cut_short, stalled or halved
	Free     bool        `json:"free"`
}

// faultHeader is a header. In JSON a value may be a string, or a list of
// strings.
type faultHeader http.Header

// UnmarshalJSON implements json.Unmarshaler.
func (h *faultHeader) UnmarshalJSON(data []byte) error {
	var values map[string]any
	if err := json.Unmarshal(data, &values); err != nil {
		return errors.New("header is not an object")
	}
	header := http.Header{}
	for name, value := range values {
		list, ok := value.([]any)
		if !ok {
			list = []any{value}
		}
		for _, one := range list {
			text, ok := one.(string)
			if !ok {
				return fmt.Errorf("header %q: write a string, or a list of strings", name)
			}
			header.Add(name, text)
		}
	}
	*h = faultHeader(header)
	return nil
}

func parseFaults(body []byte) (faults []Fault, err error) {
	list := []faultJSON{}
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("[")) {
		err = decodeStrict(body, &list)
	} else {
		list = append(list, faultJSON{})
		err = decodeStrict(body, &list[0])
	}
	for i := 0; i < len(list) && err == nil; i++ {
		var f Fault
		f, err = list[i].fault()
		faults = append(faults, f)
	}
	return faults, err
}

func decodeStrict(body []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s has the wrong type, %s", cmp.Or(wrong.Field, "the body"), wrong.Value)
	}
	return err
}

func (j *faultJSON) fault() (f Fault, err error) {
	delivery, ok := deliveries[j.Delivery]
	switch j.Method {
	case "", "search.list", "videos.list", "channels.list", "videoCategories.list", "i18nRegions.list":
	default:
		return f,
			fmt.Errorf("method %q: write search.list, videos.list, channels.list, videoCategories.list or "+
				"i18nRegions.list", j.Method)
	}
	switch {
	case !ok:
		return f, fmt.Errorf("delivery %q: write dropped, cut_short, stalled or halved", j.Delivery)
	case j.Status != 0 && (j.Status < 200 || j.Status > 599):
		return f, fmt.Errorf("status %d: write one from 200 to 599", j.Status)
	case j.Skip < 0 || j.Every < 0:
		return f, errors.New("skip and every are 0 or more")
	}
	f = Fault{Method: j.Method, Region: j.Region, Skip: j.Skip,
		Every: j.Every, Times: j.Times, Status: j.Status,
		Reason: j.Reason, Body: j.Body,
		Header: http.Header(j.Header), Delivery: delivery, Free: j.Free}
	if j.Delay != "" {
		if f.Delay, err = time.ParseDuration(j.Delay); err != nil {
			return f, fmt.Errorf("delay %q: write a duration, such as 2s", j.Delay)
		}
	}
	return f, nil
}

// ParseFault parses words such as status=503,every=2,times=-1. The keys are
// method, region, skip, every, times, delay, status, reason, delivery
// (dropped, cut_short, stalled or halved) and free; the values mean what they
// mean in Fault.
func ParseFault(text string) (Fault, error) {
	fields := map[string]any{}
	for word := range strings.SplitSeq(text, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		if !ok {
			return Fault{}, fmt.Errorf("%q: write KEY=VALUE, such as status=503", word)
		}
		fields[key] = value
		switch key {
		case "skip", "every", "times", "status":
			n, err := strconv.Atoi(value)
			if err != nil {
				return Fault{}, fmt.Errorf("%s: %q is not an integer", key, value)
			}
			fields[key] = n
		case "free":
			b, err := strconv.ParseBool(value)
			if err != nil {
				return Fault{}, fmt.Errorf("free: write true or false, not %q", value)
			}
			fields[key] = b
		case "method", "region", "delay", "reason", "delivery", "body":
		default:
			return Fault{},
				fmt.Errorf("unknown key %q: write method, region, skip, every, times, delay, status, reason, "+
					"delivery or free", key)
		}
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return Fault{}, err
	}
	faults, err := parseFaults(body)
	if err != nil {
		return Fault{}, err
	}
	return faults[0], nil
}
